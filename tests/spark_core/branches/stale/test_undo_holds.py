"""The holds of deleted branches end when the days to make these again are over."""

from spark_core import holds
from spark_core.branches.stale import marked, undo_holds
from tests.spark_core.branches.stale.conftest import WITH_STAGED


def days_later(world, days):
    run = world.run()
    run.environment.clock.sleep(days * 86_400.0)
    return run


def test_holds_end_when_the_days_are_over_and_not_before(world):
    world.policy(WITH_STAGED)
    world.branch("dev-1")
    holds.add(world.run(), "audit", "branch", "main", who="ann", why="")
    world.delete(world.confirmed())
    assert undo_holds.end_holds(days_later(world, 6)) == []
    (ended,) = undo_holds.end_holds(days_later(world, 8))
    assert ended.name.startswith("undo-branch-")
    assert set(world.holds()) == {"audit"}
    assert undo_holds.end_holds(days_later(world, 8)) == []


def test_looking_ends_no_hold(world, stale):
    world.delete(world.confirmed())
    marked.mark(days_later(world, 400), who="ann")
    assert len(world.holds()) == 2
