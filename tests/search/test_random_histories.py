"""After any history, a collection leaves every reachable, staged or young object as it was, and
every other one gone.

The oracle knows nothing of the engine: it asks the server what refs show, and
walks the history in plain Python sets.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.history_actions import Enough, Tally
from tests.support.history_machine import WAYS_BACK, HistoryMachine, Step, play
from tests.support.search_oracle import Options

pytestmark = pytest.mark.spark

# Whole runs, a mark and a sweep each: as many are at least played in the default tests, in the slow
# ones and in the deep ones.
FEW_RUNS, RUNS, DEEP_RUNS = 3, 8, 500
# A history costs its collections: what a longer one adds is cheap.
STEPS = 40


def machine(sandbox, spark, tally: Tally) -> type[HistoryMachine]:
    """Make the class of the histories on one sandbox."""
    return type(
        "Histories", (HistoryMachine,), {"sandbox": sandbox, "spark": spark, "tally": tally}
    )


def search(
    histories: type[HistoryMachine], *, examples: int, shrink: bool, steps: int = STEPS
) -> None:
    """Play a number of histories of at most so many steps."""
    phases = (Phase.reuse, Phase.generate, *([Phase.shrink] if shrink else []))
    run_state_machine_as_test(
        histories,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            phases=phases,
            deadline=None,
            print_blob=True,
            # Otherwise it searches another thousand histories.
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def search_until(
    sandbox, spark, runs: int, tally: Tally, *, shrink: bool, record_property
) -> Tally:
    """Play histories up to a number of whole runs, and report what was tried."""
    began = time.monotonic()
    histories = machine(sandbox, spark, tally)
    tally.wanted = runs
    with suppress(Enough):
        while True:
            # Most of the first examples of a search are trivial ones, so one search is better than
            # many.
            search(histories, examples=max(50, runs), shrink=shrink)
    tally.wanted = None
    record_property("figures", f"random histories: {tally} in {time.monotonic() - began:.0f} s")
    return tally


def _unreachable(count: int) -> list[Step]:
    """Make objects in commits of ten days ago that no branch leads to any more, old enough in a
    day.
    """
    return [
        step
        for number in range(count)
        for step in (
            ("branch", {"name": "b1", "source": 0, "hidden": False}),
            ("upload_and_commit", {"branch": 0, "paths": [0], "data": number, "date": (10, -3601)}),
            ("drop_branch", {"number": 0}),
        )
    ]


# Histories that once showed a fault, of the product or of the search itself, or that must never
# again be missed; with a word about each. Hypothesis prints a failing history as such calls.
LONG = "each way back between a mark and its sweep"
PAST: dict[str, list[Step]] = {
    "what is exactly as old as the cutoff stays, and goes a second later": [
        ("upload", {"branch": 0, "paths": [0], "data": 1}),
        ("reset", {"branch": 0, "path": None}),
        ("step_the_clock", {"step": "86700 s"}),
    ],
    # The server shows it under the blockstore's path three times then; the mark called that form
    # unknown and ended.
    "an address staged as it is shown ends no mark": [
        ("upload", {"branch": 0, "paths": [0], "data": 1}),
        ("reset", {"branch": 0, "path": None}),
        (
            "stage_an_old_address",
            {"branch": 0, "path": 3, "number": 0, "spelling": "as shown", "said": 0},
        ),
        ("step_the_clock", {"step": "259200 s"}),
    ],
    # No scan, no diff and no branch shows it, and the next commit may bring it back.
    "what was compacted below a newer entry stays": [
        ("compact", {"branch": 0, "path": 3, "data": 1, "staged": 2}),
        ("upload", {"branch": 1, "paths": [0], "data": 1}),
        ("reset", {"branch": 1, "path": None}),
    ],
    # Other rules keep everything, so they come last and alone.
    LONG: [
        step
        for ways in (WAYS_BACK[:-1], WAYS_BACK[-1:])
        for step in (
            *_unreachable(len(ways) + 1),
            ("step_the_clock", {"step": "a day, 5 min and 1 us"}),
            ("revive_before_the_sweep", {"options": Options(), "ways": ways, "number": 0}),
        )
    ],
}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "word",
    [pytest.param(word, marks=[pytest.mark.deep] if word == LONG else []) for word in PAST],
)
def test_a_history_of_the_past_loses_nothing(word, shared_sandbox, spark):
    play(machine(shared_sandbox, spark, Tally()), PAST[word])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("runs", [FEW_RUNS, pytest.param(RUNS, marks=pytest.mark.slow)])
def test_random_histories_lose_nothing_alive_and_nothing_dead_stays(
    shared_sandbox, spark, record_property, runs
):
    tally = search_until(
        shared_sandbox, spark, runs, Tally(), shrink=False, record_property=record_property
    )
    assert tally.deleted > 0


@pytest.mark.deep
@pytest.mark.timeout(4 * 3600)
def test_many_random_histories_lose_nothing_alive_and_nothing_dead_stays(
    shared_sandbox, spark, record_property
):
    runs = int(os.environ.get("LAKEGC_SEARCH_RUNS") or DEEP_RUNS)
    tally = search_until(
        shared_sandbox, spark, runs, Tally(), shrink=True, record_property=record_property
    )
    assert tally.deleted > 0
    actions = {rule.function.__name__ for rule in HistoryMachine.setup_state().rules}
    assert not actions - set(tally.did), "some action never went through"
