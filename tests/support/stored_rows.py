"""Rows of a stored table, read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_core.records.reading import StoredTable


class Row(dict[str, Any]):
    """A row, whose columns are attributes too."""

    __getattr__ = dict.__getitem__


def rows_of(table: StoredTable, columns: Sequence[str] | None = None) -> list[Row]:
    """Read the rows of a stored table, or some of their columns."""
    return [Row(row) for batch in table.batches(columns) for row in batch.to_pylist()]
