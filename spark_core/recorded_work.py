"""Work on many objects with a record of each outcome; restore and purge both use it.

This process works on a few objects, tasks of Spark on more; both run the same code. The driver
holds a tally of each task, never the objects. An object with a recorded outcome is done. An object
without one is left to the next round.
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
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.session import may_be_at_work, surfacing_errors
from spark_core.spark.tasks import tasks_for
from spark_core.storage import ObjectStore
from spark_core.sweep.deadline import Deadline, DeadlinePassedError

# Rows that a task holds in memory before it writes them down.
RECORD_ROWS = 50_000
# A task names at most this many objects with an error to the driver.
NAMED = 100
# A request that is sent at the last moment takes a while to end.
_LEASE_MARGIN = timedelta(seconds=30)

_TALLY = pa.schema([pa.field("tally", pa.binary(), nullable=False)])

# Objects: a few are held by the driver, more by executors.
Rows: TypeAlias = pa.Table | DataFrame


class Gate(Protocol):
    """Says whether a task may go on."""

    @property
    def passed(self) -> bool:
        """Whether nothing more may be sent."""

    def require(self) -> None:
        """Refuse to go on once the time has passed.

        Raises:
            DeadlinePassedError: If the time has passed.
        """

    def now(self) -> datetime:
        """Tell the time."""


@dataclass(frozen=True)
class Here:
    """The gate of work in this process, which can ask the lease each time.

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
        """Refuse to go on once the time has passed or the lease is lost."""
        if self.beat is not None:
            self.beat()
        # The time is asked after the beat, which may have taken long.
        if self.passed:
            raise DeadlinePassedError


# Works on the objects of one task. It yields the outcomes soon after they happen, and yields
# nothing for objects that it had no time for.
Work: TypeAlias = Callable[[ObjectStore, Gate, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Orders:
    """What the driver tells every task.

    Attributes:
        store: Rooted at the namespace.
        work: What is done.
        schema: Columns of what `work` yields: address, size_bytes and outcome among them.
        record: Folder of the record, ending in a slash; None: nothing is written down.
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
        named: Some of the objects with an error: address, outcome and cause.
        parts: What was written down.
        cut: A task ran out of time.
        problem: What ended a task early.
        lost: Spark lost the tasks, so nobody knows what they did.
        retried: Another attempt had run before a task.
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

    def count(self, outcomes: pa.RecordBatch) -> None:
        """Add the outcomes of some objects."""
        figures = (
            pa.Table.from_batches([outcomes])
            .group_by("outcome")
            .aggregate([("size_bytes", "sum"), ("address", "count")])
        )
        for row in figures.to_pylist():
            self.objects[row["outcome"]] += row["address_count"]
            self.size_bytes[row["outcome"]] += row["size_bytes_sum"]
        if "error" in outcomes.schema.names and len(self.named) < NAMED:
            wrong = (
                outcomes.filter(pc.is_valid(outcomes.column("error")))
                .slice(0, NAMED - len(self.named))
                .to_pylist()
            )
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
    run: Run,
    rows: Rows,
    count: int,
    orders: Orders,
    *,
    held: Lease | None = None,
    until: datetime | None = None,
) -> Tally:
    """Work on objects, here or by tasks, as long as there is time.

    Args:
        run: The run.
        rows: The objects; columns as `orders.work` reads them, address among them.
        count: How many.
        orders: What to do.
        held: The lease; None if the work needs none. This process beats it whenever its gate is
            asked. Tasks cannot beat it: they work until shortly before it may run out, and the next
            round renews it.
        until: When the time is over at the latest; None: never.

    Returns:
        What was done. An error of the store ends a task and is part of the tally, so that what was
        done before it counts.

    Raises:
        LeaseLostError: If somebody else has the lease, before anything is done.
        TransientError: If the store does not tell the time, before anything is done.
    """
    if isinstance(rows, pa.Table):
        gate = Here(run.now, until, None if held is None else held.beat)
        return run_task(orders, gate, iter(rows.to_batches()))
    if held is None:
        return _by_tasks(run, rows, count, partial(_map_task, orders, None))
    held.beat()
    margin = min(_LEASE_MARGIN, run.options.lease_ttl / 4)
    at = min(held.expires_at - margin, until or held.expires_at)
    deadline = Deadline.after(at - run.now(), run.store)
    lost_until = held.sent_until
    held.sent_until = max(at, lost_until or at)
    total = _by_tasks(run, rows, count, partial(_map_task, orders, deadline))
    was_retried = total.retried or total.lost
    if not total.lost and not may_be_at_work(run.spark, was_retried=was_retried):
        held.sent_until = lost_until
    return total


def _by_tasks(
    run: Run,
    rows: DataFrame,
    count: int,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Tally:
    # Each round spreads the objects anew, so that slow objects do not hold up the same others
    # again.
    spread = sf.xxhash64("address", sf.lit(uuid.uuid4().hex))
    outcomes = rows.repartition(tasks_for(run.spark, count), spread).mapInArrow(
        task, spark_type(_TALLY)
    )
    total = Tally()
    try:
        with surfacing_errors():
            tallies = outcomes.collect()
    except (LakegcError, PySparkException, Py4JJavaError) as failure:
        return Tally(problem=failure, lost=True)
    for row in tallies:
        total.add(pickle.loads(row["tally"]))  # noqa: S301 - written by our own task below
    return total


def _map_task(
    orders: Orders, deadline: Deadline | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
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
    """Work on the objects of one task; write down their outcomes, even if an error ends it."""
    tally, waiting, written = Tally(), list[pa.RecordBatch](), 0

    def write() -> None:
        if waiting and orders.record is not None:
            tally.parts.append(_write(orders, waiting))
        waiting.clear()

    try:
        for outcomes in orders.work(orders.store, gate, batches):
            tally.count(outcomes)
            waiting.append(outcomes)
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


def _write(orders: Orders, outcomes: Sequence[pa.RecordBatch]) -> Part:
    whole = pa.Table.from_batches(outcomes, orders.schema).combine_chunks()
    # Another attempt at the same task must never write to the same name.
    written = orders.store.write_parquet(
        f"{orders.record}part-{uuid.uuid4().hex}.parquet", whole.to_batches(), orders.schema
    )
    return Part(written.key, written.rows, written.size_bytes, written.sha256)


def without(
    run: Run, rows: Rows, parts: Sequence[Part], schema: pa.Schema, on: Sequence[str]
) -> Rows:
    """Return the objects that have no recorded outcome.

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
        batches = [batch for part in parts for batch in reading.read_part(run.store, keys, part)]
        left = rows.join(pa.Table.from_batches(batches, keys), list(on), join_type="left anti")
        return left.sort_by([(name, "ascending") for name in on])
    return rows.join(
        reading.frame_of_parts(run.spark, run.store, keys, parts), on=list(on), how="left_anti"
    )
