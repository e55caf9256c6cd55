"""The objects that a mark compares with what refers to them: listed, or looked up one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.addresses.namespace import slice_batch
from spark_core.errors import ChainError
from spark_core.optimized.base import MARK_FULL, is_listed
from spark_core.records import reading, tables
from spark_core.records.figures import BaseFigures, CommittedFigures, ListedFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches


@dataclass(frozen=True)
class Comparable:
    """Which references an optimized run can compare with its listing.

    The base compared the others with its own.

    Attributes:
        base: What the first table says of the base.
        absent: Hashes of addresses that were looked up and are not there, sorted.
    """

    base: BaseFigures
    absent: Any

    def mask(self, addresses: pa.StringArray, hashes: pa.Int64Array) -> pa.BooleanArray:
        """Say of each reference whether its object should be in the listing.

        Args:
            addresses: Addresses of entries.
            hashes: Their hashes.
        """
        slices = slice_batch(addresses.cast(pa.string())).dictionary_encode()
        known = pa.array(
            [is_listed(self.base, name) for name in slices.dictionary.to_pylist()], pa.bool_()
        )
        looked_up = are_among(hashes.to_numpy(), self.absent)
        return pc.or_(known.take(slices.indices), pa.array(looked_up))


def _filter_addresses(comparable: Comparable, batches: Batches) -> Batches:
    for batch in batches:
        addresses = batch.column("address")
        yield batch.filter(comparable.mask(addresses, hashed(addresses)))


@dataclass(frozen=True)
class Listing:
    """The objects of a mark.

    Attributes:
        run: The run.
        parts: Files with columns of `schemas.NAMESPACE_SLICES`.
        comparable: Which references can be compared with them; None for all of them.
    """

    run: Run
    parts: Sequence[Part]
    comparable: Comparable | None = None

    @property
    def rows(self) -> int:
        """Number of objects."""
        return sum(part.rows for part in self.parts)

    def comparable_of(self, entries: AnySource) -> AnySource:
        """Keep the entries (address) that can be compared with it."""
        if self.comparable is None:
            return entries
        return entries.through(entries.schema, partial(_filter_addresses, self.comparable))


def of_mark(run: Run, slices: StoredTable, committed: StoredTable) -> Listing:
    """Return the objects of a mark.

    Args:
        run: The run.
        slices: Table 1.
        committed: Table 4.

    Raises:
        ChainError: If what was looked up is not what table 4 names.
    """
    base = ListedFigures.of(slices.manifest).base
    if base is None:
        return Listing(run, slices.manifest.parts)
    change = CommittedFigures.of(committed.manifest).change
    named = None if change is None else change.looked_up_manifest
    if named is None:
        return Listing(run, slices.manifest.parts, Comparable(base, np.empty(0, np.int64)))
    looked_up = run.load(tables.LOOKED_UP_OBJECTS)
    if looked_up.manifest.sha256 != named:
        raise ChainError(
            f"looked_up_objects of run {run.key} is not the table that committed_addresses names",
            MARK_FULL,
        )
    absent = [np.empty(0, np.int64)]
    for part in looked_up.manifest.beside:
        absent += [
            hashed(batch.column("address")).to_numpy()
            for batch in reading.read_part(run.store, schemas.MISSING_ADDRESSES, part)
        ]
    return Listing(
        run,
        (*slices.manifest.parts, *looked_up.manifest.parts),
        Comparable(base, sorted_once(np.concatenate(absent))),
    )
