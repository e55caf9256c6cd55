"""The entries that only expired commits have, stored beside the committed ones.

They never decide. They say what an object was that may go (`mark.explanations`), and what they say
of sizes and checksums may spare questions to branches (`twins`). So damage of a range that only
expired commits have costs words and questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.errors import TABLES_UNREADABLE
from spark_core.records import tables
from spark_core.records.figures import CommitsFigures
from spark_core.records.reading import StoredTable
from spark_core.run import Run

# Metaranges and ranges that are read for words, by the setting `explain`.
METARANGES: Mapping[str, int] = {"full": 20_000, "short": 1_000, "off": 0}
RANGES = METARANGES
# Entries of those ranges at most: some 100 bytes each pass through Spark.
ENTRIES_READ = 20_000_000

# An entry that an expired commit has and no retained one. Key: address_hash and path.
ENTRIES = pa.schema(
    [
        schemas.COMMITTED_ADDRESSES.field("address_hash"),
        # Null where only short words are wanted, and so is the next column.
        pa.field("path", pa.binary()),
        # Row, in the table of expired commits, of the one that was kept last.
        pa.field("newest", pa.int32()),
        # What it says of its object: evidence of what cannot hide (`twins`). Of the checksum it is
        # the hash.
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("checksum", pa.int64(), nullable=False),
    ]
)

# What an entry says of its object.
SAID = pa.schema([ENTRIES.field(name) for name in ("address_hash", "size_bytes", "checksum")])


def commits_of(run: Run, commits: StoredTable) -> pa.Table | None:
    """Return the expired commits that a mark stored beside its retained ones.

    Args:
        run: The run.
        commits: Table 3.

    Returns:
        Columns of `schemas.EXPIRED_COMMITS`, in their order; None if they are not those that the
        mark stored, as when somebody else made the table again.
    """
    told = CommitsFigures.of(commits.manifest).expired_metaranges
    if told.manifest is None:
        return schemas.EXPIRED_COMMITS.empty_table()
    try:
        stored = run.load(tables.EXPIRED_COMMITS)
        if stored.manifest.sha256 != told.manifest:
            return None
        return pa.Table.from_batches(stored.batches(), schemas.EXPIRED_COMMITS)
    except TABLES_UNREADABLE:
        return None


def within_limits(ranges: pa.Table, words: str) -> pa.Table:
    """Return the first ranges of expired commits, as many as are read for words.

    Args:
        ranges: Columns of `RANGES`.
        words: The setting `explain`.
    """
    some = ranges.slice(0, RANGES[words])
    within = np.cumsum(some["count"].to_numpy()) <= ENTRIES_READ
    return some.slice(0, int(within.sum()))


def entries(batch: pa.RecordBatch, *, with_paths: bool) -> pa.RecordBatch:
    """Bring the entries of ranges into the columns of `ENTRIES`.

    Args:
        batch: Columns of `schemas.COMMITTED_ADDRESSES`, and newest.
        with_paths: Whether to fill path and newest.
    """
    words = [batch.column("head_path"), batch.column("newest")]
    if not with_paths:
        words = [pa.nulls(batch.num_rows, column.type) for column in words]
    said = [batch.column("size_bytes"), hashed(batch.column("checksum"))]
    return pa.record_batch([batch.column("address_hash"), *words, *said], schema=ENTRIES)


def newest(some: Sequence[pa.Table]) -> pa.Table:
    """Of entries that differ in nothing else, keep the commit that was kept last; as `ENTRIES`."""
    keys = ["address_hash", "path", "size_bytes", "checksum"]
    return (
        pa.concat_tables(some)
        .group_by(keys)
        .aggregate([("newest", "min")])
        .rename_columns([*keys, "newest"])
        .select(ENTRIES.names)
        .cast(ENTRIES)
    )
