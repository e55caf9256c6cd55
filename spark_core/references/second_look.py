"""The parts of a second look: which are read again, and how old those may be that count.

A sweep deletes under a second look at everything that may refer to an object of its plan. When
they were marked, these objects were dead and older than the grace period. So no upload under way
can come to refer to one: an address is linked within the grace period or not at all. What can
refer to one is old addresses that somebody stages (by hand, by a copy or an update of metadata, by
bringing a path back), refs that are put on old commits (branch, tag, hard reset, revert,
cherry-pick, merge, import), commits of staged entries, longer rules, and holds.

A look promises this: it finds a reference that was there when the oldest part began that a deletion
relies on, and that stayed. The promise rests on these rules:

- **Each place is a part of its own**, read whole: the server's scans, the diff of each branch, the
  entries that hide from both, and what is committed (holds, rules, refs, the server's list, the
  tables of new commits).
- **What is committed is read last.** An entry leaves staging only once the commit that has it is a
  head. If it was committed before its branch was read, the head has it. If it was committed after,
  the diff had it. So whenever a staged part was renewed, all that is committed is read again before
  any batch.
- **Hidden entries are read after the diffs.** An entry hides when a reset puts its branch's head
  onto the same content; it was in the diff before. So the age of a look is the age that its parts
  had when the hidden entries were last read.
- **Names count only in the look that read them.** What a retention policy takes although it is
  staged has each of its names read, all branches together, behind the other staged parts and before
  what is committed. So they are never the oldest part.
- **What was seen alive stays alive.** The kept set of a sweep only grows, so a renewed part can
  only add to it. An entry may move from a part that was read to one that is not read again; it is
  not forgotten.
- **Age.** People move refs, and what is committed is read in seconds. So it is never older than
  `reread_every` (ten minutes at most) when a request is sent. The same holds for every staged part,
  as long as all of them are read within a quarter of that time. Where that takes longer, the parts
  would never be so young, and nothing could be deleted. Each look then reads as many branches again
  as it can, the oldest first, in no more time than passed since the look before. A part that needs
  more than that quarter by itself is read again once its age equals its reading time. So the
  oldest part is two to three times as old as reading everything takes, plus `reread_every`. The
  report of the sweep gives the age (`oldest_began`).

An entry may be staged, and moved by hand in the middle of one look from a branch that is not read
yet to one that was. The server's scans or the next look find it.

No cheap sign shows that a part need not be read again. The API shows neither a branch's staging
token nor a date of its last change. A diff has no addresses, so an entry that was staged anew at
its path looks unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

# The staged parts that are no branch's diff. No branch has a name with a space in it.
SCAN = "the server's scan"
HIDDEN = "hidden entries"
# The names of everything that is staged; read only where a retention policy asks for them.
NAMES = "staged names"

# Share of the time that a look is good for. What is read within this share is as young as the look.
QUICK = 0.25


@dataclass
class Parts:
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
