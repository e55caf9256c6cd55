"""Match the names of an object (branch and path) with the rules of a policy: are all due?

Plain values only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from spark_core.references.policies.canonical_names import NEVER, Graph, Lines
from spark_core.references.policies.document import UNCOMMITTED, Action, Policy

# Bits of what is known of a range, and so of each entry that it holds: a branch's head has it; a
# retained commit has it; a tag or a hold keeps it; what is staged may have been compacted into it.
AT_HEAD, RETAINED, KEPT, COMPACTED = 1, 2, 4, 8

# Different sets of ranges of which a task remembers what they tell together. An entry of a range
# that every commit rewrites is in as many ranges as there are commits.
_REMEMBERED = 2_000


@dataclass(frozen=True)
class Changes:
    """What commits did to a range of entries.

    Attributes:
        bits: See the top of this module.
        introduced: Commits that have it, although no parent has it.
        gone: Since when stored runs tell that no branch's head has it, in microseconds since 1970,
            and not before the latest commit that dropped it; `NEVER` if no run tells it.
    """

    bits: int
    introduced: tuple[int, ...]
    gone: int


@dataclass(frozen=True)
class Entry:
    """A path that names an object.

    Attributes:
        path: The path.
        modified: The latest date that an entry gives for it there, in microseconds since 1970.
        ranges: Numbers of the ranges that have this path with this address.
    """

    path: bytes
    modified: int
    ranges: tuple[int, ...]


@dataclass(frozen=True)
class Due:
    """Why an object may go: the last of its names to fall due, and the rule that it falls under.

    Attributes:
        since: When it fell due, in microseconds since 1970.
        rule: Number of the rule, from 1 on.
        action: The rule's action.
        branch: Branch of the name; None if that is undecided.
        path: Path of the name.
    """

    since: int
    rule: int
    action: Action
    branch: str | None
    path: bytes


@dataclass(frozen=True)
class _RangeSet:
    """What is known of the ranges of an entry together."""

    bits: int
    introduced: tuple[int, ...]
    gone: int


@dataclass
class Judge:
    """Compares the names of an object with the rules of a policy.

    Attributes:
        policy: The document.
        graph: All commits.
        lines: Whose commit each one is.
        changes: What commits did to each range, by its number.
        unread: Commits that may give any object a name that nobody knows, as tables of them could
            not be read.
        instant: The run's instant in microseconds since 1970, less what clocks may be wrong by.
    """

    policy: Policy
    graph: Graph
    lines: Lines
    changes: Sequence[Changes]
    unread: tuple[int, ...]
    instant: int
    _known: dict[tuple[int, ...], _RangeSet] = field(default_factory=dict, repr=False)
    _rules: list[tuple[int, str | None, bytes, Mapping[Action, int]]] = field(
        default_factory=list, repr=False
    )

    def __post_init__(self) -> None:
        self._rules = [
            (
                number,
                rule.branch,
                rule.path.encode(),
                {
                    action: period.length // timedelta(microseconds=1)
                    for action, period in rule.periods.items()
                    # `staged_names` judges what is staged. A commit's objects are not.
                    if action != UNCOMMITTED
                },
            )
            for number, rule in enumerate(self.policy.rules, start=1)
            # What a rule removes by a commit is none of the objects that expire.
            if rule.is_enabled and not rule.removes
        ]

    def names_of(self, entry: Entry) -> list[tuple[int, str | None]]:
        """Return each commit that introduced an entry, with its branch."""
        introduced = self.known(entry.ranges).introduced
        return [(commit, self.lines.branch_of(commit)) for commit in introduced]

    def known(self, ranges: tuple[int, ...]) -> _RangeSet:
        """Put together what the ranges of an entry tell; remembered, as entries share them."""
        found = self._known.get(ranges)
        if found is None:
            some = [self.changes[number] for number in ranges]
            bits = 0
            for each in some:
                bits |= each.bits
            introduced = {commit for each in some for commit in each.introduced}
            gone = max(each.gone for each in some)
            found = _RangeSet(bits, self.graph.minimal(introduced), gone)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[ranges] = found
        return found

    def due(self, entries: Sequence[Entry], last_modified: int) -> Due | None:
        """Tell whether an object may go: only if it is due under each of its names.

        Args:
            entries: Every path that names the object in any commit.
            last_modified: The store's date, in microseconds since 1970.

        Returns:
            The name that fell due last; None if the object stays.
        """
        known = [self.known(entry.ranges) for entry in entries]
        bits = 0
        for each in known:
            bits |= each.bits
        if bits & KEPT or not bits & RETAINED or not all(each.introduced for each in known):
            return None
        # A table that cannot be read may be a head's, and have any object.
        is_shown = bool(bits & AT_HEAD or self.unread)
        gone = NEVER if is_shown else max(each.gone for each in known)
        last: Due | None = None
        for entry, each in zip(entries, known, strict=True):
            for commit in each.introduced:
                start = max(entry.modified, last_modified, int(self.graph.dates[commit]))
                owner = int(self.lines.owner[commit])
                found = self._earliest(entry.path, owner, start, max(start, gone))
                if found is None or found.since > self.instant:
                    return None
                if last is None or found.since > last.since:
                    last = found
        return last if last is not None and self._is_due_unread(last_modified) else None

    def _earliest(self, path: bytes, owner: int, start: int, since: int) -> Due | None:
        """Find the rule by which a name falls due first; as in S3, the earliest expiry counts."""
        branch = None if owner < 0 else self.lines.branches[owner]
        first: Due | None = None
        for number, of_branch, prefix, periods in self._rules:
            if of_branch is not None and (of_branch != branch or not path.startswith(prefix)):
                continue
            for action, period in periods.items():
                begin = start if action == "all" else since
                if begin < NEVER and (first is None or begin + period < first.since):
                    first = Due(begin + period, number, action, branch, path)
        return first

    def _is_due_unread(self, last_modified: int) -> bool:
        """Say whether an object is due under the names that unread tables may give it."""
        for commit in self.unread:
            start = max(last_modified, int(self.graph.dates[commit]))
            found = self._earliest(b"", -1, start, NEVER)
            if found is None or found.since > self.instant:
                return False
        return True
