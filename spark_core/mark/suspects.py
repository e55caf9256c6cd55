"""Which candidates may be twins that hide on a branch, and of which entries.

`CANDIDATES.branches` counts the branches on which a candidate may hide. `SUSPECTS.hides` says which
kind of candidate the path of a head may hide.

Branches are sorted by the earliest time at which something could hide on them. So a candidate may
hide on exactly the first branches, as many as its number says.

A candidate may be the twin of an entry of its own size. A candidate is **dishonest** if its size
may differ from the size in its entry. A client that uploads past the server gives a size when it
links the object, and copies carry that size on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame, SparkSession

from spark_core import schemas
from spark_core.addresses.namespace import xid_time_batch
from spark_core.errors import NotFoundError
from spark_core.mark.sizes import HeadEntries
from spark_core.schemas import spark_type
from spark_core.spark.rows import Rows, as_frame
from spark_core.spark.tasks import frame_of, interleaved
from spark_core.storage import ObjectStore

# What a path may hide: a candidate with the path's key, any candidate, or any dishonest candidate.
SIZED, ANY, DISHONEST = 0, 1, 2

CANDIDATES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # Number of branches that it may hide on, counted from the first.
        pa.field("branches", pa.int32(), nullable=False),
        pa.field("is_dishonest", pa.bool_(), nullable=False),
    ]
)

SUSPECTS = pa.schema(
    [
        pa.field("head_path", pa.binary(), nullable=False),
        pa.field("hides", pa.int32(), nullable=False),
        # What a candidate and an entry must share; 0 if anything will do.
        pa.field("key", pa.int64(), nullable=False),
        # Number of branches to ask, counted from the first.
        pa.field("branches", pa.int32(), nullable=False),
        # The entry's own object lies outside. Time then says nothing about what hides there.
        pa.field("is_outside", pa.bool_(), nullable=False),
    ]
)

_CONTENTS = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("md5", pa.string())]
)

# The signature in a name that lakeFS gives out for an upload past it.
_SIGNED = r",[^/]*$"
MD5 = r"^[0-9a-f]{32}$"

_ENDS = {"first": sf.min, "last": sf.max}


@dataclass(frozen=True)
class Candidates:
    """The objects that are left to go.

    Attributes:
        spark: Gives the session; called where executors hold rows.
        rows: Columns of `CANDIDATES`, key address; and md5 (null: unknown) once contents were asked
            for, which rows that the driver holds never have. Already read.
        objects: Number of candidates.
        branches: Largest number of branches that one of them may hide on.
        dishonest: The same for candidates that may be dishonest.
        any_dishonest: Whether any candidate may be dishonest.
        has_md5: Whether contents were asked for.
    """

    spark: Callable[[], SparkSession]
    rows: Rows
    objects: int
    branches: int
    dishonest: int
    any_dishonest: bool
    has_md5: bool = False

    @property
    def frame(self) -> DataFrame:
        """The candidates as a frame."""
        return as_frame(self.spark(), self.rows, spark_type(CANDIDATES))


def candidates_of(
    spark: Callable[[], SparkSession],
    rows: Rows,
    moments: Sequence[int],
    *,
    all_dishonest: bool,
    at_most: int,
) -> Candidates:
    """Find for each candidate the number of branches that it may hide on.

    A candidate's time is the later one of its name's time and its last modification.

    Args:
        spark: Gives the session.
        rows: Columns address, size_bytes and last_modified of `schemas.NAMESPACE_SLICES`; other
            columns are left out. The driver holds the rows if they are few.
        moments: For each branch the moment from which something can hide there, in microseconds,
            sorted.
        all_dishonest: Whether every candidate may be dishonest.
        at_most: Candidates that the driver may hold.

    Returns:
        The candidates: few on the driver, many on the executors.
    """
    wanted = ["address", "size_bytes", "last_modified"]
    levelled = partial(_levelled, np.array(moments, dtype=np.int64), all_dishonest=all_dishonest)
    few = rows if isinstance(rows, pa.Table) else rows.select(wanted).limit(at_most + 1).toArrow()
    if isinstance(rows, pa.Table) or few.num_rows <= at_most:
        table = pa.Table.from_batches(
            [levelled(batch) for batch in few.select(wanted).to_batches()], CANDIDATES
        )
        dishonest = table.filter(table["is_dishonest"])
        return Candidates(
            spark,
            table,
            table.num_rows,
            pc.max(table["branches"]).as_py() or 0,
            pc.max(dishonest["branches"]).as_py() or 0,
            dishonest.num_rows > 0,
        )
    # It is persisted on its first run, which is the count.
    found = (
        rows.select(wanted)
        .mapInArrow(partial(_map_levelled, levelled), spark_type(CANDIDATES))
        .localCheckpoint(eager=False)
    )
    row = found.agg(
        sf.count("*"),
        sf.coalesce(sf.max("branches"), sf.lit(0)),
        sf.coalesce(sf.max(sf.when(sf.col("is_dishonest"), sf.col("branches"))), sf.lit(0)),
        sf.count_if("is_dishonest"),
    ).first()
    assert row is not None  # noqa: S101 - an aggregate without grouping has one row
    return Candidates(spark, found, row[0], row[1], row[2], row[3] > 0)


def _map_levelled(levelled: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from map(levelled, batches)


def _levelled(moments: Any, batch: pa.RecordBatch, *, all_dishonest: bool) -> pa.RecordBatch:
    addresses = batch.column("address").cast(pa.string())
    modified = batch.column("last_modified").cast(schemas.INSTANT)
    named = xid_time_batch(addresses).cast(pa.int64())
    # As numbers, because the engine compares instants only with each other.
    times = pc.max_element_wise(named, modified.cast(pa.int64()), skip_nulls=True)
    branches = np.searchsorted(moments, times.to_numpy(zero_copy_only=False), side="right")
    signed = pc.match_substring_regex(addresses, _SIGNED)
    dishonest = pc.or_(signed, pa.scalar(all_dishonest)) if batch.num_rows else signed
    return pa.record_batch(
        [addresses, batch.column("size_bytes"), pa.array(branches.astype(np.int32)), dishonest],
        schema=CANDIDATES,
    )


def suspects_of(candidates: Candidates, heads: HeadEntries, *, branches: int) -> DataFrame:
    """Return the paths under which a candidate may hide.

    Dishonest candidates under entries inside the namespace are left out.

    Dishonest candidates may hide under any path of a branch, which is then listed as a whole. An
    entry whose own object lies outside or is missing may be older than any known moment, so every
    branch is asked about it. An entry of a candidate's own object, which a retention policy may
    name, hides nothing else by itself.

    Args:
        candidates: The candidates.
        heads: The entries of branch heads.
        branches: Number of branches.

    Returns:
        Columns of `SUSPECTS`, key head_path, hides and key.
    """
    entries = heads.frame.withColumn("is_outside", ~sf.col("address").startswith("data/"))
    honest = (
        candidates.frame.where("not is_dishonest")
        .select(
            sf.explode(_keys_of_candidate(with_md5=candidates.has_md5)).alias("key"),
            "branches",
            "address",
        )
        .groupBy("key")
        .agg(
            sf.max("branches").alias("reach"),
            sf.min("address").alias("first"),
            sf.max("address").alias("last"),
        )
    )
    reach = sf.when(sf.col("is_outside"), sf.lit(branches)).otherwise(sf.col("reach")).cast("int")
    found = (
        entries.select(
            "head_path",
            "is_outside",
            "address",
            sf.explode(_keys_of_entry(with_md5=candidates.has_md5)).alias("key"),
        )
        .join(honest, on="key", how="inner")
        .where((sf.col("first") != sf.col("address")) | (sf.col("last") != sf.col("address")))
        .select(
            "head_path", sf.lit(SIZED).alias("hides"), "key", reach.alias("branches"), "is_outside"
        )
        .where("branches > 0")
    )
    if heads.absent is not None:
        absent = entries.withColumn("address_hash", sf.xxhash64("address")).join(
            as_frame(heads.spark(), heads.absent), on="address_hash", how="left_semi"
        )
        found = found.unionByName(_whatever(absent, ANY, branches))
    if candidates.any_dishonest:
        found = found.unionByName(_whatever(entries.where("is_outside"), DISHONEST, branches))
    return found.groupBy("head_path", "hides", "key").agg(
        sf.max("branches").alias("branches"), sf.max("is_outside").alias("is_outside")
    )


def _whatever(entries: DataFrame, hides: int, branches: int) -> DataFrame:
    return entries.select(
        "head_path",
        sf.lit(hides).alias("hides"),
        sf.lit(0).cast("long").alias("key"),
        sf.lit(branches).cast("int").alias("branches"),
        "is_outside",
    )


def _size_key() -> Column:
    return sf.xxhash64(sf.lit(SIZED), sf.col("size_bytes"))


def _content_key(checksum: Column) -> Column:
    return sf.xxhash64(sf.lit("content"), sf.col("size_bytes"), checksum)


def _odd_key() -> Column:
    return sf.xxhash64(sf.lit("odd"), sf.col("size_bytes"))


def _keys_of_candidate(*, with_md5: bool) -> Column:
    """Return the keys of which an entry must have one to hide a candidate.

    A collision only adds questions.
    """
    if not with_md5:
        return sf.array(_size_key())
    return sf.when(sf.col("md5").isNull(), sf.array(_size_key())).otherwise(
        sf.array(_content_key(sf.col("md5")), _odd_key())
    )


def _keys_of_entry(*, with_md5: bool) -> Column:
    """Return the keys of an entry; nobody compared the checksum of an object that lies outside."""
    if not with_md5:
        return sf.array(_size_key())
    is_believed = sf.col("checksum").rlike(MD5) & ~sf.col("is_outside")
    key = sf.when(is_believed, _content_key(sf.col("checksum"))).otherwise(_odd_key())
    return sf.array(_size_key(), key)


def undecided(candidates: Candidates, unasked: DataFrame) -> DataFrame:
    """Return the honest candidates that may hide under paths that were not asked about.

    The result has their addresses.

    Args:
        candidates: All candidates.
        unasked: Columns key, from_branch (the first branch that was not asked) and is_outside.
    """
    keyed = candidates.frame.where("not is_dishonest").select(
        "address",
        "branches",
        sf.explode(_keys_of_candidate(with_md5=candidates.has_md5)).alias("key"),
    )
    first = unasked.groupBy("key").agg(
        sf.min("from_branch").alias("from_branch"), sf.max("is_outside").alias("is_outside")
    )
    return (
        keyed.join(first, on="key", how="inner")
        .where(sf.col("is_outside") | (sf.col("branches") > sf.col("from_branch")))
        .select("address")
    )


def with_suspect(candidates: Candidates, suspects: DataFrame) -> DataFrame:
    """Return the honest candidates whose key a suspect path has; columns of `CANDIDATES`."""
    keys = suspects.where(sf.col("hides") == SIZED).select("key").distinct()
    return (
        candidates.frame.where("not is_dishonest")
        .withColumn("key", _size_key())
        .join(keys, on="key", how="left_semi")
        .select(*CANDIDATES.names)
    )


def are_checksums_stated(heads: HeadEntries) -> bool:
    """Say whether any entry's checksum differs from its object's.

    Checksums are then only what somebody said.

    Where nobody has looked yet, the cost is one shuffle of both sides. Objects with one hash count
    as one, so a collision can only turn the answer to yes.
    """
    if heads.are_checksums_said is not None:
        return heads.are_checksums_said
    listing = heads.listing()
    if isinstance(heads.rows, pa.Table) and isinstance(listing, pa.Table):
        return _are_checksums_stated_here(heads.rows, listing)
    listed = (
        as_frame(heads.spark(), listing)
        .where(sf.col("checksum").rlike(MD5))
        .select(
            sf.xxhash64("address").alias("address_hash"),
            sf.col("checksum").alias("listed"),
            sf.lit(None).alias("stated"),
        )
    )
    stated = heads.frame.where(sf.col("checksum").isNotNull()).select(
        sf.xxhash64("address").alias("address_hash"),
        sf.lit(None).alias("listed"),
        sf.col("checksum").alias("stated"),
    )
    ends = (
        listed.unionByName(stated)
        .groupBy("address_hash")
        .agg(
            *(
                which(side).alias(f"{name}_{side}")
                for side in ("listed", "stated")
                for name, which in _ENDS.items()
            )
        )
    )
    both = ends.where(sf.col("first_listed").isNotNull() & sf.col("first_stated").isNotNull())
    first, last = (
        sf.least("first_listed", "first_stated"),
        sf.greatest("last_listed", "last_stated"),
    )
    return bool(both.where(first != last).select("address_hash").limit(1).toArrow().num_rows)


def _are_checksums_stated_here(entries: pa.Table, listing: pa.Table) -> bool:
    """Do the same where the driver holds both sides."""
    told = listing.filter(pc.match_substring_regex(listing["checksum"], MD5))
    stored: dict[str, str | None] = {}
    for address, checksum in zip(
        told["address"].to_pylist(), told["checksum"].to_pylist(), strict=True
    ):
        # An object that was listed twice, and changed meanwhile, agrees with no entry.
        stored[address] = checksum if stored.get(address, checksum) == checksum else None
    return any(
        checksum is not None and stored.get(address, checksum) != checksum
        for address, checksum in zip(
            entries["address"].to_pylist(), entries["checksum"].to_pylist(), strict=True
        )
    )


def contents_of(
    spark: Callable[[], SparkSession],
    store: ObjectStore,
    addresses: Sequence[str],
    *,
    threads: int,
    tasks: int,
) -> pa.Table:
    """Ask the store about the content of some objects, one request each.

    Args:
        spark: Gives the session.
        store: Returns the MD5 of a content, or that it is unknown (`ObjectStore.content`).
        addresses: Addresses of the objects; the driver holds them.
        threads: Requests of a task side by side.
        tasks: Number of tasks. The driver does the work of a single one.

    Returns:
        Columns address and md5 (null: unknown).
    """
    asked = pa.table({"address": pa.array(addresses, pa.string())})
    if tasks <= 1:
        return pa.Table.from_batches(
            _map_contents(store, threads, iter(asked.to_batches())), _CONTENTS
        )
    return (
        _contents_frame(frame_of(spark(), asked), store, threads=threads, tasks=tasks)
        .toArrow()
        .cast(_CONTENTS)
    )


def _contents_frame(asked: DataFrame, store: ObjectStore, *, threads: int, tasks: int) -> DataFrame:
    return (
        asked.select("address")
        .repartition(max(1, tasks))
        .mapInArrow(partial(_map_contents, store, threads), spark_type(_CONTENTS))
    )


def with_contents(
    candidates: Candidates, asked: DataFrame, store: ObjectStore, *, threads: int, tasks: int
) -> Candidates:
    """Ask the store about the content of some candidates, one request each, on the executors.

    Args:
        candidates: All candidates.
        asked: The candidates to ask about.
        store: As for `contents_of`.
        threads: Requests of a task side by side.
        tasks: Number of partitions.

    Returns:
        The candidates with the column md5.
    """
    contents = _contents_frame(asked, store, threads=threads, tasks=tasks)
    frame = candidates.frame.join(contents, on="address", how="left").localCheckpoint()
    return replace(candidates, rows=frame, has_md5=True)


def _map_contents(
    store: ObjectStore, threads: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        addresses = batch.column("address").to_pylist()
        parts = [addresses[number::threads] for number in range(min(threads, len(addresses)))]
        yield from interleaved(parts, partial(_contents, store), threads=threads)


def _contents(store: ObjectStore, addresses: Sequence[str]) -> Iterator[pa.RecordBatch]:
    found = []
    for address in addresses:
        try:
            found.append(store.content(address).checksum)
        except NotFoundError:
            found.append(None)  # gone since; then nothing is lost either way
    yield pa.record_batch(
        [pa.array(addresses, pa.string()), pa.array(found, pa.string())], schema=_CONTENTS
    )
