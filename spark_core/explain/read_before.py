"""What an optimized run did not read, and which run read it last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from spark_core.errors import ChainError, CorruptTableError, NotFoundError
from spark_core.explain.stored_rows import rows_of
from spark_core.model import RunKey
from spark_core.optimized import saved
from spark_core.records import tables
from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.run import Run


def base_of(run: Run) -> RunKey | None:
    """Return the run that an optimized one began from; None for a full one, or for no mark."""
    try:
        found = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).base
    except ChainError as problem:
        if not is_missing(problem):
            raise
        return None
    return None if found is None else RunKey.parse(found.run)


def full_run(run: Run) -> RunKey:
    """Return the full run that an optimized one goes back to; a full run itself.

    Raises:
        NotFoundError: If what its base saved is gone.
    """
    base = base_of(run)
    return run.key if base is None else RunKey.parse(saved.load(run.store, base).full)


def runs_before(run: Run) -> Iterator[Run]:
    """Yield the runs that an optimized one goes back to: its base first, the full one last."""
    base = base_of(run)
    while base is not None:
        run = replace(run, key=base, known={}, unused={})
        yield run
        base = base_of(run)


def is_missing(problem: Exception) -> bool:
    """Say whether a table was never made; else it was pruned or is damaged."""
    return isinstance(problem, ChainError) and isinstance(problem.__cause__, NotFoundError)


def require_full(run: Run) -> None:
    """Refuse an optimized run where only a whole listing answers.

    Raises:
        ChainError: If the run is an optimized one; it names the full run to ask instead.
    """
    if base_of(run) is None:
        return
    repository = run.repository.id
    try:
        full = full_run(run)
    except (NotFoundError, CorruptTableError):
        way_on = f"Mark everything first (`lakegc mark {repository} --full`)."
    else:
        way_on = f"Ask of the full run before it: `lakegc what-if {repository} --run {full}`."
    raise ChainError(
        f"run {run.key} of {repository} is an optimized one: it lists only what changed since run "
        f"{base_of(run)}, and what other rules would free is told from a whole listing",
        way_on,
    )


def listed_by(run: Run, addresses: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the rows of objects that a run listed or looked up, by address.

    Args:
        run: The run.
        addresses: Relative addresses.

    Returns:
        Rows of `schemas.NAMESPACE_SLICES`.

    Raises:
        ChainError: If the run has no mark.
        NotFoundError: If its tables were pruned.
    """
    found = rows_of(run, tables.NAMESPACE_SLICES, addresses)
    if base_of(run) is None:
        return found
    change = CommittedFigures.of(run.load(tables.COMMITTED_ADDRESSES).manifest).change
    if change is None or change.looked_up_manifest is None:
        return found
    return {**rows_of(run, tables.LOOKED_UP_OBJECTS, addresses), **found}
