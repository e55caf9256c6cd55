"""What must be left after a collection, worked out in plain sets from what the API shows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tests.support.live_repository import LiveRepository, short


def retained(
    repository: LiveRepository,
    default: int | None,
    rules: Mapping[str, int],
    *,
    tags_protect: bool = True,
    keep_last: int = 0,
    now: datetime | None = None,
) -> set[str]:
    """Work out the commits that keep their objects, from every commit that was made.

    By definition, over all walks: a line of main parents keeps what is younger than its days and
    the first older commit; a line begins at a branch, or at a commit that nothing leads to.

    Args:
        repository: Whose commits.
        default: Days of branches without a rule; None without any rules.
        rules: Days by branch.
        tags_protect: Tags keep the commits they name.
        keep_last: Commits of each branch that stay whatever their age.
        now: Instant that the days count back from; the present one.
    """
    commits, heads = repository.commits, repository.branches()
    assert set(heads.values()) <= set(commits), "a commit was made that the test did not note"
    kept = set(heads.values()) | (set(repository.tags().values()) if tags_protect else set())
    if default is None:
        return set(commits)
    main_parent = {
        id_: commit["parents"][0] if commit["parents"] else None for id_, commit in commits.items()
    }
    leaves = set(commits) - set(main_parent.values()) - set(heads.values())
    for head in heads.values():
        at: str | None = head
        for _ in range(keep_last):
            if at is not None:
                kept.add(at)
                at = main_parent[at]
    starts = [(head, rules.get(branch, default), False) for branch, head in heads.items()]
    starts += [(leaf, default, True) for leaf in leaves]
    now = now or repository.server.now()
    for start, days, is_leaf in starts:
        threshold = now - timedelta(days=days)
        if is_leaf and repository.created(start) > threshold:
            kept.add(start)
        child = start
        while (parent := main_parent[child]) is not None:
            if repository.created(child) > threshold:
                kept.add(parent)
            child = parent
    return kept


def refs_of(repository: LiveRepository, commits: set[str]) -> list[str]:
    """Name the branches, and the commits by ids that the server surely resolves."""
    return sorted(repository.branches()) + [short(commit) for commit in sorted(commits)]


def alive(repository: LiveRepository, refs: list[str]) -> set[str]:
    """Return the relative address of everything that the refs show."""
    found = {
        repository.store.relative(address)
        for ref in refs
        for address in repository.entries(ref).values()
    }
    return {address for address in found if address is not None}
