"""The outcome of each object, from the journal: the deletion report and its figures.

`require_complete` says whether everything is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, with_address_hash
from spark_core.errors import DeletionFailedError, IncompleteReadError
from spark_core.records import rows_aside, tables, writing
from spark_core.records.figures import DeletionFigures
from spark_core.records.journal import Journal
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Target, Written
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Exchange, Sent
from spark_core.storage.outcomes import GONE
from spark_core.sweep.plan import left_by_sweep

# Outcomes after which nothing more is to be done.
FINAL = (*GONE, "kept")
OUTCOMES = (*FINAL, "refused", "failed")
_NOT_DELETED = OUTCOMES[len(FINAL) :]

# What the report says of an object as the plan has it.
PLANNED = pa.schema(
    [
        ADDRESS_HASH,
        *(schemas.EXPIRED_ADDRESSES.field(name) for name in ("address", "size_bytes", "reason")),
    ]
)
_LAST = pc.ScalarAggregateOptions(skip_nulls=False)


def are_finished(rows: pa.Table | pa.RecordBatch, sweep: str) -> pa.ChunkedArray | pa.BooleanArray:
    """Say which rows of a journal end the work of a sweep on their objects.

    It leaves alone what is finished, and what it tried itself.

    Args:
        rows: Columns of `ROWS` of a journal.
        sweep: Id of the process that sweeps.
    """
    is_tried = pc.and_(pc.equal(rows["sweep"], sweep), _is_any(rows, _NOT_DELETED))
    return pc.or_(_is_any(rows, FINAL), is_tried)


def _is_any(rows: pa.Table | pa.RecordBatch, outcomes: Sequence[str]) -> pa.ChunkedArray | pa.Array:
    return pc.is_in(rows["outcome"], value_set=pa.array(outcomes))


def write_report(run: Run, expired: StoredTable, journal: Journal) -> Written:
    """Write the report of a finished sweep from its journal.

    The journal has an outcome for each object of the plan.

    The objects are counted, not the journal's rows. An object that failed before, or whose task ran
    twice, has several rows.

    Returns:
        Columns of `schemas.DELETION_REPORT`, key address.

    Raises:
        IncompleteReadError: If an object had no outcome in two readings: the journal was not listed
            whole.
    """
    try:
        return _write_report(run, expired, journal)
    except IncompleteReadError:
        return _write_report(run, expired, journal)


def _write_report(run: Run, expired: StoredTable, journal: Journal) -> Written:
    folder = tables.folder(tables.DELETION_REPORT, run.key)
    attempt = writing.new_attempt()
    target = Target(run.store, folder, attempt, schemas.DELETION_REPORT, measure)
    sources: dict[str, AnySource] = {
        "planned": expired.source(PLANNED.names[1:]).through(PLANNED, with_address_hash),
        "journal": journal.source(journal.parts()),
    }
    put = partial(rows_aside.put_aside, target)
    exchange = Exchange(sources, _reported, schemas.DELETION_REPORT, put)

    def write() -> Written:
        counts, receipts = exchange.run(lambda: run.spark, threads=run.options.read_threads)
        if sum(counts) != expired.manifest.rows:
            raise IncompleteReadError(
                f"run {run.key} of {run.repository.id}: the journal as it is listed tells of "
                f"{sum(counts)} of {expired.manifest.rows} objects, and each was written down "
                f"({journal.folder})",
                "Run the same command again.",
            )
        return Written(attempt, receipts, is_all=True)

    return writing.removed_on_failure(target, write)


def _reported(bucket: Mapping[str, pa.Table]) -> Sent[int]:
    rows = report(bucket["planned"], bucket["journal"])
    return Sent(rows.num_rows, {rows_aside.place_of(bucket["planned"]): rows})


def report(plan: pa.Table, rows: pa.Table) -> pa.Table:
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
    for what, outcomes in (("kept", ("kept",)), ("failure", _NOT_DELETED)):
        told = told.join(_last(rows, what, outcomes), "address", join_type="left outer")
    is_gone = pc.greater(told["already_gone"], 0)
    # The store did not answer an intent, or its answer may not have been its last word.
    is_open = pc.greater(told["attempts"], pc.add(told["deleted"], told["refused"]))
    is_deleted = pc.or_(pc.greater(told["deleted"], 0), pc.and_(is_gone, is_open))
    cases = pc.make_struct(is_deleted, is_gone, pc.is_valid(told["kept_outcome"]))
    outcome = pc.case_when(cases, "deleted", "already_gone", "kept", told["failure_outcome"])
    error = pc.if_else(
        pc.is_in(outcome, value_set=pa.array(_NOT_DELETED)), told["failure_error"], None
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
    gone_at = pc.if_else(_is_any(rows, GONE), rows["at"], None)
    known = pa.table({"address": rows["address"], "gone_at": gone_at, **counts})
    found = known.group_by("address").aggregate(
        [("gone_at", "min"), *((outcome, "sum") for outcome in counts)]
    )
    found = found.rename_columns(known.column_names)
    attempts = pc.subtract(found["intended"], found["unsent"])
    return found.drop_columns(["intended", "unsent"]).append_column("attempts", attempts)


def _last(rows: pa.Table, what: str, outcomes: Sequence[str]) -> pa.Table:
    """Return outcome and error of the last row of each object that has one of these outcomes."""
    found = rows.filter(_is_any(rows, outcomes)).sort_by("at")
    last = found.select(["address", "outcome", "error"]).group_by("address", use_threads=False)
    return last.aggregate([("outcome", "last"), ("error", "last", _LAST)]).rename_columns(
        ["address", f"{what}_outcome", f"{what}_error"]
    )


def measure(batch: pa.RecordBatch) -> Mapping[str, int]:
    """Count objects and bytes by outcome; a function for `Draft.measure`."""
    figures = {}
    for outcome in OUTCOMES:
        chosen = pc.equal(batch.column("outcome"), outcome)
        figures[f"{outcome}_objects"] = pc.sum(chosen).as_py() or 0
        figures[f"{outcome}_bytes"] = (
            pc.sum(pc.if_else(chosen, batch.column("size_bytes"), 0)).as_py() or 0
        )
    return figures


def require_complete(stored: StoredTable) -> None:
    """Fail if an object of the sweep was not deleted; the whole report is stored before this.

    Objects that are kept because something references them again are no failure.

    Raises:
        DeletionFailedError: If the store refused or failed on any object, or an object has no
            outcome. The message names some of them.
    """
    manifest = stored.manifest
    left, unreported = left_by_sweep(manifest)
    if left or unreported:
        figures = DeletionFigures.of(manifest)
        named = figures.left_named or ()
        causes = "; ".join(f"{address}: {outcome} ({error})" for address, outcome, error in named)
        raise DeletionFailedError(
            f"run {manifest.run} of {manifest.repository}: {left} of "
            f"{figures.planned_objects} objects were not deleted and {unreported} have "
            "no outcome; the others are gone or kept for a reason. "
            f"{causes or 'None of them is named'}. The report names each object and its cause "
            f"({manifest.parts[0].key if manifest.parts else 'no part'}); the next run takes them "
            "again."
        )
