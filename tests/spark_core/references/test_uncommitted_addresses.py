"""Staged entries on their way to Spark.

What is many does not stay with the driver, nor in the store.
"""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakegc_dagster.sandbox import Sandbox, objects, refs, repositories
from spark_core import mark, schemas
from spark_core.addresses.namespace import Namespace
from spark_core.errors import CorruptTableError, IncompleteReadError, TransientError
from spark_core.records import storing, tables
from spark_core.references.parts_of_look import LookParts
from spark_core.references.uncommitted_addresses import Diffs, _read, read_staged
from spark_core.spark import placement
from spark_core.storage import StoreOptions, open_store
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark


def _batch(*addresses):
    rows = [{"address": address, "created_at": None} for address in addresses]
    return pa.RecordBatch.from_pylist(rows, schema=schemas.STAGED_ADDRESSES)


def _addresses(store, told):
    return sorted(
        address
        for batch in _read(store, told, Counter())
        for address in batch["address"].to_pylist()
    )


def test_a_branch_that_was_committed_meanwhile_costs_no_row_of_those_behind_it(tmp_path):
    (tmp_path / "repo").mkdir()
    store = open_store(
        Namespace.parse("local://repo", server_path="/bs"), StoreOptions(local_path=str(tmp_path))
    )
    diffs = Diffs(store, "folder/")
    for lot in ("ab", "", "c", "", "", "de"):
        diffs.keep(_batch(*lot))
    assert _addresses(store, [*diffs.parts, *diffs.held]) == list("abcde")


def test_rows_of_diffs_beyond_the_limit_are_put_down_read_back_checked_and_taken_away(tmp_path):
    (tmp_path / "repo").mkdir()
    store = open_store(
        Namespace.parse("local://repo", server_path="/bs"), StoreOptions(local_path=str(tmp_path))
    )
    diffs = Diffs(store, "folder/", held=3)
    for lot in ("ab", "cd", "ef", "gh", "i"):
        diffs.keep(_batch(*lot))
    files = sorted((tmp_path / "repo/folder").iterdir())
    assert len(files) == 2
    assert all(file.name.startswith("_diffs-") for file in files), "out of Parquet readers' sight"
    told = [*diffs.parts, *diffs.held]
    assert _addresses(store, told) == list("abcdefghi")
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:-9] + b"x" + whole[-8:])
    with pytest.raises(CorruptTableError):
        _addresses(store, told)
    diffs.close()
    assert not any((tmp_path / "repo/folder").iterdir())


def test_rows_that_are_held_are_put_down_from_a_number_on(tmp_path):
    (tmp_path / "repo").mkdir()
    store = open_store(
        Namespace.parse("local://repo", server_path="/bs"), StoreOptions(local_path=str(tmp_path))
    )
    diffs = Diffs(store, "folder/", held=10)
    for lot in ("ab", "", "cd"):
        diffs.keep(_batch(*lot))
    diffs.put_down(5)
    assert (len(diffs.parts), len(diffs.held)) == (0, 3)
    diffs.put_down(4)
    assert ([part.rows for part in diffs.parts], diffs.held) == ([4], [])
    diffs.put_down(1)
    assert len(diffs.parts) == 1, "nothing was held"
    assert _addresses(store, diffs.parts) == list("abcd")


NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


@pytest.fixture
def staged(tmp_path, spark, monkeypatch):
    """A run over some branches with more staged on them than the driver holds, and its listing."""
    monkeypatch.setattr("spark_core.references.uncommitted_addresses.HELD", 2)
    with Sandbox(tmp_path / "sandbox") as sandbox:
        with sandbox.core.lock:
            repositories.create(sandbox.core, "repo", "local://repo")
            for number in range(6):
                branch = f"b{number}"
                refs.create_branch(sandbox.core, "repo", branch, "main")
                for path in ("x", "y"):
                    objects.upload(sandbox.core, "repo", branch, path, f"{branch} {path}".encode())
        run = open_sandbox_run(sandbox, "repo", spark, NOW)
        yield run, run.keep(mark.namespace_slices(run))


def _left(run):
    where = tables.folder(tables.UNCOMMITTED_ADDRESSES, run.key)
    return [
        key
        for batch in run.store.list(where)
        for key in batch.column("key").to_pylist()
        if "_diffs-" in key
    ]


def test_files_of_diffs_are_gone_when_the_table_is_stored(staged):
    run, slices = staged
    draft = mark.uncommitted_addresses(run, slices)
    assert _left(run)
    stored = run.keep(draft)
    assert _left(run) == []
    facts = stored.manifest.facts
    assert stored.manifest.rows == facts["from_diffs"] + facts["file_rows"]
    assert (facts["branches_read"], facts["from_diffs"]) == (7, 12)


def test_files_of_diffs_of_a_mark_that_failed_while_they_were_read_are_gone(staged, monkeypatch):
    run, slices = staged
    run = replace(run, options=replace(run.options, branches_at_once=1))
    read, asked = run.server.diff_branch, []

    def fails_late(repository, branch):
        if branch == "b5":
            assert _left(run), "some were put down already"
            raise IncompleteReadError("the diff fails")
        asked.append(branch)
        return read(repository, branch)

    monkeypatch.setattr(run.server, "diff_branch", fails_late)
    with pytest.raises(IncompleteReadError, match="the diff fails"):
        mark.uncommitted_addresses(run, slices)
    assert asked == ["b0", "b1", "b2", "b3", "b4"]
    assert _left(run) == []


def test_files_of_diffs_of_a_mark_that_failed_while_the_table_was_stored_are_gone(
    staged, monkeypatch
):
    run, slices = staged
    draft = mark.uncommitted_addresses(run, slices)
    assert _left(run)

    def fails(*_arguments, **_options):
        raise TransientError("the store is busy")

    monkeypatch.setattr(storing, "store_table", fails)
    with pytest.raises(TransientError, match="the store is busy"):
        run.keep(draft)
    assert _left(run) == []


def test_files_of_diffs_that_the_store_does_not_let_go_of_fail_nothing(staged, monkeypatch):
    run, _ = staged
    read = read_staged(run, "_lakefs")

    def fails(_store, _keys):
        raise TransientError("the store is busy")

    monkeypatch.setattr(type(run.store), "delete", fails)
    read.close()
    assert _left(run)


def test_rows_that_the_driver_reads_itself_go_to_no_file(staged, monkeypatch):
    run, _ = staged
    monkeypatch.setattr("spark_core.references.uncommitted_addresses.HELD", 100)
    monkeypatch.setattr("spark_core.references.uncommitted_addresses.SENT", 2)
    few = read_staged(run, "_lakefs")
    assert few.rows >= 12
    assert _left(run) == []
    assert len(_rows_of(few)) >= 12
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    for parts in (LookParts(run.now, timedelta(minutes=1)), None):
        read = read_staged(run, "_lakefs", parts)
        assert len(_left(run)) >= 1, "more rows than go with the tasks"
        assert _rows_of(read) == _rows_of(few)
        held = [source for task in read.tasks for source in task]
        assert not any(isinstance(source, pa.RecordBatch) for source in held)
        read.close()
    assert _left(run) == []


def _rows_of(read):
    batches = [batch for task in read.tasks for batch in read.read(task, Counter())]
    return sorted(address for batch in batches for address in batch["address"].to_pylist())
