"""Rows that kernels send on for later steps of the same process.

The driver holds what it makes itself. What executors make lies as Parquet in the folder of the
run's policy, where house-keeping finds it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from spark_core.errors import IncompleteReadError, LakegcError
from spark_core.model import RunKey
from spark_core.records import reading, tables, writing
from spark_core.records.writing import Receipt, Target
from spark_core.spark.exchange import AnySource, numbers_of
from spark_core.storage import ObjectStore

# Ranges of hashes: rows of one are written together.
_PLACES = 64


def target_of(store: ObjectStore, run: RunKey, schema: pa.Schema) -> Target:
    """Return where such rows go."""
    folder = tables.folder(tables.POLICY_EXPIRATIONS, run)
    attempt = writing.new_attempt()
    return Target(store, folder, attempt, schema, name="_aside", holds=sys.maxsize)


def put_aside(target: Target, number: int, rows: pa.Table) -> Receipt:
    """Write rows, or hold them; the work of an exchange."""
    return writing.write_parts(target, number, iter(rows.to_batches()))


def source_of(store: ObjectStore, schema: pa.Schema, receipts: Sequence[Receipt]) -> AnySource:
    """Return the rows that were put aside."""
    return reading.source_of_parts(store, schema, writing.parts_of(receipts))


def require_all(repository: str, came: Mapping[str, int], wanted: Mapping[str, int]) -> None:
    """Refuse if rows got lost between their reading and their comparison.

    Args:
        repository: Repository id.
        came: Rows that kernels got, by source.
        wanted: Rows that were read, by source.

    Raises:
        IncompleteReadError: With the numbers.
    """
    for name, rows in wanted.items():
        if came.get(name, 0) != rows:
            raise IncompleteReadError(
                f"repository {repository}: {came.get(name, 0)} of {rows} rows of `{name}` "
                "came out of their comparison with objects",
                "Run again; if it stays, report it with this text and Spark's version.",
            )


def remove(target: Target, receipts: Sequence[Receipt]) -> None:
    """Remove what executors put aside; house-keeping removes what the store does not delete now."""
    if not all(receipt.by_driver for receipt in receipts):
        with suppress(LakegcError):
            writing.remove_attempt(target.store, target.folder, target.attempt)


def place_of(rows: pa.Table) -> int:
    """Return the number to which a kernel sends what it makes of a bucket's rows.

    Args:
        rows: All rows of the bucket that matter; the first column is the hash.
    """
    if not rows.num_rows:
        return 0
    first: Any = numbers_of(rows.column(0)[:1])[0]
    return int(first) % 2**64 * _PLACES // 2**64
