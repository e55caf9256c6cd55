"""Sources and sinks of Arrow batches on Spark's Python Data Source API: the only way frames touch a store.

No Hadoop file system and no jars: what a partition reads or writes is a plain
Python function over a store, shipped to the executors with the source.
"""

from __future__ import annotations

import itertools
import os
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from spark_core.schemas import spark_type
from spark_core.session import surfacing_errors

Task = TypeVar("Task")
Written = TypeVar("Written")

_names = itertools.count()

# Objects that are worth a task where each costs a request, or a share of one ...
_OBJECTS_OF_A_TASK = 1_000
# ... and most of them: a task's objects may wait in memory.
_MOST_OF_A_TASK = 100_000


@dataclass
class _Partition(InputPartition):
    task: Any


@dataclass
class _Message(WriterCommitMessage):
    written: Any


def frame_of(spark: SparkSession, rows: pa.Table, columns: StructType | None = None) -> DataFrame:
    """Make a frame of rows that the driver holds; the only way from Arrow to Spark here.

    Spark stops reading at the first batch without rows and drops those behind it, without a word, so it is given none.

    Args:
        spark: The session.
        rows: In chunks of any size.
        columns: Their types in Spark; by default as Spark reads them.

    Returns:
        A frame with exactly these rows.
    """
    batches = [batch for batch in rows.combine_chunks().to_batches() if batch.num_rows]
    whole = pa.Table.from_batches(batches, rows.schema)
    return spark.createDataFrame(whole) if columns is None else spark.createDataFrame(whole, columns)


