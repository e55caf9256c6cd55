"""The fate of each object of a run: one count, which every report, list and metric shows."""

from __future__ import annotations

from collections.abc import Iterable

from spark_core.fates import Fate
from spark_core.records.figures import ExpiredFigures

MAY_GO = "may go"
COMMITTED = Fate.COMMITTED.sentence
STAGED = Fate.STAGED.sentence
HELD = Fate.HELD.sentence
YOUNG = Fate.YOUNG.sentence
PROTECTED = Fate.UNSAFE_NAME.sentence
TWIN = Fate.READ_BY_BRANCH.sentence
UNCHECKED = Fate.MAY_HIDE.sentence
LEFT_TO_OTHERS = Fate.LEFT_TO_OTHERS.sentence
NOT_NAMED = Fate.NOT_NAMED.sentence
BY_BASE = "not read: decided by the run that this one began from"

# What an optimized run did not read has a fate that another run knows.
_BY_BASE = "by base"

WORDS = {**{fate.value: fate.sentence for fate in Fate}, _BY_BASE: BY_BASE}
"""Each fate in words for people."""

Amount = tuple[int, int]


def fates_of(expired: ExpiredFigures) -> dict[str, Amount]:
    """Return what becomes of every object of the namespace.

    Args:
        expired: Figures of table 5.

    Returns:
        Fate -> objects and bytes, by the keys of `WORDS`; without empty ones. They add up to what
        there is. Empty where an earlier lakegc did not note them.
    """
    found = dict(expired.by_fate or {})
    if expired.not_read is not None:
        found[_BY_BASE] = expired.not_read.objects, expired.not_read.bytes
    return {fate: amount for fate, amount in found.items() if amount[0]}


def total(amounts: Iterable[Amount]) -> Amount:
    """Add up objects and bytes."""
    objects = size_bytes = 0
    for more in amounts:
        objects, size_bytes = objects + more[0], size_bytes + more[1]
    return objects, size_bytes
