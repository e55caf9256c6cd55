"""A retention policy on the terminal: its rules, and what it names in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def show_policy(repository: str, version: Version, policy: Policy) -> None:
    """Show the rules of a version."""
    from spark_core.terminal import console

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
    from spark_core.terminal import console

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


def rules_in_words(policy: Policy) -> list[str]:
    """Return each rule in a few words, and how many there are for stale branches."""
    section = policy.branch_lifecycle
    count = 0 if section is None else len(section.policies)
    return [
        rule.words(number, action).removeprefix("policy ")
        + ("" if rule.is_enabled else " (disabled)")
        for number, rule in enumerate(policy.rules, start=1)
        for action in rule.periods
    ] + ([f"{count:,} for stale branches"] if count else [])


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
        from spark_core.terminal import console

        console.console().print()
        show_found(run, policy, facts, names="names")


def _show_unread(run: Run) -> None:
    """Say why a run looked at no policy, if there is one that cannot be read."""
    from spark_core.errors import POLICY_UNREADABLE
    from spark_core.references.policies import versions
    from spark_core.terminal import console

    if run.options.policies == "off":
        return
    try:
        versions.newest(run)
    except POLICY_UNREADABLE as unknown:
        console.console().print(
            f"\nThe retention policy names nothing, because it cannot be read: {unknown}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )


def show_found(run: Run, policy: Policy, facts: Mapping[str, Any], *, names: str) -> None:
    """Show what each rule names in a run, and the largest and the newest of it.

    Args:
        run: The run.
        policy: The policy.
        facts: What was found, as table `policy_expirations` keeps it.
        names: The verb of the policy: `names`, or `would name`.
    """
    from spark_core.plain_text import bytes_text, counted, visible
    from spark_core.terminal import console

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
        f"The policy {names} {counted(objects, 'object')} "
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
