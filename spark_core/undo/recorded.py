"""Work on many objects that writes down what became of each: what a restore and a purge have in common.

A few objects are worked on by this process, more by tasks of Spark; both run
the same code. The driver holds a tally of each task, never the objects. What a
task wrote down is done; what nobody wrote down is left to the next round.
"""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_core.errors import LakegcError
from spark_core.lock.lease import Lease
from spark_core.records import tables
from spark_core.records.tables import Part
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.session import may_be_at_work, surfacing_errors
from spark_core.spark.tasks import tasks_for
from spark_core.storage import ObjectStore
from spark_core.sweep.deadline import Deadline, DeadlinePassedError

# Rows that wait in a task's memory until they are written down.
RECORD_ROWS = 50_000
# Objects that a task names to the driver, of those that something is wrong with.
NAMED = 100
# A request that is sent at the last moment is under way for a while.
_LEASE_MARGIN = timedelta(seconds=30)

_TALLY = pa.schema([pa.field("tally", pa.binary(), nullable=False)])

# Objects: held by the driver where they are few, else by executors.
Rows: TypeAlias = pa.Table | DataFrame


class Gate(Protocol):
    """Says whether a task may go on."""

    @property
    def passed(self) -> bool:
        """Whether nothing more may be sent."""

    def require(self) -> None:
        """Refuse to go on once it has passed.

        Raises:
            DeadlinePassedError: If it has.
        """

    def now(self) -> datetime:
        """Tell the time."""


