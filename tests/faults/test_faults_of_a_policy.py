"""A sweep by a retention policy that fails or is killed at any call, and what happens before it is
resumed.
"""

import pytest

from lakegc_dagster.sandbox import Sandbox
from tests.support.fault_world import MARKED, points, sweep_command, try_all
from tests.support.faults import AFTER
from tests.support.policy_fault_world import CHANGES, PolicyFaultWorld, Resumed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2 * 3_600)]

# Where the default tests kill: with a written intent and nothing sent, and with all of it sent.
PLACES = ("/intent-", "delete data/")


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("failing")) as sandbox:
        yield PolicyFaultWorld(sandbox, spark, tmp_path_factory.mktemp("aside"))


@pytest.fixture(autouse=True)
def _as_it_was(world):
    world.put_all_back(MARKED)


# In quarters, so that each can be run by itself in less than an hour.
@pytest.mark.deep
@pytest.mark.parametrize("quarter", range(4))
def test_a_policy_s_sweep_that_fails_at_any_call_is_finished_by_another(
    world, record_property, quarter
):
    chosen = points(world.sweep_calls)[quarter::4]
    try_all(world, MARKED, sweep_command, chosen, record_property)


def resume(world, changes, kills, record_property):
    tried = Resumed()
    for change in changes:
        for at, kind in kills:
            world.try_change(change, at, kind, tried)
        world.require_nothing_missing()
    record_property("figures", f"sweeps by a policy that were killed and resumed: {tried}")
    assert not tried.losses, "\n".join(tried.losses[:20])
    return tried


@pytest.mark.slow
def test_a_commit_between_a_kill_and_the_next_sweep_keeps_what_it_concerns(world, record_property):
    (committed,) = (change for change in CHANGES if change.name == "committed")
    places = [
        next(call.number for call in world.sweep_calls if where in f"{call.what} {call.on}")
        for where in PLACES
    ]
    tried = resume(world, [committed], [(at, AFTER) for at in places], record_property)
    # The second one finds its objects gone.
    assert (tried.states, tried.gone_before, tried.kept) == (2, len(world.taken), 4)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
@pytest.mark.deep
def test_what_happens_between_a_kill_at_any_call_and_the_next_sweep_keeps_what_it_concerns(
    world, change, record_property
):
    tried = resume(world, [change], list(world.kills()), record_property)
    assert tried.states > 5
    assert tried.gone_before > 0
    assert (tried.kept > 0) == bool(change.kept)
