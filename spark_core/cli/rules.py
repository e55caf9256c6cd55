"""`lakegc rules`: the garbage-collection rules of a repository on the server."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_core.cli import rules_document, rules_plan
from spark_core.cli.act_document import BranchDays, RulesNow
from spark_core.cli.acting import acting, tell
from spark_core.cli.common import (
    RepositoryType,
    agreed,
    command_body,
    name_absent_branches,
    read_settings,
)
from spark_core.cli.groups import Commands
from spark_core.errors import FAILED, SettingsError
from spark_core.plain_text import counted

if TYPE_CHECKING:
    from spark_core.lakefs import LakeFSServer
    from spark_core.model import RetentionRules
    from spark_core.settings import Settings

# Equal to the engine's limit, which `--help` does not import.
LONGEST_DAYS = 36_500


class BranchDaysType(click.ParamType[Any]):
    """A rule for one branch on the command line: NAME=DAYS."""

    name = "name=days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the name and the days; anything else is a usage error."""
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


_repository = click.argument("repository", type=RepositoryType())
default_option = click.option(
    "--default",
    "default_days",
    type=click.IntRange(0, LONGEST_DAYS),
    metavar="DAYS",
    help="Days for branches without a rule, and for commits that no branch reaches. It replaces "
    "all rules.",
)
branch_option = click.option(
    "--branch",
    "branch_days",
    type=BranchDaysType(),
    multiple=True,
    metavar="NAME=DAYS",
    help="Days for one branch; repeatable. Without --default all other rules stay.",
)


@click.group(cls=Commands)
def rules() -> None:
    """Show or change a repository's garbage-collection rules on the server.

    \b
    Examples:
      lakegc rules get my-repo
      lakegc rules set my-repo --branch main=7
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
        settings = read_settings(config, stack)
        server = _server(settings)
        server.repository(repository)
        if as_json:
            document = rules_document.document_of(server.retention_rules(repository))
            sys.stdout.write(json.dumps(document, indent=2) + "\n")
        else:
            found = _show_rules(settings, server, repository)
            name_absent_branches(server, repository, found.branches if found else ())
    return 0


@rules.command("set")
@_repository
@default_option
@branch_option
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON file in the form of the lakeFS documents, instead of --default and --branch.",
)
@click.option(
    "--yes", is_flag=True, help="Set them at once: neither show what would change, nor ask."
)
@acting
def rules_set(
    config: Path | None,
    repository: str,
    default_days: int | None,
    branch_days: Sequence[tuple[str, int]],
    *,
    file: Path | None,
    yes: bool,
) -> int:
    """Show what other rules would change, ask, and set them.

    What they would let go is read as `lakegc what-if` reads it, by the newest mark, which takes
    about as long as a mark; --yes goes without. Nothing is deleted: the next run goes by the new
    rules. Days are whole numbers, 0 to 36500. Every head is kept, whatever the days.

    \b
    Examples:
      lakegc rules set my-repo --branch main=7
      lakegc rules set my-repo --default 14 --branch main=21 --branch dev=7
      lakegc rules set my-repo -f rules.json --yes
    """  # noqa: D301 - as above
    named = branches_named(branch_days)
    given = (default_days is not None) or bool(named)
    if (file is None) != given:
        raise click.UsageError("either --file, or --default and any --branch; nothing was changed.")
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        server = _server(settings)
        server.repository(repository)
        now = server.retention_rules(repository)
        asked = (
            rules_plan.rules_asked(now, default_days, named)
            if file is None
            else rules_document.read_rules(file, longest_days=LONGEST_DAYS)
        )
        name_absent_branches(server, repository, asked.branches)
        if not yes:
            rules_plan.show(settings, repository, now, asked)
        if not (yes or agreed("Set these rules?")):
            click.echo("Nothing was changed; --yes goes on without asking.", err=True)
            return FAILED
        server.set_retention_rules(repository, asked)
        tell(
            RulesNow(
                asked.default_retention_days,
                [BranchDays(*each) for each in sorted(asked.branches.items())],
            )
        )
        _show_rules(settings, server, repository)
    return 0


def branches_named(branch_days: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return days by branch.

    Raises:
        UsageError: If a branch is named twice.
    """
    named = dict(branch_days)
    if len(named) != len(branch_days):
        raise click.UsageError("a branch is named twice; nothing was changed.")
    return named


@rules.command("delete")
@_repository
@acting
def rules_delete(config: Path | None, repository: str) -> int:
    """Delete the rules: then every commit keeps its objects, and only uncommitted garbage goes.

    \b
    Example:
      lakegc rules delete my-repo
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        server = _server(settings)
        server.repository(repository)
        server.delete_retention_rules(repository)
        tell(RulesNow(None, []))
        _show_rules(settings, server, repository)
    return 0


def _server(settings: Settings) -> LakeFSServer:
    from spark_core.lakefs import LakeFSServer

    return LakeFSServer(settings.server_options())


def _kept_last(settings: Settings, repository_id: str) -> int:
    """Return how many commits of each branch stay; 0 where the settings have no such repository."""
    try:
        return settings.run_options(repository_id).keep_last
    except SettingsError:
        return 0


def _show_rules(
    settings: Settings, server: LakeFSServer, repository_id: str
) -> RetentionRules | None:
    """Show the rules that the server has now, and return them."""
    from spark_core.terminal import console

    shown = console.console()
    found = server.retention_rules(repository_id)
    if found is None:
        words = "has no rules: every commit keeps its objects, and only uncommitted garbage goes."
        shown.print(f"{repository_id} {words}", soft_wrap=True)
        return None
    rows = [("(every other branch)", f"{found.default_retention_days:,}")]
    rows += [(branch, f"{days:,}") for branch, days in sorted(found.branches.items())]
    shown.print(console.table(f"Rules of {repository_id}", ("branch", "days"), rows))
    if keep_last := _kept_last(settings, repository_id):
        shown.print(
            f"The last {counted(keep_last, 'commit')} of each branch stay whatever their age "
            f"(keep_last = {keep_last} in the settings of lakegc, which alone knows it).",
            soft_wrap=True,
        )
    return found
