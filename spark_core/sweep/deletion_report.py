"""The outcome of each object, from the journal: the deletion report and its figures.

`require_complete` says whether everything is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import with_address_hash
from spark_core.errors import DeletionFailedError, IncompleteReadError
from spark_core.records import rows_aside, tables, writing
from spark_core.records.figures import DeletionFigures
from spark_core.records.journal import Journal
from spark_core.records.reading import StoredTable
from spark_core.records.swept import FINAL, OUTCOMES, PLANNED, have_any, left_by_sweep, report_rows
from spark_core.records.writing import Target, Written
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Exchange, Sent
from spark_core.storage.outcomes import NOT_DELETED


def are_finished(rows: pa.Table | pa.RecordBatch, sweep: str) -> pa.ChunkedArray | pa.BooleanArray:
    """Say which rows of a journal end the work of a sweep on their objects.

    It leaves alone what is finished, and what it tried itself.

    Args:
        rows: Columns of `ROWS` of a journal.
        sweep: Id of the process that sweeps.
    """
    is_tried = pc.and_(pc.equal(rows["sweep"], sweep), have_any(rows, NOT_DELETED))
    return pc.or_(have_any(rows, FINAL), is_tried)


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
    rows = report_rows(bucket["planned"], bucket["journal"])
    return Sent(rows.num_rows, {rows_aside.place_of(bucket["planned"]): rows})


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
