"""The sizes that entries give, compared with the store (safety 14, 34).

A client may have made sizes up, and objects may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame

from spark_core import schemas
from spark_core.addresses.namespace import xid_time_batch
from spark_core.run import Run
from spark_core.schemas import spark_type
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
_ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])


@dataclass(frozen=True)
class HeadEntries:
    """The entries of branch heads, and how they compare with the store.

    Attributes:
        frame: Columns address, size_bytes, head_path and checksum of `schemas.COMMITTED_ADDRESSES`.
        absent: Entries below `data/` (address_hash) whose object is not in the store; None for
            none.
        are_sizes_said: Whether any entry gives another size than its object has. Entries of
            retained commits that are no heads count too: a copy of such an entry, under an unsigned
            name, gives the same size.
        listing: The store's objects: address and checksum of `schemas.NAMESPACE_SLICES`.
        any_outside: Whether any of the entries lies outside `data/`; True if nobody counted.
        are_compared: Whether entries and objects are all there are, so that it would show if any
            entry gave another checksum than its object has. An optimized run has few of both.
        least: At least so many entries the heads have, where `frame` has few of them.
    """

    frame: DataFrame
    absent: DataFrame | None
    are_sizes_said: bool
    listing: DataFrame
    any_outside: bool = True
    are_compared: bool = True
    least: int = 0


def stated_sizes(listing: DataFrame, entries: DataFrame) -> DataFrame:
    """Return the entries (address) whose size differs from their object's.

    The columns are address and size_bytes of both.
    """
    listed = listing.select(_address_hash(), sf.col("size_bytes").alias("listed_bytes"))
    return (
        entries.select("address", "size_bytes", _address_hash())
        .join(listed, on="address_hash", how="inner")
        .where(sf.col("listed_bytes") != sf.col("size_bytes"))
        .select("address")
    )


def absent(entries: DataFrame, listing: DataFrame) -> DataFrame:
    """Return the entries below `data/` without a listed object (address_hash, each once)."""
    return (
        entries.where(sf.col("address").startswith("data/"))
        .select(_address_hash())
        .distinct()
        .join(listing.select(_address_hash()), on="address_hash", how="left_anti")
    )


def named_since(instant: datetime, entries: DataFrame) -> DataFrame:
    """Keep the entries (address) whose names the server gave at or after an instant."""
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


def _address_hash() -> Column:
    return sf.xxhash64("address").alias("address_hash")


def sizes_of_later(run: Run, entries: DataFrame, listing: DataFrame) -> DataFrame:
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
    known = listing.select(sf.xxhash64("address").alias("address_hash"))
    absent = (
        entries.where(sf.col("address").startswith("data/"))
        .select("address", sf.xxhash64("address").alias("address_hash"))
        .join(known, on="address_hash", how="left_anti")
    )
    # As many slices as the server opened since the listing: one for some thousands of objects.
    found = sorted(
        row[0]
        for row in absent.select(sf.split_part("address", sf.lit("/"), sf.lit(2)))
        .distinct()
        .collect()
    )
    count = min(len(found), run.options.range_partitions)
    tasks = [tuple(f"data/{slice_}/" for slice_ in found[number::count]) for number in range(count)]
    read = partial(_read, run.store, run.options.read_threads)
    return read_partitions(run.spark, _SIZES, tasks, read).localCheckpoint()


def _read(store: ObjectStore, threads: int, prefixes: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for batch in listed(store, prefixes, threads=threads):
        columns = [batch.column("key"), batch.column("size_bytes"), batch.column("checksum")]
        yield pa.record_batch(columns, schema=_SIZES)
