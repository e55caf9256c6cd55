"""The commands of `lakegc`; heavy libraries are imported only by the commands that need them.

Exit codes: 0 done, 1 failed, 2 wrong settings or usage, 3 refused, 130 ended by Ctrl-C.
"""

from __future__ import annotations

import atexit
import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click

from lakegc_dagster.cli.certificate import certificate, verify
from lakegc_dagster.cli.common import (
    RunKeyType,
    command_body,
    guarded,
    output_options,
    read_settings,
    take_over_option,
    unforeseen,
)
from lakegc_dagster.cli.confirm import confirm
from lakegc_dagster.cli.doctor import doctor
from lakegc_dagster.cli.explain import explain
from lakegc_dagster.cli.holds import hold
from lakegc_dagster.cli.metrics import metrics, publish_metrics
from lakegc_dagster.cli.notify import notify, tell_of_failure
from lakegc_dagster.cli.restore import restore
from lakegc_dagster.cli.retention import retention, show_named
from lakegc_dagster.cli.rules import rules
from lakegc_dagster.cli.runs import Ended, closing_table, runs, show_price, show_refused, status
from lakegc_dagster.cli.what_if import what_if
from lakegc_dagster.whole_file import require_place, write_file
from spark_core import __version__, lakegc_keys
from spark_core.errors import SettingsError, exit_code
from spark_core.plain_text import visible

# The objects of imported libraries stay. With Python's default of 700, a quarter of their import
# time goes to the garbage collector.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000

if TYPE_CHECKING:
    from lakegc_dagster.job_names import JobName
    from spark_core.model import RunKey
    from spark_core.report import Report
    from spark_core.run import Run
    from spark_core.settings import Settings


class _Commands(click.Group):
    """Refuses words that are no text before any command sees them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an argument with bytes that are not UTF-8, which Python reads as half letters."""
        for given in args:
            if any("\ud800" <= letter <= "\udfff" for letter in given):
                raise click.UsageError(
                    f"{visible(given)} is not text in UTF-8. Nothing was done; write it in UTF-8.",
                    ctx,
                )
        return super().parse_args(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="lakegc")
