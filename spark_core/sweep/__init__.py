"""Sweep: delete what a mark with a passed verdict names, and record what the store answered for each object.

Plan, journal, outcome. The plan is the mark's, and never changes. Every batch
writes down what it is about to delete before it asks the store, and what the
store said after. The report is made from that, so it does not matter which
process did what: one that was killed is followed by another that goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spark_core.checks import verdict
from spark_core.errors import ChainError, IncompleteReadError, UnsafePlanError
from spark_core.lock import lease
from spark_core.phases import Deleting, phase
from spark_core.records import tables
from spark_core.records.journal import Journal
from spark_core.records.journal import folder as journal_folder
from spark_core.records.tables import Draft, StoredTable
from spark_core.run import Run
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import Settled, settled
from spark_core.storage import ObjectStore
from spark_core.storage.contract import Outcomes, Pace
from spark_core.storage.probes import require_deletable
from spark_core.sweep import quarantine, revival
from spark_core.sweep.aftermath import settle_left
from spark_core.sweep.batches import Dispose, delete
from spark_core.sweep.outcomes import FINAL, OUTCOMES, empty_report, measure, report, require_complete
from spark_core.sweep.plan import require_same_mark, require_settled, require_unfinished, require_whole_plan
from spark_core.sweep.progress import OnProgress, Progress, unheard
from spark_core.sweep.rounds import Plan, Swept, delete_in_rounds

__all__ = ["FINAL", "OUTCOMES", "OnProgress", "Progress", "require_complete", "require_settled", "sweep", "unheard"]


def sweep(run: Run, tell: OnProgress = unheard) -> Draft:
    """Delete the objects of a mark; again, where an earlier sweep of it left some or was killed.

    The verdict is read from the store, not believed from the caller. The
    repository is asked for again after the server's cache of a deletion has
    run out, and must be the same instance (safety 21). What came back to life
    since the mark is kept.

    Args:
        run: The run.
        tell: Told of the progress.

    Returns:
        Columns of `schemas.DELETION_REPORT`, key address: a row per object of the mark. When this returns, everything is
        deleted that can be.

    Raises:
        UnsafePlanError: If deleting is not switched on for the repository, or the store cannot keep collectors apart.
        VerdictError: If the stored verdict does not allow it.
        ChainError: If an earlier sweep of the run was of another mark.
        PermissionDeniedError: If the store may be listed but not deleted in.
        RepositoryStateError: If the repository was deleted or replaced.
        ClosedPartitionError: If the run was swept to its end already.
        LeaseHeldError: If another collector has the namespace.
    """
    done = Deleting(f"{run.store.root}{journal_folder(run.key)}")
    with phase(done):
        return _sweep(run, tell, done)


def _sweep(run: Run, tell: OnProgress, done: Deleting) -> Draft:
    if not run.options.may_sweep:
        raise UnsafePlanError(
            f"deleting is switched off for {run.repository.id}: its mode is `mark`",
            'Read the report of the mark; when it is right, set mode = "sweep" for this repository.',
        )
    earlier = require_unfinished(run)
    _, expired = verdict.require_sweepable(run)
    limits = run.limits
    if expired.manifest.rows:
        require_deletable(run.store)
    require_whole_plan(run, expired, limits)
    require_settled(run, expired)
    if earlier is not None:
        require_same_mark(run, earlier, expired)
    began = run.now()
    journal = Journal(run.store, str(run.key), expired.manifest.sha256)
    swept = None
    if expired.manifest.rows:
        with lease.held(run) as held:
            # Another process may have come between the look for an earlier report and the lease.
            earlier = require_unfinished(run)
            resumed = journal.bind(run.instance, quarantine=run.options.quarantine)
            if earlier is not None and not resumed:
                raise _no_journal(run)
            plan = Plan(expired, verdict.load_mark(run), limits, revival.look_again(), _dispose(run))
            swept = delete_in_rounds(run, plan, journal, held, tell, sent=done)
            if swept.lost_until is not None:
                held.leave_under_way(swept.lost_until)
            if resumed or swept.lost_until is not None:
                ends = [until for until in (held.earlier_until, swept.lost_until) if until is not None]
                gone = settle_left(run, journal, max(ends, default=None), [row[0] for row in swept.tally.left])
                swept.tally.left = [row for row in swept.tally.left if row[0] not in gone]
    told = None if swept is None else _report(run, expired, journal)
    return Draft(
        tables.DELETION_REPORT,
        empty_report() if told is None else told.frame if told.rows is None else told.rows,
        began,
        parents=(expired.manifest,),
        facts=lambda _: _facts(run, expired, swept, earlier),
        measure=measure,
        replaces=None if earlier is None else earlier.manifest.sha256,
        close=lambda: None if told is None else told.release(),
    )


@surfacing_errors()
def _report(run: Run, expired: StoredTable, journal: Journal) -> Settled:
    """Tell the report of a sweep that is done from its journal, which has an outcome of each object of the plan.

    Objects are counted, not the journal's rows: one that failed before, or whose task ran twice, has several.

    Raises:
        IncompleteReadError: If an object had none, twice: the journal was not listed whole.
    """
    planned = expired.manifest.rows
    for _ in range(2):
        rows = report(expired.frame(run.spark), journal.frame(run.spark, journal.parts()))
        # A row per object of the plan at most.
        told = settled(rows, is_small=expired.is_small)
        count = told.frame.count() if told.rows is None else told.rows.num_rows
        if count == planned:
            return told
        told.release()
    raise IncompleteReadError(
        f"run {run.key} of {run.repository.id}: the journal as it is listed tells of {count} of {planned} objects, and each was "
        f"written down ({journal.folder})",
        "Run the same command again.",
    )


def _dispose(run: Run) -> Dispose:
    return partial(_to_quarantine, str(run.key)) if run.options.quarantine else delete


def _to_quarantine(run_key: str, store: ObjectStore, addresses: Sequence[str], pace: Pace) -> Outcomes:
    return quarantine.move(store, run_key, addresses, pace=pace)


def _facts(run: Run, expired: StoredTable, swept: Swept | None, earlier: StoredTable | None) -> Mapping[str, Any]:
    promised = None if earlier is None else earlier.manifest
    facts: dict[str, Any] = {"planned_objects": expired.manifest.rows, **quarantine.facts(run, promised)}
    if swept is not None:
        facts |= {
            "rounds": swept.rounds,
            "left_named": [list(row) for row in swept.tally.left],
            "second_look": swept.second_look,
        }
    return facts


def _no_journal(run: Run) -> ChainError:
    return ChainError(
        f"run {run.key} of {run.repository.id} has a report of an earlier sweep and no journal of it: what is gone cannot be "
        "told",
        "Mark again under a new run key.",
    )
