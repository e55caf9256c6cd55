"""Find the entries that a removal rule names at its branch's head; reads only.

The entries of the head's commit are listed a thousand in a call. An entry stays if a young commit
of the branch's main line touched its path: the differences of those commits are listed as well.
This process holds eight bytes for each path that they touched, the main line, and one page.
"""

from __future__ import annotations

import hashlib
import heapq
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from itertools import islice
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_core.addresses.address_hashes import sorted_once
from spark_core.addresses.namespace import AddressType
from spark_core.branches.removal.removal_rules import RemovalRule, is_old, old_enough
from spark_core.branches.removal.writes import MOST_PATHS
from spark_core.holds import Holds
from spark_core.lakefs import DatedEntry, addresses_on
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.model import Commit
from spark_core.run import Run

# Entries that are named to people, of each rule.
NAMED = 10
# What the server shows for bytes that are no UTF-8: no call can name such a path.
_UNREADABLE = "\ufffd"

_Item = TypeVar("_Item")


@dataclass
class NamedByRule:
    """What a rule names; it grows while the entries are listed.

    Attributes:
        entries: Number of entries.
        size_bytes: Their sizes, as the entries say.
        kept: Why other entries of the prefix stay. `young`: by their own date. `introduced`: a
            young commit touched the path. `held`: a hold keeps the object. `restaged`: the branch
            shows another object there. `unnamed`: the path is no UTF-8. `missing`: a staged entry's
            object is not in the store.
        largest: Size, path and date of the largest ones.
        newest: Date, path and size of the newest ones.
        oldest: Date of the oldest one; None if there is none.
    """

    entries: int = 0
    size_bytes: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    largest: list[tuple[int, str, datetime]] = field(default_factory=list)
    newest: list[tuple[datetime, str, int]] = field(default_factory=list)
    oldest: datetime | None = None

    def add(self, entries: Iterable[DatedEntry]) -> None:
        """Count entries."""
        for entry in entries:
            self.entries += 1
            self.size_bytes += entry.size_bytes
            self.oldest = min(self.oldest or entry.modified, entry.modified)
            self.largest.append((entry.size_bytes, entry.path, entry.modified))
            self.newest.append((entry.modified, entry.path, entry.size_bytes))
        self.largest = heapq.nlargest(NAMED, self.largest)
        self.newest = heapq.nlargest(NAMED, self.newest)


