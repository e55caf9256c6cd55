"""The status of a repository, from its runs."""

from datetime import timedelta

import pytest

from spark_core.model import RunKey
from spark_core.prices import Price
from spark_core.records.verdict_document import Verdict
from spark_core.report.past_run import PastRun
from spark_core.report.past_runs import past_runs
from spark_core.report.status_of_runs import status_of
from tests.spark_core.report.test_past_runs import DAY, GONE, marked
from tests.support.written_run import NOW, written_run


@pytest.fixture
def written(tmp_path):
    return written_run(tmp_path, None)


def status(written, *, may_sweep=True, now=NOW, **more):
    runs = past_runs(written.run.store, NOW)
    return status_of("repo", runs, now, pause=DAY, may_sweep=may_sweep, **more)


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


@pytest.mark.parametrize(
    ("fates", "outcomes", "waiting"),
    [
        ({}, {"deleted": (2, 30)}, (0, 0)),
        ({"not_named": (1, 20)}, {"deleted": (1, 10)}, (1, 20)),
        ({"not_named": (1, 20)}, {"refused": (1, 10)}, (2, 30)),
        # It found more by then, which the mark before it did not name.
        ({"not_named": (9, 90)}, {"deleted": (5, 50)}, (2, 30)),
    ],
)
@pytest.mark.parametrize("kind", ["reference mark", "policies"])
def test_what_a_run_of_another_kind_swept_does_not_wait_any_more(kind, fates, outcomes, waiting):
    left = {"left_to_others" if kind == "policies" else name: size for name, size in fates.items()}
    within = of_kind(kind, DAY / 2, state="swept", swept_at=NOW, fates=left, outcomes=outcomes)
    mark = of_kind("all", DAY, began=NOW - DAY)
    found = told(within, mark)
    assert found.waiting == waiting
    next_step = f"lakegc sweep repo --run {mark.run}"
    told_so = ("a sweep", next_step, mark.run) if waiting[0] else ("", "", None)
    assert (found.waits_for, found.next_step, found.waiting_run) == told_so


def test_what_an_earlier_run_swept_since_a_mark_does_not_wait_any_more():
    earlier = {"state": "swept", "outcomes": {"deleted": (1, 10)}}
    mark = of_kind("all", DAY, began=NOW - DAY)
    assert told(mark, of_kind("all", 2 * DAY, swept_at=NOW, **earlier)).waiting == (1, 20)
    # It did not list what was gone before it began.
    before = of_kind("all", 2 * DAY, swept_at=NOW - DAY, **earlier)
    assert told(mark, before).waiting == (2, 30)


def test_what_policies_let_go_waits_whatever_a_later_mark_says_of_what_nothing_reaches():
    expired = of_kind("policies", DAY, began=NOW - DAY)
    within = of_kind(
        "reference mark", DAY / 2, state="swept", swept_at=NOW, outcomes={"deleted": (2, 30)}
    )
    waiting = {kind.collects: kind.waiting for kind in told(within, expired).kinds}
    assert waiting == {"all": (0, 0), "policies": (2, 30), "reference mark": (0, 0)}


def test_money_is_by_the_classes_of_each_run():
    price = Price(2e9, "EUR", by_class={"COLD": 1e9})
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


def test_money_is_saved_once_it_is_not_paid_any_more():
    swept = {"state": "swept", "swept_at": NOW - DAY, "outcomes": {"deleted": (2, 30)}}

    def money(**more):
        runs = [of_kind("all", DAY, **{**swept, **more})]
        found = status_of("repo", runs, NOW, pause=DAY, may_sweep=True, price=Price(1e9))
        costs = found.money_per_month
        assert costs["reclaimed_lately"] == costs["reclaimed"]
        return found.reclaimed[1], round(costs["reclaimed"]), round(costs["in_quarantine"])

    assert money(in_quarantine=(2, 30)) == (30, 0, 30)
    # A purge is at work, or was killed.
    assert money(in_quarantine=(1, 20)) == (30, 10, 20)
    assert money() == (30, 30, 0)
    # The copies of restored objects stay until they are purged.
    assert money(in_quarantine=(2, 30), state="restored", restored=(1, 20)) == (10, 0, 30)


def test_what_was_saved_before_and_lies_in_quarantine_now_is_paid_again():
    outcomes = {"deleted": (2, 30)}
    first = of_kind("all", 50 * DAY, state="swept", swept_at=NOW - 50 * DAY, outcomes=outcomes)

    def saved(**more):
        swept = {"state": "swept", "swept_at": NOW - DAY, "outcomes": outcomes}
        again = of_kind("all", DAY, deleted_before=(2, 30), **{**swept, **more})
        runs = [again, first]
        found = status_of("repo", runs, NOW, pause=DAY, may_sweep=True, price=Price(1e9))
        return found.reclaimed[1], round(found.money_per_month["reclaimed"])

    assert saved(in_quarantine=(2, 30)) == (30, 0)
    assert saved(in_quarantine=(1, 20)) == (30, 10)
    assert saved() == (30, 30)
    # It is not known to be back before it is swept again.
    assert saved(state="marked", swept_at=None, outcomes={}) == (30, 30)
