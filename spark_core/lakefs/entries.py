"""Look up many paths of a ref in few calls: by listing, from just before one path to just before the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock

from spark_core.errors import IncompleteReadError
from spark_core.lakefs.server import LakeFSServer
from spark_core.lakefs.values import EntriesPage

_SURROGATES = range(0xD800, 0xE000)

# What the server shows for bytes that are no UTF-8: such a path begins as it is shown, and sorts nobody knows where.
_UNREADABLE = "\ufffd"


@dataclass
class CallBudget:
    """How many calls a search may still make; several threads may share it.

    Attributes:
        left: Calls left.
        made: Calls made.
        is_held_up: A listing ended early: more paths that are no UTF-8 begin alike than a page shows, and no request
            gets behind them.
    """

    left: int
    made: int = 0
    is_held_up: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def take(self, calls: int = 1) -> bool:
        """Take calls from what is left; False, and nothing taken, where it does not suffice."""
        with self._lock:
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
    """Find where a ref keeps these paths, staged entries included.

    Paths that lie close together share a page of a thousand entries, so the
    calls are at most one for each path and often a thousandth of that. Where a
    page ends with a path that is no UTF-8, the listing goes on from the last
    point that is sure to lie before it.

    Args:
        server: The server.
        repository_id: Repository name.
        ref: Branch, tag or commit.
        paths: What to look for, in any order. Of one that is no UTF-8, how it begins and U+FFFD behind that.
        budget: Bounds the calls. None for no bound.
        unasked: Given the paths that were not asked about; to be passed with a budget.

    Yields:
        Path and absolute physical address. Nothing for a path that is not
        there. The server shows bytes that are no UTF-8 as U+FFFD; what is shown
        so may be any of the paths, and comes wherever it is met. The same may come twice.

    Raises:
        IncompleteReadError: If the listing does not get ahead. Where paths that
            are no UTF-8 hold it up and there is a budget, what is left counts as unasked instead.
        NotFoundError: If the ref is not there.
    """
    wanted = set(paths)
    not_asked = set() if unasked is None else unasked
    left = sorted(wanted, key=lambda path: _certain(path).encode())
    after = ""
    while left:
        if budget is not None and not budget.take():
            not_asked.update(left)
            return
        after = max(after, just_before(_certain(left[0])), key=str.encode)
        listed = server.list_entries(repository_id, ref, after=after)
        for path, physical_address in listed.entries:
            if path in wanted or _UNREADABLE in path:
                yield path, physical_address
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
        left = [path for path in left if not _is_behind(after, path)]


def pages_of(server: LakeFSServer, repository_id: str, ref: str, *, budget: CallBudget) -> Iterator[EntriesPage]:
    """List all that a ref has, staged entries included, a thousand entries a call.

    Args:
        server: The server.
        repository_id: Repository name.
        ref: Branch, tag or commit.
        budget: Bounds the calls.

    Yields:
        Pages; the last one says that more follow where the budget did not suffice, or where paths that are no UTF-8
        hold the listing up; nothing where no call was left. An entry may come twice.

    Raises:
        IncompleteReadError: If the listing does not get ahead for another reason.
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
        f"entries of {ref} of repository {repository_id}: the server lists {shown[:200]!r} behind {after[:200]!r}, "
        "so the listing does not get ahead; entries beyond are unknown",
        "Run again; if the first of the two holds U+FFFD, many paths there are no UTF-8: rename them.",
    )


def _certain(path: str) -> str:
    """Return how a path surely begins."""
    return path.partition(_UNREADABLE)[0]


def _reached(listed: EntriesPage) -> str:
    """Return up to where a page surely lists every path."""
    plain = next((path for path, _ in reversed(listed.entries) if _UNREADABLE not in path), "")
    return max(plain, _certain(listed.entries[-1][0]), key=str.encode)


def _is_behind(reached: str, path: str) -> bool:
    """Say whether all that is shown as this path has been listed."""
    if _UNREADABLE not in path:
        return path.encode() <= reached.encode()
    certain = _certain(path)
    return reached.encode() > certain.encode() and not reached.startswith(certain)


def just_before(path: str) -> str:
    """Return a text that sorts before a path, with hardly any room between the two.

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
