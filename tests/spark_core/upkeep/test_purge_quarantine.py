"""The end of quarantine: what is over is deleted for good, and everything of it is told."""

import io
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from spark_core import lakegc_keys, recorded_work
from spark_core.errors import ChainError, LeaseLostError, TransientError
from spark_core.lock import lease
from spark_core.lock.held_lease import Lease
from spark_core.references.parts_of_look import GOOD_FOR
from spark_core.storage import deletion
from spark_core.storage.deletion import KeyAnswer
from spark_core.sweep import quarantine
from spark_core.upkeep import house_keeping, purge_quarantine, quarantine_still_needed
from tests.support.old_runs import key_of_day, mark, prune
from tests.support.written_run import hashes_of


@pytest.fixture
def looked(monkeypatch):
    """A look that finds nothing needed; what it was asked about."""
    asked = []

    def finder(run):
        def find(over):
            rows = over.here(1)
            assert rows.num_rows == over.rows
            asked.append(set(rows["run"].to_pylist()))
            return quarantine_still_needed.Needed(run.now(), hashes_of())

        return find

    monkeypatch.setattr(purge_quarantine, "needed_finder", finder)
    return asked


def _in_quarantine(run, *beside):
    """Let an object of the run of the day before yesterday be in quarantine, and its days be over.

    Return its key.
    """
    key = quarantine.key_of(key_of_day(2), "data/s/x")
    run.store.put(key, b"1234")
    mark(run, 2, swept=True, moved=("data/s/x", *beside))
    run.environment.clock.instant += timedelta(days=run.options.quarantine_days)
    mark(run, 0)
    return key


def test_a_run_with_objects_in_quarantine_stays_until_they_are_purged(run, looked):
    mark(run, 1)
    _in_quarantine(run)
    first = house_keeping.keep_house(run)
    assert first.pruned.kept == {str(key_of_day(2)): "objects of it are in quarantine"}
    assert first.pruned.purged.objects == 1, "its days are over"
    assert first.facts["purged"]["size_bytes"] == 4
    assert (
        f"quarantine: 1 objects (4 bytes) deleted for good, listed in {lakegc_keys.ROOT}purges/"
        in first.words
    )
    assert looked == [{str(key_of_day(2))}]
    assert prune(run).runs == [key_of_day(2)]


def test_what_is_due_and_stays_is_told(run, monkeypatch):
    used = _in_quarantine(run)
    monkeypatch.setattr(
        purge_quarantine,
        "needed_finder",
        lambda run: lambda *_: quarantine_still_needed.Needed(run.now(), hashes_of("data/s/x")),
    )
    house = house_keeping.keep_house(run)
    assert run.store.exists(used)
    assert house.facts["purged"]["in_use"] == 1
    assert (
        "1 objects stay in quarantine because something refers to them or holds them, or may"
        in house.words
    )


def test_quarantine_does_not_end_where_nobody_knows_what_is_needed(run, monkeypatch):
    key = _in_quarantine(run)

    def unknown(_over):
        raise ChainError("the server does not say", "Run again.")

    monkeypatch.setattr(purge_quarantine, "needed_finder", lambda _run: unknown)
    house = house_keeping.keep_house(run)
    assert house.pruned.purged == purge_quarantine.Purged()
    assert house.facts["not_purged"] == "the server does not say"
    assert "the end of quarantine was not reached: the server does not say" in house.words
    assert run.store.exists(key)


def test_a_mode_that_deletes_nothing_ends_no_quarantine(run, looked):
    key = _in_quarantine(run)
    house = house_keeping.keep_house(replace(run, options=replace(run.options, may_sweep=False)))
    assert "the days of 1 runs are over, but mode is `mark`" in house.words
    assert looked == []
    assert run.store.exists(key)


def test_the_end_of_quarantine_stops_where_the_lease_is_lost_and_what_was_done_is_told(
    run, looked, monkeypatch
):
    mark(run, 3)
    key, beat, beats = _in_quarantine(run), Lease.beat, []

    def lost_before_the_purge(held):
        beats.append(held)
        if looked:
            raise LeaseLostError("the lease is lost")
        beat(held)

    monkeypatch.setattr(Lease, "beat", lost_before_the_purge)
    house = house_keeping.keep_house(run)
    assert looked
    assert run.store.exists(key)
    assert house.pruned.runs == [key_of_day(3)]
    assert house.facts["purged"]["left"] == 1
    assert "tables of 1 old runs pruned (" in house.words
    assert (
        "1 of its objects are left for the next time; not finished: the lease is lost"
        in house.words
    )


