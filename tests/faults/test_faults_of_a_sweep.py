"""When any call of a sweep fails in any way, no live object is lost, the report is true, and
running again finishes.
"""

import pytest

from tests.support.fault_world import MARKED, points, rotated, sweep_command, try_all

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2 * 3_600)]

# Points of the slow tests, in which all calls and all kinds of fault occur in turn. The default
# tests kill a smaller sweep before and after each of its changes (sweep/test_sweep_killed.py).
FEW = 3


@pytest.mark.slow
@pytest.mark.parametrize("few", [1, FEW])
def test_a_sweep_that_fails_at_some_call_loses_nothing_and_is_finished_by_another(
    world, record_property, few
):
    chosen = rotated(world.sweep_calls, few, first=len(points(world.sweep_calls)) // 2)
    assert try_all(world, MARKED, sweep_command, chosen, record_property).points.total() > few // 2


@pytest.mark.deep
def test_a_sweep_that_fails_at_any_call_loses_nothing_and_is_finished_by_another(
    world, record_property
):
    try_all(world, MARKED, sweep_command, points(world.sweep_calls), record_property)
