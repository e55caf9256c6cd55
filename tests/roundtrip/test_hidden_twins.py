"""Twins that hide well: entries without checksum, from elsewhere, of a size that a client said."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lakegc_dagster.sandbox import objects, refs, repositories
from spark_core import schemas
from spark_core.lakefs import EntriesPage
from spark_core.mark import twins
from spark_core.model import Branch
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_runs import open_sandbox_run

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=40)
MD5, RE_ENCRYPTED = "a" * 32, "b" * 32
COMMITTED, TWIN = "data/s/committed", "data/s/twin"


def _listing(spark, *rows):
    columns = [
        {"slice": "s", "address": address, "size_bytes": 4, "last_modified": LONG_AGO, "checksum": checksum}
        for address, checksum in rows
    ]
    return spark.createDataFrame(pa.Table.from_pylist(columns, schema=schemas.NAMESPACE_SLICES))


def _heads(spark):
    return spark.createDataFrame(
        [(COMMITTED, 4, bytearray(b"p"), MD5)], "address string, size_bytes long, head_path binary, checksum string"
    )


def _answering_from_the_twin(spark, twin_calls):
    """A run whose only branch answers path `p` from the twin."""
    server = SimpleNamespace(
        branches=lambda _repository: [Branch("main", "c")],
        list_entries=lambda _repository, _ref, *, after: EntriesPage(
            [] if after >= "p" else [("p", TWIN)], has_more=False
        ),
    )
    return SimpleNamespace(
        server=server,
        spark=spark,
        repository=SimpleNamespace(id="repo"),
        namespace=SimpleNamespace(relative_absolute=lambda uri: uri),
        options=SimpleNamespace(twin_calls=twin_calls),
    )


@pytest.mark.spark
def test_an_unchecked_twin_is_kept_although_its_checksum_is_another(spark):
    candidates = _listing(spark, (TWIN, RE_ENCRYPTED))
    run = _answering_from_the_twin(spark, twin_calls=0)
    found = twins.find(run, candidates, _heads(spark))
    assert found.facts["unchecked_named"] == [TWIN]
    assert [row.address for row in candidates.transform(found.without_twins).collect()] == []


@pytest.mark.spark
def test_a_twin_written_after_the_bucket_began_to_encrypt_is_found(spark):
    candidates = _listing(spark, (TWIN, RE_ENCRYPTED))
    run = _answering_from_the_twin(spark, twin_calls=10)
    found = twins.find(run, candidates, _heads(spark))
    assert [row.address for row in candidates.transform(found.without_twins).collect()] == []


def _stage(sandbox, path, *, address, checksum, size):
    objects.stage(
        sandbox.core,
        "repo",
        "main",
        path,
        physical_address=address,
        checksum=checksum,
        size_bytes=size,
        content_type=None,
        metadata=None,
        mtime=None,
        link=False,
    )


@pytest.mark.spark
def test_a_twin_of_an_entry_that_lies_outside_the_namespace_is_kept(sandbox, spark):
    with sandbox.core.lock, sandbox.clock.at(LONG_AGO):
        repositories.create(sandbox.core, "repo", "local://repo")
        probe = objects.upload(sandbox.core, "repo", "main", "p", b"same")
        objects.reset(sandbox.core, "repo", "main", "reset")
        _stage(
            sandbox,
            "p",
            address=f"local://{sandbox.blockstore.parent}/elsewhere/object",
            checksum=probe.checksum,
            size=4,
        )
        refs.commit(sandbox.core, "repo", "main", message="staged from elsewhere")
        twin = objects.upload(sandbox.core, "repo", "main", "p", b"same")
    sandbox.clock.set(NOW)
    assert objects.read(sandbox.core, "repo", "main", "p")[0].address == twin.address
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    marked, found, _ = mark_and_conclude(run)
    assert twin.address not in marked.addresses(run), f"live, and the verdict says passed = {found.passed}"


@pytest.mark.spark
def test_a_twin_whose_size_in_the_entries_is_what_a_client_said_is_kept(sandbox, spark):
    with sandbox.core.lock, sandbox.clock.at(LONG_AGO):
        repositories.create(sandbox.core, "repo", "local://repo")
        said = {"checksum": "said-by-the-client", "size": 0}
        first = objects.upload(sandbox.core, "repo", "main", "scratch", b"first").address
        twin = objects.upload(sandbox.core, "repo", "main", "scratch", b"again").address
        objects.reset(sandbox.core, "repo", "main", "reset")
        _stage(sandbox, "p", address=f"local://{sandbox.blockstore}/repo/{first}", **said)
        refs.commit(sandbox.core, "repo", "main", message="linked")
        _stage(sandbox, "p", address=f"local://{sandbox.blockstore}/repo/{twin}", **said)
    sandbox.clock.set(NOW)
    assert objects.read(sandbox.core, "repo", "main", "p")[1] == b"again"
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    marked, found, _ = mark_and_conclude(run)
    assert twin not in marked.addresses(run), f"live, and the verdict says passed = {found.passed}"
