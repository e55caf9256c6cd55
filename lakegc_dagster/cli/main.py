"""The command line: what may be said and how it ends; everything heavy is imported when a command needs it.

Exit codes: 0 done, 1 refused or failed, 2 wrong settings or usage, 130 ended by Ctrl-C.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from lakegc_dagster.cli.common import (
    RunKeyType,
    command_body,
    exit_code,
    guarded,
    read_settings,
    take_over_option,
    unforeseen,
)
from lakegc_dagster.cli.confirm import confirm
from lakegc_dagster.cli.doctor import doctor
from lakegc_dagster.cli.holds import hold
from lakegc_dagster.cli.restore import restore
from lakegc_dagster.cli.rules import rules
from spark_core import __version__
from spark_core.errors import SettingsError

# What the libraries make stays; Python's own 700 mean that a quarter of their import is spent looking for rubbish in it.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000

if TYPE_CHECKING:
    from lakegc_dagster.jobs import JobName
    from lakegc_dagster.settings import Settings
    from spark_core.model import RunKey


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="lakegc")
def main() -> None:
    """Collect the garbage of lakeFS repositories: find it, show it, prove it, delete it.

    \b
    Examples:
      lakegc demo                     watch a whole collection on a sandbox
      lakegc doctor my-repo           look at everything that a run needs
      lakegc mark my-repo             find what may go; deletes nothing
      lakegc run                      the night's run over every repository
      lakegc report my-repo           look at the last run again
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


main.add_command(rules)
main.add_command(doctor)
main.add_command(hold)
main.add_command(restore)
main.add_command(confirm)


@main.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".sandbox"),
    show_default=True,
    help="Where the sandbox keeps everything; made anew.",
)
@click.option("--every", is_flag=True, help="Name every object instead of groups of them.")
@click.option("--debug", is_flag=True, help="Show where in the code an error came from.")
def demo(directory: Path, *, every: bool, debug: bool) -> NoReturn:
    """Collect a repository made for it, from reading its tables to the last deleted object.

    A sandbox server with five weeks of history is made in `.sandbox/`, marked,
    swept, and every object is then asked for through the lakeFS API. The exit
    code is 0 only if that proof holds. Nothing outside the directory is touched.

    \b
    Examples:
      lakegc demo
      lakegc demo --every
      lakegc demo --directory /tmp/lakegc-demo
    """  # noqa: D301 - as above

    def body() -> int:
        from lakegc_dagster.demo import run_demo

        return run_demo(directory, every=every)

    raise SystemExit(guarded(body, debug=debug))


@main.command("warm-up")
@click.option("--again", is_flag=True, help="Make it anew although it is there.")
@click.option("--debug", is_flag=True, help="Show where in the code an error came from.")
def warm_up(*, again: bool, debug: bool) -> NoReturn:
    """Make what every later start of Spark finds ready; runs work without it, and take longer.

    A small repository is collected in a temporary directory, and Java writes an
    archive of the classes that this took, some 150 MB, into the user's cache
    directory. It is used where the master is local, by this installation of
    Spark and this Java; after either was renewed, make it again.

    \b
    Examples:
      lakegc warm-up
      XDG_CACHE_HOME=/var/cache/collector lakegc warm-up
    """  # noqa: D301 - as above

    def body() -> int:
        from lakegc_dagster import console
        from lakegc_dagster.warm_up import run_warm_up

        return run_warm_up(console.console(), again=again)

    raise SystemExit(guarded(body, debug=debug))


_repositories = click.argument("repositories", metavar="[REPOSITORY]...", nargs=-1)
_repository = click.argument("repository")
_key = click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="The instant the run stands for, like 2026-11-20T02-00-00Z; now when left out.",
)


