"""A task of recorded work: what it gets, what it counts, and what it writes down."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.errors import LakegcError
from spark_core.records.manifest import Part
from spark_core.spark.exchange import Batches
from spark_core.storage import ObjectStore
from spark_core.sweep.deadline import DeadlinePassedError

# Rows that a task holds in memory before it writes them down.
RECORD_ROWS = 50_000
# A task names at most this many objects with an error to the driver.
NAMED = 100


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


@dataclass(frozen=True)
class RecordedTask:
    """What a task works with.

    Attributes:
        store: Rooted at the namespace.
        gate: Says whether it may go on.
        tasks: So many tasks share the work.
        is_retry: Whether another attempt at this task came before.
    """

    store: ObjectStore
    gate: Gate
    tasks: int
    is_retry: bool


# Works on the objects of one task. It yields the outcomes soon after they happen, and yields
# nothing for objects that it had no time for.
Work: TypeAlias = Callable[[RecordedTask, Batches], Batches]


@dataclass(frozen=True)
class TaskOrders:
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
        found: Objects that were to be worked on.
        objects: By outcome.
        size_bytes: By outcome.
        named: Some of the objects with an error: address, outcome and cause.
        parts: What was written down.
        cut: A task ran out of time.
        problem: What ended a task early.
        lost: Nobody knows what became of the objects without an outcome: Spark lost the tasks, or
            no error of the store but an interrupt, for example, ended the work.
        retried: Another attempt had run before a task.
    """

    found: int = 0
    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    named: list[tuple[str, str, str]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    cut: bool = False
    problem: BaseException | None = None
    lost: bool = False
    retried: bool = False

    @property
    def left(self) -> int:
        """Objects that have no outcome."""
        return self.found - self.done

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
        self.found += other.found
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        self.named += other.named
        self.parts += other.parts
        self.cut = self.cut or other.cut
        self.problem = self.problem or other.problem
        self.lost = self.lost or other.lost
        self.retried = self.retried or other.retried


def run_task(
    orders: TaskOrders,
    task: RecordedTask,
    batches: Iterator[pa.RecordBatch],
    *,
    caught: type[BaseException] = LakegcError,
) -> Tally:
    """Work on the objects of one task; write down their outcomes, even if an error ends it.

    Args:
        orders: What the driver tells.
        task: What to work with.
        batches: The objects.
        caught: What becomes part of the tally. An executor raises any other error, so that Spark
            tries the task again; nobody tries again what this process does.
    """
    tally, waiting, written = Tally(), list[pa.RecordBatch](), 0

    def write() -> None:
        if waiting and orders.record is not None:
            tally.parts.append(_write(orders, waiting))
        waiting.clear()

    try:
        for outcomes in orders.work(task, batches):
            tally.count(outcomes)
            waiting.append(outcomes)
            if tally.done - written >= RECORD_ROWS:
                write()
                written = tally.done
    except caught as problem:
        tally.problem, tally.lost = problem, not isinstance(problem, LakegcError)
    try:
        write()
    except caught as problem:
        # Who interrupts must not be kept from it by an earlier error.
        if tally.problem is None or not isinstance(problem, Exception):
            tally.problem = problem
    tally.cut, tally.retried = task.gate.passed, task.is_retry
    return tally


def _write(orders: TaskOrders, outcomes: Sequence[pa.RecordBatch]) -> Part:
    whole = pa.Table.from_batches(outcomes, orders.schema).combine_chunks()
    # Another attempt at the same task must never write to the same name.
    written = orders.store.write_parquet(
        f"{orders.record}part-{uuid.uuid4().hex}.parquet", whole.to_batches(), orders.schema
    )
    return Part(written.key, written.rows, written.size_bytes, written.sha256)