def test_a_purge_sends_nothing_again_that_it_would_not_send_now(run, looked, monkeypatch):
    """A store that is busy, or does not answer, has a deletion sent again minutes later.

    Somebody may need the object by then.
    """
    key, sent, unlink = _in_quarantine(run), [], run.store._send_deletion

    def hang(keys, pace):
        if keys != [key]:
            return unlink(keys, pace)
        sent.append(run.now())
        run.environment.clock.instant += timedelta(minutes=2)
        return {key: KeyAnswer("failed", "no answer in 2 minutes", passing=True) for key in keys}

    monkeypatch.setattr(run.store, "_send_deletion", hang)
    monkeypatch.setattr(deletion, "wait", lambda _seconds: None)
    began = run.now()
    house = house_keeping.keep_house(run)
    assert looked
    assert 1 < len(sent) < run.store.options.max_retries
    assert sent[-1] < began + GOOD_FOR - run.store.options.retry_timeout
    assert run.store.exists(key)
    assert (house.pruned.purged.objects, house.pruned.purged.left) == (0, 1)


def test_what_was_purged_before_the_look_was_over_counts_as_purged(run, looked, monkeypatch):
    key, delete = _in_quarantine(run), run.store.delete

    def slow(keys, **options):
        told = delete(keys, **options)
        if keys == [key]:
            run.environment.clock.instant += GOOD_FOR
            options["pace"]()
        return told

    monkeypatch.setattr(run.store, "delete", slow)
    house = house_keeping.keep_house(run)
    assert looked
    assert not run.store.exists(key)
    assert (house.pruned.purged.objects, house.pruned.purged.left) == (1, 0)


def _told(run, house):
    """What the record of a purge of one object says."""
    (record,) = (
        key
        for batch in run.store.list(house.pruned.purged.record)
        for key in batch["key"].to_pylist()
    )
    (row,) = pq.read_table(io.BytesIO(run.store.read(record))).to_pylist()
    return row["outcome"]


@pytest.mark.parametrize("answer", ["failed", "refused"])
def test_what_is_gone_although_the_store_never_said_so_counts_as_purged(
    run, looked, monkeypatch, answer
):
    key, unlink = _in_quarantine(run), run.store._send_deletion

    def lost(keys, pace):
        told = unlink(keys, pace)
        return (
            {name: KeyAnswer(answer, "the first answer was lost") for name in told}
            if keys == [key]
            else told
        )

    monkeypatch.setattr(run.store, "_send_deletion", lost)
    house = house_keeping.keep_house(run)
    assert not run.store.exists(key)
    assert (_told(run, house), house.pruned.purged.objects, house.pruned.purged.left) == (
        "purged",
        1,
        0,
    )


@pytest.mark.parametrize("lost", [False, True])
def test_of_what_was_sent_and_cannot_be_looked_at_nobody_says_that_it_is_left(
    run, looked, monkeypatch, lost
):
    key, delete, exists, sent = _in_quarantine(run), run.store.delete, run.store.exists, []

    def slow(keys, **options):
        told = delete(keys, **options)
        if keys == [key]:
            sent.append(key)
            run.environment.clock.instant += GOOD_FOR
            if lost:
                raise LeaseLostError("the lease is lost")
            options["pace"]()
        return told

    def stumble(asked):
        if asked == key and sent:
            raise TransientError("HTTP 503")
        return exists(asked)

    monkeypatch.setattr(run.store, "delete", slow)
    monkeypatch.setattr(run.store, "exists", stumble)
    house = house_keeping.keep_house(run)
    assert _told(run, house) == "unknown"
    assert (house.pruned.purged.objects, house.pruned.purged.unknown, house.pruned.purged.left) == (
        0,
        1,
        0,
    )
    assert (
        "1 may be gone: nobody answered for their deletion, nor whether they are there"
        in house.words
    )
    assert ("not finished: the lease is lost" in house.words) == lost


def test_a_purge_without_a_record_says_so(run, looked, monkeypatch):
    _in_quarantine(run)
    monkeypatch.setattr(run.store, "write_parquet", _refused)
    house = house_keeping.keep_house(run)
    assert looked
    assert (
        "1 objects (4 bytes) deleted for good, of which no record could be written" in house.words
    )


