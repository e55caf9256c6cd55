"""Run a job from a program: in this process, on the Dagster home that the UI shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import dagster as dg

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.in_dagster.failures import RETRIES, RETRY_AFTER, may_pass, refusal_of
from lakegc_dagster.in_dagster.pool_limit import limit_pool
from lakegc_dagster.in_dagster.private_doors import as_runs_of, share_log_handlers
from lakegc_dagster.launch.home import CODE_LOCATION, MODULE, open_instance
from lakegc_dagster.names import POOL
from lakegc_dagster.partitions import add_partition
from lakegc_dagster.resources import Observer, Wiring, build_resources
from lakegc_dagster.runs.job_names import JobName
from lakegc_dagster.runs.run_config import ops_config
from lakegc_dagster.schedules.nightly import WantedRun
from lakegc_dagster.terminal.who_acts import who
from spark_core.checks import CheckResult
from spark_core.errors import LakegcError, SameWorkError
from spark_core.events import Event, OnEvent
from spark_core.lakefs import Clock, SystemClock
from spark_core.model import RunKey
from spark_core.phases import SWEEP_STANDS, add_state, phase
from spark_core.records.manifest import Manifest
from spark_core.report import Report
from spark_core.run import Run
from spark_core.settings import Settings
from spark_core.settings.sections import LaunchSettings
from spark_core.spark import placement
from spark_core.spark.placement import Work
from spark_core.sweep import Progress
from spark_core.upkeep.house_keeping_result import House


@dataclass(frozen=True)
class LaunchResult:
    """The outcome of a job.

    Attributes:
        success: Every table was stored and every check passed.
        dagster_run_id: Where to find it in the UI; empty where the request was wrong, and Dagster
            got no run of it.
        error: The engine's own refusal or failure, if that ended it.
        message: One text for people when it did not succeed; of an error outside the engine without
            `state`.
        manifests: The tables that this job stored, by name.
        checks: What the checks said, in the order in which they ran.
        house: What house-keeping did and found, in words; None if there was none.
        state: What had been done when an error outside the engine ended it, in a sentence; None if
            nobody knows.
        marked: The run and the report of a mark that this job concluded, if it swept nothing; None
            if there is no report.
        work: Who did the work of its steps.
    """

    success: bool
    dagster_run_id: str
    error: LakegcError | None
    message: str | None
    manifests: Mapping[str, Manifest]
    checks: Sequence[CheckResult]
    house: str | None = None
    state: str | None = None
    marked: tuple[Run, Report] | None = None
    work: Work = field(default_factory=Work)

    def failure(self, what: str) -> LakegcError:
        """Return the error of a job that did not succeed; it says once what had been done.

        Args:
            what: The beginning of the message, where no error of the engine ended the job.
        """
        if self.error is not None:
            return self.error
        error = LakegcError(
            f"{what}: {self.message}", "The run's events are in the UI (`lakegc ui`)."
        )
        return error if self.state is None else add_state(error, self.state)


@dataclass
class _Recorder(Observer):
    """Keeps the events of a run, and passes them on."""

    on_event: OnEvent
    manifests: dict[str, Manifest] = field(default_factory=dict)
    checks: list[CheckResult] = field(default_factory=list)
    error: LakegcError | None = None
    house: str | None = None
    state: str | None = None
    marked: tuple[Run, Report] | None = None
    tries: Counter[str] = field(default_factory=Counter)
    table: str = ""

    def started(self, table: str) -> None:
        self.table = table
        self.error = self.state = None  # a retry that begins has not failed yet
        self.on_event(Event("started", table))

    def progressed(self, table: str, progress: Progress) -> None:
        self.on_event(Event("progressed", table, str(progress)))

    def stored(self, manifest: Manifest) -> None:
        self.manifests[manifest.table] = manifest
        self.on_event(Event.stored(manifest))

    def checked(self, results: Sequence[CheckResult]) -> None:
        self.checks.extend(results)
        for result in results:
            self.on_event(Event.checked(result))

    def concluded(self, run: Run, report: Report | None) -> None:
        self.marked = None if report is None else (run, report)

    def failed(self, table: str, error: LakegcError) -> None:
        self.error = error
        if isinstance(error, SameWorkError):
            # Dagster tries the step again until the other process has ended.
            self.on_event(Event("waits", table, error.message))
            return
        self.tries[table] += 1
        again = may_pass(error) and self.tries[table] <= RETRIES
        kind: Literal["retries", "failed"] = "retries" if again else "failed"
        words = error.found if again else str(error)
        self.on_event(Event(kind, table, words, tries=self.tries[table]))

    def away(self, tries: int, words: str) -> None:
        self.on_event(Event("retries", self.table, words, tries=tries))

    def broke(self, table: str, state: str | None) -> None:  # noqa: ARG002 - observer's signature
        self.state = state

    def kept_house(self, house: House) -> None:
        self.house = house.words

    def refusal(self, repository_id: str, key: RunKey) -> LakegcError | None:
        """Return what ended the run: the raised error, else the checks that failed."""
        return self.error or refusal_of(repository_id, key, self.checks)


def prepare_runs(settings: Settings) -> None:
    """Make Dagster's home and its database, which runs side by side would make at the same time.

    Raises:
        LakegcError: If it cannot be made or used.
    """
    with open_instance(settings.dagster_home):
        pass


def launch(
    settings: Settings,
    job: JobName,
    repository_id: str,
    key: RunKey,
    *,
    is_new: bool = False,
    on_event: OnEvent | None = None,
    clock: Clock | None = None,
    retry_after: timedelta = RETRY_AFTER,
    reference_mark: str | None = None,
    take_over: str | None = None,
    full: bool = False,
) -> LaunchResult:
    """Run a job for one partition, with the same assets as the UI.

    Args:
        settings: The settings.
        job: Which job.
        repository_id: Repository.
        key: Run key.
        is_new: Whether the key was made for this run a moment ago.
        on_event: Told of each table while the job works: started, progressed, stored, checked or
            failed.
        clock: Tells the time; the machine's when None.
        retry_after: How long a step waits before it asks a silent server or store again.
        reference_mark: Id of a mark of lakeFS's own job to verify; only what it names too may go.
        take_over: Key of the dead run whose lease may be taken over.
        full: Whether to read everything, although the settings allow an optimized run.

    Returns:
        The outcome; a refusal of the engine is in it, not raised.

    Raises:
        SettingsError: If the settings do not know the repository; nothing was started.
        KeyboardInterrupt: If a person ended it; Dagster has it as a failed run, and no table is
            stored by halves.
    """
    settings.repository(repository_id)
    recorder = _Recorder(on_event or (lambda *_: None))
    wiring = Wiring(
        settings, clock=clock or SystemClock(), observer=recorder, retry_after=retry_after
    )
    wrong = build_resources(wiring)["runs"].wrong_request(job, repository_id, key, is_new=is_new)
    if wrong is not None:
        return LaunchResult(False, "", wrong, str(wrong), {}, ())
    # This process does the work, wherever Dagster's own runs do it.
    here = settings.model_copy(update={"launch": LaunchSettings()})
    definition = build_defs(here).resolve_job_def(job)
    before = placement.work_so_far()
    asked = {"reference_mark": reference_mark, "take_over": take_over, "full": full}
    with open_instance(settings.dagster_home) as instance:
        result = _executed(instance, definition, wiring, WantedRun(repository_id, key), asked)
        if _was_interrupted(result.all_events):
            with phase(lambda: recorder.state or SWEEP_STANDS):
                raise KeyboardInterrupt
        error = None if result.success else recorder.refusal(repository_id, key)
        unforeseen = partial(_unforeseen, result.all_events, recorder.state)
        message = None if result.success else str(error or unforeseen())
    return LaunchResult(
        result.success,
        result.run_id,
        error,
        message,
        recorder.manifests,
        recorder.checks,
        recorder.house,
        recorder.state,
        recorder.marked if job == "mark" else None,
        placement.work_so_far().since(before),
    )


def _executed(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    wiring: Wiring,
    run: WantedRun,
    asked: Mapping[str, Any],
) -> dg.ExecuteInProcessResult:
    """Execute a job of one partition in this process."""
    share_log_handlers(instance)
    limit_pool(instance, POOL)
    origin = as_runs_of(instance, job.name, module=MODULE, location=CODE_LOCATION)
    return job.execute_in_process(
        instance=instance,
        partition_key=add_partition(instance, run.repository_id, run.key),
        tags={**origin, **run.tags, "lakegc/from": "command line", "lakegc/by": who()},
        raise_on_error=False,
        resources=build_resources(wiring),
        run_config={
            "ops": ops_config(set(job.graph.node_dict), asked),
            # `on_event` shows what a person should see. Dagster's own lines are in its event log.
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        },
    )


def _was_interrupted(events: Sequence[Any]) -> bool:
    kinds = {dg.DagsterExecutionInterruptedError.__name__, KeyboardInterrupt.__name__}
    return any(
        event.is_step_failure and event.step_failure_data.error.cls_name in kinds
        for event in events
    )


def _unforeseen(events: Sequence[Any], state: str | None) -> str:
    """Return the first failure of a run that no error of lakegc explains.

    Dagster shows the note of its phase with it. The result has that apart.
    """
    for event in events:
        if event.is_step_failure:
            problem = event.step_failure_data.error
            while problem is not None and problem.cause is not None:
                problem = problem.cause
            words = problem.message.strip() if problem else "no reason is known"
            if state is not None:
                words = words.removesuffix(state).rstrip()
            return f"{event.step_key} failed: {words}"
    return "the run failed before its first step; the UI shows its events"
