"""Which objects and runs of a search the model is not asked about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.model import replay, run
from tests.support.policy_machine import PolicyMachine

KEY = datetime(2026, 11, 20, 2, tzinfo=UTC)


def _machine() -> Any:
    machine: Any = PolicyMachine()
    machine.repository = SimpleNamespace(
        may_compact=False, is_older_than_itself=lambda address: address == "inherited"
    )
    machine.by_policy = {KEY: {"named"}}
    return machine


def test_of_a_history_with_policies_all_objects_are_replayed_but_those_that_a_policy_lets_go():
    names, machine = ("named", "garbage", "inherited", "staged"), _machine()
    told = [machine._outside_the_model(KEY, name) for name in names]
    assert told == ["let go by a policy", None, "older than their repository", None]
    # A mark that refused to go on has no plan.
    assert machine._outside_the_model(KEY - timedelta(days=1), "named") is None
    assert PolicyMachine.is_replayed


@pytest.mark.skipif(bool(run.why_not()), reason=run.why_not())
def test_what_a_policy_lets_go_is_no_history_of_the_model():
    mark = "CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) DIFF_1( ) REFS( ) VERDICT( )"
    allowed, let_go = (tuple(f"old =r {mark} {what}".split()) for what in ("unplanned", "planned"))
    assert replay.refused([allowed, let_go]) == [let_go]
