"""`lakegc retention`: the repository's own policy of which objects expire, by branch and path."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_core.cli.act_document import PolicyNow
from spark_core.cli.acting import acting, tell
from spark_core.cli.branches import branches
from spark_core.cli.common import (
    RepositoryType,
    RunKeyType,
    command_body,
    name_absent_branches,
    read_settings,
)
from spark_core.cli.groups import Commands
from spark_core.cli.holds import open_now
from spark_core.cli.removal import (
    retention_remove,
    retention_restore,
    show_removed,
)
from spark_core.cli.shown_policy import rules_in_words, show_found, show_policy
from spark_core.json_and_toml import read_json
from spark_core.who_acts import who

if TYPE_CHECKING:
    from spark_core.model import RunKey
    from spark_core.references.policies.document import Policy
    from spark_core.references.policies.versions import Version

_repository = click.argument("repository", type=RepositoryType())
_file = click.option(
    "--policy-file",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="The document: JSON or YAML.",
)


@click.group(cls=Commands)
def retention() -> None:
    """Set, show or end a repository's object retention policy: what expires by branch and path.

    A policy names objects that somebody can still see. The settings of the repository say what it
    does: `policies = "mark"` shows what it names, `policies = "sweep"` also lets that go, once
    somebody has confirmed the document after a mark (`lakegc confirm`). What its rules with
    `effect: remove` name, `lakegc retention remove` removes by commits.

    \b
    Examples:
      lakegc retention set lakefs://my-repo/ --policy-file retention.json
      lakegc retention get my-repo
      lakegc retention what-if my-repo --policy-file retention.json
      lakegc retention get my-repo --history
      lakegc retention remove my-repo --dry-run
      lakegc confirm my-repo removal --digest 1f0c2a9b77d1
      lakegc retention remove my-repo
      lakegc retention restore my-repo 2026-11-20T02-00-00Z
      lakegc retention branches mark my-repo
      lakegc retention delete my-repo
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"


retention.add_command(retention_remove)
retention.add_command(retention_restore)
retention.add_command(branches)


@retention.command("set")
@_repository
@_file
@acting
def retention_set(config: Path | None, repository: str, file: Path) -> int:
    """Store the policy in a file as the repository's new version; deletes nothing.

    \b
    Examples:
      lakegc retention set lakefs://my-repo/ --policy-file retention.json
      lakegc retention set my-repo --policy-file retention.yml
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from spark_core.references.policies import parsing, versions

        policy = parsing.parse(file.read_bytes(), name=str(file))
        run = open_now(config, stack, repository)
        version = versions.store_version(run, policy, who=who())
        tell(PolicyNow(version.number, version.policy_digest, version.who))
        show_policy(repository, version, policy)
        name_absent_branches(run.server, repository, _branches_named(policy))
    return 0


@retention.command("get")
@_repository
@click.option("--history", is_flag=True, help="Show instead every version, who set it and when.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the document alone; with --history one JSON list.",
)
@command_body
def retention_get(config: Path | None, repository: str, *, history: bool, as_json: bool) -> int:
    """Show the policy that counts, in the first of the document's two forms.

    \b
    Examples:
      lakegc retention get my-repo
      lakegc retention get my-repo --json > retention.json
      lakegc retention get my-repo --history
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from spark_core.references.policies import versions
        from spark_core.terminal import console

        run = open_now(config, stack, repository)
        if history:
            _show_history(repository, versions.history(run.store), as_json=as_json)
            return 0
        version = versions.newest(run)
        policy = None if version is None else version.policy
        if version is None or policy is None:
            console.console().print(
                f"{repository} has no retention policy: no object expires by branch and path.",
                markup=False,
                soft_wrap=True,
            )
        elif as_json:
            click.echo(policy.to_json(), nl=False)
        else:
            show_policy(repository, version, policy)
    return 0


@retention.command("delete")
@_repository
@acting
def retention_delete(config: Path | None, repository: str) -> int:
    """End the policy by a new version without rules; earlier versions stay in the history.

    \b
    Example:
      lakegc retention delete my-repo
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from spark_core.references.policies import versions
        from spark_core.terminal import console

        version = versions.store_version(open_now(config, stack, repository), None, who=who())
        tell(PolicyNow(version.number, version.policy_digest, version.who))
        console.console().print(
            f"the retention policy of {repository} ended with version {version.number}",
            markup=False,
            soft_wrap=True,
        )
    return 0


@retention.command("what-if")
@_repository
@_file
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Run key of the mark whose tables are read; default: the newest one.",
)
@command_body
def retention_what_if(config: Path | None, repository: str, file: Path, key: RunKey | None) -> int:
    """Show what a policy would take, per rule and branch; neither sets it nor deletes anything.

    What expires is read from the tables of a mark, so mark first; what rules with `effect: remove`
    would remove is read from the branches as they are now. The lists name the ten largest and the
    ten newest of each rule.

    \b
    Examples:
      lakegc retention what-if my-repo --policy-file retention.json
      lakegc retention what-if my-repo --policy-file retention.yml --run 2026-11-20T02-00-00Z
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from spark_core.branches import removal
        from spark_core.references.policies import parsing, what_if
        from spark_core.stored_runs import open_run_or_newest_mark

        settings = read_settings(config, stack)
        policy = parsing.parse(file.read_bytes(), name=str(file))
        expires = not all(rule.removes for rule in policy.rules)
        run = (
            open_run_or_newest_mark(settings, repository, key)
            if expires
            else open_now(config, stack, repository)
        )
        name_absent_branches(run.server, repository, _branches_named(policy))
        if expires:
            show_found(run, policy, what_if.what_if(run, policy).facts(), names="would name")
        named = removal.look_at(run, policy)
        if named:
            show_removed(named, f"Would be removed from {repository} by commits")
    return 0


def _show_history(repository: str, found: Sequence[Version], *, as_json: bool) -> None:
    from spark_core.terminal import console

    if as_json:
        click.echo(json.dumps([_facts(version) for version in found], indent=1))
        return
    shown = console.console()
    if not found:
        shown.print(f"{repository} never had a retention policy.", markup=False)
        return
    rows = [
        (
            str(version.number),
            version.policy_digest[:12] or "-",
            f"{version.since:%Y-%m-%d %H:%M} {version.who}",
            "ended" if policy is None else "; ".join(rules_in_words(policy)),
        )
        for version in found
        for policy in [version.policy]
    ]
    columns = ("version", "digest", "since (UTC), by", "rules")
    shown.print(console.table(f"Retention policy of {repository}", columns, rows))


def _facts(version: Version) -> dict[str, Any]:
    policy = version.policy
    return {
        "version": version.number,
        "digest": version.policy_digest,
        "by": version.who,
        "since": version.since.isoformat(),
        "policy": None if policy is None else read_json(policy.to_json()),
    }


def _branches_named(policy: Policy) -> set[str]:
    return {each.branch for each in policy.rules if each.branch}.union(policy.branch_order)
