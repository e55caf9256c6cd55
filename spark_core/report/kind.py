"""What a mark read, from the manifests of its tables: everything, or what changed since another."""

from __future__ import annotations

from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.records.manifest import Manifest
from spark_core.report.values import Kind


def kind_of(slices: Manifest, committed: Manifest | None = None) -> Kind:
    """Say what a mark read, and what it was spared.

    Args:
        slices: Manifest of table 1.
        committed: Manifest of table 4; None leaves out what is known of ranges.
    """
    listed = ListedFigures.of(slices)
    base = listed.base
    change = None if committed is None else CommittedFigures.of(committed).change
    return Kind(
        name="full" if base is None else "optimized",
        started=slices.reading_began,
        last_slice=listed.last_slice or "",
        why_full=listed.why_full or "",
        base="" if base is None else base.run,
        spared_slices=0 if base is None else base.spared_slices,
        spared_ranges=0 if change is None else change.unread_ranges,
    )
