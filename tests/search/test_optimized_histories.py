"""After any history whose runs are optimized by turns, nothing alive is gone, and after the next
full run nothing dead is left.
"""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.search.test_random_histories import search
from tests.support.history_actions import Tally
from tests.support.optimized_machine import OptimizedMachine

pytestmark = pytest.mark.spark

# Whole histories: as many are at least played in the default tests, and in the deep ones.
HISTORIES, DEEP_HISTORIES = 20, 300


def search_until(sandbox, spark, histories: int, *, shrink: bool, record_property) -> Counter[str]:
    """Play a number of histories, and report what was tried."""
    began, tally, missed = time.monotonic(), Tally(), [0]
    kinds, work = Counter[str](), Counter[str]()
    machine = type(
        "Histories",
        (OptimizedMachine,),
        {
            "sandbox": sandbox,
            "spark": spark,
            "tally": tally,
            "kinds": kinds,
            "missed": missed,
            "work": work,
        },
    )
    while tally.histories < histories:
        search(machine, examples=max(10, histories), shrink=shrink)
    record_property(
        "figures",
        f"optimized histories: {tally}; {kinds['optimized']} optimized marks, "
        f"{kinds.total() - kinds['optimized']} full ones; {missed[0]} dead objects were left to "
        f"the next full run; {dict(work)}; in {time.monotonic() - began:.0f} s",
    )
    return kinds


def test_optimized_runs_lose_nothing_alive(shared_sandbox, spark, record_property):
    kinds = search_until(
        shared_sandbox, spark, HISTORIES, shrink=False, record_property=record_property
    )
    assert kinds["optimized"] > HISTORIES // 2


@pytest.mark.deep
@pytest.mark.timeout(2 * 3_600)
def test_many_optimized_runs_lose_nothing_alive(shared_sandbox, spark, record_property):
    kinds = search_until(
        shared_sandbox, spark, DEEP_HISTORIES, shrink=True, record_property=record_property
    )
    assert kinds["optimized"] > DEEP_HISTORIES
