"""The recheck of a batch: the store still has its objects, as the mark listed them.

It protects an object that was overwritten in place since the mark. Somebody who still holds an
upload's URL, or who puts back a backup, can do that; lakeFS itself writes no name twice. So the age
of the recheck matters: no request is begun for an object that was last seen more than
`SEEN_SECONDS` before.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, pairwise
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.collectable import slice_of
from spark_core.errors import IncompleteReadError, LakegcError, NotFoundError
from spark_core.storage import ObjectStore
from spark_core.storage.contract import OrderedStore
from spark_core.storage.listing_order import InOrder

# Up to this many objects of a slice are asked for one by one, several at a time. With more, the
# slice is listed.
HEADS = 32
# Keys that a listing yields in the time of one question: a page of 1,000 against 8 at a time.
KEYS_PER_HEAD = 125
# An object that was seen longer ago than this is asked for again before its request is begun.
SEEN_SECONDS = 60.0

_NOTHING = pa.RecordBatch.from_pylist([], schema=schemas.OBJECT_LISTING)

State = Literal["there", "absent", "changed", "unseen"]

# Address, size and time of an object, as the mark listed it.
Row = tuple[str, int, datetime]


@dataclass(frozen=True)
class SeenState:
    """The state of one object of the plan in the store.

    Attributes:
        state: `there`: as the mark listed it. `absent`: gone. `changed`: another object has its
            name. `unseen`: the store did not say.
        why: Cause in words, for the last two.
        at: When the store was asked, by the examiner's clock.
        modified: Of one that is there, when it was written.
    """

    state: State
    why: str | None = None
    at: float = field(default=0.0, compare=False)
    modified: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True)
class _Shown:
    """What a listing shows of an object.

    Attributes:
        size_bytes: Its size.
        modified: When it was written.
        at: Before its page was asked for, by the examiner's clock.
    """

    size_bytes: int
    modified: datetime
    at: float


@dataclass
class _SeenSlice:
    """A listing of a slice, read only as far as needed; one page is held at a time.

    Where a store can list from any name on, a page is requested from the next wanted object on. So
    a gap of a page or more between two wanted objects costs nothing.

    Attributes:
        store: Store that is listed.
        prefix: Prefix of the slice; ends in a slash.
        monotonic: The examiner's clock.
        is_ordered: Whether the keys came in order so far; a file system's do not.
    """

    store: ObjectStore
    prefix: str
    monotonic: Callable[[], float]
    is_ordered: bool = True
    _order: InOrder = field(default_factory=lambda: InOrder("a slice"))
    _pages: Iterator[pa.RecordBatch] | None = None
    _page: pa.RecordBatch | None = None
    _page_at: float = 0.0
    _reached: str = ""
    _asked: str = ""
    _ended: bool = False

    def find(self, wanted: Sequence[Row]) -> Mapping[str, _Shown | None]:
        """Look objects up.

        Args:
            wanted: Objects in order of their addresses, behind all objects of earlier calls.

        Returns:
            What the listing shows, by address; None for an object that is not in the listing.
            Objects that would take too long to reach are left out. If the keys are in no order, all
            are left out.
        """
        addresses = [row[0] for row in wanted]
        if addresses[0] <= self._asked or any(one >= other for one, other in pairwise(addresses)):
            return {}
        self._asked = addresses[-1]
        sought = pa.array(addresses, pa.string())
        found: dict[str, _Shown | None] = {}
        left = len(addresses) * KEYS_PER_HEAD
        while self.is_ordered:
            found |= self._on_page(sought)
            if self._ended or self._reached >= addresses[-1] or left <= 0:
                passed = [name for name in addresses if self._ended or name <= self._reached]
                return dict.fromkeys(passed) | found
            left -= self._turn(addresses[bisect_right(addresses, self._reached)])
        return {}

    def _turn(self, wanted: str) -> int:
        """Read the page of the next wanted object, and return its number of keys."""
        at = self.monotonic()
        rows, self._ended = self._next(wanted)
        try:
            self._order.require(rows.column("key"))
        except IncompleteReadError:
            self.is_ordered = False
            return 0
        if rows.num_rows:
            self._page, self._page_at, self._reached = rows, at, rows.column("key")[-1].as_py()
        return int(rows.num_rows)

    def _next(self, wanted: str) -> tuple[pa.RecordBatch, bool]:
        """Return the rows of a page, and whether it is the last one."""
        if self._pages is None and isinstance(self.store, OrderedStore):
            # The wanted object is among the first names that are greater than its own beginning.
            pages = self.store.pages(self.prefix, after=max(wanted[:-1], self._reached))
            page = next(pages)
            if page.rows.num_rows or page.is_last:
                return page.rows, page.is_last
            # Some stores list from the beginning all the same. Such a listing is read on once it is
            # begun.
            self._pages = (page.rows for page in pages)
        self._pages = self._pages or iter(self.store.list(self.prefix))
        rows = next(self._pages, None)
        return (_NOTHING, True) if rows is None else (rows, False)

    def _on_page(self, sought: pa.StringArray) -> dict[str, _Shown | None]:
        if self._page is None:
            return {}
        places = pc.index_in(self._page.column("key"), value_set=sought)
        page = self._page.select(["key", "size_bytes", "last_modified"]).filter(pc.is_valid(places))
        rows = zip(*(column.to_pylist() for column in page.columns), strict=True)
        return {key: _Shown(size, modified, self._page_at) for key, size, modified in rows}


@dataclass
class Examiner:
    """Rechecks the objects of a task's batches, which come in the order of their slices and names.

    A slice with many objects in a batch is listed once, beside the batches. It is read as far as
    the current batch goes, and one page is held. Pages without a wanted object are skipped where
    the store lists from any name on. If the listing leaves objects out, the slice is listed a
    second time. The cost is at most two listings of a slice, and one question for each object that
    a question reaches sooner than the listing would.

    Attributes:
        store: Rooted at the namespace.
        threads: Objects that are asked for at once.
        monotonic: Seconds of a clock that never jumps.
    """

    store: ObjectStore
    threads: int = 8
    monotonic: Callable[[], float] = time.monotonic
    _slice: str = field(init=False, default="")
    _listings: tuple[_SeenSlice, ...] = field(init=False, default=())

    def examine(self, rows: pa.RecordBatch) -> list[SeenState]:
        """Compare objects with the store.

        Args:
            rows: Columns address, size_bytes and last_modified. The rows of a slice follow one
                another in order of their addresses, also from one call to the next.

        Returns:
            The state of each object, in the order given. An error of the store is `unseen`, never
            an absence.
        """
        columns = [
            rows.column(name).to_pylist() for name in ("address", "size_bytes", "last_modified")
        ]
        seen: list[SeenState] = []
        for name, group in groupby(zip(*columns, strict=True), key=_slice):
            wanted: list[Row] = list(group)
            try:
                seen.extend(self._examine_in(name, wanted))
            except LakegcError as error:
                # A broken listing cannot be continued.
                self._slice = ""
                why = f"the store could not be looked at before the deletion: {error}"
                seen.extend([SeenState("unseen", why)] * len(wanted))
        return seen

    def examine_again(self, rows: Sequence[Row]) -> list[SeenState]:
        """Ask for objects one by one, whatever was seen before; a store's error is `unseen`."""
        return self._heads(rows, self._head_if_it_says)

    def _examine_in(self, name: str, wanted: list[Row]) -> list[SeenState]:
        if not name or (name != self._slice and len(wanted) <= HEADS):
            return self._heads(wanted)
        if name != self._slice:
            self._slice, self._listings = name, (self._listing(name), self._listing(name))
        shown = dict(self._listings[0].find(wanted))
        # An object that the listing left out must not pass for absent: the report would say so.
        absent = [row for row in wanted if row[0] in shown and shown[row[0]] is None]
        for row in absent:
            del shown[row[0]]
        if len(absent) > HEADS:
            shown |= self._listings[1].find(absent)
        seen = {
            row[0]: SeenState("absent")
            if (there := shown[row[0]]) is None
            else _compared(row, there.size_bytes, there.modified, there.at)
            for row in wanted
            if row[0] in shown
        }
        asked = [row for row in wanted if row[0] not in seen]
        seen |= zip((row[0] for row in asked), self._heads(asked), strict=True)
        return [seen[row[0]] for row in wanted]

    def _listing(self, name: str) -> _SeenSlice:
        return _SeenSlice(self.store, f"data/{name}/", self.monotonic)

    def _heads(
        self, wanted: Sequence[Row], head: Callable[[Row], SeenState] | None = None
    ) -> list[SeenState]:
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakegc-head") as pool:
            return list(pool.map(head or self._head, wanted))

    def _head_if_it_says(self, row: Row) -> SeenState:
        try:
            return self._head(row)
        except LakegcError as error:
            return SeenState("unseen", str(error))

    def _head(self, row: Row) -> SeenState:
        at = self.monotonic()
        try:
            found = self.store.head(row[0])
        except NotFoundError:
            return SeenState("absent")
        return _compared(row, found.size_bytes, found.last_modified, at)


def _slice(row: Row) -> str:
    return slice_of(row[0])


def _compared(row: Row, size_bytes: int, modified: datetime, at: float) -> SeenState:
    """Say whether an object is still the listed one; only a later time counts as another.

    Stores cut times differently.
    """
    _, planned_size, planned_modified = row
    if size_bytes != planned_size:
        return SeenState(
            "changed",
            f"changed since the mark: it has {size_bytes} bytes, the mark saw {planned_size}",
            at,
        )
    if modified > planned_modified:
        return SeenState(
            "changed",
            f"changed since the mark: it was written at {modified.isoformat()}, the mark saw "
            f"{planned_modified.isoformat()}",
            at,
        )
    return SeenState("there", at=at, modified=modified)
