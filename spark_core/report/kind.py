"""What a mark read, and what it took from the index, from the manifests of its tables."""

from __future__ import annotations

from dataclasses import replace

from spark_core.records.figures import CommittedFigures, ListedFigures, TakenFigures
from spark_core.records.manifest import Manifest
from spark_core.report.values import Kind


def kind_of(slices: Manifest, committed: Manifest | None = None) -> Kind:
    """Say what a mark read, and what it was spared.

    Args:
        slices: Manifest of table 1.
        committed: Manifest of table 4; None leaves out what is known of ranges.
    """
    listed = ListedFigures.of(slices)
    kind = Kind(
        name="clean",
        started=slices.reading_began,
        last_slice=listed.last_slice or "",
        why_full=listed.why_full or "",
    )
    if listed.index is None:
        return kind
    taken = TakenFigures() if committed is None else CommittedFigures.of(committed).taken
    return replace(
        kind,
        name="optimized",
        index=listed.index.run,
        spared_slices=listed.index.slices,
        taken_objects=listed.index.objects,
        spared_ranges=taken.ranges + taken.expired_ranges,
    )
