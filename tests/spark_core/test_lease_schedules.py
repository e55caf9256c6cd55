"""Any interleaving of several collectors, with skewed clocks, lost answers and kills: never two at work at once."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.run import RunOptions
from tests.support.lease_world import FAULTS, Command, World
from tests.support.written_run import written_run

TTL = int(RunOptions().lease_ttl.total_seconds())
SKEW = int(MAX_CLOCK_SKEW.total_seconds())

COMMANDS = st.lists(
    st.builds(
        Command,
        run=st.integers(0, 1),
        work=st.sampled_from(["sweep", "sweep", "restore"]),
        host=st.integers(0, 1),
        # Any two machines differ by at most the skew that is allowed for.
        skew=st.sampled_from([-SKEW // 2, -1, 0, 1, SKEW // 2]),
        take_over=st.sampled_from([None, 0, 1]),
        beats=st.integers(0, 4),
        clean=st.booleans(),
    ),
    min_size=2,
    max_size=4,
)
# Who goes on, how many seconds later, and what becomes of the call.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([0, 0, 0, 0, 1, TTL // 3, TTL - 1, TTL, TTL + 1, TTL + SKEW - 1, TTL + SKEW, TTL + 2 * SKEW]),
        st.sampled_from([None, None, None, None, None, None, *FAULTS]),
    ),
    max_size=80,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return written_run(tmp_path_factory.mktemp("lease"), spark=None).run


def _play(run, commands, steps):
    with pytest.MonkeyPatch.context() as monkeypatch:
        world = World(run, commands, monkeypatch)
        try:
            for number, seconds, fault in steps:
                world.now += timedelta(seconds=seconds)
                world.require_one_collector()
                world.step(number % len(commands), fault)
                world.require_one_collector()
        finally:
            world.end()
    return world


@given(commands=COMMANDS, steps=STEPS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(
    commands=[Command(0, "sweep", 0, 0, None, 4, True), Command(1, "sweep", 1, 0, 0, 4, True)],
    # The second looks when the first's lease is over; the first, late, writes its heartbeat before the second its end.
    steps=[(0, 0, None)] * 5 + [(1, TTL + SKEW, None)] * 3 + [(0, 0, None)] * 3 + [(1, 0, None)] * 6,
)
def test_two_collectors_are_never_at_work_at_once(run, commands, steps):
    _play(run, commands, steps)


@pytest.mark.deep
@given(commands=COMMANDS, steps=STEPS)
@settings(max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_collectors_are_never_at_work_at_once_in_thousands_of_schedules(run, commands, steps):
    _play(run, commands, steps)


def test_the_schedules_reach_what_they_are_about(run):
    """A run is killed as a holder, waits are refused, and then it is taken over by name: the world is not idle."""
    dead, taker = Command(0, "sweep", 0, 0, None, 4, True), Command(1, "sweep", 1, 0, 0, 0, True)
    world = _play(run, [dead, taker], [(0, 0, None)] * 6 + [(0, 0, "killed before")])
    assert world.processes[0].lease is not None
    world = _play(
        run, [dead, taker], [(0, 0, None)] * 6 + [(0, 0, "killed before")] + [(1, 0, None)] * 4 + [(1, TTL, None)] * 4
    )
    assert [process.lease for process in world.processes[1:]].count(None) == len(world.processes) - 1
    world = _play(
        run,
        [dead, taker],
        [(0, 0, None)] * 6 + [(0, 0, "killed before"), (1, TTL + SKEW + 1, None)] + [(1, 0, None)] * 9,
    )
    assert world.processes[1].lease.epoch == 2
    assert world.processes[1].ended_well
