"""Undo of a removal whose objects went meanwhile: it looks, names what is gone, and asks."""

from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from lakegc_dagster.sandbox import Sandbox, objects
from spark_core import lakegc_keys
from spark_core.branches import removal
from spark_core.branches.removal.writes import Writes
from spark_core.errors import TransientError
from spark_core.references.policies.document import Period, Rule
from tests.support.removals import BEGIN, DAY, World, rule


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("undo") / "sandbox") as sandbox:
        yield sandbox


@pytest.fixture
def world(running):
    """Three old entries under logs/ that were removed, and their addresses."""
    running.observe(None)
    running.behaviour.protected, running.behaviour.hook = (), None
    world = World(running)
    world.addresses = world.committed("main", "logs/a", "logs/b", "logs/c", "data/d")
    world.at(6)
    return world


def removed(world, *rules):
    world.policy(rule("main/logs/", 3), *rules)
    outcome = world.outcome()
    assert outcome.state == "removed"
    return outcome


def lose(world, *numbers):
    """Take objects out of the store, as another program would."""
    world.run().store.delete([world.addresses[number] for number in numbers])


def test_undo_names_what_is_gone_and_reverts_nothing(world):
    removed(world)
    lose(world, 1)
    world.at(7)
    head = world.log()[0]["id"]
    (undone,) = world.undo()
    assert (undone.state, undone.is_as_wanted) == ("missing", False)
    gone = "1 of its 3 entries has no object in the store any more, for instance 'logs/b'"
    assert gone in undone.found
    assert "--what-is-there" in undone.found
    assert world.log()[0]["id"] == head


def test_the_whole_list_of_what_is_gone_lies_where_undo_says(world):
    removed(world)
    lose(world, 0, 2)
    (undone,) = world.undo()
    key = undone.missing_list
    assert key in undone.found
    with world.run().store.open_source(key) as source:
        rows = pq.read_table(source).to_pylist()
    assert [row["path"] for row in rows] == ["logs/a", "logs/c"]
    assert [row["physical_address"].endswith(world.addresses[0]) for row in rows] == [True, False]


def test_with_a_decision_what_is_there_comes_back_and_the_rest_stays_removed(world):
    removed(world)
    lose(world, 1)
    world.at(7)
    (undone,) = world.undo(what_is_there=True)
    assert (undone.state, undone.is_as_wanted) == ("in_part", True)
    assert world.paths() == {"logs/a", "logs/c", "data/d"}
    assert world.repository.get("main", "logs/a") == b"logs/a"
    assert world.log()[0]["metadata"]["lakegc.undoes"] == undone.commit
    assert world.work_branches() == set()
    # Once the object is back, the rest of the removal can be undone.
    (again,) = world.undo()
    assert again.state == "missing"
    world.run().store.put(world.addresses[1], b"logs/b")
    world.at(8)
    (rest,) = world.undo()
    assert rest.state == "reverted"
    assert world.paths() == {"logs/a", "logs/b", "logs/c", "data/d"}


def test_a_second_undo_of_what_is_there_changes_nothing(world):
    removed(world)
    lose(world, 1)
    world.at(7)
    world.undo(what_is_there=True)
    world.at(8)
    (again,) = world.undo(what_is_there=True)
    assert again.state == "in_part"
    assert world.paths() == {"logs/a", "logs/c", "data/d"}


def test_if_everything_is_gone_nothing_can_come_back(world):
    removed(world)
    lose(world, 0, 1, 2)
    (undone,) = world.undo(what_is_there=True)
    assert undone.state == "missing"
    assert "none of its 3 entries has an object in the store any more" in undone.found
    assert world.paths() == {"data/d"}


def test_what_is_there_replaces_nothing_that_was_written_since(world):
    removed(world)
    lose(world, 1)
    world.at(7)
    world.committed("main", "logs/a", data=b"new")
    (undone,) = world.undo(what_is_there=True)
    assert undone.state == "refused"
    assert "conflict" in undone.found
    assert world.repository.get("main", "logs/a") == b"new"
    assert world.work_branches() == set()


def test_what_is_there_brings_nothing_to_a_branch_that_was_reset_meanwhile(world):
    world.committed("main", "data/later")
    removed(world)
    lose(world, 1)
    world.at(7)
    world.committed("main", "data/last")

    def rewind(endpoint):
        if endpoint == "commit":
            world.sandbox.observe(None)
            world.repository.hard_reset("main", "main~1")

    world.sandbox.observe(rewind)
    (undone,) = world.undo(what_is_there=True)
    assert undone.state == "refused"
    assert "is not on its main line any more" in undone.found
    assert world.paths() == {"data/d", "data/later"}


def test_what_is_there_leaves_a_branch_that_was_reset_in_the_last_moment_as_it_was(world):
    world.committed("main", "data/later")
    removed(world)
    lose(world, 1)
    world.at(7)
    world.committed("main", "data/last")

    def rewind(endpoint):
        if endpoint == "merge_into_branch":
            world.sandbox.observe(None)
            world.repository.hard_reset("main", "main~1")

    world.sandbox.observe(rewind)
    (undone,) = world.undo(what_is_there=True)
    assert undone.state == "refused"
    assert "was reset right before the merge" in undone.found
    assert world.paths() == {"data/d", "data/later"}


def test_a_store_that_does_not_answer_is_no_proof_that_objects_are_there(world, monkeypatch):
    removed(world)
    run = world.run()
    real = run.store.head

    def broken(key):
        if key.startswith("data/"):
            raise TransientError("the store does not answer")
        return real(key)

    monkeypatch.setattr(run.store, "head", broken)
    (undone,) = removal.undo(run, world.last.key, who="ann")
    assert undone.state == "refused"
    assert world.paths() == {"data/d"}


