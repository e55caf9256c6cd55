"""Each reason for which a branch stays or goes, at the boundary and around it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_core.branches.stale import decide
from spark_core.branches.stale.decide import Dates, Staged, Step, Terms
from spark_core.branches.stale.hooks import parse
from spark_core.holds import Hold
from spark_core.lakefs import Pull, StagedEntry
from spark_core.model import Branch, Commit
from spark_core.references.policies.lifecycle import Lifecycle, LifecyclePolicy
from spark_core.references.policies.sightings import BranchSightings

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
HEAD = "a" * 64
IDLE = LifecyclePolicy(("dev-*",), None, 30)
TERMS = Terms(
    Lifecycle((IDLE, LifecyclePolicy(("*",), 365)), keep=("dev-keep*",)),
    "main",
    protection=("dev-safe", "dev-p[0-9]"),
    holds=(),
    pulls=(Pull("7", "dev-source", "dev-target"),),
    instant=NOW,
)


def hold(kind="branch", value="dev-held", name="audit", commit_id=HEAD):
    return Hold(name, kind, value, commit_id, "ann@host", NOW, "")


def by_name(name, commit_id="c" * 64, **terms):
    return decide.by_name(Branch(name, commit_id), replace(TERMS, **terms))


def stays(why):
    return Step(goes=False, why=why)


def goes(why=""):
    return Step(goes=True, why=why)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("main", stays("it is the default branch")),
        ("dev-keep-1", stays("`keep` names it (dev-keep*)")),
        ("dev-safe", stays("the server protects it (dev-safe)")),
        ("dev-p1", stays("the server protects it (dev-p[0-9])")),
        ("dev-source", stays("pull request 7 from dev-source into dev-target is open")),
        ("dev-target", stays("pull request 7 from dev-source into dev-target is open")),
        ("dev-1", goes("policy 1 (dev-*)")),
        ("other", goes("policy 2 (*)")),
    ],
)
def test_what_names_a_branch_decides_about_it(name, found):
    assert by_name(name) == found


def test_a_branch_that_no_policy_names_stays():
    lifecycle = Lifecycle((IDLE,))
    assert by_name("other", lifecycle=lifecycle) == stays("no policy of branch_lifecycle names it")


def test_the_default_branch_stays_whatever_it_is_called():
    assert by_name("dev-1", default_branch="dev-1") == stays("it is the default branch")
    assert by_name("main", default_branch="dev-1") == goes("policy 2 (*)")


def test_a_protection_rule_of_an_unknown_form_may_name_any_branch():
    found = by_name("dev-1", protection=("[",))
    assert found == stays("the server's protection rule '[' may name it")


@pytest.mark.parametrize(
    "held",
    [
        hold(commit_id="b" * 64),
        hold("branch", "other", commit_id=HEAD),
        hold("commit", HEAD),
        hold("tag", "v1"),
    ],
)
def test_a_hold_on_the_branch_or_made_on_its_head_keeps_it(held):
    found = by_name("dev-held", HEAD, holds=(held,))
    assert found == stays(f"{held.words}, made by ann@host")


@pytest.mark.parametrize(
    "held",
    [
        hold("branch", "other", commit_id="b" * 64),
        hold("prefix", "data/", commit_id=None),
        # It was made when another branch at the same commit was deleted.
        hold("commit", HEAD, name="undo-branch-2026-11-01t00-00-00z-000001"),
    ],
)
def test_another_hold_does_not_keep_it(held):
    assert by_name("dev-held", HEAD, holds=(held,)).goes


# ages and inactivity


def dates(committed_days=100.0, *, stored_days=None, head=None, **told):
    day = timedelta(days=1)
    commit = head or Commit(HEAD, (), NOW - committed_days * day, "d" * 64)
    stored = None if stored_days is None else NOW - stored_days * day
    return Dates(commit, stored, BranchSightings(**told))


def by_dates(policy, found):
    return decide.by_dates(policy, found, TERMS)


def ago(days):
    return NOW - timedelta(days=days)


@pytest.mark.parametrize(
    ("seconds", "goes_"), [(-1, True), (0, True), (1, False)], ids=["after", "at", "before"]
)
def test_a_branch_is_inactive_after_exactly_so_many_times_24_hours(seconds, goes_):
    commit = Commit(HEAD, (), ago(30) + timedelta(seconds=seconds), "d" * 64)
    found = by_dates(IDLE, dates(head=commit))
    assert found.goes is goes_
    shown = f"{commit.creation_date:%Y-%m-%d %H:%M} UTC"
    assert found.why == f"last commit {shown}, {'more' if goes_ else 'less'} than 30 days ago"


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (dates(29), "last commit"),
        (dates(-400), "last commit"),
        (dates(100, stored_days=29), "last commit stored"),
        (dates(100, made=ago(29)), "first seen by a stored run"),
        (
            dates(100, elsewhere=ago(40), arrived=ago(29)),
            "moved to an older commit, seen by a stored run",
        ),
    ],
)
def test_the_latest_sign_of_work_counts(found, what):
    step = by_dates(IDLE, found)
    assert not step.goes
    assert step.why.startswith(f"{what} 20")
    assert step.why.endswith("less than 30 days ago")


@pytest.mark.parametrize(
    "found",
    [
        dates(100, stored_days=40),
        dates(100, made=ago(40)),
        dates(100, elsewhere=ago(50), arrived=ago(40)),
        # The commit is younger than what the run saw: it explains itself why the head moved.
        dates(31, elsewhere=ago(50), arrived=ago(1)),
        dates(31, elsewhere=ago(50)),
    ],
)
def test_signs_of_work_that_are_old_enough_do_not_keep_it(found):
    assert by_dates(IDLE, found).goes


def test_a_branch_that_no_run_has_seen_yet_stays():
    assert by_dates(IDLE, dates(100, is_new=True)) == stays(
        "it was made since the last stored run; after the next mark its time counts from then"
    )


def test_a_branch_that_was_moved_to_an_older_commit_since_the_last_run_stays():
    assert by_dates(IDLE, dates(100, elsewhere=ago(50))) == stays(
        "it was moved to an older commit since the last stored run; after the next mark its time "
        "counts from then"
    )


@pytest.mark.parametrize("year", [1, 9999])
def test_a_head_without_a_possible_date_keeps_the_branch(year):
    when = datetime(year, 1, 1, tzinfo=UTC)
    clamped = when if year == 1 else datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    found = by_dates(IDLE, dates(head=Commit(HEAD, (), clamped, "")))
    assert found == stays("no calendar has the date of its last commit")


AGED = LifecyclePolicy(("*",), 90)
BOTH = LifecyclePolicy(("*",), 90, 30)


def test_no_age_is_known_unless_a_stored_run_tells_it():
    unknown = "no stored run tells when it was made, so max_age_days does not match"
    assert by_dates(AGED, dates(1_000)) == stays(unknown)
    assert by_dates(AGED, dates(1_000, is_new=True)) == stays(unknown)
    assert by_dates(BOTH, dates(1_000)) == stays(unknown)


@pytest.mark.parametrize(("seconds", "goes_"), [(-1, True), (0, True), (1, False)])
def test_a_branch_is_old_after_exactly_so_many_days_since_it_was_first_seen(seconds, goes_):
    made = ago(90) + timedelta(seconds=seconds)
    found = by_dates(AGED, dates(0, made=made))
    assert found.goes is goes_
    assert found.why.startswith(f"first seen by a stored run {made:%Y-%m-%d %H:%M} UTC, ")


@pytest.mark.parametrize(
    ("committed", "made", "goes_"),
    [(31, 91, True), (29, 91, False), (31, 89, False), (29, 89, False)],
)
def test_where_both_are_given_both_must_have_passed(committed, made, goes_):
    found = by_dates(BOTH, dates(committed, made=ago(made)))
    assert found.goes is goes_
    if goes_:
        assert found.why.count("more than") == 2


# staged entries


def entry(path="a", days=100.0, change="added"):
    written = None if change == "removed" else NOW - timedelta(days=days)
    return StagedEntry(path, change, written, "" if written is None else "c")


def by_staged(*entries, policy=IDLE, delete_staged=True, has_more=False):
    lifecycle = Lifecycle((policy,), delete_staged=delete_staged)
    staged = Staged(entries[0].path if entries else "", entries, has_more=has_more)
    return decide.by_staged(policy, staged, replace(TERMS, lifecycle=lifecycle))


def test_a_branch_with_nothing_staged_needs_no_words():
    assert by_staged() == by_staged(delete_staged=False) == goes()


def test_a_branch_with_staged_entries_stays_unless_the_document_says_otherwise():
    assert by_staged(entry(), delete_staged=False) == stays(
        "it has staged entries (a); `delete_staged: true` lets it go with them"
    )


@pytest.mark.parametrize(("days", "goes_"), [(29.99, False), (30, True), (30.01, True)])
def test_the_last_staged_write_is_a_sign_of_work(days, goes_):
    found = by_staged(entry(days=100), entry("b", days=days))
    assert found.goes is goes_
    assert found.why.startswith("last staged 2026-10-2")
    assert found.why.endswith("; 2 staged entries go with it") is goes_


def test_a_staged_deletion_has_no_date_and_keeps_the_branch():
    found = by_staged(entry(), entry("b", change="removed"))
    assert found == stays("when its staged deletions were made is not known (b)")


def test_more_staged_entries_than_are_asked_about_keep_the_branch():
    assert by_staged(entry(), has_more=True) == stays(
        "it has more than 1,000 staged entries, whose dates are not asked for; commit them or "
        "reset them"
    )


def test_where_only_age_counts_the_dates_of_staged_entries_do_not():
    found = by_staged(entry(days=0), entry("b", change="removed"), policy=AGED)
    assert found == goes("2 staged entries go with it")
    assert by_staged(entry(days=0), policy=AGED) == goes("1 staged entry goes with it")


def test_staged_entries_that_vanished_while_they_were_read_keep_the_branch():
    lifecycle = Lifecycle((IDLE,), delete_staged=True)
    found = decide.by_staged(IDLE, Staged("a"), replace(TERMS, lifecycle=lifecycle))
    assert found == stays("when its staged deletions were made is not known (all of them)")


# hook files


def test_a_hook_file_that_names_the_branch_keeps_it_and_another_does_not():
    files = [
        parse("_lakefs_actions/a.yml", "main", b"on: {pre-merge: {branches: [main]}}"),
        parse("_lakefs_actions/b.yml", "rel", b"on: {pre-merge: {branches: ['dev-*']}}"),
    ]
    assert decide.by_hooks(Branch("dev-1", HEAD), files) == stays(
        "the hook file _lakefs_actions/b.yml on branch rel names it (dev-*)"
    )
    assert decide.by_hooks(Branch("other", HEAD), files) == goes()