@main.command()
@_repositories
@_key
@take_over_option
@command_body
def run(config: Path | None, repositories: Sequence[str], key: RunKey | None, take_over: RunKey | None) -> int:
    """Mark repositories, and sweep those whose mode is `sweep`.

    Without names: every repository of the settings, all under one run key, as
    the nightly schedule does. One that is refused does not keep the others
    from their turn; the exit code says that one was.

    \b
    Examples:
      lakegc run
      lakegc run my-repo other-repo
      lakegc run my-repo --run 2026-11-20T02-00-00Z
    """  # noqa: D301 - as above

    def job(settings: Settings, repository_id: str) -> JobName:
        return "mark_and_sweep" if settings.repository(repository_id).mode == "sweep" else "mark"

    return _launch_each(config, repositories, key, job, take_over=take_over)


_reference_mark = click.option(
    "--reference-mark",
    metavar="MARK_ID",
    help="Verify this mark of lakeFS's own job: mark anew, and let go only what it names too.",
)


@main.command()
@_repositories
@_key
@_reference_mark
@command_body
def mark(config: Path | None, repositories: Sequence[str], key: RunKey | None, reference_mark: str | None) -> int:
    """Find what may go and say why; deletes nothing, whatever the mode.

    Without names: every repository of the settings. The tables and the report
    are stored under _lakefs/retention/gc/ of each repository.

    \b
    Examples:
      lakegc mark my-repo
      lakegc mark --config /etc/lakegc.toml
      lakegc mark my-repo --reference-mark ft6s0e1ksdufuaulm34g
    """  # noqa: D301 - as above
    if reference_mark is not None and len(repositories) != 1:
        raise SettingsError("--reference-mark is the mark of one repository", "Name that one.")
    return _launch_each(
        config, repositories, key, lambda _settings, _repository_id: "mark", reference_mark=reference_mark
    )


@main.command()
@_repository
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Which mark, by its run key; with --reference-mark, the run key that the new mark gets (now when left out).",
)
@_reference_mark
@take_over_option
@command_body
def sweep(
    config: Path | None, repository: str, key: RunKey | None, reference_mark: str | None, take_over: RunKey | None
) -> int:
    """Delete what an earlier mark names, if its verdict allows it and the mode is `sweep`.

    The run keys of a repository's marks are shown by `lakegc report`.

    A mark of lakeFS's own job is verified first: the repository is marked
    anew, and only what that mark names and lakegc finds expired today is
    deleted. Everything else that it names is kept, and reported with its reason.

    \b
    Examples:
      lakegc sweep my-repo --run 2026-11-20T02-00-00Z
      lakegc sweep my-repo --reference-mark ft6s0e1ksdufuaulm34g
      lakegc sweep my-repo --run 2026-11-20T02-00-00Z --take-over 2026-11-19T02-00-00Z
    """  # noqa: D301 - as above
    if reference_mark is not None:
        return _launch_each(
            config,
            [repository],
            key,
            lambda _settings, _repository_id: "mark_and_sweep",
            reference_mark=reference_mark,
            take_over=take_over,
        )
    if key is None:
        raise SettingsError(
            "which mark is to be swept is not said",
            "Name its run key with --run (`lakegc report` shows "
            "them), or a mark of lakeFS's own job with --reference-mark.",
        )
    return _launch_each(config, [repository], key, lambda _settings, _repository_id: "sweep", take_over=take_over)


