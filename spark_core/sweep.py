"""Sweep: delete what a mark with a passed verdict names, and record what the store answered for each object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark import TaskContext
from pyspark.sql import DataFrame

from spark_core import schemas, tables, verdict
from spark_core.errors import (
    ChainError,
    ClosedPartitionError,
    DeletionFailedError,
    RepositoryStateError,
    UnsafePlanError,
)
from spark_core.mark.expired import keep_considered
from spark_core.pacing import Pacer
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.session import surfacing_errors
from spark_core.storage import ObjectStore
from spark_core.storage.contract import Pace
from spark_core.storage.probes import require_deletable
from spark_core.tables import Draft, Manifest, StoredTable

GONE = ("deleted", "already_gone")
OUTCOMES = (*GONE, "refused", "failed")


@dataclass(frozen=True)
class _Limits:
    """What the executors compare each address with once more, and how fast each task may delete (None: no limit)."""

    cutoff: datetime
    flat: bool
    deletes_per_second: float | None = None


def sweep(run: Run) -> Draft:
    """Delete the objects of a mark; again, where an earlier sweep of it left some.

    The verdict is read from the store, not believed from the caller. The
    repository is asked for again after the server's cache of a deletion has
    run out, and must be the same instance (safety 21).

    Args:
        run: The run.

    Returns:
        Columns of `schemas.DELETION_REPORT`, key address: a row per object of the mark, those that an earlier sweep
        deleted with what it recorded. Storing the draft is what deletes.

    Raises:
        UnsafePlanError: If deleting is not switched on for the repository.
        VerdictError: If the stored verdict does not allow it.
        ChainError: If an earlier sweep of the run was of another mark.
        PermissionDeniedError: If the store may be listed but not deleted in.
        RepositoryStateError: If the repository was deleted or replaced.
        ClosedPartitionError: If the run was swept to its end already.
    """
    if not run.options.may_sweep:
        raise UnsafePlanError(
            f"deleting is switched off for {run.repository.id}: its mode is `mark`; nothing was deleted. Read the "
            'report of the mark; when it is right, set mode = "sweep" for this repository.'
        )
    earlier = _earlier_report(run)
    _, expired = verdict.require_sweepable(run)
    limits = _Limits(run.cutoff, run.options.flat)
    if expired.manifest.rows:
        require_deletable(run.store)
    _require_whole_plan(run, expired, limits)
    require_settled(run, expired)
    began = run.now()
    plan, gone = expired.frame(run.spark).withColumn("attempts", sf.lit(0)), None
    if earlier is not None:
        _require_same_mark(run, earlier, expired)
        plan, gone = _left_and_gone(expired.frame(run.spark), earlier.frame(run.spark))
    plan, limits = _limited(run, plan, limits, len(expired.manifest.parts))
    report = plan.mapInArrow(partial(_map_delete, run.store, limits), spark_type(schemas.DELETION_REPORT))
    if gone is not None:
        report = report.unionByName(gone)

    def facts() -> Mapping[str, Any]:
        return {"planned_objects": expired.manifest.rows}

    return Draft(tables.DELETION_REPORT, report, began, parents=(expired.manifest,), facts=facts, measure=_measure)


def require_complete(report: StoredTable) -> None:
    """Fail when an object of the sweep was not deleted, after the report of all of them is stored.

    Raises:
        DeletionFailedError: If the store refused or failed on any object, or one has no outcome.
    """
    manifest = report.manifest
    left, unreported = _undone(manifest)
    if left or unreported:
        raise DeletionFailedError(
            f"run {manifest.run} of {manifest.repository}: {left} of {manifest.facts['planned_objects']} objects were not deleted "
            f"and {unreported} have no outcome; the others are gone. The report names each object and its cause "
            f"({manifest.parts[0].key if manifest.parts else 'no part'}); the next run takes them again."
        )


def _undone(manifest: Manifest) -> tuple[int, int]:
    """Return how many objects a sweep did not delete, and how many planned ones its report has no row of."""
    facts = manifest.facts
    left = facts.get("refused_objects", 0) + facts.get("failed_objects", 0)
    return left, facts["planned_objects"] - manifest.rows


def _earlier_report(run: Run) -> StoredTable | None:
    """Return the report of an earlier sweep that left objects; refuse when it left none."""
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return None
    earlier = run.load(tables.DELETION_REPORT)
    if not any(_undone(earlier.manifest)):
        raise ClosedPartitionError(
            f"run {run.key} of {run.repository.id} was swept at {earlier.manifest.reading_ended.isoformat()}; nothing more "
            "was deleted. Its report stands; use a new run key."
        )
    return earlier


def _require_same_mark(run: Run, earlier: StoredTable, expired: StoredTable) -> None:
    swept = earlier.manifest.parents.get(tables.EXPIRED_ADDRESSES.name)
    if swept != expired.manifest.sha256:
        raise ChainError(
            f"run {run.key} of {run.repository.id} was swept by another plan (manifest {str(swept)[:12]}, stored is "
            f"{expired.manifest.sha256[:12]}): what is gone cannot be told from its report; nothing more was deleted. "
            "Mark again under a new run key."
        )


def _left_and_gone(plan: DataFrame, earlier: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Split a plan by what an earlier sweep of it did.

    Args:
        plan: Columns of `schemas.EXPIRED_ADDRESSES`.
        earlier: Columns of `schemas.DELETION_REPORT`.

    Returns:
        What is left to delete, with the column `attempts` made so far; and the earlier rows of what is gone.
    """
    gone = earlier.where(sf.col("outcome").isin(*GONE))
    tried = earlier.select("address", sf.col("outcome").isin(*GONE).alias("gone"), "attempts")
    left = plan.join(tried, on="address", how="left").where("gone IS NULL OR NOT gone")
    return left.withColumn("attempts", sf.coalesce("attempts", sf.lit(0))).drop("gone"), gone


