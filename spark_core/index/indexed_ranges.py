"""What an index has of metaranges and ranges, as the driver holds it.

A digest binds the id of each metarange to its own ranges, as one binds that of each range to its
entries.

The driver holds a row for each range, some 200 bytes, and 4 bytes for each range of a metarange.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.index.entry_numbers import require_empty, require_same
from spark_core.index.saved import Saved
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.storage import ObjectStore


@dataclass(frozen=True)
class IndexedRanges:
    """Metaranges and ranges that were read once.

    Attributes:
        ranges: Columns of `schemas.INDEXED_RANGES`, key range_id.
        entries: The files of their entries, by key.
        trees: Metarange -> the rows of `ranges` that it has, in its order. A metarange of which not
            all ranges are known is none of them.
    """

    ranges: pa.Table = field(default_factory=schemas.INDEXED_RANGES.empty_table)
    entries: Mapping[str, Part] = field(default_factory=dict)
    trees: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, store: ObjectStore, saved: Saved) -> IndexedRanges:
        """Read what a run saved.

        Raises:
            CorruptTableError: If a file is not as it was written, or a metarange or a range is not
                as it was read.
            NotFoundError: If a file is gone.
        """
        ranges = _table(store, schemas.INDEXED_RANGES, saved.ranges)
        # A range that was read twice is there twice, and is the same.
        place = pc.index_in(ranges["range_id"], value_set=ranges["range_id"].combine_chunks())
        is_first = pc.equal(place, pa.array(np.arange(ranges.num_rows, dtype=np.int32)))
        ranges = ranges.filter(is_first).combine_chunks()
        require_empty(ranges)
        trees = _table(store, schemas.INDEXED_TREES, saved.trees)
        files = {part.key: part for part in saved.entries}
        return cls(ranges, files, _trees(trees, ranges, saved.trees))

    def places(self, range_ids: pa.ChunkedArray | pa.Array) -> Any:
        """Return the row of each range in `ranges`; -1 for one that is not known."""
        known = self.ranges["range_id"].combine_chunks()
        return pc.fill_null(pc.index_in(range_ids, value_set=known), -1).to_numpy()


def _table(store: ObjectStore, schema: pa.Schema, parts: Sequence[Part]) -> pa.Table:
    batches = [batch for part in parts for batch in reading.read_part(store, schema, part)]
    return pa.Table.from_batches(batches, schema)


def tree(metarange_id: str, range_ids: pa.StringArray) -> pa.RecordBatch:
    """Return what the index keeps of a metarange: a row of `schemas.INDEXED_TREES`."""
    ids = pa.ListArray.from_arrays(pa.array([0, len(range_ids)], pa.int32()), range_ids)
    named = pa.concat_arrays([pa.array([metarange_id]), range_ids])
    digest = int(hashed(named).to_numpy().sum())
    return pa.record_batch([[metarange_id], ids, [digest]], schema=schemas.INDEXED_TREES)


def _trees(trees: pa.Table, ranges: pa.Table, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the rows of the ranges of each metarange that is known whole.

    Raises:
        CorruptTableError: If the ranges of one are not those that it had.
    """
    found: dict[str, Any] = {}
    known = ranges["range_id"].combine_chunks()
    hashes = hashed(known).to_numpy()
    for batch in trees.to_batches():
        ids = batch.column("range_ids")
        rows = pc.fill_null(pc.index_in(ids.flatten(), value_set=known), -1).to_numpy()
        ends = np.cumsum(np.concatenate([[0], ids.value_lengths().to_numpy()]))
        own = hashed(batch.column("metarange_id")).to_numpy()
        names, said = batch.column("metarange_id").to_pylist(), batch.column("digest").to_numpy()
        sums = said.copy()
        for number, id_ in enumerate(names):
            some = rows[ends[number] : ends[number + 1]]
            if np.any(some < 0):
                continue
            sums[number] = np.append(hashes[some], own[number]).sum()
            found.setdefault(id_, some)
        require_same(sums, said, parts[0].key, names, "the ranges of metarange")
    return found
