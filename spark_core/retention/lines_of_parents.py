"""How long the lines of main parents that come down to a commit keep it, and which one longest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_core.model import Refs, RetentionRules
from spark_core.retention.graph import children_first

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_US = timedelta(days=1) // _MICROSECOND
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_NO_LINE = -1
_NO_COMMIT = -1


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

    @property
    def kept_until(self) -> datetime:
        """When its retention ended, by the rules of now."""
        return self.replaced_at + timedelta(days=self.days)


@dataclass(frozen=True)
class _Line:
    """A kind of starting point: a branch, or None for the commits that no branch leads to."""

    days: int
    branch: str | None

    @property
    def days_in_words(self) -> str:
        return "1 day" if self.days == 1 else f"{self.days} days"


class ReachedByLines:
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
        return f"{subject}: its state {line.days_in_words} before the mark"