def _require_whole_plan(run: Run, expired: StoredTable, limits: _Limits) -> None:
    """Read the whole plan once before the first deletion: every part's hash, every row's right to be in it.

    Parts are deleted in parallel; without this pass a damaged one would stop
    the sweep only after its neighbours were gone.
    """
    with surfacing_errors():
        rows = expired.frame(run.spark).mapInArrow(partial(_map_check, limits), "rows long").agg(sf.sum("rows")).first()
    assert rows is not None  # noqa: S101 - an aggregate without grouping has one row
    if (rows[0] or 0) != expired.manifest.rows:
        raise UnsafePlanError(
            f"the plan of run {run.key} has {rows[0]} rows, its manifest says {expired.manifest.rows}; nothing was "
            "deleted. Mark again under a new run key."
        )


def _map_check(limits: _Limits, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        _require_allowed(batch, limits)
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def _require_allowed(batch: pa.RecordBatch, limits: _Limits) -> None:
    allowed = keep_considered(batch, limits.cutoff, flat=limits.flat)
    if allowed.num_rows != batch.num_rows:
        offending = sorted(set(batch.column("address").to_pylist()) - set(allowed.column("address").to_pylist()))
        raise UnsafePlanError(
            f"the plan names {offending[0]!r}, which lies outside data/ or was written at or after "
            f"{limits.cutoff.isoformat()}; nothing of its batch was deleted. Mark again under a new run key."
        )


def require_settled(run: Run, expired: StoredTable) -> None:
    """Ask for the repository again, once the server can no longer answer from its cache for a deleted one.

    For some seconds after a deletion the server describes the repository as
    ever and shows it as empty (safety 21). The time that the run has taken since
    the first answer counts, so a mark of an ordinary size waits for nothing.

    Args:
        run: The run.
        expired: Its expired addresses.

    Raises:
        NotFoundError: If the repository is gone.
        RepositoryStateError: If it was replaced, shows no branch, or is not described as before.
        ChainError: If the mark was made of another instance.
    """
    first_answer = run.load(tables.NAMESPACE_SLICES).manifest.reading_began
    wait = (first_answer + run.options.repository_cache - run.now()).total_seconds()
    if wait > 0:
        run.environment.clock.sleep(wait)
    now = run.server.repository(run.repository.id)
    branches = run.server.branches(run.repository.id)
    if now != run.repository or not branches:
        raise RepositoryStateError(
            f"repository {run.repository.id} changed since run {run.key} was marked (it was {run.repository}, now it is "
            f"{now} with {len(branches)} branches); nothing was deleted. Mark again under a new run key."
        )
    run.require_same_instance(expired.manifest)


def _limited(run: Run, plan: DataFrame, limits: _Limits, parts: int) -> tuple[DataFrame, _Limits]:
    """Put a plan into no more tasks than can run at once now, and give each its share of the limit.

    The shares of all tasks together are the limit, so it holds as well when the
    cluster grows under way.
    """
    limit = run.options.max_deletes_per_second
    if limit is None:
        return plan, limits
    tasks = max(1, min(run.spark.sparkContext.defaultParallelism, parts))
    # Spark may run a slow task a second time beside the first.
    copies = 2 if run.spark.conf.get("spark.speculation", "false") == "true" else 1
    return plan.coalesce(tasks), replace(limits, deletes_per_second=limit / (tasks * copies))


def _map_delete(store: ObjectStore, limits: _Limits, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    pacer = _pacer(store, limits)
    size = store.delete_batch_size if pacer is None else pacer.batch_size
    for batch in batches:
        _require_allowed(batch, limits)
        for begin in range(0, batch.num_rows, size):
            yield delete_batch(store, batch.slice(begin, size), pace=pacer)


def _pacer(store: ObjectStore, limits: _Limits) -> Pacer | None:
    if limits.deletes_per_second is None:
        return None
    pacer = Pacer(limits.deletes_per_second, store.delete_batch_size)
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        pacer.hold_back()
    return pacer


def delete_batch(store: ObjectStore, batch: pa.RecordBatch, pace: Pace | None = None) -> pa.RecordBatch:
    """Delete one batch of expired addresses.

    Args:
        store: Rooted at the namespace.
        batch: Columns of `schemas.EXPIRED_ADDRESSES`, and `attempts`: how often each was tried before.
        pace: Called before each request; waits so that a limit is kept.

    Returns:
        Columns of `schemas.DELETION_REPORT`, a row per row of `batch`.

    Raises:
        UnsafePlanError: If the store does not answer for each object.
    """
    addresses = batch.column("address").to_pylist()
    outcomes = store.delete(addresses) if pace is None else store.delete(addresses, pace=pace)
    answered = [outcome.key for outcome in outcomes]
    if answered != addresses:
        raise UnsafePlanError(
            f"the store answered for {len(answered)} of {len(addresses)} objects of a batch; what it did is unknown. "
            "Run the sweep again: it looks at each object."
        )
    done = [datetime.now(UTC) if outcome.outcome == "deleted" else None for outcome in outcomes]
    return pa.record_batch(
        [
            batch.column("address"),
            batch.column("size_bytes"),
            pa.array([outcome.outcome for outcome in outcomes], pa.string()),
            pa.array([outcome.error for outcome in outcomes], pa.string()),
            pc.add(batch.column("attempts"), pa.scalar(1, pa.int32())),
            pa.array(done, schemas.INSTANT),
        ],
        schema=schemas.DELETION_REPORT,
    )


def _measure(batch: pa.RecordBatch) -> Mapping[str, int]:
    figures = {}
    for outcome in OUTCOMES:
        chosen = pc.equal(batch.column("outcome"), outcome)
        figures[f"{outcome}_objects"] = pc.sum(chosen).as_py() or 0
        figures[f"{outcome}_bytes"] = pc.sum(pc.if_else(chosen, batch.column("size_bytes"), 0)).as_py() or 0
    return figures
