"""`lakegc hold`: keep objects from collection, whatever the retention rules say."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from spark_core.cli.act_document import HoldNow
from spark_core.cli.acting import acting, tell
from spark_core.cli.common import RepositoryType, command_body, read_settings
from spark_core.cli.groups import Commands
from spark_core.who_acts import who

if TYPE_CHECKING:
    from spark_core.holds import Kind
    from spark_core.run import Run

_repository = click.argument("repository", type=RepositoryType())
_name = click.argument("name")


@click.group(cls=Commands)
def hold() -> None:
    """Add, show or remove holds: they keep objects, paths, commits, branches or tags.

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
@click.option(
    "--address",
    metavar="ADDRESS",
    help="One object: its physical address, full or relative to the namespace.",
)
@click.option(
    "--prefix",
    metavar="PREFIX",
    help="Every object whose address begins with this, also later ones.",
)
@click.option(
    "--path",
    metavar="PATTERN",
    help="Every object that any commit has or had at such a path, also later ones: `*` stands for "
    "a part of one name, `**` for any folders. What was never committed is kept while it is "
    "staged, and not longer: then nobody knows its path.",
)
@click.option("--commit", metavar="ID", help="Every object of this commit.")
@click.option(
    "--branch",
    metavar="BRANCH",
    help="Every object of this branch and its whole past, also after it is deleted.",
)
@click.option(
    "--tag", metavar="TAG", help="Every object of this tag's commit, also after the tag is deleted."
)
@click.option("--why", default="", metavar="TEXT", help="A note for readers of the hold.")
@acting
def hold_add(
    config: Path | None, repository: str, name: str, why: str, **things: str | None
) -> int:
    """Add the hold NAME on one thing that exists, or on a pattern of paths.

    \b
    Examples:
      lakegc hold add my-repo audit-2026 --branch release-1 --why "kept for the auditors"
      lakegc hold add my-repo models --path 'models/**/final'
      lakegc hold add my-repo sample --address data/gp0n1l7d77pn0cke6jjg/cpe2e9n7pnpe0r8n4hdg
      lakegc hold add my-repo imports --prefix data/gp0n1l7d77pn0cke6jjg/
    """  # noqa: D301 - as above
    given = {kind: value for kind, value in things.items() if value is not None}
    if len(given) != 1:
        raise click.UsageError(
            "name one thing: --address, --prefix, --path, --commit, --branch or --tag; nothing was "
            "changed."
        )
    ((kind, value),) = given.items()
    with ExitStack() as stack:
        from spark_core import holds
        from spark_core.lock import lease_log
        from spark_core.terminal import console

        run = open_now(config, stack, repository)
        made = holds.add(run, name, cast("Kind", kind), value, who=who(), why=why)
        tell(HoldNow(made.name, made.kind, made.value, made.who, made.why, is_there=True))
        shown = console.console()
        shown.print(f"{made.words} was added to {repository}", markup=False, soft_wrap=True)
        last = lease_log.last_record(run.store)
        if last is not None and last.state == "held":
            from spark_core.references.parts_of_look import GOOD_FOR

            minutes = GOOD_FOR.total_seconds() / 60
            shown.print(
                f"The {last.owner} may be at work: it sees the hold within {minutes:g} minutes.",
                style="yellow",
                markup=False,
                soft_wrap=True,
            )
    return 0


@hold.command("list")
@_repository
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
@command_body
def hold_list(config: Path | None, repository: str, *, as_json: bool) -> int:
    """Show the holds of a repository.

    \b
    Examples:
      lakegc hold list my-repo
      lakegc hold list my-repo --json
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from spark_core import holds
        from spark_core.terminal import console

        found = holds.load(open_now(config, stack, repository).store).holds
        if as_json:
            named = [
                HoldNow(one.name, one.kind, one.value, one.who, one.why, is_there=True)
                for one in found
            ]
            click.echo(json.dumps([asdict(each) for each in named], indent=1))
            return 0
        shown = console.console()
        if not found:
            shown.print(
                f"{repository} has no holds: only its rules say what is kept.",
                markup=False,
                soft_wrap=True,
            )
            return 0
        rows = [
            (one.name, one.kind, one.value, f"{one.since:%Y-%m-%d %H:%M} {one.who}", one.why or "-")
            for one in found
        ]
        shown.print(
            console.table(
                f"Holds of {repository}", ("name", "kind", "what", "since (UTC), by", "why"), rows
            )
        )
    return 0


@hold.command("remove")
@_repository
@_name
@acting
def hold_remove(config: Path | None, repository: str, name: str) -> int:
    """Remove the hold NAME: from then on only the rules decide about its objects.

    \b
    Example:
      lakegc hold remove my-repo audit-2026
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from spark_core import holds
        from spark_core.terminal import console

        gone = holds.remove(open_now(config, stack, repository), name)
        tell(HoldNow(gone.name, gone.kind, gone.value, gone.who, gone.why, is_there=False))
        console.console().print(
            f"{gone.words} was removed from {repository}; {gone.who} had made it",
            markup=False,
            soft_wrap=True,
        )
    return 0


def open_now(config: Path | None, stack: ExitStack, repository: str) -> Run:
    """Open a repository as it is now, under a run key that nobody stores."""
    from datetime import UTC, datetime

    from spark_core.model import RunKey
    from spark_core.stored_runs import open_stored

    return open_stored(read_settings(config, stack), repository, RunKey.at(datetime.now(UTC)))
