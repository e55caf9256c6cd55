"""Match the names of a staged object with the rules for staged objects: are all due?

Plain values only. Doubt keeps: an object without a name that was read goes by no rule, whatever
else says that it is staged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_core.holds import Holds
from spark_core.references.policies.canonical_names import micros
from spark_core.references.policies.document import UNCOMMITTED, Policy
from spark_core.references.policies.due import Due

# What the server shows for bytes that are no UTF-8: nobody knows such a path.
_UNREADABLE = "\ufffd"
# The server cuts the dates of entries to whole seconds.
_CUT = 1_000_000


@dataclass(frozen=True)
class StagedName:
    """A name of a staged object.

    Attributes:
        branch: The branch.
        path: The path, as the server shows it.
        modified: The entry's date; None if the server says none.
    """

    branch: str
    path: str
    modified: datetime | None


@dataclass(frozen=True)
class StagedJudge:
    """Compares the names of a staged object with the rules that take staged objects.

    Attributes:
        rules: Number, branch, beginning of the path and period of each.
        held: Branches that a hold keeps as they are.
        instant: The run's instant in microseconds since 1970, less what clocks may be wrong by.
    """

    rules: Sequence[tuple[int, str | None, str, int]]
    held: frozenset[str]
    instant: int

    @classmethod
    def of(cls, policy: Policy, holds: Holds, instant: int) -> StagedJudge:
        """Make the judge of a document; without a rule for staged objects it takes nothing."""
        rules = [
            (number, rule.branch, rule.path, rule.periods[UNCOMMITTED].length)
            for number, rule in enumerate(policy.rules, start=1)
            # `removal` resets the entries that a rule with `effect: remove` names.
            if rule.is_enabled and not rule.removes and UNCOMMITTED in rule.periods
        ]
        return cls(
            tuple((*rule, length // timedelta(microseconds=1)) for *rule, length in rules),  # type: ignore[misc]
            held_branches(holds),
            instant,
        )

    def due(self, names: Sequence[StagedName], last_modified: int) -> Due | None:
        """Tell whether a staged object that is in no commit may go: only if due under each name.

        Args:
            names: Every name under which it is staged.
            last_modified: The store's date, in microseconds since 1970.

        Returns:
            The name that fell due last; None if the object stays.
        """
        last: Due | None = None
        for name in names:
            found = self._earliest(name, last_modified)
            if found is None or found.since > self.instant:
                return None
            if last is None or found.since > last.since:
                last = found
        return last

    def _earliest(self, name: StagedName, last_modified: int) -> Due | None:
        """Find the rule by which a name falls due first; as in S3, the earliest expiry counts."""
        if name.modified is None or _UNREADABLE in name.path or name.branch in self.held:
            return None
        start = max(micros(name.modified) + _CUT, last_modified)
        found = [
            Due(start + period, number, UNCOMMITTED, name.branch, name.path.encode())
            for number, branch, prefix, period in self.rules
            if branch is None or (branch == name.branch and name.path.startswith(prefix))
        ]
        return min(found, key=lambda due: due.since, default=None)


def held_branches(holds: Holds) -> frozenset[str]:
    """Return the branches that a hold names: what is staged on them stays."""
    return frozenset(hold.value for hold in holds.holds if hold.kind == "branch")


def are_asked_for(policy: Policy) -> bool:
    """Say whether any rule of a document lets staged objects expire."""
    return bool(StagedJudge.of(policy, Holds(()), 0).rules)
