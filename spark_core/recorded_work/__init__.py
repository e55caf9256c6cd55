"""Work on many objects with a record of each outcome; restore and purge both use it.

This process works on few objects, tasks of Spark on many; both run the same code. The driver holds
a tally of each task, never the objects that tasks work on. An object with a recorded outcome is
done. An object without one is left to the next round. The driver's part is here, that of a task in
`task`.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import ADDRESS_HASH, hashed, with_address_hash
from spark_core.errors import IncompleteReadError, LakegcError
from spark_core.lock.held_lease import Lease
from spark_core.recorded_work.task import Gate as Gate
from spark_core.recorded_work.task import Here, run_task
from spark_core.recorded_work.task import RecordedTask as RecordedTask
from spark_core.recorded_work.task import Tally as Tally
from spark_core.recorded_work.task import TaskOrders as TaskOrders
from spark_core.recorded_work.task import Work as Work
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Exchange, Sent
from spark_core.spark.failures import spark_failures
from spark_core.spark.session import may_be_at_work
from spark_core.spark.tasks import attempt, tasks_for
from spark_core.sweep.deadline import Deadline

# A request that is sent at the last moment takes a while to end.
_LEASE_MARGIN = timedelta(seconds=30)


@dataclass(frozen=True)
class Objects:
    """The objects of some work.

    Attributes:
        sources: Rows that name them, each by the hash of an address: all of them must come.
        beside: Rows that tell more of them.
        tell: Gives the objects of a bucket: columns of `schema`, each object once.
        schema: Columns that the work reads, address among them.
        on: Columns that tell objects apart, address among them.
    """

    sources: Mapping[str, AnySource]
    beside: Mapping[str, AnySource]
    tell: Callable[[Mapping[str, pa.Table]], pa.Table]
    schema: pa.Schema
    on: Sequence[str]


def work_on(
    run: Run,
    objects: Objects,
    recorded: Sequence[Part],
    orders: TaskOrders,
    *,
    held: Lease | None = None,
    until: datetime | None = None,
) -> Tally:
    """Work on the objects that have no outcome, here or by tasks, as long as there is time.

    Args:
        run: The run.
        objects: The objects.
        recorded: What was written down of them before.
        orders: What to do.
        held: The lease; None if the work needs none. This process beats it whenever its gate is
            asked. Tasks cannot beat it: they work until shortly before it may run out, and the next
            round renews it.
        until: When the time is over at the latest; None: never.

    Returns:
        What was done. An error of the store ends a task and is part of the tally, so that what was
        done before it counts. If this process does the work, so is whatever else ends it, such as
        an interrupt: the caller must raise it.

    Raises:
        IncompleteReadError: If not all rows that name objects came, after what was done.
        LeaseLostError: If somebody else has the lease, before anything is done.
        TransientError: If the store does not tell the time, before anything is done.
    """
    # Each round spreads the objects anew, so that slow objects do not hold up the same others
    # again.
    salt = uuid.uuid4().hex
    keys = pa.schema([orders.schema.field(name) for name in objects.on])
    done = reading.source_of_parts(run.store, keys, recorded)
    sources = {
        **objects.sources,
        **objects.beside,
        "recorded": done.through(pa.schema([ADDRESS_HASH, *keys]), with_address_hash),
    }

    def exchange(
        tasks: int, work: Callable[[int, pa.Table], Tally]
    ) -> Exchange[_FoundInBucket, Tally]:
        telling = _Telling(objects.tell, objects.on, tuple(objects.sources), tasks, salt)
        return Exchange(sources, telling, objects.schema, work)

    gate = Here(run.now, until, None if held is None else held.beat)
    here = exchange(1, partial(_work_here, orders, gate))
    if here.is_for_the_driver:
        return _summed(run, objects, *here.run(lambda: run.spark, threads=run.options.read_threads))
    named = sum(source.rows for source in objects.sources.values())
    tasks = tasks_for(run.spark, named)
    if held is None:
        return _by_tasks(run, objects, exchange(tasks, partial(_work, orders, None, tasks)))
    held.beat()
    margin = min(_LEASE_MARGIN, run.options.lease_ttl / 4)
    at = min(held.expires_at - margin, until or held.expires_at)
    deadline = Deadline.after(at - run.now(), run.store)
    lost_until = held.sent_until
    held.sent_until = max(at, lost_until or at)
    total = _by_tasks(run, objects, exchange(tasks, partial(_work, orders, deadline, tasks)))
    was_retried = total.retried or total.lost
    if not total.lost and not may_be_at_work(run.spark, was_retried=was_retried):
        held.sent_until = lost_until
    return total


@dataclass(frozen=True)
class _FoundInBucket:
    """What a bucket has.

    Attributes:
        came: Rows that came of each source.
        left: Objects without an outcome.
    """

    came: Counter[str]
    left: int


@dataclass(frozen=True)
class _Telling:
    """The kernel: gives the objects of a bucket that have no outcome to tasks.

    Attributes:
        tell: As for `Objects`, like the following.
        on: Columns that tell objects apart.
        counted: Names of the sources whose rows must all come.
        tasks: How many tasks there are.
        salt: A word of this round.
    """

    tell: Callable[[Mapping[str, pa.Table]], pa.Table]
    on: Sequence[str]
    counted: Sequence[str]
    tasks: int
    salt: str

    def __call__(self, bucket: Mapping[str, pa.Table]) -> Sent[_FoundInBucket]:
        rows, recorded = self.tell(bucket), bucket["recorded"]
        if recorded.num_rows:
            rows = rows.join(recorded.select(list(self.on)), list(self.on), join_type="left anti")
        rows = rows.sort_by([(name, "ascending") for name in self.on])
        tasks = self._spread(rows["address"])
        shares = {int(one): rows.filter(pa.array(tasks == one)) for one in np.unique(tasks)}
        came = Counter({name: bucket[name].num_rows for name in self.counted})
        return Sent(_FoundInBucket(came, rows.num_rows), shares)

    def _spread(self, addresses: pa.ChunkedArray) -> Any:
        """Give each object a task."""
        salted = pc.binary_join_element_wise(addresses.combine_chunks(), self.salt, "")
        return hashed(salted).to_numpy().view(np.uint64) % np.uint64(self.tasks)


def _by_tasks(run: Run, objects: Objects, exchange: Exchange[_FoundInBucket, Tally]) -> Tally:
    try:
        receipts = exchange.run(lambda: run.spark)
    except spark_failures(LakegcError) as failure:
        return Tally(problem=failure, lost=True)
    return _summed(run, objects, *receipts)


def _summed(
    run: Run, objects: Objects, found: Sequence[_FoundInBucket], tallies: Sequence[Tally]
) -> Tally:
    total, came = Tally(found=sum(one.left for one in found)), Counter[str]()
    for one in found:
        came.update(one.came)
    for tally in tallies:
        total.add(tally)
    wanted = {name: source.rows for name, source in objects.sources.items()}
    if total.problem is None and {name: came[name] for name in wanted} != wanted:
        total.problem = IncompleteReadError(
            f"repository {run.repository.id}: of the rows that name objects to work on, "
            f"{came.total()} of {sum(wanted.values())} came; what was done is written down",
            "Run again; if it stays, report it with this text and Spark's version.",
        )
    return total


def _work_here(orders: TaskOrders, gate: Gate, _number: int, rows: pa.Table) -> Tally:
    task = RecordedTask(orders.store, gate, 1, is_retry=False)
    return run_task(orders, task, iter(rows.to_batches()), caught=BaseException)


def _work(
    orders: TaskOrders, deadline: Deadline | None, tasks: int, _number: int, rows: pa.Table
) -> Tally:
    """Work on the objects of a task; runs on an executor."""
    try:
        gate: Gate = Here(_now) if deadline is None else deadline.start(orders.store)
    except LakegcError as problem:
        return Tally(problem=problem)
    ours = attempt()
    task = RecordedTask(orders.store, gate, tasks, is_retry=ours is not None and ours.number > 0)
    return run_task(orders, task, iter(rows.to_batches()))


def _now() -> datetime:
    return datetime.now(UTC)
