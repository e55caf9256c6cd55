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

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter

from spark_core.errors import IncompleteReadError, RepositoryStateError
from spark_core.model import Branch, Refs, RetentionRules, Tag

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_US = timedelta(days=1) // _MICROSECOND
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_NO_LINE = -1
_NO_COMMIT = -1
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


@dataclass(frozen=True)
class Expiry:
    """Why a commit is no longer retained.

    Attributes:
        commit_id: The commit.
        branch: The branch whose line of main parents kept it longest; None if no branch's did.
        days: How long that line keeps a commit that was replaced.
        replaced_at: Date of the commit that followed on that line; its own date if none did.
    """

    commit_id: str
    branch: str | None
    days: int
    replaced_at: datetime


@dataclass(frozen=True)
class _Line:
    """A kind of starting point: a branch, or None for the commits that no branch leads to."""

    days: int
    branch: str | None

    @property
    def days_in_words(self) -> str:
        return "1 day" if self.days == 1 else f"{self.days} days"


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
    heads = _names_by_commit(refs.branches)
    tags = _names_by_commit(refs.tags)
    last = _last_commits(refs, heads, keep_last)
    reached = _ReachedByLines(refs, heads, rules, now, clock_margin)
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


class _ReachedByLines:
    """How long the lines of main parents keep each commit, by position in the graph.

    Instants are integers, microseconds since 1970, because a million of them are compared, and
    sums of odd commit dates and days leave the range of `datetime`.
    """

    def __init__(
        self,
        refs: Refs,
        heads: dict[str, list[str]],
        rules: RetentionRules | None,
        now: datetime,
        clock_margin: timedelta,
    ) -> None:
        self._now_us = (now - _EPOCH) // _MICROSECOND
        self._margin_us = clock_margin // _MICROSECOND
        rules = rules or RetentionRules(default_retention_days=0)
        # Longest retention first, so the lowest index that reaches a commit counts. A branch comes
        # before the line without a branch of the same days, because its name tells more.
        self._lines = sorted(
            [_Line(rules.days_for(branch.id), branch.id) for branch in refs.branches]
            + [_Line(rules.default_retention_days, None)],
            key=lambda line: (-line.days, line.branch is None, line.branch or ""),
        )
        size = len(refs.commits)
        self._created_us = [
            (commit.creation_date - _EPOCH) // _MICROSECOND for commit in refs.commits.values()
        ]
        # The line with the longest retention that passes through a commit.
        self._line = [_NO_LINE] * size
        self._led_by_branch = [False] * size
        # The latest instant until which a line keeps the commit, and that line.
        self._until_us: list[int | None] = [None] * size
        self._keeper = [_NO_LINE] * size
        self._walk(refs, heads)

    def _walk(self, refs: Refs, heads: dict[str, list[str]]) -> None:
        """Pass once over the graph, every commit after all of its children."""
        position = {commit_id: at for at, commit_id in enumerate(refs.commits)}
        order = children_first(refs, position)
        index_of_branch = {line.branch: index for index, line in enumerate(self._lines)}
        main_parents = [
            _NO_COMMIT if commit.main_parent is None else position[commit.main_parent]
            for commit in refs.commits.values()
        ]
        for commit_id, names in heads.items():
            self._start(position[commit_id], min(index_of_branch[name] for name in names))
            self._led_by_branch[position[commit_id]] = True
        for at in set(range(len(position))).difference(
            main_parents, map(position.__getitem__, heads)
        ):
            self._start(at, index_of_branch[None])
            self._keep(at, child=at)
        for at in order:
            main = main_parents[at]
            if main != _NO_COMMIT:
                self._start(main, self._line[at])
                self._led_by_branch[main] |= self._led_by_branch[at]
                self._keep(main, child=at)

    def _start(self, at: int, line: int) -> None:
        """Let a line pass through a commit; the longest retention wins."""
        if self._line[at] == _NO_LINE or line < self._line[at]:
            self._line[at] = line

    def _keep(self, at: int, *, child: int) -> None:
        """Keep a commit while the child from which a line comes down is young enough."""
        line = self._line[child]
        until_us = self._created_us[child] + self._lines[line].days * _DAY_US + self._margin_us
        best = self._until_us[at]
        if best is None or until_us > best or (until_us == best and line < self._keeper[at]):
            self._until_us[at] = until_us
            self._keeper[at] = line

    def is_retained(self, at: int) -> bool:
        """Say whether any line keeps the commit; exactly at the threshold is too old."""
        until_us = self._until_us[at]
        return until_us is not None and until_us > self._now_us

    def until(self, at: int) -> datetime:
        """Return when the last line stops keeping the commit, at most the last `datetime`."""
        return _EPOCH + timedelta(microseconds=min(self._until_us[at] or 0, _LAST_US))

    def expiry(self, at: int, commit_id: str) -> Expiry:
        """Say which line kept an expired commit longest, and since when it no longer has it."""
        line = self._lines[self._keeper[at]]
        replaced_us = (self._until_us[at] or 0) - self._margin_us - line.days * _DAY_US
        return Expiry(
            commit_id, line.branch, line.days, _EPOCH + timedelta(microseconds=replaced_us)
        )

    def reason(self, at: int) -> str:
        """Say in words which line keeps the commit longest."""
        line = self._lines[self._keeper[at]]
        if line.branch is not None:
            subject = line.branch
        elif self._led_by_branch[at]:
            subject = "a side line without a branch"
        else:
            subject = "no branch leads here"
        threshold_us = self._now_us - line.days * _DAY_US
        if (self._until_us[at] or 0) - self._margin_us <= self._now_us:
            return f"{subject}: {line.days_in_words} ended within the clock margin"
        if self._created_us[at] > threshold_us:
            return f"{subject}: within {line.days_in_words}"
        return f"{subject}: its state {line.days_in_words} ago"


