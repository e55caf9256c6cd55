"""The outcome of each object, from the journal: the deletion report and its figures.

`require_complete` says whether everything is gone.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame

from spark_core import schemas
from spark_core.errors import DeletionFailedError
from spark_core.records.figures import DeletionFigures
from spark_core.records.reading import StoredTable
from spark_core.sweep.plan import undone

# Outcomes after which nothing more is to be done.
FINAL = ("deleted", "already_gone", "kept")
OUTCOMES = (*FINAL, "refused", "failed")


def finished(journal: DataFrame, sweep: str) -> DataFrame:
    """Return the addresses that a sweep leaves alone: finished ones, and those it tried itself.

    Args:
        journal: Columns of `Journal.frame`.
        sweep: Id of the process that sweeps.

    Returns:
        Column address; duplicates allowed.
    """
    tried = (sf.col("sweep") == sweep) & sf.col("outcome").isin("refused", "failed")
    return journal.where(sf.col("outcome").isin(*FINAL) | tried).select("address")


def report(plan: DataFrame, journal: DataFrame) -> DataFrame:
    """Return the outcome of each object of a plan, from all journal rows about it.

    An object counts as deleted if some batch was about to delete it and it was found gone later.
    The batch was killed, or never got the store's answer. An object that no batch asked for was
    gone before.

    Args:
        plan: Columns of `schemas.EXPIRED_ADDRESSES`, key address.
        journal: Columns of `Journal.frame`.

    Returns:
        Columns of `schemas.DELETION_REPORT`, key address; no row for an object without an outcome.
    """
    last_failure = _last("refused", "failed")
    by_address = journal.groupBy("address").agg(
        *(
            _count(outcome).alias(outcome)
            for outcome in ("deleted", "already_gone", "kept", "refused")
        ),
        (_count("intended") - _count("unsent")).alias("attempts"),
        sf.min(sf.when(sf.col("outcome").isin("deleted", "already_gone"), sf.col("at"))).alias(
            "gone_at"
        ),
        _last("kept").alias("kept_because"),
        last_failure.alias("failure"),
    )
    # The store did not answer an intent, or its answer may not have been its last word.
    open_intent = sf.col("attempts") > sf.col("deleted") + sf.col("refused")
    outcome = (
        sf.when((sf.col("deleted") > 0) | ((sf.col("already_gone") > 0) & open_intent), "deleted")
        .when(sf.col("already_gone") > 0, "already_gone")
        .when(sf.col("kept") > 0, "kept")
        .otherwise(sf.col("failure.outcome"))
    )
    error = sf.when(sf.col("outcome") == "kept", sf.col("kept_because.error")).when(
        sf.col("outcome").isin("refused", "failed"), sf.col("failure.error")
    )
    return (
        plan.select("address", "size_bytes", "reason")
        .join(by_address.withColumn("outcome", outcome), on="address", how="inner")
        .where(sf.col("outcome").isNotNull())
        .select(
            "address",
            "size_bytes",
            "reason",
            "outcome",
            error.alias("error"),
            sf.col("attempts").cast("int").alias("attempts"),
            sf.when(sf.col("outcome") == "deleted", sf.col("gone_at")).alias("deleted_at"),
        )
    )


def _count(outcome: str) -> Column:
    return sf.count_if(sf.col("outcome") == outcome)


def _last(*outcomes: str) -> Column:
    """Return outcome and error of the last row with one of these outcomes; null if none has one."""
    row = sf.when(sf.col("outcome").isin(*outcomes), sf.struct("outcome", "error"))
    at = sf.when(sf.col("outcome").isin(*outcomes), sf.col("at"))
    return sf.max_by(row, at)


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


def empty_report() -> pa.Table:
    """Return the report of a plan without objects."""
    return schemas.DELETION_REPORT.empty_table()


def require_complete(stored: StoredTable) -> None:
    """Fail if an object of the sweep was not deleted; the whole report is stored before this.

    Objects that are kept because something references them again are no failure.

    Raises:
        DeletionFailedError: If the store refused or failed on any object, or an object has no
            outcome. The message names some of them.
    """
    manifest = stored.manifest
    left, unreported = undone(manifest)
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
