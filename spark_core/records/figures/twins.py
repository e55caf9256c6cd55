"""The figures of the search for hidden entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_core.records.figures.base import LEFT_OUT, Figures


@dataclass(frozen=True, kw_only=True)
class TwinFigures(Figures):
    """What the search for hidden entries did and found.

    Attributes:
        candidates: Objects that nothing seems to reach.
        branches: Branches.
        branches_asked: Branches that were asked.
        branches_listed: Branches whose entries were all seen.
        without_bound: Branches on which anything may hide, by why.
        paths: Paths that may have a hidden entry.
        calls: Calls to branches.
        objects_asked: Objects that the store was asked about.
        planned_calls: Calls and questions that would have sufficed.
        twin_calls: Calls and questions that were allowed.
        is_late: Whether the time for asking was over before; None if not.
        is_held_up: Whether paths that are no UTF-8 held up a listing.
        are_sizes_said: Whether some entry gives another size than the store; None: not compared.
        kept_objects: Objects that a branch reads from.
        kept_bytes: Their bytes.
        kept_named: Some of their addresses.
        unchecked_objects: Objects for which the calls did not suffice.
        unchecked_bytes: Their bytes.
        unchecked_named: Some of their addresses.
    """

    candidates: int = 0
    branches: int = 0
    branches_asked: int = 0
    branches_listed: int = 0
    without_bound: Mapping[str, int] = field(default_factory=dict)
    paths: int = 0
    calls: int = 0
    objects_asked: int = 0
    planned_calls: int = 0
    twin_calls: int = 0
    is_held_up: bool = False
    is_late: bool | None = field(default=None, metadata=LEFT_OUT)
    are_sizes_said: bool | None = field(default=None, metadata=LEFT_OUT)
    kept_objects: int = 0
    kept_bytes: int = 0
    kept_named: tuple[str, ...] = ()
    unchecked_objects: int = 0
    unchecked_bytes: int = 0
    unchecked_named: tuple[str, ...] = ()
