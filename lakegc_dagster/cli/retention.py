"""`lakegc retention`: the repository's own policy of which objects expire, by branch and path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakegc_dagster.account import who
from lakegc_dagster.cli.act_document import PolicyNow
from lakegc_dagster.cli.acting import acting, tell
from lakegc_dagster.cli.branches import branches
from lakegc_dagster.cli.common import RepositoryType, RunKeyType, command_body, read_settings
from lakegc_dagster.cli.groups import Commands
from lakegc_dagster.cli.holds import open_now
from lakegc_dagster.cli.removal import (
    retention_confirm,
    retention_remove,
    retention_restore,
    show_removed,
)
from spark_core.json_and_toml import read_json

if TYPE_CHECKING:
    from spark_core.model import RunKey
    from spark_core.references.policies.document import Policy
    from spark_core.references.policies.lifecycle import Lifecycle
    from spark_core.references.policies.versions import Version
    from spark_core.run import Run

_EFFECTS = {
    "expire": "effect expire: an object goes from the store; its entries stay, and reading them "
    "answers 410 Gone.",
    "remove": "effect remove: entries are removed by a commit on the branch (`lakegc retention "
    "remove`), which can be undone; the objects are for the garbage collection.",
}


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
      lakegc retention history my-repo
      lakegc retention remove my-repo --dry-run
      lakegc retention confirm my-repo 1f0c2a9b77d1
      lakegc retention remove my-repo
      lakegc retention restore my-repo 2026-11-20T02-00-00Z
      lakegc retention branches mark my-repo
      lakegc retention delete my-repo
      lakegc retention schema > retention.schema.json
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"


retention.add_command(retention_remove)
retention.add_command(retention_restore)
retention.add_command(retention_confirm)
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

        effect = read_settings(config, stack).repository(repository).policy_effect
        policy = parsing.parse(file.read_bytes(), name=str(file), policy_effect=effect)
        run = open_now(config, stack, repository)
        version = versions.put(run, policy, who=who())
        tell(PolicyNow(version.number, version.policy_digest, version.who))
        _show(repository, version, policy)
        absent = _absent_branches(policy, {b.id for b in run.server.branches(repository)})
        if absent:
            from lakegc_dagster import console

            console.console().print(
                f"There is no branch named {', '.join(absent)}: such a rule does nothing until "
                "there is one.",
                style="yellow",
                markup=False,
                soft_wrap=True,
            )
    return 0


@retention.command("get")
@_repository
@click.option("--json", "as_json", is_flag=True, help="Print the document alone.")
@command_body
def retention_get(config: Path | None, repository: str, *, as_json: bool) -> int:
    """Show the policy that counts, in the first of the document's two forms.

    \b
    Examples:
      lakegc retention get my-repo
      lakegc retention get my-repo --json > retention.json
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from lakegc_dagster import console
        from spark_core.references.policies import versions

        version = versions.newest(open_now(config, stack, repository))
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
            _show(repository, version, policy)
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
        from lakegc_dagster import console
        from spark_core.references.policies import versions

        version = versions.put(open_now(config, stack, repository), None, who=who())
        tell(PolicyNow(version.number, version.policy_digest, version.who))
        console.console().print(
            f"the retention policy of {repository} ended with version {version.number}",
            markup=False,
            soft_wrap=True,
        )
    return 0


