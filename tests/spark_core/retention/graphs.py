"""Commit graphs for the retention tests, and two oracles written apart from the engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_core.model import Branch, Commit, Refs, RetentionRules, Tag

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def graph(
    commits: str,
    *,
    branches: Mapping[str, str],
    tags: Mapping[str, str] | None = None,
    now: datetime = NOW,
) -> Refs:
    """Read "A:30 B:20(A) M:1(B,X)": name, age in days, parents; "M/0" is a commit of version 0."""
    read: dict[str, Commit] = {}
    for word in commits.split():
        name, rest = word.split(":")
        name, _, version = name.partition("/")
        age, _, parents = rest.partition("(")
        read[name] = Commit(
            id=name,
            parents=tuple(filter(None, parents.rstrip(")").split(","))),
            creation_date=now - timedelta(days=float(age)),
            metarange_id=f"metarange of {name}",
            version=int(version or 1),
        )
    return refs(read.values(), branches, tags or {})


def refs(commits: Iterable[Commit], branches: Mapping[str, str], tags: Mapping[str, str]) -> Refs:
    return Refs(
        {commit.id: commit for commit in commits},
        tuple(Branch(name, commit_id) for name, commit_id in branches.items()),
        tuple(Tag(name, commit_id) for name, commit_id in tags.items()),
    )


def rules_of(recorded: Mapping[str, Any]) -> RetentionRules:
    """Read rules as the server gives them; no branch rule is null there."""
    return RetentionRules(
        recorded["default_retention_days"],
        {rule["branch_id"]: rule["retention_days"] for rule in recorded["branches"] or []},
    )


def recorded_refs(
    commits: Iterable[Mapping[str, Any]], branches: Mapping[str, str], tags: Mapping[str, str]
) -> Refs:
    """Read commits as the recordings give them: a list of API-shaped values."""
    return refs(
        [
            Commit(
                id=commit["id"],
                parents=tuple(commit["parents"] or ()),
                creation_date=datetime.fromtimestamp(commit["creation_date"], UTC),
                metarange_id=commit.get("meta_range_id", ""),
                version=commit.get("version", 1),
            )
            for commit in commits
        ],
        branches,
        tags,
    )


def _starts(refs: Refs, rules: RetentionRules) -> list[tuple[str, int, bool]]:
    """Every starting point: commit, days, whether it is a branch head."""
    heads = {branch.commit_id for branch in refs.branches}
    mains = {commit.main_parent for commit in refs.commits.values()}
    return [(branch.commit_id, rules.days_for(branch.id), True) for branch in refs.branches] + [
        (commit_id, rules.default_retention_days, False)
        for commit_id in refs.commits
        if commit_id not in mains and commit_id not in heads
    ]


def every_walk_to_the_root(refs: Refs, rules: RetentionRules, now: datetime) -> set[str]:
    """The retained commits, each starting point walked down to the root on its own."""
    retained = {branch.commit_id for branch in refs.branches}
    for start, days, is_head in _starts(refs, rules):
        line = [start]
        while (parent := refs.commits[line[-1]].main_parent) is not None:
            line.append(parent)
        threshold = now - timedelta(days=days)
        young = {
            commit_id for commit_id in line if refs.commits[commit_id].creation_date > threshold
        }
        retained |= {parent for child, parent in itertools.pairwise(line) if child in young}
        retained |= set() if is_head else young & {start}
    return retained


def as_the_server_walks(
    refs: Refs,
    rules: RetentionRules,
    now: datetime,
    threshold_of: Callable[[int], datetime] | None = None,
) -> set[str]:
    """The retained commits by the steps of the server, its dependence on order included.

    `threshold_of` gives the instant that so many days ago was, where a day has not always 24 hours.
    """
    processed: dict[str, datetime] = {}
    active: set[str] = set()
    for start, days, is_head in sorted(_starts(refs, rules), key=lambda at: at[0]):
        threshold = threshold_of(days) if threshold_of else now - timedelta(days=days)
        if is_head:
            active.add(start)
            processed[start] = threshold
            parent = refs.commits[start].main_parent
        else:
            parent = start
        created = refs.commits[start].creation_date
        while parent is not None:
            if parent in processed and processed[parent] <= threshold:
                break
            if created > threshold:
                active.add(parent)
            processed[parent] = threshold
            created, parent = refs.commits[parent].creation_date, refs.commits[parent].main_parent
    return active
