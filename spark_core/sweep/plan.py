"""What may be swept: every row of the plan, in the same repository, after earlier sweeps."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.candidates import (
    CANDIDATE,
    INHERITED,
    PROTECTED,
    STRANGER,
    UPLOAD,
    YOUNG,
    Limits,
    standings_of,
)
from spark_core.errors import (
    ChainError,
    ClosedPartitionError,
    CorruptTableError,
    RepositoryStateError,
    UnsafePlanError,
)
from spark_core.model import RunKey
from spark_core.records import journal, tables
from spark_core.records.figures import ListedFigures
from spark_core.records.reading import StoredTable, load_table
from spark_core.records.swept import left_by_sweep
from spark_core.run import Run, require_alone
from spark_core.spark.exchange import Batches
from spark_core.storage import ObjectStore


def require_unfinished(run: Run) -> StoredTable | None:
    """Return the report of an earlier sweep that left objects, if there is one.

    Raises:
        ClosedPartitionError: If an earlier sweep left none.
        UnsafePlanError: If an earlier sweep died, and somebody has ended its journal. Under the
            lease nobody does that any more.
    """
    earlier = None
    if run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        earlier = run.load(tables.DELETION_REPORT, anew=True)
        if not any(left_by_sweep(earlier.manifest)):
            raise ClosedPartitionError(
                f"run {run.key} of {run.repository.id} was swept at "
                f"{earlier.manifest.reading_ended.isoformat()}",
                "Its report stands; use a new run key.",
            )
    end = journal.ended(run.store, run.key)
    if end is not None:
        raise UnsafePlanError(
            f"the sweep of run {run.key} of {run.repository.id} left no report of its end, and run "
            f"{end.ended_by} ended it at {end.ended_at.isoformat()}: {end.words}; nobody goes on "
            "with it",
            f"A newer run takes what it left. `lakegc restore {run.repository.id} {run.key}` "
            "brings back what lies in quarantine.",
        )
    return earlier


def has_ended(store: ObjectStore, key: RunKey) -> bool:
    """Say whether the report of a sweep tells all, or somebody has ended its journal."""
    try:
        if journal.ended(store, key) is not None:
            return True
        return not any(left_by_sweep(load_table(store, tables.DELETION_REPORT, key).manifest))
    except (ChainError, CorruptTableError):
        return False


def require_same_mark(run: Run, earlier: StoredTable, expired: StoredTable) -> None:
    """Refuse to go on with the sweep of another plan.

    Raises:
        ChainError: If the earlier report is not of these expired addresses.
    """
    swept = earlier.manifest.parents.get(tables.EXPIRED_ADDRESSES.name)
    if swept != expired.manifest.sha256:
        raise ChainError(
            f"run {run.key} of {run.repository.id} was swept by another plan (manifest "
            f"{str(swept)[:12]}, stored is {expired.manifest.sha256[:12]}): its report does not "
            "show what is gone",
            "Mark again under a new run key.",
        )


def require_whole_plan(run: Run, expired: StoredTable, limits: Limits) -> None:
    """Read the whole plan once before the first deletion.

    The call checks every part's hash, and every row's right to be in the plan.

    Parts are deleted in parallel. Without this pass a damaged part would stop the sweep only after
    other parts were deleted.

    Raises:
        CorruptTableError: If a part is damaged.
        UnsafePlanError: If a row may not be deleted, or rows are missing.
    """
    rows = sum(expired.source().each(lambda: run.spark, partial(_check, limits)))
    if rows != expired.manifest.rows:
        raise UnsafePlanError(
            f"the plan of run {run.key} has {rows} rows, its manifest says {expired.manifest.rows}",
            "Mark again under a new run key.",
        )


def _check(limits: Limits, batches: Batches) -> int:
    rows = 0
    for batch in batches:
        require_allowed(batch, limits)
        rows += batch.num_rows
    return rows


def require_allowed(batch: pa.RecordBatch, limits: Limits) -> None:
    """Apply the rule of what may be collected to each row of a plan.

    Raises:
        UnsafePlanError: If a row is no candidate by its name or its age.
    """
    found = standings_of(batch, limits)
    others = batch.column("address").filter(pc.not_equal(found, CANDIDATE))
    if len(others):
        address = min(others.to_pylist())
        (standing,) = found.filter(pc.equal(batch.column("address"), address)).unique().to_pylist()
        raise UnsafePlanError(
            f"the plan names {address!r}, which {_why(standing, limits)}",
            "Mark again under a new run key.",
        )


def _why(standing: str, limits: Limits) -> str:
    """Say what keeps an object with this standing."""
    return {
        PROTECTED: "lies outside data/ or has a name that is never collected",
        YOUNG: f"was written, or its address given out, at or after {limits.cutoff.isoformat()}",
        UPLOAD: f"is of an upload that began at or after {limits.uploads_cutoff.isoformat()} and "
        "may still go on",
        STRANGER: 'has a name that lakeFS does not give (strangers = "keep")',
        INHERITED: 'is older than the repository (inherited = "keep")',
    }[standing]


def require_unchanged_repository(run: Run, expired: StoredTable) -> None:
    """Ask for the repository again, once the server's cache cannot show a deleted one any more.

    For some seconds after a deletion the server describes the repository as before and shows it as
    empty (safety 21). The time since the run's first answer counts, so a mark of an ordinary size
    does not wait.

    Args:
        run: The run.
        expired: The run's expired addresses.

    Raises:
        NotFoundError: If the repository is gone.
        RepositoryStateError: If it was replaced, shows no branch, is described differently, or
            shares its namespace now; or if its server may compact what is staged, and could not
            when the run was marked.
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
            f"repository {run.repository.id} changed since run {run.key} was marked (it was "
            f"{run.repository}, now it is {now} with {len(branches)} branches)",
            "Mark again under a new run key.",
        )
    run.require_same_instance(expired.manifest)
    _require_same_edition(run)
    require_alone(run)


def _require_same_edition(run: Run) -> None:
    """Refuse if the server has become one that may compact what is staged (safety 63).

    A mark of an open server looked for nothing that a branch may have compacted.
    """
    marked = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    if run.options.compacted != "keep" or marked.may_compact:
        return
    if run.server.storage_config(run.repository).may_compact:
        raise RepositoryStateError(
            f"the server of {run.repository.id} was an open one when run {run.key} was marked, and "
            "now it may compact what is staged",
            "Mark again under a new run key.",
        )
