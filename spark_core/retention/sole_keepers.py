"""Which commits only one branch, tag or rule keeps: what would expire if it were gone.

For each commit the first two that keep it are enough to know. A line of main parents keeps a commit
by the date of its child, so of all lines through a child the two with the longest retention decide
for its parent. One pass over the graph, children first, finds them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from spark_core.model import Commit, Refs, RetentionRules
from spark_core.retention.graph import children_first

# A keeper with the days of its line; the longest come first, then the names.
_Line = tuple[int, str]

DEFAULT_RULE = "the days for commits that no branch leads to"
"""Keeps the commits of deleted branches, and side lines that were merged."""


def sole_keepers(
    refs: Refs,
    rules: RetentionRules | None,
    now: datetime,
    *,
    also_kept: Collection[str],
    clock_margin: timedelta = timedelta(hours=1),
    tags_protect: bool = True,
    keep_last: int = 0,
) -> dict[str, str | None]:
    """Return for each retained commit who alone keeps it; None where several do, or nobody knows.

    A commit of a branch that is deleted is kept a while by the default days. That is left out: the
    answer says what expires in the end.

    Args:
        refs: The whole graph.
        rules: Days by branch; without any nothing expires.
        now: The instant from which days are counted back.
        also_kept: Commits that something else retains, too: holds, the server's list.
        clock_margin: As for `decide`.
        tags_protect: As for `decide`.
        keep_last: As for `decide`; a branch keeps its last commits as it keeps its others.

    Examples:
        >>> from datetime import UTC
        >>> from spark_core.model import Branch, Commit
        >>> day = datetime(2026, 11, 20, tzinfo=UTC)
        >>> commits = {"a": Commit("a", (), day, "m1"), "b": Commit("b", ("a",), day, "m2")}
        >>> refs = Refs(commits, (Branch("main", "a"), Branch("dev", "b")), ())
        >>> sole_keepers(refs, RetentionRules(7, {}), day, also_kept=())
        {'a': None, 'b': 'branch dev'}
    """
    keepers = _keepers(refs, rules or RetentionRules(0), now - clock_margin)
    for branch in refs.branches:
        for id_ in _line(refs, branch.commit_id, keep_last):
            keepers[id_] = _first([*keepers[id_], (0, f"branch {branch.id}")])
    if tags_protect:
        for tag in refs.tags:
            keepers[tag.commit_id] = _first([*keepers[tag.commit_id], (0, f"tag {tag.id}")])
    found: dict[str, str | None] = {}
    for id_, some in keepers.items():
        if id_ in also_kept or rules is None or not refs.commits[id_].is_dated:
            found[id_] = None
        elif some:
            found[id_] = some[0][1] if len(some) == 1 else None
    return found


def _keepers(refs: Refs, rules: RetentionRules, now: datetime) -> dict[str, list[_Line]]:
    """Return the first two keepers of each commit, by branch heads and lines of main parents."""
    lines: dict[str, list[_Line]] = {id_: [] for id_ in refs.commits}
    keepers: dict[str, list[_Line]] = {id_: [] for id_ in refs.commits}
    for branch in refs.branches:
        line = (-rules.days_for(branch.id), f"branch {branch.id}")
        lines[branch.commit_id] = _first([*lines[branch.commit_id], line])
        keepers[branch.commit_id] = lines[branch.commit_id]
    default = (-rules.default_retention_days, DEFAULT_RULE)
    led = {commit.main_parent for commit in refs.commits.values()}
    order = list(refs.commits)
    for at in children_first(refs, {id_: number for number, id_ in enumerate(order)}):
        commit = refs.commits[order[at]]
        own = lines[commit.id]
        if not own and commit.id not in led:
            own = lines[commit.id] = [default]
            keepers[commit.id] = _first([*keepers[commit.id], *_lasting(own, commit, now)])
        if commit.main_parent is not None:
            parent = commit.main_parent
            lines[parent] = _first([*lines[parent], *own])
            keepers[parent] = _first([*keepers[parent], *_lasting(own, commit, now)])
    return keepers


def _lasting(lines: Iterable[_Line], child: Commit, now: datetime) -> list[_Line]:
    """Return the lines that keep what lies below a commit; no date ever ends for a wrong date."""
    if not child.is_dated:
        return list(lines)
    age = now - child.creation_date
    return [line for line in lines if age < timedelta(days=-line[0])]


def _line(refs: Refs, head: str, length: int) -> Iterator[str]:
    """Yield a commit, its main parent, and so on."""
    id_: str | None = head
    for _ in range(length):
        if id_ is None:
            return
        yield id_
        id_ = refs.commits[id_].main_parent


def _first(lines: Iterable[_Line]) -> list[_Line]:
    """Return the first two names, each with its longest days."""
    found: dict[str, int] = {}
    for days, name in sorted(lines):
        found.setdefault(name, days)
    return [(days, name) for name, days in list(found.items())[:2]]
