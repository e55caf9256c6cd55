"""Rules that take staged objects: by branch and path, by age, and only under every name."""

from datetime import UTC, datetime, timedelta

import pytest

from spark_core.holds import Hold, Holds
from spark_core.references.policies.canonical_names import NEVER, micros
from spark_core.references.policies.document import Period, Policy, Rule
from spark_core.references.policies.staged_due import StagedJudge, StagedName, are_asked_for

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
LONG_AGO = micros(NOW - timedelta(days=300))
SECOND = timedelta(seconds=1)
NO_HOLDS = Holds(())


def rule(branch, path, days, **more):
    return Rule(branch, path, {"uncommitted": Period(days=days)}, **more)


def name(branch, path, *, ago):
    return StagedName(branch, path, NOW - ago)


def judge(*rules, holds=NO_HOLDS):
    return StagedJudge.of(Policy(rules), holds, micros(NOW))


def days(count):
    return timedelta(days=count)


def test_the_age_counts_from_the_later_of_the_entry_s_date_and_the_object_s():
    judged = judge(rule("main", "tmp/", 3))
    # The server cuts the entry's date to whole seconds.
    at_last = name("main", "tmp/x", ago=days(3) + SECOND)
    assert judged.due([at_last], LONG_AGO).since == micros(NOW)
    assert judged.due([name("main", "tmp/x", ago=days(3))], LONG_AGO) is None
    written = micros(NOW - days(3))
    assert judged.due([at_last], written).since == micros(NOW)
    assert judged.due([at_last], written + 1) is None


@pytest.mark.parametrize(
    ("branch", "path"),
    [
        ("dev", "tmp/x"),
        ("main2", "tmp/x"),
        ("main", "tmpx"),
        ("main", "data/tmp/x"),
        # No name is another spelling of one.
        ("Main", "tmp/x"),
        ("main", "/tmp/x"),
        ("main", "TMP/x"),
        ("main", "tmp\\x"),
        ("main", "tmp\u2215x"),
        # Bytes that are no UTF-8: nobody knows what follows.
        ("main", "tmp/\ufffd"),
    ],
)
def test_one_name_that_no_rule_takes_keeps_the_object(branch, path):
    judged = judge(rule("main", "tmp/", 3))
    own, other = name("main", "tmp/x", ago=days(9)), name(branch, path, ago=days(9))
    assert judged.due([own], LONG_AGO) is not None
    for names in ([own, other], [other, own], [other]):
        assert judged.due(names, LONG_AGO) is None


def test_several_names_go_together_once_the_last_of_them_is_due():
    judged = judge(rule("main", "tmp/", 3), rule("users", "", 5))
    first, last = name("main", "tmp/x", ago=days(9)), name("users", "y", ago=days(6))
    due = judged.due([last, first], LONG_AGO)
    assert (due.rule, due.action, due.branch, due.path) == (2, "uncommitted", "users", b"y")
    assert judged.due([first, name("users", "y", ago=days(4))], LONG_AGO) is None


def test_a_rule_without_a_prefix_takes_every_name_and_the_shortest_period_counts():
    judged = judge(rule(None, "", 8), rule("main", "tmp/", 3))
    of_rule, everywhere = name("main", "tmp/x", ago=days(4)), name("dev", "x", ago=days(10))
    assert judged.due([of_rule], LONG_AGO).rule == 2
    assert judged.due([everywhere], LONG_AGO).rule == 1
    # It fell due last.
    assert judged.due([everywhere, of_rule], LONG_AGO).rule == 2


def test_an_object_without_a_name_or_without_a_date_stays():
    judged = judge(rule(None, "", 1))
    assert judged.due([], LONG_AGO) is None
    assert judged.due([StagedName("main", "x", None)], LONG_AGO) is None
    far = StagedName("main", "x", datetime.max.replace(tzinfo=UTC))
    assert judged.due([far], LONG_AGO) is None
    assert judged.due([name("main", "x", ago=days(9))], NEVER) is None


def test_what_is_staged_on_a_branch_that_a_hold_names_stays():
    hold = Hold("mine", "branch", "main", "0" * 64, "test", NOW, "for a test")
    judged = judge(rule(None, "", 1), holds=Holds((hold,)))
    assert judged.due([name("dev", "x", ago=days(9))], LONG_AGO) is not None
    assert judged.due([name("main", "x", ago=days(9))], LONG_AGO) is None


@pytest.mark.parametrize(
    "other",
    [
        rule("main", "", 1, is_enabled=False),
        rule("main", "", 1, effect="remove"),
        Rule("main", "", {"all": Period(days=1), "noncurrent": Period(days=1)}),
    ],
)
def test_rules_that_are_off_or_remove_or_take_committed_objects_take_nothing_staged(other):
    assert not are_asked_for(Policy((other,)))
    assert judge(other).due([name("main", "x", ago=days(9))], LONG_AGO) is None
