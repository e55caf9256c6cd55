"""Sweep: delete what a mark with a passed verdict names, and record the outcome of each object.

A sweep has a plan, a journal and outcomes. The plan is the mark's and never changes. Every batch
writes down what it is about to delete before it asks the store, and what the store answered
afterwards. The report is made from the journal, so it does not matter which process deleted what.
When a process was killed, another one goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from spark_core import schemas
from spark_core.addresses.candidates import Limits
from spark_core.checks import sweepable, verdict
from spark_core.errors import ChainError, LakegcError, UnsafePlanError
from spark_core.lock import lease
from spark_core.lock.held_lease import Lease
from spark_core.phases import Deleting, phase
from spark_core.records import tables
from spark_core.records.figures import DeletionFigures, ExpiredFigures
from spark_core.records.journal import Journal
from spark_core.records.journal import folder as journal_folder
from spark_core.records.reading import StoredTable, source_of_parts
from spark_core.records.writing import Draft, parts_of
from spark_core.references import policy_rows
from spark_core.references.policy_rows import PolicyRows
from spark_core.run import Run
from spark_core.spark.failures import spark_failures
from spark_core.spark.session import runs_here
from spark_core.storage import ObjectStore
from spark_core.storage.outcomes import Outcomes, Pace
from spark_core.storage.probes import require_deletable
from spark_core.sweep import quarantine, references_now
from spark_core.sweep.dead_sweeps import dead_sweeps, end_journal
from spark_core.sweep.deletion_orders import Dispose, delete
from spark_core.sweep.deletion_report import measure, write_report
from spark_core.sweep.deletion_report import require_complete as require_complete
from spark_core.sweep.first_sweep import require_answered
from spark_core.sweep.leftovers import recheck_leftovers
from spark_core.sweep.objects_now import Row
from spark_core.sweep.plan import has_ended as has_ended
from spark_core.sweep.plan import require_same_mark, require_unfinished, require_whole_plan
from spark_core.sweep.plan import require_unchanged_repository as require_unchanged_repository
from spark_core.sweep.policy_now import ByPolicy
from spark_core.sweep.progress import OnProgress as OnProgress
from spark_core.sweep.progress import Progress as Progress
from spark_core.sweep.progress import unheard as unheard
from spark_core.sweep.rounds import SweepPlan, Swept, delete_in_rounds, deletes_here


def sweep(run: Run, tell: OnProgress = unheard) -> Draft:
    """Delete the objects of a mark; also after an earlier sweep that left some or was killed.

    The verdict is read from the store, not believed from the caller. The repository is asked for
    again after the server's cache of a deletion has run out, and must be the same instance (safety
    21). Objects that came back to life since the mark are kept.

    Args:
        run: The run.
        tell: Called with the progress.

    Returns:
        Columns of `schemas.DELETION_REPORT`, key address: a row per object of the mark. When this
        returns, everything that can be deleted is deleted.

    Raises:
        UnsafePlanError: If deleting is switched off for the repository, the store cannot keep
            collectors apart, or the run's sweep died and somebody has ended its journal.
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


def require_switched_on(run: Run) -> None:
    """Refuse to sweep a repository whose mode does not say so.

    Raises:
        UnsafePlanError: If its mode is `mark`.
    """
    if not run.options.may_sweep:
        raise UnsafePlanError(
            f"deleting is switched off for {run.repository.id}: its mode is `mark`",
            'Read the report of the mark; when it is right, set mode = "sweep" for this '
            "repository.",
        )


