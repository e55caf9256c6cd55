"""The sizes that entries give, compared with the store (safety 14, 34).

A client may have made sizes up, and objects may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.addresses.namespace import xid_time_batch
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, numbers_of
from spark_core.spark.session import Spark
from spark_core.storage.listings import listed

Found = TypeVar("Found")

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

HASHES = pa.schema([pa.field("address_hash", pa.int64(), nullable=False)])
# What an entry or the store gives; the checksum is a hash.
STATED = HASHES.append(pa.field("checksum", pa.int64()))
SIZED = HASHES.append(pa.field("size_bytes", pa.int64(), nullable=False))
# An entry below `data/`.
_IN_DATA = HASHES.append(pa.field("slice", pa.string(), nullable=False))
NONE_ABSENT = np.empty(0, np.int64)
SIZES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("checksum", pa.string()),
    ]
)
ADDRESSES = pa.schema([ENTRIES.field("address")])


@dataclass(frozen=True)
class SeenInStore:
    """Objects that this run saw in the store, where it knows others from the index alone.

    Attributes:
        there: Their hashes: columns of `HASHES`.
        lost: Hashes of the addresses that were looked up and are not there, sorted and once.
    """

    there: AnySource
    lost: Any


@dataclass(frozen=True)
class HeadEntries:
    """The entries of branch heads, and how they compare with the store.

    Attributes:
        spark: Gives the session; called where there is more than the driver brings together.
        rows: Gives those behind which something may hide: columns of `ENTRIES`; rows without a
            path are no entries of heads.
        absent: Hashes of the addresses of entries below `data/` whose object is not in the store;
            an array, as `absent` returns it.
        are_sizes_said: Whether any entry gives another size than its object has. Entries of
            retained commits that are no heads count too: a copy of such an entry, under an unsigned
            name, gives the same size.
        listing: Gives the store's objects: columns of `LISTED`.
        any_outside: Whether any of the entries lies outside `data/`; True if nobody counted.
        are_checksums_said: Says whether any entry gives another checksum than its object has. It is
            asked where that counts, and remembered.
        least: At least so many entries the heads have, where `rows` has few of them.
        seen: Gives those of the listing that this run saw; None for all of them. Only an entry
            whose object was seen clears anybody.
        lost: Gives the hashes of entries that may have a candidate's content, and whose object the
            listing has, but not the store; sorted and once. None where the store was listed.
    """

    spark: Spark
    rows: Callable[[], AnySource]
    absent: Any
    are_sizes_said: bool
    listing: Callable[[], AnySource]
    are_checksums_said: Callable[[], bool]
    any_outside: bool = True
    least: int = 0
    seen: Callable[[], SeenInStore] | None = None
    lost: Callable[[], Any] | None = None


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
    receipts, _ = Exchange(sources, _are_checksums_stated, HASHES, _nothing).run(spark)
    return any(receipts)


def stated(batches: Batches) -> Batches:
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


def of_heads(batches: Batches) -> Batches:
    """Leave out the rows of table 4 that are no entries of heads."""
    for batch in batches:
        yield batch.filter(batch.column("head_path").is_valid())


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


def _nothing(_number: int, _rows: pa.Table) -> None:
    """Work on no rows: none are sent on."""


def are_sizes_stated(spark: Spark, listing: AnySource, entries: AnySource) -> bool:
    """Say whether the size of any entry differs from its object's.

    Objects with one hash count as one, which can only turn the answer to yes.

    Args:
        spark: Gives the session.
        listing: Columns address and size_bytes.
        entries: Columns address_hash and size_bytes.
    """
    sources: dict[str, AnySource] = {"listed": listing.through(SIZED, _sized), "said": entries}
    receipts, _ = Exchange(sources, _are_sizes_stated, HASHES, _nothing).run(spark)
    return any(receipts)


def _sized(batches: Batches) -> Batches:
    for batch in batches:
        columns = [hashed(batch.column("address")), batch.column("size_bytes")]
        yield pa.record_batch(columns, schema=SIZED)


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


def absent(spark: Spark, entries: AnySource, listing: AnySource) -> Any:
    """Return hashes of the entries below `data/` without a listed object, sorted and once.

    The driver holds 8 bytes for each.

    Args:
        spark: Gives the session.
        entries: Column address.
        listing: Column address.
    """
    found, _ = _unlisted(spark, entries, listing, _hashes_of)
    return sorted_once(np.concatenate([NONE_ABSENT, *found]))


def unlisted_hashes(spark: Spark, entries: AnySource, listing: AnySource) -> Any:
    """Return the hashes of entries without a listed object, sorted and once.

    Args:
        spark: Gives the session.
        entries: Columns of `HASHES`.
        listing: The same.
    """
    sources: dict[str, AnySource] = {"entries": entries, "listed": listing}
    found, _ = Exchange(sources, partial(_are_unlisted, _hashes_of), HASHES, _nothing).run(spark)
    return sorted_once(np.concatenate([NONE_ABSENT, *found]))


def named_since(instant: datetime, entries: AnySource) -> AnySource:
    """Keep the entries (address) whose names the server gave at or after an instant."""
    return entries.through(ADDRESSES, partial(_named_since, instant))


def _named_since(instant: datetime, batches: Batches) -> Batches:
    since = pa.scalar(instant, schemas.INSTANT)
    for batch in batches:
        names = batch.column("address").cast(pa.string())
        is_since = pc.fill_null(pc.greater_equal(xid_time_batch(names), since), False)
        yield pa.record_batch([names.filter(is_since)], schema=ADDRESSES)


def sizes_of_later(run: Run, entries: AnySource, listing: AnySource) -> pa.Table:
    """List the slices of objects that entries have and that are not in the listing.

    These are as many slices as the server opened since the listing: one for some thousand objects.
    The driver holds their objects, so that all who compare them see the same.

    Args:
        run: The run.
        entries: Column address.
        listing: Column address.

    Returns:
        Columns address, size_bytes and checksum, of all objects in those slices.

    Raises:
        LakegcError: If a slice cannot be listed to its end.
    """
    slices, _ = _unlisted(lambda: run.spark, entries, listing, _slices_of)
    prefixes = [f"data/{slice_}/" for slice_ in sorted({name for some in slices for name in some})]
    rows = listed(run.store, prefixes, threads=run.options.read_threads) if prefixes else ()
    batches = [batch.select(["key", "size_bytes", "checksum"]) for batch in rows]
    renamed = [pa.record_batch(batch.columns, names=SIZES.names).cast(SIZES) for batch in batches]
    return pa.Table.from_batches(renamed, SIZES)


def _unlisted(
    spark: Spark,
    entries: AnySource,
    listing: AnySource,
    told: Callable[[pa.Table], Found],
) -> tuple[list[Found], list[None]]:
    """Say something of the entries below `data/` that have no listed object; once a bucket."""
    sources: dict[str, AnySource] = {
        "entries": entries.through(_IN_DATA, _in_data),
        "listed": listing.through(HASHES, _hashed),
    }
    return Exchange(sources, partial(_are_unlisted, told), HASHES, _nothing).run(spark)


def _in_data(batches: Batches) -> Batches:
    for batch in batches:
        addresses = batch.column("address").cast(pa.string())
        inside = addresses.filter(pc.starts_with(addresses, "data/"))
        slices = pc.struct_field(pc.extract_regex(inside, r"^data/(?P<slice>[^/]*)"), "slice")
        yield pa.record_batch([hashed(inside), slices], schema=_IN_DATA)


def _hashed(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.record_batch([hashed(batch.column("address"))], schema=HASHES)


def _are_unlisted(told: Callable[[pa.Table], Found], bucket: Mapping[str, pa.Table]) -> Sent[Found]:
    entries = bucket["entries"]
    listed = sorted_once(numbers_of(bucket["listed"]["address_hash"]))
    is_listed = are_among(numbers_of(entries["address_hash"]), listed)
    return Sent(told(entries.filter(pa.array(~is_listed))), {})


def _hashes_of(entries: pa.Table) -> Any:
    return sorted_once(numbers_of(entries["address_hash"]))


def _slices_of(entries: pa.Table) -> list[str]:
    names: list[str] = entries["slice"].unique().to_pylist()
    return names