def main() -> None:
    """Collect the garbage of lakeFS repositories: find it, show it, prove it, delete it.

    \b
    Examples:
      lakegc demo                     watch a whole collection on a sandbox
      lakegc doctor my-repo           check everything that a run needs
      lakegc mark my-repo             find what may go; deletes nothing
      lakegc run                      the nightly run over every repository
      lakegc report my-repo           show the last run again
      lakegc explain my-repo ADDRESS  why an object is kept, may go, or is gone
      lakegc what-if my-repo          what other rules would let go
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # At its end Python would look through all of them once more, for half a second.
    atexit.register(gc.freeze)


main.add_command(rules)
main.add_command(doctor)
main.add_command(explain)
main.add_command(what_if)
main.add_command(hold)
main.add_command(restore)
main.add_command(confirm)
main.add_command(retention)
main.add_command(runs)
main.add_command(status)
main.add_command(metrics)
main.add_command(certificate)
main.add_command(verify)
main.add_command(notify)


@main.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".sandbox"),
    show_default=True,
    help="Directory of the sandbox; made anew.",
)
@click.option("--every", is_flag=True, help="Name every object instead of groups.")
@click.option(
    "--story",
    type=click.Choice(["collection", "policies"]),
    default="collection",
    show_default=True,
    help="Collect by rules of retention, or expire by a retention policy.",
)
@output_options
def demo(
    directory: Path,
    *,
    every: bool,
    story: Literal["collection", "policies"],
    verbose: bool,
    debug: bool,
) -> NoReturn:
    """Run a whole collection on a repository made for it, and prove the outcome.

    The demo makes a sandbox server with five weeks of history in `.sandbox/`, marks and sweeps it,
    and then asks for every object through the lakeFS API. The exit code is 0 only if every object
    is as expected. Nothing outside the directory changes.

    \b
    Examples:
      lakegc demo
      lakegc demo --every
      lakegc demo --story policies
      lakegc demo --directory /tmp/lakegc-demo
    """  # noqa: D301 - as above

    def body() -> int:
        from lakegc_dagster.demo.tour import run_demo

        return run_demo(directory, every=every, story=story)

    raise SystemExit(guarded(body, verbose=verbose, debug=debug))


@main.command("warm-up")
@click.option("--again", is_flag=True, help="Make it again even if it exists.")
@output_options
def warm_up(*, again: bool, verbose: bool, debug: bool) -> NoReturn:
    """Make an archive that shortens every later start of Spark; runs also work without it.

    The command collects a small repository in a temporary directory. Java writes an archive of the
    classes that this loaded, about 150 MB, into the user's cache directory. The archive is used
    with a local master, by this installation of Spark and Java. Make it again after an update of
    either.

    \b
    Examples:
      lakegc warm-up
      XDG_CACHE_HOME=/var/cache/collector lakegc warm-up
    """  # noqa: D301 - as above

    def body() -> int:
        from lakegc_dagster import console
        from lakegc_dagster.cli.warm_up import run_warm_up

        return run_warm_up(console.console(), again=again)

    raise SystemExit(guarded(body, verbose=verbose, debug=debug))


_repositories = click.argument("repositories", metavar="[REPOSITORY]...", nargs=-1)
_repository = click.argument("repository")
_key = click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Instant that names the run, like 2026-11-20T02-00-00Z; default: now.",
)


_full = click.option(
    "--full", is_flag=True, help="Read everything, although the settings allow an optimized run."
)


@main.command()
@_repositories
@_key
@_full
@take_over_option
@command_body
def run(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    take_over: RunKey | None,
    *,
    full: bool,
) -> int:
    """Mark repositories, and sweep those whose mode is `sweep`.

    Without names: every repository of the settings, all under one run key, as the nightly schedule
    does. The command goes on after a repository that is refused, and the exit code is then not 0.

    \b
    Examples:
      lakegc run
      lakegc run my-repo other-repo
      lakegc run my-repo --run 2026-11-20T02-00-00Z
      lakegc run my-repo --full
    """  # noqa: D301 - as above

    def job(settings: Settings, repository_id: str) -> JobName:
        return "mark_and_sweep" if settings.repository(repository_id).mode == "sweep" else "mark"

    return _launch_each(config, repositories, key, job, take_over=take_over, full=full)


@main.command()
@_repositories
@_key
@command_body
def expire(config: Path | None, repositories: Sequence[str], key: RunKey | None) -> int:
    """Mark what retention policies name, and sweep only that if the mode is `sweep`.

    What nothing reaches stays for `lakegc run`. The settings of each repository must say `policies
    = "mark"` or `policies = "sweep"`. A sweep takes nothing before somebody has confirmed the
    document (`policy_is_confirmed`).

    \b
    Examples:
      lakegc expire my-repo
      lakegc expire my-repo --run 2026-11-20T02-00-00Z
    """  # noqa: D301 - as above

    def job(settings: Settings, repository_id: str) -> JobName:
        own = settings.repository(repository_id)
        if own.policies == "off":
            raise SettingsError(
                f'the settings of {repository_id} say `policies = "off"`',
                'Set `policies = "mark"` to see what its retention policy names.',
            )
        sweeps = own.mode == "sweep" and own.policies == "sweep"
        return "mark_and_sweep" if sweeps else "mark"

    return _launch_each(config, repositories, key, job, changed={"collects": "policies"})


_reference_mark = click.option(
    "--reference-mark",
    metavar="MARK_ID",
    help="Verify this mark of lakeFS's own job: mark again; only what both name may go.",
)


@main.command()
@_repositories
@_key
@_full
@_reference_mark
@command_body
def mark(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    reference_mark: str | None,
    *,
    full: bool,
) -> int:
    """Find the objects that may go and say why; deletes nothing, whatever the mode.

    Without names: every repository of the settings. The tables and the report
    are stored under _lakefs/retention/gc/ of each repository.

    A mark takes what never changes from the index that the last one saved (setting `optimized`).
    The first mark, each `full_every`-th and any that is in doubt read everything, and say why.

    \b
    Examples:
      lakegc mark my-repo
      lakegc mark --config /etc/lakegc.toml
      lakegc mark my-repo --full
      lakegc mark my-repo --reference-mark ft6s0e1ksdufuaulm34g
    """  # noqa: D301 - as above
    if reference_mark is not None and len(repositories) != 1:
        raise SettingsError("--reference-mark is the mark of one repository", "Name that one.")
    return _launch_each(
        config,
        repositories,
        key,
        lambda _settings, _repository_id: "mark",
        reference_mark=reference_mark,
        full=full,
    )


@main.command()
@_repository
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Run key of the mark; with --reference-mark, the run key of the new mark (default: now).",
)
@_reference_mark
@take_over_option
@command_body
def sweep(
    config: Path | None,
    repository: str,
    key: RunKey | None,
    reference_mark: str | None,
    take_over: RunKey | None,
) -> int:
    """Delete the objects of an earlier mark, if its verdict allows it and the mode is `sweep`.

    `lakegc report` shows the run keys of a repository's marks.

    A mark of lakeFS's own job is verified first: the repository is marked again, and only objects
    that both marks name are deleted. The rest of the job's mark is kept, and reported with its
    reason.

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
            "no mark to sweep was named",
            "Name its run key with --run (`lakegc report` shows "
            "them), or a mark of lakeFS's own job with --reference-mark.",
        )
    return _launch_each(
        config,
        [repository],
        key,
        lambda _settings, _repository_id: "sweep",
        take_over=take_over,
        is_known=True,
    )


