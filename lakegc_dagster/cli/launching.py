"""Runs of repositories, as `run`, `mark` and `sweep` start them.

One repository is shown step by step. Several are worked on side by side, and each is one line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakegc_dagster.cli.common import agreed, can_ask, read_settings
from lakegc_dagster.cli.ended import Ended, closing_table
from lakegc_dagster.cli.metrics import publish_metrics
from lakegc_dagster.cli.night_document import show_document
from lakegc_dagster.cli.notify import tell_of_failure, tell_of_night
from lakegc_dagster.cli.shown_report import show_refused, show_report
from lakegc_dagster.terminal.spark_output import OUTPUT
from spark_core.errors import ClosedPartitionError, LakegcError
from spark_core.output import lost
from spark_core.phases import NOTHING_DELETED, SWEEP_STANDS, phase, state_of

if TYPE_CHECKING:
    from lakegc_dagster.launch.run_job import LaunchResult
    from lakegc_dagster.runs.job_names import JobName
    from spark_core.events import OnEvent
    from spark_core.model import RunKey
    from spark_core.settings import Settings


@dataclass(frozen=True)
class _Night:
    """What one command runs over its repositories.

    Attributes:
        settings: The settings.
        key: The run key of all of them.
        jobs: Job by repository.
        asked: More words for `launch`.
    """

    settings: Settings
    key: RunKey
    jobs: Mapping[str, JobName]
    asked: Mapping[str, Any] = field(default_factory=dict)

    def launched(self, repository_id: str, on_event: OnEvent | None = None) -> LaunchResult:
        """Run the job of a repository."""
        from lakegc_dagster.launch.run_job import launch

        name = self.jobs[repository_id]
        # Earlier repositories may have been swept.
        with phase(f"Nothing of {repository_id} was deleted."):
            return launch(
                self.settings, name, repository_id, self.key, on_event=on_event, **self.asked
            )

    def ended(
        self,
        repository_id: str,
        result: LaunchResult | None,
        error: LakegcError | None,
        began: float,
    ) -> Ended:
        """Sum up what came of it; `began` is of the monotonic clock, in seconds."""
        took = time.monotonic() - began
        return Ended.of(self.settings, repository_id, self.key, result, error, seconds=took)


def launch_each(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    job: Callable[[Settings, str], JobName],
    *,
    is_known: bool = False,
    changed: Mapping[str, object] | None = None,
    as_json: bool = False,
    yes: bool = False,
    **asked: Any,
) -> int:
    """Run a job of each repository, and show how each ended.

    Args:
        config: The settings file that was named.
        repositories: Names and patterns; those that the settings collect when empty.
        key: Run key; a new one when None.
        job: Chooses the job of a repository.
        is_known: Whether the run must be there already.
        changed: Settings of each repository that are others for this command.
        as_json: Print one JSON object; what people read goes to standard error.
        yes: Whether a first sweep may delete at once what could not come back.
        **asked: More words for `launch`.

    Returns:
        The largest exit code of all.
    """
    from lakegc_dagster.runs.run_keys import new_run_key
    from lakegc_dagster.stored_runs import open_known
    from lakegc_dagster.terminal import console
    from lakegc_dagster.terminal.java_process import LOG_NAME
    from spark_core.settings.collected_repositories import chosen_repositories
    from spark_core.settings.environment import require_spark

    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr) if as_json else nullcontext())
        settings = read_settings(config, stack)
        chosen = chosen_repositories(settings, repositories)
        # All names are checked before the first run starts, so a typo is not found only after an
        # hour.
        jobs = {repository_id: job(settings, repository_id) for repository_id in chosen}
        for repository_id in chosen:
            settings = settings.with_changed(repository_id, **(changed or {}))
        settings = _answered(settings, jobs, yes=yes)
        # Before anything is asked, although a run without much to read needs no Java.
        require_spark(settings)
        OUTPUT.kept_in = settings.dagster_home / LOG_NAME
        if is_known and key is not None:
            for repository_id in chosen:
                open_known(settings, repository_id, key)
        asked["is_new"] = key is None
        night = _Night(settings, key or new_run_key(settings.dagster_home), jobs, asked)
        found = [_step_by_step(night, *chosen)] if len(chosen) == 1 else _several(night)
        publish_metrics(settings)
    if as_json:
        show_document(found)
    if lost() is not None:
        for each in found:
            console.console(sys.stderr).print(each.line, markup=False, soft_wrap=True)
    return max(each.exit_code for each in found)


def _answered(settings: Settings, jobs: Mapping[str, JobName], *, yes: bool) -> Settings:
    """Let a person answer whether a first sweep may delete for good; without one, it is refused."""
    from datetime import UTC, datetime

    from lakegc_dagster.stored_runs import open_stored
    from spark_core.model import RunKey
    from spark_core.sweep import first_sweep

    for repository_id, job in jobs.items():
        if job == "mark" or settings.run_options(repository_id).quarantine is not None:
            continue
        if not yes and not (len(jobs) == 1 and can_ask()):
            continue
        try:
            run = open_stored(settings, repository_id, RunKey.at(datetime.now(UTC)))
            words = first_sweep.unanswered(run)
        except LakegcError:
            # Its own run meets the same error, and ends no other one.
            continue
        if words is None:
            # Also with `--yes`: on a disk a quarantine is on by itself, and stays on.
            continue
        if not yes:
            question = (
                f"This would be the first sweep of {repository_id}, and what it deletes could not "
                f"come back: {words}. A quarantine (`quarantine = true`) costs six requests an "
                f"object, and its space for {run.options.quarantine_days:g} days. Delete for good?"
            )
            yes = agreed(question)
            if not yes:
                first_sweep.require_answered(run)
        settings = settings.with_changed(repository_id, quarantine=False)
    return settings


def _several(night: _Night) -> list[Ended]:
    """Run the jobs of several repositories, with a line for each and a table at the end."""
    from lakegc_dagster.launch.interrupts import Interrupts
    from lakegc_dagster.launch.run_job import prepare_runs
    from lakegc_dagster.terminal import console
    from spark_core.clocks import SystemClock
    from spark_core.lakefs.side_by_side import side_by_side
    from spark_core.spark import placement

    shown, began, before = console.console(), time.monotonic(), placement.work_so_far()
    one, at_once = (
        (_step_by_step, 1)
        if OUTPUT.is_shown
        else (_quietly, night.settings.launch.repositories_at_once)
    )
    interrupts, found = Interrupts(), dict[str, Ended]()

    def work(repository_id: str) -> Iterator[Ended]:
        with interrupts.heard_here():
            each = _settled(night, repository_id, one)
        yield each

    prepare_runs(night.settings)
    since = SystemClock().now()
    shown.print(f"run {night.key} of {len(night.jobs):,} repositories")
    with interrupts.passed_on() if at_once > 1 else ExitStack():
        for repository_id, each in side_by_side(list(night.jobs), work, at_once=at_once):
            if one is _quietly:
                _show_end(night, each)
            found[repository_id] = each
    in_order = [found[repository_id] for repository_id in night.jobs]
    shown.print()
    shown.print(closing_table(in_order, time.monotonic() - began))
    shown.print(f"\nworked   {placement.work_so_far().since(before)}", markup=False)
    failed = {each.repository: each.error for each in in_order if each.error is not None}
    tell_of_night(night.settings, list(night.jobs), since, failed)
    return in_order


def _settled(night: _Night, repository_id: str, one: Callable[[_Night, str], Ended]) -> Ended:
    """Run the job of one of several repositories; whatever ends it ends no other."""
    began = time.monotonic()
    try:
        return one(night, repository_id)
    except LakegcError as problem:
        error = problem
    except KeyboardInterrupt as ended:
        sys.stderr.write(f"{repository_id}: {state_of(ended) or 'ended'}\n")
        raise
    except Exception as problem:  # noqa: BLE001 - it is shown, and the others go on
        error = LakegcError(f"the run failed: {type(problem).__name__}: {problem}")
        error.state = state_of(problem)
    each = night.ended(repository_id, None, error, began)
    if one is not _quietly:
        _show_end(night, each)
    return each


def _quietly(night: _Night, repository_id: str) -> Ended:
    """Run the job of a repository, and show nothing."""
    began = time.monotonic()
    result = night.launched(repository_id)
    return night.ended(repository_id, result, _error_of(result), began)


def _show_end(night: _Night, each: Ended) -> None:
    """Show in a line how one of several repositories ended, with the reason if that is not well."""
    from lakegc_dagster.terminal import console

    shown = console.console()
    shown.print(each.line, markup=False, soft_wrap=True)
    if each.error is not None:
        console.show_error(console.console(sys.stderr), each.error)
        if not night.settings.notify.digest:
            tell_of_failure(night.settings, each.repository, night.key, each.error)
    if each.next_step:
        shown.print(f"next     {each.next_step}", markup=False, soft_wrap=True)


def _step_by_step(night: _Night, repository_id: str) -> Ended:
    """Run the job of a repository, and show its steps and its report."""
    from lakegc_dagster.stored_runs import open_known
    from lakegc_dagster.terminal import console
    from spark_core.records.tables import DELETION_REPORT

    settings, key, name = night.settings, night.key, night.jobs[repository_id]
    shown, began = console.console(), time.monotonic()
    shown.print(f"[bold]{name}[/bold] {repository_id}, run {key}")
    with console.Steps(shown) as steps:
        result = night.launched(repository_id, steps)
    if name == "sweep" and isinstance(result.error, ClosedPartitionError):
        shown.print(
            f"{result.error.found}: nothing is left of its mark. {NOTHING_DELETED}",
            markup=False,
            soft_wrap=True,
        )
        stored = open_known(settings, repository_id, key).load(DELETION_REPORT).manifest
        result = replace(result, success=True, error=None, manifests={stored.table: stored})
    error = _error_of(result)
    if error is not None:
        console.show_error(console.console(sys.stderr), error)
        show_refused(shown, settings, repository_id, key, result)
        if not (settings.notify.digest and len(night.jobs) > 1):
            tell_of_failure(settings, repository_id, key, error)
    else:
        with phase(NOTHING_DELETED if name == "mark" else SWEEP_STANDS):
            show_report(settings, repository_id, key, earlier=False, marked=result.marked)
        shown.print(f"worked   {result.work}", markup=False, soft_wrap=True)
        if result.house is not None:
            shown.print(f"house    {result.house}", markup=False, soft_wrap=True)
        shown.print()
    return night.ended(repository_id, result, error, began)


def _error_of(result: LaunchResult) -> LakegcError | None:
    return None if result.success else result.failure("the run failed")
