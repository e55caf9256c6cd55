"""Stored tables: what a later attempt leaves of an earlier one."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_core import lakegc_keys, schemas
from spark_core.errors import ChainError, ClosedPartitionError
from spark_core.records import storing, tables, writing
from spark_core.records.figures import Figures
from spark_core.records.writing import ANYTHING, Draft, Target, Written
from spark_core.storage.local import LocalStore
from tests.support.passing_mark import COMMIT, keep_slices
from tests.support.written_run import OLD, written_run


def _stored(run):
    return {key for batch in run.store.list("_lakefs/") for key in batch.column("key").to_pylist()}


def test_a_table_of_a_mark_that_is_made_again_leaves_nothing_of_the_earlier_attempt(tmp_path):
    written = written_run(tmp_path, spark=None)
    written.mark({"data/s/x": (4, OLD)})
    before = _stored(written.run)
    again = keep_slices(written.run)
    left = {
        key
        for key in before & _stored(written.run)
        if "/slices/" in key and key.endswith(".parquet")
    }
    assert left <= {part.key for part in again.parts}


def _draft(run, replaces, address):
    rows = pa.Table.from_pylist(
        [
            {
                "address": address,
                "size_bytes": 1,
                "outcome": "deleted",
                "error": None,
                "reason": "in no commit, and not staged",
                "attempts": 1,
                "deleted_at": None,
            }
        ],
        schema=schemas.DELETION_REPORT,
    )
    return Draft(tables.DELETION_REPORT, rows, run.now(), (), replaces=replaces)


def test_a_report_that_another_process_stored_meanwhile_stands(tmp_path):
    run = written_run(tmp_path, spark=None).run
    first = run.keep(_draft(run, None, "data/s/first")).manifest
    with pytest.raises(ChainError, match="stored by another process"):
        run.keep(_draft(run, None, "data/s/slow"))
    second = run.keep(_draft(run, first.sha256, "data/s/second"))
    assert [row["address"] for batch in second.batches() for row in batch.to_pylist()] == [
        "data/s/second"
    ]
    assert {key for key in _stored(run) if key.endswith(".parquet")} == {
        part.key for part in second.manifest.parts
    }


@pytest.mark.parametrize("at", ["write_parts", "_put_manifest"])
def test_a_report_that_another_process_stores_while_this_one_writes_stands(
    tmp_path, monkeypatch, at
):
    run = written_run(tmp_path, spark=None).run
    write, others = getattr(storing, at), []

    def slowly(*arguments):
        monkeypatch.undo()
        others.extend(run.keep(_draft(run, ANYTHING, "data/s/quick")).manifest.parts)
        return write(*arguments)

    monkeypatch.setattr(storing, at, slowly)
    with pytest.raises(ChainError, match="stored by another process"):
        run.keep(_draft(run, None, "data/s/slow"))
    assert {key for key in _stored(run) if key.endswith(".parquet")} == {
        part.key for part in others
    }


def test_a_report_whose_put_was_answered_only_the_second_time_is_stored(tmp_path, monkeypatch):
    run = written_run(tmp_path, spark=None).run
    put = run.store.put_if_absent

    def twice(key, data):
        put(key, data)
        put(key, data)

    monkeypatch.setattr(run.store, "put_if_absent", twice)
    stored = run.keep(_draft(run, None, "data/s/x"))
    assert run.load(tables.DELETION_REPORT).manifest == stored.manifest


@pytest.fixture
def asked(monkeypatch):
    """What was listed and asked for, by the name of the table's folder or of the file."""
    told = Counter()

    def counted(name, what):
        call = getattr(LocalStore, name)

        def count(store, key):
            told[what(key)] += 1
            return call(store, key)

        monkeypatch.setattr(LocalStore, name, count)

    for name in ("list", "children"):
        counted(name, lambda prefix: prefix.removeprefix(lakegc_keys.ROOT).partition("/")[0])
    counted("head", lambda key: key.rpartition("/")[2])
    return told


def _begin_and_keep(run, spec, rows=()):
    run.begin(spec)
    return run.keep(
        Draft(spec, pa.Table.from_pylist(list(rows), schema=spec.schema), run.now(), ())
    )


STAGED = ({"address": "data/s/x", "created_at": OLD, "address_hash": 1},)


def _leave_a_part(run, spec):
    key = tables.folder(spec, run.key) + lakegc_keys.part("part", 0, 0, f"{'0' * 32}-{'0' * 8}")
    run.store.put(key, b"of an attempt that was killed")
    return key


def test_the_tables_of_a_new_run_are_not_looked_for(tmp_path, asked):
    run = written_run(tmp_path, spark=None).run
    for spec in (tables.NAMESPACE_SLICES, tables.UNCOMMITTED_ADDRESSES, tables.RETAINED_COMMITS):
        _begin_and_keep(run, spec)
    assert asked == {"slices": 1}, "who begins the first table lists the runs"


