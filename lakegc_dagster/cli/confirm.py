"""`lakegc confirm`: say by name that an unusual finding of a mark is right."""

from __future__ import annotations

import getpass
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakegc_dagster.cli.common import RunKeyType, command_body, read_settings

if TYPE_CHECKING:
    from spark_core.model import RunKey


@click.command()
@click.argument("repository")
@click.argument("check")
@click.option(
    "--run", "key", type=RunKeyType(), metavar="KEY", required=True, help="Which mark, by its run key; only this one."
)
@command_body
def confirm(config: Path | None, repository: str, check: str, key: RunKey) -> int:
    """Confirm an unusual finding of a mark by name, so that this mark may be swept; deletes nothing.

    The checks `expired_share_is_plausible` (more than half of the objects would
    go) and `nothing_changed_suddenly` stop what is unusual, and the first run over
    an old repository may be just that. Read the report, then confirm. The
    note lies beside the verdict, with who said so and when, and holds for
    this run alone. No other check can be confirmed.

    \b
    Example:
      lakegc confirm my-repo expired_share_is_plausible --run 2026-11-20T02-00-00Z
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from lakegc_dagster import console
    from lakegc_dagster.stored_runs import open_stored
    from spark_core.checks import verdict

    shown = console.console()
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        run = open_stored(settings, repository, key)
        said = verdict.confirm(run, check, who=_who())
        shown.print(f"confirmed by {said.who}: {said.found}", markup=False, soft_wrap=True)
        named = "" if settings.file is None else f" --config {settings.file}"
        shown.print(f"next     lakegc sweep {repository} --run {key}{named}", markup=False, soft_wrap=True)
    return 0


def _who() -> str:
    """Name the account and the machine; a container may have an account without a name."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):
        account = "an account without a name"
    return f"{account}@{socket.gethostname()}"
