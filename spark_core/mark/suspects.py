"""Who may hide where: candidates by how many branches they may hide on, and the paths of heads by what they may hide.

Branches stand in the order of the moment from which something can hide on them, the
earliest first. So one number tells where a candidate may hide: on the first so many.

A candidate may be the twin of an entry of its own size. A candidate is **dishonest**
where its size may not be the one that its entry says: a client that uploads past the
server says a size when it links the object, and copies carry it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from spark_core.spark.tasks import frame_of, interleaved
from spark_core.storage import ObjectStore

# What a path may hide: a candidate whose key it has, any candidate, or any dishonest one.
SIZED, ANY, DISHONEST = 0, 1, 2

CANDIDATES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # It may hide on so many branches, the first ones.
        pa.field("branches", pa.int32(), nullable=False),
        pa.field("is_dishonest", pa.bool_(), nullable=False),
    ]
)

SUSPECTS = pa.schema(
    [
        pa.field("head_path", pa.binary(), nullable=False),
        pa.field("hides", pa.int32(), nullable=False),
        # What a candidate and an entry must share; 0 where anything will do.
        pa.field("key", pa.int64(), nullable=False),
        # So many branches are to be asked, the first ones.
        pa.field("branches", pa.int32(), nullable=False),
        # The entry's own object lies outside: time says nothing of what hides there.
        pa.field("is_outside", pa.bool_(), nullable=False),
    ]
)

_CONTENTS = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("md5", pa.string())])

# How lakeFS signs a name that it gives out for an upload past it.
_SIGNED = r",[^/]*$"
MD5 = r"^[0-9a-f]{32}$"

_ENDS = {"first": sf.min, "last": sf.max}


@dataclass(frozen=True)
class Candidates:
    """What is left to go.

    Attributes:
        frame: Columns of `CANDIDATES`, key address; and md5 (null: unknown) once contents were asked for. Read already.
        rows: The same, where the driver holds them; then contents are none of it.
        objects: How many.
        branches: On how many branches one of them may hide at most ...
        dishonest: ... and one that may be dishonest.
        any_dishonest: Whether there is such a one at all.
        has_md5: Whether contents were asked for.
    """

    frame: DataFrame
    objects: int
    branches: int
    dishonest: int
    any_dishonest: bool
    has_md5: bool = False
    rows: pa.Table | None = None


def candidates_of(
    spark: SparkSession, rows: pa.Table | DataFrame, moments: Sequence[int], *, all_dishonest: bool, at_most: int
) -> Candidates:
    """Tell of each candidate on how many branches it may hide.

    Its time is the later one of its name and of its last modification.

    Args:
        spark: The session.
        rows: Columns address, size_bytes and last_modified of `schemas.NAMESPACE_SLICES`, others are left out; held by the
            driver where they are few.
        moments: Of each branch the moment from which something can hide there, microseconds, sorted.
        all_dishonest: Whether every candidate may be.
        at_most: Candidates that the driver may hold.

    Returns:
        The candidates; a few on the driver, many with the executors.
    """
    wanted = ["address", "size_bytes", "last_modified"]
    levelled = partial(_levelled, np.array(moments, dtype=np.int64), all_dishonest=all_dishonest)
    few = rows if isinstance(rows, pa.Table) else rows.select(wanted).limit(at_most + 1).toArrow()
    if isinstance(rows, pa.Table) or few.num_rows <= at_most:
        table = pa.Table.from_batches([levelled(batch) for batch in few.select(wanted).to_batches()], CANDIDATES)
        dishonest = table.filter(table["is_dishonest"])
        return Candidates(
            frame_of(spark, table, spark_type(CANDIDATES)),
            table.num_rows,
            pc.max(table["branches"]).as_py() or 0,
            pc.max(dishonest["branches"]).as_py() or 0,
            dishonest.num_rows > 0,
            rows=table,
        )
    # Held when it is first run, which is to count it.
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
    return Candidates(found, row[0], row[1], row[2], row[3] > 0)


def _map_levelled(levelled: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from map(levelled, batches)


def _levelled(moments: Any, batch: pa.RecordBatch, *, all_dishonest: bool) -> pa.RecordBatch:
    addresses = batch.column("address").cast(pa.string())
    modified = batch.column("last_modified").cast(schemas.INSTANT)
    named = xid_time_batch(addresses).cast(pa.int64())
    # As numbers: the engine compares instants only one with another.
    times = pc.max_element_wise(named, modified.cast(pa.int64()), skip_nulls=True)
    branches = np.searchsorted(moments, times.to_numpy(zero_copy_only=False), side="right")
    signed = pc.match_substring_regex(addresses, _SIGNED)
    dishonest = pc.or_(signed, pa.scalar(all_dishonest)) if batch.num_rows else signed
    return pa.record_batch(
        [addresses, batch.column("size_bytes"), pa.array(branches.astype(np.int32)), dishonest], schema=CANDIDATES
    )


def suspects_of(candidates: Candidates, heads: HeadEntries, *, branches: int) -> DataFrame:
    """Return the paths under which a candidate may hide, but for dishonest ones under entries inside the namespace.

    Those may hide under any path of a branch, which is then listed as a whole. Entries whose own object lies outside or
    is missing may be older than any moment that is known, so every branch is asked about them.

    Args:
        candidates: What may hide.
        heads: What branch heads have.
        branches: How many branches there are.

    Returns:
        Columns of `SUSPECTS`, key head_path, hides and key.
    """
    entries = heads.frame.withColumn("is_outside", ~sf.col("address").startswith("data/"))
    honest = (
        candidates.frame.where("not is_dishonest")
        .select(sf.explode(_keys_of_candidate(with_md5=candidates.has_md5)).alias("key"), "branches")
        .groupBy("key")
        .agg(sf.max("branches").alias("reach"))
    )
    reach = sf.when(sf.col("is_outside"), sf.lit(branches)).otherwise(sf.col("reach")).cast("int")
    found = (
        entries.select("head_path", "is_outside", sf.explode(_keys_of_entry(with_md5=candidates.has_md5)).alias("key"))
        .join(honest, on="key", how="inner")
        .select("head_path", sf.lit(SIZED).alias("hides"), "key", reach.alias("branches"), "is_outside")
        .where("branches > 0")
    )
    if heads.absent is not None:
        absent = entries.withColumn("address_hash", sf.xxhash64("address")).join(
            heads.absent, on="address_hash", how="left_semi"
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
    """Give what an entry must have one of to hide a candidate; a collision only adds to what is asked."""
    if not with_md5:
        return sf.array(_size_key())
    return sf.when(sf.col("md5").isNull(), sf.array(_size_key())).otherwise(
        sf.array(_content_key(sf.col("md5")), _odd_key())
    )


def _keys_of_entry(*, with_md5: bool) -> Column:
    if not with_md5:
        return sf.array(_size_key())
    told = sf.when(sf.col("checksum").rlike(MD5), _content_key(sf.col("checksum"))).otherwise(_odd_key())
    return sf.array(_size_key(), told)


def undecided(candidates: Candidates, unasked: DataFrame) -> DataFrame:
    """Return the addresses of honest candidates that may hide under paths that were not asked about.

    Args:
        candidates: All of them.
        unasked: Columns key, from_branch (the first branch that was not asked) and is_outside.
    """
    keyed = candidates.frame.where("not is_dishonest").select(
        "address", "branches", sf.explode(_keys_of_candidate(with_md5=candidates.has_md5)).alias("key")
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
    """Return the honest candidates that share their key with a suspect path; columns of `CANDIDATES`."""
    keys = suspects.where(sf.col("hides") == SIZED).select("key").distinct()
    return (
        candidates.frame.where("not is_dishonest")
        .withColumn("key", _size_key())
        .join(keys, on="key", how="left_semi")
        .select(*CANDIDATES.names)
    )


def are_checksums_said(heads: HeadEntries) -> bool:
    """Say whether a checksum of an entry is not that of its object, so that checksums are what somebody said.

    One shuffle of both sides. Objects of one hash count as one, so a collision can only say that they are.
    """
    listed = heads.listing.where(sf.col("checksum").rlike(MD5)).select(
        sf.xxhash64("address").alias("address_hash"), sf.col("checksum").alias("listed"), sf.lit(None).alias("said")
    )
    said = heads.frame.where(sf.col("checksum").isNotNull()).select(
        sf.xxhash64("address").alias("address_hash"), sf.lit(None).alias("listed"), sf.col("checksum").alias("said")
    )
    ends = (
        listed.unionByName(said)
        .groupBy("address_hash")
        .agg(*(which(side).alias(f"{name}_{side}") for side in ("listed", "said") for name, which in _ENDS.items()))
    )
    both = ends.where(sf.col("first_listed").isNotNull() & sf.col("first_said").isNotNull())
    first, last = sf.least("first_listed", "first_said"), sf.greatest("last_listed", "last_said")
    return bool(both.where(first != last).select("address_hash").limit(1).toArrow().num_rows)


def contents_of(
    spark: SparkSession, store: ObjectStore, addresses: Sequence[str], *, threads: int, tasks: int
) -> pa.Table:
    """Ask the store about the content of some objects, one request each.

    Args:
        spark: The session.
        store: Tells the MD5 of a content, or that it does not know it (`ObjectStore.content`).
        addresses: Whose; the driver holds them.
        threads: Requests side by side, of each task.
        tasks: Tasks; a single one's work is done here.

    Returns:
        Columns address and md5 (null: unknown).
    """
    asked = pa.table({"address": pa.array(addresses, pa.string())})
    if tasks <= 1:
        return pa.Table.from_batches(_map_contents(store, threads, iter(asked.to_batches())), _CONTENTS)
    return _contents_frame(frame_of(spark, asked), store, threads=threads, tasks=tasks).toArrow().cast(_CONTENTS)


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
        candidates: All of them.
        asked: Those that are asked about.
        store: As for `contents_of`.
        threads: Requests of a task side by side.
        tasks: Partitions.

    Returns:
        The same, with the column md5.
    """
    contents = _contents_frame(asked, store, threads=threads, tasks=tasks)
    frame = candidates.frame.join(contents, on="address", how="left").localCheckpoint()
    return replace(candidates, frame=frame, rows=None, has_md5=True)


def _map_contents(store: ObjectStore, threads: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
    yield pa.record_batch([pa.array(addresses, pa.string()), pa.array(found, pa.string())], schema=_CONTENTS)
