"""The entries of branch heads, as the search for hidden entries takes them, and their columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_core.addresses.address_hashes import hashed
from spark_core.spark.exchange import AnySource, Batches
from spark_core.spark.session import Spark

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

ADDRESSES = pa.schema([ENTRIES.field("address")])

SIZES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("checksum", pa.string()),
    ]
)

MD5 = r"^[0-9a-f]{32}$"

HASHES = pa.schema([pa.field("address_hash", pa.int64(), nullable=False)])

# What an entry or the store gives; the checksum is a hash.
STATED = HASHES.append(pa.field("checksum", pa.int64()))

SIZED = HASHES.append(pa.field("size_bytes", pa.int64(), nullable=False))

NONE_ABSENT = np.empty(0, np.int64)


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


def of_heads(batches: Batches) -> Batches:
    """Leave out the rows of table 4 that are no entries of heads."""
    for batch in batches:
        yield batch.filter(batch.column("head_path").is_valid())


def hashed_addresses(batches: Batches) -> Batches:
    """Return the hashes of addresses: columns of `HASHES`."""
    for batch in batches:
        yield pa.record_batch([hashed(batch.column("address"))], schema=HASHES)


def sizes_of_entries(batches: Batches) -> Batches:
    """Return the hashes of addresses, and sizes: columns of `SIZED`."""
    for batch in batches:
        columns = [hashed(batch.column("address")), batch.column("size_bytes")]
        yield pa.record_batch(columns, schema=SIZED)