def test_a_table_of_a_run_that_was_begun_asks_for_the_verdict_and_for_what_lies_there(
    tmp_path, asked
):
    run = written_run(tmp_path, spark=None).run
    _begin_and_keep(run, tables.NAMESPACE_SLICES)
    asked.clear()
    _begin_and_keep(replace(run, known={}, unused={}), tables.UNCOMMITTED_ADDRESSES)
    assert asked == {"uncommitted": 1, "_verdict.json": 2}


def test_a_table_of_a_new_run_that_another_process_made_meanwhile_is_replaced_while_it_is_open(
    tmp_path,
):
    run = written_run(tmp_path, spark=None).run
    _begin_and_keep(run, tables.NAMESPACE_SLICES)
    run.begin(tables.UNCOMMITTED_ADDRESSES)
    _begin_and_keep(replace(run, known={}, unused={}), tables.UNCOMMITTED_ADDRESSES)
    ours = run.keep(
        Draft(
            tables.UNCOMMITTED_ADDRESSES,
            pa.Table.from_pylist(list(STAGED), schema=tables.UNCOMMITTED_ADDRESSES.schema),
            run.now(),
            (),
        )
    )
    assert run.load(tables.UNCOMMITTED_ADDRESSES, anew=True).manifest == ours.manifest


def test_what_a_killed_attempt_left_goes_though_another_process_began_the_run(tmp_path):
    run = written_run(tmp_path, spark=None).run
    _begin_and_keep(run, tables.NAMESPACE_SLICES)
    left = _leave_a_part(run, tables.UNCOMMITTED_ADDRESSES)
    _begin_and_keep(replace(run, known={}, unused={}), tables.UNCOMMITTED_ADDRESSES, STAGED)
    assert not run.store.exists(left)


def test_what_this_process_left_of_a_table_that_it_begins_again_goes(tmp_path):
    run = written_run(tmp_path, spark=None).run
    _begin_and_keep(run, tables.NAMESPACE_SLICES)
    run.begin(tables.UNCOMMITTED_ADDRESSES)
    left = _leave_a_part(run, tables.UNCOMMITTED_ADDRESSES)
    _begin_and_keep(run, tables.UNCOMMITTED_ADDRESSES, STAGED)
    assert not run.store.exists(left)
    first = _begin_and_keep(run, tables.RETAINED_COMMITS, [COMMIT]).manifest
    _begin_and_keep(run, tables.RETAINED_COMMITS, [COMMIT])
    assert not any(run.store.exists(part.key) for part in first.parts)


def test_parts_of_another_process_that_makes_the_tables_of_a_new_run_are_left_to_it(tmp_path):
    run = written_run(tmp_path, spark=None).run
    _begin_and_keep(run, tables.NAMESPACE_SLICES)
    theirs = _leave_a_part(run, tables.UNCOMMITTED_ADDRESSES)
    _begin_and_keep(run, tables.UNCOMMITTED_ADDRESSES, STAGED)
    assert run.store.exists(theirs)


def test_a_table_of_a_new_run_that_another_process_concluded_meanwhile_is_not_stored(tmp_path):
    run = written_run(tmp_path, spark=None).run
    _begin_and_keep(run, tables.NAMESPACE_SLICES)
    theirs = replace(run, known={}, unused={})
    for spec in tables.MARK_TABLES[1:]:
        _begin_and_keep(theirs, spec)
    run.store.put(lakegc_keys.verdict_key(run.key), b"a verdict")
    before = _stored(run)
    with pytest.raises(ClosedPartitionError):
        _begin_and_keep(run, tables.UNCOMMITTED_ADDRESSES, STAGED)
    assert _stored(run) == before


def test_a_task_that_ran_twice_leaves_no_part_behind_in_a_new_run(tmp_path):
    run = written_run(tmp_path, spark=None).run
    _begin_and_keep(run, tables.NAMESPACE_SLICES)
    spec, attempt = tables.UNCOMMITTED_ADDRESSES, writing.new_attempt()
    run.begin(spec)
    target = Target(run.store, tables.folder(spec, run.key), attempt, spec.schema)
    batches = pa.Table.from_pylist(list(STAGED), schema=spec.schema).to_batches()
    cut_off, receipt = (writing.write_parts(target, 0, iter(batches)) for _ in range(2))
    run.keep(Draft(spec, Written(attempt, [receipt]), run.now(), ()))
    assert not any(run.store.exists(part.key) for part in cut_off.parts)
    assert all(run.store.exists(part.key) for part in receipt.parts)


def test_a_table_whose_run_was_closed_while_it_was_written_leaves_nothing_behind(tmp_path):
    run = written_run(tmp_path, spark=None).run
    rows = pa.table({"address": ["data/s/x"], "created_at": [OLD], "address_hash": [1]})

    def concluded_by_another(_measured, _figures):
        run.store.put(lakegc_keys.verdict_key(run.key), b"a verdict")
        return Figures()

    draft = Draft(tables.UNCOMMITTED_ADDRESSES, rows, run.now(), (), figures=concluded_by_another)
    with pytest.raises(ClosedPartitionError):
        run.keep(draft)
    assert _stored(run) == {lakegc_keys.verdict_key(run.key)}
