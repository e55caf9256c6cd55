"""The sizes that entries give, compared with the store (safety 14, 34).

A client may have made sizes up, and objects may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import Column, SparkSession

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.namespace import xid_time_batch
from spark_core.mark.kept_objects import with_hashes
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, source_of
from spark_core.spark.rows import (
    Rows,
    distinct,
    frames,
    selected,
    within,
    without,
)
from spark_core.spark.tasks import read_partitions
from spark_core.storage import ObjectStore
from spark_core.storage.listings import listed

# Columns of the entries of heads, and of the store's objects.
ENTRIES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("head_path", pa.binary()),
        pa.field("checksum", pa.string()),
    ]
)
LISTED = pa.schema([ENTRIES.field("address"), ENTRIES.field("checksum")])
MD5 = r"^[0-9a-f]{32}$"

_HASHES = pa.schema([pa.field("address_hash", pa.int64(), nullable=False)])
# What an entry or the store gives; the checksum is a hash.
_STATED = _HASHES.append(pa.field("checksum", pa.int64()))
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
        spark: Gives the session; called where there is more than the driver brings together.
        rows: Gives them: columns of `ENTRIES`; rows without a path are no entries of heads.
        absent: Entries below `data/` (address_hash) whose object is not in the store; None for
            none.
        are_sizes_said: Whether any entry gives another size than its object has. Entries of
            retained commits that are no heads count too: a copy of such an entry, under an unsigned
            name, gives the same size.
        listing: Gives the store's objects: columns of `LISTED`. It is read where checksums are
            compared.
        any_outside: Whether any of the entries lies outside `data/`; True if nobody counted.
        are_compared: Whether it would show in `rows` and `listing` if any entry gave another
            checksum than its object has. They are all there are, or the base of an optimized run
            compared the others.
        are_checksums_said: Whether any entry does so; None where nobody has looked yet.
        least: At least so many entries the heads have, where `rows` has few of them.
    """

    spark: Callable[[], SparkSession]
    rows: Callable[[], AnySource]
    absent: Rows | None
    are_sizes_said: bool
    listing: Callable[[], AnySource]
    any_outside: bool = True
    are_compared: bool = True
    are_checksums_said: bool | None = None
    least: int = 0


@dataclass(frozen=True)
class Compared:
    """How entries of heads compare with the store.

    Attributes:
        are_checksums_said: Whether any of them gives another checksum than its object has.
            Checksums are then only what somebody said.
        any_absent: Whether the object of any of them is not in the store.
    """

    are_checksums_said: bool
    any_absent: bool


def compared(heads: HeadEntries) -> Compared:
    """Compare the entries of heads with the listing.

    Objects with one hash count as one, which can only turn an answer to yes. Checksums are compared
    by their hashes here as wherever they are believed, so two that look alike do so everywhere.
    """
    sources: dict[str, AnySource] = {
        "entries": heads.rows().through(_STATED, _stated),
        "listed": heads.listing().through(_STATED, stated_by_the_store),
        "absent": source_of(
            _HASHES.empty_table() if heads.absent is None else heads.absent, _HASHES
        ),
    }
    receipts, _ = Exchange(sources, _compared, _HASHES, _nothing).run(heads.spark)
    return Compared(
        any(one.are_checksums_said for one in receipts), any(one.any_absent for one in receipts)
    )


def are_checksums_stated(heads: HeadEntries) -> bool:
    """Say whether any entry's checksum differs from its object's.

    Where nobody has looked yet, entries and listing are read once.
    """
    if heads.are_checksums_said is not None:
        return heads.are_checksums_said
    return compared(heads).are_checksums_said


def _stated(batches: Batches) -> Batches:
    """Return what entries of heads give: columns of `_STATED`."""
    for some in batches:
        batch = some.filter(some.column("head_path").is_valid())
        yield _hashed_checksums(batch, batch.column("checksum"))


def stated_by_the_store(batches: Batches) -> Batches:
    """Return hashes of addresses, and of the MD5s that the store gives (null: none)."""
    for batch in batches:
        checksum = batch.column("checksum")
        yield _hashed_checksums(
            batch, pc.if_else(pc.match_substring_regex(checksum, MD5), checksum, None)
        )


def _hashed_checksums(batch: pa.RecordBatch, checksum: pa.StringArray) -> pa.RecordBatch:
    hashes = pc.if_else(checksum.is_valid(), hashed(checksum), None)
    return pa.record_batch([hashed(batch.column("address")), hashes], schema=_STATED)


def _compared(bucket: Mapping[str, pa.Table]) -> Sent[Compared]:
    entries, absent = bucket["entries"], bucket["absent"]["address_hash"].combine_chunks()
    ends = [
        rows.filter(rows["checksum"].is_valid())
        .group_by("address_hash")
        .aggregate([("checksum", "min"), ("checksum", "max")])
        for rows in (entries, bucket["listed"])
    ]
    both = ends[0].join(ends[1], "address_hash", join_type="inner", right_suffix="_told")
    is_same = pc.and_(
        pc.equal(both["checksum_min"], both["checksum_max_told"]),
        pc.equal(both["checksum_max"], both["checksum_min_told"]),
    )
    is_absent = pc.is_in(entries["address_hash"], value_set=absent)
    return Sent(
        Compared(
            pc.any(pc.invert(is_same), min_count=0).as_py(), pc.any(is_absent, min_count=0).as_py()
        ),
        {},
    )


def _nothing(_number: int, _rows: pa.Table) -> None:
    """Work on no rows: none are sent on."""


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
