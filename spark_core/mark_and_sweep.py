"""A whole run in this process: a mark, a sweep, or both, as every command and program drives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spark_core import mark, report
from spark_core import sweep as sweeping
from spark_core.checks import CheckResult, verdict
from spark_core.errors import (
    ChainError,
    ClosedPartitionError,
    DeletionFailedError,
    LakegcError,
    RefusedError,
)
from spark_core.events import Event, OnEvent
from spark_core.handover import reference_mark
from spark_core.model import Job
from spark_core.phases import NOTHING_BY_THIS_SWEEP, NOTHING_DELETED, SWEEP_STANDS, phase
from spark_core.records import storing, tables
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.records.tables import TableSpec
from spark_core.records.verdict_document import Verdict
from spark_core.records.writing import Draft
from spark_core.references.policies import expirations as policies
from spark_core.report import Report
from spark_core.report.past_runs import require_known
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.placement import Work
from spark_core.sweep.plan import require_unfinished
from spark_core.tries import until_done
from spark_core.upkeep import house_keeping


@dataclass
class Collected:
    """What a run did, and what ended it.

    Attributes:
        run: The run.
        job: What was asked of it.
        manifests: The tables that are stored, by name.
        checks: What the checks of the mark said.
        report: The report of the sweep, or of a mark that was not swept; None if there is none.
        house: What house-keeping did and found, in words; None if there was none.
        error: The refusal or failure that ended it; None if all was done.
        work: Who did the work.
    """

    run: Run
    job: Job
    manifests: dict[str, Manifest] = field(default_factory=dict)
    checks: Sequence[CheckResult] = ()
    report: Report | None = None
    house: str | None = None
    error: LakegcError | None = None
    work: Work = field(default_factory=Work)


def collect(run: Run, job: Job, on_event: OnEvent = lambda _: None) -> Collected:
    """Mark a repository, sweep its mark, or do both, and keep house.

    A step is tried again where that may help (`spark_core.tries`).

    Args:
        run: The run.
        job: What to do.
        on_event: Told of every step of every table.

    Returns:
        What was done. An error of lakegc that ended it is in it, and not raised.

    Examples:
        >>> collect(run, "mark").error.kind  # this run was marked before
        'ClosedPartitionError'
    """
    done, before = Collected(run, job), placement.work_so_far()

    def tell(event: Event) -> None:
        if event.kind == "stored":
            done.manifests[event.table] = run.load(tables.BY_NAME[event.table]).manifest
        on_event(event)

    try:
        _collect(done, tell)
    except LakegcError as error:
        done.error = error
    done.work = placement.work_so_far().since(before)
    return done


def _collect(done: Collected, on_event: OnEvent) -> None:
    run, job, clock = done.run, done.job, done.run.environment.clock

    def heard(event: Event) -> None:
        # Whether a refusal is a failure, the caller says: a run that was swept needs nothing more.
        if event.kind != "failed":
            on_event(event)

    with phase(NOTHING_BY_THIS_SWEEP if job == "sweep" else NOTHING_DELETED):
        if job != "mark":
            until_done(lambda _: require_possible(run, job), first_table(job), heard, clock)
        if placement.default_master() is None:
            # YARN takes a program that never asks for its session for one that failed.
            run.environment.spark()
    if job != "sweep":
        concluded = mark_and_conclude(run, on_event)
        done.checks, done.report = concluded.results, concluded.report
        refused = verdict.refusal_of(run.repository.id, run.key, concluded.results)
        if refused is not None or not concluded.verdict.passed:
            raise refused or verdict.not_passed(run.repository.id, run.key, "it did not pass")
    if job != "mark":
        stored = sweep(run, on_event)
        with phase(SWEEP_STANDS):
            _, done.report = report.make(run)
            sweeping.require_complete(stored)
    with phase(NOTHING_DELETED if job == "mark" else SWEEP_STANDS):
        done.house = house_keeping.after_run(run).words


def first_table(job: Job) -> str:
    """Return the name of the table that a job makes first."""
    return (tables.DELETION_REPORT if job == "sweep" else tables.NAMESPACE_SLICES).name


def require_possible(run: Run, job: Job) -> None:
    """Refuse what no run of a key can do; a few small reads of the store, and no Spark.

    Args:
        run: The run.
        job: What is asked of it.

    Raises:
        UnsafePlanError: If the repository's mode forbids the sweep.
        ClosedPartitionError: If the run was marked or swept already.
        NotFoundError: If there is no such run to sweep.
        VerdictError: If its mark did not end.
    """
    if job != "mark":
        sweeping.require_switched_on(run)
    if job != "sweep":
        storing.require_open(run.store, tables.NAMESPACE_SLICES, run.key)
        return
    require_known(run.store, run.repository.id, run.key)
    require_unfinished(run)
    verdict.load(run)


def mark_and_conclude(run: Run, on_event: OnEvent) -> Concluded:
    """Make the five tables of a mark in their order, check them and store the verdict.

    Args:
        run: The run.
        on_event: Called for every table.

    Raises:
        LakegcError: The error of any step; the steps before it stay stored.
    """
    made: dict[str, StoredTable] = {}
    named, clock = tables.POLICY_EXPIRATIONS, run.environment.clock
    with phase(NOTHING_DELETED):
        for spec in tables.MARK_TABLES:
            if spec is tables.EXPIRED_ADDRESSES:
                until_done(lambda _: policies.store_if_asked(run), named.name, on_event, clock)
            made[spec.name] = _keep(run, spec, partial(mark.make, run, spec, made), on_event)
        concluded = until_done(lambda _: conclude_and_report(run), "verdict", on_event, clock)
        for result in concluded.results:
            on_event(Event.checked(result))
    return concluded


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


def _keep(
    run: Run, spec: TableSpec, make: Callable[[], Draft | StoredTable], on_event: OnEvent
) -> StoredTable:
    on_event(Event("started", spec.name))
    stored, _ = until_done(lambda _: keep(run, make()), spec.name, on_event, run.environment.clock)
    on_event(Event.stored(stored.manifest))
    return stored
