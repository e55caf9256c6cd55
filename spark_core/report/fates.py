"""The fate of each object of a run: one count, which every report, list and metric shows."""

from __future__ import annotations

from collections.abc import Iterable

from spark_core.addresses import candidates as rule
from spark_core.mark import fates
from spark_core.records.figures import ExpiredFigures, ListedFigures
from spark_core.report.values import KEPT_BY_SETTING

# What becomes of candidates, and of what an optimized run did not read.
EXPIRED = "expired"
_TWIN, _UNCHECKED, _BY_BASE = "twin", "not checked", "by base"
_LEFT_TO_OTHERS, _NOT_NAMED = "left to others", "not named"

MAY_GO = "may go"
COMMITTED = "a retained commit reaches it"
STAGED = "staged on a branch, not yet committed"
YOUNG = "unreachable, but younger than the cutoff"
PROTECTED = "has a name that is never collected"
HELD = "held by name"
TWIN = "identical content uploaded again: a branch reads from it"
UNCHECKED = "may be such a re-upload, and was not checked"
LEFT_TO_OTHERS = "unreachable, and left to a run that collects all"
BY_BASE = "not read: decided by the run that this one began from"
NOT_NAMED = "unreachable, but not named by the mark of the reference job"

WORDS = {
    EXPIRED: MAY_GO,
    fates.COMMITTED: COMMITTED,
    fates.STAGED: STAGED,
    fates.HELD: HELD,
    rule.PROTECTED: PROTECTED,
    rule.YOUNG: YOUNG,
    **KEPT_BY_SETTING,
    _TWIN: TWIN,
    _UNCHECKED: UNCHECKED,
    _LEFT_TO_OTHERS: LEFT_TO_OTHERS,
    _NOT_NAMED: NOT_NAMED,
    _BY_BASE: BY_BASE,
}
"""Each fate in words for people."""

Amount = tuple[int, int]


def fates_of(expired: ExpiredFigures, listed: ListedFigures | None) -> dict[str, Amount]:
    """Return what becomes of every object of the namespace.

    Args:
        expired: Figures of table 5.
        listed: Those of table 1; None leaves out what an optimized run did not read.

    Returns:
        Fate -> objects and bytes, by the keys of `WORDS`; without empty ones. They add up to what
        there is. Empty where an earlier lakegc did not note them.
    """
    if expired.fates is None:
        return {}
    found = dict(expired.fates)
    candidates, hidden = found.pop(rule.CANDIDATE, (0, 0)), expired.twins
    found[EXPIRED] = (expired.expired_objects, expired.expired_bytes)
    found[_TWIN] = (hidden.kept_objects, hidden.kept_bytes)
    found[_UNCHECKED] = (hidden.unchecked_objects, hidden.unchecked_bytes)
    rest = _less(candidates, (found[EXPIRED], found[_TWIN], found[_UNCHECKED]))
    found[_LEFT_TO_OTHERS if expired.collects == "policies" else _NOT_NAMED] = rest
    if listed is not None and listed.base is not None:
        found[_BY_BASE] = _less((listed.all_objects, listed.all_bytes), found.values())
    return {fate: amount for fate, amount in found.items() if amount[0]}


def total(amounts: Iterable[Amount]) -> Amount:
    """Add up objects and bytes."""
    objects = size_bytes = 0
    for more in amounts:
        objects, size_bytes = objects + more[0], size_bytes + more[1]
    return objects, size_bytes


def _less(all_of_them: Amount, others: Iterable[Amount]) -> Amount:
    objects, size_bytes = total(others)
    return max(0, all_of_them[0] - objects), max(0, all_of_them[1] - size_bytes)
