"""Every run of a repository with its state, from what runs left in the store, and their sums."""

import json
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from spark_core import lakegc_keys, schemas
from spark_core.errors import NotFoundError
from spark_core.model import RunKey
from spark_core.plain_text import Price
from spark_core.records.confirmation import Confirmation
from spark_core.records.verdict_document import Verdict
from spark_core.report.past_runs import PastRun, past_runs, refusals, require_known
from spark_core.report.status import status_of
from tests.support.written_run import NOW, OLD, Written, with_index, written_run

DAY = timedelta(days=1)
LISTED = {"data/s/a": (10, OLD), "data/s/b": (20, OLD), "data/s/c": (40, OLD)}
EXPIRED = {"data/s/a": "never committed", "data/s/b": "never committed"}
GONE = {address: (LISTED[address][0], "deleted", None) for address in EXPIRED}


@pytest.fixture
def written(tmp_path):
    return written_run(tmp_path, None)


def at(written, ago):
    """The same repository at a run that was so long ago."""
    run = written.run
    run.environment.clock.instant = NOW - ago
    return Written(replace(run, key=RunKey.at(NOW - ago), known={}, unused={}))


def marked(written, ago=timedelta(0), **refused):
    other = at(written, ago)
    other.mark(LISTED, committed=["data/s/c"], expired=EXPIRED)
    other.conclude(**refused)
    return other


def only(written):
    (found,) = past_runs(written.run.store, NOW)
    return found


def status(written, *, may_sweep=True, now=NOW, **more):
    runs = past_runs(written.run.store, NOW)
    return status_of("repo", runs, now, pause=DAY, may_sweep=may_sweep, **more)


def test_a_mark_without_a_verdict_is_unfinished(written):
    at(written, timedelta(0)).mark(LISTED, expired=EXPIRED)
    assert only(written).state == "unfinished"
    assert not only(written).passed


def test_a_marked_run_has_its_figures_and_may_be_swept(written):
    marked(written)
    found = only(written)
    assert (found.state, found.passed, found.swept) == ("marked", True, False)
    assert (found.expired_objects, found.expired_bytes) == (0, 30)
    assert found.fates == {"committed": (1, 40), "expired": (2, 30)}
    assert json.loads(json.dumps(found.to_json()))["run"] == str(written.run.key)


def test_a_run_says_what_it_read_and_its_fates_add_up_to_the_namespace(written):
    first = at(written, timedelta(days=1))
    first.mark({"data/s/a": (1, OLD)}, of_listing={"why_full": "no mark has passed yet"})
    first.conclude()
    written.mark(
        {"data/s/b": (4, OLD)},
        committed=["data/s/b"],
        of_expired={"vanished": {"objects": 9, "bytes": 96}},
        **with_index(first.run.key, objects=9, size_bytes=96),
    )
    written.conclude()
    written.run.environment.clock.instant = NOW
    optimized, clean = past_runs(written.run.store, NOW)
    assert (optimized.kind, optimized.index, optimized.why_full) == (
        "optimized",
        str(first.run.key),
        "",
    )
    assert optimized.fates == {"committed": (1, 4), "vanished": (9, 96)}
    assert (clean.kind, clean.index, clean.why_full) == ("clean", "", "no mark has passed yet")
    assert "vanished" not in clean.fates
    assert status(written).last_mark_kind == "optimized"
    assert (
        status_of("repo", [clean], NOW, pause=timedelta(days=1), may_sweep=False).to_json()[
            "last_mark_why_full"
        ]
        == "no mark has passed yet"
    )


def test_a_refused_run_names_its_checks_and_a_confirmed_one_may_be_swept(written):
    run = marked(written, expired_share_is_plausible="too much would go").run
    found = only(written)
    assert (found.state, found.passed) == ("refused", False)
    assert found.refused == {"expired_share_is_plausible": "too much would go"}
    assert found.confirmable == ("expired_share_is_plausible",)
    assert refusals([found]) == {"expired_share_is_plausible": 1}
    key = lakegc_keys.verdict_key(run.key)
    verdict = Verdict.from_json(run.store.read(key), name=key)
    said = Confirmation(
        "repo", str(run.key), "expired_share_is_plausible", verdict.digest, "x", "me", NOW
    )
    run.store.put(lakegc_keys.confirmation_key(run.key, said.check), said.to_json())
    assert (only(written).state, only(written).passed) == ("marked", True)


def test_a_swept_run_has_its_outcomes_and_what_it_reclaimed(written):
    marked(written).sweep(GONE)
    found = only(written)
    assert (found.state, found.outcomes, found.reclaimed) == (
        "swept",
        {"deleted": (2, 30)},
        (2, 30),
    )


def test_a_sweep_that_the_store_did_not_finish_is_swept_in_part(written):
    marked(written).sweep({**GONE, "data/s/b": (20, "failed", "busy")})
    assert only(written).state == "swept in part"
    assert only(written).reclaimed == (1, 10)


