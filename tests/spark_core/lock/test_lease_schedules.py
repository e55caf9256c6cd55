"""Any interleaving of several collectors, with skewed clocks, lost answers and kills.

Never two at work at once.
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.run import RunOptions
from tests.support.lease_world import FAULTS, LONGEST_REQUEST, Command, World
from tests.support.written_run import written_run

TTL = int(RunOptions().lease_ttl.total_seconds())
SKEW = int(MAX_CLOCK_SKEW.total_seconds())
REQUEST = int(LONGEST_REQUEST.total_seconds()) + 30

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
        lingers=st.sampled_from([0, 0, 40, TTL]),
    ),
    min_size=2,
    max_size=4,
)
LATER = st.sampled_from(
    [
        *[0] * 4,
        1,
        REQUEST - 1,
        REQUEST + 1,
        TTL // 3,
        TTL - 1,
        TTL,
        TTL + 1,
        TTL + SKEW - 1,
        TTL + SKEW,
        TTL + 2 * SKEW,
    ]
)
FATE = st.sampled_from([*[None] * 6, *FAULTS])
WHO = st.integers(0, 3)


def _on(number, calls, *, after=0):
    """A command goes on by some calls, the first of them some seconds later."""
    return [(number, after, None)] + [(number, 0, None)] * (calls - 1)


def _killed_and_started_again(number, calls, later):
    """Three calls come to the look at the lease of the killed process."""
    again = _on(number, 3) + _on(number, calls, after=later)
    return [*_on(number, 5), (number, 0, "killed before"), *again]


# Who goes on, how many seconds later, and what becomes of the call.
STEPS = st.lists(
    st.one_of(
        st.tuples(WHO, LATER, FATE).map(lambda step: [step]),
        st.builds(_on, WHO, st.integers(2, 12), after=LATER),
        st.builds(
            _killed_and_started_again, WHO, st.integers(3, 12), st.sampled_from([40, 130, REQUEST])
        ),
    ),
    max_size=25,
).map(lambda parts: [step for part in parts for step in part])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return written_run(tmp_path_factory.mktemp("lease"), spark=None).run


def _play(run, commands, steps):
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = Path(run.store.options.local_path) / "machines"
        folder.mkdir(exist_ok=True)
        world = World(run, commands, monkeypatch, folder)
        try:
            for number, seconds, fault in steps:
                world.now += timedelta(seconds=seconds)
                world.require_one_collector()
                world.step(number % len(commands), fault)
                world.require_one_collector()
        finally:
            world.end()
    return world


@pytest.mark.slow
@given(commands=COMMANDS, steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_two_collectors_are_never_at_work_at_once(run, commands, steps):
    _play(run, commands, steps)


@pytest.mark.deep
@given(commands=COMMANDS, steps=STEPS)
@settings(max_examples=5_000, deadline=None)
def test_two_collectors_are_never_at_work_at_once_in_thousands_of_schedules(run, commands, steps):
    _play(run, commands, steps)


SWEEP = Command(run=0, work="sweep", host=0, skew=0, take_over=None, beats=4, clean=True)
ONCE = replace(SWEEP, beats=0)
BEHIND, AHEAD = (
    replace(SWEEP, skew=-SKEW // 2),
    replace(SWEEP, run=1, host=1, skew=SKEW // 2, take_over=0),
)
KILL = (0, 0, "killed before")


# A schedule for each guard, in which it is the only one that stands between two collectors.
GUARDED = {
    "the taker's clock is ahead of the holder's": ([BEHIND, AHEAD], _on(0, 5) + _on(1, 9, after=1)),
    "a late heartbeat comes between the taker's look and its word": (
        [BEHIND, AHEAD],
        _on(0, 4) + _on(1, 3, after=TTL) + _on(0, 3) + _on(1, 4),
    ),
    "two begin at the same moment": (
        [SWEEP, AHEAD],
        _on(0, 2) + _on(1, 2) + _on(0, 1) + _on(1, 1) + _on(0, 2) + _on(1, 2),
    ),
    "a slow taker writes into the gap that pruning left": (
        [ONCE, AHEAD],
        _on(0, 6) + _on(1, 3) + _on(0, 7 + 8 + 8 + 5) + _on(1, 3),
    ),
    "the same command is given twice": ([SWEEP, SWEEP], _on(0, 4) + _on(1, 9)),
    "the same command is given again while what the killed one sent is under way": (
        [SWEEP],
        [*_on(0, 4), KILL, *_on(0, 8)],
    ),
    "a task of the killed one is still at work": (
        [replace(SWEEP, lingers=REQUEST + 10)],
        [*_on(0, 4), KILL, *_on(0, 3), *_on(0, 9, after=REQUEST)],
    ),
    "Spark begins a task for the killed one after the same command has gone on": (
        [replace(SWEEP, lingers=40)],
        [*_on(0, 4), KILL, *_on(0, 3, after=50), *_on(0, 9, after=REQUEST)],
    ),
    "another run on the same machine takes the killed one over by name": (
        [SWEEP, replace(AHEAD, host=0, skew=0)],
        [*_on(0, 4), KILL, *_on(1, 3), *_on(1, 9, after=REQUEST)],
    ),
    "another run follows the one that went on sooner": (
        [SWEEP, replace(AHEAD, skew=0)],
        [*_on(0, 5), KILL, *_on(0, 3), *_on(0, 99, after=REQUEST), *_on(1, 9)],
    ),
    "another run follows one that failed while what it sent is under way": (
        [replace(ONCE, clean=False), AHEAD],
        _on(0, 6) + _on(1, 7),
    ),
}


@pytest.mark.parametrize("name", GUARDED)
def test_two_collectors_are_kept_apart_when(run, name):
    world = _play(run, *GUARDED[name])
    assert any(process.lease for process in world.processes)


def test_the_schedules_end_with_a_collector_at_work(run):
    """What is refused at first is allowed in the end: by name, or to the same command."""
    killed = [*_on(0, 6), KILL]
    world = _play(
        run, [SWEEP, replace(AHEAD, skew=0)], killed + _on(1, 4) + _on(1, 9, after=TTL + SKEW)
    )
    assert [process.lease and process.lease.epoch for process in world.processes] == [1, None, 2]
    world = _play(run, [SWEEP], killed + _on(0, 6, after=TTL + SKEW))
    assert [process.lease.epoch for process in world.processes] == [1, 2]


def test_the_same_command_on_its_machine_goes_on_sooner_than_everybody_else(run):
    killed = [*_on(0, 6), KILL]
    sooner = killed + _on(0, 3) + _on(0, 6, after=REQUEST)
    elsewhere = replace(SWEEP, host=1)
    on_another = killed + _on(1, 3) + _on(1, 3, after=REQUEST)
    for commands, steps, epochs in (
        ([SWEEP], sooner, [1, None, 2]),
        ([SWEEP, elsewhere], on_another, [1, None, None]),
    ):
        world = _play(run, commands, steps)
        assert [process.lease and process.lease.epoch for process in world.processes] == epochs
