"""Which parts of a second look are read again, and how old those may be that a deletion relies on.

A sweep deletes under a look at everything that may refer to an object of its
plan. These objects were dead, and older than the grace period, when they were
marked. So no upload under way can come to refer to one: an address is linked
within the grace period or not at all. What can is old addresses that somebody
stages (by hand, by a copy or an update of metadata, by bringing a path back),
refs that are put on old commits (branch, tag, hard reset, revert, cherry-pick,
merge, import), commits of what is staged, longer rules, and holds.

What a look promises is that a reference is found which was there when the
oldest part began that a deletion relies on, and which stayed. It rests on this:

- **Each place is a part of its own**, read whole: the server's scans, the diff
  of each branch, the entries that hide from both, and what is committed (holds,
  rules, refs, the server's list, the tables of new commits).
- **What is committed is read last.** An entry leaves staging only once the
  commit that has it is a head. If it was committed before its branch was read,
  the head has it; if after, the diff had it. So whenever a staged part was
  renewed, all that is committed is read again before any batch.
- **Hidden entries are read behind the diffs.** An entry hides when a reset puts
  its branch's head onto the same content; it was in the diff before. So a look
  is as old as the parts were when the hidden entries were last read.
- **What was seen alive stays alive.** The kept set of a sweep only grows, so a
  renewed part can only add to it, and an entry that goes from a part that was
  read to one that is not read again is not forgotten.
- **Age.** Refs are what people move, and what is committed is read in seconds: it
  is never older than `reread_every` (ten minutes at most) when a request is
  sent. So is every staged part, as long as all of them are read within a quarter
  of that time. Where that takes longer, none of this would ever be so young, and
  nothing could be deleted. Then each look reads as many branches again as it can,
  the oldest first, in no more time than passed since the look before; and a part
  that takes longer than that quarter by itself, once it is as old as it takes.
  So the oldest part is two to three times as old as reading everything takes, and
  `reread_every` on top. The report of the sweep says how old (`oldest_began`).

An entry that is staged, and moved by hand from a branch that is not read yet to
one that was, in the middle of one look, is found by the server's scans or by
the next look.

No cheap sign says that a part need not be read again: the API shows neither a
branch's staging token nor a date of its last change, and a diff has no
addresses, so an entry that was staged anew at its path looks as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

# The staged parts that are no branch's diff; no branch has a name with a space in it.
SCAN = "the server's scan"
HIDDEN = "hidden entries"

# Of the time that a look is good for: what is read within this share is as young as the look.
QUICK = 0.25


@dataclass
class Parts:
    """When each staged part was read, and whether it is to be read again; for one sweep.

    Attributes:
        now: The run's clock.
        quick: What takes no longer is read again by every look.
        read: Part -> when its last whole reading began and ended; also of branches that are gone.
        oldest: When the oldest part was begun that a deletion relies on: as it was when the hidden
            entries were last read, which are read last of all that is staged.
    """

    now: Callable[[], datetime]
    quick: timedelta
    read: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    oldest: datetime | None = None
    _begun: dict[str, datetime] = field(default_factory=dict)
    _until: datetime | None = None
    _least_age: timedelta = timedelta(0)

    def turn(self, budget: timedelta | None = None, *, least_age: timedelta = timedelta(0)) -> None:
        """Begin to go through the parts.

        Args:
            budget: For how long parts may be begun that were read before; None for no limit.
            least_age: Parts that are younger need not be read again.
        """
        self._until = None if budget is None else self.now() + budget
        self._least_age = least_age

    def order(self, branches: Iterable[str]) -> list[str]:
        """Put branches in the order in which to read them.

        Returns:
            First those that were never read, then the oldest.
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
        """Note that the hidden entries were read to their end, which makes the look as old as its oldest part is now.

        Args:
            branches: Those that are there; what was staged on another one went with it.
        """
        self.end(HIDDEN)
        relied_on = {*branches, SCAN, HIDDEN}
        self.oldest = min(began for part, (began, _) in self.read.items() if part in relied_on)
