"""A last look at the objects of a batch: still there, and still those that the mark listed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.collectable import slice_of
from spark_core.errors import LakegcError, NotFoundError
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage import ObjectStore

# So many objects of a slice are asked for one by one, several at a time; beyond, listing the slice is cheaper.
HEADS = 32
# A listing is believed for no longer than this: a slow sweep lists a large slice again.
LISTING_SECONDS = 60.0

State = Literal["there", "absent", "changed", "unseen"]

_Row = tuple[str, int, datetime]


@dataclass(frozen=True)
class Seen:
    """What the store shows of one object of the plan.

    Attributes:
        state: `there`: as the mark listed it. `absent`: gone. `changed`: another one under its name. `unseen`: the store
            did not say.
        why: In words, for the last two.
    """

    state: State
    why: str | None = None


@dataclass(frozen=True)
class _Listing:
    """What a slice held.

    Attributes:
        slice: Its name.
        began: Before the listing, by the examiner's clock.
        objects: Columns key, size_bytes, last_modified; those of every listing.
        times: How often it was listed.
    """

    slice: str
    began: float
    objects: pa.Table
    times: int


@dataclass
class Examiner:
    """Looks at the objects of a task's batches, which come in the order of their slices.

    Attributes:
        store: Rooted at the namespace.
        threads: Objects asked for at once.
        monotonic: Seconds of a clock that never jumps.
    """

    store: ObjectStore
    threads: int = 8
    monotonic: Callable[[], float] = time.monotonic
    _listed: _Listing | None = field(init=False, default=None)

    def look(self, rows: pa.RecordBatch) -> list[Seen]:
        """Compare objects with the store.

        Args:
            rows: Columns address, size_bytes and last_modified; those of a slice one after the other.

        Returns:
            What the store shows of each, in the order given. An error of the store is `unseen`, never an absence.
        """
        columns = [rows.column(name).to_pylist() for name in ("address", "size_bytes", "last_modified")]
        seen: list[Seen] = []
        for name, group in groupby(zip(*columns, strict=True), key=_slice):
            wanted: list[_Row] = list(group)
            try:
                seen.extend(self._look_in(name, wanted))
            except LakegcError as error:
                why = f"the store could not be looked at before the deletion: {error}"
                seen.extend([Seen("unseen", why)] * len(wanted))
        return seen

    def _look_in(self, name: str, wanted: list[_Row]) -> list[Seen]:
        listing = self._fresh(name)
        if listing is None and (not name or len(wanted) <= HEADS):
            return self._heads(wanted)
        if listing is None:
            listing = self._list(name)
        seen = _found(listing, wanted)
        absent = [at for at, state in enumerate(seen) if state.state == "absent"]
        # A listing that leaves something out, or everything, must not pass for an absence, of which the report would tell.
        if absent and listing.times == 1:
            asked = [wanted[at] for at in absent]
            second = self._heads(asked) if len(asked) <= HEADS else _found(self._list(name, listing), asked)
            for at, state in zip(absent, second, strict=True):
                seen[at] = state
        return seen

    def _fresh(self, name: str) -> _Listing | None:
        if self._listed is None or self._listed.slice != name:
            return None
        return self._listed if self.monotonic() - self._listed.began < LISTING_SECONDS else None

    def _list(self, name: str, first: _Listing | None = None) -> _Listing:
        """List a slice; after a first listing of it, so that both count."""
        began, times = (self.monotonic(), 1) if first is None else (first.began, first.times + 1)
        self._listed = None
        table = pa.Table.from_batches(self.store.list(f"data/{name}/"), OBJECT_LISTING)
        objects = table.select(["key", "size_bytes", "last_modified"])
        if first is not None:
            objects = pa.concat_tables([objects, first.objects])
        self._listed = _Listing(name, began, objects, times)
        return self._listed

    def _heads(self, wanted: Sequence[_Row]) -> list[Seen]:
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakegc-head") as pool:
            return list(pool.map(self._head, wanted))

    def _head(self, row: _Row) -> Seen:
        try:
            found = self.store.head(row[0])
        except NotFoundError:
            return Seen("absent")
        return _compared(row, found.size_bytes, found.last_modified)


def _found(listing: _Listing, wanted: Sequence[_Row]) -> list[Seen]:
    places = pc.index_in(
        pa.array([row[0] for row in wanted], pa.string()), value_set=listing.objects.column("key").combine_chunks()
    )
    found = listing.objects.select(["size_bytes", "last_modified"]).take(places)
    pairs = zip(*(column.to_pylist() for column in found.columns), strict=True)
    return [
        Seen("absent") if size is None else _compared(row, size, modified)
        for row, (size, modified) in zip(wanted, pairs, strict=True)
    ]


def _slice(row: _Row) -> str:
    return slice_of(row[0])


def _compared(row: _Row, size_bytes: int, modified: datetime) -> Seen:
    """Say whether an object is still the one that was listed; stores cut times differently, so only a later one counts."""
    _, planned_size, planned_modified = row
    if size_bytes != planned_size:
        return Seen("changed", f"changed since the mark: it has {size_bytes} bytes, the mark saw {planned_size}")
    if modified > planned_modified:
        return Seen(
            "changed",
            f"changed since the mark: it was written at {modified.isoformat()}, the mark saw {planned_modified.isoformat()}",
        )
    return Seen("there")
