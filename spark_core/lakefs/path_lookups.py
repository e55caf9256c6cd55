"""Look up many paths of a ref in few calls, by listing the entries from just before each path."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice
from threading import Lock
from time import monotonic

from spark_core.errors import IncompleteReadError
from spark_core.lakefs.answer_types import EntriesPage
from spark_core.lakefs.server import LakeFSServer

_SURROGATES = range(0xD800, 0xE000)

# What the server shows for bytes that are no UTF-8. The part before it is the real beginning of the
# path, but where the path sorts is unknown.
_UNREADABLE = "\ufffd"


@dataclass
class CallBudget:
    """How many calls a search may still make; several threads may share it.

    Attributes:
        left: Calls left; none once its time is over.
        made: Calls made.
        until: When its time is over, by `time.monotonic`; None for no limit.
        is_late: Whether its time ended while calls were left.
        is_held_up: Whether a listing ended early, because more paths that are no UTF-8 begin alike
            than a page shows, and no request gets past them.
    """

    left: int
    made: int = 0
    until: float | None = None
    is_late: bool = False
    is_held_up: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def take(self, calls: int = 1) -> bool:
        """Take calls from what is left; take none and return False if too few are left."""
        with self._lock:
            if self.left and self.until is not None and monotonic() >= self.until:
                self.left, self.is_late = 0, True
            if self.left < calls:
                return False
            self.left -= calls
            self.made += calls
            return True


def addresses_on(
    server: LakeFSServer,
    repository_id: str,
    ref: str,
    paths: Iterable[str],
    *,
    budget: CallBudget | None = None,
    unasked: set[str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Find the physical addresses of these paths on a ref, staged entries included.

    Neighbouring paths share a page of a thousand entries, so this takes at most
    one call for each path, and often a thousandth of that. If a page ends with a
    path that is no UTF-8, the listing continues from the last point that is
    certain to lie before it.

    Args:
        server: The server.
        repository_id: Repository name.
        ref: Branch, tag or commit.
        paths: The paths to look up, in any order. For a path that is no UTF-8, its beginning
            followed by U+FFFD.
        budget: Limits the calls; None for no limit.
        unasked: Receives the paths that were not looked up; pass it with a budget.

    Yields:
        Path and absolute physical address; nothing for a path that is not there.
        The server shows bytes that are no UTF-8 as U+FFFD. A path shown like that
        may be any of the paths, so it is yielded wherever it is met. A pair may
        come twice.

    Raises:
        IncompleteReadError: If the listing makes no progress. If there is a budget
            and paths that are no UTF-8 hold the listing up, the paths that are
            left go to `unasked` instead.
        NotFoundError: If the ref is not there.
    """
    wanted = paths if isinstance(paths, AbstractSet) else set(paths)
    pages = _pages_with(server, repository_id, ref, wanted, budget=budget, unasked=unasked)
    # Millions of entries pass here: no step for each of them but the question.
    return chain.from_iterable(
        [pair for pair in page.entries if pair[0] in wanted or _UNREADABLE in pair[0]]
        for page in pages
    )


def entries_on(
    server: LakeFSServer,
    repository_id: str,
    ref: str,
    paths: Iterable[str],
    *,
    budget: CallBudget | None = None,
    unasked: set[str] | None = None,
) -> Iterator[tuple[str, str, datetime | None]]:
    """Do `addresses_on`, with the date of each entry; None where the server says none."""
    wanted = set(paths)
    for listed in _pages_with(server, repository_id, ref, wanted, budget=budget, unasked=unasked):
        dates = listed.dates or [None] * len(listed.entries)
        for (path, physical_address), date in zip(listed.entries, dates, strict=True):
            if path in wanted or _UNREADABLE in path:
                yield path, physical_address, date


def _pages_with(
    server: LakeFSServer,
    repository_id: str,
    ref: str,
    wanted: AbstractSet[str],
    *,
    budget: CallBudget | None,
    unasked: set[str] | None,
) -> Iterator[EntriesPage]:
    """Yield the pages of a listing that together have all wanted paths; see `addresses_on`."""
    not_asked = set() if unasked is None else unasked
    left, after = _Left.of(wanted), ""
    while left:
        if budget is not None and not budget.take():
            not_asked.update(left)
            return
        after = max(after, just_before(left.first), key=str.encode)
        listed = server.list_entries(repository_id, ref, after=after)
        yield listed
        if not listed.has_more:
            return
        shown = listed.entries[-1][0]
        reached = _reached(listed)
        if reached.encode() <= after.encode():
            if budget is not None and _UNREADABLE in shown:
                budget.is_held_up = True
                not_asked.update(left)
                return
            raise _stuck(repository_id, ref, shown, after)
        after = reached
        left = left.behind(after)


