"""Rows of several sources, brought together by the hash of their key.

Spark is slow at moving millions of short rows between Java and Python, and fast at moving some
thousand long ones. So a task sorts the rows that it reads by bucket, which is a range of hashes,
and hands over one row for each bucket: the Arrow bytes of all its rows there. Spark moves them, and
a kernel gets whole buckets: plain Arrow tables, in which all rows of a hash are.

Few rows are brought together by the driver, as a single bucket, before Spark would have started.
The kernel is the same.

A row that gets lost on its way could be the one that keeps an object. So whoever packs, compares or
works on rows counts them, the counts travel among the rows, and the driver compares them.

Cost: 8 bytes for the hash and what else is in a row, read, sorted, moved and sorted once more. Each
task sends at most one row to each bucket for every `_ROWS_AT_ONCE` that it read.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from spark_core.errors import IncompleteReadError
from spark_core.spark import placement
from spark_core.spark.session import cores, master_of, surfacing_errors
from spark_core.spark.tasks import interleaved, numbers_of_tasks, run_tasks

Task = TypeVar("Task")
Batches: TypeAlias = Iterator[pa.RecordBatch]
Receipt = TypeVar("Receipt")
Written = TypeVar("Written")

# Rows that are worth a bucket of their own, and those that are worth using another core.
_ROWS_OF_A_BUCKET = 250_000
_ROWS_OF_A_CORE = 20_000
# The most rows that a kernel gets: those of a larger bucket are split by other bits of their hash.
_MOST_ROWS_OF_A_KERNEL = 4_000_000
# The most rows that a task holds before it packs them.
_ROWS_AT_ONCE = 500_000
# Packed rows are long: so many of them travel between Java and Python at once.
_PACKED_AT_ONCE = 64

_PACKED = pa.schema(
    [
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("kind", pa.int32(), nullable=False),
        pa.field("packed", pa.binary(), nullable=False),
    ]
)
_PACKED_IN_SPARK = StructType(
    [
        StructField("bucket", IntegerType(), nullable=False),
        StructField("kind", IntegerType(), nullable=False),
        StructField("packed", BinaryType(), nullable=False),
    ]
)
# Kinds of what kernels send on: a receipt, which is in no bucket, or rows. And what is in no bucket
# and only counted: how many there were of what is named by the keys below.
_RECEIPT, _ROWS, _TALLY = 0, 1, 2
_NO_BUCKET = -1
# Of a source, with its number: its tasks, the rows that they packed, and those that kernels got.
_TASKS, _WAS_PACKED, _CAME = "tasks", "packed", "came"
# Of what kernels made: their receipts, and the rows that they sent on.
_RECEIPTS, _SENT = "receipts", "sent"
_Tally: TypeAlias = "Counter[str | tuple[str, int]]"


def numbers_of(column: pa.ChunkedArray | pa.Array) -> Any:
    """Return a column without nulls as an array of numpy."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.to_numpy(zero_copy_only=False)


def as_read(rows: pa.Table) -> pa.Table:
    """Leave rows as they were read."""
    return rows


def no_work(_number: int, _rows: pa.Table) -> None:
    """Work on no rows: for kernels that send none on."""


def divided(rows: pa.Table, numbers: Any) -> Iterator[tuple[int, pa.Table]]:
    """Put rows of one number together.

    Args:
        rows: The rows.
        numbers: An array, with a number for each row.
    """
    if not rows.num_rows:
        return
    order = np.argsort(numbers, kind="stable")
    # `take` of a table in several chunks looks for the chunk of each row.
    whole, numbers = rows.combine_chunks().take(pa.array(order)), numbers[order]
    cuts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    for begin, end in zip(cuts, [*cuts[1:], len(numbers)], strict=True):
        yield int(numbers[begin]), whole.slice(begin, end - begin)


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

    def packed(self, spark: SparkSession, buckets: int, kind: int) -> DataFrame:
        """Let executors read the rows, and pack those of each bucket together."""
        return numbers_of_tasks(spark, len(self.tasks)).mapInArrow(
            partial(_pack_tasks, self, buckets, kind), _PACKED_IN_SPARK
        )


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

    def packed(self, spark: SparkSession, buckets: int, kind: int) -> DataFrame:
        """Do what `Source.packed` does."""
        packed = [source.packed(spark, buckets, kind) for source in self.sources if source.rows]
        return _together(packed)


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    # Frames of Spark Connect are of another class, so that their own method is called.
    return reduce(lambda one, other: one.unionByName(other), frames)


AnySource: TypeAlias = "Source[Any] | JoinedSource"


def source_of(rows: pa.Table, schema: pa.Schema) -> Source[pa.Table]:
    """Return rows that the driver holds as what an exchange reads.

    Args:
        rows: The rows.
        schema: Columns of them that are wanted.
    """
    table = rows.select(schema.names).cast(schema)
    return Source(schema, [table] if table.num_rows else [], table.num_rows, _batches_of)


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


