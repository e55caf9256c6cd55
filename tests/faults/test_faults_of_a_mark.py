"""When any call of a mark fails in any way, nothing is deleted, and running again finishes."""

import pytest

from tests.support.fault_world import FRESH, mark_command, points, try_all

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(2 * 3_600)]


# In two halves, so that each can be run by itself in less than an hour.
@pytest.mark.parametrize("first", [0, 1], ids=["first_half", "second_half"])
def test_a_mark_that_fails_at_any_call_deletes_nothing_and_is_finished_by_another(
    world, record_property, first
):
    chosen = points(world.mark_calls)[first::2]
    tried = try_all(world, FRESH, mark_command, chosen, record_property)
    # Only an empty answer to a list may leave garbage.
    numbers = {number for number, _ in chosen}
    assert tried.later <= sum(
        call.what in {"list", "children"} and call.number in numbers for call in world.mark_calls
    )
