"""Marks and sweeps with just the permissions of docs/security.md on each store, and without each of
them.

Whole runs show that they suffice; what is taken out one by one is tried on the
operations of which a mark and a sweep are made, which need no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import PermissionDeniedError, TransientError
from spark_core.storage import ObjectStore, StoreOptions, open_store
from spark_core.storage.probes import honours_conditional_put, read_clock, require_deletable
from tests.support import azurite, gcs_emulator, permission_gate
from tests.support.moto_s3 import moto_s3
from tests.support.moved_repository import collected_exactly
from tests.support.permission_gate import Gate, GcsNeeds, gate
from tests.support.policy_page import policy
from tests.support.scripted_s3 import Answer, Request

PATH = "lake/ns"
OWN = "_lakefs/retention/gc/drill/"


@dataclass
class Backend:
    """An emulator with a bucket of its own, and gates before it.

    Attributes:
        uri: The namespace.
        mark: What the page gives for a mark ...
        sweep: ... and for a sweep, besides ...
        restore: ... or for bringing objects back.
        put: Writes an object below the namespace by a plain client.
        names: Lists what lies below the namespace by a plain client.
        take: Takes an object away by a plain client.
        guarded: Opens a gate for a policy and gives it with the options that lead through it.
        actions: The actions of a policy.
    """

    uri: str
    mark: list[Any]
    sweep: list[Any]
    restore: list[Any]
    put: Callable[[str, bytes], object]
    names: Callable[[], set[str]]
    take: Callable[[str], object]
    guarded: Callable[[list[Any]], Any]
    actions: Callable[[list[Any]], list[str]]

    @contextmanager
    def store(self, allowed: list[Any]) -> Iterator[tuple[ObjectStore, Gate]]:
        """A store that gets through what is allowed."""
        with self.guarded(allowed) as (options, running):
            yield open_store(Namespace.parse(self.uri), options), running


def _without(documents: list[Any], action: str) -> list[Any]:
    """Take an action out of a policy, wherever it stands."""

    def pruned(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: pruned(each) for name, each in value.items()}
        if isinstance(value, list):
            return [pruned(each) for each in value if each != action]
        return [] if value == action else value

    return [pruned(document) for document in documents]


@pytest.fixture(scope="module")
def s3() -> Iterator[Backend]:
    with moto_s3() as server:
        bucket, client = server.bucket(), server.client()
        words = {"BUCKET": bucket, "PATH": PATH}

        @contextmanager
        def guarded(allowed: list[Any]) -> Iterator[tuple[StoreOptions, Gate]]:
            needs = permission_gate.s3_needs
            with gate(
                server.endpoint,
                needs,
                permission_gate.s3_allows(*allowed),
                permission_gate.s3_refusal,
                permission_gate.s3_absent,
            ) as running:
                yield server.options(s3_endpoint=running.endpoint), running

        def names() -> set[str]:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=f"{PATH}/"
            )
            return {
                found["Key"].removeprefix(f"{PATH}/")
                for page in pages
                for found in page.get("Contents", [])
            }

        yield Backend(
            f"s3://{bucket}/{PATH}",
            [policy("s3-mark", **words)],
            [policy("s3-sweep", **words)],
            [policy("s3-restore", **words)],
            lambda key, data: client.put_object(Bucket=bucket, Key=f"{PATH}/{key}", Body=data),
            names,
            lambda key: client.delete_object(Bucket=bucket, Key=f"{PATH}/{key}"),
            guarded,
            lambda documents: [
                action
                for document in documents
                for statement in document["Statement"]
                for action in (
                    statement["Action"]
                    if isinstance(statement["Action"], list)
                    else [statement["Action"]]
                )
            ],
        )


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    if azurite.why_not() is not None:
        pytest.skip(str(azurite.why_not()))
    with azurite.azurite(tmp_path_factory.mktemp("azurite")) as server:
        container = server.container()

        @contextmanager
        def guarded(allowed: list[Any]) -> Iterator[tuple[StoreOptions, Gate]]:
            upstream = server.endpoint.removesuffix(f"/{azurite.ACCOUNT}")
            with gate(
                upstream,
                permission_gate.azure_needs,
                permission_gate.azure_allows(*allowed),
                permission_gate.azure_refusal,
            ) as running:
                yield (
                    server.options(azure_endpoint=f"{running.endpoint}/{azurite.ACCOUNT}"),
                    running,
                )

        yield Backend(
            azurite.uri(container, PATH),
            policy("azure-mark", PATH=PATH),
            policy("azure-sweep", PATH=PATH),
            policy("azure-restore", PATH=PATH),
            lambda key, data: container.upload_blob(f"{PATH}/{key}", data, overwrite=True),
            lambda: {name.removeprefix(f"{PATH}/") for name in container.list_blob_names()},
            lambda key: container.delete_blob(f"{PATH}/{key}"),
            guarded,
            lambda documents: [
                action for each in documents for action in each["role"]["dataActions"]
            ],
        )


@pytest.fixture(scope="module")
def gcs() -> Iterator[Backend]:
    if gcs_emulator.why_not() is not None:
        pytest.skip(str(gcs_emulator.why_not()))
    with gcs_emulator.gcs_emulator() as server:
        bucket, needs = server.bucket(), GcsNeeds()
        words = {"BUCKET": bucket.name, "PATH": PATH}

        @contextmanager
        def guarded(allowed: list[Any]) -> Iterator[tuple[StoreOptions, Gate]]:
            with gate(
                server.endpoint,
                needs,
                permission_gate.gcs_allows(*allowed),
                permission_gate.gcs_refusal,
            ) as running:
                yield server.options(gcs_endpoint=running.endpoint), running

        yield Backend(
            f"gs://{bucket.name}/{PATH}",
            policy("gcs-mark", **words),
            policy("gcs-sweep", **words),
            policy("gcs-restore", **words),
            lambda key, data: bucket.blob(f"{PATH}/{key}").upload_from_string(data),
            lambda: {blob.name.removeprefix(f"{PATH}/") for blob in bucket.list_blobs()},
            lambda key: bucket.delete_blob(f"{PATH}/{key}"),
            guarded,
            lambda documents: [action for each in documents for action in each["permissions"]],
        )


@pytest.fixture(params=["s3", "azure", "gcs"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def _marks(store: ObjectStore) -> None:
    """What a mark asks of a store."""
    list(store.list("data/"))
    store.children("data/")
    assert store.read("_lakefs/table") == b"table"
    assert not store.exists(f"{OWN}verdict.json")
    # Written anew by each mark, and read; then what a broken attempt left is taken away.
    read_clock(store)
    read_clock(store)
    store.put(f"{OWN}part", b"part")
    assert store.read(f"{OWN}part") == b"part"
    (outcome,) = store.delete([f"{OWN}part"])
    _require_done(outcome)


def _sweeps(store: ObjectStore) -> None:
    """What a sweep asks of a store, besides."""
    assert honours_conditional_put(store, f"{OWN}probe")
    require_deletable(store)
    assert store.head("data/s/dead").size_bytes == 4
    (outcome,) = store.delete(["data/s/dead"])
    _require_done(outcome)


def _moves(store: ObjectStore) -> None:
    """What a sweep into quarantine asks of a store, besides."""
    store.copy("data/s/dead", f"{OWN}quarantined")
    (outcome,) = store.delete(["data/s/dead"])
    _require_done(outcome)


def _brings_back(store: ObjectStore) -> None:
    """What bringing an object back out of quarantine asks of a store."""
    store.copy(f"{OWN}quarantined", "data/s/dead")
    (outcome,) = store.delete([f"{OWN}quarantined"])
    _require_done(outcome)


def _require_done(outcome: Any) -> None:
    if outcome.outcome == "refused":
        raise PermissionDeniedError(f"{outcome}")
    assert outcome.outcome == "deleted", outcome


def _fill(backend: Backend) -> None:
    for key, data in {
        "_lakefs/table": b"table",
        "data/s/dead": b"dead",
        "data/s/live": b"live",
    }.items():
        backend.put(key, data)


@pytest.mark.slow
def test_the_page_suffices_for_what_a_mark_and_a_sweep_ask_and_nothing_of_it_is_left_over(
    backend: Backend,
) -> None:
    _fill(backend)
    with (
        backend.store(backend.mark) as (store, mark),
        backend.store(backend.mark + backend.sweep) as (other, sweep),
    ):
        _marks(store)
        _sweeps(other)
    assert not mark.refused
    assert not sweep.refused
    assert mark.actions | sweep.actions | {"s3:AbortMultipartUpload"} >= set(
        backend.actions(backend.mark + backend.sweep)
    )
    # A marking credential looks at data by listing it, and in no other way; on Azure reading cannot
    # be told from that.
    assert not [use for use in mark.used if f"{PATH}/data/" in use.resource]
    assert "data/s/live" in backend.names()
    assert "data/s/dead" not in backend.names()


def test_a_marking_credential_is_refused_every_deletion_of_data(backend: Backend) -> None:
    _fill(backend)
    with backend.store(backend.mark) as (store, _):
        with pytest.raises(PermissionDeniedError, match="may list but not delete"):
            require_deletable(store)
        outcomes = store.delete(["data/s/dead", "data/s/live"])
    assert [outcome.outcome for outcome in outcomes] == ["refused", "refused"]
    assert {"data/s/dead", "data/s/live"} <= backend.names()


@pytest.mark.slow
def test_without_any_permission_of_the_page_its_use_is_refused_and_no_data_is_deleted(
    backend: Backend,
) -> None:
    for action in dict.fromkeys(backend.actions(backend.mark)):
        if action == "s3:AbortMultipartUpload":
            continue  # below: only a write that breaks off asks for it
        _fill(backend)
        with backend.store(_without(backend.mark, action)) as (store, running):
            with pytest.raises((PermissionDeniedError, TransientError), match=r"refuse|could not"):
                _marks(store)
            assert {use.action for use in running.refused} == {action}
        assert {"data/s/dead", "data/s/live"} <= backend.names()
    for action in dict.fromkeys(backend.actions(backend.sweep)):
        _fill(backend)
        allowed = backend.mark + _without(backend.sweep, action)
        with backend.store(allowed) as (store, running):
            with pytest.raises(PermissionDeniedError, match="refuse"):
                _sweeps(store)
            assert {use.action for use in running.refused} == {action}
        assert {"data/s/dead", "data/s/live"} <= backend.names()


@pytest.mark.slow
def test_quarantine_needs_what_a_sweep_needs_and_bringing_back_needs_no_deletion_of_data(
    backend: Backend,
) -> None:
    _fill(backend)
    with backend.store(backend.mark + backend.sweep) as (store, running):
        _moves(store)
    assert not running.refused
    assert "data/s/dead" not in backend.names()
    for action in dict.fromkeys(backend.actions(backend.restore)):
        with backend.store(backend.mark + _without(backend.restore, action)) as (store, running):
            with pytest.raises(PermissionDeniedError, match="refuse"):
                _brings_back(store)
            assert {use.action for use in running.refused} == {action}
        assert f"{OWN}quarantined" in backend.names()
    with backend.store(backend.mark + backend.restore) as (store, running):
        _brings_back(store)
        assert [outcome.outcome for outcome in store.delete(["data/s/live"])] == ["refused"]
    assert {use.resource.rpartition("/")[2] for use in running.refused} == {"live"}
    assert {"data/s/dead", "data/s/live"} <= backend.names()


def test_a_write_that_breaks_off_takes_its_parts_away_by_the_permission_for_that(
    s3: Backend,
) -> None:
    with s3.store(s3.mark) as (store, running):

        def broken(request: Request, forward: Any) -> Answer:
            return (
                Answer(403, b"<Error><Code>AccessDenied</Code></Error>")
                if "partNumber" in request.query
                else forward(request)
            )

        running.proxy.meddle(broken)
        with pytest.raises(PermissionDeniedError):
            store.put(f"{OWN}large", bytes(12 << 20))
        assert "s3:AbortMultipartUpload" in running.actions
        assert not running.refused


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "backend",
    ["s3", *(pytest.param(name, marks=pytest.mark.deep) for name in ("azure", "gcs"))],
    indirect=True,
)
def test_a_whole_run_needs_nothing_but_what_the_page_gives(
    backend: Backend, tmp_path: Any, spark: Any
) -> None:
    for name in backend.names():
        backend.take(name)
    with (
        backend.guarded(backend.mark) as (marking, mark),
        backend.guarded(backend.mark + backend.sweep) as (
            sweeping,
            sweep,
        ),
    ):
        collected_exactly(
            backend.uri,
            marking,
            tmp_path,
            spark,
            put=backend.put,
            names=backend.names,
            sweep_with=sweeping,
        )
    assert not mark.refused
    assert not sweep.refused
    assert not [use for use in mark.used if f"{PATH}/data/" in use.resource]
