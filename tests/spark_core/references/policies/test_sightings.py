"""What stored runs tell of a branch."""

from datetime import UTC, datetime, timedelta

import pytest

from spark_core.model import Branch
from spark_core.references.policies.sightings import BranchSightings, Sighting, sightings_of_branch

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ABSENT, UNREAD = "-", "?"


def at(number):
    return BEGAN + timedelta(days=number)


def told(*heads):
    """What runs on the days 0, 1, ... tell of a branch that stands on `c` now."""
    runs = [
        Sighting(at(day), None if head == UNREAD else {} if head == ABSENT else {"dev": head})
        for day, head in enumerate(heads)
    ]
    return sightings_of_branch(Branch("dev", "c"), runs)


@pytest.mark.parametrize(
    ("heads", "found"),
    [
        ([], BranchSightings()),
        (["c"], BranchSightings()),
        (["c", "c"], BranchSightings()),
        (["-"], BranchSightings(is_new=True)),
        (["-", "c"], BranchSightings(made=at(1))),
        (["-", "-", "c", "c"], BranchSightings(made=at(2))),
        # Made again: the earlier branch of that name does not count.
        (["-", "c", "-", "c"], BranchSightings(made=at(3))),
        (["c", "-"], BranchSightings(is_new=True)),
        # Moved.
        (["b", "c"], BranchSightings(elsewhere=at(0), arrived=at(1))),
        (["b", "c", "c"], BranchSightings(elsewhere=at(0), arrived=at(1))),
        (["c", "b"], BranchSightings(elsewhere=at(1))),
        (["c", "b", "c"], BranchSightings(elsewhere=at(1), arrived=at(2))),
        (["-", "b", "b", "c"], BranchSightings(made=at(1), elsewhere=at(2), arrived=at(3))),
        (["b", "c", "-", "c"], BranchSightings(made=at(3))),
        # A run that cannot be read may have seen anything.
        (["-", "?", "c"], BranchSightings()),
        (["-", "c", "?", "c"], BranchSightings()),
        (["b", "c", "?"], BranchSightings()),
        (["?", "-", "c"], BranchSightings(made=at(2))),
    ],
)
def test_stored_runs_tell_when_a_branch_was_made_and_moved(heads, found):
    assert told(*heads) == found
