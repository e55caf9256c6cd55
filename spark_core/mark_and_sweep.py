"""A whole mark and a whole sweep in this process, for programs without an orchestrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from spark_core import mark, report
from spark_core import sweep as sweeping
from spark_core.checks import CheckResult, verdict
from spark_core.errors import ChainError, ClosedPartitionError, DeletionFailedError, RefusedError
from spark_core.events import Event, OnEvent
from spark_core.handover import reference_mark
from spark_core.phases import NOTHING_DELETED, SWEEP_STANDS, phase
from spark_core.records import tables
from spark_core.records.reading import StoredTable
from spark_core.records.tables import TableSpec
from spark_core.records.verdict_document import Verdict
from spark_core.records.writing import Draft
from spark_core.references.policies import expirations as policies
from spark_core.report import Report
from spark_core.run import Run


def collect(
    run: Run, on_event: OnEvent, show: Callable[[Run], None], *, marks: bool, sweeps: bool
) -> None:
    """Mark a repository, sweep its mark, or do both; what was found is shown before any refusal.

    Args:
        run: The run.
        on_event: Called for every table.
        show: Shows the report of a mark that nothing sweeps here, and that of a sweep.
        marks: Make the mark; else it is there.
        sweeps: Delete what it names.

    Raises:
        VerdictError: If the mark did not pass its checks; nothing was deleted.
        DeletionFailedError: If the store did not delete everything.
        LakegcError: The error of any step.
    """
    if marks:
        found = mark_and_conclude(run, on_event)
        if not found.passed or not sweeps:
            show(run)
        require_passed(run, found)
    if sweeps:
        stored = sweep(run, on_event)
        with phase(SWEEP_STANDS):
            show(run)
            sweeping.require_complete(stored)


def mark_and_conclude(run: Run, on_event: OnEvent) -> Verdict:
    """Make the five tables of a mark in their order, check them and store the verdict.

    Args:
        run: The run.
        on_event: Called for every table.

    Returns:
        The verdict, passed or not. After a passed verdict a mark for the reference job is written,
        where the options ask for it.

    Raises:
        LakegcError: The error of any step; the steps before it stay stored.
    """
    with phase(NOTHING_DELETED):
        return _mark_and_conclude(run, on_event)


def _mark_and_conclude(run: Run, on_event: OnEvent) -> Verdict:
    made: dict[str, StoredTable] = {}
    for spec in tables.MARK_TABLES:
        if spec is tables.EXPIRED_ADDRESSES:
            policies.store_if_asked(run)
        made[spec.name] = _keep(run, spec, partial(mark.make, run, spec, made), on_event)
    concluded = conclude_and_report(run)
    for result in concluded.results:
        on_event(Event.checked(result))
    return concluded.verdict


@dataclass(frozen=True)
class Concluded:
    """The end of a mark.

    Attributes:
        verdict: The stored verdict, passed or not.
        results: The results of the checks.
        page: The facts of `report.make`: where the report's page lies, or why there is none.
        report: The report; None if there is none.
    """

    verdict: Verdict
    results: Sequence[CheckResult]
    page: Mapping[str, str]
    report: Report | None

    @property
    def facts(self) -> Mapping[str, Any]:
        """Figures for people; JSON values only."""
        found = self.verdict
        return {
            "passed": found.passed,
            "failed": [check["name"] for check in found.failed],
            "concluded_at": found.concluded_at.isoformat(),
            "cutoff": found.cutoff,
            "expired_objects": found.expired_objects,
            "digest": found.digest,
            **self.page,
        }


def conclude_and_report(run: Run) -> Concluded:
    """End a mark whose tables are stored: write the verdict and the report.

    Where the options ask for it, also write the mark for lakeFS's own job.

    For a run that has a verdict, the verdict stands, and only the missing parts are made.

    Args:
        run: The run.

    Raises:
        ChainError: If a table is missing.
        ObjectExistsError: If another mark lies where this one must be written for the reference
            job.
    """
    found, results = verdict.conclude(run)
    page, made = report.make(run, just_marked=verdict.is_concluded(run))
    reference_mark.write_if_asked(run, found)
    return Concluded(found, results, page, made)


def sweep(run: Run, on_event: OnEvent) -> StoredTable:
    """Delete what a mark with a passed verdict names, and store what happened to each object.

    Args:
        run: The run.
        on_event: Called for the table.

    Returns:
        The stored deletion report; `sweep.require_complete` says whether everything is gone.

    Raises:
        LakegcError: Why the sweep was refused.
    """

    def tell(progress: sweeping.Progress) -> None:
        on_event(Event("progressed", tables.DELETION_REPORT.name, str(progress)))

    # Until the draft exists, the sweep reports its own errors. After that only the report must be
    # stored.
    with phase(SWEEP_STANDS):
        return _keep(run, tables.DELETION_REPORT, lambda: sweep_or_report(run, tell), on_event)


def sweep_or_report(run: Run, tell: sweeping.OnProgress) -> Draft | StoredTable:
    """Sweep a mark; a refused sweep still leaves the mark's report.

    Args:
        run: The run.
        tell: Called with the progress.

    Returns:
        The deletion report, as a draft for `keep`. It is the stored one if another process, or this
        one before, finished the sweep.

    Raises:
        LakegcError: Why the sweep was refused.
    """
    try:
        return sweeping.sweep(run, tell)
    except ClosedPartitionError:
        return run.load(tables.DELETION_REPORT)
    except RefusedError:
        report.make(run)
        raise


def keep(run: Run, made: Draft | StoredTable) -> tuple[StoredTable, Mapping[str, str]]:
    """Store a table of a run; after the table of a sweep, make its report page.

    The page is also made where the store did not delete everything.

    Args:
        run: The run.
        made: The table; a stored one stays as it is, and so does its page.

    Returns:
        The table; and, for a sweep, the facts of `report.make`, which say where the page lies.
    """
    if isinstance(made, StoredTable):
        swept = made.manifest.table == tables.DELETION_REPORT.name
        return made, report.as_stored(run, swept=True)[1] if swept else {}
    if made.spec is not tables.DELETION_REPORT:
        return run.keep(made), {}
    stored = _keep_sweep(run, made)
    return stored, report.make(run, just_swept=True)[0]


def _keep_sweep(run: Run, draft: Draft) -> StoredTable:
    """Store the report of a sweep, or accept the one that another process made of the same journal.

    A sweep that waits for another one begins when that one gives its lease back. The other one's
    report is stored only after that.
    """
    try:
        return run.keep(draft)
    except ChainError as other:
        there = run.load(tables.DELETION_REPORT)
        if there.manifest.parents != {parent.table: parent.sha256 for parent in draft.parents}:
            raise
        try:
            sweeping.require_complete(there)
        except DeletionFailedError:
            raise other from None
        return there


def require_passed(run: Run, found: Verdict) -> None:
    """Refuse to go on with a mark that did not pass.

    Raises:
        VerdictError: With the checks that failed.
    """
    failed = [f"{check['name']}: {check['summary']}" for check in found.failed]
    if failed or not found.passed:
        raise verdict.not_passed(run.repository.id, run.key, "; ".join(failed) or "it did not pass")


def _keep(
    run: Run, spec: TableSpec, make: Callable[[], Draft | StoredTable], on_event: OnEvent
) -> StoredTable:
    on_event(Event("started", spec.name))
    stored, _ = keep(run, make())
    on_event(Event.stored(stored.manifest))
    return stored
