"""After any history, a collection leaves every reachable, staged or young object as it was, and every other one gone.

The oracle knows nothing of the engine: it asks the server what refs show, and
walks the history in plain Python sets.
"""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.history_machine import HistoryMachine, Step, Tally, play

pytestmark = pytest.mark.spark

# Whole runs, a mark and a sweep each: as many are at least played in the default tests, and in the deep ones.
RUNS, DEEP_RUNS = 25, 500
# A history costs its collections: what a longer one adds is cheap.
STEPS = 40


def machine(sandbox, spark, tally: Tally) -> type[HistoryMachine]:
    """Make the class of the histories on one sandbox."""
    return type("Histories", (HistoryMachine,), {"sandbox": sandbox, "spark": spark, "tally": tally})


def search(histories: type[HistoryMachine], *, examples: int, shrink: bool) -> None:
    """Play so many histories."""
    phases = (Phase.reuse, Phase.generate, *([Phase.shrink] if shrink else []))
    run_state_machine_as_test(
        histories,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            phases=phases,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def search_until(sandbox, spark, runs: int, *, shrink: bool, record_property) -> Tally:
    """Play histories until there were so many whole runs, and say what was tried."""
    tally, began = Tally(), time.monotonic()
    histories = machine(sandbox, spark, tally)
    while tally.runs < runs:
        # The first example of a search is always a trivial one, so few searches are better than many.
        search(histories, examples=max(2, -(-(runs - tally.runs) // 4)), shrink=shrink)
    record_property("figures", f"random histories: {tally} in {time.monotonic() - began:.0f} s")
    return tally


# Histories that once showed a fault, of the product or of the search itself, with a word about each.
PAST: dict[str, list[Step]] = {}


@pytest.mark.parametrize("word", PAST)
def test_a_history_that_once_failed_loses_nothing(word, shared_sandbox, spark):
    play(machine(shared_sandbox, spark, Tally()), PAST[word])


@pytest.mark.timeout(1200)
def test_random_histories_lose_nothing_alive_and_nothing_dead_stays(shared_sandbox, spark, record_property):
    tally = search_until(shared_sandbox, spark, RUNS, shrink=False, record_property=record_property)
    assert tally.deleted > 0


@pytest.mark.deep
@pytest.mark.timeout(4 * 3600)
def test_many_random_histories_lose_nothing_alive_and_nothing_dead_stays(shared_sandbox, spark, record_property):
    runs = int(os.environ.get("LAKEGC_SEARCH_RUNS") or DEEP_RUNS)
    tally = search_until(shared_sandbox, spark, runs, shrink=True, record_property=record_property)
    assert tally.deleted > 0
    actions = {rule.function.__name__ for rule in HistoryMachine.setup_state().rules}
    assert not actions - set(tally.did), "some action never went through"