@retention.command("history")
@_repository
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
@command_body
def retention_history(config: Path | None, repository: str, *, as_json: bool) -> int:
    """Show every version of the policy, who set it and when.

    \b
    Examples:
      lakegc retention history my-repo
      lakegc retention history my-repo --json
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from lakegc_dagster import console
        from spark_core.references.policies import versions

        found = versions.history(open_now(config, stack, repository).store)
        if as_json:
            click.echo(json.dumps([_facts(version) for version in found], indent=1))
            return 0
        shown = console.console()
        if not found:
            shown.print(f"{repository} never had a retention policy.", markup=False)
            return 0
        rows = [
            (
                str(version.number),
                version.policy_digest[:12] or "-",
                f"{version.since:%Y-%m-%d %H:%M} {version.who}",
                "ended" if policy is None else "; ".join(_words(policy)),
            )
            for version in found
            for policy in [version.policy]
        ]
        columns = ("version", "digest", "since (UTC), by", "rules")
        shown.print(console.table(f"Retention policy of {repository}", columns, rows))
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
        from lakegc_dagster.stored_runs import open_chosen
        from spark_core.branches import removal
        from spark_core.references.policies import parsing, what_if

        settings = read_settings(config, stack)
        effect = settings.repository(repository).policy_effect
        policy = parsing.parse(file.read_bytes(), name=str(file), policy_effect=effect)
        run = None
        if not all(rule.removes for rule in policy.rules):
            run = open_chosen(settings, repository, key)
            _show_found(run, policy, what_if.what_if(run, policy).facts(), names="would name")
        named = removal.look_at(run or open_now(config, stack, repository), policy)
        if named:
            show_removed(named, f"Would be removed from {repository} by commits")
    return 0


def show_named(run: Run) -> None:
    """Show what the policy named in a run; nothing where it did not look at one."""
    from spark_core.errors import ChainError
    from spark_core.records import tables
    from spark_core.references.policies import versions

    try:
        facts = run.load(tables.POLICY_EXPIRATIONS).manifest.facts
    except ChainError:
        _show_unread(run)
        return
    policy = versions.history(run.store)[facts["policy_version"] - 1].policy
    if policy is not None:
        from lakegc_dagster import console

        console.console().print()
        _show_found(run, policy, facts, names="names")


def _show_unread(run: Run) -> None:
    """Say why a run looked at no policy, if there is one that cannot be read."""
    from lakegc_dagster import console
    from spark_core.references.policies import versions
    from spark_core.references.policies.expirations import UNREADABLE

    if run.options.policies == "off":
        return
    try:
        versions.newest(run)
    except UNREADABLE as unknown:
        console.console().print(
            f"\nThe retention policy names nothing, because it cannot be read: {unknown}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )


def _by_rule(policy: Policy, facts: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return what each rule names on each branch, as rows of a table."""
    from spark_core.plain_text import bytes_text

    branches: dict[int, list[list[Any]]] = {}
    for number, *row in facts["by_branch"]:
        branches.setdefault(number, []).append(row)
    return [
        (
            f"{number}: {policy.rules[number - 1].prefix or '(everywhere)'}",
            branch or "(undecided)",
            f"{objects:,}",
            bytes_text(size),
        )
        for number, rule in enumerate(policy.rules, start=1)
        if not rule.removes
        for branch, objects, size in branches.get(number, [["-", 0, 0]])
    ]


def _show_found(run: Run, policy: Policy, facts: Mapping[str, Any], *, names: str) -> None:
    from lakegc_dagster import console
    from spark_core.plain_text import bytes_text, visible

    shown = console.console()
    title = f"Retention policy of {run.repository.id}, run {run.key}"
    shown.print(
        console.table(title, ("rule", "branch", "objects", "bytes"), _by_rule(policy, facts))
    )
    for words, named in (("largest", facts["largest"]), ("newest", facts["newest"])):
        for number in sorted(named, key=int):
            rows = []
            for row in named[number]:
                size, date = (row[0], row[4]) if words == "largest" else (row[4], row[0])
                where = visible(f"{row[2] or '(undecided)'}/{row[3]}")
                rows.append((where, date[:16].replace("T", " "), bytes_text(size), row[1]))
            columns = ("branch/path", "written (UTC)", "bytes", "address")
            shown.print(console.table(f"Rule {number}, the {words}", columns, rows))
    objects = facts["policy_objects"]
    shown.print(
        f"The policy {names} {objects:,} object{'' if objects == 1 else 's'} "
        f"({bytes_text(facts['policy_bytes'])}); {facts['names_placed']:,} names were placed on a "
        f"branch, {facts['names_undecided']:,} are undecided, which only a rule without a prefix "
        f"takes. {_what_goes(facts)}",
        markup=False,
        soft_wrap=True,
    )
    if facts["unread"]:
        shown.print(
            f"Tables of {facts['unread']:,} commits cannot be read, for instance of commit "
            f"{facts['unread_commits'][0][:12]}: until they can, rules with a prefix take nothing.",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )


