"""Rows of a run's stored tables, by address."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import hashed
from spark_core.errors import ChainError, NotFoundError
from spark_core.records.tables import TableSpec
from spark_core.run import Run
from spark_core.spark.exchange import Batches


def is_missing(problem: Exception) -> bool:
    """Say whether a table was never made; else it was pruned or is damaged."""
    return isinstance(problem, ChainError) and isinstance(problem.__cause__, NotFoundError)


def rows_of(
    run: Run, spec: TableSpec, addresses: Sequence[str], *, by_hash: bool = False
) -> dict[str, dict[str, Any]]:
    """Return a row of each address in a stored table.

    Args:
        run: The run.
        spec: The table.
        addresses: Relative addresses.
        by_hash: Whether the table is asked by the addresses' hashes.

    Raises:
        ChainError: If the run has no such table.
    """
    asked = pa.array(addresses, pa.string())
    column, values = ("address_hash", hashed(asked)) if by_hash else ("address", asked)
    names = dict(zip(values.to_pylist(), addresses, strict=True))
    some = run.load(spec).source().each(lambda: run.spark, partial(_by_key, column, values))
    return {names[key]: row for found in some for key, row in found.items()}


def _by_key(column: str, values: pa.Array, batches: Batches) -> dict[Any, dict[str, Any]]:
    """Return a row of each of some values of a column."""
    return {
        row[column]: row
        for batch in batches
        for row in batch.filter(pc.is_in(batch.column(column), value_set=values)).to_pylist()
    }
