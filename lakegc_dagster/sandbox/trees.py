"""Committed trees: read metaranges, and write the next one as the server's committer does.

A range without changes is kept by its id. Records around a change go into new ranges, which break
by the server's own rule.

References:
    `lakefs-facts` 2.1 and 11.7 (pkg/graveler/committed/commit.go, meta_range_writer.go).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakegc_dagster.sandbox import tables as server_tables
from lakegc_dagster.sandbox.blockstore import Blockstore
from lakegc_dagster.sandbox.errors import no_data
from lakegc_dagster.sandbox.records import StagedChange
from spark_core import graveler
from spark_core.graveler import Entry, decode_entry, entry_identity

if TYPE_CHECKING:
    # Its loops are imported when a table is read or written.
    from lakegc_dagster.sandbox.tables import TableFile

META_PREFIX = "_lakefs"
_CACHED_RANGES = 64
_CACHED_METARANGES = 512


@dataclass(frozen=True)
class RangeEntries:
    """The entries of one range, with their paths for searches."""

    paths: list[bytes]
    entries: list[Entry]


@dataclass(frozen=True)
class Applied:
    """The outcome of applying changes.

    Attributes:
        metarange_id: Id of the new metarange; it is in the store.
        changes: How many paths differ from the base.
    """

    metarange_id: str
    changes: int


class Trees:
    """Reads and writes the committed tables of all repositories.

    Args:
        blockstore: Where the tables lie.
        max_range_size_bytes: Estimated size at which a range closes.
        raggedness: On average one key in this many closes a range, by the key's hash.
    """

    def __init__(
        self,
        blockstore: Blockstore,
        *,
        max_range_size_bytes: int = 20 << 20,
        raggedness: int = 50_000,
    ) -> None:
        self._blockstore = blockstore
        self._max_range_size_bytes = max_range_size_bytes
        self._raggedness = raggedness
        self._ranges: OrderedDict[tuple[str, str], RangeEntries] = OrderedDict()
        self._metaranges: OrderedDict[tuple[str, str], list[TableFile]] = OrderedDict()

    def store(self, storage_namespace: str, tables: Sequence[TableFile]) -> None:
        """Write tables, even those that exist; the server does the same (`lakefs-facts` 13)."""
        for table in tables:
            self._blockstore.write(storage_namespace, f"{META_PREFIX}/{table.id}", table.data)

    def ranges(self, storage_namespace: str, metarange_id: str) -> list[TableFile]:
        """Return the ranges of a metarange in key order; the empty id has none.

        Raises:
            ApiError: 410 if the metarange is not in the store.
        """
        if not metarange_id:
            return []
        cached = self._metaranges.get((storage_namespace, metarange_id))
        if cached is not None:
            self._metaranges.move_to_end((storage_namespace, metarange_id))
            return cached
        rows = graveler.read_metarange(
            self._table(storage_namespace, metarange_id), name=metarange_id
        ).to_pylist()
        ranges = [
            server_tables.TableFile(
                id=row["range_id"],
                data=b"",
                min_key=row["min_key"],
                max_key=row["max_key"],
                count=row["count"],
                estimated_size_bytes=row["estimated_size_bytes"],
            )
            for row in rows
        ]
        self._remember_metarange(storage_namespace, metarange_id, ranges)
        return ranges

    def _remember_metarange(
        self, storage_namespace: str, metarange_id: str, ranges: list[TableFile]
    ) -> None:
        self._metaranges[(storage_namespace, metarange_id)] = ranges
        if len(self._metaranges) > _CACHED_METARANGES:
            self._metaranges.popitem(last=False)

    def _table(self, storage_namespace: str, table_id: str) -> bytes:
        data = self._blockstore.read_key(storage_namespace, f"{META_PREFIX}/{table_id}")
        if data is None:
            raise no_data()
        return data

    def entries(self, storage_namespace: str, range_id: str) -> RangeEntries:
        """Return the entries of a range.

        Raises:
            ApiError: 410 if the range is not in the store.
        """
        key = (storage_namespace, range_id)
        cached = self._ranges.get(key)
        if cached is None:
            records = graveler.read_records(self._table(storage_namespace, range_id), name=range_id)
            entries = [
                decode_entry(payload, path=path, name=range_id)
                for path, payload in zip(
                    records.keys.to_pylist(), records.payloads.to_pylist(), strict=True
                )
            ]
            cached = self._remember_range(storage_namespace, range_id, entries)
        else:
            self._ranges.move_to_end(key)
        return cached

    def _remember_range(
        self, storage_namespace: str, range_id: str, entries: list[Entry]
    ) -> RangeEntries:
        found = RangeEntries([entry.path for entry in entries], entries)
        self._ranges[(storage_namespace, range_id)] = found
        if len(self._ranges) > _CACHED_RANGES:
            self._ranges.popitem(last=False)
        return found

    def get(self, storage_namespace: str, metarange_id: str, path: bytes) -> Entry | None:
        """Return the entry of a path, None when the tree has none."""
        ranges = self.ranges(storage_namespace, metarange_id)
        position = bisect_left(ranges, path, key=lambda table: table.max_key)
        if position == len(ranges) or path < ranges[position].min_key:
            return None
        found = self.entries(storage_namespace, ranges[position].id)
        index = bisect_left(found.paths, path)
        return (
            found.entries[index]
            if index < len(found.paths) and found.paths[index] == path
            else None
        )

    def iterate(
        self, storage_namespace: str, metarange_id: str, start: bytes = b""
    ) -> Iterator[Entry]:
        """Yield the entries at or after a path, in byte order."""
        ranges = self.ranges(storage_namespace, metarange_id)
        for table in ranges[bisect_left(ranges, start, key=lambda table: table.max_key) :]:
            found = self.entries(storage_namespace, table.id)
            yield from found.entries[bisect_left(found.paths, start) :]

    def apply(
        self, storage_namespace: str, metarange_id: str, changes: Sequence[StagedChange]
    ) -> Applied:
        """Apply changes to a tree and write the result.

        A change to an entry of the same identity keeps the old entry, and so its old address, as on
        the server (`lakefs-facts` 11.30).

        Args:
            storage_namespace: Where the tables lie.
            metarange_id: The tree to start from; empty for none.
            changes: In path order, at most one for each path.
        """
        walk = _Walk(self, storage_namespace, metarange_id)
        for change in changes:
            walk.change(change)
        walk.finish()
        metarange = server_tables.write_metarange(walk.written)
        self.store(storage_namespace, [*(table for table in walk.written if table.data), metarange])
        kept = [
            server_tables.TableFile(
                table.id, b"", table.min_key, table.max_key, table.count, table.estimated_size_bytes
            )
            for table in walk.written
        ]
        self._remember_metarange(storage_namespace, metarange.id, kept)
        return Applied(metarange.id, walk.changes)

    def write_ranges(self, storage_namespace: str, entries: list[Entry]) -> list[TableFile]:
        """Write a sequence of entries as ranges, broken by the server's rule."""
        if not entries:
            return []
        _, ranges = server_tables.write_tables(
            entries, max_range_size_bytes=self._max_range_size_bytes, raggedness=self._raggedness
        )
        start = 0
        for table in ranges:
            # The next change reads what was just written, so it need not be decoded again.
            self._remember_range(storage_namespace, table.id, entries[start : start + table.count])
            start += table.count
        return ranges