@dataclass(frozen=True)
class Sent(Generic[Receipt]):
    """What a kernel makes of a bucket.

    Attributes:
        receipt: What it has to say; small, and picklable.
        rows: Rows for those who work on them next, by their numbers.
    """

    receipt: Receipt
    rows: Mapping[int, pa.Table]


@dataclass(frozen=True)
class Exchange(Generic[Receipt, Written]):
    """What becomes of rows that meet.

    Attributes:
        sources: The rows, by name.
        kernel: Gets the rows of each source in one bucket, by name: all rows of every hash in it.
            It is a function of these alone, and right to call twice.
        schema: Columns of the rows that it sends on.
        work: Gets a number, and all rows that were sent to it. It may write, and must be right to
            call twice: Spark runs a lost task again.
    """

    sources: Mapping[str, AnySource]
    kernel: Callable[[Mapping[str, pa.Table]], Sent[Receipt]]
    schema: pa.Schema
    work: Callable[[int, pa.Table], Written]

    @property
    def rows(self) -> int:
        """Rows of all sources."""
        return sum(source.rows for source in self.sources.values())

    @property
    def is_for_the_driver(self) -> bool:
        """Whether the driver brings the rows together, and does the work."""
        return not self.rows or placement.driver_works(self.rows)

    def run(
        self, spark: Callable[[], SparkSession], *, threads: int = 8
    ) -> tuple[list[Receipt], list[Written]]:
        """Bring the rows together.

        Args:
            spark: Gives the session; called if executors bring the rows together, as `placement`
                says.
            threads: Tasks that the driver reads at once.

        Returns:
            The receipts of all buckets and those of all work, in no particular order.

        Raises:
            IncompleteReadError: If Spark lost rows between two tasks.
            LakegcError: The error of a task.
        """
        if self.is_for_the_driver:
            return self._run_here(threads)
        return self._run_on(spark())

    def _run_here(self, threads: int) -> tuple[list[Receipt], list[Written]]:
        sent = self.kernel({name: source.here(threads) for name, source in self.sources.items()})
        return [sent.receipt], [self.work(number, rows) for number, rows in sent.rows.items()]

    def _run_on(self, spark: SparkSession) -> tuple[list[Receipt], list[Written]]:
        buckets = _buckets_for(self.rows, at_once=cores(spark))
        schemas = {name: source.schema for name, source in self.sources.items()}
        packed = [
            source.packed(spark, buckets, kind)
            for kind, source in enumerate(self.sources.values())
            if source.rows
        ]
        # One task for each bucket where rows meet, and one where they are worked on.
        placement.hand_out(2 * buckets, master_of(spark))
        with _in_one_job(spark), surfacing_errors():
            met = (
                _together(packed)
                .repartition(buckets, "bucket")
                .mapInArrow(
                    partial(_meet, schemas, self.kernel, self.schema, _MOST_ROWS_OF_A_KERNEL),
                    _PACKED_IN_SPARK,
                )
            )
            rows = (
                met.repartition(buckets, "bucket")
                .mapInArrow(partial(_work, self.schema, self.work), _PACKED_IN_SPARK)
                .collect()
            )
        found: dict[int, list[Any]] = {_RECEIPT: [], _ROWS: [], _TALLY: []}
        for row in rows:
            # Our own tasks wrote them.
            found[row["kind"]].append(pickle.loads(row["packed"]))  # noqa: S301
        worked_on = sum(count for count, _ in found[_ROWS])
        self._require_all(sum(found[_TALLY], Counter()), len(found[_RECEIPT]), worked_on)
        return found[_RECEIPT], [written for _, written in found[_ROWS]]

    def _require_all(self, tally: _Tally, receipts: int, worked_on: int) -> None:
        """Refuse if anything got lost between the tasks that made it and those that got it."""
        pairs = [
            ("receipts of comparisons", receipts, tally[_RECEIPTS]),
            ("rows that came out of comparisons", worked_on, tally[_SENT]),
        ]
        for kind, (name, source) in enumerate(self.sources.items()):
            tasks = source.packers if source.rows else 0
            pairs.append((f"tasks that read `{name}`", tally[_TASKS, kind], tasks))
            pairs.append((f"rows of `{name}`", tally[_CAME, kind], tally[_WAS_PACKED, kind]))
        for what, came, wanted in pairs:
            if came != wanted:
                raise IncompleteReadError(
                    f"Spark passed on {came} of {wanted} {what}, and all of them were wanted",
                    "Run again; if it stays, report it with this text and Spark's version.",
                )


def _buckets_for(rows: int, *, at_once: int) -> int:
    return max(-(-rows // _ROWS_OF_A_BUCKET), min(at_once, rows // _ROWS_OF_A_CORE), 1)


@contextmanager
def _in_one_job(spark: SparkSession) -> Iterator[None]:
    """Run a query as it is written, in one job, and move few rows at once.

    Adaptive execution would run each stage as a job of its own, to learn sizes that are known here.
    """
    chosen = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_PACKED_AT_ONCE),
    }
    before = {name: spark.conf.get(name) for name in chosen}
    try:
        for name, value in chosen.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            assert old is not None  # noqa: S101 - Spark has a default for both
            spark.conf.set(name, old)


