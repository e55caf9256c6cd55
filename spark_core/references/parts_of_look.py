"""The parts of a second look: which are read again, and how old those may be that count.

A look finds a reference that was there when the oldest part began that a deletion relies on, and
that stayed. Each place is a part of its own. What is committed is read last, hidden entries after
the diffs, and names count only in the look that read them. Why that suffices, and how old parts
may be: `docs/decisions/the-second-look.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

# How old a second look at what is referenced may be when a batch is deleted; what is staged may be
# older where reading it takes longer than a quarter of that.
GOOD_FOR = timedelta(minutes=10)

# The staged parts that are no branch's diff. No branch has a name with a space in it.
SCAN = "the server's scan"
HIDDEN = "hidden entries"
# The names of everything that is staged; read only where a retention policy asks for them.
NAMES = "staged names"

# Share of the time that a look is good for. What is read within this share is as young as the look.
QUICK = 0.25


@dataclass
class LookParts:
    """When each staged part was read, and whether it is to be read again; for one sweep.

    Attributes:
        now: The run's clock.
        quick: Every look reads a part again that takes no longer than this.
        read: Part -> when its last whole reading began and ended; also of branches that are gone.
        oldest: When the oldest part began that a deletion relies on. It is set when the hidden
            entries are read, which is after all other staged parts.
    """

    now: Callable[[], datetime]
    quick: timedelta
    read: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    oldest: datetime | None = None
    _begun: dict[str, datetime] = field(default_factory=dict)
    _until: datetime | None = None
    _least_age: timedelta = timedelta(0)

    def turn(self, budget: timedelta | None = None, *, least_age: timedelta = timedelta(0)) -> None:
        """Begin a pass over the parts.

        Args:
            budget: For how long to begin parts that were read before; None for no limit.
            least_age: Parts that are younger need not be read again.
        """
        self._until = None if budget is None else self.now() + budget
        self._least_age = least_age

    def order(self, branches: Iterable[str]) -> list[str]:
        """Put branches in the order in which to read them.

        Returns:
            Branches that were never read come first, then the oldest.
        """
        never = datetime.min.replace(tzinfo=self.now().tzinfo)
        return sorted(sorted(branches), key=lambda name: self.read.get(name, (never, never))[0])

    def begin(self, part: str) -> bool:
        """Say whether to read a part now; if so, its reading has begun."""
        now, last = self.now(), self.read.get(part)
        if last is not None and not self._is_due(*last, now):
            return False
        self._begun[part] = now
        return True

    def _is_due(self, began: datetime, ended: datetime, now: datetime) -> bool:
        if self._until is not None and now >= self._until:
            return False
        if ended - began > self.quick:
            return now - ended >= ended - began
        return now - began >= self._least_age

    def end(self, part: str) -> None:
        """Note that a part was read to its end."""
        self.read[part] = self._begun[part], self.now()

    def end_hidden(self, branches: Iterable[str]) -> None:
        """Note that the hidden entries were read to their end.

        The look is then as old as its oldest part is now.

        Args:
            branches: The present branches. What was staged on another branch is gone with it.
        """
        self.end(HIDDEN)
        relied_on = {*branches, SCAN, HIDDEN}
        self.oldest = min(began for part, (began, _) in self.read.items() if part in relied_on)
