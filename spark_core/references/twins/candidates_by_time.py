"""Which candidates may hide on which branches, by time.

Branches are sorted by the earliest time at which something could hide on them. So a candidate may
hide on exactly the first branches, as many as `CANDIDATES.branches` says.

A candidate is **dishonest** if its size may differ from the size in its entry. A client that
uploads past the server gives a size when it links the object, and copies carry that size on.
"""

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
from spark_core.addresses.namespace import xid_time_batch
from spark_core.spark import placement
from spark_core.spark.exchange import AnySource, Batches, numbers_of, source_of
from spark_core.spark.session import Spark

# Columns of candidates as callers have them.
OBJECTS = pa.schema(
    [schemas.NAMESPACE_SLICES.field(name) for name in ("address", "size_bytes", "last_modified")]
)
CANDIDATES = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # Number of branches that it may hide on, counted from the first.
        pa.field("branches", pa.int32(), nullable=False),
        pa.field("is_dishonest", pa.bool_(), nullable=False),
    ]
)

# The signature in a name that lakeFS gives out for an upload past it.
_SIGNED = r",[^/]*$"


@dataclass(frozen=True)
class Candidates:
    """The objects that are left to go.

    Attributes:
        spark: Gives the session; called where there is more than the driver brings together.
        threads: Tasks that the driver reads at once.
        objects: Columns of `OBJECTS`, key address.
        hashes: The same objects: columns of `CANDIDATES`.
        branches: Largest number of branches that one of them may hide on.
        dishonest: The same for candidates that may be dishonest.
        any_dishonest: Whether any candidate may be dishonest.
    """

    spark: Spark
    threads: int
    objects: AnySource
    hashes: AnySource
    branches: int
    dishonest: int
    any_dishonest: bool

    @classmethod
    def of(
        cls,
        spark: Spark,
        rows: AnySource,
        moments: Sequence[int],
        *,
        all_dishonest: bool,
        threads: int,
    ) -> Candidates:
        """Find for each candidate the number of branches that it may hide on.

        A candidate's time is the later one of its name's time and its last modification.

        Args:
            spark: Gives the session.
            rows: Columns of `OBJECTS`.
            moments: For each branch the moment from which something can hide there, in
                microseconds, sorted.
            all_dishonest: Whether every candidate may be dishonest.
            threads: Tasks that the driver reads at once.
        """
        levelled = partial(_levelled, np.array(moments, dtype=np.int64), all_dishonest)
        hashes = rows.through(CANDIDATES, levelled)
        if placement.driver_works(hashes.rows):
            hashes = source_of(hashes.here(threads), CANDIDATES)
        branches, dishonest, number = np.max(
            [(0, 0, 0), *(most for some in hashes.each(spark, _most) for most in some)], axis=0
        ).tolist()
        return cls(spark, threads, rows, hashes, branches, dishonest, number > 0)

    def named(self, hashes: Any) -> pa.Table:
        """Return the objects with one of some hashes; columns of `OBJECTS`.

        Args:
            hashes: Hashes of addresses, sorted; few, because the driver holds the result.
        """
        return rows_with_hashes(self.objects, "address", hashes, self.spark)

    def first_named(self, hashes: Any, count: int) -> tuple[str, ...]:
        """Return the first addresses of those that have one of some hashes, in order.

        Args:
            hashes: Hashes of addresses, sorted; many or few.
            count: How many addresses at most.
        """
        if not len(hashes):
            return ()
        found = self.objects.each(self.spark, partial(_first_addresses, hashes, count))
        return tuple(sorted(address for some in found for address in some)[:count])

    def halves(self) -> Any:
        """Return the upper half of each hash, sorted and once: 4 bytes for each candidate."""
        found = self.hashes.each(self.spark, _halves)
        return sorted_once(np.concatenate([np.empty(0, np.uint32), *found]))


def _levelled(moments: Any, all_dishonest: bool, batches: Batches) -> Batches:  # noqa: FBT001 - of a partial function
    for batch in batches:
        addresses = batch.column("address").cast(pa.string())
        modified = batch.column("last_modified").cast(schemas.INSTANT)
        named = xid_time_batch(addresses).cast(pa.int64())
        # As numbers, because the engine compares instants only with each other.
        times = pc.max_element_wise(named, modified.cast(pa.int64()), skip_nulls=True)
        branches = np.searchsorted(moments, times.to_numpy(zero_copy_only=False), side="right")
        signed = pc.match_substring_regex(addresses, _SIGNED)
        dishonest = pc.or_(signed, pa.scalar(all_dishonest)) if batch.num_rows else signed
        yield pa.record_batch(
            [
                hashed(addresses),
                batch.column("size_bytes"),
                pa.array(branches.astype(np.int32)),
                dishonest,
            ],
            schema=CANDIDATES,
        )


def _most(batches: Batches) -> list[tuple[int, int, int]]:
    """Return branches, branches of dishonest candidates, and their number, batch by batch."""
    found = []
    for batch in batches:
        branches, is_dishonest = (
            numbers_of(batch.column(name)) for name in ("branches", "is_dishonest")
        )
        dishonest = branches[is_dishonest]
        found.append((branches.max(initial=0), dishonest.max(initial=0), len(dishonest)))
    return found


def _first_addresses(hashes: Any, count: int, batches: Batches) -> list[str]:
    found: list[str] = []
    for batch in batches:
        addresses = batch.column("address")
        some = addresses.filter(pa.array(are_among(hashed(addresses).to_numpy(), hashes)))
        found = sorted([*found, *some.to_pylist()])[:count]
    return found


def _halves(batches: Batches) -> Any:
    found = [halves_of(numbers_of(batch.column("address_hash"))) for batch in batches]
    return sorted_once(np.concatenate([np.empty(0, np.uint32), *found]))


def halves_of(hashes: Any) -> Any:
    """Return the upper half of each hash."""
    return (hashes.view(np.uint64) >> np.uint64(32)).astype(np.uint32)


def rows_with_hashes(rows: AnySource, column: str, hashes: Any, spark: Spark) -> pa.Table:
    """Bring the rows to the driver of which a column has one of some hashes.

    Args:
        rows: The rows.
        column: A column of text or bytes.
        hashes: Hashes of it, sorted; few.
        spark: As for `Candidates`.
    """
    found = rows.each(spark, partial(_with_hashes, column, hashes)) if len(hashes) else []
    return pa.Table.from_batches([batch for some in found for batch in some], rows.schema)


def _with_hashes(column: str, hashes: Any, batches: Batches) -> list[pa.RecordBatch]:
    return [
        batch.filter(pa.array(are_among(hashed(batch.column(column)).to_numpy(), hashes)))
        for batch in batches
    ]


def sizes_of(spark: Spark, objects: AnySource) -> Any:
    """Return the sizes of objects (size_bytes), sorted and once."""
    return sorted_once(np.concatenate([np.empty(0, np.int64), *objects.each(spark, _sizes)]))


def _sizes(batches: Batches) -> Any:
    sizes = [batch.column("size_bytes").to_numpy() for batch in batches]
    return sorted_once(np.concatenate([np.empty(0, np.int64), *sizes]))
