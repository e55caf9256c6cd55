"""What the sweep of a run deleted: by its report, and by its journal if it did not end.

A report that left objects is not the end: another process may have gone on, and been killed.

Functions get `documents`, what this process has read before, by name. They ask it before the store,
and put there what they read; an empty one reads everything anew.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.errors import ChainError
from spark_core.model import RunKey
from spark_core.records import reading, tables
from spark_core.records.figures import DeletionFigures
from spark_core.records.journal import Journal, JournalPart
from spark_core.records.reading import StoredTable
from spark_core.storage import ObjectStore
from spark_core.storage.outcomes import GONE

Documents: TypeAlias = MutableMapping[str, Any]


def deleted_by(
    store: ObjectStore, key: RunKey, documents: Documents, *, since: datetime | None = None
) -> Iterator[pa.StringArray]:
    """Yield the addresses of what the sweep of a run deleted, or found gone.

    Args:
        store: Rooted at the namespace.
        key: The run.
        documents: What was read before.
        since: Only what it deleted at or after this instant.

    Raises:
        LakegcError: If its report or its journal cannot be read.
    """
    for address, outcome, at in _outcomes(store, key, documents, since):
        gone = pc.is_in(outcome.cast(pa.string()), pa.array(GONE))
        if since is not None:
            late = pc.greater_equal(at, pa.scalar(since, schemas.INSTANT))
            gone = pc.and_(gone, pc.fill_null(late, False))
        yield address.filter(gone).cast(pa.string())


def beside_the_report(
    store: ObjectStore, key: RunKey, documents: Documents
) -> tuple[Journal, Sequence[JournalPart]]:
    """Return the journal of a run's sweeps, and its parts if no report tells all that they tell.

    Raises:
        LakegcError: If the report or the journal cannot be read.
    """
    journal = Journal(store, str(key), "")
    report = _report(store, key, documents)
    if report is None or may_go_on(report):
        if journal.folder not in documents:
            documents[journal.folder] = journal.parts()
        if parts := documents[journal.folder]:
            # Without parts nothing was deleted, without the table nothing was let go.
            with suppress(ChainError):
                expired = reading.load_table(store, tables.EXPIRED_ADDRESSES, key).manifest
                return replace(journal, plan=expired.sha256), parts
    return journal, ()


def may_go_on(report: StoredTable) -> bool:
    """Say whether a sweep left objects: another process may have gone on, and left no report."""
    figures = DeletionFigures.of(report.manifest)
    return figures.left_objects > 0 or figures.planned_objects != report.manifest.rows


def journal_rows(
    journal: Journal, parts: Sequence[JournalPart], kind: str
) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
    """Yield the addresses, the outcomes and the instants in parts of one kind."""
    for part in parts:
        if part.kind == kind:
            batch = journal.read(part)
            yield tuple(batch.column(name) for name in ("address", "outcome", "at"))


def _outcomes(
    store: ObjectStore, key: RunKey, documents: Documents, since: datetime | None
) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
    """Yield the addresses, the outcomes, and when they came about."""
    columns = ["address", "outcome", "deleted_at"]
    wanted = pa.schema([schemas.DELETION_REPORT.field(name) for name in columns])
    yield from journal_rows(*beside_the_report(store, key, documents), "outcome")
    report = _report(store, key, documents)
    if report is None or (since is not None and report.manifest.reading_ended < since):
        return
    for part in report.manifest.parts:
        for batch in reading.read_part(store, wanted, part):
            yield tuple(batch.columns)


def _report(store: ObjectStore, key: RunKey, documents: Documents) -> StoredTable | None:
    """Return the report of a sweep; None if it has none. It is asked for once."""
    where = tables.manifest_key(tables.DELETION_REPORT, key)
    if where not in documents:
        try:
            documents[where] = reading.load_table(store, tables.DELETION_REPORT, key)
        except ChainError:
            documents[where] = None
    found: StoredTable | None = documents[where]
    return found
