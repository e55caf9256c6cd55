"""Save what the optimized run after a mark takes over from it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.optimized import base
from spark_core.optimized.saved import Saved, packed
from spark_core.records import tables
from spark_core.records.figures import CommittedFigures, ExpiredFigures, ListedFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.run import Run


def save(
    run: Run,
    mark: Sequence[StoredTable],
    figures: ExpiredFigures,
    *,
    expired: Sequence[Part],
    fates: Sequence[Part],
) -> str | None:
    """Store what a mark saves; it is stored before the table whose manifest names it.

    Args:
        run: The run.
        mark: Tables 1 to 4.
        figures: Figures of table 5.
        expired: Files of table 5.
        fates: Files of the table `fates`.

    Returns:
        Digest of the document; None if no run may begin from this one.
    """
    slices, staged, commits, committed = mark
    listed = ListedFigures.of(slices.manifest)
    read = CommittedFigures.of(committed.manifest)
    if listed.open_slices is None or read.ranges_manifest is None:
        return None
    found = [run.load(tables.RETAINED_RANGES), commits, staged]
    if figures.missing_manifest is not None:
        found.append(run.load(tables.MISSING_ADDRESSES))
    manifests, files = packed(run.store, found, (*fates, *expired))
    begun_from = base.of(run)
    saved = Saved(
        repository=run.repository.id,
        instance=run.instance,
        run=str(run.key),
        started=slices.manifest.reading_began,
        last_slice=listed.last_slice or "",
        open_slices=tuple(sorted({*listed.open_slices, *_open_elsewhere(run, read)})),
        base="" if begun_from is None else str(begun_from.key),
        full=str(run.key) if begun_from is None else begun_from.saved.full,
        optimized_since=()
        if begun_from is None
        else (*begun_from.saved.optimized_since, str(run.key)),
        options=run.deciding_options,
        tables={table.manifest.table: table.manifest.sha256 for table in found},
        objects=listed.all_objects,
        bytes=listed.all_bytes,
        live_objects=figures.live_objects,
        are_sizes_said=figures.other_sizes > 0
        or figures.twins.are_sizes_said is True
        or (begun_from is not None and begun_from.saved.are_sizes_said),
        checksums_agree=figures.checksums_agree is True,
        blocked_by=listed.blocked_by or (),
        expired=tuple(expired),
        fates=tuple(fates),
        manifests=manifests,
        files=files,
    )
    run.store.put(lakegc_keys.saved_key(run.key), saved.to_json())
    return saved.digest


def _open_elsewhere(run: Run, read: CommittedFigures) -> set[str]:
    """Return the slices of objects that were looked up and are too young."""
    if read.change is None or read.change.looked_up_manifest is None:
        return set()
    found: set[str] = set()
    for batch in run.load(tables.LOOKED_UP_OBJECTS).batches(["slice", "standing"]):
        young = batch.filter(pc.is_in(batch.column("standing"), base.WAITING))
        found.update(young.column("slice").to_pylist())
    return found
