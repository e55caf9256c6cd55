"""Tasks on Spark: the only way in which executors touch a store.

Neither Hadoop file systems nor jars nor Spark's data sources are used: `mapInArrow` runs over a
frame of numbers, one a partition. The work of a task comes back as its receipt. It never comes back
by an accumulator: a task that Spark runs again would add to that twice.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, Full, Queue
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from spark_core.errors import IncompleteReadError
from spark_core.spark import connect, placement
from spark_core.spark.failures import surfacing_errors
from spark_core.spark.session import is_started, master_of

if TYPE_CHECKING:
    # Where the driver does all work, Spark is not imported.
    from pyspark.sql import DataFrame, Row, SparkSession

Task = TypeVar("Task")
Receipt = TypeVar("Receipt")

# Says how many tasks are made of so many as would have enough to do.
ReadingTasks: TypeAlias = Callable[[int], int]

# So many tasks may be made without a look at the session.
_FEW_TASKS = 50
_TASKS_OF_A_CORE = 3
# Objects that are worth a task if each costs a request or a share of one.
_OBJECTS_OF_A_TASK = 1_000
# The most objects of a task: they may wait in memory.
_MOST_OF_A_TASK = 100_000
# Numbers in a frame that Spark cuts into a part for each core.
_MORE_THAN_CORES = 100_000

_RECEIPT = pa.schema([pa.field("receipt", pa.binary(), nullable=False)])
_RECEIPT_IN_SPARK = "receipt binary not null"


def cores(spark: SparkSession) -> int:
    """Return how many tasks of a session run at once."""
    if not connect.is_remote(spark):
        return spark.sparkContext.defaultParallelism
    # Spark cuts a range into as many parts if it is not told how many.
    parts = spark.range(_MORE_THAN_CORES).selectExpr("spark_partition_id() AS part")
    return parts.distinct().count()


def reading_tasks(wanted: int, spark: Callable[[], SparkSession]) -> int:
    """Return how many tasks reading of many files is dealt out to.

    Three for each core, so that none waits long for the slowest, and fifty at least, as executors
    may still come. Files of one task share what they have in common, so more would cost more.

    Args:
        wanted: Tasks that would have enough to do.
        spark: Gives the session, which is not started for this question.
    """
    if wanted <= _FEW_TASKS:
        return wanted
    asks = placement.are_executors_chosen() or is_started()
    at_once = cores(spark()) if asks else os.cpu_count() or 1
    return min(wanted, max(_FEW_TASKS, _TASKS_OF_A_CORE * at_once))


def one_task(wanted: int) -> int:
    """Make one task of however many, or none of none; in the place of `reading_tasks`."""
    return min(wanted, 1)


def ask_executors(
    spark: SparkSession,
    count: int,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    columns: str,
) -> list[Row]:
    """Let executors run a task on so many numbers, each by itself, and bring back its rows."""
    return spark.range(0, count, 1, count).mapInArrow(task, columns).collect()


def numbers_of_tasks(spark: SparkSession, count: int) -> DataFrame:
    """Make a frame with the number of each task in a partition of its own: all tasks begin here."""
    placement.hand_out(count, master_of(spark))
    return spark.range(0, count, 1, count)


def _given(numbers: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in numbers for number in batch.column("id").to_pylist()]


def run_tasks(
    spark: Callable[[], SparkSession],
    tasks: Sequence[Task],
    work: Callable[[int, Task], Receipt],
    *,
    rows: int,
) -> list[Receipt]:
    """Do work where `placement` says, and bring back the receipt of each task.

    Args:
        spark: Gives the session.
        tasks: One picklable value per task; none starts nothing. All of them travel with each task,
            so they name what is to be read, or hold little of it.
        work: Gets the number of the task and the task; returns a small picklable receipt. It must
            be right to do it twice: Spark runs a lost task again, and only the receipt of the last
            try comes back.
        rows: How many rows all tasks work on, for `placement.driver_works`.

    Returns:
        The receipts, in no particular order.

    Raises:
        IncompleteReadError: If a receipt got lost.
        LakegcError: The error of a task.
    """
    if placement.driver_works(rows):
        return [work(number, task) for number, task in enumerate(tasks)]
    if not tasks:
        return []
    numbers = numbers_of_tasks(spark(), len(tasks))
    found = _collected(numbers, partial(_map_tasks, tuple(tasks), work))
    if len(found) != len(tasks):
        raise IncompleteReadError(
            f"Spark brought back the receipts of {len(found)} of {len(tasks)} tasks",
            "Run again; if it stays, report it with this text and Spark's version.",
        )
    return found


def _map_tasks(
    tasks: Sequence[Task], work: Callable[[int, Task], Receipt], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for number in _given(numbers):
        yield _receipt_batch(work(number, tasks[number]))


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
    # Another thread may be importing Spark at this moment.
    of_task = getattr(sys.modules.get("pyspark"), "TaskContext", None)
    context = None if of_task is None else of_task.get()
    return None if context is None else Attempt(context.taskAttemptId(), context.attemptNumber())


def _receipt_batch(receipt: object) -> pa.RecordBatch:
    return pa.record_batch([[pickle.dumps(receipt)]], schema=_RECEIPT)


def _collected(
    frame: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> list[Any]:
    with surfacing_errors():
        rows = frame.mapInArrow(task, _RECEIPT_IN_SPARK).collect()
    # Our own tasks wrote the receipts.
    return [pickle.loads(row["receipt"]) for row in rows]  # noqa: S301 - see above


def deal_out(items: Sequence[Task], tasks: int) -> list[tuple[Task, ...]]:
    """Deal things to at most so many tasks; neighbours, often alike, go to different tasks."""
    count = min(len(items), tasks)
    return [tuple(items[number::count]) for number in range(count)]


def join_small(
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
