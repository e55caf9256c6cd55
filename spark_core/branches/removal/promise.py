"""Until when what a removal took can come back: the earliest of all that can take its objects.

The rules of the garbage collection let go of the commit before the merge, rules of the policy name
objects that commits still have, and sweeps since may have gone by other rules than those of now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_core import lakegc_keys
from spark_core.errors import TABLES_UNREADABLE
from spark_core.model import RetentionRules, RunKey
from spark_core.records import tables
from spark_core.records.figures import CommitsFigures, PolicyExpirationsFigures
from spark_core.records.reading import load_table
from spark_core.references.policies import versions
from spark_core.references.policies.document import UNCOMMITTED, Action, Policy, Rule
from spark_core.run import Run

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Removed:
    """What a merge removed from a branch.

    Attributes:
        branch: The branch.
        path: A beginning that all its paths have.
        since: Date of the merge.
        oldest: The earliest date of its entries.
    """

    branch: str
    path: str
    since: datetime
    oldest: datetime


@dataclass(frozen=True)
class Taking:
    """By what a mark lets objects go that a removed entry named.

    Attributes:
        rules: The rules of the garbage collection; None if there are none.
        policy: Rules of the policy by which objects expire, with their numbers.
    """

    rules: RetentionRules | None
    policy: tuple[tuple[int, Rule], ...] = ()


@dataclass(frozen=True)
class Promise:
    """Until when the removed entries can come back with their objects.

    Attributes:
        until: From then on objects may go; None for no end.
        by: What may take them, in words; empty for the rules of the garbage collection of now.
    """

    until: datetime | None
    by: str = ""


@dataclass(frozen=True)
class SweptSince:
    """A sweep since a merge.

    Attributes:
        run: Run key of its mark.
        marked: When the mark had read which commits are retained.
        taking: What it went by; None if that cannot be read.
    """

    run: RunKey
    marked: datetime
    taking: Taking | None


def earliest(removed: Removed, taking: Taking) -> Promise:
    """Say from when on objects of removed entries may go.

    A branch keeps the commits of its days and the newest one before them. So the commit before the
    merge stays until the merge itself is older than the days. A rule of the policy counts for
    whatever branch, because the objects may have come from there, and `noncurrent` from the merge
    on.
    """
    rules = taking.rules
    ends = [Promise(None)]
    if rules is not None:
        ends.append(Promise(removed.since + timedelta(days=rules.days_for(removed.branch))))
    ends += (
        Promise(
            (removed.oldest if action == "all" else removed.since) + rule.periods[action].length,
            rule.words(number, action),
        )
        for number, rule, action in _of_committed(taking.policy)
        if rule.path.startswith(removed.path) or removed.path.startswith(rule.path)
    )
    return min(ends, key=_end)


def promise(removed: Removed, now: Taking, sweeps: Iterable[SweptSince] = ()) -> Promise:
    """Return the earliest end by the rules of now, and by those of each sweep that could take them.

    A sweep whose rules still kept the objects when it was marked took none of them, whatever later
    days those rules had.
    """
    ends = [earliest(removed, now)]
    for swept in sweeps:
        if swept.taking is None:
            why = f"the sweep of run {swept.run}, whose rules cannot be read"
            ends.append(Promise(swept.marked, why))
            continue
        then = earliest(removed, swept.taking)
        if _end(then) <= swept.marked:
            by = then.by or "the rules of that time"
            ends.append(Promise(then.until, f"the sweep of run {swept.run} ({by})"))
    return min(ends, key=_end)


def _of_committed(policy: Iterable[tuple[int, Rule]]) -> Iterator[tuple[int, Rule, Action]]:
    for number, rule in policy:
        for action in rule.periods:
            if action != UNCOMMITTED:
                yield number, rule, action


def _end(promised: Promise) -> datetime:
    return promised.until or _NEVER


def taking_now(run: Run) -> Taking:
    """Read what marks let objects go by from now on.

    Raises:
        LakegcError: If the rules or the policy cannot be read.
    """
    version = versions.newest(run) if run.options.policies_let_go else None
    policy = None if version is None else version.policy
    return Taking(run.server.retention_rules(run.repository.id), _expiring(policy))


def sweeps_since(run: Run, since: datetime) -> tuple[SweptSince, ...]:
    """Read what the sweeps of marks after an instant went by, the newest first.

    It costs two requests for each thousand sweeps, and two or three for each one since.
    """
    swept = {
        key
        for folder in (lakegc_keys.REPORTS, lakegc_keys.JOURNAL)
        for key in tables.runs(run.store, folder)
    }
    return tuple(_swept(run, key) for key in sorted(swept, reverse=True) if key.instant > since)


def _swept(run: Run, key: RunKey) -> SweptSince:
    try:
        commits = load_table(run.store, tables.RETAINED_COMMITS, key).manifest
        found = CommitsFigures.of(commits).rules
        rules = (
            None
            if found is None
            else RetentionRules(found.default_retention_days, dict(found.branches))
        )
        return SweptSince(key, commits.reading_ended, Taking(rules, _policy_of(run, key)))
    except TABLES_UNREADABLE:
        return SweptSince(key, key.instant, None)


def _policy_of(run: Run, key: RunKey) -> tuple[tuple[int, Rule], ...]:
    """Return the rules of the policy whose objects went in a run."""
    if not run.store.exists(tables.manifest_key(tables.POLICY_EXPIRATIONS, key)):
        return ()
    manifest = load_table(run.store, tables.POLICY_EXPIRATIONS, key).manifest
    named = PolicyExpirationsFigures.of(manifest)
    policy = versions.history(run.store)[named.policy_version - 1].policy
    return tuple(each for each in _expiring(policy) if each[0] in named.takes_rules)


def _expiring(policy: Policy | None) -> tuple[tuple[int, Rule], ...]:
    rules = () if policy is None else policy.rules
    return tuple(
        (number, rule)
        for number, rule in enumerate(rules, start=1)
        if rule.is_enabled and not rule.removes
    )
