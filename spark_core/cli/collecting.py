"""Runs of repositories, as `run`, `mark` and `sweep` make them.

One repository is shown step by step. Several are worked on side by side, and each is one line.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_core.cli.common import agreed, can_ask, read_settings
from spark_core.cli.metrics import publish_metrics
from spark_core.cli.night_document import RepositoryEnd, closing_table, show_document
from spark_core.cli.shown_report import show_refused, show_report
from spark_core.errors import ClosedPartitionError, LakegcError
from spark_core.interrupts import sigterm_is_heard
from spark_core.notices.after_runs import tell_of_failure, tell_of_night
from spark_core.output import lost
from spark_core.phases import (
    NOTHING_BY_THIS_SWEEP,
    NOTHING_DELETED,
    SWEEP_STANDS,
    ended_a_command,
    phase,
    state_of,
)
from spark_core.plain_text import visible
from spark_core.spark.output import OUTPUT

if TYPE_CHECKING:
    from spark_core.events import OnEvent
    from spark_core.lakefs.transport import OnAway
    from spark_core.mark_and_sweep import Collected
    from spark_core.model import Job, RunKey
    from spark_core.settings import Settings


@dataclass(frozen=True)
class _Night:
    """What one command runs over its repositories.

    Attributes:
        settings: The settings.
        key: The run key of all of them.
        jobs: Job by repository.
        asked: More words for `open_run`.
    """

    settings: Settings
    key: RunKey
    jobs: Mapping[str, Job]
    asked: Mapping[str, Any] = field(default_factory=dict)

    def collected(
        self,
        repository_id: str,
        on_event: OnEvent = lambda _: None,
        on_away: OnAway | None = None,
    ) -> Collected:
        """Do the job of a repository."""
        from spark_core.mark_and_sweep import collect, first_table
        from spark_core.run import open_run
        from spark_core.settings.environment import open_environment
        from spark_core.tries import until_done

        job = self.jobs[repository_id]
        state = NOTHING_BY_THIS_SWEEP if job == "sweep" else NOTHING_DELETED
        # Earlier repositories may have been swept.
        with phase(state if len(self.jobs) == 1 else f"Nothing of {repository_id} was deleted."):
            environment = open_environment(self.settings, on_away=on_away, origin="command line")
            options = self.settings.run_options(repository_id)
            run = until_done(
                lambda _: open_run(environment, repository_id, self.key, options, **self.asked),
                first_table(job),
                on_event,
                environment.clock,
            )
            return collect(run, job, on_event)

    def ended(
        self, repository_id: str, done: Collected | None, error: LakegcError | None, began: float
    ) -> tuple[RepositoryEnd, LakegcError | None]:
        """Sum up what came of it; `began` is of the monotonic clock, in seconds."""
        took = time.monotonic() - began
        return RepositoryEnd.of(self.settings, repository_id, done, error, took), error


def collect_each(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    job: Callable[[Settings, str], Job],
    *,
    changed: Mapping[str, object] | None = None,
    as_json: bool = False,
    yes: bool = False,
    **asked: Any,
) -> int:
    """Do a job of each repository, and show how each ended.

    Args:
        config: The settings file that was named.
        repositories: Names and patterns; those that the settings collect when empty.
        key: Run key; a new one when None.
        job: Chooses the job of a repository.
        changed: Settings of each repository that are others for this command.
        as_json: Print one JSON object; what people read goes to standard error.
        yes: Whether a first sweep may delete at once what could not come back.
        **asked: More words for `open_run`.

    Returns:
        The largest exit code of all.
    """
    from spark_core.run_keys import new_run_key
    from spark_core.settings.collected_repositories import chosen_repositories
    from spark_core.settings.environment import require_spark
    from spark_core.terminal import console
    from spark_core.without_pandas import leave_pandas_out

    leave_pandas_out()
    with ExitStack() as stack:
        stack.enter_context(sigterm_is_heard())
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
        night = _Night(settings, key or new_run_key(settings.dagster_home), jobs, asked)
        found = (
            [_settled(night, *chosen, _step_by_step)[0]] if len(chosen) == 1 else _several(night)
        )
        publish_metrics(settings)
    if as_json:
        show_document(night.key, found)
    if lost() is not None:
        for each in found:
            console.console(sys.stderr).print(each.line, markup=False, soft_wrap=True)
    return max(each.exit_code for each in found)


def _answered(settings: Settings, jobs: Mapping[str, Job], *, yes: bool) -> Settings:
    """Let a person answer whether a first sweep may delete for good; without one, it is refused."""
    from datetime import UTC, datetime

    from spark_core.model import RunKey
    from spark_core.stored_runs import open_stored

    for repository_id, job in jobs.items():
        if job == "mark" or settings.run_options(repository_id).quarantine is not None:
            continue
        if not yes and not (len(jobs) == 1 and can_ask()):
            continue
        from spark_core.sweep import first_sweep

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


def _several(night: _Night) -> list[RepositoryEnd]:
    """Do the jobs of several repositories, with a line for each and a table at the end."""
    from spark_core.clocks import SystemClock
    from spark_core.interrupts import Interrupts
    from spark_core.lakefs.side_by_side import side_by_side
    from spark_core.spark import placement
    from spark_core.terminal import console

    shown, began, before = console.console(), time.monotonic(), placement.work_so_far()
    one, at_once = (
        (_step_by_step, 1)
        if OUTPUT.is_shown
        else (_quietly, night.settings.launch.repositories_at_once)
    )
    interrupts, found = Interrupts(), dict[str, RepositoryEnd]()
    failed = dict[str, LakegcError]()

    def work(repository_id: str) -> Iterator[tuple[RepositoryEnd, LakegcError | None]]:
        with interrupts.heard_here():
            each = _settled(night, repository_id, one)
        yield each

    since = SystemClock().now()
    shown.print(f"run {night.key} of {len(night.jobs):,} repositories")
    with interrupts.passed_on() if at_once > 1 else ExitStack():
        for repository_id, (each, error) in side_by_side(list(night.jobs), work, at_once=at_once):
            if one is _quietly:
                _show_end(night, each, error)
            found[repository_id] = each
            if error is not None:
                failed[repository_id] = error
    in_order = [found[repository_id] for repository_id in night.jobs]
    shown.print()
    shown.print(closing_table(in_order, time.monotonic() - began))
    shown.print(f"\nworked   {placement.work_so_far().since(before)}", markup=False)
    tell_of_night(night.settings, list(night.jobs), since, failed)
    return in_order


def _settled(
    night: _Night,
    repository_id: str,
    one: Callable[[_Night, str], tuple[RepositoryEnd, LakegcError | None]],
) -> tuple[RepositoryEnd, LakegcError | None]:
    """Do the job of a repository; whatever ends it ends no other, and is told."""
    began = time.monotonic()
    try:
        return one(night, repository_id)
    except LakegcError as problem:
        error = ended_a_command(problem)
    except KeyboardInterrupt as ended:
        if len(night.jobs) > 1:
            sys.stderr.write(f"{repository_id}: {state_of(ended) or 'ended'}\n")
        raise
    except Exception as problem:  # noqa: BLE001 - it is shown, and the others go on
        sys.stderr.write(visible(traceback.format_exc(), lines=True))
        error = LakegcError(f"the run failed: {type(problem).__name__}: {problem}")
        error.state = state_of(problem)
    each = night.ended(repository_id, None, error, began)
    if one is not _quietly:
        _show_end(night, *each)
    return each


def _quietly(night: _Night, repository_id: str) -> tuple[RepositoryEnd, LakegcError | None]:
    """Do the job of a repository, and show nothing."""
    began = time.monotonic()
    done = night.collected(repository_id)
    return night.ended(repository_id, done, done.error, began)


def _show_end(night: _Night, each: RepositoryEnd, error: LakegcError | None) -> None:
    """Show how a repository ended: one of several in a line; and why, if that is not well."""
    from spark_core.terminal import console

    shown = console.console()
    if len(night.jobs) > 1:
        shown.print(each.line, markup=False, soft_wrap=True)
    if error is not None:
        console.show_error(console.console(sys.stderr), error)
        if not (night.settings.notify.digest and len(night.jobs) > 1):
            tell_of_failure(night.settings, each.repository, night.key, error)
    if each.next_step:
        shown.print(f"next     {each.next_step}", markup=False, soft_wrap=True)


def _step_by_step(night: _Night, repository_id: str) -> tuple[RepositoryEnd, LakegcError | None]:
    """Do the job of a repository, and show its steps and its report."""
    from spark_core import report
    from spark_core.records.tables import DELETION_REPORT
    from spark_core.terminal import console

    settings, key, name = night.settings, night.key, night.jobs[repository_id]
    shown, began = console.console(), time.monotonic()
    shown.print(f"[bold]{name}[/bold] {repository_id}, run {key}")
    with console.Steps(shown) as steps:
        done = night.collected(repository_id, steps, steps.away)
    if name == "sweep" and isinstance(done.error, ClosedPartitionError):
        shown.print(
            f"{done.error.found}: nothing is left of its mark. {NOTHING_DELETED}",
            markup=False,
            soft_wrap=True,
        )
        stored = done.run.load(DELETION_REPORT).manifest
        done.error, done.manifests[stored.table] = None, stored
    if done.error is not None:
        console.show_error(console.console(sys.stderr), done.error)
        show_refused(settings, done)
        if not (settings.notify.digest and len(night.jobs) > 1):
            tell_of_failure(settings, repository_id, key, done.error)
    else:
        with phase(NOTHING_DELETED if name == "mark" else SWEEP_STANDS):
            found = done.report or report.load(done.run)
            show_report(settings, done.run, found, earlier=False)
        shown.print(f"worked   {done.work}", markup=False, soft_wrap=True)
        if done.house is not None:
            shown.print(f"house    {done.house}", markup=False, soft_wrap=True)
        shown.print()
    return night.ended(repository_id, done, done.error, began)
