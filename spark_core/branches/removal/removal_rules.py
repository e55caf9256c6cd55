"""The rules of a policy that remove entries by a commit, and how old an entry must be; values only.

A removal rule names one branch. The age of an entry on that branch counts from the latest of its
own date and the date of the commit on the branch's main line that introduced it there last. The
objects' dates in the store are not asked for committed entries: nothing of the store changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.references.policies.document import REMOVE, UNCOMMITTED, Policy
from spark_core.run import Run

# The server cuts the dates of entries and commits to whole seconds.
_CUT = timedelta(seconds=1)


@dataclass(frozen=True)
class RemovalRule:
    """An enabled rule with `effect: remove`.

    Attributes:
        number: As people and tables number it, from 1 on.
        branch: The one branch that it writes to.
        path: Beginning of the paths; empty for the whole branch.
        committed: Age from which a committed entry is removed; None: none is.
        staged: Age from which a staged entry is reset; None: none is.
    """

    number: int
    branch: str
    path: str
    committed: timedelta | None
    staged: timedelta | None

    @property
    def prefix(self) -> str:
        """The prefix as the document writes it."""
        return f"{self.branch}/{self.path}"

    @property
    def words(self) -> str:
        """Say which rule it is, for messages."""
        return f"policy rule {self.number} ({REMOVE}, {self.prefix})"


def removal_rules(policy: Policy) -> tuple[RemovalRule, ...]:
    """Return the enabled removal rules of a document, in its order."""
    found = []
    for number, rule in enumerate(policy.rules, start=1):
        if not (rule.is_enabled and rule.removes):
            continue
        # The document is refused when it is read if such a rule has no prefix.
        if rule.branch is None:
            raise ValueError(f"rule {number} removes entries and names no branch")
        every, staged = rule.periods.get("all"), rule.periods.get(UNCOMMITTED)
        found.append(
            RemovalRule(
                number,
                rule.branch,
                rule.path,
                None if every is None else every.length,
                None if staged is None else staged.length,
            )
        )
    return tuple(found)


def old_enough(run: Run, period: timedelta) -> datetime:
    """Return the latest date that is a period ago at the run's instant.

    What clocks may be wrong by is taken off, and the second by which the server cuts a date.
    """
    options = run.options
    return run.key.instant - options.clock_margin - MAX_CLOCK_SKEW - period - _CUT


def is_old(date: datetime, at_most: datetime) -> bool:
    """Say whether a date is not after the latest one that is old enough.

    Examples:
        >>> from datetime import UTC
        >>> limit = datetime(2026, 11, 20, tzinfo=UTC)
        >>> is_old(limit, limit), is_old(limit + timedelta(seconds=1), limit)
        (True, False)
    """
    return date <= at_most