def test_a_sweep_that_was_killed_has_a_journal_and_no_report(written):
    run = marked(written).run
    run.store.put(f"{lakegc_keys.of_run(lakegc_keys.JOURNAL, run.key)}intent", b"")
    assert only(written).state == "sweep unfinished"


def test_what_was_restored_is_not_reclaimed(written):
    run = marked(written)
    run.sweep(GONE)
    rows = [
        {"address": address, "size_bytes": size, "outcome": outcome, "error": None,
         "restored_at": NOW}
        for address, size, outcome in [("data/s/a", 10, "restored"), ("data/s/b", 20, "failed")]
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=schemas.RESTORATIONS)
    where = lakegc_keys.record(lakegc_keys.RESTORES, run.run.key, NOW)
    run.run.store.write_parquet(f"{where}part-1.parquet", [batch], schemas.RESTORATIONS)
    found = only(written)
    assert (found.state, found.restored, found.reclaimed) == ("restored", (1, 10), (1, 20))


def test_a_damaged_verdict_is_a_line_of_the_list_and_hides_no_other_run(written):
    marked(written, 2 * DAY)
    run = marked(written, DAY).run
    run.store.put(lakegc_keys.verdict_key(run.key), b"{")
    found = past_runs(run.store, NOW)
    assert [each.state for each in found] == ["unreadable", "marked"]
    assert "_verdict.json" in found[0].problem
    assert past_runs(run.store, NOW, newest=1) == found[:1]


def test_an_unknown_run_names_the_runs_there_are(written):
    store, unknown = written.run.store, RunKey.at(NOW + DAY)
    with pytest.raises(NotFoundError, match=r"it has no runs yet.*lakegc mark repo"):
        require_known(store, "repo", unknown)
    run = marked(written, DAY).run
    with pytest.raises(NotFoundError, match=f"its runs are {run.key}\\. `lakegc runs repo`"):
        require_known(store, "repo", unknown)
    require_known(store, "repo", run.key)


def test_of_many_runs_an_unknown_key_names_the_ten_newest(written):
    for number in range(12):
        written.run.store.put(lakegc_keys.verdict_key(RunKey.at(NOW - number * DAY)), b"{}")
    with pytest.raises(NotFoundError, match="and 2 older ones") as raised:
        require_known(written.run.store, "repo", RunKey.at(NOW + DAY))
    assert str(RunKey.at(NOW - 9 * DAY)) in str(raised.value)
    assert str(RunKey.at(NOW - 10 * DAY)) not in str(raised.value)


def test_the_status_sums_what_30_days_reclaimed_and_what_all_did(written):
    for days in (29, 31):
        marked(written, days * DAY).sweep(GONE)
    found = status(written)
    assert (found.runs, found.reclaimed_lately, found.reclaimed) == (2, (2, 30), (4, 60))
    assert found.waits_for == ""


@pytest.mark.parametrize(("hours", "late"), [(36, False), (37, True)])
def test_a_mark_is_overdue_after_one_and_a_half_pauses(written, hours, late):
    marked(written)
    words = status(written, now=NOW + timedelta(hours=hours)).overdue
    assert bool(words) == late
    assert not late or words.startswith("the last good mark ended 37 hours ago")


def test_a_repository_that_was_never_marked_or_never_passed_is_overdue(written):
    assert status(written).overdue == "it was never marked"
    marked(written, live_objects_are_listed="gone")
    assert status(written).overdue == "no mark of it ever passed"


@pytest.mark.parametrize(("days", "whole"), [(36, False), (37, True)])
def test_of_the_newest_runs_alone_nothing_is_said_to_have_never_been(days, whole):
    runs = [PastRun(str(RunKey.at(NOW - timedelta(days=ago))), "refused") for ago in (1, days)]
    found = status_of(
        "repo", runs, NOW, pause=DAY, may_sweep=True, max_mark_age=7 * DAY, are_all=False
    )
    assert found.overdue == "no mark of its newest 2 runs passed"
    assert (found.only_newest, found.lately_is_whole) == (2, whole)


@pytest.mark.parametrize(
    ("refused", "may_sweep", "words"),
    [
        ({}, True, ("a sweep", "lakegc sweep repo --run KEY")),
        ({}, False, ('a sweep (mode = "mark")', "lakegc report repo --run KEY")),
        (
            {"expired_share_is_plausible": "much"},
            True,
            (
                "confirmation of expired_share_is_plausible",
                "lakegc confirm repo expired_share_is_plausible --run KEY",
            ),
        ),
        ({"clocks_agree": "no", "expired_share_is_plausible": "much"}, True, ("", "")),
    ],
)
def test_what_waits_says_for_what_and_how_to_go_on(written, monkeypatch, refused, may_sweep, words):
    monkeypatch.setattr(
        "tests.support.written_run.Verdict",
        lambda **given: Verdict(**{**given, "expired_objects": 2}),
    )
    run = marked(written, **refused).run
    found = status(written, may_sweep=may_sweep, price=Price(0.02))
    assert found.waits_for == words[0]
    assert found.next_step == words[1].replace("KEY", str(run.key))
    assert found.waiting == ((2, 30) if words[0] else (0, 0))
    assert dict(found.refused) == refused


