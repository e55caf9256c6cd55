"""Restoring: what a sweep deleted comes back as it was, is proved, and nothing else is touched."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from spark_core import lakegc_keys, schemas
from spark_core.errors import ChainError, LeaseHeldError
from spark_core.lock import lease
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.journal import Journal
from spark_core.sweep import quarantine
from spark_core.sweep.quarantine import key_of
from spark_core.undo.restore import restore
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, OLD, written_run

CONTENT = {f"data/s/{name}": name.encode() * 5 for name in "abc"}


@pytest.fixture
def written(tmp_path):
    return written_run(tmp_path, None)


@pytest.fixture
def run(written):
    return written.run


def keys(store, prefix=""):
    return {key for batch in store.list(prefix) for key in batch.column("key").to_pylist()}


def recorded_rows(store, folder):
    """Read what a restore or a purge wrote down, in order of the addresses."""
    rows = [
        row
        for key in keys(store, folder)
        for batch in store.read_parquet(key)
        for row in batch.to_pylist()
    ]
    return sorted(rows, key=lambda row: row["address"])


@pytest.fixture
def swept(written):
    """A sweep with quarantine of three objects, one of which the store did not let go."""
    store = written.run.store
    for address, content in CONTENT.items():
        store.put(address, content)
    listed = {address: (5, store.head(address).last_modified) for address in CONTENT}
    written.mark(listed, expired=dict.fromkeys(CONTENT, "in no commit"))
    quarantine.move(store, written.run.key, ["data/s/a", "data/s/b"])
    written.sweep(
        {
            "data/s/a": (5, "deleted", None),
            "data/s/b": (5, "deleted", None),
            "data/s/c": (5, "refused", "AccessDenied"),
        }
    )
    return written


def test_everything_that_a_sweep_moved_comes_back_and_is_recorded(swept, run):
    done = restore(run)
    assert (done.objects, done.complete, done.left) == (Counter(restored=2), True, [])
    assert {address: run.store.read(address) for address in CONTENT} == CONTENT
    rows = recorded_rows(run.store, done.record)
    assert [(row["address"], row["size_bytes"], row["outcome"], row["error"]) for row in rows] == [
        ("data/s/a", 5, "restored", None),
        ("data/s/b", 5, "restored", None),
    ]
    again = restore(run)
    assert (again.objects, again.complete) == (Counter(already_there=2), True)
    # A restore deletes nothing, so until the purge the copies are there as well.
    assert {key_of(run.key, "data/s/a"), key_of(run.key, "data/s/b")} <= keys(run.store)


@pytest.mark.parametrize("ended", [KeyboardInterrupt(), OSError("the disk is gone")], ids=repr)
def test_a_restore_that_is_interrupted_writes_down_what_is_back(swept, run, monkeypatch, ended):
    run = replace(run, options=replace(run.options, read_threads=1))
    link_to, tried = run.store.link_to, []

    def ending(*names, **young):
        tried.append(names)
        if len(tried) == 2:
            raise ended
        return link_to(*names, **young)

    monkeypatch.setattr(run.store, "link_to", ending)
    with pytest.raises(type(ended)) as raised:
        restore(run)
    assert [address for address in "abc" if run.store.exists(f"data/s/{address}")] == ["a", "c"]
    rows = recorded_rows(run.store, lakegc_keys.RESTORES)
    assert [(row["address"], row["outcome"]) for row in rows] == [("data/s/a", "restored")]
    if isinstance(ended, OSError):
        assert "1 objects are known to be back in their places" in str(raised.value.__notes__)


def test_what_came_back_can_be_swept_and_brought_back_again(swept, run):
    restore(run)
    assert {one.outcome for one in quarantine.move(run.store, run.key, ["data/s/a"])} == {"deleted"}
    assert restore(run, ["data/s/a"]).objects == Counter(restored=1)
    assert run.store.read("data/s/a") == CONTENT["data/s/a"]


@pytest.mark.parametrize("full", [False, True], ids=["relative", "in full"])
def test_only_the_addresses_that_are_named_come_back(swept, run, full):
    named = f"{run.store.root}data/s/b" if full else "data/s/b"
    done = restore(run, [named, named])
    assert done.objects == Counter(restored=1)
    assert not run.store.exists("data/s/a")
    assert run.store.read("data/s/b") == CONTENT["data/s/b"]


def test_an_address_that_the_run_did_not_delete_is_told_and_fails_the_command(swept, run):
    done = restore(run, ["data/s/b", "data/s/c", "data/s/none", "../../etc/passwd"])
    assert (done.objects, done.complete) == (Counter(restored=1, not_restorable=3), False)
    assert {one.key for one in done.left} == {"data/s/c", "data/s/none", "../../etc/passwd"}
    assert all(f"run {run.key} deleted no object of that address" in one.error for one in done.left)


def test_a_dry_run_says_what_could_come_back_and_writes_nothing(swept, run):
    run.store.delete([key_of(run.key, "data/s/b")])
    before = keys(run.store)
    done = restore(run, dry_run=True)
    assert (done.objects, done.complete, done.record) == (
        Counter(restorable=1, not_restorable=1),
        False,
        None,
    )
    assert keys(run.store) == before


def test_what_nothing_keeps_says_what_would_have_helped(swept, run):
    run.store.delete([key_of(run.key, "data/s/b")])
    done = restore(run)
    assert (done.objects, done.complete) == (Counter(restored=1, not_restorable=1), False)
    assert [(one.key, "quarantine = true" in one.error) for one in done.left] == [
        ("data/s/b", True)
    ]


def test_an_object_that_is_there_is_never_replaced(swept, run):
    run.store.put("data/s/a", b"written since")
    done = restore(run)
    assert (done.objects, done.complete) == (Counter(restored=1, failed=1), False)
    assert "another object is in its place (13 bytes, deleted was one of 5)" in done.left[0].error
    assert run.store.read("data/s/a") == b"written since"


def test_another_object_in_quarantine_does_not_come_back_under_the_name(swept, run):
    run.store.put(key_of(run.key, "data/s/a"), b"longer than it was")
    done = restore(run)
    assert done.objects == Counter(restored=1, not_restorable=1)
    assert "in quarantine lies another object" in done.left[0].error
    assert not run.store.exists("data/s/a")


def test_tables_that_were_pruned_or_damaged_do_not_stop_the_undoing(swept, run):
    mark = [run.load(spec).manifest for spec in (tables.EXPIRED_ADDRESSES, tables.NAMESPACE_SLICES)]
    run.store.delete([part.key for part in mark[0].parts])
    run.store.put(mark[1].parts[0].key, b"damaged")
    assert restore(run).objects == Counter(restored=2)


def test_a_sweep_that_was_killed_before_its_report_is_undone_by_its_journal(written, run):
    for address, content in CONTENT.items():
        run.store.put(address, content)
    mark = passing_mark(run, expired=tuple(CONTENT))
    journal = Journal(run.store, str(run.key), mark["expired_addresses"].sha256)
    rows = pa.record_batch(
        [
            list(CONTENT),
            [5, 5, 5],
            ["intended"] * 3,
            pa.nulls(3, pa.string()),
            pa.array([NOW] * 3, schemas.INSTANT),
        ],
        schema=schemas.JOURNAL,
    )
    journal.intend("aa.0.0.0.0", rows)
    journal.intend("bb.0.0.0.0", rows)
    quarantine.move(run.store, run.key, ["data/s/a"])
    done = restore(run)
    assert (done.objects, done.complete) == (Counter(restored=1, already_there=2), True)
    assert {address: run.store.read(address) for address in CONTENT} == CONTENT


def test_what_a_second_sweep_was_killed_over_comes_back_although_the_first_left_a_report(
    swept, run
):
    expired = run.load(tables.EXPIRED_ADDRESSES).manifest
    journal = Journal(run.store, str(run.key), expired.sha256)
    report = run.load(tables.DELETION_REPORT)
    swept._keep(
        tables.DELETION_REPORT,
        [row for batch in report.batches() for row in batch.to_pylist()],
        planned_objects=3,
        refused_objects=1,
    )
    values = [
        ["data/s/c"],
        [5],
        ["intended"],
        pa.nulls(1, pa.string()),
        pa.array([NOW], schemas.INSTANT),
    ]
    journal.intend("bb.0.0.0.0", pa.record_batch(values, schema=schemas.JOURNAL))
    quarantine.move(run.store, run.key, ["data/s/c"])
    done = restore(run)
    assert (done.objects, done.complete) == (Counter(restored=3), True)
    assert {address: run.store.read(address) for address in CONTENT} == CONTENT


def test_a_run_that_was_never_swept_has_nothing_to_undo(written, run):
    passing_mark(run)
    with pytest.raises(
        ChainError, match="deleted nothing: it has neither a deletion report nor a journal"
    ):
        restore(run)
    with pytest.raises(ChainError, match="has no expired_addresses"):
        restore(run.at(RunKey.at(NOW - timedelta(days=1))))
    # Whoever is refused leaves no lease behind for which others would have to wait.
    assert not keys(run.store, f"{lakegc_keys.ROOT}lease/")


def test_the_report_of_another_instance_of_the_repository_is_not_undone_here(swept, run):
    other = replace(run, repository=replace(run.repository, creation_date=OLD + timedelta(days=1)))
    with pytest.raises(ChainError):
        restore(other)
    assert not run.store.exists("data/s/a")


def test_while_a_collector_is_at_work_nothing_is_restored(swept, run):
    other = run.at(RunKey.at(NOW - timedelta(hours=1)))
    with (
        lease.hold_lease(other),
        pytest.raises(LeaseHeldError, match=r"the lease is that of the .* Nothing was deleted\.$"),
    ):
        restore(run)
    assert not run.store.exists("data/s/a")
    assert not keys(run.store, lakegc_keys.RESTORES)
    assert restore(run).complete
