"""Entries below `data/` without a listed object: lost ones, and those written since the listing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.addresses.namespace import xid_time_batch
from spark_core.references.head_entries import (
    ADDRESSES,
    HASHES,
    NONE_ABSENT,
    SIZES,
    hashed_addresses,
)
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, no_work, numbers_of
from spark_core.spark.session import Spark
from spark_core.storage.listings import list_below

Found = TypeVar("Found")

# An entry below `data/`.
_IN_DATA = HASHES.append(pa.field("slice", pa.string(), nullable=False))


def hashes_without_object(spark: Spark, entries: AnySource, listing: AnySource) -> Any:
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
    found, _ = Exchange(sources, partial(_are_unlisted, _hashes_of), HASHES, no_work).run(spark)
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
    rows = list_below(run.store, prefixes, threads=run.options.read_threads) if prefixes else ()
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
        "listed": listing.through(HASHES, hashed_addresses),
    }
    return Exchange(sources, partial(_are_unlisted, told), HASHES, no_work).run(spark)


def _in_data(batches: Batches) -> Batches:
    for batch in batches:
        addresses = batch.column("address").cast(pa.string())
        inside = addresses.filter(pc.starts_with(addresses, "data/"))
        slices = pc.struct_field(pc.extract_regex(inside, r"^data/(?P<slice>[^/]*)"), "slice")
        yield pa.record_batch([hashed(inside), slices], schema=_IN_DATA)


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