@main.command()
@_repository
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Run key; default: the newest mark.",
)
@click.option(
    "--chart",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw its bars into a PNG file, for a message or a slide.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@command_body
def report(
    config: Path | None, repository: str, key: RunKey | None, chart: Path | None, *, as_json: bool
) -> int:
    """Show the report of a run again, and the paths of its page and its Parquet.

    \b
    Examples:
      lakegc report my-repo
      lakegc report my-repo --run 2026-11-20T02-00-00Z
      lakegc report my-repo --chart november.png
      lakegc report my-repo --json
    """  # noqa: D301 - as above
    from lakegc_dagster.stored_runs import load_report

    if chart is not None:
        require_place(chart)
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        if as_json or chart is not None:
            _, found, _ = load_report(settings, repository, key)
        if chart is not None:
            from spark_core.report import chart as drawn

            write_file(chart, drawn(found))
        if as_json:
            click.echo(found.to_json())
        else:
            _show_report(settings, repository, key, earlier=key is None)
            if chart is not None:
                click.echo(f"chart    {chart}")
    return 0


@main.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=3000,
    show_default=True,
    help="Port.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address of this machine to listen on. The UI has no login: whoever reaches it can start "
    "runs, also sweeps. It answers for this address, for loopback, and for `hosts` of [ui] in the "
    "settings.",
)
@click.option(
    "--sandbox", is_flag=True, help="Serve the demo's sandbox as well, while the UI is open."
)
@command_body
def ui(config: Path | None, port: int, host: str, *, sandbox: bool) -> int:
    """Open Dagster's UI on the runs of the command line; Ctrl-C ends it.

    \b
    Examples:
      lakegc ui
      lakegc ui --sandbox
      lakegc ui --port 3001 --config /etc/lakegc.toml
      lakegc ui --host 0.0.0.0
    """  # noqa: D301 - as above
    from lakegc_dagster import console
    from lakegc_dagster.demo import sandbox as demo_sandbox
    from lakegc_dagster.launch import ui as dagster_ui

    if sandbox and config is None:
        config = demo_sandbox.settings_file(demo_sandbox.DIRECTORY)
        if not demo_sandbox.is_ours(demo_sandbox.DIRECTORY):
            from lakegc_dagster.demo.tour import make_history

            make_history(demo_sandbox.DIRECTORY)
    shown = console.console()
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        if sandbox:
            shown.print(
                f"sandbox  {settings.server.endpoint}  (keys: {settings.server.credentials_file})",
                markup=False,
            )
        if not dagster_ui.is_loopback(host):
            shown.print(
                f"The UI has no login. Whoever reaches port {port} of {host} can start runs, also "
                "sweeps: put a proxy with a login before it, or a firewall. Names by which people "
                "reach it belong to `hosts` of [ui] in lakegc.toml; others are refused.",
                style="yellow",
                markup=False,
                soft_wrap=True,
            )
        where = f"[{host}]" if ":" in host else host
        shown.print(f"UI       http://{where}:{port}  (Ctrl-C ends it)\n", markup=False)
        dagster_ui.serve(settings, port, host)
    return 0


