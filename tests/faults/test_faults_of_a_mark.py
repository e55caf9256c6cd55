"""Whichever call of a mark fails, and however: nothing is deleted, and running again finishes."""

import pytest

from tests.support.fault_world import FRESH, mark_command, points, try_all

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(2 * 3_600)]


def test_a_mark_that_fails_at_any_call_deletes_nothing_and_is_finished_by_another(world, record_property):
    tried = try_all(world, FRESH, mark_command, points(world.mark_calls), record_property)
    # Only lists that come empty may leave garbage.
    assert tried.later <= sum(call.what in {"list", "children"} for call in world.mark_calls)