def require_whole(refs: Refs) -> None:
    """Refuse a graph that is empty or lacks a commit that something in it names.

    If a commit lands while the refs are being dumped, the dump may lack the head of
    a branch. Reading again solves that.

    Raises:
        RepositoryStateError: If there is no commit or no branch at all.
        IncompleteReadError: If a parent, head or tagged commit is missing.
    """
    for what, found in (("commits", len(refs.commits)), ("branches", len(refs.branches))):
        if found == 0:
            raise RepositoryStateError(
                f"the repository's refs hold no {what}, at least one was expected: it is bare, "
                "being deleted, or was not read",
                "Look at the repository on the server and run again if it lives.",
            )
    named = [(branch.commit_id, f"the head of branch {branch.id}") for branch in refs.branches]
    named += [(tag.commit_id, f"the commit of tag {tag.id}") for tag in refs.tags]
    for commit_id, role in named:
        if commit_id not in refs.commits:
            raise _missing(commit_id, role, refs)
    for commit in refs.commits.values():
        for parent in commit.parents:
            if parent not in refs.commits:
                raise _missing(parent, f"a parent of {commit.id}", refs)


def _missing(commit_id: str, role: str, refs: Refs) -> IncompleteReadError:
    return IncompleteReadError(
        f"commit {commit_id}, {role}, is not among the {len(refs.commits)} commits that were read",
        "A commit made while the refs were being dumped looks like this: run again; if it is "
        "still missing, the repository is damaged.",
    )


def _names_by_commit(refs: Iterable[Branch | Tag]) -> dict[str, list[str]]:
    """Group the names of refs by the commit they point at, sorted."""
    names: dict[str, list[str]] = defaultdict(list)
    for ref in sorted(refs, key=lambda ref: ref.id):
        names[ref.commit_id].append(ref.id)
    return dict(names)


def _last_commits(refs: Refs, heads: Mapping[str, Sequence[str]], count: int) -> dict[str, str]:
    """Return the last commits of every branch, and whose each of them is; a branch counts once.

    Branches are followed side by side, each one main parent further at a time, and end where
    another one was before: it follows the same line no later. So no commit is visited twice.
    """
    found: dict[str, str] = {}
    line = {commit_id: names[0] for commit_id, names in sorted(heads.items(), key=itemgetter(1))}
    for _ in range(count):
        found.update(line)
        parents = ((refs.commits[commit_id].main_parent, name) for commit_id, name in line.items())
        line = dict[str, str]()
        for parent, name in parents:
            if parent is not None and parent not in found:
                line.setdefault(parent, name)
        if not line:
            break
    return found


def children_first(refs: Refs, position: dict[str, int]) -> list[int]:
    """Order the commits so that each comes after all of its children.

    Raises:
        IncompleteReadError: If the graph has a cycle.
    """
    parents = [[position[parent] for parent in commit.parents] for commit in refs.commits.values()]
    children_left = [0] * len(parents)
    for own in parents:
        for parent in own:
            children_left[parent] += 1
    order = [at for at, left in enumerate(children_left) if left == 0]
    # The list grows while it is read. It is the queue, and at the end the order.
    for at in order:
        for parent in parents[at]:
            children_left[parent] -= 1
            if children_left[parent] == 0:
                order.append(parent)
    if len(order) < len(parents):
        stuck = min(commit_id for commit_id, at in position.items() if children_left[at])
        raise IncompleteReadError(
            f"commit {stuck} is among its own ancestors or above such a commit: the commit graph "
            "has a cycle, which no lakeFS repository has",
            "Read the refs dump again; if it stays, the repository is damaged.",
        )
    return order


def _some(names: Sequence[str]) -> str:
    """List the first names and count the rest."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
