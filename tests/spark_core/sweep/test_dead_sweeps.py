"""Sweeps that died: who ends their journals, and until when what they had moved stays."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from spark_core import lakegc_keys
from spark_core.certificate.issue import what_is_left
from spark_core.errors import CorruptTableError, LeaseLostError, UnsafePlanError
from spark_core.explain.outcomes import outcomes_of
from spark_core.lock import lease
from spark_core.model import RunKey
from spark_core.records import journal
from spark_core.records.journal import JournalEnd
from spark_core.report.past_runs import past_runs
from spark_core.report.status_of_runs import status_of
from spark_core.sweep.dead_sweeps import dead_sweeps, end_journal
from spark_core.sweep.plan import has_ended, require_unfinished
from spark_core.sweep.quarantine import key_of
from spark_core.upkeep import house_keeping, own_files, purge_quarantine
from spark_core.upkeep.purge_quarantine import Purged
from spark_core.upkeep.quarantine_still_needed import Needed
from tests.support.old_runs import prune
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, Written, hashes_of, written_run

DAY = timedelta(days=1)


@pytest.fixture
def tonight(tmp_path):
    """The run of the night after the sweep died."""
    made = written_run(tmp_path, None).run
    options = replace(made.options, quarantine=True, quarantine_days=30, may_sweep=True)
    made.environment.clock.instant = NOW + DAY
    return replace(made, key=RunKey.at(NOW + DAY), options=options)


@pytest.fixture
def dead(tonight):
    """The run whose sweep died."""
    return Written(tonight.at(RunKey.at(NOW)))


def moved(dead, *addresses, outcome="deleted", at=NOW, copied=NOW):
    """Let a sweep have moved objects of 4 bytes, and have written down an outcome or none."""
    store = dead.run.store
    for address in addresses:
        key = key_of(dead.run.key, address)
        store.put(key, b"1234")
        where, instant = Path(store.options.local_path, "repo", key), copied.timestamp()
        os.utime(where, (instant, instant))
    dead.journal(dict.fromkeys(addresses, 4), outcome, at=at)


def reported(dead, days, **outcomes):
    """Let the sweep have left a report, and a journal that was written after it as files tell."""
    told = {f"data/s/{name}": (4, said, None) for name, said in outcomes.items()}
    report = dead.sweep(told, quarantine_days=days)
    folder = Path(dead.run.store.options.local_path, "repo", journal.folder(dead.run.key))
    later = datetime.now(UTC).timestamp() + 60
    for part in folder.iterdir():
        os.utime(part, (later, later))
    return report


def end(tonight):
    """End what died, under the lease of this night."""
    with lease.hold_lease(tonight) as held:
        return [end_journal(tonight, held, dead) for dead in dead_sweeps(tonight)]


def purged_by(tonight, instant):
    """Say which addresses house-keeping purges at an instant, where nothing is needed."""
    tonight.environment.clock.instant = instant
    before, done = aside(tonight), Purged()
    found = Needed(tonight.now(), hashes_of())
    held = mock.Mock(expires_at=tonight.now() + DAY)
    with mock.patch.object(purge_quarantine, "needed_finder", return_value=lambda *_: found):
        purge_quarantine.purge(tonight, held, done)
    return before - aside(tonight)


def aside(run):
    keys = (key for batch in run.store.list(lakegc_keys.QUARANTINE) for key in batch["key"])
    return {key.as_py().split("/", 5)[-1] for key in keys}


def test_the_end_says_what_a_dead_sweep_moved_and_until_when(tonight, dead):
    moved(dead, "data/s/a", "data/s/b", at=NOW)
    moved(dead, "data/s/c", at=NOW + timedelta(hours=3))
    (told,) = end(tonight)
    assert told == journal.ended(tonight.store, dead.run.key)
    assert told == JournalEnd(
        run=str(dead.run.key),
        ended_by=str(tonight.key),
        ended_at=told.ended_at,
        objects=3,
        size_bytes=12,
        kept_seconds=30 * 86_400,
        first_until=NOW + 30 * DAY,
        until=NOW + 30 * DAY + timedelta(hours=3),
    )
    assert end(tonight) == [], "once"


def test_an_end_that_stands_is_not_written_again(tonight, dead):
    moved(dead, "data/s/a")
    (first,) = end(tonight)
    with lease.hold_lease(tonight) as held:
        later = replace(tonight, options=replace(tonight.options, quarantine_days=1))
        assert end_journal(later, held, dead.run.key) == first


def test_days_count_from_the_last_outcome_of_each_object(tonight, dead):
    moved(dead, "data/s/a", at=NOW)
    moved(dead, "data/s/b", outcome="failed", at=NOW)
    moved(dead, "data/s/b", at=NOW + 3 * DAY)
    end(tonight)
    second = timedelta(seconds=1)
    assert purged_by(tonight, NOW + 30 * DAY - second) == set()
    assert purged_by(tonight, NOW + 30 * DAY + second) == {"data/s/a"}
    assert purged_by(tonight, NOW + 33 * DAY - second) == set()
    assert purged_by(tonight, NOW + 33 * DAY + second) == {"data/s/b"}


@pytest.mark.parametrize(
    ("copied", "lot", "since"),
    [(0, 2, 2), (5, 2, 5)],
    ids=["a move keeps the time of its file", "copied after the last lot"],
)
def test_what_has_no_outcome_counts_from_its_copy_or_from_the_last_lot(
    tonight, dead, copied, lot, since
):
    moved(dead, "data/s/a", outcome=None, at=NOW, copied=NOW + copied * DAY)
    moved(dead, "data/s/b", at=NOW + lot * DAY)
    end(tonight)
    ends = NOW + (since + 30) * DAY
    assert "data/s/a" not in purged_by(tonight, ends - timedelta(seconds=1))
    assert "data/s/a" in purged_by(tonight, ends + timedelta(seconds=1))


def test_what_was_intended_again_and_not_answered_counts_anew(tonight, dead):
    moved(dead, "data/s/a", outcome="failed", at=NOW)
    moved(dead, "data/s/a", outcome=None, at=NOW + 4 * DAY)
    end(tonight)
    assert purged_by(tonight, NOW + 33 * DAY) == set()
    assert purged_by(tonight, NOW + 35 * DAY) == {"data/s/a"}


@pytest.mark.parametrize(("days", "goes"), [(1, 30), (60, 60)])
def test_what_an_end_promised_holds_when_the_days_are_changed(tonight, dead, days, goes):
    moved(dead, "data/s/a")
    moved(dead, "data/s/b", at=NOW + 3 * DAY)
    end(tonight)
    changed = replace(tonight, options=replace(tonight.options, quarantine_days=days))
    minute = timedelta(minutes=1)
    assert purged_by(changed, NOW + goes * DAY - minute) == set()
    assert purged_by(changed, NOW + goes * DAY + minute) == {"data/s/a"}
    assert purged_by(changed, NOW + (goes + 3) * DAY - minute) == set()
    assert purged_by(changed, NOW + (goes + 3) * DAY + minute) == {"data/s/b"}


def test_what_a_journal_does_not_name_stays_for_ever_and_is_counted(tonight, dead):
    moved(dead, "data/s/a")
    tonight.store.put(key_of(dead.run.key, "data/s/strange"), b"x")
    end(tonight)
    assert purged_by(tonight, NOW + 9_000 * DAY) == {"data/s/a"}
    assert aside(tonight) == {"data/s/strange"}


def test_what_a_listing_did_not_show_when_the_journal_was_ended_goes_after_its_days(tonight, dead):
    dead.journal({"data/s/a": 4}, at=NOW)
    (told,) = end(tonight)
    assert (told.objects, told.until) == (0, None)
    tonight.store.put(key_of(dead.run.key, "data/s/a"), b"1234")
    assert purged_by(tonight, NOW + 30 * DAY - timedelta(seconds=1)) == set()
    assert purged_by(tonight, NOW + 30 * DAY + timedelta(seconds=1)) == {"data/s/a"}


def test_before_its_journal_is_ended_nothing_of_a_dead_sweep_goes(tonight, dead):
    moved(dead, "data/s/a")
    assert purged_by(tonight, NOW + 9_000 * DAY) == set()


def test_nobody_goes_on_with_what_was_ended(tonight, dead):
    moved(dead, "data/s/a")
    assert require_unfinished(dead.run) is None
    assert not has_ended(tonight.store, dead.run.key)
    end(tonight)
    with pytest.raises(UnsafePlanError) as refused:
        require_unfinished(dead.run)
    said = str(refused.value)
    left = f"the sweep of run {dead.run.key} of repo left no report of its end, and run"
    assert f"{left} {tonight.key} ended it at" in said
    assert "1 objects lay in quarantine, until 2026-12-20 02:00 UTC at least" in said
    assert f"`lakegc restore repo {dead.run.key}`" in said
    assert has_ended(tonight.store, dead.run.key)


def test_its_own_sweep_and_one_with_a_report_are_not_ended(tonight, dead):
    moved(dead, "data/s/a")
    dead.sweep({"data/s/a": (4, "deleted", None), "data/s/b": (4, "failed", "held")})
    Written(tonight).journal({"data/s/c": 4}, outcome=None)
    assert dead_sweeps(tonight) == []


def test_a_sweep_whose_report_tells_all_is_not_ended_whatever_the_times_of_its_files(marked, dead):
    # A namespace that was copied has the times of the copy.
    reported(dead, 30, a="deleted")
    assert dead_sweeps(marked) == []
    assert house_keeping.keep_house(marked).pruned.ended == []
    marked.environment.clock.instant = datetime.now(UTC) + 10 * DAY
    assert prune(marked).kept == {str(dead.run.key): "objects of it are in quarantine"}


def test_a_report_in_part_keeps_its_promise_when_the_sweep_after_it_is_ended(marked, dead):
    moved(dead, "data/s/b", at=NOW + timedelta(hours=3))
    report = reported(dead, 30, a="deleted", b="failed")
    lowered = replace(marked, options=replace(marked.options, quarantine_days=1))
    (told,) = end(lowered)
    assert told.words == "2 objects lay in quarantine, until 2026-11-21 05:00 UTC at least"
    *_, past = past_runs(marked.store, marked.now())
    assert past.quarantine_until == report.reading_ended + 30 * DAY
    second = timedelta(seconds=1)
    assert purged_by(lowered, past.quarantine_until - second) == set()
    assert purged_by(lowered, past.quarantine_until + second) == {"data/s/a", "data/s/b"}


def test_a_report_that_came_while_its_journal_was_ended_is_what_is_told(marked, dead):
    end(marked)
    dead.sweep({"data/s/a": (4, "deleted", None)}, quarantine_days=30)
    way_back = outcomes_of(dead.run, ["data/s/a"])["data/s/a"].reasons[-1]
    assert way_back.text.startswith("What was deleted was moved to quarantine, under local://repo/")


@pytest.mark.parametrize("days", [1, 90])
def test_an_erasure_is_promised_for_the_day_after_which_it_is_purged(marked, dead, days):
    end(marked)
    changed = replace(marked, options=replace(marked.options, quarantine_days=days))
    once = SimpleNamespace(is_inside=True, address="data/s/a")
    under = SimpleNamespace(objects={"data/s/a": once})
    (holder,) = what_is_left(changed, under)["data/s/a"]
    assert holder.until == NOW + max(days, 30) * DAY
    second = timedelta(seconds=1)
    assert purged_by(changed, holder.until - second) == set()
    assert purged_by(changed, holder.until + second) == {"data/s/a"}


def test_a_copy_that_was_not_finished_goes_with_the_rest_and_is_no_object(tonight, dead):
    moved(dead, "data/s/a")
    store, unfinished = dead.run.store, key_of(dead.run.key, "data/s/.lakegc-0123456789abcdef.part")
    store.put(unfinished, b"12")
    os.utime(Path(store.options.local_path, "repo", unfinished), (0, NOW.timestamp() + 3600))
    (told,) = end(tonight)
    assert (told.objects, told.size_bytes) == (1, 6)
    assert told.until == NOW + 30 * DAY + timedelta(hours=1)
    assert purged_by(tonight, told.until - timedelta(seconds=1)) == {"data/s/a"}
    assert purged_by(tonight, told.until + timedelta(seconds=1)) == {unfinished.split("/", 5)[-1]}
    assert aside(tonight) == set()


def test_who_lost_the_lease_ends_nothing(tonight, dead):
    moved(dead, "data/s/a")
    held = mock.Mock(beat=mock.Mock(side_effect=LeaseLostError("the lease is lost")))
    with pytest.raises(LeaseLostError):
        end_journal(tonight, held, dead.run.key)
    assert journal.ended(tonight.store, dead.run.key) is None


def test_a_journal_that_cannot_be_read_keeps_its_own_quarantine_and_no_other(tonight, dead):
    other = Written(tonight.at(RunKey.at(NOW - DAY)))
    for each in (dead, other):
        moved(each, "data/s/a")
    end(tonight)
    folder = journal.folder(other.run.key)
    for batch in tonight.store.list(folder):
        for key in batch["key"].to_pylist():
            if "/outcome-" in key:
                tonight.store.put(key, b"damaged")
    with pytest.raises(CorruptTableError, match="sha256"):
        purged_by(tonight, NOW + 31 * DAY)
    assert aside(tonight) == {"data/s/a"}
    assert tonight.store.exists(key_of(other.run.key, "data/s/a"))
    assert not tonight.store.exists(key_of(dead.run.key, "data/s/a"))


def test_an_end_that_cannot_be_read_keeps_its_own_quarantine_and_no_other(marked, dead):
    other = Written(marked.at(RunKey.at(NOW - DAY)))
    moved(other, "data/s/a")
    end(marked)
    marked.store.put(journal.end_key(other.run.key), b"damaged")
    marked.environment.clock.instant = NOW + 31 * DAY
    needed = Needed(marked.now(), hashes_of())
    with mock.patch.object(purge_quarantine, "needed_finder", return_value=lambda *_: needed):
        done = prune(marked)
    assert "_ended.json" in done.not_purged
    assert done.purged.objects == 1
    assert marked.store.exists(key_of(other.run.key, "data/s/a"))
    assert not marked.store.exists(key_of(dead.run.key, "data/s/a"))


@pytest.fixture
def marked(tonight, dead):
    """Both runs are marked; the sweep of the first died."""
    for run in (dead.run, tonight):
        passing_mark(run)
        Written(run).conclude()
    moved(dead, "data/s/a")
    return replace(tonight, options=replace(tonight.options, keep_runs=1))


def test_house_keeping_ends_a_dead_sweep_and_names_it(marked, dead):
    house = house_keeping.keep_house(marked)
    words = (
        f"the sweep of run {dead.run.key} left no report of its end and is ended: "
        "1 objects lay in quarantine, until 2026-12-20 02:00 UTC at least"
    )
    assert words in house.words
    assert house.facts["ended_sweeps"] == {
        str(dead.run.key): "1 objects lay in quarantine, until 2026-12-20 02:00 UTC at least"
    }
    assert aside(marked) == {"data/s/a"}


def test_its_tables_stay_while_its_quarantine_holds_anything_and_go_then(marked, dead):
    prune(marked)
    marked.environment.clock.instant = datetime.now(UTC) + 10 * DAY
    assert prune(marked).kept == {str(dead.run.key): "objects of it are in quarantine"}
    assert journal.begun(marked.store, dead.run.key).parts()
    marked.store.delete([key_of(dead.run.key, "data/s/a")])
    assert prune(marked).runs == [dead.run.key]
    assert not journal.begun(marked.store, dead.run.key).parts()
    assert journal.ended(marked.store, dead.run.key) is not None


def test_a_journal_stays_although_a_listing_did_not_show_what_its_quarantine_holds(
    marked, dead, monkeypatch
):
    prune(marked)
    marked.environment.clock.instant = datetime.now(UTC) + 10 * DAY
    monkeypatch.setattr(own_files, "quarantined", lambda _store: set())
    assert prune(marked).runs == []
    assert journal.begun(marked.store, dead.run.key).parts()


def test_under_mode_mark_nothing_is_ended_and_status_says_what_lies_there(marked, dead):
    looking = replace(marked, options=replace(marked.options, may_sweep=False))
    house = house_keeping.keep_house(looking)
    assert house.pruned.ended == []
    assert journal.ended(marked.store, dead.run.key) is None
    runs = past_runs(marked.store, marked.now())
    told = status_of("repo", runs, marked.now(), pause=DAY, may_sweep=False).left_by_dead
    assert told.startswith("1 objects, 4 bytes, were moved to quarantine by sweeps that left no")
    assert str(dead.run.key) in told
    assert 'once mode is `sweep` (mode = "mark" ends none)' in told


def test_status_says_until_when_it_stays_once_it_is_ended(marked, dead):
    house_keeping.keep_house(marked)
    *_, past = past_runs(marked.store, marked.now())
    assert (past.quarantine_until, past.ended_by) == (NOW + 30 * DAY, str(marked.key))
    runs = past_runs(marked.store, marked.now())
    status = status_of("repo", runs, marked.now(), pause=DAY, may_sweep=True)
    assert (status.left_by_dead, status.in_quarantine) == ("", (1, 4))
    assert status_of("repo", runs[1:], marked.now(), pause=DAY, may_sweep=True).next_step == ""
