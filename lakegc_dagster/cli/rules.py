"""`lakegc rules`: the garbage-collection rules of a repository on the server."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakegc_dagster.cli import rules_document
from lakegc_dagster.cli.common import command_body, read_settings

if TYPE_CHECKING:
    from spark_core.lakefs import LakeFSServer

# Equal to the engine's limit, which `--help` does not import.
LONGEST_DAYS = 36_500


class _BranchDays(click.ParamType[Any]):
    """A rule for one branch on the command line: NAME=DAYS."""

    name = "name=days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        # Split from the right, because a branch name may contain "=".
        branch, separator, days = value.rpartition("=")
        if not separator or not branch or not days.isdecimal() or int(days) > LONGEST_DAYS:
            self.fail(
                f"{value!r} is not a branch and its days (0 to {LONGEST_DAYS}), like main=21",
                param,
                ctx,
            )
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
@click.option(
    "--json", "as_json", is_flag=True, help="Print them in the form of the lakeFS documents."
)
@command_body
def rules_get(config: Path | None, repository: str, *, as_json: bool) -> int:
    """Show the rules: the days for which each branch keeps its past.

    With --json they are printed as `rules set -f` and lakeFS's own tools take them; a repository
    without rules prints `null`.

    \b
    Examples:
      lakegc rules get my-repo
      lakegc rules get my-repo --json > rules.json
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        server = _server(config, stack)
        if as_json:
            server.repository(repository)
            document = rules_document.written(server.retention_rules(repository))
            sys.stdout.write(json.dumps(document, indent=2) + "\n")
        else:
            _show_rules(server, repository)
    return 0


@rules.command("set")
@_repository
@click.option(
    "--default",
    "default_days",
    type=click.IntRange(0, LONGEST_DAYS),
    metavar="DAYS",
    help="Days for branches without a rule, and for commits that no branch reaches.",
)
@click.option(
    "--branch",
    "branch_days",
    type=_BranchDays(),
    multiple=True,
    metavar="NAME=DAYS",
    help="Days for one branch; repeatable.",
)
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON file in the form of the lakeFS documents, instead of --default and --branch.",
)
@command_body
def rules_set(
    config: Path | None,
    repository: str,
    default_days: int | None,
    branch_days: Sequence[tuple[str, int]],
    *,
    file: Path | None,
) -> int:
    """Replace the rules, and show them as the server now has them.

    Days are whole numbers, 0 to 36500. Every head is kept, whatever the days.

    \b
    Examples:
      lakegc rules set my-repo --default 14 --branch main=21 --branch dev=7
      lakegc rules set my-repo -f rules.json
    """  # noqa: D301 - as above
    from spark_core.model import RetentionRules

    named = dict(branch_days)
    if len(named) != len(branch_days):
        raise click.UsageError("a branch is named twice; nothing was changed.")
    if (file is None) == (default_days is None) or (file is not None and named):
        raise click.UsageError(
            "either --file, or --default with any --branch; nothing was changed."
        )
    asked = (
        RetentionRules(default_days or 0, named)
        if file is None
        else rules_document.read(file, longest_days=LONGEST_DAYS)
    )
    with ExitStack() as stack:
        server = _server(config, stack)
        server.repository(repository)
        server.set_retention_rules(repository, asked)
        _show_rules(server, repository)
    return 0


@rules.command("delete")
@_repository
@command_body
def rules_delete(config: Path | None, repository: str) -> int:
    """Delete the rules: then every commit keeps its objects, and only uncommitted garbage goes.

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
            f"There is no branch named {', '.join(absent)}: such a rule does nothing until there "
            "is one.",
            style="yellow",
        )
