"""Parts of tables as tasks write them: their names, and small ones that lie in a manifest."""

from dataclasses import replace

import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.errors import CorruptTableError
from spark_core.records import reading, tables, writing
from spark_core.records.manifest import Manifest
from spark_core.records.writing import Draft, Target, Written
from tests.support.written_run import OLD, written_run


def test_a_task_that_runs_twice_never_writes_to_the_same_name(tmp_path):
    """A cluster may repeat a task while its first try is cut off and still writes.

    What is stored must stay as it was hashed.
    """
    run = written_run(tmp_path, spark=None).run
    target = Target(run.store, "_lakefs/x/", "attempt", schemas.STAGED_ADDRESSES, None)
    rows = pa.table({"address": ["data/s/x"], "created_at": [OLD]}).cast(schemas.STAGED_ADDRESSES)
    tries = [writing.write_parts(target, 3, iter(rows.to_batches())) for _ in range(2)]
    keys = [part.key for receipt in tries for part in receipt.parts]
    assert len(set(keys)) == 2
    assert all(run.store.exists(key) for key in keys)


def _held_target(run, holds):
    return Target(run.store, "_lakefs/x/", "attempt", schemas.STAGED_ADDRESSES, holds=holds)


def _manifest_of(run, receipt):
    written = Written("attempt", [], [receipt])
    draft = Draft(tables.TAKEN_RANGES, written, OLD, parents=(), is_enclosed=True)
    return run.keep(draft).manifest


ROWS = pa.table({"address": ["data/s/x"], "created_at": [OLD]}, schema=schemas.STAGED_ADDRESSES)


def test_a_small_file_lies_in_the_manifest_and_is_read_from_there(tmp_path):
    run = written_run(tmp_path, spark=None).run
    receipt = writing.write_parts(_held_target(run, 10_000), 0, iter(ROWS.to_batches()))
    (part,) = receipt.parts
    assert not run.store.exists(part.key)
    assert part.size_bytes == len(part.held)
    manifest = _manifest_of(run, receipt)
    again = Manifest.from_json(manifest.to_json(), name="m")
    assert (again, again.sha256) == (manifest, manifest.sha256)
    (batch,) = reading.read_part(run.store, ROWS.schema, again.beside[0])
    assert pa.Table.from_batches([batch]) == ROWS


def test_a_file_that_is_too_large_or_written_by_an_executor_is_stored(tmp_path, monkeypatch):
    run = written_run(tmp_path, spark=None).run
    for by_executor in (False, True):
        if by_executor:
            monkeypatch.setattr(writing, "attempt", lambda: "an attempt")
        target = _held_target(run, 10_000 if by_executor else 10)
        receipt = writing.write_parts(target, 0, iter(ROWS.to_batches()))
        (part,) = receipt.parts
        assert run.store.exists(part.key)
        assert "content" not in _manifest_of(run, receipt).document()["beside"][0]
        (batch,) = reading.read_part(run.store, ROWS.schema, part)
        assert pa.Table.from_batches([batch]) == ROWS


def test_a_small_file_whose_bytes_are_not_those_of_its_hash_is_refused(tmp_path):
    run = written_run(tmp_path, spark=None).run
    receipt = writing.write_parts(_held_target(run, 10_000), 0, iter(ROWS.to_batches()))
    other = replace(receipt.parts[0], content="UEFSMQ==")
    with pytest.raises(CorruptTableError, match="the manifest says"):
        list(reading.read_part(run.store, ROWS.schema, other))
