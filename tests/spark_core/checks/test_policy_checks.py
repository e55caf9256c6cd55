"""The checks of what a policy names speak of unread tables and of rules that take too much."""

from types import SimpleNamespace

import pytest

from spark_core.checks.policies import check_policy, policy_history_was_read
from spark_core.model import RunKey
from spark_core.records.figures import ListedFigures
from spark_core.run import RunOptions
from tests.support.figures import manifest_of

READ = {
    "policies": "mark",
    "policy_version": 1,
    "entries": 20,
    "ranges": 3,
    "commits": 4,
    "names_placed": 15,
    "names_undecided": 5,
    "unread": 0,
    "unread_commits": [],
    "by_rule": [[1, "main/logs/", 250, 100], [2, None, 10, 2_500]],
}


def run(objects=1_000, size=10_000, **options):
    listing = SimpleNamespace(
        manifest=manifest_of(ListedFigures, objects=objects, object_bytes=size)
    )
    return SimpleNamespace(
        options=RunOptions(**options),
        load=lambda _spec: listing,
        repository=SimpleNamespace(id="repo"),
        key=RunKey.parse("2026-11-20T02-00-00Z"),
    )


def share_of(run, **facts):
    return check_policy(run, {**READ, **facts})[1]


def test_a_history_that_was_read_passes_with_its_figures():
    found = policy_history_was_read(run(), READ)
    assert found.passed
    assert found.summary == "20 entries of 4 commits give 15 names with a branch, and 5 without"


def test_a_table_that_cannot_be_read_is_told_with_its_commit():
    found = policy_history_was_read(run(), {**READ, "unread": 2, "unread_commits": ["a" * 64]})
    assert not found.passed
    assert (
        "tables of 2 commits cannot be read, for instance of commit aaaaaaaaaaaa;" in found.summary
    )


def test_a_rule_may_name_as_much_as_the_limit_and_no_more():
    assert share_of(run()).passed
    assert not share_of(run(), by_rule=[[1, None, 251, 0]]).passed
    assert not share_of(run(), by_rule=[[1, None, 0, 2_501]]).passed
    assert (
        "rule 1 names 251 of 1,000 objects" in share_of(run(), by_rule=[[1, None, 251, 0]]).summary
    )
    assert share_of(run(max_policy_share=0.3), by_rule=[[1, None, 251, 0]]).passed


def test_few_objects_are_no_sign_of_anything():
    assert share_of(run(objects=999), by_rule=[[1, None, 999, 0]]).passed


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"policies": "off"}, "the settings switch policies off"),
        ({"policies": "mark", "policy_version": 0}, "no policy"),
    ],
)
def test_a_run_that_looked_at_no_policy_passes_and_says_so(facts, words):
    for found in check_policy(run(), facts):
        assert found.passed
        assert found.summary == words


@pytest.mark.parametrize("policies", ["sweep", "only"])
def test_what_waits_is_told_where_the_settings_let_a_policy_take_anything(policies):
    waiting = {**READ, "waits": "version 1 of the policy is not confirmed"}
    assert check_policy(run(policies="mark"), waiting)[2].passed
    assert not check_policy(run(policies=policies), waiting)[2].passed