def _purge_by_twos(run, monkeypatch, ended, third):
    """Purge eight objects, two with a request; an error ends the third request.

    Return what was done, and the outcomes in the record, none of which is false.
    """
    beside = [f"data/s/{name}" for name in "abcdefg"]
    for address in beside:
        run.store.put(quarantine.key_of(key_of_day(2), address), b"1234")
    _in_quarantine(run, *beside)
    requests, delete = [], run.store.delete

    def ending(keys, **options):
        if not keys[0].startswith(lakegc_keys.in_quarantine(key_of_day(2))):
            return delete(keys, **options)
        requests.append(keys)
        if len(requests) != 3:
            return delete(keys, **options)
        third(delete, keys, options)
        raise ended

    monkeypatch.setattr(run.store, "delete_batch_size", 2)
    monkeypatch.setattr(run.store, "delete", ending)
    done = purge_quarantine.Purged()
    with pytest.raises(type(ended)), lease.hold_lease(run, work="prune") as held:
        purge_quarantine.purge(run, held, done)
    assert len(requests) == 3, "nothing is sent after that"
    rows = [
        row
        for batch in run.store.list(done.record)
        for key in batch["key"].to_pylist()
        if "/planned/" not in key
        for row in pq.read_table(io.BytesIO(run.store.read(key))).to_pylist()
    ]
    assert len(rows) == len({row["address"] for row in rows}) == 8, "one outcome for each"
    for row in rows:
        is_there = run.store.exists(quarantine.key_of(key_of_day(2), row["address"]))
        assert row["outcome"] != ("purged" if is_there else "left"), row
    return done, Counter(row["outcome"] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [recorded_work.task.RECORD_ROWS, 2])
@pytest.mark.parametrize("ended", [KeyboardInterrupt(), OSError("the disk is gone")], ids=repr)
def test_a_purge_that_is_interrupted_says_what_is_gone_and_of_nothing_gone_that_it_is_left(
    run, looked, monkeypatch, ended, rows
):
    monkeypatch.setattr(recorded_work.task, "RECORD_ROWS", rows)
    done, recorded = _purge_by_twos(
        run, monkeypatch, ended, lambda delete, keys, options: delete(keys, **options)
    )
    assert looked
    assert (done.objects, done.size_bytes, done.unknown, done.left) == (4, 16, 4, 0)
    assert recorded == {"purged": 4, "unknown": 4}


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [(KeyboardInterrupt(), "unknown"), (LeaseLostError("before anything is done"), "left")],
    ids=repr,
)
def test_of_what_tasks_may_have_purged_when_an_interrupt_came_nobody_says_that_it_is_left(
    run, looked, monkeypatch, ended, outcome
):
    _in_quarantine(run)
    rounds, work_on = [], recorded_work.work_on

    def interrupted(*arguments, **options):
        rounds.append(arguments)
        if len(rounds) == 1:
            raise ended
        return work_on(*arguments, **options)

    monkeypatch.setattr(recorded_work, "work_on", interrupted)
    done = purge_quarantine.Purged()
    with pytest.raises(type(ended)), lease.hold_lease(run, work="prune") as held:
        purge_quarantine.purge(run, held, done)
    assert looked
    assert done.objects == 0
    assert {"unknown": done.unknown, "left": done.left} == {"unknown": 0, "left": 0, outcome: 1}
    (record,) = (
        key
        for batch in run.store.list(done.record)
        for key in batch["key"].to_pylist()
        if "/planned/" not in key
    )
    (row,) = pq.read_table(io.BytesIO(run.store.read(record))).to_pylist()
    assert row["outcome"] == outcome


def test_what_was_purged_and_could_not_be_written_down_is_not_written_down_as_left(
    run, looked, monkeypatch
):
    write, tried, is_deleting = run.store.write_parquet, [], []

    def stumble(key, *rest):
        if is_deleting:
            tried.append(key)
            if len(tried) == 1:
                raise TransientError("the store is away")
        return write(key, *rest)

    monkeypatch.setattr(run.store, "write_parquet", stumble)
    ended = TransientError("HTTP 503")
    done, recorded = _purge_by_twos(run, monkeypatch, ended, lambda *_: is_deleting.append(True))
    assert looked
    assert len(tried) == 2
    assert (done.objects, done.unknown, done.left) == (4, 4, 0)
    assert recorded == {"unknown": 8}


def _refused(*_arguments):
    raise TransientError("the store is away")
