"""Rows of a listing, in batches and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_core.schemas import OBJECT_LISTING

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


def listing_batch(
    keys: Sequence[str] | pa.Array,
    sizes: Sequence[int] | pa.Array,
    modified: pa.Array,
    checksums: pa.Array | None = None,
    classes: pa.Array | None = None,
) -> pa.RecordBatch:
    """Put columns of a listing together as `schemas.OBJECT_LISTING`.

    Raises:
        UnicodeEncodeError: If a key cannot be written as UTF-8.
    """
    absent = pa.nulls(len(keys), pa.string())
    return pa.record_batch(
        [
            pa.array(keys, pa.string()),
            pa.array(sizes, pa.int64()),
            modified,
            absent if checksums is None else checksums,
            absent if classes is None else classes,
        ],
        OBJECT_LISTING,
    )
