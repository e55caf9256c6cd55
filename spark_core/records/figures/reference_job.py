"""The figures of marks of lakeFS's own job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_core.records.figures.base import Figures


@dataclass(frozen=True, kw_only=True)
class ReferenceFigures(Figures):
    """The mark of lakeFS's own job that a run stayed within.

    Attributes:
        mark_id: Its id.
        cutoff_time: Its cutoff.
        num_deleted_objects: Addresses that it names.
        parts: Hex sha256 of its files, by key.
        eligible_objects: Objects that lakegc's own mark would let go.
        eligible_bytes: Their bytes.
    """

    mark_id: str
    cutoff_time: str = ""
    num_deleted_objects: int
    parts: Mapping[str, str]
    eligible_objects: int
    eligible_bytes: int


@dataclass(frozen=True, kw_only=True)
class VerifiedFigures(Figures):
    """Figures of `reference_addresses`.

    Attributes:
        mark_id: The mark whose addresses it has.
    """

    mark_id: str
