"""Whether sizes and checksums that entries give are those of the store's objects (safety 14, 34).

A client may have made them up.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import hashed
from spark_core.references.head_entries import (
    HASHES,
    MD5,
    SIZED,
    STATED,
    of_heads,
    sizes_of_entries,
)
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, no_work
from spark_core.spark.session import Spark


def are_checksums_stated(spark: Spark, entries: AnySource, listing: AnySource) -> bool:
    """Say whether the checksum of any entry of a head differs from its object's.

    Checksums are then only what somebody said. Objects with one hash count as one, which can only
    turn an answer to yes. Checksums are compared by their hashes here as wherever they are
    believed, so two that look alike do so everywhere.

    Args:
        spark: Gives the session.
        entries: Columns of `STATED`.
        listing: The same columns.
    """
    sources: dict[str, AnySource] = {"entries": entries, "listed": listing}
    receipts, _ = Exchange(sources, _are_checksums_stated, HASHES, no_work).run(spark)
    return any(receipts)


def _are_checksums_stated(bucket: Mapping[str, pa.Table]) -> Sent[bool]:
    ends = [
        rows.filter(rows["checksum"].is_valid())
        .group_by("address_hash")
        .aggregate([("checksum", "min"), ("checksum", "max")])
        for rows in (bucket["entries"], bucket["listed"])
    ]
    both = ends[0].join(ends[1], "address_hash", join_type="inner", right_suffix="_told")
    is_same = pc.and_(
        pc.equal(both["checksum_min"], both["checksum_max_told"]),
        pc.equal(both["checksum_max"], both["checksum_min_told"]),
    )
    return Sent(pc.any(pc.invert(is_same), min_count=0).as_py(), {})


def stated_by_heads(batches: Batches) -> Batches:
    """Return what entries of heads give: columns of `STATED`."""
    for batch in of_heads(batches):
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
    return pa.record_batch([hashed(batch.column("address")), hashes], schema=STATED)


def are_sizes_stated(spark: Spark, listing: AnySource, entries: AnySource) -> bool:
    """Say whether the size of any entry differs from its object's.

    Objects with one hash count as one, which can only turn the answer to yes.

    Args:
        spark: Gives the session.
        listing: Columns address and size_bytes.
        entries: Columns address_hash and size_bytes.
    """
    sources: dict[str, AnySource] = {
        "listed": listing.through(SIZED, sizes_of_entries),
        "said": entries,
    }
    receipts, _ = Exchange(sources, _are_sizes_stated, HASHES, no_work).run(spark)
    return any(receipts)


def _are_sizes_stated(bucket: Mapping[str, pa.Table]) -> Sent[bool]:
    ends = [
        bucket[name]
        .group_by("address_hash")
        .aggregate([("size_bytes", "min"), ("size_bytes", "max")])
        for name in ("listed", "said")
    ]
    both = ends[0].join(ends[1], "address_hash", join_type="inner", right_suffix="_said")
    is_same = pc.and_(
        pc.equal(both["size_bytes_min"], both["size_bytes_max_said"]),
        pc.equal(both["size_bytes_max"], both["size_bytes_min_said"]),
    )
    return Sent(not pc.all(is_same, min_count=0).as_py(), {})
