"""After any history a run with the index finds what a clean one finds in the same state."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from tests.search.test_random_histories import STEPS, search
from tests.support.history_actions import Enough, Tally
from tests.support.optimized_machine import OptimizedMachine

pytestmark = pytest.mark.spark

# Whole histories: as many are at least played in the default, the slow and the deep tests.
FEW_HISTORIES, HISTORIES, DEEP_HISTORIES = 4, 20, 300
# Of short histories: little is there, one run begins a history, and one ends it.
STORY = ((50, "main", "a"), (40, "gone", "b"), (20, "main", "a"), (11, "dev", "dir/c"))
SHORT = {"is_short": True, "most_runs": 1, "story": STORY, "steps": 12}
# Of longer ones in the slow tests: the runs in the middle of a history; two more end it.
FEW_RUNS = 1


class Histories(Tally):
    """What was tried; `wanted` whole histories are enough."""

    @property
    def is_full(self) -> bool:
        """Whether enough was played."""
        return self.wanted is not None and self.histories >= self.wanted


def search_until(
    sandbox: Any,
    spark: Any,
    histories: int,
    *,
    record_property: Any,
    steps: int = STEPS,
    **more: Any,
) -> tuple[Counter[str], Tally]:
    """Play a number of histories, and report what was tried.

    Args:
        sandbox: Shared by all of them.
        spark: The session.
        histories: How many.
        record_property: Gets the figures.
        steps: Of a history, at most.
        **more: Attributes of the machine.

    Returns:
        How many marks took from the index, and why others were clean; and what was tried.
    """
    began, tally = time.monotonic(), Histories(wanted=histories)
    kinds, work = Counter[str](), Counter[str]()
    own = {"sandbox": sandbox, "spark": spark, "tally": tally, "kinds": kinds, "work": work}
    machine = type("Histories", (OptimizedMachine,), {**own, **more})
    with suppress(Enough):
        while True:
            search(machine, examples=max(50, histories), shrink=histories > HISTORIES, steps=steps)
    record_property(
        "figures",
        f"optimized histories: {tally}; {kinds['optimized']} marks with the index, each equal to a "
        f"clean one of the same state, and others: {dict(kinds)}; {dict(work)}; "
        f"in {time.monotonic() - began:.0f} s",
    )
    return kinds, tally


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "histories", [FEW_HISTORIES, pytest.param(HISTORIES, marks=pytest.mark.slow)]
)
def test_a_run_with_the_index_finds_what_a_clean_one_finds_after_what_happened_since(
    shared_sandbox: Any, spark: Any, record_property: Any, histories: int
) -> None:
    kinds, tally = search_until(
        shared_sandbox, spark, histories, record_property=record_property, **SHORT
    )
    assert kinds["optimized"] >= histories // 2
    assert tally.deleted > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_runs_with_the_index_find_what_clean_ones_find(
    shared_sandbox: Any, spark: Any, record_property: Any
) -> None:
    kinds, tally = search_until(
        shared_sandbox, spark, HISTORIES, record_property=record_property, most_runs=FEW_RUNS
    )
    assert kinds["optimized"] >= HISTORIES // 2
    assert tally.deleted > 0


@pytest.mark.deep
@pytest.mark.timeout(2 * 3_600)
def test_many_runs_with_the_index_find_what_clean_ones_find(
    shared_sandbox: Any, spark: Any, record_property: Any
) -> None:
    histories = int(os.environ.get("LAKEGC_SEARCH_HISTORIES") or DEEP_HISTORIES)
    kinds, tally = search_until(shared_sandbox, spark, histories, record_property=record_property)
    assert kinds["optimized"] > histories
    actions = {rule.function.__name__ for rule in OptimizedMachine.setup_state().rules}
    assert not actions - set(tally.did), "some action never went through"
