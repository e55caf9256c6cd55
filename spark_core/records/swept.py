"""What the sweep of a run did: by its report, and by its journal if it did not end.

A report that left objects is not the end: another process may have gone on, and been killed.

`documents` is what this process has read before, by name. Who gets it asks it before the store, and
puts there what is read; an empty one reads everything anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, hashed
from spark_core.errors import TABLES_UNREADABLE, ChainError
from spark_core.model import RunKey
from spark_core.records import reading, tables
from spark_core.records.figures import DeletionFigures
from spark_core.records.journal import ROWS, Journal, JournalPart
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.records.tables import TableSpec
from spark_core.spark.exchange import Batches
from spark_core.spark.session import Session
from spark_core.storage import ObjectStore
from spark_core.storage.outcomes import GONE, NOT_DELETED

Documents: TypeAlias = MutableMapping[str, Any]

# What the report says of an object as the plan has it.
PLANNED = pa.schema(
    [
        ADDRESS_HASH,
        *(schemas.EXPIRED_ADDRESSES.field(name) for name in ("address", "size_bytes", "reason")),
    ]
)
# Outcomes after which nothing more is to be done.
FINAL = (*GONE, "kept")
OUTCOMES = (*FINAL, *NOT_DELETED)
_LAST = pc.ScalarAggregateOptions(skip_nulls=False)


def left_by_sweep(manifest: Manifest) -> tuple[int, int]:
    """Return how many objects a sweep left undeleted, and how many its report has no row of."""
    figures = DeletionFigures.of(manifest)
    return figures.left_objects, figures.planned_objects - manifest.rows


def quarantine_ends_at(report: Manifest) -> datetime | None:
    """Return when the quarantine of a stored deletion report ends; None if it has none."""
    days = DeletionFigures.of(report).quarantine_days
    return None if days is None else report.reading_ended + timedelta(days=days)


def quarantined_runs(store: ObjectStore) -> list[RunKey]:
    """Return the runs that have a folder in quarantine, oldest first."""
    return tables.runs(store, "quarantine")[::-1]


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


def rows_about(
    store: ObjectStore,
    key: RunKey,
    addresses: Sequence[str],
    load: Callable[[TableSpec], StoredTable],
    spark: Callable[[], Session],
) -> dict[str, dict[str, Any]]:
    """Return what the sweep of a run wrote down of objects, by address.

    That is the report, and what is gone by a journal that no report sums up.

    Args:
        store: Rooted at the namespace.
        key: The run.
        addresses: Relative addresses, few enough for the driver.
        load: Reads back a table of the run.
        spark: Starts Spark, if a table is large.

    Returns:
        Rows with the columns of `schemas.DELETION_REPORT`; of an object of which nothing is told
        after it was intended, its row of the journal, and the reason.

    Raises:
        LakegcError: If the report or the journal cannot be read.
    """
    told = {}
    if store.exists(tables.manifest_key(tables.DELETION_REPORT, key)):
        told = load(tables.DELETION_REPORT).rows_of(addresses, spark)
    # Another process may have gone on since this one asked.
    journal, parts = beside_the_report(store, key, {})
    if parts:
        asked = pa.array(addresses, pa.string())
        rows = pa.concat_tables(journal.source(parts).each(spark, partial(_rows_about, asked)))
        let_go = dict[str, dict[str, Any]]()
        # A pruned table says nothing.
        with suppress(*TABLES_UNREADABLE):
            let_go = load(tables.EXPIRED_ADDRESSES).rows_of(addresses, spark)
        planned = _planned(asked, let_go)
        known = report_rows(planned, rows).to_pylist()
        told |= {row["address"]: row for row in known if row["outcome"] in GONE}
        reasons = dict(zip(addresses, planned["reason"].to_pylist(), strict=True))
        for row in _unanswered(rows):
            told.setdefault(row["address"], {**row, "reason": reasons[row["address"]]})
    return told


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


def _rows_about(addresses: pa.Array, batches: Batches) -> pa.Table:
    found = (batch.filter(pc.is_in(batch.column("address"), addresses)) for batch in batches)
    return pa.Table.from_batches(found, ROWS)


def _planned(asked: pa.Array, let_go: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    """Return what a mark said of objects, columns of `PLANNED`."""
    unknown = {"size_bytes": 0, "reason": ""}
    said = [let_go.get(address, unknown) for address in asked.to_pylist()]
    columns = [[row[name] for row in said] for name in unknown]
    return pa.table([hashed(asked), asked, *columns], PLANNED)


def _unanswered(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of objects that a journal says nothing of after they were intended."""
    is_intended = pc.equal(rows["outcome"], "intended")
    answered = rows.filter(pc.invert(is_intended))["address"].combine_chunks()
    intended = rows.filter(is_intended)
    unanswered = intended.filter(pc.invert(pc.is_in(intended["address"], answered)))
    return list(unanswered.to_pylist())


