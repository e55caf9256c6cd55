"""Rows of a listing, in batches and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.schemas import INSTANT, OBJECT_LISTING

# Rows of one batch of a listing: big enough for Arrow to pay, a few megabytes at most.
LISTING_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class ListedPage:
    """One answer to a listing.

    Attributes:
        rows: Columns of `schemas.OBJECT_LISTING`; there may be none.
        is_last: Whether nothing comes after them.
    """

    rows: pa.RecordBatch
    is_last: bool


def as_prefix(prefix: str) -> str:
    """Return the prefix with a slash at its end, empty for the root."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def instants(found: pa.Array) -> pa.Array:
    """Read the times of a store to the microsecond; finer digits, as some stores have, are cut.

    Args:
        found: Texts with a zone, or instants.

    Raises:
        ArrowInvalid: If one is no time.

    Examples:
        >>> str(instants(pa.array(["2026-11-20T02:00:00.123456789Z"]))[0])
        '2026-11-20 02:00:00.123456+00:00'
    """
    if pa.types.is_string(found.type):
        found = pc.replace_substring_regex(found, r"(\.[0-9]{6})[0-9]+", r"\1")
    return found.cast(INSTANT, safe=False)


def listing_batch(
    keys: Sequence[str] | pa.Array,
    sizes: Sequence[int] | pa.Array,
    modified: pa.Array,
    checksums: pa.Array | None = None,
    classes: pa.Array | None = None,
) -> pa.RecordBatch:
    """Put columns of a listing together as `schemas.OBJECT_LISTING`.

    Raises:
        ValueError: If a key cannot be written as UTF-8, a size or a time is missing, or a size is
            below zero: then the figures of what goes and what stays would be wrong.
    """
    absent = pa.nulls(len(keys), pa.string())
    told = pa.array(sizes, pa.int64())
    odd = pc.or_(pc.fill_null(pc.less(told, 0), fill_value=True), modified.is_null())
    at = pc.index(odd, value=True).as_py()
    if at >= 0:
        raise ValueError(f"{str(keys[at])!r} with a size of {told[at]} bytes, of {modified[at]}")
    return pa.record_batch(
        [
            pa.array(keys, pa.string()),
            told,
            modified,
            absent if checksums is None else checksums,
            absent if classes is None else classes,
        ],
        OBJECT_LISTING,
    )
