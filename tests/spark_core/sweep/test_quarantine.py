"""The end of quarantine: what is deleted for good, when, and what never is."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from spark_core import holds, lakegc_keys
from spark_core.errors import CorruptTableError, IncompleteReadError, LeaseLostError, TransientError
from spark_core.holds import Hold
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.swept import quarantine_ends_at
from spark_core.references.parts_of_look import GOOD_FOR
from spark_core.spark.exchange import source_of
from spark_core.storage.deletion import KeyAnswer
from spark_core.sweep import quarantine
from spark_core.sweep.quarantine import key_of
from spark_core.upkeep import purge_quarantine, quarantine_days_over, quarantine_still_needed
from spark_core.upkeep.purge_quarantine import Purged
from spark_core.upkeep.quarantine_days_over import OVER
from spark_core.upkeep.quarantine_still_needed import Needed
from tests.support.written_run import NOW, hashes_of, written_run

KEPT = {spec.name: spec for spec in (tables.COMMITTED_ADDRESSES, tables.UNCOMMITTED_ADDRESSES)}
MOVED = {"data/s/a": (4, "deleted", None), "data/s/b": (6, "deleted", None)}


@pytest.fixture
def written(tmp_path):
    made = written_run(tmp_path, None)
    made.run = replace(
        made.run, options=replace(made.run.options, quarantine=True, quarantine_days=30)
    )
    return made


@pytest.fixture
def store(written):
    return written.run.store


def keys(store, prefix=""):
    return {key for batch in store.list(prefix) for key in batch.column("key").to_pylist()}


def sweep(written):
    for address, (size, _, _) in MOVED.items():
        written.run.store.put(address, b"x" * size)
    assert {
        outcome.outcome
        for outcome in quarantine.move(written.run.store, written.run.key, list(MOVED))
    } == {"deleted"}
    written.journal({address: size for address, (size, _, _) in MOVED.items()})
    return written.sweep(MOVED)


def after(run, days, seconds=0, since=NOW):
    """The house-keeping of a later run."""
    run.environment.clock.instant = since + timedelta(days=days, seconds=seconds)
    return run


def lease_of(run, beat=lambda: None):
    """A lease that is good for long, and does this at each beat."""
    return mock.Mock(beat=beat, expires_at=run.now() + timedelta(days=1))


def end(run, *needed, looked=timedelta(0)):
    """Purge what is due, after a look so long ago that found these names needed."""
    done = Purged()
    found = Needed(run.now() - looked, hashes_of(*needed))
    with mock.patch.object(purge_quarantine, "needed_finder", return_value=lambda *_: found):
        purge_quarantine.purge(run, lease_of(run), done)
    return done


def told_of(store, done):
    """Read the record of a purge."""
    found = sorted(key for key in keys(store, done.record))
    return [row for key in found for batch in store.read_parquet(key) for row in batch.to_pylist()]


def purged(run):
    """What a purge does where nothing is needed: objects, bytes and what is left."""
    done = end(run)
    return done.objects, done.size_bytes, done.left


NOTHING = (0, 0, 0)


@pytest.mark.parametrize(("seconds", "left"), [(-1, 2), (0, 0), (1, 0)])
def test_objects_are_deleted_for_good_when_their_days_are_over_and_not_before(
    written, store, seconds, left
):
    ended = sweep(written).reading_ended
    store.put("data/s/live", b"live")
    done = purged(after(written.run, 30, seconds, since=ended))
    assert len(keys(store, lakegc_keys.QUARANTINE)) == left
    assert done == (NOTHING if left else (2, 10, 0))
    assert "data/s/live" in keys(store)
    assert left or purged(written.run) == NOTHING


def test_days_are_counted_from_the_end_of_the_last_sweep_of_a_run(written, store):
    sweep(written)
    after(written.run, 29)
    written.sweep(MOVED)
    assert purged(after(written.run, 31)) == NOTHING
    assert purged(after(written.run, 60))[0] == 2


def test_what_a_later_sweep_moved_has_its_own_days_though_that_sweep_left_no_report(written, store):
    ended = sweep(written).reading_ended
    store.put("data/s/c", b"later")
    quarantine.move(store, written.run.key, ["data/s/c"])
    later = ended + timedelta(days=3)
    written.journal({"data/s/c": 5}, at=later)
    # A move keeps the time of a file, and a file system may tell any: it counts for nothing.
    for key in keys(store, lakegc_keys.QUARANTINE):
        os.utime(Path(store.options.local_path, "repo", key), (0, 0))
    assert purged(after(written.run, 31, since=ended)) == (2, 10, 0)
    assert keys(store, lakegc_keys.QUARANTINE) == {key_of(written.run.key, "data/s/c")}
    assert purged(after(written.run, 30, -1, since=later)) == NOTHING
    assert purged(after(written.run, 30, since=later)) == (1, 5, 0)


@pytest.mark.parametrize("days", [1, 60])
def test_what_a_report_promised_holds_when_the_days_are_changed(written, store, days):
    sweep(written)
    run = written.run
    manifest = written._keep(tables.DELETION_REPORT, [], **quarantine.figures(run).facts())
    assert quarantine_ends_at(manifest) == manifest.reading_ended + timedelta(days=30)
    changed = replace(run, options=replace(run.options, quarantine_days=days))
    assert purged(after(changed, max(30, days), -60)) == NOTHING
    assert purged(after(changed, max(30, days), 60))[0] == 2


def test_without_a_report_nothing_is_deleted_however_old(written, store):
    for address in MOVED:
        store.put(key_of(written.run.key, address), b"x")
    assert purged(after(written.run, 10_000)) == NOTHING
    assert len(keys(store, lakegc_keys.QUARANTINE)) == 2


def test_a_report_that_cannot_be_read_ends_no_quarantine(written, store):
    sweep(written)
    store.put(tables.manifest_key(tables.DELETION_REPORT, written.run.key), b"{")
    with pytest.raises(CorruptTableError, match="a file of lakegc's own, not of the server"):
        purged(after(written.run, 31))
    assert len(keys(store, lakegc_keys.QUARANTINE)) == 2


def test_only_what_a_sweep_put_there_is_deleted(written, store):
    sweep(written)
    strange = {
        f"{lakegc_keys.QUARANTINE}run_id=2026-11-20T02-00-00Z-copy/data/s/a",
        f"{lakegc_keys.QUARANTINE}run_id=2026-13-20T02-00-00Z/data/s/a",
        f"{lakegc_keys.QUARANTINE}other/data/s/a",
        f"{lakegc_keys.QUARANTINE}loose",
        key_of(written.run.key, "notes.txt"),
        key_of(written.run.key, "_lakefs/x"),
        key_of(written.run.key, "data/s/_lakefs/x"),
        key_of(written.run.key, "data/s/named-in-no-journal"),
        key_of(RunKey.at(NOW - timedelta(days=1)), "data/s/a"),
    }
    for key in strange:
        store.put(key, b"x")
    done = end(after(written.run, 31))
    assert (done.objects, done.strangers, done.left) == (2, 4, 0)
    assert keys(store, lakegc_keys.QUARANTINE) == strange


def test_what_the_store_does_not_let_go_is_counted_and_taken_again(written, store, monkeypatch):
    sweep(written)
    unlink = store._delete_one
    monkeypatch.setattr(
        store,
        "_delete_one",
        lambda key: unlink(key) if key.endswith("a") else KeyAnswer("refused", "held"),
    )
    assert purged(after(written.run, 31)) == (1, 4, 1)
    monkeypatch.undo()
    assert purged(written.run) == (1, 6, 0)


def test_the_report_knows_until_when(written):
    assert quarantine_ends_at(sweep(written)) is None
    stored = sweep(written)
    manifest = replace(stored, facts={**stored.facts, **quarantine.figures(written.run).facts()})
    assert quarantine_ends_at(manifest) == manifest.reading_ended + timedelta(days=30)
    assert (
        quarantine.figures(
            replace(written.run, options=replace(written.run.options, quarantine=False))
        ).facts()
        == {}
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("address", "data/s/a"),
        ("prefix", "data/s/a"),
        ("address", key_of(RunKey.at(NOW), "data/s/a")),
        ("prefix", key_of(RunKey.at(NOW), "")),
    ],
)
def test_what_a_hold_keeps_stays_in_quarantine(written, store, kind, value):
    sweep(written)
    hold = Hold("audit", kind, value, None, "ann", NOW, "a test")
    store.put(lakegc_keys.hold_key("audit"), hold.to_json())
    done = end(after(written.run, 31))
    held = 1 if value.endswith("a") else 2
    assert (done.objects, done.in_use) == (2 - held, held)
    assert key_of(written.run.key, "data/s/a") in keys(store, lakegc_keys.QUARANTINE)
    assert purged(written.run) == NOTHING


def test_an_object_in_quarantine_can_be_held(written):
    sweep(written)
    key = key_of(written.run.key, "data/s/a")
    assert holds.add(written.run, "audit", "address", key, who="ann", why="a test").value == key


@pytest.mark.parametrize(
    ("kind", "value"), [("address", "data/s/a"), ("prefix", "data/s/"), ("prefix", "data/")]
)
def test_an_object_in_quarantine_can_be_held_by_its_old_address(written, kind, value):
    sweep(written)
    assert holds.add(written.run, "audit", kind, value, who="ann", why="a test").value == value
    assert end(after(written.run, 31)).in_use > 0


@pytest.mark.parametrize("named", ["data/s/a", key_of(RunKey.at(NOW), "data/s/a")])
def test_what_is_needed_stays_and_the_record_tells_of_each_object(written, store, named):
    sweep(written)
    done = end(after(written.run, 31), named)
    assert (done.objects, done.size_bytes, done.in_use, done.left) == (1, 6, 1, 0)
    assert keys(store, lakegc_keys.QUARANTINE) == {key_of(written.run.key, "data/s/a")}
    told = told_of(store, done)
    assert {row["address"]: (row["outcome"], row["size_bytes"]) for row in told} == {
        "data/s/a": ("in_use", 4),
        "data/s/b": ("purged", 6),
    }
    assert {row["run"] for row in told} == {str(written.run.key)}


@pytest.mark.parametrize(("there", "stays"), [(b"x" * 4, 0), (b"another", 1), (b"y" * 4, 1)])
def test_a_copy_goes_where_the_object_is_back_in_its_place(written, store, there, stays):
    sweep(written)
    store.put("data/s/a", there)
    assert end(after(written.run, 31), "data/s/a").in_use == stays


def test_a_copy_that_something_refers_to_stays_although_the_object_is_back(written, store):
    sweep(written)
    store.put("data/s/a", b"x" * 4)
    assert end(after(written.run, 31), "data/s/a", key_of(written.run.key, "data/s/a")).in_use == 1


def test_what_nobody_needs_goes_before_the_rest_is_compared(written, store, monkeypatch):
    sweep(written)
    store.put("data/s/a", b"x" * 4)
    seen, read = [], store.read_range
    monkeypatch.setattr(
        store,
        "read_range",
        lambda *asked: seen.append(keys(store, lakegc_keys.QUARANTINE)) or read(*asked),
    )
    assert end(after(written.run, 31), "data/s/a").objects == 2
    assert seen[0] == {key_of(written.run.key, "data/s/a")}


def test_what_is_compared_byte_by_byte_is_looked_at_anew(written, store, monkeypatch):
    sweep(written)
    key, seen, describe = key_of(written.run.key, "data/s/a"), [], store.describe
    store.put("data/s/a", b"x" * 4)

    def longer_by_then(asked):
        seen.append(asked)
        if seen.count("data/s/a") == 2:
            store.put("data/s/a", b"x" * 4 + b"and more")
        return describe(asked)

    monkeypatch.setattr(store, "describe", longer_by_then)
    assert end(after(written.run, 31), "data/s/a").in_use == 1
    assert keys(store, lakegc_keys.QUARANTINE) == {key}


def test_what_cannot_be_compared_with_its_copy_keeps_it(written, store, monkeypatch):
    sweep(written)
    store.put("data/s/a", b"x" * 4)
    monkeypatch.setattr(store, "read_range", _away)
    assert end(after(written.run, 31), "data/s/a").in_use == 1
    assert keys(store, lakegc_keys.QUARANTINE) == {key_of(written.run.key, "data/s/a")}


def test_what_was_never_sent_is_left(written, store, monkeypatch):
    sweep(written)
    run, done = after(written.run, 31), Purged()
    monkeypatch.setattr(
        purge_quarantine, "needed_finder", lambda _run: lambda *_: Needed(run.now(), hashes_of())
    )
    monkeypatch.setattr(store, "exists", _away)
    monkeypatch.setattr(quarantine_days_over, "runs_due", lambda _run: ((run.key,), None))
    with pytest.raises(TransientError):
        purge_quarantine.purge(run, lease_of(run, _away), done)
    assert (done.objects, done.left, done.unknown) == (0, 2, 0)


def _away(*_arguments):
    raise TransientError("the store is away")


def test_what_is_back_in_its_place_is_asked_just_before_its_copy_goes_not_for_the_whole_look(
    written, store, monkeypatch
):
    sweep(written)
    store.delete_batch_size = 1
    for address, (size, _, _) in MOVED.items():
        store.put(address, b"x" * size)
    did, read, delete = [], store.read_range, store.delete
    monkeypatch.setattr(store, "read_range", lambda *asked: did.append("read") or read(*asked))
    monkeypatch.setattr(
        store, "delete", lambda keys, **options: did.append("deleted") or delete(keys, **options)
    )
    assert end(after(written.run, 31), *MOVED).objects == 2
    assert did == ["read", "read", "deleted"] * 2


def test_what_was_purged_before_the_lease_is_lost_is_in_the_record(written, store):
    sweep(written)
    store.delete_batch_size, beats, done = 1, [], Purged()

    def beat():
        beats.append(1)
        if len(beats) == 2:
            raise LeaseLostError("the lease is lost")

    run = after(written.run, 31)
    found = Needed(run.now(), hashes_of())
    with (
        mock.patch.object(purge_quarantine, "needed_finder", return_value=lambda *_: found),
        pytest.raises(LeaseLostError),
    ):
        purge_quarantine.purge(run, lease_of(run, beat), done)
    assert (done.objects, done.left) == (1, 1)
    assert sorted(row["outcome"] for row in told_of(store, done)) == ["left", "purged"]


def test_where_everything_is_gone_nothing_is_due(written, store):
    sweep(written)
    run = after(written.run, 31)
    assert quarantine_days_over.runs_due(run) == ((run.key,), None)
    end(run)
    assert quarantine_days_over.runs_due(run) == ((), None)


@pytest.mark.parametrize(
    ("lost", "problem"),
    [
        ("names", "Spark holds 4 of the 6 names of objects in quarantine"),
        *((name, f"Spark holds 0 of the 1 rows of {name} that may need") for name in KEPT),
    ],
)
def test_rows_that_are_lost_on_the_way_end_the_look(tmp_path, monkeypatch, lost, problem):
    run = written_run(tmp_path, None).run
    mark = {name: mock.Mock(source=partial(_no_rows, int(name == lost))) for name in KEPT}
    monkeypatch.setattr(quarantine_still_needed.verdict, "load_mark", lambda _run: mark)
    monkeypatch.setattr(
        quarantine_still_needed,
        "retained_hashes",
        lambda _run, committed: committed.source(["address_hash"]),
    )
    # Copies of two runs of one object, and of another: their names, and those where they lie.
    copies = (("1", "a"), ("2", "a"), ("2", "b"))
    rows = [
        {"run": of, "address": name, "key": f"{of}/{name}", "size_bytes": 4} for of, name in copies
    ]
    over = source_of(pa.Table.from_pylist(rows, schema=OVER), OVER)
    if lost == "names":
        over = replace(over, read=lambda task: iter(task.slice(1).to_batches()))
    with pytest.raises(IncompleteReadError, match=problem):
        quarantine_still_needed.needed_finder(run)(over)


def _no_rows(promised, columns):
    wanted = pa.schema([(name, pa.int64()) for name in columns])
    return replace(source_of(wanted.empty_table(), wanted), rows=promised)


def test_a_look_is_believed_for_as_long_as_by_a_sweep(written, store):
    sweep(written)
    run = after(written.run, 31)
    late = end(run, looked=GOOD_FOR)
    assert (late.objects, late.left) == (0, 2)
    assert len(keys(store, lakegc_keys.QUARANTINE)) == 2
    assert end(run).objects == 2


def test_a_later_report_keeps_the_promise_of_an_earlier_one(written):
    sweep(written)
    long = replace(written.run, options=replace(written.run.options, quarantine_days=365))
    earlier = written._keep(tables.DELETION_REPORT, [], **quarantine.figures(long).facts())
    assert quarantine.figures(written.run, earlier).quarantine_days == 365