def _pack_tasks(source: Source[Any], buckets: int, kind: int, numbers: Batches) -> Batches:
    """Read the rows of tasks, and pack those of each bucket together; runs on an executor."""
    for number in (number for batch in numbers for number in batch.column("id").to_pylist()):
        tally: _Tally = Counter({(_TASKS, kind): 1})
        for rows in _at_once(source.read(source.tasks[number]), source.schema):
            combined = source.combine(rows)
            tally[_WAS_PACKED, kind] += combined.num_rows
            yield from _packed(combined, buckets, kind)
        yield _tally_row(tally)


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
    numbers = _bucket_of(_hashes(rows), buckets)
    for bucket, some in divided(rows, numbers):
        yield _row(bucket, kind, _bytes_of(some))


def _bucket_of(hashes: Any, buckets: int) -> Any:
    """Give each hash the number of its range, of so many ranges of one width."""
    upper = hashes.view(np.uint64) >> np.uint64(32)
    # Short numbers are sorted by their digits.
    return ((upper * np.uint64(buckets)) >> np.uint64(32)).astype(np.min_scalar_type(buckets))


def _hashes(rows: pa.Table) -> Any:
    return rows.column(0).combine_chunks().to_numpy()


def _bytes_of(rows: pa.Table) -> bytes:
    """Return the rows as Arrow writes them, without their schema."""
    batch = rows.combine_chunks().to_batches()[0]
    return bytes(memoryview(batch.serialize()))


def _rows_of(packed: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(
        [pa.ipc.read_record_batch(pa.py_buffer(each), schema) for each in packed], schema
    )


def _row(bucket: int, kind: int, packed: bytes) -> pa.RecordBatch:
    return pa.record_batch([[bucket], [kind], [packed]], schema=_PACKED)


def _tally_row(tally: _Tally) -> pa.RecordBatch:
    return _row(_NO_BUCKET, _TALLY, pickle.dumps(tally))


def _gathered(
    batches: Iterator[pa.RecordBatch],
) -> dict[int, dict[int, list[bytes]]]:
    """Return what is packed, by bucket and by kind."""
    found: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        for row in batch.to_pylist():
            found[row["bucket"]][row["kind"]].append(row["packed"])
    return found


def _meet(
    schemas: Mapping[str, pa.Schema],
    kernel: Callable[[Mapping[str, pa.Table]], Sent[Any]],
    sent_on: pa.Schema,
    at_most: int,
    batches: Batches,
) -> Batches:
    """Let the kernel work on each bucket of a partition; runs on an executor."""
    gathered = _gathered(batches)
    yield from _passed_on(gathered)
    tally: _Tally = Counter()
    while gathered:
        _, kinds = gathered.popitem()
        bucket = {
            name: _rows_of(kinds.pop(kind, ()), schema)
            for kind, (name, schema) in enumerate(schemas.items())
        }
        for tables in _small_enough(bucket, at_most):
            tally.update(
                {(_CAME, kind): rows.num_rows for kind, rows in enumerate(tables.values())}
            )
            sent = kernel(tables)
            tally[_RECEIPTS] += 1
            yield _row(_NO_BUCKET, _RECEIPT, pickle.dumps(sent.receipt))
            for number, rows in sent.rows.items():
                if rows.num_rows:
                    tally[_SENT] += rows.num_rows
                    yield _row(number, _ROWS, _bytes_of(rows.cast(sent_on)))
    yield _tally_row(tally)


def _small_enough(tables: dict[str, pa.Table], at_most: int) -> Iterator[dict[str, pa.Table]]:
    """Split a bucket with very many rows by other bits of their hashes."""
    rows = sum(table.num_rows for table in tables.values())
    if rows <= at_most:
        yield tables
        return
    count = -(-rows // at_most)
    split = {
        name: dict(divided(table, _bucket_of(_mixed(_hashes(table)), count)))
        for name, table in tables.items()
    }
    for number in range(count):
        yield {name: split[name].get(number, table.slice(0, 0)) for name, table in tables.items()}


def _mixed(hashes: Any) -> Any:
    """Let all bits of a hash count for the upper ones."""
    return (hashes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def _work(schema: pa.Schema, work: Callable[[int, pa.Table], Any], batches: Batches) -> Batches:
    """Work on what kernels sent on, and pass on their receipts; runs on an executor."""
    gathered = _gathered(batches)
    yield from _passed_on(gathered)
    while gathered:
        number, kinds = gathered.popitem()
        rows = _rows_of(kinds[_ROWS], schema)
        yield _row(_NO_BUCKET, _ROWS, pickle.dumps((rows.num_rows, work(number, rows))))


def _passed_on(gathered: dict[int, dict[int, list[bytes]]]) -> Batches:
    """Pass on what is in no bucket: receipts and tallies."""
    for kind, some in gathered.pop(_NO_BUCKET, {}).items():
        for packed in some:
            yield _row(_NO_BUCKET, kind, packed)
