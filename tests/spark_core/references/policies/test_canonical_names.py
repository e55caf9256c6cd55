"""Canonical names and due dates, against plain dictionaries over random histories."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from spark_core.errors import IncompleteReadError
from spark_core.model import Commit, Refs
from spark_core.references.policies.canonical_names import NEVER, Graph, micros
from spark_core.references.policies.document import Period, Policy, Rule
from tests.support.examples import examples
from tests.support.policy_histories import BEGIN, DAY, World

paths = st.sampled_from(["logs/a", "logs/b", "data/a", "logstash/a"])
ACTIONS = {
    "upload": lambda world, draw, branch, other: world.upload(branch, draw(paths)),
    "copy": lambda world, draw, branch, other: world.copy(branch, draw(paths), draw(paths)),
    "remove": lambda world, draw, branch, other: world.remove(branch, draw(paths)),
    "branch": lambda world, draw, branch, other: world.branch(branch),
    "delete": lambda world, draw, branch, other: world.delete(branch),
    "rename": lambda world, draw, branch, other: world.rename(branch),
    "merge": lambda world, draw, branch, other: world.merge(branch, other),
    "old merge": lambda world, draw, branch, other: world.merge(branch, other, version=0),
    "squash": lambda world, draw, branch, other: world.squash(branch, other),
    "revert": lambda world, draw, branch, other: world.revert(branch),
    "pick": lambda world, draw, branch, other: world.cherry_pick(
        draw(st.sampled_from(sorted(world.commits))), branch
    ),
    "run": lambda world, draw, branch, other: world.run(),
    "another run": lambda world, draw, branch, other: world.run(),
    "damaged run": lambda world, draw, branch, other: world.seen.append((world.now, None)),
    "wait": lambda world, draw, branch, other: world.wait(draw(st.integers(1, 6))),
}


@st.composite
def worlds(draw, most=25):
    world = World()
    for action in draw(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=most)):
        branch, other = (draw(st.sampled_from(sorted(world.heads))) for _ in range(2))
        ACTIONS[action](world, draw, branch, other)
        world.now += timedelta(minutes=1)
    return world


@st.composite
def policies(draw):
    rules = draw(
        st.lists(
            st.builds(
                Rule,
                st.sampled_from([None, "main", "main", "b1", "b2", "b3"]),
                st.sampled_from(["", "logs", "logs/", "data/"]),
                st.dictionaries(
                    st.sampled_from(["all", "noncurrent"]),
                    st.builds(Period, days=st.integers(1, 8)),
                    min_size=1,
                ),
                st.sampled_from([True, True, True, False]),
            ),
            min_size=1,
            max_size=4,
        )
    )
    return Policy(tuple(r if r.branch else Rule(None, "", r.periods, r.is_enabled) for r in rules))


@settings(max_examples=examples(20, 100))
@given(worlds())
def test_an_introduction_is_a_commit_that_has_an_entry_that_no_ancestor_has(world):
    judge, entries = world.judge(Policy(()))
    found = {
        (entry.path.decode(), address): {
            judge.graph.ids[commit] for commit, _ in judge.names_of(entry)
        }
        for address, some in entries.items()
        for entry in some
    }
    have = {pair for tree in world.trees.values() for pair in tree.items()}
    assert found == {pair: world.introductions(*pair) for pair in have}


@settings(max_examples=examples(20, 60))
@given(worlds(40))
def test_a_commit_is_never_given_to_a_branch_on_which_it_was_not_made(world):
    graph = world.graph()
    found = world.lines(graph)
    for number, id_ in enumerate(graph.ids):
        owner = found.branch_of(number)
        assert owner is None or owner == world.made_on[id_]


@given(worlds(40), st.permutations(["b1", "b2", "main"]))
def test_a_branch_in_the_order_has_what_its_main_line_has_and_no_earlier_one(world, order):
    graph = world.graph()
    found = world.lines(graph, order)
    for number, id_ in enumerate(graph.ids):
        on = [b for b in order if b in world.heads and id_ in world.line(b)]
        if on:
            assert found.branch_of(number) == on[0]


@settings(max_examples=examples(20, 60))
@given(worlds(40))
def test_descendants_are_what_parents_say(world):
    graph = world.graph()
    for number, id_ in enumerate(graph.ids):
        above = world.ancestors(id_) | {id_}
        assert {
            graph.ids[of] for of in range(len(graph.ids)) if graph.is_descendant(number, of)
        } == (above)


@settings(max_examples=examples(50, 150))
@given(worlds(), policies(), st.data())
def test_an_object_goes_only_if_it_is_due_under_every_name_that_it_has(world, policy, data):
    order = data.draw(st.sampled_from([(), ("main", "b1"), ("b2", "main")]))
    kept = data.draw(st.sets(st.sampled_from(sorted(world.commits)), max_size=1))
    judge, entries = world.judge(policy, order=order, kept=kept)
    number = {id_: at for at, id_ in enumerate(judge.graph.ids)}
    for address, names in entries.items():
        found = judge.due(names, micros(world.written[address]))
        wanted = world.is_due(
            policy, lambda id_: judge.lines.branch_of(number[id_]), address, kept=kept
        )
        assert (found is not None) == wanted, (address, names)


def judged(world, policy, **how):
    """Return the rule by which each object goes, by its first path."""
    judge, entries = world.judge(policy, **how)
    found = {
        address: judge.due(names, micros(world.written[address]))
        for address, names in entries.items()
    }
    return {
        entries[address][0].path.decode(): due.rule
        for address, due in found.items()
        if due is not None
    }


def everywhere(days, action="all"):
    return Rule(None, "", {action: Period(days=days)})


def on(branch, path, days, action="all"):
    return Rule(branch, path, {action: Period(days=days)})


def test_a_rule_takes_what_was_committed_under_its_branch_and_path():
    world = World()
    for path in ("logs/a", "logstash/a", "data/a"):
        world.upload("main", path)
    world.now += 3 * DAY
    assert judged(world, Policy((on("main", "logs/", 3),))) == {"logs/a": 1}
    assert judged(world, Policy((on("main", "logs", 3),))) == {"logs/a": 1, "logstash/a": 1}
    assert judged(world, Policy((on("users", "logs/", 1),))) == {}


def test_a_path_is_compared_byte_by_byte_and_need_not_be_text():
    world = World()
    world.upload("main", "logs/a")
    world.now += 9 * DAY
    for prefix, path, is_named in (
        ("logs/", b"logs/\xff", True),
        ("logs/\ufffd", b"logs/\xff", False),
        ("logs/\xff", b"logs/\xff", False),
        ("logs/\xe9", "logs/e\u0301".encode(), False),
        ("logs/\xe9", "logs/\xe9".encode(), True),
        ("LOGS/", b"logs/a", False),
    ):
        judge, entries = world.judge(Policy((on("main", prefix, 1),)))
        (entry,) = entries["data/a000"]
        found = judge.due([replace(entry, path=path)], micros(BEGIN))
        assert (found is not None) == is_named, (prefix, path)


def test_a_period_has_passed_when_so_many_times_24_hours_have():
    world = World()
    world.upload("main", "logs/a")
    for offset, wanted in ((-1, {}), (0, {"logs/a": 1}), (1, {"logs/a": 1})):
        world.now = BEGIN + 3 * DAY + offset * timedelta(microseconds=1)
        assert judged(world, Policy((on("main", "logs/", 3),))) == wanted
    world.now = BEGIN + 3 * DAY + timedelta(hours=1)
    rule = Policy((on("main", "logs/", 3),))
    assert judged(world, rule, margin=3_600_000_000) == {"logs/a": 1}
    assert judged(world, rule, margin=3_600_000_001) == {}


def test_age_counts_from_the_latest_of_entry_object_and_commit():
    for part in ("entry", "object", "commit"):
        world = World()
        world.now = BEGIN + (2 * DAY if part == "commit" else timedelta(0))
        world.upload("main", "logs/a")
        world.written["data/a000"] = BEGIN + (2 * DAY if part == "entry" else timedelta(0))
        world.now = BEGIN + 3 * DAY
        judge, entries = world.judge(Policy((on("main", "logs/", 2),)))
        last_modified = micros(BEGIN + (2 * DAY if part == "object" else timedelta(0)))
        assert judge.due(entries["data/a000"], last_modified) is None
        world.now = BEGIN + 4 * DAY
        judge, entries = world.judge(Policy((on("main", "logs/", 2),)))
        assert judge.due(entries["data/a000"], last_modified) is not None


def test_the_earliest_of_several_rules_counts():
    world = World()
    world.upload("main", "logs/a")
    world.now += 3 * DAY
    rules = (on("main", "", 9), on("main", "logs/", 3), everywhere(4))
    assert judged(world, Policy(rules)) == {"logs/a": 2}


def test_a_disabled_rule_takes_nothing():
    world = World()
    world.upload("main", "logs/a")
    world.now += 9 * DAY
    rule = Rule("main", "", {"all": Period(days=1)}, is_enabled=False)
    assert judged(world, Policy((rule,))) == {}


def test_a_merged_object_keeps_the_branch_on_which_it_was_committed():
    world = World()
    feature = world.branch("main")
    world.upload(feature, "logs/a")
    world.merge(feature, "main")
    world.now += 9 * DAY
    assert judged(world, Policy((on("main", "", 1),))) == {}
    assert judged(world, Policy((on(feature, "", 1),)), order=[feature]) == {"logs/a": 1}


def test_what_a_deleted_branch_committed_is_taken_only_by_a_rule_without_a_prefix():
    world = World()
    feature = world.branch("main")
    world.upload(feature, "logs/a")
    world.merge(feature, "main")
    world.delete(feature)
    world.now += 9 * DAY
    assert judged(world, Policy((on("main", "", 1), on(feature, "", 1)))) == {}
    assert judged(world, Policy((everywhere(1),))) == {"logs/a": 1}


def test_a_branch_made_from_another_one_does_not_get_its_commits():
    # users-alice made from feature, and feature merged and deleted; runs at every moment.
    for moments in range(16):
        world = World()
        feature = world.branch("main")
        steps = (
            lambda world, _: world.upload("b1", "logs/a"),
            lambda world, _: world.branch("b1"),
            lambda world, _: world.merge("b1", "main"),
            lambda world, _: world.delete("b1"),
        )
        for at, step in enumerate(steps):
            step(world, feature)
            if moments >> at & 1:
                world.run()
        world.now += 9 * DAY
        assert judged(world, Policy((on("b2", "", 1),))) == {}, moments


def test_what_is_committed_on_top_of_a_head_that_a_run_saw_is_the_branch_s():
    world = World()
    world.branch("main")
    world.upload("b1", "logs/first")
    world.run()
    world.upload("b1", "logs/second")
    world.now += 9 * DAY
    assert judged(world, Policy((on("b1", "", 1),))) == {"logs/second": 1}


def test_commits_that_a_branch_was_reset_onto_are_its_own_once_their_branch_is_gone():
    # The limit that docs/object-retention.md names.
    world = World()
    world.branch("main")
    world.upload("b1", "logs/first")
    world.run()
    world.branch("b1")
    world.upload("b2", "logs/second")
    world.heads["b1"] = world.heads["b2"]
    world.now += 9 * DAY
    assert judged(world, Policy((on("b1", "", 1),))) == {}
    world.delete("b2")
    assert judged(world, Policy((on("b1", "", 1),))) == {"logs/second": 1}


def test_a_head_that_stood_on_another_branch_s_line_when_it_was_seen_proves_nothing():
    world = World()
    world.branch("main")
    world.upload("b1", "logs/first")
    world.branch("b1")
    world.run()
    world.upload("b2", "logs/second")
    world.heads["b1"] = world.heads["b2"]
    world.delete("b2")
    world.now += 9 * DAY
    assert judged(world, Policy((on("b1", "", 1),))) == {}


def test_a_head_that_was_seen_on_another_branch_s_commit_proves_nothing():
    world = World()
    world.upload("main", "logs/x")
    world.branch("main")
    world.run()
    world.upload("b1", "logs/a")
    world.now += 9 * DAY
    assert judged(world, Policy((on("b1", "", 1),))) == {}


def test_a_run_whose_branches_are_not_all_known_proves_nothing():
    world = World()
    world.branch("main")
    world.upload("b1", "logs/first")
    world.run()
    world.seen[-1][1]["other"] = "gone"
    world.upload("b1", "logs/second")
    world.now += 9 * DAY
    assert judged(world, Policy((on("b1", "", 1),))) == {}


def test_a_copy_goes_only_when_it_is_due_under_each_path():
    world = World()
    world.upload("main", "logs/a")
    world.copy("main", "logs/a", "data/a")
    world.now += 9 * DAY
    assert judged(world, Policy((on("main", "logs/", 1),))) == {}
    assert judged(world, Policy((on("main", "data/", 1),))) == {}
    assert judged(world, Policy((on("main", "logs/", 1), on("main", "data/", 9)))) == {"data/a": 2}


def test_a_picked_object_has_a_name_on_each_branch():
    world = World()
    world.branch("main")
    world.upload("main", "logs/a")
    world.cherry_pick(world.heads["main"], "b1")
    world.now += 9 * DAY
    assert judged(world, Policy((on("main", "", 1),))) == {}
    assert judged(world, Policy((on("main", "", 1), on("b1", "", 1))), order=["main", "b1"]) != {}


def test_noncurrent_counts_from_the_first_run_that_saw_it_on_no_branch():
    world = World()
    world.upload("main", "logs/a")
    world.now += 5 * DAY
    world.upload("main", "logs/a")
    rule = Policy((on("main", "logs/", 2, "noncurrent"),))
    world.now += 9 * DAY
    assert judged(world, rule) == {}
    world.run()
    world.now += 2 * DAY - timedelta(microseconds=1)
    world.run()
    assert judged(world, rule) == {}
    world.now += timedelta(microseconds=1)
    assert judged(world, rule) == {"logs/a": 1}


def test_ranges_that_other_paths_changed_do_not_make_an_entry_noncurrent():
    world = World()
    world.upload("main", "logs/a")
    for number in range(6):
        world.upload("main", f"x/{number}")
        world.run()
    world.now += 5 * DAY
    world.remove("main", "logs/a")
    world.run()
    world.now += DAY
    assert judged(world, Policy((on("main", "logs/", 2, "noncurrent"),))) == {}
    world.now += DAY
    assert judged(world, Policy((on("main", "logs/", 2, "noncurrent"),))) == {"logs/a": 1}


@pytest.mark.parametrize("way", ["dropped", "deleted", "reset"])
def test_a_branch_that_showed_it_until_yesterday_gives_it_the_whole_period(way):
    rule = Policy((on("main", "", 7, "noncurrent"),))
    world = World()
    world.upload("main", "data/a")
    world.branch("main")
    world.now = BEGIN + 5 * DAY
    world.remove("main", "data/a")
    for day in range(5, 30):
        world.now = BEGIN + day * DAY
        world.run()
    world.now = BEGIN + 29.5 * DAY
    if way == "dropped":
        world.remove("b1", "data/a")
    elif way == "reset":
        world.heads["b1"] = world.heads["main"]
    else:
        world.delete("b1")
    for day in range(30, 37):
        world.now = BEGIN + day * DAY
        assert judged(world, rule) == {}, day
        world.run()
    world.now = BEGIN + 37 * DAY
    assert judged(world, rule) == {"data/a": 1}


def test_another_path_or_another_branch_s_copy_counts_like_the_name_of_the_rule():
    rule = Policy((on("main", "", 1, "noncurrent"), on("b1", "", 1, "noncurrent")))
    world = World()
    world.upload("main", "logs/a")
    world.branch("main")
    world.copy("b1", "logs/a", "data/a")
    for branch, path in (("main", "logs/a"), ("b1", "logs/a")):
        world.remove(branch, path)
        world.now += 5 * DAY
        world.run()
    world.remove("b1", "data/a")
    world.now += 5 * DAY
    world.run()
    assert judged(world, rule, order=["main", "b1"]) == {}
    world.now += DAY
    assert judged(world, rule, order=["main", "b1"]) == {"data/a": 2}


def test_a_run_from_before_the_last_commit_that_has_it_tells_nothing():
    # No run saw the branch, and its commit says when it was there.
    rule = Policy((on("main", "logs/", 2, "noncurrent"),))
    world = World()
    world.upload("main", "logs/a")
    had_it = world.heads["main"]
    world.remove("main", "logs/a")
    world.run()
    world.now += 9 * DAY
    assert judged(world, rule) == {"logs/a": 1}
    world.heads["b1"] = had_it
    world.upload("b1", "x")
    world.delete("b1")
    assert judged(world, rule) == {}
    world.run()
    world.now += 2 * DAY - timedelta(microseconds=1)
    assert judged(world, rule) == {}
    world.now += timedelta(microseconds=1)
    assert judged(world, rule) == {"logs/a": 1}


def test_a_loss_with_a_date_behind_the_run_that_saw_it_counts_from_a_later_run():
    rule = Policy((everywhere(2, "noncurrent"),))
    world = World()
    world.upload("main", "logs/a")
    world.now = BEGIN + 9 * DAY
    world.remove("main", "logs/a")
    for day, wanted in ((3, {}), (8, {}), (10, {}), (12, {"logs/a": 1})):
        world.now = BEGIN + day * DAY
        assert judged(world, rule) == wanted, day
        world.run()


@pytest.mark.parametrize("way", ["damaged", "unknown"])
def test_a_run_of_which_nobody_knows_what_it_saw_may_have_seen_it(way):
    rule = Policy((on("main", "", 2, "noncurrent"),))
    world = World()
    world.upload("main", "logs/a")
    world.remove("main", "logs/a")
    world.run()
    world.now += DAY
    world.seen.append((world.now, None if way == "damaged" else {"main": "gone"}))
    world.now += 9 * DAY
    assert judged(world, rule) == {}
    world.run()
    world.now += 2 * DAY
    assert judged(world, rule) == {"logs/a": 1}


def test_what_any_branch_shows_is_not_noncurrent():
    world = World()
    world.upload("main", "logs/a")
    world.remove("main", "logs/a")
    world.run()
    world.now += 9 * DAY
    rule = Policy((on("main", "", 1, "noncurrent"),))
    assert judged(world, rule) == {"logs/a": 1}
    # Made again on the old commit since the last run.
    world.heads["b1"] = world.commits[world.heads["main"]].parents[0]
    assert judged(world, rule) == {}


def test_a_revert_makes_an_object_current_again_and_ages_it_from_its_first_commit():
    world = World()
    world.upload("main", "logs/a")
    world.now += 5 * DAY
    world.remove("main", "logs/a")
    world.revert("main")
    assert judged(world, Policy((on("main", "", 1, "noncurrent"),))) == {}
    assert judged(world, Policy((on("main", "", 5),))) == {"logs/a": 1}


def test_what_a_deleted_branch_had_is_noncurrent_from_the_first_run_without_it():
    world = World()
    world.branch("main")
    world.upload("b1", "logs/a")
    world.run()
    world.delete("b1")
    world.now += 99 * DAY
    assert judged(world, Policy((everywhere(1, "noncurrent"),))) == {}
    assert judged(world, Policy((everywhere(1),))) == {"logs/a": 1}
    world.run()
    world.now += DAY
    assert judged(world, Policy((everywhere(1, "noncurrent"),))) == {"logs/a": 1}


def test_what_a_tag_or_a_hold_keeps_stays():
    world = World()
    world.upload("main", "logs/a")
    kept = world.heads["main"]
    world.upload("main", "logs/b")
    world.now += 9 * DAY
    assert judged(world, Policy((everywhere(1),)), kept={kept}) == {"logs/b": 1}


def test_what_no_retained_commit_reaches_is_not_a_policy_s():
    world = World()
    world.upload("main", "logs/a")
    world.remove("main", "logs/a")
    world.now += 9 * DAY
    rule = Policy((everywhere(1),))
    assert judged(world, rule, retained={world.heads["main"]}) == {}


def test_an_unreadable_table_leaves_every_branch_undecided():
    world = World()
    world.upload("main", "logs/a")
    world.branch("main")
    world.now += 9 * DAY
    world.upload("b1", "logs/b")
    unreadable = {world.heads["b1"]}
    world.now += 2 * DAY
    rules = Policy((on("main", "", 1),))
    assert judged(world, rules) == {"logs/a": 1}
    assert judged(world, rules, unreadable=unreadable) == {}
    # The unreadable commit may have given it a younger name.
    assert judged(world, Policy((everywhere(3),)), unreadable=unreadable) == {}
    assert judged(world, Policy((everywhere(2),)), unreadable=unreadable) == {"logs/a": 1}
    assert judged(world, Policy((everywhere(1, "noncurrent"),)), unreadable=unreadable) == {}


def test_nobody_knows_since_when_an_entry_is_gone_if_a_table_cannot_be_read():
    world = World()
    world.upload("main", "logs/x")
    unreadable = {world.heads["main"]}
    world.now += 5 * DAY
    world.upload("main", "logs/a")
    world.written["data/a001"] = BEGIN
    world.now += DAY
    world.remove("main", "logs/a")
    world.run()
    world.now += 2 * DAY
    rules = Policy((everywhere(4), everywhere(1, "noncurrent")))
    assert judged(world, rules)["logs/a"] == 2
    assert "logs/a" not in judged(world, rules, unreadable=unreadable)


def test_a_commit_without_a_credible_date_keeps_its_objects():
    world = World()
    world.upload("main", "logs/a")
    head = world.heads["main"]
    world.commits[head] = Commit(
        head,
        world.commits[head].parents,
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        f"m-{head}",
    )
    world.now += 99 * DAY
    assert judged(world, Policy((everywhere(1),))) == {}
    assert NEVER in world.graph().dates


def test_commits_without_their_parents_are_refused():
    refs = Refs({"b": Commit("b", ("a",), BEGIN, "")}, (), ())
    with pytest.raises(IncompleteReadError, match="has the parent a"):
        Graph.of(refs)
    circle = {id_: Commit(id_, (of,), BEGIN, "") for id_, of in (("a", "b"), ("b", "a"))}
    with pytest.raises(IncompleteReadError, match="their own ancestors"):
        Graph.of(Refs(circle, (), ()))
