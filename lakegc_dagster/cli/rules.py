"""`lakegc rules`: the garbage-collection rules of a repository on the server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakegc_dagster.cli.common import command_body, read_settings

if TYPE_CHECKING:
    from spark_core.lakefs import LakeFSServer

# As the engine's own limit, which `--help` should not have to import.
LONGEST_DAYS = 36_500


class _BranchDays(click.ParamType[Any]):
    """A rule for one branch on the command line: NAME=DAYS."""

    name = "name=days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        # From the right: a branch name may hold anything but the days.
        branch, separator, days = value.rpartition("=")
        if not separator or not branch or not days.isdecimal() or int(days) > LONGEST_DAYS:
            self.fail(f"{value!r} is not a branch and its days (0 to {LONGEST_DAYS}), like main=21", param, ctx)
        return branch, int(days)


_repository = click.argument("repository")


@click.group()
def rules() -> None:
    """Show or change a repository's garbage-collection rules on the server.

    \b
    Examples:
      lakegc rules get my-repo
      lakegc rules set my-repo --default 14 --branch main=21 --branch dev=7
      lakegc rules delete my-repo
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"


@rules.command("get")
@_repository
@command_body
def rules_get(config: Path | None, repository: str) -> int:
    """Show the rules: how many days each branch keeps its past.

    \b
    Example:
      lakegc rules get my-repo
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        _show_rules(_server(config, stack), repository)
    return 0


@rules.command("set")
@_repository
@click.option(
    "--default",
    "default_days",
    type=click.IntRange(0, LONGEST_DAYS),
    required=True,
    metavar="DAYS",
    help="For branches without a rule, and for commits that no branch leads to.",
)
@click.option(
    "--branch",
    "branch_days",
    type=_BranchDays(),
    multiple=True,
    metavar="NAME=DAYS",
    help="For one branch; repeatable.",
)
@command_body
def rules_set(config: Path | None, repository: str, default_days: int, branch_days: Sequence[tuple[str, int]]) -> int:
    """Set the rules, in place of those there are, and show them as the server has them now.

    Days are whole, 0 to 36500. Every head is kept whatever the days say.

    \b
    Example:
      lakegc rules set my-repo --default 14 --branch main=21 --branch dev=7
    """  # noqa: D301 - as above
    from spark_core.model import RetentionRules

    named = dict(branch_days)
    if len(named) != len(branch_days):
        raise click.UsageError("a branch is named twice; nothing was changed.")
    with ExitStack() as stack:
        server = _server(config, stack)
        server.repository(repository)
        server.set_retention_rules(repository, RetentionRules(default_days, named))
        _show_rules(server, repository)
    return 0


@rules.command("delete")
@_repository
@command_body
def rules_delete(config: Path | None, repository: str) -> int:
    """Take the rules away: then every commit keeps its objects, and only uncommitted garbage goes.

    \b
    Example:
      lakegc rules delete my-repo
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        server = _server(config, stack)
        server.repository(repository)
        server.delete_retention_rules(repository)
        _show_rules(server, repository)
    return 0


def _server(config: Path | None, stack: ExitStack) -> LakeFSServer:
    from spark_core.lakefs import LakeFSServer

    return LakeFSServer(read_settings(config, stack).server_options())


def _show_rules(server: LakeFSServer, repository_id: str) -> None:
    from lakegc_dagster import console

    shown = console.console()
    server.repository(repository_id)
    found = server.retention_rules(repository_id)
    if found is None:
        words = "has no rules: every commit keeps its objects, and only uncommitted garbage goes."
        shown.print(f"{repository_id} {words}", soft_wrap=True)
        return
    rows = [("(every other branch)", f"{found.default_retention_days:,}")]
    rows += [(branch, f"{days:,}") for branch, days in sorted(found.branches.items())]
    shown.print(console.table(f"Rules of {repository_id}", ("branch", "days"), rows))
    absent = sorted(set(found.branches) - {branch.id for branch in server.branches(repository_id)})
    if absent:
        shown.print(
            f"There is no branch named {', '.join(absent)}: such a rule does nothing until there is one.",
            style="yellow",
        )
