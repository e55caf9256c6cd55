"""Removals with just the lakeFS policy of docs/security.md, and without each of its actions."""

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core.branches import removal
from spark_core.errors import LakegcError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.run import Environment, RunOptions, open_run
from spark_core.storage import StoreOptions
from tests.support.clock import FakeClock
from tests.support.policy_page import policy
from tests.support.removals import BEGIN, DAY, World, rule
from tests.support.sandbox_runs import SMALL
from tests.support.sandbox_users import add_user


@pytest.fixture
def world(tmp_path):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        world = World(sandbox)
        _, world.lost, _ = world.committed("main", "logs/a", "logs/lost", "data/b")
        world.write("main", "logs/draft")
        world.at(6)
        world.policy(rule("main/logs/", 3, staged=3), resets=True)
        yield world


def allowed(world):
    return policy("lakefs-remove", my_repo=world.name, my_branch="main", my_path="logs")


def actions(document):
    return [action for statement in document["statement"] for action in statement["action"]]


def without(document, number):
    """Leave out one action, by its place in the policy."""
    left = iter(range(len(actions(document))))
    kept = [
        {**statement, "action": [each for each in statement["action"] if next(left) != number]}
        for statement in document["statement"]
    ]
    return {**document, "statement": [statement for statement in kept if statement["action"]]}


def as_user(world, document):
    user = add_user(world.sandbox, "lakegc", document)
    keys, clock = user.credentials, FakeClock(BEGIN + world.day * DAY)
    environment = Environment(
        server=LakeFSServer(
            ServerOptions(world.sandbox.endpoint, keys.access_key_id, keys.secret_access_key),
            clock=clock,
        ),
        store_options=StoreOptions(local_path=str(world.sandbox.blockstore)),
        spark=lambda: pytest.fail("a removal needs no Spark"),
        clock=clock,
    )
    key = RunKey.at(BEGIN + world.day * DAY)
    return user, open_run(environment, world.name, key, RunOptions(policies="sweep", **SMALL))


def removed_and_undone(world, document):
    """Remove, undo what is there and all of it; return what went wrong, and the actions used."""
    try:
        user, run = as_user(world, document)
        (named,) = removal.remove(run, who="lakegc").named
        wrong = [named.outcome.found] if not named.outcome.is_as_wanted else []
        run.store.delete([world.lost])
        for what_is_there in (True, False):
            undone = removal.undo(run, run.key, who="lakegc", what_is_there=what_is_there)
            wrong += [each.found for each in undone if not each.is_as_wanted]
            run.store.put(world.lost, b"logs/lost")
    except LakegcError as refused:
        return str(refused), set()
    return " ".join(wrong), user.used


def test_the_policy_suffices_to_remove_and_to_undo_and_no_action_of_it_is_left_over(world):
    wrong, used = removed_and_undone(world, allowed(world))
    assert wrong == ""
    assert used == set(actions(allowed(world)))
    assert world.paths() == {"logs/a", "logs/lost", "data/b"}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_without_any_action_of_the_policy_a_removal_is_refused_by_its_name(world, number):
    document = allowed(world)
    assert len(actions(document)) == 12
    wrong, _ = removed_and_undone(world, without(document, number))
    assert actions(document)[number] in wrong
    assert "logs/a" in world.paths()


def test_the_user_can_remove_nothing_outside_the_prefix(world):
    world.repository.reset("main")
    world.policy(rule("main/data/", 3))
    wrong, _ = removed_and_undone(world, allowed(world))
    assert "fs:DeleteObject" in wrong
    assert world.paths() >= {"logs/a", "data/b"}