def _what_goes(facts: Mapping[str, Any]) -> str:
    """Say which rules' objects a sweep takes, and what lets the others go."""
    waits, above = facts.get("waits"), facts.get("above_share", ())
    if waits:
        return f"None of this goes: {waits}."
    if not facts.get("takes_rules"):
        return "This answer lets nothing go."
    share = (
        f" Rule {', '.join(map(str, above))} names more than `max_policy_share` and waits."
        if above
        else ""
    )
    return f"What a sweep takes of it stands in the report, with its rule.{share}"


@retention.command("schema")
def retention_schema() -> None:
    """Print the JSON Schema of the document.

    \b
    Example:
      lakegc retention schema > retention.schema.json
    """  # noqa: D301 - as above
    from spark_core.references.policies.schema import schema_text

    click.echo(schema_text(), nl=False)


def _show(repository: str, version: Version, policy: Policy) -> None:
    from lakegc_dagster import console

    shown = console.console()
    rows = [
        (
            str(number),
            rule.prefix or "(everywhere)",
            "enabled" if rule.is_enabled else "disabled",
            rule.effect or "expire",
            "; ".join(f"{action} after {period}" for action, period in rule.periods.items()),
        )
        for number, rule in enumerate(policy.rules, start=1)
    ]
    columns = ("rule", "prefix", "status", "effect", "what")
    if rows:
        shown.print(console.table(f"Retention policy of {repository}", columns, rows))
    if policy.branch_lifecycle is not None:
        _show_lifecycle(repository, policy.branch_lifecycle)
    if policy.branch_order:
        shown.print(f"branch order  {', '.join(policy.branch_order)}", markup=False)
    shown.print(
        f"version {version.number}, set by {version.who} at {version.since:%Y-%m-%d %H:%M} UTC, "
        f"digest {version.policy_digest}",
        markup=False,
        soft_wrap=True,
    )
    for effect, words in _EFFECTS.items():
        if any((rule.effect or "expire") == effect for rule in policy.rules):
            shown.print(words, markup=False, soft_wrap=True)


def _show_lifecycle(repository: str, lifecycle: Lifecycle) -> None:
    from lakegc_dagster import console

    shown = console.console()
    rows = [
        (
            str(number),
            ", ".join(policy.branches),
            *(
                "-" if days is None else f"{days:,}"
                for days in (policy.max_inactivity_days, policy.max_age_days)
            ),
        )
        for number, policy in enumerate(lifecycle.policies, start=1)
    ]
    columns = ("policy", "branches", "days without work", "days since it was made")
    shown.print(console.table(f"Stale branches of {repository}", columns, rows))
    kept = f"; never {', '.join(lifecycle.keep)}" if lifecycle.keep else ""
    staged = "with" if lifecycle.delete_staged else "never with"
    shown.print(
        f"branches go {staged} staged entries, and can be made again for {lifecycle.undo_days:,} "
        f"days{kept}. `lakegc retention branches mark {repository}` shows which.",
        markup=False,
        soft_wrap=True,
    )


def _facts(version: Version) -> dict[str, Any]:
    policy = version.policy
    return {
        "version": version.number,
        "digest": version.policy_digest,
        "by": version.who,
        "since": version.since.isoformat(),
        "policy": None if policy is None else read_json(policy.to_json()),
    }


def _words(policy: Policy) -> list[str]:
    section = policy.branch_lifecycle
    count = 0 if section is None else len(section.policies)
    return [
        rule.words(number, action).removeprefix("policy ")
        + ("" if rule.is_enabled else " (disabled)")
        for number, rule in enumerate(policy.rules, start=1)
        for action in rule.periods
    ] + ([f"{count:,} for stale branches"] if count else [])


def _absent_branches(policy: Policy, there: set[str]) -> list[str]:
    named = {rule.branch for rule in policy.rules if rule.branch is not None}
    return sorted(named.union(policy.branch_order) - there)