def test_what_is_swept_waits_for_nothing(written):
    marked(written).sweep(GONE)
    assert status(written).waits_for == ""


def of_kind(collects, ago, **more):
    instant = NOW - ago
    return PastRun(
        **{
            "run": str(RunKey.at(instant)),
            "state": "marked",
            "concluded_at": instant,
            "expired_objects": 2,
            "expired_bytes": 30,
            "collects": collects,
            **more,
        }
    )


def told(*runs):
    return status_of("repo", runs, NOW, pause=DAY, may_sweep=True)


def test_a_run_of_another_kind_is_neither_a_mark_nor_a_sweep_of_the_collection():
    garbage = of_kind("all", 3 * DAY)
    expired = of_kind(
        "policies", DAY / 2, state="swept", swept_at=NOW, outcomes={"deleted": (2, 30)}
    )
    found = told(expired, garbage)
    assert (found.last_mark, found.last_sweep, found.newest) == (garbage.run, None, expired.run)
    assert (found.waiting, found.waiting_run) == ((2, 30), garbage.run)
    assert found.overdue.startswith("the last good mark ended 3.0 days ago")
    assert [(kind.collects, kind.last_sweep) for kind in found.others] == [
        ("policies", expired.run)
    ]
    (other,) = found.to_json()["others"]
    assert other["last_swept_at"] == NOW.isoformat()


def test_after_a_sweep_in_part_the_rest_waits():
    outcomes = {"deleted": (1, 10), "refused": (1, 20)}
    found = told(of_kind("all", DAY, state="swept in part", swept_at=NOW, outcomes=outcomes))
    assert (found.waits_for, found.waiting) == ("its sweep to go on", (1, 20))


@pytest.mark.parametrize(
    ("more", "waiting"),
    [
        ({}, (1, 20)),
        ({"swept_at": NOW, "outcomes": {"deleted": (1, 10), "refused": (1, 20)}}, (1, 20)),
        ({"swept_at": NOW, "outcomes": {"deleted": (2, 30)}}, (0, 0)),
    ],
)
def test_after_a_restore_the_rest_waits_and_nobody_is_told_to_sweep_it(more, waiting):
    found = told(of_kind("all", DAY, state="restored", restored=(1, 10), **more))
    assert (found.waiting, found.next_step) == (waiting, "")
    assert found.waits_for == ("its sweep or a new mark, after a restore" if waiting[0] else "")


def test_each_kind_waits_for_itself_until_a_mark_of_the_collection_names_it_anew():
    expired, within = of_kind("policies", DAY), of_kind("reference mark", DAY / 2)
    found = told(within, expired, of_kind("all", 2 * DAY, expired_objects=5))
    assert [kind.waiting[0] for kind in found.kinds] == [5, 2, 2]
    assert found.most_waiting == (5, 30)
    found = told(of_kind("all", DAY / 4, expired_objects=0), within, expired)
    assert [kind.waits_for for kind in found.kinds] == ["", "", ""]


def test_money_is_by_the_classes_of_each_run():
    price = Price(2e9, "EUR", in_quarantine=5e9, by_class={"COLD": 1e9})
    waiting = of_kind(
        "all",
        DAY,
        expired_by_class={"COLD": 20},
        fates={"committed": (1, 70), "expired": (2, 30)},
        listed_by_class={"COLD": 50, "WARM": 50},
    )
    # Half of it could be deleted.
    outcomes = {"deleted": (1, 15), "refused": (1, 15)}
    swept = {"state": "swept in part", "swept_at": NOW - DAY, "outcomes": outcomes}
    before = of_kind("all", 2 * DAY, expired_by_class={"COLD": 30}, **swept)
    runs = [waiting, before]
    found = status_of("repo", runs, NOW, pause=DAY, may_sweep=True, price=price)
    assert found.money_per_month == pytest.approx(
        {
            "listed": 50 * 1 + 50 * 2,
            "waiting": 20 * 1 + 10 * 2,
            "reclaimed": 15 * 1,
            "reclaimed_lately": 15 * 1,
            "reclaimed_before": 0,
            "in_quarantine": 0,
        }
    )
    assert told(*runs).money_per_month == {}


def test_quarantine_is_what_lies_there_once_a_purge_may_have_taken_a_part(written):
    run = marked(written).run
    written.sweep(GONE)
    held = lakegc_keys.in_quarantine(run.key)
    run.store.put(f"{held}data/s/a", b"1")
    (found,) = past_runs(run.store, NOW)
    assert found.in_quarantine == (1, 1)
    written.sweep(GONE, quarantine_days=7)
    (found,) = past_runs(run.store, NOW)
    assert found.in_quarantine == found.outcomes["deleted"] == (2, 30)
    (found,) = past_runs(run.store, found.quarantine_until)
    assert found.in_quarantine == (1, 1)
