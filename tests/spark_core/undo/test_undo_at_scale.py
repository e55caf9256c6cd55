"""Restore, purge and the end of a sweep where there are too many objects for the driver.

Tasks of Spark do the work.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from unittest import mock

import pyarrow as pa
import pytest

from spark_core import lakegc_keys, recorded_work, schemas
from spark_core.errors import (
    IncompleteReadError,
    LeaseLostError,
    PermissionDeniedError,
    TransientError,
)
from spark_core.holds import Hold
from spark_core.recorded_work import Tally
from spark_core.records import tables
from spark_core.records.journal import Journal
from spark_core.references.parts_of_look import GOOD_FOR
from spark_core.spark import placement
from spark_core.spark.tasks import tasks_for
from spark_core.sweep import quarantine
from spark_core.sweep.leftovers import recheck_leftovers
from spark_core.undo import deleted, restore
from spark_core.upkeep import purge_quarantine, quarantine_still_needed
from spark_core.upkeep.purge_quarantine import Purged
from spark_core.upkeep.quarantine_still_needed import Needed
from tests.support.faults import ERROR, Faults, FaultyStore
from tests.support.written_run import NOW, hashes_of, journal_entries, written_run

pytestmark = pytest.mark.spark

NAMES = pa.schema([pa.field("address", pa.string(), nullable=False)])


@pytest.fixture
def faults(tmp_path):
    """Counts the calls to the store of every process; may let one fail."""
    made = Faults(tmp_path / "faults")
    made.arm(0, "")
    return made


@pytest.fixture
def written(tmp_path, spark, faults, monkeypatch):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    made = written_run(tmp_path, spark)
    store = FaultyStore(made.run.namespace, made.run.store.options).failing(faults)
    made.run = replace(
        made.run,
        store=store,
        options=replace(made.run.options, quarantine=True, quarantine_days=30),
    )
    return made


@pytest.fixture
def run(written):
    return written.run


def keys(store, prefix=""):
    return {key for batch in store.list(prefix) for key in batch.column("key").to_pylist()}


def told_of(store, record):
    """Read what was written down: address -> outcome, each once."""
    rows = [
        row
        for key in keys(store, record)
        for batch in store.read_parquet(key)
        for row in batch.to_pylist()
    ]
    rows = [row for row in rows if "outcome" in row]
    told = {row["address"]: row["outcome"] for row in rows}
    assert len(told) == len(rows), "some object is written down twice"
    return told


def swept(written, count, *, slices=3):
    """Let a sweep have moved so many objects; returns their content by address."""
    content = {
        f"data/s{number % slices}/{number:04}": f"{number:06}".encode() for number in range(count)
    }
    for address, data in content.items():
        written.run.store.put(address, data)
    listed = {address: (6, written.run.store.head(address).last_modified) for address in content}
    written.mark(listed, expired=dict.fromkeys(content, "in no commit"))
    moved = quarantine.move(written.run.store, written.run.key, list(content))
    assert {told.outcome for told in moved} == {"deleted"}
    written.journal(dict.fromkeys(content, 6))
    written.sweep(dict.fromkeys(content, (6, "deleted", None)))
    return content


class Lease:
    """A lease that is good for long, unless told otherwise."""

    def __init__(self, run, good_for=timedelta(days=1)):
        self.run, self.good_for, self.sent_until, self.beats = run, good_for, None, 0

    @property
    def expires_at(self):
        return self.run.now() + self.good_for

    def beat(self):
        self.beats += 1


@dataclass(frozen=True)
class First:
    """Work that a task does only for its first objects."""

    work: recorded_work.Work
    count: int

    def __call__(self, task, batches):
        rows = pa.Table.from_batches(batches).slice(0, self.count)
        yield from self.work(task, iter(rows.to_batches()))


def end(run, *needed, held=None, looked=timedelta(0)):
    """Purge what is due, after a look so long ago that found these names needed."""
    run.environment.clock.instant = NOW + timedelta(days=31)
    done = Purged()
    with mock.patch.object(
        purge_quarantine,
        "needed_finder",
        lambda run: lambda *_: Needed(run.now() - looked, hashes_of(*needed)),
    ):
        purge_quarantine.purge(run, held or Lease(run), done)
    return done


@pytest.mark.slow
def test_what_executors_bring_back_is_whole_and_each_object_is_written_down(written, run):
    content = swept(written, 20)
    run.store.put("data/s1/0001", b"written since")
    run.store.delete([quarantine.key_of(run.key, "data/s2/0002")])
    done = restore.restore(run)
    assert done.objects == Counter(restored=18, failed=1, not_restorable=1)
    assert {one.key: one.outcome for one in done.left} == {
        "data/s1/0001": "failed",
        "data/s2/0002": "not_restorable",
    }
    told = told_of(run.store, done.record)
    assert Counter(told.values()) == done.objects
    assert {
        address: run.store.read(address)
        for address, outcome in told.items()
        if outcome == "restored"
    } == {address: content[address] for address, outcome in told.items() if outcome == "restored"}
    again = restore.restore(run, dry_run=True)
    assert (again.objects, again.record) == (
        Counter(already_there=18, failed=1, not_restorable=1),
        None,
    )


@pytest.mark.slow
def test_only_what_is_named_comes_back_where_tables_are_large(written, run):
    content = swept(written, 20)
    done = restore.restore(run, ["data/s0/0003", "data/s0/none"])
    assert (done.objects, done.complete) == (Counter(restored=1, not_restorable=1), False)
    assert keys(run.store, "data/") == {"data/s0/0003"}
    assert run.store.read("data/s0/0003") == content["data/s0/0003"]
    again = restore.restore(run, ["data/s0/0003", "data/s0/0006", "data/s0/none"], dry_run=True)
    assert again.objects == Counter(already_there=1, restorable=1, not_restorable=1)


@pytest.mark.slow
def test_tables_that_were_pruned_or_damaged_do_not_stop_executors(written, run):
    swept(written, 20)
    mark = [run.load(spec).manifest for spec in (tables.EXPIRED_ADDRESSES, tables.NAMESPACE_SLICES)]
    run.store.delete([part.key for part in mark[0].parts])
    run.store.put(mark[1].parts[0].key, b"damaged")
    assert restore.restore(run).objects == Counter(restored=20)


@pytest.mark.slow
def test_what_a_journal_intended_twice_is_brought_back_once(written, run):
    content = swept(written, 6)
    run.store.delete([tables.manifest_key(tables.DELETION_REPORT, run.key)])
    journal = Journal(run.store, str(run.key), run.load(tables.EXPIRED_ADDRESSES).manifest.sha256)
    rows = pa.record_batch(
        [
            list(content),
            [6] * 6,
            ["intended"] * 6,
            pa.nulls(6, pa.string()),
            pa.array([NOW] * 6, schemas.INSTANT),
        ],
        schema=schemas.JOURNAL,
    )
    journal.intend("aa.0.0.0.0", rows)
    journal.intend("bb.0.0.0.0", rows.slice(2))
    done = restore.restore(run)
    assert done.objects == Counter(restored=6)
    assert len(told_of(run.store, done.record)) == 6


@pytest.mark.slow
def test_objects_that_spark_loses_on_the_way_back_end_the_restore(written, run, monkeypatch):
    swept(written, 20)
    read = deleted._reported
    monkeypatch.setattr(
        deleted, "_reported", lambda batches: (batch.slice(2) for batch in read(batches))
    )
    with pytest.raises(IncompleteReadError, match="18 of 20 came; what was done is written down"):
        restore.restore(run)
    assert len(keys(run.store, "data/")) == 18


@pytest.mark.slow
def test_objects_that_get_no_outcome_although_there_is_time_end_the_restore(
    written, run, monkeypatch
):
    swept(written, 20)
    work_on = recorded_work.work_on
    monkeypatch.setattr(
        recorded_work,
        "work_on",
        lambda run, objects, parts, orders, **more: work_on(
            run, objects, parts, replace(orders, work=First(orders.work, 15)), **more
        ),
    )
    with pytest.raises(
        IncompleteReadError, match="Spark lost 5 of the objects that were to be brought back"
    ):
        restore.restore(run)
    assert len(keys(run.store, "data/")) == 15


@pytest.mark.slow
def test_a_restore_goes_on_in_another_round_when_the_lease_would_run_out(written, run, monkeypatch):
    content, rounds, work_on = swept(written, 20), [], recorded_work.work_on

    def cut_off(run, objects, parts, orders, **options):
        some = replace(orders, work=First(orders.work, 8))
        told = work_on(run, objects, parts, some, **options)
        rounds.append(told.found)
        told.cut = True
        return told

    monkeypatch.setattr(recorded_work, "work_on", cut_off)
    done = restore.restore(run)
    assert (rounds, done.objects) == ([20, 12, 4], Counter(restored=20))
    assert set(told_of(run.store, done.record)) == set(content)


@pytest.mark.slow
def test_tasks_send_nothing_when_the_lease_may_run_out(written, run):
    swept(written, 20)
    held = Lease(run, good_for=timedelta(seconds=30))
    done = end(run, held=held)
    assert (done.objects, done.left, held.beats) == (0, 20, 1)
    assert len(keys(run.store, lakegc_keys.QUARANTINE)) == 20
    assert set(told_of(run.store, done.record).values()) == {"left"}


def test_a_restore_for_which_there_is_never_time_says_so(written, run, monkeypatch):
    swept(written, 4)
    monkeypatch.setattr(recorded_work, "work_on", lambda *_, **__: Tally(found=4, cut=True))
    with pytest.raises(
        TransientError, match="3 rounds passed without a single object brought back"
    ):
        restore.restore(run)


@pytest.mark.slow
def test_a_lease_that_is_lost_between_rounds_ends_the_restore(written, run, monkeypatch):
    swept(written, 20)
    work_on, rounds = recorded_work.work_on, []

    def lost(run, objects, parts, orders, *, held):
        rounds.append(len(parts))
        beat = held.beat if len(rounds) == 1 else _lost
        held = mock.Mock(beat=beat, expires_at=held.expires_at, sent_until=None)
        some = replace(orders, work=First(orders.work, 8))
        told = work_on(run, objects, parts, some, held=held)
        told.cut = True
        return told

    monkeypatch.setattr(recorded_work, "work_on", lost)
    with pytest.raises(LeaseLostError):
        restore.restore(run)
    assert len(keys(run.store, "data/")) == 8


def _lost():
    raise LeaseLostError("the lease is lost")


def test_executors_purge_what_is_over_and_nothing_that_is_needed_held_or_not_theirs(written, run):
    content = swept(written, 12, slices=2)
    store, flat = run.store, "0" * 32
    later = quarantine.key_of(run.key, "data/s0/later")
    strangers = {
        quarantine.key_of(run.key, name) for name in ("notes.txt", "other/x", "data/s0/_lakefs/x")
    }
    others = {
        f"{lakegc_keys.QUARANTINE}loose",
        quarantine.key_of("2026-11-19T02-00-00Z", "data/s0/0000"),
        *strangers,
    }
    for key in others:
        store.put(key, b"x")
    for address in (flat, "data/direct"):
        store.put(quarantine.key_of(run.key, address), b"123456")
        written.journal({address: 6}, at=NOW)
    store.put(
        lakegc_keys.hold_key("audit"),
        Hold("audit", "address", "data/s1/0001", None, "ann", NOW, "a test").to_json(),
    )
    hold_of_copy = quarantine.key_of(run.key, "data/s1/0003")
    store.put(
        lakegc_keys.hold_key("copy"),
        Hold("copy", "address", hold_of_copy, None, "ann", NOW, "a test").to_json(),
    )
    # Moved after the report, by a sweep that left none.
    store.put(later, b"later")
    written.journal({"data/s0/later": 5}, at=NOW + timedelta(days=2))
    store.put("data/s0/0002", content["data/s0/0002"])
    store.put("data/s0/0004", b"others")
    store.put("data/s0/0006", b"longer than it was")
    wanted = [
        "data/s0/0000",
        *(f"data/s0/{number:04}" for number in (2, 4, 6)),
        quarantine.key_of(run.key, "data/s1/0005"),
    ]
    done = end(run, *wanted)
    in_use = {
        "data/s0/0000",
        "data/s0/0004",
        "data/s0/0006",
        "data/s1/0005",
        "data/s1/0001",
        "data/s1/0003",
    }
    everything = {*content, flat, "data/direct"}
    assert told_of(store, done.record) == {
        name: "in_use" if name in in_use else "purged" for name in everything
    }
    assert (done.objects, done.size_bytes, done.in_use, done.left, done.unknown) == (8, 48, 6, 0, 0)
    assert done.strangers == 3
    left = {quarantine.key_of(run.key, address) for address in in_use} | others | {later}
    assert keys(store, lakegc_keys.QUARANTINE) == left
    assert store.read("data/s0/0002") == content["data/s0/0002"]


@pytest.mark.slow
def test_a_look_that_is_over_lets_no_task_send_anything(written, run):
    swept(written, 20)
    done = end(run, looked=GOOD_FOR)
    assert (done.objects, done.left, done.unknown) == (0, 20, 0)
    assert len(keys(run.store, lakegc_keys.QUARANTINE)) == 20
    assert end(run).objects == 20


@pytest.mark.slow
def test_what_tasks_had_no_time_for_is_purged_under_another_look(written, run, monkeypatch):
    swept(written, 20)
    looks, rounds, work_on = [], [], recorded_work.work_on

    def cut_off(run, objects, parts, orders, **options):
        some = replace(orders, work=First(orders.work, 12))
        told = work_on(run, objects, parts, some, **options)
        rounds.append(told.found)
        told.cut = told.found > 12
        if told.cut:
            run.environment.clock.instant += timedelta(minutes=9)
        return told

    def finder(run):
        def find(over):
            looks.append(over.rows)
            return Needed(run.now(), hashes_of())

        return find

    monkeypatch.setattr(recorded_work, "work_on", cut_off)
    monkeypatch.setattr(purge_quarantine, "needed_finder", finder)
    run.environment.clock.instant = NOW + timedelta(days=31)
    done = Purged()
    purge_quarantine.purge(run, Lease(run), done)
    assert (looks, rounds) == ([20, 20], [20, 8])
    assert (done.objects, done.left) == (20, 0)
    assert set(told_of(run.store, done.record).values()) == {"purged"}


@pytest.mark.slow
def test_where_a_task_cannot_write_its_record_the_purge_ends_and_what_was_done_counts(
    written, run, faults
):
    swept(written, 20)
    calls = _calls(run, faults, end)
    records = [call for call in calls if call.what == "open_sink" and "/purges/" in call.on]
    run.environment.clock.instant = NOW
    swept(written, 20)
    faults.arm(len(records), ERROR, what="open_sink", on="/purges/")
    run.environment.clock.instant = NOW + timedelta(days=31)
    done = Purged()
    with (
        mock.patch.object(
            purge_quarantine, "needed_finder", lambda run: lambda *_: Needed(run.now(), hashes_of())
        ),
        pytest.raises(PermissionDeniedError),
    ):
        purge_quarantine.purge(run, Lease(run), done)
    assert "purges/" in faults.fired
    assert (done.objects, done.left, done.unknown, done.record) == (20, 0, 0, None)


@pytest.mark.slow
def test_what_spark_loses_in_a_purge_may_be_gone_and_nobody_says_that_it_is_left(
    written, run, monkeypatch
):
    swept(written, 20)
    monkeypatch.setattr(recorded_work, "_work", _dies)
    done = Purged()
    run.environment.clock.instant = NOW + timedelta(days=31)
    monkeypatch.setattr(
        purge_quarantine, "needed_finder", lambda run: lambda *_: Needed(run.now(), hashes_of())
    )
    with pytest.raises(Exception, match="the worker is gone"):
        purge_quarantine.purge(run, Lease(run), done)
    assert (done.objects, done.left, done.unknown) == (0, 0, 20)
    assert done.record is not None


def _dies(_orders, _deadline, _tasks, _number, _rows):
    raise RuntimeError("the worker is gone")


@pytest.mark.slow
def test_names_that_spark_loses_between_listing_and_asking_end_the_look(written, run, monkeypatch):
    swept(written, 20)
    run.environment.clock.instant = NOW + timedelta(days=31)
    kept = (tables.COMMITTED_ADDRESSES, tables.UNCOMMITTED_ADDRESSES)
    mark = {spec.name: run.load(spec) for spec in kept}
    monkeypatch.setattr(quarantine_still_needed.verdict, "load_mark", lambda _run: mark)
    names = quarantine_still_needed._names
    monkeypatch.setattr(
        quarantine_still_needed,
        "_names",
        lambda batches: (batch.slice(1) for batch in names(batches)),
    )
    done = Purged()
    with pytest.raises(
        IncompleteReadError, match=r"Spark holds 38 of the 40 names of objects in quarantine"
    ):
        purge_quarantine.purge(run, Lease(run), done)
    assert done == Purged()
    assert len(keys(run.store, lakegc_keys.QUARANTINE)) == 20


@pytest.mark.slow
def test_what_was_listed_and_is_lost_before_it_is_sent_ends_the_purge(written, run, monkeypatch):
    swept(written, 20)
    work_on = recorded_work.work_on

    def losing(run, objects, parts, orders, **more):
        return work_on(run, objects, parts, replace(orders, work=First(orders.work, 15)), **more)

    monkeypatch.setattr(recorded_work, "work_on", losing)
    with pytest.raises(IncompleteReadError, match="Spark lost 5 objects in quarantine"):
        end(run)


def _calls(run, faults, work):
    faults.arm(0, "")
    work(run)
    return faults.calls()


def _reads_of_parts(calls, spec):
    """How often each part of a table was read."""
    return Counter(
        call.on
        for call in calls
        if call.what == "read" and f"/{spec.folder}/" in call.on and "part-" in call.on
    )


@pytest.mark.slow
def test_a_restore_reads_each_table_once_however_many_objects_there_are(written, run, faults):
    swept(written, 60)
    facts = {"deleted_objects": 60, "planned_objects": 60}
    written._keep(tables.DELETION_REPORT, list(_rows(run.load(tables.DELETION_REPORT))), **facts)
    calls = _calls(run, faults, restore.restore)
    for spec in (tables.DELETION_REPORT, tables.EXPIRED_ADDRESSES, tables.NAMESPACE_SLICES):
        assert set(_reads_of_parts(calls, spec).values()) == {1}, spec.name
    assert len([call for call in calls if call.what == "link_to"]) == 60


def _rows(table):
    return (row for batch in table.batches() for row in batch.to_pylist())


@pytest.mark.deep
def test_what_is_left_of_a_killed_sweep_is_looked_at_by_executors(run):
    journal = Journal(run.store, "2020-01-01T00-00-00Z", "5" * 64)
    journal.bind("repo")
    names = [f"data/s/{number}" for number in range(2_500)]
    for begin in range(0, len(names), 1_000):
        some = names[begin : begin + 1_000]
        journal.intend(f"aa.1.0.0.{begin}", journal_entries("intended", some))
        journal.conclude(f"bb.1.0.0.{begin}", journal_entries("kept", some))
    there = names[::500]
    for address in there:
        run.store.put(address, b"1234")
    asked = [there[0], names[1], names[2]]
    assert recheck_leftovers(run, journal, None, asked) == {names[1], names[2]}
    gone = [
        part
        for part in journal.parts()
        if part.rows and journal.read(part)["outcome"][0].as_py() == "already_gone"
    ]
    assert sum(part.rows for part in gone) == 2_500 - len(there)
    assert max(part.rows for part in gone) <= 1_000


def test_there_are_as_many_tasks_as_there_is_work_for(spark):
    at_once = spark.sparkContext.defaultParallelism
    assert [tasks_for(spark, count) for count in (0, 1, 1_000, 1_001, 10_000_000)] == [
        1,
        1,
        1,
        min(2, at_once),
        100,
    ]
