"""The commands of `lakegc`; heavy libraries are imported only by the commands that need them.

Exit codes: 0 done, 1 failed, 2 wrong settings or usage, 3 refused, 130 ended by Ctrl-C.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from lakegc_dagster.cli.certificate import certificate, verify
from lakegc_dagster.cli.common import (
    RepositoryType,
    RunKeyType,
    command_body,
    guarded,
    output_options,
    read_settings,
    take_over_option,
)
from lakegc_dagster.cli.config import config
from lakegc_dagster.cli.confirm import confirm
from lakegc_dagster.cli.doctor import doctor
from lakegc_dagster.cli.erase import erase
from lakegc_dagster.cli.explain import explain
from lakegc_dagster.cli.groups import Lakegc
from lakegc_dagster.cli.holds import hold
from lakegc_dagster.cli.init import init
from lakegc_dagster.cli.launching import launch_each
from lakegc_dagster.cli.metrics import metrics
from lakegc_dagster.cli.notify import notify
from lakegc_dagster.cli.restore import restore
from lakegc_dagster.cli.retention import retention
from lakegc_dagster.cli.rules import rules
from lakegc_dagster.cli.runs import runs, status
from lakegc_dagster.cli.shown_page import show_page
from lakegc_dagster.cli.shown_report import show_report
from lakegc_dagster.cli.tables import show_tables
from lakegc_dagster.cli.what_if import what_if
from lakegc_dagster.whole_file import require_place, write_file
from spark_core import __version__
from spark_core.errors import SettingsError

# The objects of imported libraries stay. With Python's default of 700, a quarter of their import
# time goes to the garbage collector.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000

if TYPE_CHECKING:
    from lakegc_dagster.job_names import JobName
    from spark_core.model import RunKey
    from spark_core.settings import Settings


@click.group(
    cls=Lakegc,
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


main.add_command(init)
main.add_command(config)
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
main.add_command(erase)
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


_repositories = click.argument(
    "repositories", metavar="[REPOSITORY]...", nargs=-1, type=RepositoryType()
)
_repository = click.argument("repository", type=RepositoryType())
_key = click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Instant that names the run, like 2026-11-20T02-00-00Z; default: now.",
)


_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object; the rest goes to standard error.",
)

_yes = click.option(
    "--yes",
    is_flag=True,
    help="Let a first sweep delete at once what could not come back, if the settings do not say "
    "`quarantine`.",
)

_launching = partial(
    command_body,
    verbose="Show every step of several repositories, one after the other, and Spark's own lines.",
)

_full = click.option(
    "--full", is_flag=True, help="Read everything, although the settings allow an optimized run."
)


@main.command()
@_repositories
@_key
@_full
@take_over_option
@_yes
@_json
@_launching
def run(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    take_over: RunKey | None,
    *,
    full: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Mark repositories, and sweep those whose mode is `sweep`.

    Without names: every repository of the settings, all under one run key, as the nightly schedule
    does. Several are worked on side by side, and each is one line. The command goes on after a
    repository that is refused or fails: the exit code is 3 if any was refused, else 1 if any
    failed.

    \b
    Examples:
      lakegc run
      lakegc run my-repo other-repo
      lakegc run my-repo --run 2026-11-20T02-00-00Z
      lakegc run my-repo --full
    """  # noqa: D301 - as above

    def job(settings: Settings, repository_id: str) -> JobName:
        return "mark_and_sweep" if settings.repository(repository_id).mode == "sweep" else "mark"

    return launch_each(
        config, repositories, key, job, take_over=take_over, full=full, as_json=as_json, yes=yes
    )


@main.command()
@_repositories
@_key
@_yes
@_json
@_launching
def expire(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    *,
    yes: bool,
    as_json: bool,
) -> int:
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

    return launch_each(
        config, repositories, key, job, changed={"collects": "policies"}, as_json=as_json, yes=yes
    )


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
@_json
@_launching
def mark(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    reference_mark: str | None,
    *,
    full: bool,
    as_json: bool,
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
    return launch_each(
        config,
        repositories,
        key,
        lambda _settings, _repository_id: "mark",
        reference_mark=reference_mark,
        full=full,
        as_json=as_json,
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
@_yes
@_json
@command_body
def sweep(
    config: Path | None,
    repository: str,
    key: RunKey | None,
    reference_mark: str | None,
    take_over: RunKey | None,
    *,
    yes: bool,
    as_json: bool,
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
        return launch_each(
            config,
            [repository],
            key,
            lambda _settings, _repository_id: "mark_and_sweep",
            reference_mark=reference_mark,
            take_over=take_over,
            as_json=as_json,
            yes=yes,
        )
    if key is None:
        raise SettingsError(
            "no mark to sweep was named",
            "Name its run key with --run (`lakegc report` shows "
            "them), or a mark of lakeFS's own job with --reference-mark.",
        )
    return launch_each(
        config,
        [repository],
        key,
        lambda _settings, _repository_id: "sweep",
        take_over=take_over,
        is_known=True,
        as_json=as_json,
        yes=yes,
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
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write its page into a file, wherever it lies.",
)
@click.option("--open", "opens", is_flag=True, help="Open its page in the default browser.")
@click.option(
    "--metadata",
    is_flag=True,
    help="Show instead which of lakeFS's own tables no commit names; nothing deletes them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@command_body
def report(
    config: Path | None,
    repository: str,
    key: RunKey | None,
    chart: Path | None,
    html: Path | None,
    *,
    opens: bool,
    metadata: bool,
    as_json: bool,
) -> int:
    """Show the report of a run again, and the paths of its page and its Parquet.

    With --metadata, the server dumps its refs, as for a mark, and every metarange is read.

    \b
    Examples:
      lakegc report my-repo
      lakegc report my-repo --run 2026-11-20T02-00-00Z
      lakegc report my-repo --open
      lakegc report my-repo --html november.html
      lakegc report my-repo --chart november.png
      lakegc report my-repo --metadata
      lakegc report my-repo --json
    """  # noqa: D301 - as above
    from lakegc_dagster.stored_runs import load_report

    if metadata:
        show_tables(config, repository, key, as_json=as_json)
        return 0
    for file in (chart, html):
        if file is not None:
            require_place(file)
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
            show_report(settings, repository, key, earlier=key is None)
            if chart is not None:
                click.echo(f"chart    {chart}")
        if html is not None or opens:
            show_page(settings, repository, key, html, opens=opens, to_stderr=as_json)
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


if __name__ == "__main__":
    main()
