"""Sizes of objects that came after the listing: entries of theirs say a size that a client may have made up (safety 14)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core.datasources import interleaved, read_partitions
from spark_core.run import Run
from spark_core.storage import ObjectStore

_SIZES = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("size_bytes", pa.int64(), nullable=False)]
)


def sizes_of_later(run: Run, entries: DataFrame, listing: DataFrame) -> DataFrame:
    """List the slices of the objects that entries have and the listing has not.

    Args:
        run: The run.
        entries: Column address.
        listing: Column address.

    Returns:
        Columns address and size_bytes, of all objects in those slices; read already.

    Raises:
        LakegcError: If a slice cannot be listed to its end.
    """
    known = listing.select(sf.xxhash64("address").alias("address_hash"))
    absent = (
        entries.where(sf.col("address").startswith("data/"))
        .select("address", sf.xxhash64("address").alias("address_hash"))
        .join(known, on="address_hash", how="left_anti")
    )
    # So many slices as the server opened since the listing: one for some thousands of objects.
    found = sorted(
        row[0] for row in absent.select(sf.split_part("address", sf.lit("/"), sf.lit(2))).distinct().collect()
    )
    count = min(len(found), run.options.range_partitions)
    tasks = [tuple(f"data/{slice_}/" for slice_ in found[number::count]) for number in range(count)]
    read = partial(_read, run.store, run.options.read_threads)
    return read_partitions(run.spark, _SIZES, tasks, read).localCheckpoint()


def _read(store: ObjectStore, threads: int, prefixes: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for batch in interleaved(prefixes, store.list, threads=threads):
        yield pa.record_batch([batch.column("key"), batch.column("size_bytes")], schema=_SIZES)
