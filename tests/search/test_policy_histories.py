"""After any history with retention policies: what a sweep took, either nothing reached, or a rule
of a confirmed document names it under every name that it has.

The oracle knows on which branch each commit was made, and nothing of the engine.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.history_actions import Enough
from tests.support.policy_machine import PolicyMachine, PolicyTally

pytestmark = pytest.mark.spark

HISTORIES, DEEP_HISTORIES = 1, 200
# Tests of the deep run that share its histories; half of them stand in another file, since a worker
# plays all of a file.
PARTS = 4
STEPS = 30
# Of the default tests: the machine's two runs at most, and the one that ends a history.
SHORT = {"is_short": True, "most_runs": 2}


def search(sandbox, spark, histories: int, *, shrink: bool, record_property, **how) -> PolicyTally:
    """Play a number of histories, and report what was tried; `how` changes the machine."""
    began = time.monotonic()
    tally = PolicyTally(wanted=0, wanted_histories=histories)
    machine = type(
        "Histories", (PolicyMachine,), {"sandbox": sandbox, "spark": spark, "tally": tally, **how}
    )
    phases = (Phase.reuse, Phase.generate, *([Phase.shrink] if shrink else []))
    with suppress(Enough):
        while True:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=max(50, histories),
                    stateful_step_count=STEPS,
                    phases=phases,
                    deadline=None,
                    print_blob=True,
                    report_multiple_bugs=False,
                    suppress_health_check=list(HealthCheck),
                ),
            )
    tally.wanted = None
    took = time.monotonic() - began
    record_property("figures", f"histories with policies: {tally} in {took:.0f} s")
    return tally


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_random_histories_lose_nothing_that_no_rule_names(shared_sandbox, spark, record_property):
    search(shared_sandbox, spark, HISTORIES, shrink=False, record_property=record_property, **SHORT)


def search_deeply(sandbox, spark, record_property) -> PolicyTally:
    """Play the histories of a part of the deep run: each part is a test of less than an hour."""
    histories = int(os.environ.get("LAKEGC_SEARCH_HISTORIES") or DEEP_HISTORIES)
    tally = search(
        sandbox, spark, -(-histories // PARTS), shrink=True, record_property=record_property
    )
    counts = tally.counts
    assert counts["objects taken by a policy"] > tally.histories
    # A search in which rules take next to nothing of what is staged would show nothing, and so of
    # what no branch shows any more.
    assert counts["staged objects taken by a policy"] > tally.histories // 8
    assert counts["noncurrent objects named"] > tally.histories // 8
    return tally


@pytest.mark.deep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(PARTS // 2))
def test_many_random_histories_lose_nothing_that_no_rule_names(
    shared_sandbox, spark, record_property, part
):
    search_deeply(shared_sandbox, spark, record_property)
