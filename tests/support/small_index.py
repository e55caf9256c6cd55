"""What a mark leaves for the next one, without the tables between its listing and its verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spark_core import __version__, lakegc_keys
from spark_core.index.saved import Saved, endpoint_of
from spark_core.mark.listing import namespace_slices
from spark_core.records.figures import ListedFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run


def listed(run: Run) -> tuple[StoredTable, ListedFigures]:
    """Make table 1 of a run."""
    slices = run.keep(namespace_slices(run))
    return slices, ListedFigures.of(slices.manifest)


def index_parts(slices: StoredTable) -> tuple[Part, ...]:
    """Return the files of table 1 that lie in the index."""
    parts = slices.manifest.parts
    return tuple(part for part in parts if part.key.startswith(lakegc_keys.INDEX))


def leave_index(run: Run, slices: StoredTable, before: Saved | None = None, **other: Any) -> Saved:
    """Save a listing as a mark does, and conclude that the mark passed."""
    figures = ListedFigures.of(slices.manifest)
    saved = Saved(
        repository=run.repository.id,
        instance=run.instance,
        endpoint=endpoint_of(run.store),
        run=str(run.key),
        started=slices.manifest.reading_began,
        last_slice=figures.last_slice or "",
        open_slices=figures.open_slices or (),
        clean=str(run.key) if before is None else before.clean,
        optimized_since=() if before is None else (*before.optimized_since, str(run.key)),
        options=run.deciding_options,
        blocked_by=(),
        closed_before=figures.closed_before or 0,
        slices=index_parts(slices),
        trees=(),
        ranges=(),
        entries=(),
    )
    saved = replace(saved, **other)
    run.store.put(lakegc_keys.saved_key(run.key), saved.to_json())
    conclude(run, saved=saved.digest)
    return saved


def conclude(run: Run, *, saved: str | None, failed: str = "", **other: Any) -> None:
    """Store a verdict; `failed` is the name of a check that did not pass."""
    verdict = Verdict(
        repository=run.repository.id,
        instance=run.instance,
        namespace=run.repository.storage_namespace,
        run=str(run.key),
        passed=not failed,
        concluded_at=run.now(),
        cutoff=run.cutoff.isoformat(),
        options=run.deciding_options,
        min_age_seconds=86_400,
        rules=None,
        tables={"expired_addresses": {"saved": saved}},
        addresses={},
        expired_objects=0,
        standing={},
        checks=[{"name": failed, "passed": False, "summary": "a test"}] if failed else [],
        versions={"lakegc": __version__},
    )
    key = lakegc_keys.verdict_key(run.key)
    run.store.put(key, replace(verdict, **other).to_json())


def rows(slices: StoredTable) -> dict[str, dict[str, Any]]:
    """Return the rows of table 1 by address; no address is there twice."""
    found = [row for batch in slices.batches() for row in batch.to_pylist()]
    by_address = {row["address"]: row for row in found}
    assert len(found) == len(by_address) == slices.manifest.rows
    return by_address
