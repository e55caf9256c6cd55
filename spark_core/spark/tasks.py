"""Tasks on Spark: the only way in which executors touch a store.

Neither Hadoop file systems nor jars nor Spark's data sources are used: `mapInArrow` runs over a
frame of numbers, one a partition. The work of a task comes back as its receipt, or as rows among
its rows. It never comes back by an accumulator: a task that Spark runs again would add to that
twice.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, Full, Queue
from threading import Event, Lock
from typing import Any, TypeVar

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_core.schemas import spark_type
from spark_core.spark import placement
from spark_core.spark.session import cores, master_of, surfacing_errors

Task = TypeVar("Task")
Receipt = TypeVar("Receipt")

# Objects that are worth a task if each costs a request or a share of one.
_OBJECTS_OF_A_TASK = 1_000
# The most objects of a task: they may wait in memory.
_MOST_OF_A_TASK = 100_000

# Rows that a table sent whole to every executor may have: some 100 MB of addresses.
BROADCAST_ROWS = 1_000_000

_RECEIPT = pa.schema([pa.field("receipt", pa.binary(), nullable=False)])


def frame_of(spark: SparkSession, rows: pa.Table, columns: StructType | None = None) -> DataFrame:
    """Make a frame of rows that the driver holds; the only way from Arrow to Spark here.

    Spark stops reading at the first batch without rows and silently drops those behind it. So empty
    batches are left out.

    Args:
        spark: The session.
        rows: In chunks of any size.
        columns: Their types in Spark; by default as Spark reads them.

    Returns:
        A frame with exactly these rows.
    """
    batches = [batch for batch in rows.combine_chunks().to_batches() if batch.num_rows]
    whole = pa.Table.from_batches(batches, rows.schema)
    return (
        spark.createDataFrame(whole) if columns is None else spark.createDataFrame(whole, columns)
    )


def read_partitions(
    spark: SparkSession,
    schema: pa.Schema,
    tasks: Sequence[Task],
    read: Callable[[Task], Iterator[pa.RecordBatch]],
    *,
    rows: int = 0,
) -> DataFrame:
    """Make a frame whose partitions are read on the executors, lazily and streaming.

    Args:
        spark: The session.
        schema: Columns of every batch that `read` yields.
        tasks: One picklable value per partition; none gives an empty frame. All of them travel with
            each task, so they name what is to be read, or hold little of it.
        read: Yields the batches of one partition. Runs on an executor.
        rows: How many rows they have, as far as that is known; see `plan_for`.

    Returns:
        A frame with the columns of `schema`, one partition per task.
    """
    if not tasks:
        return frame_of(spark, schema.empty_table())
    plan_for(spark, rows)
    return numbers_of_tasks(spark, len(tasks)).mapInArrow(
        partial(_map_read, schema, tuple(tasks), read), spark_type(schema)
    )


def plan_for(spark: SparkSession, rows: int) -> None:
    """Have the session plan its joins for a frame of so many rows that its tasks read.

    Spark takes the rows that tasks read for a few bytes, and would send all of them to every
    executor for a join. From many rows on, this makes Spark shuffle both sides, unless it has
    measured that one of them is small.

    Args:
        spark: The session; the choice stays, as frames are run later.
        rows: Rows of the frame.
    """
    if rows > BROADCAST_ROWS:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")


def numbers_of_tasks(spark: SparkSession, count: int) -> DataFrame:
    """Make a frame with the number of each task in a partition of its own: all tasks begin here."""
    placement.hand_out(count, master_of(spark))
    return spark.range(0, count, 1, count)


def _map_read(
    schema: pa.Schema,
    tasks: Sequence[Task],
    read: Callable[[Task], Iterator[pa.RecordBatch]],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for number in _given(numbers):
        for batch in read(tasks[number]):
            yield batch.cast(schema)


def _given(numbers: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in numbers for number in batch.column("id").to_pylist()]


def run_tasks(
    spark: Callable[[], SparkSession],
    tasks: Sequence[Task],
    work: Callable[[int, Task], Receipt],
    *,
    rows: int | None = None,
    is_small: bool = False,
) -> list[Receipt]:
    """Do work where `placement` says, and bring back the receipt of each task.

    Args:
        spark: Gives the session.
        tasks: One picklable value per task, as for `read_partitions`; none starts nothing.
        work: Gets the number of the task and the task; returns a small picklable receipt. It must
            be right to do it twice: Spark runs a lost task again, and only the receipt of the last
            try comes back.
        rows: How many rows all tasks work on, for `placement.driver_works`.
        is_small: Where no rows are given: whether the work is so little that the driver does it.

    Returns:
        The receipts, in no particular order.

    Raises:
        LakegcError: The error of a task.
    """
    least = 0 if is_small else None
    works_on = least if rows is None else rows
    if works_on is not None and placement.driver_works(works_on):
        return [work(number, task) for number, task in enumerate(tasks)]
    if not tasks:
        return []
    numbers = numbers_of_tasks(spark(), len(tasks))
    return _collected(numbers, partial(_map_tasks, tuple(tasks), work))


def _map_tasks(
    tasks: Sequence[Task], work: Callable[[int, Task], Receipt], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for number in _given(numbers):
        yield _receipt_batch(work(number, tasks[number]))


def read_counted(
    spark: SparkSession,
    schema: pa.Schema,
    tasks: Sequence[Task],
    read: Callable[[Task, Counter[str]], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """Do `read_partitions`, with the counts of each task among its rows; see `counted`.

    So figures and rows are always of one try, and a frame that is held holds both.

    Args:
        spark: The session.
        schema: Columns of every batch that `read` yields.
        tasks: As for `read_partitions`.
        read: Yields the batches of one partition, and counts into its figures.

    Returns:
        A frame with the columns of `schema`, all of which may be null, and figures.
    """
    nullable = _with_figures(schema)
    return read_partitions(spark, nullable, tasks, partial(_read_and_count, nullable, read))


def _with_figures(schema: pa.Schema) -> pa.Schema:
    """Return the columns, all of which may be null, and figures."""
    return pa.schema(
        [*(field.with_nullable(True) for field in schema), pa.field("figures", pa.binary())]
    )


def _read_and_count(
    schema: pa.Schema, read: Callable[[Task, Counter[str]], Iterator[pa.RecordBatch]], task: Task
) -> Iterator[pa.RecordBatch]:
    figures = Counter[str]()
    for batch in read(task, figures):
        yield pa.record_batch(
            [*batch.columns, pa.nulls(batch.num_rows, pa.binary())], schema=schema
        )
    nothing = [pa.nulls(1, field.type) for field in list(schema)[:-1]]
    yield pa.record_batch([*nothing, pa.array([pickle.dumps(figures)], pa.binary())], schema=schema)


def map_counted(
    frame: DataFrame,
    schema: pa.Schema,
    work: Callable[[Iterator[pa.RecordBatch], Counter[str]], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """Work on each partition of a frame, with the counts of each task among its rows.

    Args:
        frame: The rows.
        schema: Columns of every batch that `work` yields.
        work: Yields the batches of one partition, and counts into its figures.

    Returns:
        As `read_counted`.
    """
    nullable = _with_figures(schema)
    return frame.mapInArrow(partial(_read_and_count, nullable, work), spark_type(nullable))


def counted(frame: DataFrame) -> tuple[DataFrame, int, Counter[str]]:
    """Take a frame of `read_counted` apart, in one action.

    The frame should be held, or it is run again for its rows.

    Returns:
        The rows, their number as Spark counts them, and the figures of all tasks.
    """
    row = frame.agg(sf.count_if(sf.col("figures").isNull()), sf.collect_list("figures")).first()
    assert row is not None  # noqa: S101 - an aggregate without grouping has one row
    total = Counter[str]()
    for figures in row[1]:
        total.update(pickle.loads(figures))  # noqa: S301 - written by our own task above
    plan_for(frame.sparkSession, row[0])
    return frame.where(sf.col("figures").isNull()).drop("figures"), row[0], total


def run_over(
    frame: DataFrame,
    work: Callable[[int, Iterator[pa.RecordBatch]], Receipt],
    *,
    is_small: bool = False,
) -> list[Receipt]:
    """Run a frame, and work on each of its partitions on the executors.

    Args:
        frame: The rows; this is the action that runs it.
        work: Gets the number of the partition and its batches; as for `run_tasks`.
        is_small: The driver may hold the rows, and does the work.

    Returns:
        The receipts of all partitions, in no particular order.

    Raises:
        LakegcError: The error of an executor.
    """
    if is_small and placement.driver_works(0):
        with surfacing_errors():
            rows = frame.toArrow()
        return [work(0, iter(rows.to_batches()))]
    return _collected(frame, partial(_map_rows, work))


def _map_rows(
    work: Callable[[int, Iterator[pa.RecordBatch]], Receipt], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    yield _receipt_batch(work(context.partitionId() if context is not None else 0, batches))


@dataclass(frozen=True)
class Attempt:
    """An executor's attempt at a task.

    Attributes:
        id: Unique among all attempts at all tasks of a session, including a second copy of the same
            task.
        number: How many attempts at the task came before.
    """

    id: int
    number: int


def attempt() -> Attempt | None:
    """Return the attempt that this process works on; None on the driver."""
    context = TaskContext.get()
    return None if context is None else Attempt(context.taskAttemptId(), context.attemptNumber())


def _receipt_batch(receipt: object) -> pa.RecordBatch:
    return pa.record_batch([[pickle.dumps(receipt)]], schema=_RECEIPT)


def _collected(
    frame: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> list[Any]:
    with surfacing_errors():
        rows = frame.mapInArrow(task, spark_type(_RECEIPT)).collect()
    # Our own tasks wrote the receipts.
    return [pickle.loads(row["receipt"]) for row in rows]  # noqa: S301 - see above


def dealt(items: Sequence[Task], tasks: int) -> list[tuple[Task, ...]]:
    """Deal things to at most so many tasks; neighbours, often alike, go to different tasks."""
    count = min(len(items), tasks)
    return [tuple(items[number::count]) for number in range(count)]


def together(
    items: Sequence[Task], rows: Callable[[Task], int], most: int
) -> list[tuple[Task, ...]]:
    """Join consecutive things that are too small for a task of their own, up to so many rows."""
    tasks: list[list[Task]] = []
    held = most
    for item in items:
        if held + rows(item) > most:
            tasks.append([])
            held = 0
        tasks[-1].append(item)
        held += rows(item)
    return [tuple(task) for task in tasks]


def tasks_for(spark: SparkSession, objects: int) -> int:
    """Return how many tasks ask the store about so many objects: up to all cores, none empty."""
    most = max(cores(spark), -(-objects // _MOST_OF_A_TASK))
    return max(1, min(-(-objects // _OBJECTS_OF_A_TASK), most))


def rebalanced(frame: DataFrame) -> DataFrame:
    """Let adaptive execution choose the number of a result's partitions by its size.

    Without adaptive execution nothing changes. Use it for the result of a join with a held frame:
    Spark does not join the partitions of such a result, however few rows they have. It costs a
    shuffle of the result, so use it for results that are much smaller than their inputs.
    """
    return frame.hint("rebalance")


def interleaved(
    tasks: Iterable[Task], read: Callable[[Task], Iterator[pa.RecordBatch]], *, threads: int = 8
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of many tasks, several read at once; their order is not kept.

    Listings and range reads wait for the store most of the time. The queue is bounded, so a slow
    consumer holds the readers back and memory stays small.

    Args:
        tasks: The tasks to read; the next one is taken when a thread is free for it.
        read: Yields the batches of one task; runs on a thread.
        threads: How many tasks are read at once.

    Yields:
        Every batch of every task.

    Raises:
        BaseException: The first failure of any task; the others are stopped.
    """
    if isinstance(tasks, Sequence) and len(tasks) <= 1:
        for task in tasks:
            yield from read(task)
        return
    queue: Queue[pa.RecordBatch] = Queue(maxsize=2 * threads)
    stopped, waiting = Event(), _Shared(iter(tasks))

    def run() -> None:
        for task in waiting:
            for batch in read(task):
                if not _put(queue, batch, stopped):
                    return
            if stopped.is_set():
                return

    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="lakegc-read") as pool:
        running = [pool.submit(run) for _ in range(threads)]
        try:
            yield from _arriving(queue, running)
        finally:
            stopped.set()
            for future in running:
                future.cancel()


