"""Rows of one kind, how tasks read them, and how tasks pack them for an exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from spark_core.spark.packed_rows import (
    TASKS,
    WAS_PACKED,
    Tally,
    bucket_of,
    bytes_of,
    hashes_of,
    packed_row,
    rows_by_number,
    tally_row,
)
from spark_core.spark.tasks import interleaved, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Receipt = TypeVar("Receipt")
Batches: TypeAlias = Iterator[pa.RecordBatch]

# The most rows that a task holds before it packs them.
_ROWS_AT_ONCE = 500_000


def numbers_of(column: pa.ChunkedArray | pa.Array) -> Any:
    """Return a column without nulls as an array of numpy."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.to_numpy(zero_copy_only=False)


def as_read(rows: pa.Table) -> pa.Table:
    """Leave rows as they were read."""
    return rows


@dataclass(frozen=True)
class Source(Generic[Task]):
    """Rows of one kind, and how tasks read them.

    Attributes:
        schema: Columns of each batch that is read. The first one is the hash of the key: int64,
            without nulls.
        tasks: A picklable value for each task.
        rows: How many rows there are in all.
        read: Yields the batches of a task; runs on an executor, or on a thread of the driver.
        combine: Makes fewer rows of several with one hash, of the same columns. It gets the rows
            of a task, so that a hash that is referenced a million times costs one row a task.
    """

    schema: pa.Schema
    tasks: Sequence[Task]
    rows: int
    read: Callable[[Task], Batches]
    combine: Callable[[pa.Table], pa.Table] = as_read

    def through(
        self,
        schema: pa.Schema,
        change: Callable[[Batches], Batches],
        combine: Callable[[pa.Table], pa.Table] = as_read,
    ) -> Source[Task]:
        """Return what becomes of the rows: each batch is changed where it is read."""
        return Source(
            schema, self.tasks, self.rows, partial(_read_through, self.read, change), combine
        )

    def each(
        self, spark: Callable[[], SparkSession], work: Callable[[Batches], Receipt]
    ) -> list[Receipt]:
        """Work on the rows where they are read, and bring back the small receipts."""
        return run_tasks(spark, self.tasks, partial(_work_through, self.read, work), rows=self.rows)

    def here(self, threads: int) -> pa.Table:
        """Read the rows, combined; the driver holds them."""
        batches = interleaved(self.tasks, self.read, threads=threads) if self.tasks else ()
        return self.combine(pa.Table.from_batches(batches, self.schema))

    @property
    def packers(self) -> int:
        """How many tasks say that they packed rows."""
        return len(self.tasks)

    @property
    def parts(self) -> list[Source[Any]]:
        """The sources that have rows: this one, or none."""
        return [self] if self.rows else []

    def packing(self, buckets: int, kind: int) -> Callable[[Batches], Batches]:
        """Return what executors do: read the rows of tasks by number, and pack each bucket's."""
        return partial(_pack_tasks, self, buckets, kind)


@dataclass(frozen=True)
class JoinedSource:
    """The rows of several sources, one after the other; otherwise as `Source`.

    Attributes:
        sources: The sources, of one schema; at least one.
    """

    sources: Sequence[AnySource]

    @property
    def schema(self) -> pa.Schema:
        """As for `Source`."""
        return self.sources[0].schema

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return sum(source.rows for source in self.sources)

    @property
    def combine(self) -> Callable[[pa.Table], pa.Table]:
        """As for `Source`."""
        return self.sources[0].combine

    def through(
        self,
        schema: pa.Schema,
        change: Callable[[Batches], Batches],
        combine: Callable[[pa.Table], pa.Table] = as_read,
    ) -> JoinedSource:
        """Do what `Source.through` does."""
        return JoinedSource([source.through(schema, change, combine) for source in self.sources])

    def each(
        self, spark: Callable[[], SparkSession], work: Callable[[Batches], Receipt]
    ) -> list[Receipt]:
        """Do what `Source.each` does."""
        return [receipt for source in self.sources for receipt in source.each(spark, work)]

    def here(self, threads: int) -> pa.Table:
        """Do what `Source.here` does."""
        return self.combine(pa.concat_tables([source.here(threads) for source in self.sources]))

    @property
    def packers(self) -> int:
        """As for `Source`."""
        return sum(source.packers for source in self.sources if source.rows)

    @property
    def parts(self) -> list[Source[Any]]:
        """The sources that have rows."""
        return [part for source in self.sources for part in source.parts]


AnySource: TypeAlias = "Source[Any] | JoinedSource"


def source_of(rows: pa.Table, schema: pa.Schema) -> Source[pa.Table]:
    """Return rows that the driver holds as what an exchange reads.

    Args:
        rows: The rows.
        schema: Columns of them that are wanted.
    """
    table = rows.select(schema.names).cast(schema)
    return Source(schema, [table] if table.num_rows else [], table.num_rows, _batches_of)


def no_rows(schema: pa.Schema) -> AnySource:
    """Return a source without rows."""
    return source_of(schema.empty_table(), schema)


def _batches_of(table: pa.Table) -> Batches:
    yield from table.to_batches()


def _read_through(
    read: Callable[[Any], Batches], change: Callable[[Batches], Batches], task: Any
) -> Batches:
    return change(read(task))


def _work_through(
    read: Callable[[Any], Batches], work: Callable[[Batches], Receipt], _number: int, task: Any
) -> Receipt:
    return work(read(task))


def _pack_tasks(source: Source[Any], buckets: int, kind: int, numbers: Batches) -> Batches:
    """Read the rows of tasks, and pack those of each bucket together; runs on an executor."""
    for number in (number for batch in numbers for number in batch.column("id").to_pylist()):
        tally: Tally = Counter({(TASKS, kind): 1})
        for rows in _at_once(source.read(source.tasks[number]), source.schema):
            combined = source.combine(rows)
            tally[WAS_PACKED, kind] += combined.num_rows
            yield from _packed(combined, buckets, kind)
        yield tally_row(tally)


def _at_once(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held, rows = list[pa.RecordBatch](), 0
    for batch in batches:
        held.append(batch.cast(schema))
        rows += batch.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(held, schema)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held, schema)


def _packed(rows: pa.Table, buckets: int, kind: int) -> Iterator[pa.RecordBatch]:
    """Pack rows by the bucket of their hash."""
    numbers = bucket_of(hashes_of(rows), buckets)
    for bucket, some in rows_by_number(rows, numbers):
        yield packed_row(bucket, kind, bytes_of(some))
