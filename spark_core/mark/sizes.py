"""The sizes that entries give, compared with the store (safety 14, 34).

A client may have made sizes up, and objects may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame, SparkSession

from spark_core import schemas
from spark_core.addresses.namespace import xid_time_batch
from spark_core.mark.kept_objects import with_hashes
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.rows import (
    Rows,
    as_frame,
    count,
    distinct,
    frames,
    selected,
    within,
    without,
)
from spark_core.spark.tasks import read_partitions
from spark_core.storage import ObjectStore
from spark_core.storage.listings import listed

_SIZES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("checksum", pa.string()),
    ]
)
# Slices that the driver lists by itself.
_SLICES_OF_DRIVER = 8
_ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])


@dataclass(frozen=True)
class HeadEntries:
    """The entries of branch heads, and how they compare with the store.

    Attributes:
        spark: Gives the session; called where executors hold rows.
        rows: Columns address, size_bytes, head_path and checksum of `schemas.COMMITTED_ADDRESSES`.
        absent: Entries below `data/` (address_hash) whose object is not in the store; None for
            none.
        are_sizes_said: Whether any entry gives another size than its object has. Entries of
            retained commits that are no heads count too: a copy of such an entry, under an unsigned
            name, gives the same size.
        listing: Gives the store's objects: address and checksum of `schemas.NAMESPACE_SLICES`. It
            is read where checksums are compared.
        any_outside: Whether any of the entries lies outside `data/`; True if nobody counted.
        are_compared: Whether it would show in `rows` and `listing` if any entry gave another
            checksum than its object has. They are all there are, or the base of an optimized run
            compared the others.
        are_checksums_said: Whether any entry does so; None where nobody has looked yet.
        least: At least so many entries the heads have, where `rows` has few of them.
    """

    spark: Callable[[], SparkSession]
    rows: Rows
    absent: Rows | None
    are_sizes_said: bool
    listing: Callable[[], Rows]
    any_outside: bool = True
    are_compared: bool = True
    are_checksums_said: bool | None = None
    least: int = 0

    @property
    def frame(self) -> DataFrame:
        """The entries as a frame."""
        return as_frame(self.spark(), self.rows)


def any_absent(heads: HeadEntries) -> bool:
    """Say whether the object of any entry of a head is not in the store."""
    if heads.absent is None:
        return False
    entries = with_hashes(selected(heads.rows, ["address"]))
    return count(within(entries, heads.absent, "address_hash")) > 0


def are_sizes_stated(listing: Rows, entries: Rows) -> bool:
    """Say whether the size of any entry differs from its object's.

    The columns are address and size_bytes of both.
    """
    if isinstance(listing, pa.Table) and isinstance(entries, pa.Table):
        sizes: dict[str, set[int]] = {}
        for address, size in _sizes(within(listing, entries, "address")):
            sizes.setdefault(address, set()).add(size)
        return any(sizes.get(address, {size}) != {size} for address, size in _sizes(entries))
    listing, entries = frames(listing, entries)
    listed = listing.select(address_hash(), sf.col("size_bytes").alias("listed_bytes"))
    return not (
        entries.select("address", "size_bytes", address_hash())
        .join(listed, on="address_hash", how="inner")
        .where(sf.col("listed_bytes") != sf.col("size_bytes"))
        .isEmpty()
    )


def _sizes(rows: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(rows["address"].to_pylist(), rows["size_bytes"].to_pylist(), strict=True)


def absent(entries: Rows, listing: Rows) -> Rows:
    """Return the entries below `data/` without a listed object (address_hash, each once)."""
    inside = distinct(with_hashes(_in_data(entries)), ["address_hash"])
    return without(inside, with_hashes(listing), "address_hash")


def _in_data(entries: Rows) -> Rows:
    if isinstance(entries, pa.Table):
        return entries.filter(pc.starts_with(entries["address"], "data/"))
    return entries.where(sf.col("address").startswith("data/"))


def named_since(instant: datetime, entries: Rows) -> Rows:
    """Keep the entries (address) whose names the server gave at or after an instant."""
    if isinstance(entries, pa.Table):
        batches = entries.select(["address"]).to_batches()
        return pa.Table.from_batches(_map_named_since(instant, iter(batches)), _ADDRESSES)
    return entries.select("address").mapInArrow(
        partial(_map_named_since, instant), spark_type(_ADDRESSES)
    )


def _map_named_since(
    instant: datetime, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    since = pa.scalar(instant, schemas.INSTANT)
    for batch in batches:
        named = xid_time_batch(batch.column("address").cast(pa.string()))
        yield batch.filter(pc.fill_null(pc.greater_equal(named, since), False))


def address_hash() -> Column:
    """Return the column `address_hash` of an address, as tables 1 to 4 have it."""
    return sf.xxhash64("address").alias("address_hash")


def sizes_of_later(run: Run, entries: Rows, listing: Rows) -> Rows:
    """List the slices of objects that entries have and that are not in the listing.

    Args:
        run: The run.
        entries: Column address.
        listing: Column address.

    Returns:
        Columns address, size_bytes and checksum, of all objects in those slices; already read.

    Raises:
        LakegcError: If a slice cannot be listed to its end.
    """
    names = with_hashes(selected(_in_data(entries), ["address"]))
    lost = without(names, with_hashes(listing), "address_hash")
    # As many slices as the server opened since the listing: one for some thousands of objects.
    if isinstance(lost, pa.Table):
        found = sorted({name.split("/")[1] for name in lost["address"].to_pylist()})
        if len(found) <= _SLICES_OF_DRIVER:
            prefixes = [f"data/{slice_}/" for slice_ in found]
            batches = _read(run.store, run.options.read_threads, prefixes) if prefixes else ()
            return pa.Table.from_batches(batches, _SIZES)
    else:
        slices = lost.select(sf.split_part("address", sf.lit("/"), sf.lit(2))).distinct()
        found = sorted(row[0] for row in slices.collect())
    count = min(len(found), run.options.range_partitions)
    tasks = [tuple(f"data/{slice_}/" for slice_ in found[number::count]) for number in range(count)]
    read = partial(_read, run.store, run.options.read_threads)
    return read_partitions(run.spark, _SIZES, tasks, read).localCheckpoint()


def _read(store: ObjectStore, threads: int, prefixes: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for batch in listed(store, prefixes, threads=threads):
        columns = [batch.column("key"), batch.column("size_bytes"), batch.column("checksum")]
        yield pa.record_batch(columns, schema=_SIZES)
