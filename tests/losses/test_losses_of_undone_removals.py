"""Losses of objects whose entries a removal took, and that were promised to come back."""

from __future__ import annotations

from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core.references.policies.document import Period, Rule
from spark_core.run import Run
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.removals import BEGIN, DAY, World, rule

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("addresses")]


@pytest.fixture
def world(sandbox: Sandbox, spark: Any) -> World:
    """A repository with one entry that stays, of day 0."""
    world = World(sandbox, spark)
    world.committed("main", "data/c")
    return world


@pytest.fixture
def addresses(world: World) -> list[str]:
    """Addresses of the entries tmp/a and tmp/b, of day 0."""
    return world.committed("main", "tmp/a", "tmp/b")


def marked(world: World) -> Run:
    run = world.run()
    _, verdict, results = mark_and_conclude(run)
    assert verdict.passed, [result for result in results if not result.passed]
    return run


def swept(world: World) -> Run:
    run = marked(world)
    assert set(sweep_only(run).values()) == {"deleted"}
    return run


def test_57_an_undo_reported_success_over_objects_that_the_policy_had_taken(world: World) -> None:
    world.at(8)
    world.policy(rule("main/tmp/", 7), Rule("main", "", {"noncurrent": Period(days=2)}))
    (named,) = world.remove().named
    assert (named.outcome.state, named.outcome.undo_until) == ("removed", BEGIN + 10 * DAY)
    world.at(8.5)
    marked(world)  # the days of `noncurrent` begin with a run
    world.at(11)
    run = swept(world)
    (undone,) = world.undo()
    assert (undone.state, undone.missing) == ("missing", 2)
    assert "none of its 2 entries has an object in the store any more" in undone.found
    assert undone.found.endswith(
        f"`lakegc restore {world.name} {run.key}` may bring them back. Nothing was reverted. Once "
        "objects are back, the same command reverts it"
    )
    assert world.paths() == {"data/c"}


def test_57_a_promise_was_reckoned_with_the_rules_of_now_and_a_sweep_had_gone_by_others(
    world: World, addresses: list[str]
) -> None:
    world.repository.rules(2)
    world.at(8)
    world.policy(rule("main/tmp/", 7))
    world.remove()
    world.at(11)
    run = swept(world)
    world.repository.rules(60)
    world.at(12)
    (undone,) = world.undo()
    assert (undone.state, undone.until) == ("missing", BEGIN + 10 * DAY)
    # Somebody brought the objects back, and the promise had ended all the same.
    for path, address in zip(("tmp/a", "tmp/b"), addresses, strict=True):
        run.store.put(address, path.encode())
    (undone,) = world.undo()
    assert (undone.state, undone.until) == ("too_late", BEGIN + 10 * DAY)
    assert f"the sweep of run {run.key} (the rules of that time) may take" in undone.found


def test_57_longer_rules_before_any_sweep_that_took_something_make_a_longer_promise(
    world: World,
) -> None:
    world.repository.rules(30, main=2)
    world.at(8)
    world.policy(rule("main/tmp/", 7))
    world.remove()
    world.at(9)
    assert sweep_only(marked(world)) == {}
    world.repository.rules(30, main=60)
    world.at(30)
    (undone,) = world.undo()
    assert (undone.state, undone.until) == ("reverted", BEGIN + 68 * DAY)


def test_57_what_was_undone_after_a_mark_was_swept_by_it(world: World) -> None:
    world.repository.rules(30, main=2)
    world.at(8)
    world.policy(rule("main/tmp/", 7), Rule("main", "", {"noncurrent": Period(days=2)}))
    world.remove()
    world.at(8.5)
    marked(world)  # the days of `noncurrent` begin with a run
    world.at(11)
    run = marked(world)
    world.at(11.1)
    (undone,) = world.undo(what_is_there=True)
    assert undone.state == "reverted"
    assert set(sweep_only(run).values()) == {"kept"}
    assert world.repository.get("main", "tmp/a") == b"tmp/a"
