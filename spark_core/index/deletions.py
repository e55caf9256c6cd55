"""What sweeps deleted: by their reports, and by the journals of those that did not end.

A report that left objects is not the end: another process may have gone on, and been killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed, sorted_once
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import ChainError, UnsafePlanError
from spark_core.index.choosing import MARK_CLEAN
from spark_core.index.saved import Saved
from spark_core.model import RunKey
from spark_core.plain_text import counted
from spark_core.records import reading, tables
from spark_core.records.figures import DeletionFigures
from spark_core.records.journal import Journal, JournalPart
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.storage.outcomes import GONE


def deleted_by(run: Run, key: RunKey, *, since: datetime | None = None) -> Iterator[pa.StringArray]:
    """Yield the addresses of what the sweep of an earlier run deleted, or found gone.

    Args:
        run: The run.
        key: The earlier run.
        since: Only what it deleted at or after this instant.

    Raises:
        LakegcError: If its report or its journal cannot be read.
    """
    for address, outcome, at in _outcomes(run, key, since):
        gone = pc.is_in(outcome.cast(pa.string()), pa.array(GONE))
        if since is not None:
            late = pc.greater_equal(at, pa.scalar(since, schemas.INSTANT))
            gone = pc.and_(gone, pc.fill_null(late, False))
        yield address.filter(gone).cast(pa.string())


def deleted_since(run: Run, saved: Saved) -> Any:
    """Return the hashes of what sweeps deleted since the last clean run: sorted, each once.

    A run that is older may have been swept after the clean one had listed the store. What was gone
    before is not in the index, or came back.

    It costs two requests for each run since, and for each that may be swept for its age.

    Args:
        run: The run.
        saved: What names the last clean run.

    Raises:
        LakegcError: If it cannot be told.
        UnsafePlanError: If they are more than the driver holds.
    """
    found, count = [np.empty(0, np.int64)], 0
    for key, listed in _swept_since(run, saved):
        for addresses in deleted_by(run, key, since=listed):
            found.append(hashed(addresses).to_numpy())
            count += len(addresses)
            if count > placement.MOST_ROWS_OF_THE_DRIVER:
                raise UnsafePlanError(
                    f"more than {placement.MOST_ROWS_OF_THE_DRIVER:,} objects were deleted since "
                    f"run {saved.clean}",
                    MARK_CLEAN,
                )
    return sorted_once(np.concatenate(found))


def unanswered_since(run: Run, saved: Saved) -> str:
    """Say that a sweep since the last clean run did not write down what became of some objects.

    It was killed, and nobody went on with it: whether the store has the objects, nobody knows but
    the store. It costs a request for each run since, as `deleted_since` needs, and reads the
    journals of sweeps without a report, or whose report left objects.

    Args:
        run: The run.
        saved: What names the last clean run.

    Raises:
        LakegcError: If it cannot be told.
    """
    for key, listed in _swept_since(run, saved):
        journal, parts = beside_the_report(run, key)
        intended = {
            address
            for addresses, _, at in _read(journal, parts, "intent")
            for address, when in zip(addresses.to_pylist(), at.to_pylist(), strict=True)
            if listed is None or when >= listed
        }
        for addresses, _, _ in _read(journal, parts, "outcome") if intended else ():
            intended.difference_update(addresses.to_pylist())
        if intended:
            return (
                f"the sweep of run {key} did not end, and what became of "
                f"{counted(len(intended), 'object')} is not known"
            )
    return ""


def beside_the_report(run: Run, key: RunKey) -> tuple[Journal, Sequence[JournalPart]]:
    """Return the journal of a run's sweeps, and its parts if no report tells all that they tell.

    Raises:
        LakegcError: If the report or the journal cannot be read.
    """
    journal = Journal(run.store, str(key), "")
    report = _report(run, key)
    if report is None or may_go_on(report):
        if journal.folder not in run.documents:
            run.documents[journal.folder] = journal.parts()
        if parts := run.documents[journal.folder]:
            # Without parts nothing was deleted, without the table nothing was let go.
            with suppress(ChainError):
                expired = reading.load_table(run.store, tables.EXPIRED_ADDRESSES, key).manifest
                return replace(journal, plan=expired.sha256), parts
    return journal, ()


def _swept_since(run: Run, saved: Saved) -> Iterator[tuple[RunKey, datetime | None]]:
    """Yield the runs that may have been swept since the last clean run.

    With those that are older comes when that one listed the store.
    """
    clean = RunKey.parse(saved.clean)
    oldest = RunKey.at(clean.instant - run.options.max_mark_age)
    for key in run.earlier or tables.runs(run.store, tables.NAMESPACE_SLICES.folder):
        if oldest <= key < run.key:
            yield key, None if key >= clean else _listing_began(run, clean)


def _listing_began(run: Run, key: RunKey) -> datetime:
    """Return when a run began to list the store, as far as clocks agree."""
    where = tables.manifest_key(tables.NAMESPACE_SLICES, key)
    if where not in run.documents:
        run.documents[where] = reading.load_table(run.store, tables.NAMESPACE_SLICES, key)
    found: StoredTable = run.documents[where]
    return found.manifest.reading_began - MAX_CLOCK_SKEW


def _outcomes(
    run: Run, key: RunKey, since: datetime | None
) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
    """Yield the addresses, the outcomes, and when they came about."""
    columns = ["address", "outcome", "deleted_at"]
    wanted = pa.schema([schemas.DELETION_REPORT.field(name) for name in columns])
    yield from _read(*beside_the_report(run, key), "outcome")
    report = _report(run, key)
    if report is None or (since is not None and report.manifest.reading_ended < since):
        return
    for part in report.manifest.parts:
        for batch in reading.read_part(run.store, wanted, part):
            yield tuple(batch.columns)


def _report(run: Run, key: RunKey) -> StoredTable | None:
    """Return the report of a sweep; None if it has none. A process asks once."""
    where = tables.manifest_key(tables.DELETION_REPORT, key)
    if where not in run.documents:
        try:
            run.documents[where] = reading.load_table(run.store, tables.DELETION_REPORT, key)
        except ChainError:
            run.documents[where] = None
    found: StoredTable | None = run.documents[where]
    return found


def may_go_on(report: StoredTable) -> bool:
    """Say whether a sweep left objects: another process may have gone on, and left no report."""
    figures = DeletionFigures.of(report.manifest)
    return figures.left_objects > 0 or figures.planned_objects != report.manifest.rows


def _read(
    journal: Journal, parts: Sequence[JournalPart], kind: str
) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
    for part in parts:
        if part.kind == kind:
            batch = journal.read(part)
            yield tuple(batch.column(name) for name in ("address", "outcome", "at"))
