"""Save what the next run may take from: the document that names the files of the index."""

from __future__ import annotations

from collections.abc import Sequence

from spark_core import lakegc_keys
from spark_core.errors import ChainError
from spark_core.index import choosing, merging
from spark_core.index.choosing import MARK_CLEAN
from spark_core.index.merging import Files
from spark_core.index.saved import Saved, endpoint_of
from spark_core.records import tables
from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.run.chain import Mark


def save(run: Run, mark: Mark) -> str:
    """Store what a mark saves; it is stored before the table whose manifest names it.

    Args:
        run: The run.
        mark: Tables 1 to 4.

    Returns:
        Digest of the document.

    Raises:
        ChainError: If the ranges that were taken are not those that table 4 names.
    """
    listed = ListedFigures.of(mark.slices.manifest)
    index = choosing.index_of_mark(run)
    files = merging.merged(
        run.store,
        Files(
            slices=_slices(mark.slices) if listed.closed_before else (),
            **_of_ranges(run, mark.committed),
        ),
    )
    saved = Saved(
        repository=run.repository.id,
        instance=run.instance,
        endpoint=endpoint_of(run.store),
        run=str(run.key),
        started=mark.slices.manifest.reading_began,
        last_slice=listed.last_slice or "",
        open_slices=listed.open_slices or (),
        clean=str(run.key) if index is None else index.saved.clean,
        optimized_since=() if index is None else (*index.saved.optimized_since, str(run.key)),
        options=run.deciding_options,
        blocked_by=listed.blocked_by or (),
        closed_before=listed.closed_before or 0,
        **vars(files),
    )
    run.store.put(lakegc_keys.saved_key(run.key), saved.to_json())
    return saved.digest


def _slices(slices: StoredTable) -> tuple[Part, ...]:
    """Return the files of table 1 that lie in the index."""
    return tuple(part for part in slices.manifest.parts if part.key.startswith(lakegc_keys.INDEX))


def _of_ranges(run: Run, committed: StoredTable) -> dict[str, tuple[Part, ...]]:
    """Return the files of metaranges and ranges that lie beside those that were taken, by kind."""
    named = CommittedFigures.of(committed.manifest).taken_manifest
    beside: Sequence[Part] = ()
    if named is not None:
        taken = run.load(tables.TAKEN_RANGES).manifest
        if taken.sha256 != named:
            raise ChainError(
                f"taken_ranges of run {run.key} is not the table that committed_addresses names",
                MARK_CLEAN,
            )
        beside = taken.beside
    return {
        kind: tuple(part for part in beside if part.key.startswith(f"{lakegc_keys.INDEX}{kind}-"))
        for kind in ("trees", "ranges", "entries")
    }