@main.command()
@_repository
@click.option("--run", "key", type=RunKeyType(), metavar="KEY", help="Which run; the newest marked one when left out.")
@command_body
def report(config: Path | None, repository: str, key: RunKey | None) -> int:
    """Show the report of a run again, and where its page and its Parquet lie.

    \b
    Examples:
      lakegc report my-repo
      lakegc report my-repo --run 2026-11-20T02-00-00Z
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        _show_report(settings, repository, key, earlier=key is None)
    return 0


@main.command()
@click.option("--port", type=click.IntRange(1, 65_535), default=3000, show_default=True, help="Port on 127.0.0.1.")
@click.option("--sandbox", is_flag=True, help="Serve the demo's sandbox as well, while the UI is open.")
@command_body
def ui(config: Path | None, port: int, *, sandbox: bool) -> int:
    """Open Dagster's UI on the runs of the command line; Ctrl-C ends it.

    \b
    Examples:
      lakegc ui
      lakegc ui --sandbox
      lakegc ui --port 3001 --config /etc/lakegc.toml
    """  # noqa: D301 - as above
    from lakegc_dagster import console, demo_sandbox
    from lakegc_dagster import ui as dagster_ui

    if sandbox and config is None:
        config = demo_sandbox.settings_file(demo_sandbox.DIRECTORY)
        if not demo_sandbox.is_ours(demo_sandbox.DIRECTORY):
            from lakegc_dagster.demo import make_history

            make_history(demo_sandbox.DIRECTORY)
    shown = console.console()
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        if sandbox:
            shown.print(
                f"sandbox  {settings.server.endpoint}  (keys: {settings.server.credentials_file})", markup=False
            )
        shown.print(f"UI       http://{dagster_ui.HOST}:{port}  (Ctrl-C ends it)\n", markup=False)
        dagster_ui.serve(settings, port)
    return 0


def _launch_each(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    job: Callable[[Settings, str], JobName],
    *,
    reference_mark: str | None = None,
    take_over: RunKey | None = None,
) -> int:
    from lakegc_dagster import console
    from lakegc_dagster.jvm import start_quietly
    from lakegc_dagster.launch import launch
    from spark_core.model import RunKey
    from spark_core.phases import NOTHING_DELETED, SWEEP_STANDS, phase

    shown = console.console()
    code = 0
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        chosen = repositories or settings.repository_ids
        if not chosen:
            raise SettingsError(
                f"{settings.file or 'the settings'}: no repository is named, on the command line or in the settings",
                "Add a table like [repositories.my-repo].",
            )
        # All of them before the first one starts: a slip in a name should not wait for an hour to be seen.
        jobs = {repository_id: job(settings, repository_id) for repository_id in chosen}
        for repository_id in chosen:
            settings.repository(repository_id)
        log = start_quietly(settings)
        key = key or RunKey.at(datetime.now(UTC))
        for repository_id, name in jobs.items():
            shown.print(f"[bold]{name}[/bold] {repository_id}, run {key}")
            # Repositories before this one may have been swept.
            with phase(f"Nothing of {repository_id} was deleted."), console.Steps(shown) as steps:
                result = launch(
                    settings,
                    name,
                    repository_id,
                    key,
                    on_event=steps,
                    reference_mark=reference_mark,
                    take_over=None if take_over is None else str(take_over),
                )
            if not result.success:
                failure = result.error or unforeseen(result.message, log, result.state)
                console.show_error(console.console(sys.stderr), failure)
                code = max(code, exit_code(failure))
                continue
            with phase(NOTHING_DELETED if name == "mark" else SWEEP_STANDS):
                _show_report(settings, repository_id, key, earlier=False)
            if result.house is not None:
                shown.print(f"house    {result.house}", markup=False, soft_wrap=True)
            shown.print()
    return code


def _show_report(settings: Settings, repository_id: str, key: RunKey | None, *, earlier: bool) -> None:
    from lakegc_dagster import console
    from lakegc_dagster.stored_runs import load_report, local_path
    from spark_core.records import tables

    shown = console.console()
    run, found, page = load_report(settings, repository_id, key)
    console.show_report(shown, found)
    folder = tables.DELETION_REPORT if found.swept else tables.EXPIRED_ADDRESSES
    shown.print(f"\nreport   {page}", markup=False, soft_wrap=True)
    shown.print(f"Parquet  {local_path(run, tables.folder(folder, run.key))}", markup=False, soft_wrap=True)
    if earlier:
        others = [str(other) for other in tables.runs(run.store) if other != run.key][:10]
        if others:
            shown.print(f"earlier  {'  '.join(others)}", markup=False, soft_wrap=True)
    if found.passed and run.options.write_reference_mark:
        from spark_core.reference_job.reference_writer import mark_id

        shown.print(f"mark id  {mark_id(run)}  (for the reference job)", markup=False, soft_wrap=True)
    if not found.swept and found.passed and found.expired.objects and run.options.may_sweep:
        named = "" if settings.file is None else f" --config {settings.file}"
        shown.print(f"next     lakegc sweep {repository_id} --run {run.key}{named}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
