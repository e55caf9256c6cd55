"""Work out the retained commits from the commit graph, the branches, the tags and the rules.

The server's own algorithm walks down the main parents from every starting point: branch heads, and
commits that are no commit's main parent. Its result depends on the order of the walks
(`lakefs-facts` 4.4). Here every commit is visited once. Main parents form a forest, so the longest
retention that reaches a commit is the longest of its own starting points and of its children, and
one pass from the children to the parents is enough. The result is what the server's walks would
give if each of them went down to the root. It does not depend on any order, and it always contains
the server's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_core.model import Refs, RetentionRules
from spark_core.retention.graph import last_commits, names_by_commit, require_whole
from spark_core.retention.lines_of_parents import Expiry, ReachedByLines

# Names that a reason lists; it counts the rest, because a head can have a thousand branches.
_NAMES_SHOWN = 3


@dataclass(frozen=True)
class Retention:
    """Why a commit is retained.

    Attributes:
        commit_id: The commit.
        reason: The reason in words: "head of main", "main: within 21 days", "tag v1", ...
        until: When it stops being retained if no branch, tag or rule changes, the
            clock margin included; None while the branch, the tag, the absence of
            rules or its impossible date keeps it.
        is_head: Whether a branch points at it.

    Examples:
        >>> Retention("bb", "head of main", None, is_head=True).until is None
        True
    """

    commit_id: str
    reason: str
    until: datetime | None
    is_head: bool


def retained_commits(
    refs: Refs,
    rules: RetentionRules | None,
    now: datetime,
    *,
    clock_margin: timedelta = timedelta(hours=1),
    tags_protect: bool = True,
    keep_last: int = 0,
) -> list[Retention]:
    """Return the first part of `decide`: the commits that the rules retain.

    Examples:
        >>> from datetime import UTC, datetime, timedelta
        >>> from spark_core.model import Branch, Commit, Refs, RetentionRules
        >>> now = datetime(2026, 11, 20, tzinfo=UTC)
        >>> old = Commit("aa", (), now - timedelta(days=60), "m1", 1, 1)
        >>> new = Commit("bb", ("aa",), now - timedelta(days=50), "m2", 1, 2)
        >>> refs = Refs({"aa": old, "bb": new}, (Branch("main", "bb"),), ())
        >>> [each.reason for each in retained_commits(refs, RetentionRules(7), now)]
        ['head of main']
    """
    return decide(
        refs,
        rules,
        now,
        clock_margin=clock_margin,
        tags_protect=tags_protect,
        keep_last=keep_last,
    )[0]


def decide(
    refs: Refs,
    rules: RetentionRules | None,
    now: datetime,
    *,
    clock_margin: timedelta = timedelta(hours=1),
    tags_protect: bool = True,
    keep_last: int = 0,
) -> tuple[list[Retention], list[Expiry]]:
    """Work out which commits the rules retain, with the reason and until when.

    A commit P is retained if a branch points at it, or if a line of main parents
    comes down to P from a commit C that is strictly younger than the line's
    threshold. So each line keeps the commits that are young enough and the first
    older commit, which is the state at the threshold. A line starts at a branch,
    with the days of its rule or else the default. A line also starts at a commit
    that is no commit's main parent and no branch's head, with the default. Such a
    commit counts as its own child, so it is kept only while it is young itself.
    Without rules every commit is retained. A commit whose date is no date
    (milliseconds, say) is always retained, because its age is unknown.

    The last commits of a branch are its head, the head's main parent, and so on: what the branch
    itself showed. What a merge brought in counts as one commit. They can only add to what the rules
    retain.

    Args:
        refs: The whole graph; every parent, head and tagged commit must be in it.
        rules: Days by branch; None if the repository has no rules.
        now: Aware instant from which ages are counted.
        clock_margin: Subtracted from every threshold, so that clocks and daylight
            saving (the server counts calendar days in its own time zone) can only
            keep more.
        tags_protect: Whether to keep the commit that a tag points at. The server does not.
        keep_last: How many commits of each branch stay whatever their age. The server knows no
            such rule.

    Returns:
        One value for each retained commit, and one for each of the others; both in order of
        commit id.

    Raises:
        RepositoryStateError: If there is no commit or no branch at all.
        IncompleteReadError: If a parent, head or tagged commit is missing from
            the graph, or the graph has a cycle.
        ValueError: If `now` has no timezone or the margin is negative.

    References:
        lakeFS v1.84 pkg/graveler/retention/active_commits.go and
        starting_point_iterator.go; `lakefs-facts` 4.2-4.5.
    """
    _require_instants(now, clock_margin)
    require_whole(refs)
    heads = names_by_commit(refs.branches)
    tags = names_by_commit(refs.tags)
    last = last_commits(refs, heads, keep_last)
    reached = ReachedByLines(refs, heads, rules, now, clock_margin)
    retained, expired = [], []
    for position, commit_id in enumerate(refs.commits):
        if commit_id in heads:
            retained.append(
                Retention(commit_id, f"head of {_some(heads[commit_id])}", None, is_head=True)
            )
        elif tags_protect and commit_id in tags:
            retained.append(
                Retention(commit_id, f"tag {_some(tags[commit_id])}", None, is_head=False)
            )
        elif rules is None:
            retained.append(
                Retention(commit_id, "no rules: every commit is retained", None, is_head=False)
            )
        elif not refs.commits[commit_id].is_dated:
            retained.append(
                Retention(commit_id, "its date is beyond any calendar", None, is_head=False)
            )
        elif commit_id in last:
            reason = f"{last[commit_id]}: among its last {keep_last} commits"
            retained.append(Retention(commit_id, reason, None, is_head=False))
        elif reached.is_retained(position):
            retained.append(
                Retention(
                    commit_id, reached.reason(position), reached.until(position), is_head=False
                )
            )
        else:
            expired.append(reached.expiry(position, commit_id))
    return (
        sorted(retained, key=lambda retention: retention.commit_id),
        sorted(expired, key=lambda expiry: expiry.commit_id),
    )


def _require_instants(now: datetime, clock_margin: timedelta) -> None:
    if now.tzinfo is None:
        raise ValueError("retention needs a timezone-aware now")
    if clock_margin < timedelta(0):
        raise ValueError(
            f"clock_margin {clock_margin} is negative: it would retain less than the rules say"
        )


def _some(names: Sequence[str]) -> str:
    """List the first names and count the rest."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