@dataclass(frozen=True)
class Here:
    """The gate of work that this process does itself: it can ask the lease each time.

    Attributes:
        now: Tells the time.
        until: When the gate closes; None: never.
        beat: Proves that the lease is held.
    """

    now: Callable[[], datetime]
    until: datetime | None = None
    beat: Callable[[], None] | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing more may be sent."""
        return self.until is not None and self.now() >= self.until

    def require(self) -> None:
        """Refuse to go on once it has passed, or the lease is lost."""
        if self.beat is not None:
            self.beat()
        # Only now: the beat may have taken long.
        if self.passed:
            raise DeadlinePassedError


# Works on the objects of one task; yields what became of those that there was time for, soon after it happened.
Work: TypeAlias = Callable[[ObjectStore, Gate, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Orders:
    """What the driver tells every task.

    Attributes:
        store: Rooted at the namespace.
        work: What is done.
        schema: Columns of what `work` yields: address, size_bytes and outcome among them.
        record: Folder that it is written down in, ending in a slash; None: nowhere.
    """

    store: ObjectStore
    work: Work
    schema: pa.Schema
    record: str | None


@dataclass
class Tally:
    """What tasks did, as far as the driver needs it.

    Attributes:
        objects: By outcome.
        size_bytes: By outcome.
        named: Some of those that something is wrong with: address, outcome and cause.
        parts: What was written down.
        cut: The time was over for a task.
        problem: What ended a task early.
        lost: Nobody knows what the tasks did: Spark lost them.
        retried: A task was an attempt that another one had come before.
    """

    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    named: list[tuple[str, str, str]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    cut: bool = False
    problem: LakegcError | PySparkException | Py4JJavaError | None = None
    lost: bool = False
    retried: bool = False

    @property
    def done(self) -> int:
        """Objects that have an outcome."""
        return self.objects.total()

    def count(self, told: pa.RecordBatch) -> None:
        """Add what became of some objects."""
        figures = (
            pa.Table.from_batches([told]).group_by("outcome").aggregate([("size_bytes", "sum"), ("address", "count")])
        )
        for row in figures.to_pylist():
            self.objects[row["outcome"]] += row["address_count"]
            self.size_bytes[row["outcome"]] += row["size_bytes_sum"]
        if "error" in told.schema.names and len(self.named) < NAMED:
            wrong = told.filter(pc.is_valid(told.column("error"))).slice(0, NAMED - len(self.named)).to_pylist()
            self.named += [(row["address"], row["outcome"], row["error"]) for row in wrong]

    def add(self, other: Tally) -> None:
        """Add what another task did."""
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        self.named += other.named
        self.parts += other.parts
        self.cut = self.cut or other.cut
        self.problem = self.problem or other.problem
        self.lost = self.lost or other.lost
        self.retried = self.retried or other.retried


def work_on(
    run: Run, rows: Rows, count: int, orders: Orders, *, held: Lease | None = None, until: datetime | None = None
) -> Tally:
    """Work on objects, here or by tasks, as long as there is time.

    Args:
        run: The run.
        rows: The objects; columns as `orders.work` reads them, address among them.
        count: How many.
        orders: What to do.
        held: The lease; None where nothing is done that needs one. This process beats it whenever its gate is asked. Tasks
            cannot: they work until shortly before it may run out, and the next round renews it.
        until: When the time is over at the latest; None: never.

    Returns:
        What was done. An error of the store ends a task and is part of the tally, so that what was done before it counts.

    Raises:
        LeaseLostError: If somebody else has the lease, before anything is done.
        TransientError: If the store does not tell the time, before anything is done.
    """
    if isinstance(rows, pa.Table):
        gate = Here(run.now, until, None if held is None else held.beat)
        return run_task(orders, gate, iter(rows.to_batches()))
    deadline = at = None
    if held is not None:
        held.beat()
        margin = min(_LEASE_MARGIN, run.options.lease_ttl / 4)
        at = min(held.expires_at - margin, until or held.expires_at)
        deadline = Deadline.after(at - run.now(), run.store)
    total = _by_tasks(run, rows, count, partial(_map_task, orders, deadline))
    # Until its time is over.
    if held is not None and at is not None and may_be_at_work(run.spark, was_retried=total.retried or total.lost):
        held.leave_under_way(at)
    return total


def _by_tasks(
    run: Run, rows: DataFrame, count: int, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> Tally:
    # Spread anew each time, so that what takes long does not stand before the same objects again.
    spread = sf.xxhash64("address", sf.lit(uuid.uuid4().hex))
    told = rows.repartition(tasks_for(run.spark, count), spread).mapInArrow(task, spark_type(_TALLY))
    total = Tally()
    try:
        with surfacing_errors():
            rows_told = told.collect()
    except (LakegcError, PySparkException, Py4JJavaError) as failure:
        return Tally(problem=failure, lost=True)
    for row in rows_told:
        total.add(pickle.loads(row["tally"]))  # noqa: S301 - written by our own task below
    return total


def _map_task(orders: Orders, deadline: Deadline | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        gate: Gate = Here(_now) if deadline is None else deadline.start(orders.store)
    except LakegcError as problem:
        tally = Tally(problem=problem)
    else:
        tally = run_task(orders, gate, batches)
    yield pa.record_batch([[pickle.dumps(tally)]], schema=_TALLY)


def _now() -> datetime:
    return datetime.now(UTC)


def run_task(orders: Orders, gate: Gate, batches: Iterator[pa.RecordBatch]) -> Tally:
    """Work on the objects of one task, and write down what became of them, also where an error ends it."""
    tally, waiting, written = Tally(), list[pa.RecordBatch](), 0

    def write() -> None:
        if waiting and orders.record is not None:
            tally.parts.append(_write(orders, waiting))
        waiting.clear()

    try:
        for told in orders.work(orders.store, gate, batches):
            tally.count(told)
            waiting.append(told)
            if tally.done - written >= RECORD_ROWS:
                write()
                written = tally.done
    except LakegcError as problem:
        tally.problem = problem
    try:
        write()
    except LakegcError as problem:
        tally.problem = tally.problem or problem
    context = TaskContext.get()
    tally.cut, tally.retried = gate.passed, context is not None and context.attemptNumber() > 0
    return tally


def _write(orders: Orders, told: Sequence[pa.RecordBatch]) -> Part:
    whole = pa.Table.from_batches(told, orders.schema).combine_chunks()
    # Another attempt at the same task must never write to the same name.
    written = orders.store.write_parquet(
        f"{orders.record}part-{uuid.uuid4().hex}.parquet", whole.to_batches(), orders.schema
    )
    return Part(written.key, written.rows, written.size_bytes, written.sha256)


def without(run: Run, rows: Rows, parts: Sequence[Part], schema: pa.Schema, on: Sequence[str]) -> Rows:
    """Return the objects that nothing is written down of.

    Args:
        run: The run.
        rows: The objects.
        parts: What was written down.
        schema: Columns of the parts.
        on: Columns that tell objects apart.
    """
    if not parts:
        return rows
    keys = pa.schema([schema.field(name) for name in on])
    if isinstance(rows, pa.Table):
        batches = [batch for part in parts for batch in tables.read_part(run.store, keys, part)]
        left = rows.join(pa.Table.from_batches(batches, keys), list(on), join_type="left anti")
        return left.sort_by([(name, "ascending") for name in on])
    return rows.join(tables.frame_of_parts(run.spark, run.store, keys, parts), on=list(on), how="left_anti")