@dataclass
class _Shared(Iterator[Task]):
    """Tasks that several threads take from, one after the other."""

    tasks: Iterator[Task]
    _taking: Lock = field(default_factory=Lock)

    def __next__(self) -> Task:
        with self._taking:
            return next(self.tasks)


def _arriving(
    queue: Queue[pa.RecordBatch], running: Sequence[Future[None]]
) -> Iterator[pa.RecordBatch]:
    """Take batches from a queue until those who fill it have ended, or the first one fails."""
    while running or not queue.empty():
        with suppress(Empty):
            yield queue.get(timeout=0.02)
            continue
        # Each is asked once: one that ended between two questions would end unheard.
        ended = [future for future in running if future.done()]
        for future in ended:
            future.result()
        running = [future for future in running if future not in ended]


def _put(queue: Queue[pa.RecordBatch], batch: pa.RecordBatch, stopped: Event) -> bool:
    """Put a batch into a queue once there is room; False if nobody waits for it any more."""
    while not stopped.is_set():
        with suppress(Full):
            queue.put(batch, timeout=0.1)
            return True
    return False


@dataclass(frozen=True)
class ReusableFrame:
    """A frame that was run, and that may be read again without running it again.

    Attributes:
        frame: The frame.
        rows: Its rows, if they are few enough for the driver; None if they stay with the executors.
    """

    frame: DataFrame
    rows: pa.Table | None

    def release(self) -> None:
        """Release the rows that the executors hold."""
        if self.rows is None:
            self.frame.unpersist()


def reusable(frame: DataFrame, *, is_small: bool) -> ReusableFrame:
    """Keep the result of a frame that several queries read.

    A small result comes to the driver: Spark plans queries of a local relation in a moment, and
    answers many without a job. On a few rows that is most of the time.

    Args:
        frame: What to keep.
        is_small: Whether its inputs bound the result to what the driver may hold, as
            `StoredTable.is_small`.

    Returns:
        The same rows. They are run now if small, else kept by the executors when they are first
        read.
    """
    if not is_small:
        return ReusableFrame(frame.persist(), None)
    rows = frame.toArrow()
    return ReusableFrame(frame_of(frame.sparkSession, rows, frame.schema), rows)


@contextmanager
def counting(figures: Counter[str], requests: Counter[str]) -> Iterator[None]:
    """Add the store's own counts of the block to figures.

    Args:
        figures: The figures of a task.
        requests: The store's running counts by kind in this process.
    """
    before = Counter(requests)
    try:
        yield
    finally:
        figures.update(Counter(requests) - before)
