"""The entries of the heads of a mark, for the search of hidden entries: the mark's and the sweep's.

What a mark took from the index it did not read. So it reads the ranges of heads behind which
something may hide, once it is known what could. And an object that only the index has is seen in
the store before anybody is cleared because of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.index.entry_numbers import IN_DATA
from spark_core.index.lookups import look_up
from spark_core.records import reading
from spark_core.records.figures import IndexFigures, ListedFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.references.choosing_entries import Alike, that_may_hide
from spark_core.references.head_entries import (
    ADDRESSES,
    ENTRIES,
    HASHES,
    LISTED,
    NONE_ABSENT,
    SIZED,
    STATED,
    HeadEntries,
    SeenInStore,
    hashed_addresses,
    of_heads,
    sizes_of_entries,
)
from spark_core.references.known_ranges import HEAD, TakenRanges, rows_of, rows_with
from spark_core.references.only_in_index import that_may_clear, with_content
from spark_core.references.shared_ranges import RANGES
from spark_core.references.stated import are_checksums_stated, stated_by_heads, stated_by_the_store
from spark_core.references.table_reader import TableReader
from spark_core.references.unlisted import unlisted_hashes
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, JoinedSource, source_of

# Objects that are looked up one by one at least, and a share of all objects.
_LEAST_LOOKED_UP, _SHARE_LOOKED_UP = 10_000, 20


@dataclass
class HeadsOfMark:
    """The entries of heads of a mark, and what came since.

    Attributes:
        run: The run.
        slices: Table 1.
        committed: Table 4.
        sizes: Gives the sizes of the objects that may hide, sorted and once; None for all sizes.
        lost: Hashes of the addresses of entries whose object is not in the store, sorted and once.
        alike: Chooses entries that may have the content of an object that may hide.
        later: Objects written since the listing: columns of `SIZES`; None for none.
        reached: Entries that commits reach now and did not at the mark: columns of `ENTRIES`.
    """

    run: Run
    slices: StoredTable
    committed: StoredTable
    sizes: Callable[[], Any]
    lost: Any
    alike: Callable[[], Alike]
    later: AnySource | None = None
    reached: AnySource | None = None

    @cached_property
    def taken(self) -> TakenRanges:
        """The ranges that the mark took from the index."""
        return TakenRanges.of(self.run, self.committed)

    def entries(self, *, are_sizes_said: bool, any_outside: bool) -> HeadEntries:
        """Return them as the search takes them.

        Args:
            are_sizes_said: As in `HeadEntries`.
            any_outside: Whether any entry that was read lies outside `data/`.
        """
        return HeadEntries(
            lambda: self.run.spark,
            lambda: self._rows,
            self.lost,
            are_sizes_said,
            lambda: self.listing(LISTED),
            lambda: self._are_checksums_said,
            any_outside=any_outside or self.taken.of_heads(outside=True).num_rows > 0,
            least=0
            if self.taken.is_empty
            else self.taken.head_entries + self.committed.manifest.rows,
            seen=None if self.index is None else lambda: self._seen,
            lost=None if self.index is None else lambda: self._lost_alike,
        )

    def sizes_said(self) -> AnySource:
        """Return the sizes that all entries of heads give: address_hash and size_bytes."""
        return self._in_numbers(SIZED, _sized, _sizes_taken)

    @cached_property
    def _rows(self) -> AnySource:
        """The entries behind which something may hide: columns of `ENTRIES`."""
        return self._read_and(self._hiding())

    def _read_and(self, ranges: pa.Table) -> AnySource:
        """Return the entries that the mark read, and those of ranges that it took: `ENTRIES`."""
        found = self._own()
        if ranges.num_rows:
            prefix = ListedFigures.of(self.slices.manifest).table_prefix
            reader = TableReader.of(self.run, prefix, remembers=True)
            read = rows_of(reader, ranges, self.run.reading_tasks)
            found.append(read.through(ENTRIES, _only_entries))
        return JoinedSource(found).through(ENTRIES, of_heads)

    def _own(self) -> list[AnySource]:
        own = reading.source_of_parts(self.run.store, ENTRIES, self.committed.manifest.parts)
        return [own] if self.reached is None else [own, self.reached]

    def _hiding(self) -> pa.Table:
        """Choose the ranges of heads behind whose entries something may hide."""
        if self.taken.is_empty:
            return RANGES.empty_table()
        sizes = self.sizes()
        if sizes is None:
            return self.taken.of_heads()
        chosen = self.taken.having(that_may_hide(sizes, self.lost), HEAD)
        outside = self.taken.of_heads(outside=True)
        is_new = pc.invert(pc.is_in(outside["range_id"], value_set=chosen["range_id"]))
        return pa.concat_tables([chosen, outside.filter(is_new)])

    @cached_property
    def _are_checksums_said(self) -> bool:
        """Whether any entry of a head gives another checksum than its object has."""
        # What was looked up and has another checksum now agrees with none.
        listing = JoinedSource([self.listing(LISTED), source_of(self._looked_up, LISTED)])
        told = listing.through(STATED, stated_by_the_store)
        entries = self._in_numbers(STATED, stated_by_heads, _checksums_taken)
        return are_checksums_stated(lambda: self.run.spark, entries, told)

    def _in_numbers(
        self,
        schema: pa.Schema,
        of_rows: Callable[[Batches], Batches],
        of_taken: Callable[[Batches], Batches],
    ) -> AnySource:
        sources = [source.through(schema, of_rows) for source in self._own()]
        return JoinedSource([*sources, self.taken.entries(HEAD).through(schema, of_taken)])

    def listing(self, schema: pa.Schema, parts: Sequence[Part] | None = None) -> AnySource:
        """Return the listed objects, and those written since.

        Args:
            schema: Columns of `SIZES` that are wanted.
            parts: Files of the listing; all by default.
        """
        wanted = self.slices.manifest.parts if parts is None else parts
        listed = reading.source_of_parts(self.run.store, schema, wanted)
        if self.later is None:
            return listed
        return JoinedSource([listed, self.later.through(schema, partial(_columns, schema))])

    def unlisted(self) -> AnySource:
        """Return the entries of heads below `data/` without a listed object: columns of `ENTRIES`.

        The driver holds 8 bytes for each.
        """
        listing = self.listing(ADDRESSES).through(HASHES, hashed_addresses)
        entries = self._in_numbers(HASHES, _in_data, _taken_in_data)
        hashes = unlisted_hashes(lambda: self.run.spark, entries, listing)
        found = rows_with(self.run, self.committed, hashes).through(ENTRIES, _only_entries)
        sources = [found] if self.reached is None else [found, self.reached]
        return JoinedSource(sources).through(ENTRIES, of_heads)

    @property
    def index(self) -> IndexFigures | None:
        """What the mark took of slices from the index; None for a clean one."""
        return ListedFigures.of(self.slices.manifest).index

    @cached_property
    def _seen(self) -> SeenInStore:
        """The objects that were seen in the store, and the entries whose objects were not found."""
        manifest = self.slices.manifest
        # Whatever this run wrote has its attempt in its name.
        parts = [part for part in manifest.parts if manifest.attempt in part.key]
        found = JoinedSource([self.listing(LISTED, parts), source_of(self._looked_up, LISTED)])
        if not len(self._asked):
            return SeenInStore(found.through(HASHES, hashed_addresses), self._lost_alike)
        asked = sorted_once(hashed(self._asked).to_numpy())
        there = hashed(self._looked_up["address"].combine_chunks()).to_numpy()
        lost = asked[~are_among(asked, sorted_once(there))]
        return SeenInStore(found.through(HASHES, hashed_addresses), lost)

    @cached_property
    def _lost_alike(self) -> Any:
        """The entries whose objects only the index has, and of which an object may be the repair.

        Who repairs a lost object may stage an old one, and time says nothing about that. Of more
        than a listing is worth, none is asked.
        """
        index = self.index
        if index is None or not len((alike := self.alike()).sizes):
            return NONE_ABSENT
        counts = self.taken.entries(HEAD).each(lambda: self.run.spark, partial(_count, alike))
        if sum(counts) > self._most:
            return NONE_ABSENT
        entries = self._read_and(self.taken.having(alike, HEAD))
        found = entries.each(lambda: self.run.spark, partial(with_content, index, alike))
        names = pa.chunked_array([pa.array([], pa.string()), *found]).unique()
        if not 0 < len(names) <= self._most:
            return NONE_ABSENT
        there = look_up(self.run, names.to_pylist())["key"].combine_chunks()
        return sorted_once(hashed(names.filter(pc.invert(pc.is_in(names, there)))).to_numpy())

    @property
    def _most(self) -> int:
        objects = ListedFigures.of(self.slices.manifest).objects
        return max(_LEAST_LOOKED_UP, objects // _SHARE_LOOKED_UP)

    @cached_property
    def _asked(self) -> pa.StringArray:
        """The addresses of entries that may clear an object, and that only the index has.

        Of more than a listing is worth, none is asked: then they clear nothing.
        """
        index = self.index
        if index is None:
            return pa.array([], pa.string())
        sizes = self.sizes()
        if sizes is not None and not len(sizes):
            return pa.array([], pa.string())
        entries = self._rows.each(lambda: self.run.spark, partial(that_may_clear, index, sizes))
        names = pa.chunked_array([pa.array([], pa.string()), *entries]).unique()
        return names if len(names) <= self._most else names.slice(0, 0)

    @cached_property
    def _looked_up(self) -> pa.Table:
        """The objects of `_asked` that are there: columns of `LISTED`."""
        if not len(self._asked):
            return LISTED.empty_table()
        found = look_up(self.run, self._asked.to_pylist())
        return pa.table([found["key"], found["checksum"]], schema=LISTED)


def _count(alike: Alike, batches: Batches) -> int:
    return sum(int(alike(batch).sum()) for batch in batches)


def _columns(schema: pa.Schema, batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(schema.names).cast(schema)


def _in_data(batches: Batches) -> Batches:
    for batch in of_heads(batches):
        names = batch.column("address")
        yield pa.record_batch([hashed(names.filter(pc.starts_with(names, "data/")))], schema=HASHES)


def _taken_in_data(batches: Batches) -> Batches:
    for batch in batches:
        is_inside = pa.array(batch.column("flags").to_numpy() & IN_DATA != 0)
        yield pa.record_batch([batch.column("address_hash").filter(is_inside)], schema=HASHES)


def _only_entries(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(ENTRIES.names).cast(ENTRIES)


def _sized(batches: Batches) -> Batches:
    return sizes_of_entries(of_heads(batches))


def _sizes_taken(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(SIZED.names)


def _checksums_taken(batches: Batches) -> Batches:
    """Return the checksums that entries of the index give: columns of `STATED`."""
    for batch in batches:
        yield batch.select(STATED.names).cast(STATED)
