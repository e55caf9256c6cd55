"""The demo's proof: it holds only when every object is as the story says, and names what is not."""

import shutil
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakegc_dagster.demo.proof import ApiReader, prove
from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.history import documents_history
from spark_core.addresses.namespace import Namespace
from spark_core.lakefs import ServerOptions
from spark_core.storage import StoreOptions, open_store

# Other bytes of it are staged on main.
STAGED = "f_0326"


class Collected:
    """A repository with a past, collected by hand: exactly what its story says is gone."""

    def __init__(self, sandbox: Sandbox):
        told = documents_history(sandbox, "repo", now=datetime.now(UTC))
        # The proof asks about each file three times, so some of each kind are enough.
        kinds = defaultdict(list)
        for file in told.files:
            kinds[file.ref is None, file.deleted].append(file)
        some = [file for kind in kinds.values() for file in kind[:10]]
        staged = [file for file in told.files if file.path == STAGED and file not in some]
        self.story = replace(told, files=(*some, *staged))
        self.files = sandbox.blockstore / "repo"
        self.reader = ApiReader(
            ServerOptions(sandbox.endpoint, sandbox.access_key_id, sandbox.secret_access_key),
            self.story.repository_id,
        )
        local = str(sandbox.blockstore)
        namespace = Namespace.parse(self.story.storage_namespace, server_path=local)
        self.store = open_store(namespace, StoreOptions(local_path=local))
        for file in {*told.files} - {*self.story.kept}:
            self.file(file).unlink()

    def file(self, file) -> Path:
        return self.files / file.address

    def prove(self):
        return prove(self.story, self.reader, self.store)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        yield running


@pytest.fixture(scope="module")
def original(sandbox):
    return Collected(sandbox)


@pytest.fixture
def collected(original, tmp_path):
    """The collected repository; what a test does to its files is undone."""
    saved = shutil.copytree(original.files / "data", tmp_path / "data")
    yield original
    shutil.rmtree(original.files / "data")
    shutil.copytree(saved, original.files / "data")


def _first(files, *, ref):
    return next(file for file in files if (file.ref is not None) == ref)


def test_it_holds_when_exactly_the_foretold_objects_are_gone(collected):
    proof = collected.prove()
    assert proof.holds
    assert proof.failures == ()
    assert proof.answered_gone + proof.absent == len(collected.story.deleted)
    assert proof.read + proof.read_from_store == proof.listed == len(collected.story.kept)
    assert min(proof.answered_gone, proof.absent, proof.read, proof.read_from_store) > 0


@pytest.mark.slow
@pytest.mark.parametrize("ref", [True, False])
def test_a_kept_object_that_is_missing_is_named(collected, ref):
    lost = _first(collected.story.kept, ref=ref)
    collected.file(lost).unlink()
    proof = collected.prove()
    assert not proof.holds
    assert any(lost.path in failure and "was to be kept" in failure for failure in proof.failures)


@pytest.mark.parametrize("ref", [True, False])
def test_a_kept_object_with_other_bytes_is_named(collected, ref):
    changed = _first(collected.story.kept, ref=ref)
    collected.file(changed).write_bytes(changed.data + b"!")
    proof = collected.prove()
    assert not proof.holds
    assert any(
        changed.address in failure and "not as it was written" in failure
        for failure in proof.failures
    )


def test_a_deleted_object_that_can_still_be_read_is_named(collected):
    alive = _first(collected.story.deleted, ref=True)
    collected.file(alive).parent.mkdir(parents=True, exist_ok=True)
    collected.file(alive).write_bytes(alive.data)
    proof = collected.prove()
    assert not proof.holds
    assert proof.answered_gone == sum(file.ref is not None for file in collected.story.deleted) - 1
    assert any(
        f"{alive.path} at {alive.ref} can still be read" in failure for failure in proof.failures
    )


def test_a_deleted_object_that_no_path_leads_to_is_looked_for_in_the_store(collected):
    left = _first(collected.story.deleted, ref=False)
    collected.file(left).parent.mkdir(parents=True, exist_ok=True)
    collected.file(left).write_bytes(left.data)
    proof = collected.prove()
    assert not proof.holds
    assert any(f"{left.address} is still in the store" in failure for failure in proof.failures)


def test_an_object_that_nobody_put_there_is_named(collected):
    (collected.files / "data" / "stranger").write_bytes(b"?")
    assert collected.prove().failures == ("data/stranger is in the store, and nobody put it there",)


def test_a_path_that_is_read_from_another_address_is_named(collected):
    twin = next(file for file in collected.story.kept if file.path == STAGED and file.ref == "main")
    elsewhere = replace(twin, ref="main@")
    story = replace(
        collected.story,
        files=tuple(elsewhere if file is twin else file for file in collected.story.files),
    )
    proof = prove(story, collected.reader, collected.store)
    assert any(f"{STAGED} at main@ is read from" in failure for failure in proof.failures)


@pytest.mark.slow
def test_a_ref_that_is_gone_is_no_proof_of_deletion(collected):
    gone = _first(collected.story.deleted, ref=True)
    lost_ref = replace(gone, ref="no-such-branch")
    story = replace(
        collected.story,
        files=tuple(lost_ref if file is gone else file for file in collected.story.files),
    )
    proof = prove(story, collected.reader, collected.store)
    assert not proof.holds
    assert any("answers 404, wanted 410" in failure for failure in proof.failures)


def test_nothing_to_prove_is_no_proof(collected):
    story = replace(collected.story, files=collected.story.kept)
    assert not prove(story, collected.reader, collected.store).holds