def read_partitions(
    spark: SparkSession,
    schema: pa.Schema,
    tasks: Sequence[Task],
    read: Callable[[Task], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """Make a frame whose partitions are read on the executors, lazily and streaming.

    Args:
        spark: The session.
        schema: Columns of every batch that `read` yields.
        tasks: One picklable value per partition; none gives an empty frame.
        read: Yields the batches of one partition. Runs on an executor.

    Returns:
        A frame with the columns of `schema`, one partition per task.
    """
    if not tasks:
        return frame_of(spark, schema.empty_table())
    columns = spark_type(schema)
    unique = f"lakegc_source_{os.getpid()}_{next(_names)}"

    class Reader(DataSourceReader):
        def __init__(self, partitions: Sequence[InputPartition]) -> None:
            self._partitions = partitions

        def __getstate__(self) -> dict[str, Any]:
            """Leave the others' partitions behind: Spark sends the reader along with each of them."""
            return {"_partitions": ()}

        def partitions(self) -> Sequence[InputPartition]:
            return self._partitions

        def read(self, partition: InputPartition) -> Iterator[Any]:
            assert isinstance(partition, _Partition)  # noqa: S101 - Spark hands back what `partitions` gave
            for batch in read(partition.task):
                yield batch.cast(schema)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return unique

        def schema(self) -> StructType:
            return columns

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the API's signature
            return Reader([_Partition(task) for task in tasks])

    spark.dataSource.register(Source)
    return spark.read.format(unique).load()


def tasks_for(spark: SparkSession, objects: int) -> int:
    """Say how many tasks ask the store about so many objects: all cores if there is work for them, and no empty ones."""
    at_once = spark.sparkContext.defaultParallelism
    return max(1, min(-(-objects // _OBJECTS_OF_A_TASK), max(at_once, -(-objects // _MOST_OF_A_TASK))))


def write_partitions(
    frame: DataFrame,
    write: Callable[[int, Iterator[pa.RecordBatch]], Written],
    abandon: Callable[[list[Written]], None],
) -> list[Written]:
    """Run a frame and write each of its partitions on the executors, in two phases.

    Args:
        frame: What to write; this is the action that runs it.
        write: Gets the partition's number and its batches, writes them and returns a picklable receipt.
        abandon: Gets the receipts of a write that failed as a whole, to take its parts away again.

    Returns:
        The receipts of all partitions, in no particular order.

    Raises:
        LakegcError: What an executor raised.
    """
    unique = f"lakegc_sink_{os.getpid()}_{next(_names)}"
    # Spark runs `commit` in a Python worker beside the driver, so the receipts come back through a file there.
    handle, receipts_path = tempfile.mkstemp(prefix="lakegc-receipts-")
    os.close(handle)

    class Writer(DataSourceArrowWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            from pyspark import TaskContext

            context = TaskContext.get()
            number = context.partitionId() if context is not None else 0
            return _Message(write(number, iterator))

        def commit(self, messages: list[WriterCommitMessage | None]) -> None:
            written = [message.written for message in messages if isinstance(message, _Message)]
            Path(receipts_path).write_bytes(pickle.dumps(written))

        def abort(self, messages: list[WriterCommitMessage | None]) -> None:
            abandon([message.written for message in messages if isinstance(message, _Message)])

    class Sink(DataSource):
        @classmethod
        def name(cls) -> str:
            return unique

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002, FBT001 - the API's signature
            return Writer()

    try:
        frame.sparkSession.dataSource.register(Sink)
        with surfacing_errors():
            frame.write.format(unique).mode("append").save()
        loaded: list[Written] = pickle.loads(Path(receipts_path).read_bytes())  # noqa: S301 - written by our own sink above
        return loaded
    finally:
        Path(receipts_path).unlink()


def rebalanced(frame: DataFrame) -> DataFrame:
    """Let adaptive execution choose in how many partitions a result comes, by its size; without it nothing changes.

    For what is left of a join with something that is held: Spark does not join the partitions of such a one, however few rows
    are in them. It costs a shuffle of the result, so it is for those that are much smaller than what they are made of.
    """
    return frame.hint("rebalance")


def interleaved(
    tasks: Sequence[Task], read: Callable[[Task], Iterator[pa.RecordBatch]], *, threads: int = 8
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of many tasks, several read at once; their order is not kept.

    Listings and range reads wait for the store most of the time. The queue is
    bounded, so a slow consumer holds the readers back and memory stays small.

    Args:
        tasks: What to read.
        read: Yields the batches of one task; runs on a thread.
        threads: How many tasks are read at once.

    Yields:
        Every batch of every task.

    Raises:
        BaseException: The first failure of any task; the others are stopped.
    """
    if len(tasks) == 1:
        yield from read(tasks[0])
        return
    queue: Queue[pa.RecordBatch] = Queue(maxsize=2 * threads)
    stopped = Event()

    def run(task: Task) -> None:
        for batch in read(task):
            while not stopped.is_set():
                with suppress(Full):
                    queue.put(batch, timeout=0.1)
                    break
            if stopped.is_set():
                # Nobody waits for what is behind it.
                return

    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="lakegc-read") as pool:
        running: list[Future[None]] = [pool.submit(run, task) for task in tasks]
        try:
            while running or not queue.empty():
                with suppress(Empty):
                    yield queue.get(timeout=0.02)
                    continue
                for future in running:
                    if future.done():
                        future.result()
                running = [future for future in running if not future.done()]
        finally:
            stopped.set()
            for future in running:
                future.cancel()


@dataclass(frozen=True)
class Settled:
    """A frame that was run, and that may be read again without running it again.

    Attributes:
        frame: The frame.
        rows: Its rows, where they are few enough for the driver; None where they stay with the executors.
    """

    frame: DataFrame
    rows: pa.Table | None

    def release(self) -> None:
        """Let go of what the executors hold of it."""
        if self.rows is None:
            self.frame.unpersist()


def settled(frame: DataFrame, *, is_small: bool) -> Settled:
    """Keep the result of a frame that several queries read.

    A small result comes to the driver: queries of a local relation are planned
    in a moment, and many are answered without a job. On a few rows that is most of the time.

    Args:
        frame: What to keep.
        is_small: Whether its inputs bound the result to what the driver may hold, as `StoredTable.is_small`.

    Returns:
        The same rows: run now when small, else kept by the executors when they are first read.
    """
    if not is_small:
        return Settled(frame.persist(), None)
    rows = frame.toArrow()
    return Settled(frame_of(frame.sparkSession, rows, frame.schema), rows)


class _AddCounts(AccumulatorParam["Counter[str]"]):
    def zero(self, value: Counter[str]) -> Counter[str]:  # noqa: ARG002 - the API's signature
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802 - the API's name
        value1.update(value2)
        return value1


def shared_counts(spark: SparkSession) -> Accumulator[Counter[str]]:
    """Make counts that executors add to and the driver reads; a retried task may count twice."""
    return spark.sparkContext.accumulator(Counter(), _AddCounts())


@contextmanager
def counting(total: Accumulator[Counter[str]], requests: Counter[str]) -> Iterator[None]:
    """Add to a total what happened to a store's own counts inside the block.

    Args:
        total: From `shared_counts`.
        requests: The store's running counts by kind in this process.
    """
    before = Counter(requests)
    try:
        yield
    finally:
        total.add(Counter(requests) - before)