def lots(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield items in lists of at most `MOST_PATHS`."""
    each = iter(items)
    while lot := list(islice(each, MOST_PATHS)):
        yield lot


def read_line(run: Run, branch: str) -> tuple[Commit, ...]:
    """Return the main line of a branch, its head first.

    Raises:
        NotFoundError: If there is no such branch.
    """
    listed = run.server.main_line(run.repository.id, branch)
    return tuple(each.commit for each in listed)


class Look:
    """The look of one rule at the head of its branch.

    Args:
        run: The run; ages count until its instant.
        rule: The rule; it has a period for committed entries.
        line: The main line of the branch, its head first.
        holds: What people hold.
    """

    def __init__(
        self, run: Run, rule: RemovalRule, line: Sequence[Commit], holds: Holds, found: NamedByRule
    ) -> None:
        if rule.committed is None:
            raise ValueError(f"{rule.words} names no committed entries")
        self._run = run
        self._rule = rule
        self._line = line
        self._holds = holds
        self._old = old_enough(run, rule.committed)
        self.found = found

    def due(self) -> Iterator[list[DatedEntry]]:
        """Yield the entries that the rule names, at most `MOST_PATHS` at a time, and count them."""
        listed = self._run.server.entries_under(
            self._run.repository.id, self._line[0].id, self._rule.path
        )
        for lot in lots(listed):
            named = self._shown(self._unheld(self._untouched(self._aged(lot))))
            if named:
                self.found.add(named)
                yield named

    def _aged(self, lot: list[DatedEntry]) -> list[DatedEntry]:
        old = [entry for entry in lot if is_old(entry.modified, self._old)]
        readable = [entry for entry in old if _UNREADABLE not in entry.path]
        self.found.kept["young"] += len(lot) - len(old)
        self.found.kept["unnamed"] += len(old) - len(readable)
        return readable

    def _untouched(self, lot: list[DatedEntry]) -> list[DatedEntry]:
        if not lot:
            return lot
        hashes = np.fromiter((_hash(entry.path) for entry in lot), np.uint64, len(lot))
        touched = np.isin(hashes, self._touched)
        self.found.kept["introduced"] += int(touched.sum())
        return [entry for entry, is_touched in zip(lot, touched, strict=True) if not is_touched]

    def _unheld(self, lot: list[DatedEntry]) -> list[DatedEntry]:
        kept = are_held(self._run, self._holds, lot)
        self.found.kept["held"] += sum(kept)
        return [entry for entry, is_held in zip(lot, kept, strict=True) if not is_held]

    def _shown(self, lot: list[DatedEntry]) -> list[DatedEntry]:
        """Leave out paths at which the branch shows another object than its head.

        What was staged there with the same content is in no difference, and a merge would drop it.
        """
        shown = addresses_of(self._run, self._rule.branch, [entry.path for entry in lot])
        same = [entry for entry in lot if shown.get(entry.path) == entry.physical_address]
        self.found.kept["restaged"] += len(lot) - len(same)
        return same

    @cached_property
    def _touched(self) -> NDArray[np.uint64]:
        """Hashes of the paths that young commits of the main line touched, sorted."""
        young = [each for each in self._line if not _is_old(each, self._old)]
        found = array("Q")
        ask = partial(_changed_paths, self._run, self._rule.path)
        at_once = self._run.options.branches_at_once
        for _, hashes in side_by_side(young, ask, at_once=at_once):
            found.extend(hashes)
        touched: NDArray[np.uint64] = sorted_once(np.array(found, np.uint64))
        return touched


def addresses_of(run: Run, ref: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the physical address at each path of a ref that has one, staged entries included."""
    if not paths:
        return {}
    return dict(addresses_on(run.server, run.repository.id, ref, paths))


def are_held(run: Run, holds: Holds, entries: Sequence[DatedEntry]) -> list[bool]:
    """Say of each entry whether a hold keeps its object, by its address or its path."""
    paths = [each.path.encode("utf-8", "surrogatepass") for each in entries]
    by_path = holds.reasons_of_paths(pa.array(paths, pa.binary()))
    kept: list[bool] = by_path.is_valid().to_pylist()
    if not holds.of_addresses:
        return kept
    relative = [run.namespace.relative(each.physical_address, AddressType.FULL) for each in entries]
    protected = holds.protecting(pa.array([each or "" for each in relative], pa.string()))
    return [
        has_path or (address is not None and bool(is_held))
        for has_path, address, is_held in zip(kept, relative, protected.to_pylist(), strict=True)
    ]


def hold_on(holds: Holds, branch: str) -> str | None:
    """Return the hold that keeps a branch as it is, in words; None if there is none."""
    for hold in holds.holds:
        if hold.kind == "branch" and hold.value == branch:
            return hold.words
    return None


def _is_old(commit: Commit, at_most: datetime) -> bool:
    """Say whether a commit is old enough; one without a credible date is not."""
    return commit.is_dated and is_old(commit.creation_date, at_most)


def _hash(path: str) -> int:
    digest = hashlib.blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _changed_paths(run: Run, prefix: str, commit: Commit) -> Iterator[array[int]]:
    """Yield hashes of the paths under a prefix that a commit changed against its main parent."""
    repository_id, parent = run.repository.id, commit.main_parent
    if parent is None:
        listed = run.server.entries_under(repository_id, commit.id, prefix)
        paths: Iterator[str] = (entry.path for entry in listed)
    else:
        changes = run.server.diff_commits(repository_id, parent, commit.id, prefix)
        paths = (path for path, _ in changes)
    for lot in lots(paths):
        yield array("Q", (_hash(path) for path in lot))
