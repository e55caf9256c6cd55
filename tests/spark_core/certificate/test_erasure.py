"""The way to an erasure, as it is decided: what is in the way, and until when it takes."""

from dataclasses import replace
from datetime import timedelta

from spark_core.certificate.erasure import removal_policy, way
from spark_core.certificate.issue import Holder
from spark_core.certificate.under_prefix import Once, UnderPrefix
from spark_core.model import Commit, RetentionRules
from spark_core.references.policies.parsing import parse
from spark_core.run import RunOptions
from tests.support.written_run import NOW

OLD = Commit("c1", (), NOW - timedelta(days=30), "m1")
RULES = RetentionRules(14, {"main": 21})
THERE = Holder("it is there", "place", written=OLD.creation_date)


def _under(*, kept=(), rules=RULES, head="c9", **once):
    objects = {"data/s/a": Once("data/s/a", "p/a", is_inside=True, commit=OLD, **once)}
    return UnderPrefix(objects, 1, NOW, rules, {"main": head}, kept)


def _row(reason, *, until=None, is_head=False):
    return {"commit_id": "c1", "reason": reason, "retained_until": until, "is_head": is_head}


def _way(under, *held, may_sweep=True, **options):
    left = {"data/s/a": held or [THERE]}
    return way("repo", "p/", under, left, RunOptions(may_sweep=may_sweep, **options))


def _obstacles(found):
    return [step.words for step in found.steps if step.kind == "obstacle"]


def test_nothing_left_is_no_way():
    assert way("repo", "p/", _under(), {}, RunOptions()).is_done


def test_commits_that_expire_by_themselves_are_waited_for():
    until = NOW + timedelta(days=3)
    found = _way(_under(kept=[_row("main: within 21 days", until=until)]))
    assert [step.kind for step in found.steps] == ["wait", "run", "certify"]
    assert found.true_on == until
    aside = _way(_under(kept=[_row("main: within 21 days", until=until)]), quarantine=True)
    assert aside.true_on == until + timedelta(days=30)


def test_a_branch_that_shows_it_keeps_it_for_its_days_after_the_removal():
    head = _row("head of main", is_head=True)
    found = _way(_under(branches=["main"], head="c1", kept=[head]))
    assert [step.kind for step in found.steps] == ["remove", "wait", "run", "certify"]
    assert found.true_on == NOW + timedelta(days=22, hours=1)
    # The entry is staged for deletion, and no commit says so yet.
    assert _way(_under(head="c1", kept=[head])).true_on == NOW + timedelta(days=21, hours=1)


def test_no_day_is_promised_while_the_last_commits_of_a_branch_stay():
    head = _row("head of main", is_head=True)
    under = _under(branches=["main"], head="c1", kept=[head])
    found = _way(under, keep_last=2)
    (step,) = [step for step in found.steps if step.kind == "obstacle"]
    assert "the last 2 commits of each branch stay" in step.words
    assert "the heads of main have it" in step.words
    assert found.true_on is None
    # The commit that removes it is the last one then.
    assert _way(under, keep_last=1).true_on == _way(under).true_on


def test_no_day_is_promised_where_runs_take_only_what_a_policy_names():
    found = _way(_under(), policies="only")
    (step,) = [step for step in found.steps if step.kind == "obstacle"]
    assert 'left to another run: set policies = "sweep" for repo' in step.words
    assert found.true_on is None
    assert _way(_under(), policies="sweep").true_on is not None


def test_what_has_no_end_is_in_the_way_by_name():
    found = _way(
        _under(
            kept=[_row("tag v1"), _row("main: among its last 3 commits")], held_by="hold h: path p"
        )
    )
    words = [step.words for step in found.steps if step.kind == "obstacle"]
    assert words == [
        "hold h: path p",
        "commit c1 is kept by tag v1",
        "commit c1 is kept, and its end is not known: main: among its last 3 commits",
    ]
    assert found.true_on is None
    bare = _way(_under(rules=None, kept=[_row("no rules: every commit is retained")]))
    (step,) = [step for step in bare.steps if step.kind == "obstacle"]
    assert "the repository has no rules" in step.words


def test_no_day_is_promised_where_runs_only_mark():
    found = _way(_under(), may_sweep=False)
    assert _obstacles(found) == ['runs delete nothing: set mode = "sweep" for repo']
    assert found.true_on is None
    # Nor do they end a quarantine.
    aside = Holder("the quarantine of run K", "quarantine", NOW + timedelta(days=4))
    assert _way(_under(), aside, may_sweep=False).true_on is None


def test_a_day_of_what_lies_in_quarantine_is_that_of_its_sweep():
    ends = [NOW + timedelta(days=4), NOW + timedelta(days=9)]
    aside = [Holder(f"the quarantine of run {end:%d}", "quarantine", end) for end in ends]
    found = _way(_under(rules=None, kept=[_row("tag v1")]), *aside, quarantine=True)
    assert [(step.kind, step.until) for step in found.steps] == [
        ("wait", ends[1]),
        ("certify", ends[1]),
    ]
    assert found.true_on == ends[1]
    # Days that are over end with the next run.
    over = Holder("the quarantine of run K", "quarantine", NOW - timedelta(days=1))
    assert _way(_under(), over).true_on == NOW
    # What is in its place, too, goes there for days of its own.
    both = _way(_under(), aside[0], THERE, quarantine=True, quarantine_days=2)
    assert [step.kind for step in both.steps] == ["run", "wait", "certify"]
    assert both.true_on == ends[0]
    assert _way(_under(), aside[0], THERE, quarantine=True).true_on == NOW + timedelta(days=30)


def test_what_a_restore_brought_back_is_young_again():
    back = replace(THERE, written=NOW)
    found = _way(_under(), THERE, back, min_age=timedelta(days=2))
    assert [step.kind for step in found.steps] == ["wait", "run", "certify"]
    assert found.true_on == NOW + timedelta(days=2, minutes=5)


def test_no_day_is_promised_of_a_quarantine_of_which_nobody_knows_the_end():
    found = _way(_under(), Holder("the quarantine of run K", "quarantine"))
    assert _obstacles(found) == ["the quarantine of run K, of which no report says until when"]
    assert found.true_on is None


def test_no_day_is_promised_where_the_store_keeps_what_is_deleted():
    keeps = Holder("the bucket keeps versions", "store")
    for held in ([keeps], [THERE, keeps]):
        found = _way(_under(), *held)
        assert _obstacles(found) == [
            "the bucket keeps versions: what lakegc deletes may stay in the store"
        ]
        assert found.true_on is None


def test_rules_that_are_there_are_not_added_again():
    first = removal_policy(None, "p/", ["main"])
    read = parse(first.to_json().encode(), name="erase.json")
    assert removal_policy(read, "p/", ["main"]) == read
    both = removal_policy(read, "p/", ["dev", "main"])
    assert [rule.prefix for rule in both.rules] == ["main/p/", "dev/p/"]
    # One that is off, or takes only what is older, removes it not yet.
    off = replace(read, rules=(replace(read.rules[0], is_enabled=False),))
    assert len(removal_policy(off, "p/", ["main"]).rules) == 2


def test_the_rules_that_remove_it_stand_behind_those_of_the_policy():
    first = removal_policy(None, "p/", ["main"])
    both = removal_policy(first, "q/", ["dev"])
    read = parse(both.to_json().encode(), name="erase.json")
    assert [rule.prefix for rule in read.rules] == ["main/p/", "dev/q/"]
    assert all(rule.removes for rule in read.rules)