def test_after_the_promise_undo_needs_a_decision_although_everything_is_there(world):
    world.repository.rules(3)
    removed(world)
    world.at(9)
    (undone,) = world.undo()
    assert (undone.state, undone.until) == ("too_late", BEGIN + 9 * DAY)
    assert "those of all 3 entries are in the store now" in undone.found
    assert world.paths() == {"data/d"}
    (undone,) = world.undo(what_is_there=True)
    assert undone.state == "reverted"
    assert "logs/b" in world.paths()


def test_until_the_promise_ends_undo_needs_no_decision(world):
    world.repository.rules(3)
    removed(world)
    # A run opens a second after the instant that it stands for.
    world.at(9 - timedelta(seconds=2) / DAY)
    (undone,) = world.undo()
    assert (undone.state, undone.until) == ("reverted", BEGIN + 9 * DAY)


def expiring(prefix, **periods):
    branch, _, path = (prefix or "").partition("/")
    return Rule(
        branch or None, path, {action: Period(days=days) for action, days in periods.items()}
    )


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([expiring("main/", noncurrent=2)], 6 + 2),
        ([expiring(None, noncurrent=2)], 6 + 2),
        # The objects may have come from another branch.
        ([expiring("dev/logs/a", noncurrent=2)], 6 + 2),
        ([expiring("main/", all=30)], 0 + 30),
        ([expiring("main/data/", all=1, noncurrent=1)], None),
        ([expiring("main/", uncommitted=1)], None),
        ([expiring("main/", noncurrent=2), expiring(None, noncurrent=1)], 6 + 1),
    ],
)
def test_the_promise_is_the_earliest_of_what_rules_of_the_policy_can_take(world, rules, days):
    until = None if days is None else BEGIN + days * DAY
    assert removed(world, *rules).undo_until == until
    world.at(6.5)
    (undone,) = world.undo()
    assert (undone.state, undone.until) == ("reverted", until)


def test_the_removal_says_which_rule_of_the_policy_ends_the_promise(world):
    world.repository.rules(30)
    outcome = removed(world, expiring("main/", noncurrent=2))
    assert outcome.undo_until == BEGIN + 8 * DAY
    assert outcome.found == (
        "From 2026-11-09 02:00 UTC on policy rule 2: noncurrent, 2 days, on main/ may take its "
        "objects"
    )
    assert outcome.is_as_wanted


def test_a_policy_that_may_not_sweep_now_ends_no_promise(world):
    removed(world, expiring("main/", noncurrent=2))
    world.at(20)
    (undone,) = removal.undo(world.run(policies="mark"), world.last.key, who="ann")
    assert (undone.state, undone.until) == ("reverted", None)


def test_a_sweep_whose_rules_cannot_be_read_ends_the_promise(world):
    removed(world)
    world.at(7)
    run = world.run()
    run.store.put(f"{lakegc_keys.of_run(lakegc_keys.REPORTS, run.key)}_report.json", b"{}")
    world.at(8)
    (undone,) = world.undo()
    assert (undone.state, undone.until) == ("too_late", BEGIN + 7 * DAY)
    assert f"the sweep of run {run.key}, whose rules cannot be read" in undone.found


def test_undo_of_what_is_there_is_no_removal(world):
    removed(world)
    lose(world, 1)
    key = world.last.key
    world.at(7)
    world.undo(what_is_there=True)
    assert removal.list_removals(world.run().store) == [key]


@pytest.mark.parametrize("path", ["logs/d", "logs/a"])
def test_what_somebody_writes_to_the_branch_of_an_undo_is_not_merged(world, path):
    removed(world)
    lose(world, 1)
    world.at(7)
    name = f"lakegc-remove-undo-{world.run().key}-1"

    def write(endpoint):
        if endpoint == "commit":
            world.sandbox.observe(None)
            core = world.sandbox.core
            with core.lock:
                objects.upload(core, world.name, name, path, b"of somebody")

    world.sandbox.observe(write)
    (undone,) = world.undo(what_is_there=True)
    assert undone.state == "refused"
    assert f"changes {path!r}, which the undo does not name" in undone.found
    assert f"Branch {name} was not deleted" in undone.found
    assert world.paths() == {"data/d"}
    assert world.work_branches() == {name}


def test_the_branch_of_an_undo_that_was_killed_goes_with_a_removal_a_day_later(world, monkeypatch):
    removed(world)
    lose(world, 1)
    world.at(7)
    run = world.run()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Writes, "merge", killed)
        patch.setattr(Writes, "delete_branch", killed)
        with pytest.raises(KeyboardInterrupt):
            removal.undo(run, world.last.key, who="ann", what_is_there=True)
    (left,) = world.work_branches()
    world.at(7.5)
    assert list(world.remove().left) == [left]
    world.at(9)
    assert world.remove().left == {}
    assert world.work_branches() == set()


def test_a_branch_that_was_reset_while_objects_were_asked_for_gets_nothing_back(world):
    removed(world)
    world.at(7)

    def rewind(endpoint):
        if endpoint == "diff_refs":
            world.sandbox.observe(None)
            world.repository.hard_reset("main", "main~2")

    world.sandbox.observe(rewind)
    (undone,) = world.undo()
    assert undone.state == "gone"
    assert "is not on the main line of branch main any more" in undone.found
    assert world.paths() == set()
