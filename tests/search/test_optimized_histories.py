"""After any history whose runs are optimized by turns, nothing alive is gone, and after the next
full run nothing dead is left.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress

import pytest

from tests.search.test_random_histories import search
from tests.support.history_actions import Enough, Tally
from tests.support.optimized_machine import OptimizedMachine

pytestmark = pytest.mark.spark

# Whole histories: as many are at least played in the default tests, and in the deep ones.
HISTORIES, DEEP_HISTORIES = 20, 300


class Histories(Tally):
    """What was tried; `wanted` whole histories are enough."""

    @property
    def is_full(self) -> bool:
        """Whether enough was played."""
        return self.wanted is not None and self.histories >= self.wanted


def search_until(
    sandbox, spark, histories: int, *, shrink: bool, record_property, most_runs: int = 6
) -> tuple[Counter[str], Tally]:
    """Play a number of histories, and report what was tried.

    Returns:
        How many marks were optimized, and why others were full; and what was tried.
    """
    began, tally, missed = time.monotonic(), Histories(wanted=histories), [0]
    kinds, work, back = Counter[str](), Counter[str](), Counter[str]()
    left: list[str] = []
    machine = type(
        "Histories",
        (OptimizedMachine,),
        {
            "sandbox": sandbox,
            "spark": spark,
            "tally": tally,
            "kinds": kinds,
            "missed": missed,
            "left": left,
            "work": work,
            "back": back,
            "most_runs": most_runs,
        },
    )
    with suppress(Enough):
        while True:
            search(machine, examples=max(50, histories), shrink=shrink)
    record_property(
        "figures",
        f"optimized histories: {tally}; {kinds['optimized']} optimized marks, "
        f"{kinds.total() - kinds['optimized']} full ones; {missed[0]} dead objects were left to "
        f"the next full run {left}; of objects brought back {dict(back)}; {dict(work)}; "
        f"in {time.monotonic() - began:.0f} s",
    )
    return kinds, tally


def test_optimized_runs_lose_nothing_alive(shared_sandbox, spark, record_property):
    kinds, _ = search_until(
        shared_sandbox,
        spark,
        HISTORIES,
        shrink=False,
        record_property=record_property,
        most_runs=3,
    )
    assert kinds["optimized"] >= HISTORIES // 4


@pytest.mark.deep
@pytest.mark.timeout(2 * 3_600)
def test_many_optimized_runs_lose_nothing_alive(shared_sandbox, spark, record_property):
    histories = int(os.environ.get("LAKEGC_SEARCH_HISTORIES") or DEEP_HISTORIES)
    kinds, tally = search_until(
        shared_sandbox, spark, histories, shrink=True, record_property=record_property
    )
    assert kinds["optimized"] > histories
    assert tally.did["bring_back"]
    assert tally.did["purge"]
