"""Whichever call of a run fails, and however: nothing alive is lost, the report is true, and running again finishes."""

import time

import pytest

from tests.support.fault_world import FRESH, MARKED, Tried, mark_command, points, rotated, sweep_command

pytestmark = [pytest.mark.spark, pytest.mark.timeout(4 * 3_600)]

# Points of the default tests, in which all calls and all kinds take their turns.
FEW = 5


def _try_all(world, stage, command, chosen, record_property):
    tried, began = Tried(), time.monotonic()
    for at, kind in chosen:
        world.try_point(stage, command, at, kind, tried)
    record_property("figures", f"faults at calls of a {command.__name__}: {tried}, in {time.monotonic() - began:.0f} s")
    assert not tried.losses, "\n".join(tried.losses[:20])
    return tried


def test_a_sweep_that_fails_at_some_call_loses_nothing_and_is_finished_by_another(world, record_property):
    chosen = rotated(world.sweep_calls, FEW)
    assert _try_all(world, MARKED, sweep_command, chosen, record_property).points.total() > FEW // 2


@pytest.mark.deep
def test_a_sweep_that_fails_at_any_call_loses_nothing_and_is_finished_by_another(world, record_property):
    _try_all(world, MARKED, sweep_command, points(world.sweep_calls), record_property)


@pytest.mark.deep
def test_a_mark_that_fails_at_any_call_deletes_nothing_and_is_finished_by_another(world, record_property):
    tried = _try_all(world, FRESH, mark_command, points(world.mark_calls), record_property)
    # Only lists that come empty may leave garbage.
    assert tried.later <= sum(call.what in {"list", "children"} for call in world.mark_calls)
