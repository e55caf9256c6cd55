"""Rows that the driver holds if they are few, and that otherwise stay with the executors.

Spark needs a second for the first query, however few rows it has. What is asked of few rows is
therefore answered by Arrow, and such a run need not start Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_core.spark.tasks import frame_of

Rows: TypeAlias = pa.Table | DataFrame


def as_frame(spark: SparkSession, rows: Rows, columns: StructType | None = None) -> DataFrame:
    """Return rows as a frame; those that the driver holds go to the executors.

    Args:
        spark: The session.
        rows: The rows.
        columns: As for `frame_of`.
    """
    return frame_of(spark, rows, columns) if isinstance(rows, pa.Table) else rows


def selected(rows: Rows, columns: Sequence[str]) -> Rows:
    """Return some columns."""
    return rows.select(list(columns))


def count(rows: Rows) -> int:
    """Return the number of rows."""
    return rows.num_rows if isinstance(rows, pa.Table) else rows.count()


def distinct(rows: Rows, columns: Sequence[str]) -> Rows:
    """Return some columns, each combination of their values once."""
    if isinstance(rows, pa.Table):
        return rows.group_by(list(columns)).aggregate([])
    return rows.select(*columns).distinct()


def least(rows: Rows, column: str, at_most: int) -> tuple[str, ...]:
    """Return the first values of a column of text, in order."""
    if isinstance(rows, pa.Table):
        return tuple(sorted(rows[column].to_pylist())[:at_most])
    first = rows.select(column).orderBy(column).limit(at_most).collect()
    return tuple(row[0] for row in first)


def without(rows: Rows, others: Rows, key: str) -> Rows:
    """Leave out the rows whose key other rows have, too; both have a column of that name."""
    if isinstance(rows, pa.Table) and isinstance(others, pa.Table):
        return rows.filter(pc.invert(is_among(rows[key], others[key])))
    left, right = frames(rows, others.select([key]))
    return left.join(right, on=key, how="left_anti")


def within(rows: Rows, others: Rows, key: str) -> Rows:
    """Keep the rows whose key other rows have, too; both have a column of that name."""
    if isinstance(rows, pa.Table) and isinstance(others, pa.Table):
        return rows.filter(is_among(rows[key], others[key]))
    left, right = frames(rows, others.select([key]))
    return left.join(right, on=key, how="left_semi")


def filtered(rows: Rows, are_wanted: Callable[[pa.RecordBatch], pa.BooleanArray]) -> Rows:
    """Keep some rows; of those that executors hold, once somebody reads them.

    Args:
        rows: The rows.
        are_wanted: Says of each row of a batch whether it stays; picklable.
    """
    if isinstance(rows, pa.Table):
        batches = _filter(are_wanted, iter(rows.to_batches()))
        return pa.Table.from_batches(batches, rows.schema)
    return rows.mapInArrow(partial(_filter, are_wanted), rows.schema)


def _filter(
    are_wanted: Callable[[pa.RecordBatch], pa.BooleanArray], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(are_wanted(batch))


def is_among(column: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    """Say of each value whether it is one of others."""
    return pc.is_in(column, value_set=others.combine_chunks())


def together(several: Sequence[Rows]) -> Rows:
    """Return the rows of all; held by the driver if all of them are."""
    if all(isinstance(rows, pa.Table) for rows in several):
        return pa.concat_tables(several, promote_options="default")
    return reduce(DataFrame.unionByName, frames(*several))


def frames(*several: Rows) -> list[DataFrame]:
    """Return all as frames, of which one is a frame already."""
    spark = next(rows for rows in several if not isinstance(rows, pa.Table)).sparkSession
    return [as_frame(spark, rows) for rows in several]