def _launch_each(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    job: Callable[[Settings, str], JobName],
    *,
    reference_mark: str | None = None,
    take_over: RunKey | None = None,
    full: bool = False,
    is_known: bool = False,
    changed: Mapping[str, object] | None = None,
) -> int:
    from lakegc_dagster import console
    from lakegc_dagster.java_process import LOG_NAME
    from lakegc_dagster.run_keys import new_run_key
    from lakegc_dagster.spark_output import OUTPUT
    from lakegc_dagster.stored_runs import open_known
    from spark_core.settings.collected_repositories import chosen_repositories
    from spark_core.settings.environment import require_spark

    shown = console.console()
    code = 0
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        chosen = chosen_repositories(settings, repositories)
        # All names are checked before the first run starts, so a typo is not found only after an
        # hour.
        jobs = {repository_id: job(settings, repository_id) for repository_id in chosen}
        for repository_id in chosen:
            settings = settings.with_changed(repository_id, **(changed or {}))
        # Before anything is asked, although a run without much to read needs no Java.
        require_spark(settings)
        log = OUTPUT.kept_in = settings.dagster_home / LOG_NAME
        if is_known and key is not None:
            for repository_id in chosen:
                open_known(settings, repository_id, key)
        is_new = key is None
        key = key or new_run_key(settings.dagster_home)
        ended = []
        for repository_id, name in jobs.items():
            shown.print(f"[bold]{name}[/bold] {repository_id}, run {key}")
            one, code_of_one = _launch_one(
                settings,
                name,
                repository_id,
                key,
                log,
                is_new=is_new,
                reference_mark=reference_mark,
                take_over=None if take_over is None else str(take_over),
                full=full,
            )
            ended.append(one)
            code = max(code, code_of_one)
        closing_table(shown, ended)
        publish_metrics(settings)
    return code


def _launch_one(
    settings: Settings, name: JobName, repository_id: str, key: RunKey, log: Path, **asked: Any
) -> tuple[Ended, int]:
    """Run a job of one repository, and show what came of it; `asked` goes to `launch`.

    Returns:
        How it ended, and the exit code that this calls for.
    """
    from lakegc_dagster import console
    from lakegc_dagster.launch.run_job import launch
    from spark_core.phases import NOTHING_DELETED, SWEEP_STANDS, phase

    shown = console.console()
    began = time.monotonic()
    # Earlier repositories may have been swept.
    with phase(f"Nothing of {repository_id} was deleted."), console.Steps(shown) as steps:
        result = launch(settings, name, repository_id, key, on_event=steps, **asked)
    if not result.success:
        failure = result.error or unforeseen(result.message, log, result.state)
        console.show_error(console.console(sys.stderr), failure)
        show_refused(shown, settings, repository_id, key, result)
        tell_of_failure(settings, repository_id, key, failure)
        took = time.monotonic() - began
        return Ended.of(repository_id, result, failure, took), exit_code(failure)
    with phase(NOTHING_DELETED if name == "mark" else SWEEP_STANDS):
        _show_report(settings, repository_id, key, earlier=False, marked=result.marked)
    shown.print(f"worked   {result.work}", markup=False, soft_wrap=True)
    if result.house is not None:
        shown.print(f"house    {result.house}", markup=False, soft_wrap=True)
    shown.print()
    return Ended.of(repository_id, result, None, time.monotonic() - began), 0


def _show_report(
    settings: Settings,
    repository_id: str,
    key: RunKey | None,
    *,
    earlier: bool,
    marked: tuple[Run, Report] | None = None,
) -> None:
    """Show the report of a run; `marked` is that of a mark which this process has just made."""
    from lakegc_dagster import console
    from lakegc_dagster.stored_runs import load_report, local_path
    from spark_core.records import tables

    shown = console.console()
    if marked is None:
        run, found, page = load_report(settings, repository_id, key)
    else:
        run, found = marked
        page = local_path(run, lakegc_keys.report_keys(run.key, swept=False)["html"])
    console.show_report(shown, found)
    show_price(shown, found, run.options.price_per_gb_month)
    folder = tables.DELETION_REPORT if found.swept else tables.EXPIRED_ADDRESSES
    shown.print(f"\nreport   {page}", markup=False, soft_wrap=True)
    shown.print(
        f"Parquet  {local_path(run, tables.folder(folder, run.key))}", markup=False, soft_wrap=True
    )
    if marked is None or run.options.policies != "off":
        show_named(run)
    if earlier:
        others = [str(other) for other in tables.runs(run.store) if other != run.key][:10]
        if others:
            shown.print(f"earlier  {'  '.join(others)}", markup=False, soft_wrap=True)
    if found.passed and run.options.write_reference_mark:
        from spark_core.handover.reference_mark import mark_id

        shown.print(
            f"mark id  {mark_id(run)}  (for the reference job)", markup=False, soft_wrap=True
        )
    if not found.swept and found.passed and found.expired.objects and run.options.may_sweep:
        named = "" if settings.file is None else f" --config {settings.file}"
        shown.print(
            f"next     lakegc sweep {repository_id} --run {run.key}{named}",
            markup=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    main()