def _sweep(run: Run, tell: OnProgress, done: Deleting) -> Draft:
    require_switched_on(run)
    earlier = require_unfinished(run)
    _, expired = sweepable.require_sweepable(run)
    limits = run.limits
    _require_ready(run, expired, earlier, limits)
    began = run.now()
    journal = Journal(run.store, str(run.key), expired.manifest.sha256)
    by_policy = policy_rows.of_plan(run, expired)
    swept = None
    if expired.manifest.rows:
        on_this_machine = deletes_here(expired) or runs_here(run.spark)
        with lease.hold_lease(run, on_this_machine=on_this_machine) as held:
            # Another process may have come between the search for an earlier report and the lease.
            earlier = require_unfinished(run)
            resumed = journal.bind(run.instance, quarantine=bool(run.options.quarantine))
            if earlier is not None and not resumed:
                raise _no_journal(run)
            for dead in dead_sweeps(run):
                # House-keeping tells why one could not be ended; this sweep needs none of them.
                try:
                    end_journal(run, held, dead)
                except spark_failures(LakegcError):
                    continue
            plan = SweepPlan(
                expired,
                verdict.load_mark(run),
                limits,
                references_now.reader_of_references(_noted(run, expired, by_policy)),
                _dispose(run),
            )
            swept = _delete(run, plan, journal, held, tell, done=done, resumed=resumed)
    told = None if swept is None else write_report(run, expired, journal)
    if told is not None and by_policy is not None:
        outcomes = source_of_parts(run.store, policy_rows.OUTCOMES, parts_of(told.receipts))
        policy_rows.note_what_went(run, expired, outcomes)
    return Draft(
        tables.DELETION_REPORT,
        schemas.DELETION_REPORT.empty_table() if told is None else told,
        began,
        parents=(expired.manifest,),
        figures=lambda measured, _: _figures(run, expired, swept, earlier, measured),
        measure=measure,
        replaces=None if earlier is None else earlier.manifest.sha256,
    )


def _require_ready(
    run: Run, expired: StoredTable, earlier: StoredTable | None, limits: Limits
) -> None:
    """Refuse before anything is written: what may not be deleted at all, or not by this process."""
    if expired.manifest.rows:
        require_answered(run)
        if not deletes_here(expired):
            run.environment.start_spark()
        require_deletable(run.store)
    require_whole_plan(run, expired, limits)
    require_unchanged_repository(run, expired)
    if earlier is not None:
        require_same_mark(run, earlier, expired)


def _delete(
    run: Run,
    plan: SweepPlan,
    journal: Journal,
    held: Lease,
    tell: OnProgress,
    *,
    done: Deleting,
    resumed: bool,
) -> Swept:
    """Delete what is left of a plan, and look again at what others may have deleted meanwhile."""
    swept = delete_in_rounds(run, plan, journal, held, tell, sent=done)
    if resumed or held.sent_until is not None:
        left = [row[0] for row in swept.tally.left]
        gone = recheck_leftovers(run, journal, held.sent_until, left)
        swept.tally.left = [row for row in swept.tally.left if row[0] not in gone]
    return swept


def _noted(run: Run, expired: StoredTable, rows: PolicyRows | None) -> ByPolicy | None:
    """Note what of a plan goes by the retention policy, and return it; None for nothing.

    It is noted before the first deletion: its entries stay, and later marks must know why its
    objects are gone.
    """
    if rows is None:
        return None
    policy_rows.note_before_deleting(run, expired)
    digest = rows.named.policy_digest
    return ByPolicy(rows.source(run), rows.total[0], digest, any_staged=rows.staged[0] > 0)


def _dispose(run: Run) -> Dispose:
    return partial(_to_quarantine, str(run.key)) if run.options.quarantine else delete


def _to_quarantine(
    run_key: str, store: ObjectStore, rows: Mapping[str, Row], pace: Pace
) -> Outcomes:
    return quarantine.move(store, run_key, list(rows), seen=rows, pace=pace)


def _figures(
    run: Run,
    expired: StoredTable,
    swept: Swept | None,
    earlier: StoredTable | None,
    measured: Mapping[str, Any],
) -> DeletionFigures:
    promised = quarantine.figures(run, None if earlier is None else earlier.manifest)
    planned = ExpiredFigures.of(expired.manifest)
    figures = DeletionFigures(
        planned_objects=expired.manifest.rows,
        planned_bytes=planned.expired_bytes if planned.by_class else None,
        planned_by_class=planned.bytes_by_class or None,
        **vars(promised),
        **measured,
    )
    if swept is None:
        return figures
    left = tuple((address, outcome, error) for address, outcome, error in swept.tally.left)
    return replace(
        figures,
        rounds=swept.rounds,
        left_named=left,
        second_look=swept.second_look,
        store_was_busy=swept.tally.busy,
        store_keys_per_second=swept.store_keys_per_second,
    )


def _no_journal(run: Run) -> ChainError:
    return ChainError(
        f"run {run.key} of {run.repository.id} has a report of an earlier sweep and no journal of "
        "it: what is gone cannot be told",
        "Mark again under a new run key.",
    )
