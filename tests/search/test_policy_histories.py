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


@pytest.mark.timeout(1200)
def test_random_histories_lose_nothing_that_no_rule_names(shared_sandbox, spark, record_property):
    search(shared_sandbox, spark, HISTORIES, shrink=False, record_property=record_property, **SHORT)


@pytest.mark.deep
@pytest.mark.timeout(6 * 3600)
def test_many_random_histories_lose_nothing_that_no_rule_names(
    shared_sandbox, spark, record_property
):
    histories = int(os.environ.get("LAKEGC_SEARCH_HISTORIES") or DEEP_HISTORIES)
    tally = search(shared_sandbox, spark, histories, shrink=True, record_property=record_property)
    assert tally.counts["objects taken by a policy"] > 0
