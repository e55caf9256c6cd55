"""Retained commits: reasons, instants, boundaries, refusals, and any order of anything."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError, RepositoryStateError
from spark_core.graveler import Timestamp
from spark_core.model import Branch, Commit, Refs, RetentionRules, Tag
from spark_core.retention import Retention, retained_commits
from tests.spark_core.retention.graphs import (
    NOW,
    as_the_server_walks,
    every_walk_to_the_root,
    graph,
)
from tests.support.examples import examples

EXACT = timedelta(0)
DAYS_10 = RetentionRules(99, {"main": 10})
LINE = "A:30 B:20(A) C:12(B) D:5(C)"


def ids(retained: list[Retention]) -> set[str]:
    return {retention.commit_id for retention in retained}


def reasons(retained: list[Retention]) -> dict[str, str]:
    return {retention.commit_id: retention.reason for retention in retained}


def untils(retained: list[Retention]) -> dict[str, datetime | None]:
    return {retention.commit_id: retention.until for retention in retained}


def test_a_branch_keeps_its_young_commits_and_its_state_at_the_threshold() -> None:
    retained = retained_commits(
        graph("A:30 B:20(A) C:12(B) D:9(C) E:5(D)", branches={"main": "E"}), DAYS_10, NOW
    )
    assert reasons(retained) == {
        "C": "main: its state 10 days before the mark",
        "D": "main: within 10 days",
        "E": "head of main",
    }
    assert [retention.commit_id for retention in retained if retention.is_head] == ["E"]


def test_a_commit_is_retained_until_its_youngest_way_lets_it_go() -> None:
    refs = graph("A:30 B:8(A) C:2(B) X:1(B)", branches={"main": "C", "dev": "X"})
    retained = retained_commits(
        refs, RetentionRules(5, {"main": 10, "dev": 3}), NOW, clock_margin=EXACT
    )
    assert untils(retained) == {
        "A": NOW + timedelta(days=2),  # through B, which main keeps for 10 days
        "B": NOW + timedelta(days=8),  # through C; dev's way through X ends after 2
        "C": None,
        "X": None,
    }


def test_a_commit_really_goes_at_the_instant_it_is_retained_until() -> None:
    refs = graph("A:30 B:8(A) C:2(B)", branches={"main": "C"})
    before = retained_commits(refs, DAYS_10, NOW)
    until = untils(before)["A"]
    assert until == NOW + timedelta(days=2, hours=1)
    assert "A" in ids(retained_commits(refs, DAYS_10, until - timedelta(microseconds=1)))
    assert "A" not in ids(retained_commits(refs, DAYS_10, until))


@pytest.mark.parametrize(("step", "kept"), [(-1, False), (0, False), (1, True)])
def test_a_child_exactly_at_the_threshold_is_too_old_to_keep_its_parent(
    step: int, *, kept: bool
) -> None:
    created = NOW - timedelta(days=10) + step * timedelta(microseconds=1)
    refs = Refs(
        {
            "A": Commit("A", (), NOW - timedelta(days=20), ""),
            "B": Commit("B", ("A",), created, ""),
            "C": Commit("C", ("B",), NOW, ""),
        },
        (Branch("main", "C"),),
        (),
    )
    assert ids(retained_commits(refs, DAYS_10, NOW, clock_margin=EXACT)) == {"B", "C"} | (
        {"A"} if kept else set()
    )


@pytest.mark.parametrize(("step", "kept"), [(-1, False), (0, False), (1, True)])
def test_a_commit_that_no_branch_leads_to_goes_exactly_at_the_default(
    step: int, *, kept: bool
) -> None:
    created = NOW - timedelta(days=14) + step * timedelta(microseconds=1)
    refs = Refs(
        {"A": Commit("A", (), NOW - timedelta(days=20), ""), "X": Commit("X", ("A",), created, "")},
        (Branch("main", "A"),),
        (),
    )
    assert ("X" in ids(retained_commits(refs, RetentionRules(14), NOW, clock_margin=EXACT))) is kept


def test_commits_of_a_deleted_branch_follow_the_default_and_say_so() -> None:
    refs = graph("R:50 M:2(R) W:16(R) X:9(W) Y:6(X)", branches={"main": "M"})
    retained = retained_commits(refs, RetentionRules(14, {"main": 1, "gone": 365}), NOW)
    assert reasons(retained) == {
        "M": "head of main",
        "Y": "no branch leads here: within 14 days",
        "X": "no branch leads here: within 14 days",
        "W": "no branch leads here: its state 14 days before the mark",
    }
    assert untils(retained)["Y"] == NOW + timedelta(days=8, hours=1)


def test_a_commit_under_a_branch_that_a_side_line_keeps_longer_says_so() -> None:
    refs = graph("R:50 B:20(R) X:10(B) M:1(B)", branches={"main": "M"})
    assert reasons(retained_commits(refs, RetentionRules(90, {"main": 3}), NOW))["B"] == (
        "a side line without a branch: within 90 days"
    )


def test_a_merged_branch_is_kept_only_by_its_own_line() -> None:
    refs = graph("R:50 A:20(R) X:20(R) M:1(A,X)", branches={"main": "M"})
    assert ids(retained_commits(refs, RetentionRules(7), NOW)) == {"M", "A"}


def test_the_last_commits_of_a_branch_stay_whatever_their_age_and_say_so() -> None:
    refs = graph("A:90 B:80(A) C:70(B) D:60(C)", branches={"main": "D"})
    retained = retained_commits(refs, RetentionRules(1), NOW, keep_last=3)
    assert reasons(retained) == {
        "B": "main: among its last 3 commits",
        "C": "main: among its last 3 commits",
        "D": "head of main",
    }
    assert untils(retained) == {"B": None, "C": None, "D": None}


@pytest.mark.parametrize(
    ("count", "kept"), [(0, "D"), (1, "D"), (2, "CD"), (4, "ABCD"), (9, "ABCD")]
)
def test_the_head_is_the_first_of_the_last_commits(count: int, kept: str) -> None:
    refs = graph("A:90 B:80(A) C:70(B) D:60(C)", branches={"main": "D"})
    assert ids(retained_commits(refs, RetentionRules(1), NOW, keep_last=count)) == set(kept)


def test_a_merge_is_one_of_the_last_commits_and_what_it_brought_in_is_none() -> None:
    refs = graph("R:90 A:80(R) X:80(R) M:70(A,X)", branches={"main": "M"})
    assert ids(retained_commits(refs, RetentionRules(1), NOW, keep_last=2)) == {"M", "A"}


def test_the_last_commits_of_a_branch_go_on_below_the_head_of_another_one() -> None:
    refs = graph("A:90 B:80(A) C:70(B) D:60(C)", branches={"main": "D", "old": "C"})
    assert ids(retained_commits(refs, RetentionRules(1), NOW, keep_last=2)) == {"B", "C", "D"}


def test_the_clock_margin_keeps_what_just_left_the_rule_and_says_so() -> None:
    refs = graph("A:30 B:10.02(A) C:2(B)", branches={"main": "C"})
    assert (
        reasons(retained_commits(refs, DAYS_10, NOW))["A"]
        == "main: 10 days ended within the clock margin"
    )
    assert "A" not in ids(retained_commits(refs, DAYS_10, NOW, clock_margin=EXACT))


def test_one_day_is_written_in_the_singular() -> None:
    refs = graph("A:30 B:0.5(A) C:0.2(B)", branches={"main": "C"})
    assert reasons(retained_commits(refs, RetentionRules(1), NOW))["B"] == "main: within 1 day"


def test_a_tag_keeps_the_commit_it_points_at_and_nothing_below_it() -> None:
    refs = graph(LINE, branches={"main": "D"}, tags={"v2": "B", "v1": "B"})
    retained = retained_commits(refs, RetentionRules(1), NOW)
    assert reasons(retained) == {"B": "tag v1, v2", "D": "head of main"}
    assert untils(retained)["B"] is None


def test_a_tag_keeps_nothing_when_tags_are_told_not_to_protect() -> None:
    refs = graph(LINE, branches={"main": "D"}, tags={"v1": "A"})
    assert ids(retained_commits(refs, RetentionRules(1), NOW, tags_protect=False)) == {"D"}


def test_a_head_under_a_thousand_branches_names_the_first_and_counts_the_rest() -> None:
    refs = graph("A:1", branches={f"b{number:04}": "A" for number in range(1000)})
    assert (
        reasons(retained_commits(refs, RetentionRules(1), NOW))["A"]
        == "head of b0000, b0001, b0002 and 997 more"
    )


def test_without_rules_every_commit_is_retained_for_as_long_as_there_are_none() -> None:
    refs = graph("A:9000 B:8000(A) X:7000", branches={"main": "B"})
    retained = retained_commits(refs, None, NOW)
    assert reasons(retained) == {
        "A": "no rules: every commit is retained",
        "B": "head of main",
        "X": "no rules: every commit is retained",
    }
    assert set(untils(retained).values()) == {None}


def test_no_rules_is_not_the_same_as_a_default_of_zero_days() -> None:
    refs = graph("A:9 B:8(A)", branches={"main": "B"})
    assert ids(retained_commits(refs, RetentionRules(0), NOW)) == {"B"}


def test_dates_at_the_ends_of_time_neither_fail_nor_wrap() -> None:
    end = datetime.max.replace(tzinfo=UTC)
    first, last = datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC), end.replace(second=58)
    refs = Refs(
        {
            "A": Commit("A", (), first, ""),
            "B": Commit("B", ("A",), last, ""),
            "C": Commit("C", ("B",), first, ""),
        },
        (Branch("main", "C"),),
        (),
    )
    retained = retained_commits(refs, RetentionRules(36500), NOW)
    assert ids(retained) == {"A", "C"}
    assert untils(retained)["A"] == end


@pytest.mark.parametrize("date", [-(10**13), 1_795_245_461_000])
def test_a_commit_whose_date_is_beyond_any_calendar_is_retained_for_its_age_is_unknown(
    date: int,
) -> None:
    """A client gave milliseconds; dump and log clamp what they read."""
    commits = graph("A:90 B:80(A) C:70(B) D:60(C)", branches={"main": "D"})
    clamped = replace(commits.commits["B"], creation_date=Timestamp(date).instant())
    refs = Refs({**commits.commits, "B": clamped}, commits.branches, ())
    assert ids(retained_commits(commits, DAYS_10, NOW)) == {"D"}
    retained = retained_commits(refs, DAYS_10, NOW)
    assert reasons(retained)["B"] == "its date is beyond any calendar"
    assert untils(retained)["B"] is None
    # Its own date is what the state before it counts from, as the server has it.
    assert ids(retained) - {"A"} == {"B", "D"}


def test_a_missing_parent_refuses_by_name() -> None:
    refs = graph("B:20(A) C:1(B)", branches={"main": "C"})
    with pytest.raises(
        IncompleteReadError, match=r"commit A, a parent of B, is not among the 2 commits"
    ):
        retained_commits(refs, DAYS_10, NOW)


def test_a_missing_second_parent_refuses_although_no_line_goes_through_it() -> None:
    with pytest.raises(IncompleteReadError, match="commit X, a parent of M"):
        retained_commits(graph("A:9 M:1(A,X)", branches={"main": "M"}), DAYS_10, NOW)


def test_a_head_that_is_not_among_the_commits_refuses_by_name() -> None:
    with pytest.raises(
        IncompleteReadError, match="commit Z, the head of branch dev, is not among the 1 commits"
    ):
        retained_commits(graph("A:1", branches={"main": "A", "dev": "Z"}), DAYS_10, NOW)


@pytest.mark.parametrize("protect", [True, False])
def test_a_tag_on_an_unknown_commit_refuses_even_if_tags_do_not_protect(*, protect: bool) -> None:
    refs = graph("A:1", branches={"main": "A"}, tags={"v1": "Z"})
    with pytest.raises(IncompleteReadError, match="commit Z, the commit of tag v1, is not"):
        retained_commits(refs, None, NOW, tags_protect=protect)


@pytest.mark.parametrize("rules", [DAYS_10, None])
def test_a_cycle_refuses(rules: RetentionRules | None) -> None:
    refs = graph("A:9(C) B:8(A) C:7(B) D:1(C)", branches={"main": "D"})
    with pytest.raises(IncompleteReadError, match="the commit graph has a cycle"):
        retained_commits(refs, rules, NOW)


def test_a_repository_without_commits_refuses() -> None:
    with pytest.raises(RepositoryStateError, match=r"refs hold no commits"):
        retained_commits(Refs({}, (), ()), DAYS_10, NOW)


def test_a_repository_without_branches_refuses_even_without_rules() -> None:
    with pytest.raises(RepositoryStateError, match="refs hold no branches"):
        retained_commits(graph("A:1", branches={}), None, NOW)


def test_a_now_without_timezone_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="timezone-aware"):
        retained_commits(graph("A:1", branches={"main": "A"}), DAYS_10, NOW.replace(tzinfo=None))


def test_a_negative_margin_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="would retain less"):
        retained_commits(
            graph("A:1", branches={"main": "A"}), DAYS_10, NOW, clock_margin=timedelta(seconds=-1)
        )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Refs, RetentionRules]:
    """Graphs with merges, both versions, several roots and odd dates; branches hidden or not."""
    size = draw(st.integers(1, 14))
    names = draw(st.permutations([f"{number:02}" for number in range(size)]))
    commits: dict[str, Commit] = {}
    for position, name in enumerate(names):
        parents = (
            draw(st.lists(st.sampled_from(names[:position]), max_size=2, unique=True))
            if position
            else []
        )
        age = draw(st.integers(-20, 200)) / 4
        commits[name] = Commit(
            name,
            tuple(parents),
            NOW - timedelta(days=age),
            f"m{name}",
            draw(st.sampled_from([0, 1, 1])),
        )
    heads = draw(
        st.dictionaries(
            st.sampled_from(["main", "dev", "rel", "x", "y"]), st.sampled_from(names), min_size=1
        )
    )
    tags = draw(st.dictionaries(st.sampled_from(["v1", "v2"]), st.sampled_from(names)))
    days = st.integers(-3, 50)
    rules = RetentionRules(
        draw(days), draw(st.dictionaries(st.sampled_from(["main", "dev", "rel", "gone"]), days))
    )
    return Refs(
        commits, tuple(Branch(*at) for at in heads.items()), tuple(Tag(*at) for at in tags.items())
    ), rules


@given(graphs())
@settings(max_examples=examples(40, 400), deadline=None)
def test_the_result_is_what_separate_walks_to_the_root_give_and_contains_the_servers(
    case: tuple[Refs, RetentionRules],
) -> None:
    refs, rules = case
    ours = ids(retained_commits(refs, rules, NOW, clock_margin=EXACT, tags_protect=False))
    assert ours == every_walk_to_the_root(refs, rules, NOW)
    assert ours >= as_the_server_walks(refs, rules, NOW)
    tagged = {tag.commit_id for tag in refs.tags}
    assert ids(retained_commits(refs, rules, NOW, clock_margin=EXACT)) == ours | tagged
    assert ids(retained_commits(refs, rules, NOW, tags_protect=False)) >= ours


@pytest.mark.slow
@given(graphs(), st.integers(0, 6))
@settings(max_examples=examples(40, 400), deadline=None)
def test_the_last_commits_are_what_a_walk_from_each_head_finds_and_nothing_is_lost(
    case: tuple[Refs, RetentionRules], count: int
) -> None:
    refs, rules = case
    walked: set[str] = set()
    for branch in refs.branches:
        at: str | None = branch.commit_id
        for _ in range(count):
            if at is not None:
                walked.add(at)
                at = refs.commits[at].main_parent
    without = ids(retained_commits(refs, rules, NOW))
    assert ids(retained_commits(refs, rules, NOW, keep_last=count)) == without | walked


@given(graphs(), st.randoms(use_true_random=False))
@settings(max_examples=examples(40, 200), deadline=None)
def test_neither_the_order_of_anything_nor_the_ids_change_the_result(
    case: tuple[Refs, RetentionRules], chance: random.Random
) -> None:
    refs, rules = case
    new_ids = list(refs.commits)
    chance.shuffle(new_ids)
    renamed = dict(zip(refs.commits, new_ids, strict=True))
    commits = [
        Commit(
            renamed[commit.id],
            tuple(renamed[parent] for parent in commit.parents),
            commit.creation_date,
            commit.metarange_id,
            commit.version,
        )
        for commit in refs.commits.values()
    ]
    branches = [Branch(branch.id, renamed[branch.commit_id]) for branch in refs.branches]
    tags = [Tag(tag.id, renamed[tag.commit_id]) for tag in refs.tags]
    for items in (commits, branches, tags):
        chance.shuffle(items)
    shuffled = Refs({commit.id: commit for commit in commits}, tuple(branches), tuple(tags))
    assert {
        (renamed[retention.commit_id], retention.reason, retention.until)
        for retention in retained_commits(refs, rules, NOW)
    } == {
        (retention.commit_id, retention.reason, retention.until)
        for retention in retained_commits(shuffled, rules, NOW)
    }


@given(graphs(), st.timedeltas(timedelta(0), timedelta(days=60)))
@settings(max_examples=examples(40, 200), deadline=None)
def test_a_commit_is_retained_exactly_as_long_as_it_was_said_to_be(
    case: tuple[Refs, RetentionRules], later: timedelta
) -> None:
    refs, rules = case
    now = retained_commits(refs, rules, NOW)
    still = ids(retained_commits(refs, rules, NOW + later))
    assert still == {
        retention.commit_id
        for retention in now
        if retention.until is None or retention.until > NOW + later
    }


@pytest.mark.slow
def test_a_long_history_under_many_branches_takes_seconds_not_a_walk_for_each() -> None:
    size = 60_000
    created = [NOW - timedelta(minutes=size - number) for number in range(size)]
    commits = {
        str(number): Commit(str(number), (str(number - 1),) if number else (), created[number], "")
        for number in range(size)
    }
    branches = tuple(Branch(f"b{number}", str(size - 1 - number * 50)) for number in range(1_000))
    rules = RetentionRules(30, {f"b{number}": number % 90 for number in range(1_000)})
    started = time.monotonic()
    retained = retained_commits(Refs(commits, branches, ()), rules, NOW, keep_last=10_000)
    assert len(retained) > 30_000
    assert time.monotonic() - started < 20, "a walk for each of 1,000 branches takes minutes"
