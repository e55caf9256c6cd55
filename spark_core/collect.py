"""A whole mark and a whole sweep in this process, for programs that bring no orchestrator along."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_core import mark, report
from spark_core import sweep as sweeping
from spark_core.checks import CheckResult, verdict
from spark_core.checks.verdict import Verdict
from spark_core.errors import ChainError, ClosedPartitionError, DeletionFailedError, RefusedError
from spark_core.phases import NOTHING_DELETED, SWEEP_STANDS, phase
from spark_core.records import tables
from spark_core.records.tables import Draft, StoredTable, TableSpec
from spark_core.reference_job import reference_writer
from spark_core.run import Run

# Told (`started`, `progressed`, `stored` or `checked`, name of the table, details) while the work goes on.
OnEvent = Callable[[str, str, Mapping[str, Any]], None]


def mark_and_conclude(run: Run, on_event: OnEvent) -> Verdict:
    """Make the five tables of a mark in their order, check them and store the verdict.

    Args:
        run: The run.
        on_event: Told of every table.

    Returns:
        The verdict, passed or not. A passed one is followed by a mark for the reference job, where the options ask for it.

    Raises:
        LakegcError: What any step raised; the steps before it stay stored.
    """
    with phase(NOTHING_DELETED):
        return _mark_and_conclude(run, on_event)


def _mark_and_conclude(run: Run, on_event: OnEvent) -> Verdict:
    slices = _keep(run, tables.NAMESPACE_SLICES, lambda: mark.namespace_slices(run), on_event)
    uncommitted = _keep(run, tables.UNCOMMITTED_ADDRESSES, lambda: mark.uncommitted_addresses(run, slices), on_event)
    commits = _keep(run, tables.RETAINED_COMMITS, lambda: mark.retained_commits(run, uncommitted), on_event)
    committed = _keep(run, tables.COMMITTED_ADDRESSES, lambda: mark.committed_addresses(run, commits), on_event)
    made = mark.Mark(slices, uncommitted, commits, committed)
    _keep(run, tables.EXPIRED_ADDRESSES, lambda: mark.expired_addresses(run, made), on_event)
    concluded = conclude(run)
    for result in concluded.results:
        on_event("checked", result.table, {"name": result.name, "passed": result.allows, "summary": result.summary})
    return concluded.verdict


@dataclass(frozen=True)
class Concluded:
    """The end of a mark.

    Attributes:
        verdict: As stored, passed or not.
        results: What the checks found.
        page: Where the report's page lies, or why there is none, as `report.make` tells it.
    """

    verdict: Verdict
    results: Sequence[CheckResult]
    page: Mapping[str, str]

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


def conclude(run: Run) -> Concluded:
    """End a mark whose tables are stored: verdict, report, and the mark for lakeFS's own job where it is asked for.

    Done again for a run that has a verdict, the verdict stands, and what is missing of the rest is made.

    Args:
        run: The run.

    Raises:
        ChainError: If a table is missing.
        ObjectExistsError: If another mark lies where this one is to be written for the reference job.
    """
    found, results = verdict.conclude(run)
    page = report.make(run)
    reference_writer.write_if_asked(run, found)
    return Concluded(found, results, page)


def sweep(run: Run, on_event: OnEvent) -> StoredTable:
    """Delete what a mark with a passed verdict names, and store what happened to each object.

    Args:
        run: The run.
        on_event: Told of the table.

    Returns:
        The deletion report as stored; `sweep.require_complete` says whether everything is gone.

    Raises:
        LakegcError: Why the sweep was refused.
    """

    def tell(progress: sweeping.Progress) -> None:
        on_event("progressed", tables.DELETION_REPORT.name, {"summary": str(progress), "progress": progress})

    # Until it has its draft the sweep speaks for itself; then only the report is left to be stored.
    with phase(SWEEP_STANDS):
        return _keep(run, tables.DELETION_REPORT, lambda: delete(run, tell), on_event)


def delete(run: Run, tell: sweeping.OnProgress, *, again: bool = False) -> Draft | StoredTable:
    """Sweep a mark; one that is refused leaves the mark's report behind all the same.

    Args:
        run: The run.
        tell: Told of the progress.
        again: This process tried before, and waited: a sweep to the end that it finds stored now is what it wanted.

    Returns:
        The deletion report, for `keep`; as stored where another process, or this one before, swept the run to its end.

    Raises:
        LakegcError: Why the sweep was refused.
    """
    try:
        return sweeping.sweep(run, tell)
    except ClosedPartitionError:
        if again:
            return run.load(tables.DELETION_REPORT)
        report.make(run)
        raise
    except RefusedError:
        report.make(run)
        raise


def keep(run: Run, made: Draft | StoredTable) -> tuple[StoredTable, Mapping[str, str]]:
    """Store a table of a run; that of a sweep is followed by its report, also where the store did not delete everything.

    Args:
        run: The run.
        made: The table; one that is stored stays as it is.

    Returns:
        The table, and of a sweep where the page lies, as `report.make` tells it.
    """
    if isinstance(made, StoredTable):
        stored = made
    else:
        stored = _keep_sweep(run, made) if made.spec is tables.DELETION_REPORT else run.keep(made)
    swept = stored.manifest.table == tables.DELETION_REPORT.name
    return stored, report.make(run, just_swept=True) if swept else {}


def _keep_sweep(run: Run, draft: Draft) -> StoredTable:
    """Store the report of a sweep; the one that another process made of the same journal meanwhile is as good.

    A sweep that waited for another begins when that one gives its lease back, which is before its report is stored.
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


def _keep(run: Run, spec: TableSpec, make: Callable[[], Draft | StoredTable], on_event: OnEvent) -> StoredTable:
    on_event("started", spec.name, {})
    stored, _ = keep(run, make())
    manifest = stored.manifest
    seconds = (manifest.reading_ended - manifest.reading_began).total_seconds()
    on_event("stored", spec.name, {"rows": manifest.rows, "size_bytes": manifest.size_bytes, "seconds": seconds})
    return stored
