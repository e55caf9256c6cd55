"""The fate of each object of a run, added up: the one count that every report and metric shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from spark_core.fates import Fate
from spark_core.records.figures import ExpiredFigures

# What the index had, and the store has not any more: a row beside the fates.
VANISHED = "vanished"

WORDS: Mapping[str, str] = {
    **{fate.value: fate.sentence for fate in Fate},
    VANISHED: "in the index, and not in the store any more",
}
"""Each fate in words for people."""

Amount = tuple[int, int]


def fates_of(expired: ExpiredFigures) -> dict[str, Amount]:
    """Return what becomes of every object of the namespace.

    Args:
        expired: Figures of table 5.

    Returns:
        Fate -> objects and bytes, by the keys of `WORDS`; without empty ones. They add up to what
        there is.
    """
    found = dict(expired.by_fate)
    if expired.vanished is not None:
        found[VANISHED] = (expired.vanished.objects, expired.vanished.bytes)
    return {fate: amount for fate, amount in found.items() if amount[0]}


def may_go(fates: Mapping[str, Amount]) -> Amount:
    """Return the objects and bytes of the fates under which an object may be deleted."""
    return total(fates.get(fate, (0, 0)) for fate in Fate if fate.may_go)


def total(amounts: Iterable[Amount]) -> Amount:
    """Add up objects and bytes."""
    objects = size_bytes = 0
    for more in amounts:
        objects, size_bytes = objects + more[0], size_bytes + more[1]
    return objects, size_bytes


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: instants as text, and objects and bytes by name.

    Examples:
        >>> as_json({"waiting": (2, 300)})
        {'waiting': {'objects': 2, 'size_bytes': 300}}
    """
    match value:
        case datetime():
            return value.isoformat()
        case Mapping():
            return {name: as_json(one) for name, one in value.items()}
        case (int() as objects, int() as size_bytes):
            return {"objects": objects, "size_bytes": size_bytes}
    return value