class _Walk:
    """A pass over a base tree and a sorted list of changes."""

    def __init__(self, trees: Trees, storage_namespace: str, metarange_id: str) -> None:
        self._trees = trees
        self._namespace = storage_namespace
        self._base = trees.ranges(storage_namespace, metarange_id)
        self._next_range = 0
        # Position inside the current range; None between ranges.
        self._inside: RangeEntries | None = None
        self._position = 0
        self._run: list[Entry] = []
        self.written: list[TableFile] = []
        self.changes = 0

    def change(self, change: StagedChange) -> None:
        """Copy the base up to a change's path, then apply the change."""
        base = self._base_at(change.path)
        if base is None:
            if change.entry is not None:
                self.changes += 1
                self._run.append(change.entry)
            return
        self._position += 1
        self._leave_finished_range()
        if change.entry is None:
            self.changes += 1
        elif entry_identity(change.entry) == entry_identity(base):
            self._run.append(base)
        else:
            self.changes += 1
            self._run.append(change.entry)

    def _base_at(self, path: bytes) -> Entry | None:
        while True:
            if self._inside is not None:
                index = bisect_left(self._inside.paths, path, lo=self._position)
                self._run.extend(self._inside.entries[self._position : index])
                self._position = index
                if index < len(self._inside.paths):
                    return (
                        self._inside.entries[index] if self._inside.paths[index] == path else None
                    )
                self._leave_finished_range()
            if self._next_range == len(self._base):
                return None
            table = self._base[self._next_range]
            if table.max_key < path:
                self._copy_range(table)
            else:
                # The server compares only with a range's end, so a range that begins after the path
                # is entered too.
                self._inside = self._trees.entries(self._namespace, table.id)
                self._position = 0
                self._next_range += 1

    def _leave_finished_range(self) -> None:
        if self._inside is not None and self._position >= len(self._inside.paths):
            self._inside = None

    def _copy_range(self, table: TableFile) -> None:
        self._flush()
        self.written.append(table)
        self._next_range += 1

    def _flush(self) -> None:
        self.written.extend(self._trees.write_ranges(self._namespace, self._run))
        self._run = []

    def finish(self) -> None:
        """Copy the rest of the base."""
        if self._inside is not None:
            self._run.extend(self._inside.entries[self._position :])
            self._inside = None
        while self._next_range < len(self._base):
            self._copy_range(self._base[self._next_range])
        self._flush()
