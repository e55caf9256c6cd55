"""`lakegc hold`: what is kept from ever being collected, whatever the rules say."""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from lakegc_dagster.cli.common import command_body, read_settings

if TYPE_CHECKING:
    from spark_core.mark.holds import Kind
    from spark_core.run import Run

_repository = click.argument("repository")
_name = click.argument("name")


@click.group()
def hold() -> None:
    """Keep objects, commits, branches or tags from ever being collected; show or remove such holds.

    \b
    Examples:
      lakegc hold add my-repo audit-2026 --branch release-1 --why "kept for the auditors"
      lakegc hold add my-repo imports --prefix data/gp0n1l7d77pn0cke6jjg/
      lakegc hold list my-repo
      lakegc hold remove my-repo audit-2026
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"


@hold.command("add")
@_repository
@_name
@click.option("--address", metavar="ADDRESS", help="One object: its physical address, whole or below the namespace.")
@click.option("--prefix", metavar="PREFIX", help="Every object whose address begins so, also later ones.")
@click.option("--commit", metavar="ID", help="What this commit reaches.")
@click.option(
    "--branch", metavar="BRANCH", help="What this branch reaches through all of its past, also after it is gone."
)
@click.option("--tag", metavar="TAG", help="What this tag's commit reaches, also after the tag is gone.")
@click.option("--why", default="", metavar="TEXT", help="A note for those who find the hold.")
@command_body
def hold_add(config: Path | None, repository: str, name: str, why: str, **things: str | None) -> int:
    """Make the hold NAME on one thing that exists.

    \b
    Examples:
      lakegc hold add my-repo audit-2026 --branch release-1 --why "kept for the auditors"
      lakegc hold add my-repo sample --address s3://bucket/repo/data/gp0n1l7d77pn0cke6jjg/cpe2e9n7pnpe0r8n4hdg
      lakegc hold add my-repo imports --prefix data/gp0n1l7d77pn0cke6jjg/
    """  # noqa: D301 - as above
    said = {kind: value for kind, value in things.items() if value is not None}
    if len(said) != 1:
        raise click.UsageError("name one thing: --address, --prefix, --commit, --branch or --tag; nothing was changed.")
    ((kind, value),) = said.items()
    with ExitStack() as stack:
        from lakegc_dagster import console
        from spark_core.lock import lease_log
        from spark_core.mark import holds

        run = _open(config, stack, repository)
        made = holds.add(run, name, cast("Kind", kind), value, who=_who(), why=why)
        shown = console.console()
        shown.print(f"{made.words} is kept in {repository}", markup=False, soft_wrap=True)
        last = lease_log.last_record(run.store)
        if last is not None and last.state == "held":
            minutes = run.options.reread_every.total_seconds() / 60
            shown.print(
                f"The {last.owner} may be at work: it sees the hold within {minutes:g} minutes.",
                style="yellow",
                markup=False,
                soft_wrap=True,
            )
    return 0


@hold.command("list")
@_repository
@command_body
def hold_list(config: Path | None, repository: str) -> int:
    """Show the holds of a repository.

    \b
    Example:
      lakegc hold list my-repo
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from lakegc_dagster import console
        from spark_core.mark import holds

        found = holds.load(_open(config, stack, repository).store).holds
        shown = console.console()
        if not found:
            shown.print(f"{repository} has no holds: its rules alone say what is kept.", markup=False, soft_wrap=True)
            return 0
        rows = [
            (one.name, one.kind, one.value, f"{one.since:%Y-%m-%d %H:%M} {one.who}", one.why or "-") for one in found
        ]
        shown.print(console.table(f"Holds of {repository}", ("name", "kind", "what", "since (UTC), by", "why"), rows))
    return 0


@hold.command("remove")
@_repository
@_name
@command_body
def hold_remove(config: Path | None, repository: str, name: str) -> int:
    """Take the hold NAME away: from then on the rules alone decide about what it kept.

    \b
    Example:
      lakegc hold remove my-repo audit-2026
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from lakegc_dagster import console
        from spark_core.mark import holds

        gone = holds.remove(_open(config, stack, repository), name)
        console.console().print(
            f"{gone.words} is kept no longer in {repository}; it was made by {gone.who}", markup=False, soft_wrap=True
        )
    return 0


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that no name belongs to.
        user = f"user {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def _open(config: Path | None, stack: ExitStack, repository: str) -> Run:
    from datetime import UTC, datetime

    from lakegc_dagster.stored_runs import open_stored
    from spark_core.model import RunKey

    return open_stored(read_settings(config, stack), repository, RunKey.at(datetime.now(UTC)))