@dataclass(frozen=True)
class _Left:
    """Paths that are not listed yet; characters sort as their UTF-8 does.

    Attributes:
        plain: Paths that are shown as they are, sorted.
        begin: How many of those were listed.
        unreadable: Paths that are no UTF-8. Where each sorts behind its beginning is unknown.
    """

    plain: Sequence[str]
    begin: int
    unreadable: Sequence[str]

    @classmethod
    def of(cls, paths: Iterable[str]) -> _Left:
        ordered = sorted(paths)
        if _UNREADABLE not in "".join(ordered):
            return cls(ordered, 0, ())
        plain = [path for path in ordered if _UNREADABLE not in path]
        return cls(plain, 0, [path for path in ordered if _UNREADABLE in path])

    def __bool__(self) -> bool:
        return self.begin < len(self.plain) or bool(self.unreadable)

    def __iter__(self) -> Iterator[str]:
        return chain(islice(self.plain, self.begin, None), self.unreadable)

    @property
    def first(self) -> str:
        """The certain beginning of all of them that sorts first."""
        plain = self.plain[self.begin : self.begin + 1]
        return min(chain(plain, map(_certain, self.unreadable)))

    def behind(self, reached: str) -> _Left:
        """Return what is left when every path up to one is listed."""
        begin = bisect_right(self.plain, reached, self.begin)
        unreadable = [path for path in self.unreadable if not _is_behind(reached, path)]
        return _Left(self.plain, begin, unreadable)


def pages_of(
    server: LakeFSServer, repository_id: str, ref: str, *, budget: CallBudget
) -> Iterator[EntriesPage]:
    """List all entries of a ref, staged ones included, a thousand in a call.

    Args:
        server: The server.
        repository_id: Repository name.
        ref: Branch, tag or commit.
        budget: Limits the calls.

    Yields:
        Pages; nothing if no call was left. If the budget did not suffice, or paths that are no
        UTF-8 hold the listing up, the last page says that more follow. An entry may come twice.

    Raises:
        IncompleteReadError: If the listing makes no progress for another reason.
        NotFoundError: If the ref is not there.
    """
    after = ""
    while budget.take():
        listed = server.list_entries(repository_id, ref, after=after)
        yield listed
        if not listed.has_more:
            return
        reached = _reached(listed)
        if reached.encode() <= after.encode():
            if _UNREADABLE in listed.entries[-1][0]:
                budget.is_held_up = True
                return
            raise _stuck(repository_id, ref, listed.entries[-1][0], after)
        after = reached


def _stuck(repository_id: str, ref: str, shown: str, after: str) -> IncompleteReadError:
    return IncompleteReadError(
        f"entries of {ref} of repository {repository_id}: the server lists {shown[:200]!r} behind "
        f"{after[:200]!r}, so the listing does not get ahead; entries beyond are unknown",
        "Run again; if the first of the two holds U+FFFD, many paths there are no UTF-8: rename "
        "them.",
    )


def _certain(path: str) -> str:
    """Return the certain beginning of a path."""
    return path.partition(_UNREADABLE)[0]


def _reached(listed: EntriesPage) -> str:
    """Return the point up to which a page certainly lists every path."""
    plain = next((path for path, _ in reversed(listed.entries) if _UNREADABLE not in path), "")
    return max(plain, _certain(listed.entries[-1][0]), key=str.encode)


def _is_behind(reached: str, path: str) -> bool:
    """Say whether every path has been listed that is shown like this one, which is no UTF-8."""
    certain = _certain(path)
    return reached.encode() > certain.encode() and not reached.startswith(certain)


def just_before(path: str) -> str:
    """Return a text that sorts just before a path.

    Examples:
        >>> just_before("a/b") < "a/b"
        True
        >>> just_before("")
        ''
    """
    code = ord(path[-1:] or "\0")
    if code == 0:
        return path[:-1]
    lower = _SURROGATES.start - 1 if code - 1 in _SURROGATES else code - 1
    return path[:-1] + chr(lower) + "\U0010ffff"