def report_rows(plan: pa.Table, rows: pa.Table) -> pa.Table:
    """Return the outcome of each object of a plan, from all journal rows about it.

    An object counts as deleted if some batch was about to delete it and it was found gone later.
    The batch was killed, or never got the store's answer. An object that no batch asked for was
    gone before.

    Args:
        plan: Columns of `PLANNED`, key address.
        rows: Columns of `ROWS` of a journal.

    Returns:
        Columns of `schemas.DELETION_REPORT`, key address; no row for an object without an outcome.
    """
    told = plan.drop_columns("address_hash").join(_by_address(rows), "address", join_type="inner")
    for what, outcomes in (("kept", ("kept",)), ("failure", NOT_DELETED)):
        told = told.join(_last(rows, what, outcomes), "address", join_type="left outer")
    is_gone = pc.greater(told["already_gone"], 0)
    # The store did not answer an intent, or its answer may not have been its last word.
    is_open = pc.greater(told["attempts"], pc.add(told["deleted"], told["refused"]))
    is_deleted = pc.or_(pc.greater(told["deleted"], 0), pc.and_(is_gone, is_open))
    cases = pc.make_struct(is_deleted, is_gone, pc.is_valid(told["kept_outcome"]))
    outcome = pc.case_when(cases, "deleted", "already_gone", "kept", told["failure_outcome"])
    error = pc.if_else(
        pc.is_in(outcome, value_set=pa.array(NOT_DELETED)), told["failure_error"], None
    )
    columns = {
        **{name: told[name] for name in ("address", "size_bytes", "reason")},
        "outcome": outcome,
        "error": pc.if_else(pc.equal(outcome, "kept"), told["kept_error"], error),
        "attempts": told["attempts"].cast(pa.int32()),
        "deleted_at": pc.if_else(pc.equal(outcome, "deleted"), told["gone_at"], None),
    }
    return pa.table(columns).filter(pc.is_valid(outcome)).cast(schemas.DELETION_REPORT)


def _by_address(rows: pa.Table) -> pa.Table:
    """Count the rows of each object by what they say; say when it was first known to be gone."""
    counts = {
        outcome: pc.equal(rows["outcome"], outcome).cast(pa.int64())
        for outcome in ("deleted", "already_gone", "refused", "intended", "unsent")
    }
    gone_at = pc.if_else(have_any(rows, GONE), rows["at"], None)
    known = pa.table({"address": rows["address"], "gone_at": gone_at, **counts})
    found = known.group_by("address").aggregate(
        [("gone_at", "min"), *((outcome, "sum") for outcome in counts)]
    )
    found = found.rename_columns(known.column_names)
    attempts = pc.subtract(found["intended"], found["unsent"])
    return found.drop_columns(["intended", "unsent"]).append_column("attempts", attempts)


def _last(rows: pa.Table, what: str, outcomes: Sequence[str]) -> pa.Table:
    """Return outcome and error of the last row of each object that has one of these outcomes."""
    found = rows.filter(have_any(rows, outcomes)).sort_by("at")
    last = found.select(["address", "outcome", "error"]).group_by("address", use_threads=False)
    return last.aggregate([("outcome", "last"), ("error", "last", _LAST)]).rename_columns(
        ["address", f"{what}_outcome", f"{what}_error"]
    )


def have_any(
    rows: pa.Table | pa.RecordBatch, outcomes: Sequence[str]
) -> pa.ChunkedArray | pa.Array:
    """Say which rows of a journal have one of these outcomes."""
    return pc.is_in(rows["outcome"], value_set=pa.array(outcomes))
