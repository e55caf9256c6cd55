"""The commands; each takes the words of the command line and returns the exit code."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from spark_core.errors import LakegcError, SettingsError, exit_code
from spark_core.extras import require
from spark_core.model import RunKey
from spark_core.output import lost
from spark_core.phases import NOTHING_BY_THIS_SWEEP, NOTHING_DELETED, SWEEP_STANDS, phase
from spark_core.settings import load_settings

if TYPE_CHECKING:
    from spark_core.run import Environment, Run
    from spark_core.settings import Settings


def run(asked: Namespace) -> int:
    """Mark repositories, and sweep those whose mode is `sweep`."""
    return _each(asked, marks=True, sweeps=None)


def mark(asked: Namespace) -> int:
    """Mark repositories; nothing is deleted, whatever their mode."""
    if asked.reference_mark is not None and len(asked.repositories) != 1:
        raise SettingsError("--reference-mark is the mark of one repository", "Name that one.")
    return _each(asked, marks=True, sweeps=False)


def sweep(asked: Namespace) -> int:
    """Delete what an earlier mark names, or what a mark of lakeFS's own job and a new one name."""
    if asked.reference_mark is None and asked.key is None:
        raise SettingsError(
            "no mark to sweep was named",
            "Name its run key with --run (`report` shows it), or a mark of lakeFS's own job with "
            "--reference-mark.",
        )
    asked.repositories = [asked.repository]
    return _each(asked, marks=asked.reference_mark is not None, sweeps=True)


def report(asked: Namespace) -> int:
    """Show the report of a run again; a missing one is made."""
    from spark_core import report as reports
    from spark_core.command.showing import show_report, write
    from spark_core.report.past_runs import require_known
    from spark_core.report.stored_run import stored_run

    settings = _settings(asked)
    environment = _environment(settings)
    options = settings.run_options(asked.repository)
    found = stored_run(environment, asked.repository, options, asked.key)
    require_known(found.store, asked.repository, found.key)
    if asked.json:
        write(reports.load(found).to_json().decode())
    else:
        show_report(found)
    return 0


def doctor(asked: Namespace) -> int:
    """Check everything that a run needs, and say how to fix what is not in order."""
    from spark_core.command.showing import show_finding, write
    from spark_core.errors import FAILED, WRONG_SETTINGS
    from spark_core.settings.collected_repositories import chosen_repositories
    from spark_core.settings.examined import SETTINGS, examined

    settings = _settings(asked)
    code = 0
    for repository_id in chosen_repositories(settings, asked.repositories, are_known=False):
        write(repository_id)
        for finding in examined(settings, repository_id):
            show_finding(finding)
            if finding.passed is False:
                code = max(code, WRONG_SETTINGS if finding.about == SETTINGS else FAILED)
    return code


def _each(asked: Namespace, *, marks: bool, sweeps: bool | None) -> int:
    """Work on each repository, also after one was refused.

    Args:
        asked: The command line.
        marks: Make marks.
        sweeps: Sweep them; None where each repository's mode says it.
    """
    from spark_core.command.ending import show_error
    from spark_core.settings.environment import require_spark
    from spark_core.spark.session import default_master

    settings = _settings(asked)
    chosen = _chosen(settings, asked)
    # All names are checked before the first run starts, so a typo is not found only after an hour.
    modes = {name: settings.repository(name).mode for name in chosen}
    environment = _environment(settings)
    if default_master() is None:
        # YARN takes a program of `spark-submit` that never asks for its session for a failed one.
        environment.spark()
    else:
        require_spark(settings)
    key = asked.key or RunKey.at(environment.clock.now())
    code = 0
    for repository_id, mode in modes.items():
        sweeping = mode == "sweep" if sweeps is None else sweeps
        state = f"Nothing of {repository_id} was deleted." if marks else NOTHING_BY_THIS_SWEEP
        try:
            with phase(state):
                opened = _open(settings, environment, repository_id, key, asked)
                _collect(opened, marks=marks, sweeps=sweeping)
        except LakegcError as error:
            show_error(error)
            code = max(code, exit_code(error))
    return code


def _open(
    settings: Settings, environment: Environment, repository_id: str, key: RunKey, asked: Namespace
) -> Run:
    from spark_core.run import open_run

    return open_run(
        environment,
        repository_id,
        key,
        settings.run_options(repository_id),
        reference_mark=asked.reference_mark,
        take_over=None if asked.take_over is None else str(asked.take_over),
        full=asked.full,
    )


def _collect(run: Run, *, marks: bool, sweeps: bool) -> None:
    from spark_core.command.showing import show_end, show_report, write
    from spark_core.event_lines import EventLines
    from spark_core.mark_and_sweep import collect
    from spark_core.report.past_runs import require_known
    from spark_core.spark import placement
    from spark_core.sweep import require_switched_on
    from spark_core.upkeep import house_keeping

    doing = " and ".join(word for word, on in (("mark", marks), ("sweep", sweeps)) if on)
    write(f"{doing} {run.repository.id}, run {run.key}")
    # Before the mark: what the mode forbids is not found only after an hour.
    if sweeps:
        require_switched_on(run)
    if not marks:
        require_known(run.store, run.repository.id, run.key)
    before = placement.work_so_far()
    collect(run, EventLines(write), show_report, marks=marks, sweeps=sweeps)
    with phase(SWEEP_STANDS if sweeps else NOTHING_DELETED):
        write(f"worked   {placement.work_so_far().since(before)}")
        write(f"house    {house_keeping.after_run(run).words}\n")
        if lost() is not None:
            show_end(run, doing)


def _settings(asked: Namespace) -> Settings:
    require("spark", "Marks and sweeps")
    return load_settings(asked.config)


def _chosen(settings: Settings, asked: Namespace) -> tuple[str, ...]:
    from spark_core.settings.collected_repositories import chosen_repositories

    return chosen_repositories(settings, asked.repositories)


def _environment(settings: Settings) -> Environment:
    from spark_core.settings.environment import open_environment, session_of

    return open_environment(settings, partial(session_of, settings))
