"""Which branches are asked, and around single paths or as a whole: what costs least."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow.compute as pc

from spark_core.references.twins.questions import Suspects

# Paths that are asked about together.
LOT = 50_000

# Entries of a page. If one in this many of a branch's entries is suspect, the branch is listed as a
# whole.
PAGE = 1_000
_DENSE = 4

# A search without a limit of its own may make so many calls at least, so many for each branch, and
# one for so many listed objects: a share of what the mark costs anyway.
LEAST_CALLS, CALLS_OF_A_BRANCH, OBJECTS_OF_A_CALL = 1_000, 10, 100


@dataclass(frozen=True)
class AskingPlan:
    """The chosen way of asking.

    Attributes:
        whole: Branches (by number) to list from their first entry to the last.
        calls: Largest cost of everything, in calls.
        of_paths: The part of it that a look at the candidates themselves may save.
        fits: Whether the calls suffice.
    """

    whole: Sequence[int]
    calls: int
    of_paths: int
    fits: bool


def cheapest(
    suspects: Suspects, entries: Sequence[int], *, dishonest: int, staged: int, left: int
) -> AskingPlan:
    """Choose for each branch between its paths and all its entries.

    If not everything fits the calls, branches are listed in their order, the oldest first.

    Candidates that may be dishonest may hide under any path of their branches. A path costs at most
    one call. A path that is no UTF-8 costs as many calls as listing all paths up to it that have
    the same beginning.

    Args:
        suspects: The paths that may hide a candidate.
        entries: Number of entries of each branch, at most.
        dishonest: Number of first branches on which a candidate that may be dishonest may hide.
            They are listed whole, whatever that costs.
        staged: Number of entries that are known to be staged. Pages show them, too, on whatever
            branches these are.
        left: Calls that may be made.
    """
    # A path concerns a number of first branches, so each branch also has the paths of all branches
    # behind it.
    reach = [suspects.reach.get(number, 0) for number in range(len(entries), 0, -1)]
    of_branch = list(accumulate(reach))[::-1]
    # Single paths do not do for a branch of which not all questions are held.
    whole = max(dishonest, pc.max(suspects.unheld["branches"]).as_py() or 0)
    if not whole and sum(of_branch) <= min(PAGE, left):
        return AskingPlan([], sum(of_branch), sum(of_branch), fits=True)
    pages = [count // PAGE + 1 for count in entries]
    dense = [
        number
        for number, count in enumerate(of_branch)
        if number < whole or 0 < entries[number] <= count * _DENSE
    ]
    # Each lot of paths begins its branch's listing anew.
    lots = max(1, -(-suspects.questions.num_rows // LOT))
    costs = [min(count, most + lots - 1) for count, most in zip(of_branch, pages, strict=True)]
    for number in dense:
        costs[number] = pages[number]
    is_paged = bool(dense) or sum(costs) < sum(of_branch)
    calls = sum(costs) + (staged // PAGE if is_paged else 0)
    of_paths = sum(costs[dishonest:])
    if calls <= left:
        return AskingPlan(dense, calls, of_paths, fits=True)
    first = min(left, suspects.for_all * len(entries))
    affordable = bisect_right(list(accumulate(pages[:dishonest])), left - first)
    return AskingPlan(list(range(affordable)), calls, of_paths, fits=False)


def calls_allowed(limit: int | None, branches: int, objects: int) -> int:
    """Return how many calls a search may make.

    Args:
        limit: A limit of its own; None for none.
        branches: Number of branches.
        objects: Number of listed objects.
    """
    if limit is not None:
        return limit
    return max(LEAST_CALLS, CALLS_OF_A_BRANCH * branches, objects // OBJECTS_OF_A_CALL)
