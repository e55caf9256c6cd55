"""The part of a sweep that runs on the driver: rounds of deletion, each under a lease and a second look that are still good."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial, reduce
from typing import Any, Protocol, TypeAlias

import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame

from spark_core.addresses.candidates import Limits
from spark_core.errors import TransientError
from spark_core.lock.lease import Lease
from spark_core.phases import Deleting
from spark_core.records.journal import Journal
from spark_core.records.tables import StoredTable
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.session import may_be_at_work, speculates, surfacing_errors
from spark_core.sweep.batches import BATCH_ROWS, LOT_ROWS, REQUESTS_AT_ONCE, TALLY, Dispose, Orders, Tally, run_task
from spark_core.sweep.deadline import Deadline
from spark_core.sweep.outcomes import settled
from spark_core.sweep.progress import Meter, OnProgress

# A task's rows wait in memory while they are sorted.
_ROWS_OF_A_TASK = 100_000
# Objects directly below data/, or at the root, have no slice: so many groups of them are spread over tasks.
_GROUPS_WITHOUT_SLICE = 64
# A look that has less than this share of its time left is taken again before a new round.
_WORTH_A_ROUND = 0.2
# Most of a look's time that is left to requests under way: the store's own client may send one again by itself.
_LONGEST_REPETITION = 0.3
# A request that is sent at the last moment is under way for a while.
_LEASE_MARGIN = timedelta(seconds=30)
_IDLE_ROUNDS = 3


class Look(Protocol):
    """What is referenced now of a plan."""

    @property
    def began(self) -> datetime:
        """Before the first byte was read, by the run's clock."""

    @property
    def frame(self) -> DataFrame:
        """Columns address (key) and why."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Figures for the report."""


# Gets the run, what is left of the plan, and the tables of its mark.
LookAgain: TypeAlias = Callable[[Run, DataFrame, Mapping[str, StoredTable]], Look]


@dataclass(frozen=True)
class Plan:
    """What a sweep works on.

    Attributes:
        expired: The expired addresses.
        mark: The tables of the mark, by name.
        limits: What each row is compared with.
        look_again: Finds what came back to life since the mark.
        dispose: What makes objects go.
    """

    expired: StoredTable
    mark: Mapping[str, StoredTable]
    limits: Limits
    look_again: LookAgain
    dispose: Dispose


@dataclass(frozen=True)
class Swept:
    """What the rounds of one process did.

    Attributes:
        tally: Objects by outcome, this process's only.
        rounds: How many there were.
        second_look: Facts of the last look at what is referenced.
        lost_until: Until when an executor that was lost may still work off what it was given; None if none was lost.
    """

    tally: Tally
    rounds: int
    second_look: Mapping[str, Any]
    lost_until: datetime | None = None


def delete_in_rounds(
    run: Run, plan: Plan, journal: Journal, lease: Lease, tell: OnProgress, *, sent: Deleting | None = None
) -> Swept:
    """Delete what is left of a plan.

    Args:
        run: The run.
        plan: What to delete.
        journal: Bound to the plan.
        lease: Held by this process.
        tell: Told of the progress.
        sent: Told what was sent, for the state of the world where an error ends this; None: nobody asks.

    Returns:
        What was done; every object of the plan has an outcome in the journal then.

    Raises:
        LeaseLostError: If somebody else collects now.
        TransientError: If rounds pass without a single request, or the store does not tell the time.
        LakegcError: What reading again, or an executor, raised; what is journaled stands.
    """
    sweep, total, number, idle = secrets.token_hex(6), Tally(), 0, 0
    look: Look | None = None
    meter: Meter | None = None
    spread = _spread(run, plan.expired.manifest.rows)
    lost_until: datetime | None = None
    remainder = _Remainder(run, plan.expired, journal, sweep)
    sent = sent or Deleting(journal.folder)
    try:
        while True:
            number += 1
            left = remainder.frame()
            if look is None or _good_until(run, look.began) - run.now() < run.options.reread_every * _WORTH_A_ROUND:
                # The look before is let go of only then: what it has seen alive stays alive.
                last, look = look, plan.look_again(run, left, plan.mark)
                if last is not None:
                    last.frame.unpersist()
            # After the look, which may have taken long: this is what tells that nobody else has begun.
            lease.beat()
            meter = meter or Meter(plan.expired.manifest.rows, remainder.done, tell)
            time_left = _time_left(run, look.began, lease)
            until = run.now() + time_left
            orders = Orders(
                journal=journal,
                limits=plan.limits,
                deadline=Deadline.after(time_left, run.store),
                sweep=sweep,
                round=number,
                deletes_per_second=spread.deletes_per_second,
                threads=run.options.read_threads,
                dispose=plan.dispose,
                lot_rows=spread.lot_rows,
                requests_at_once=spread.requests_at_once,
            )
            if time_left > timedelta():
                sent.round_begins(until)
            with surfacing_errors(), meter.watching(journal, sweep, number):
                told = _round(left, look.frame, spread.tasks, orders)
            total.add(told)
            sent.round_ended(total.objects["deleted"])
            if may_be_at_work(run.spark, was_retried=told.retries > 0):
                lost_until = until
            meter.settled += told.settled
            meter.kept, meter.failed = total.objects["kept"], total.objects["refused"] + total.objects["failed"]
            meter.tell(number)
            if not told.objects["unsent"]:
                return Swept(replace_unsent(total), number, look.facts, lost_until)
            idle = 0 if told.settled else idle + 1
            if idle == _IDLE_ROUNDS:
                raise _without_time(run, look, time_left)
    finally:
        remainder.release()
        if look is not None:
            look.frame.unpersist()


def replace_unsent(total: Tally) -> Tally:
    """Return a tally without what rounds left to the next one."""
    counted = {outcome: count for outcome, count in total.objects.items() if outcome != "unsent"}
    sizes = {outcome: size for outcome, size in total.size_bytes.items() if outcome != "unsent"}
    return replace(total, objects=type(total.objects)(counted), size_bytes=type(total.size_bytes)(sizes))


class _Remainder:
    """What is left of a plan, told from the journal, of which each part is read once.

    What a part settles stays with the executors, in memory or on their disks: the
    address of each object that is done. A round costs a listing of the journal's
    names, the plan, and the parts that were written since the round before, by
    whichever process; parts that an executor took with it are read again.

    Args:
        run: The run.
        expired: The plan.
        journal: Bound to it.
        sweep: Id of this process.
    """

    def __init__(self, run: Run, expired: StoredTable, journal: Journal, sweep: str) -> None:
        self._run, self._expired, self._journal, self._sweep = run, expired, journal, sweep
        self._read: set[str] = set()
        self._settled: list[DataFrame] = []
        self.done = 0

    def frame(self) -> DataFrame:
        """Return what is left now: columns of `schemas.EXPIRED_ADDRESSES`."""
        outcomes = [part for part in self._journal.parts() if part.kind == "outcome"]
        new = [part for part in outcomes if part.key not in self._read]
        if new:
            rows = self._journal.frame(self._run.spark, new)
            self._settled.append(settled(rows, self._sweep).persist())
            self._read.update(part.key for part in new)
            self.done += sum(part.rows for part in new)
        plan = self._expired.frame(self._run.spark)
        if not self._settled:
            return plan
        done = reduce(DataFrame.unionByName, self._settled)
        return plan.join(done, on="address", how="left_anti")

    def release(self) -> None:
        """Let go of what the executors hold."""
        for frame in self._settled:
            frame.unpersist()


def _round(left: DataFrame, referenced: DataFrame, tasks: int, orders: Orders) -> Tally:
    frame = (
        left.join(referenced.select("address", "why"), on="address", how="left")
        .repartition(tasks, _together())
        .sortWithinPartitions("slice", "address")
        .select("address", "size_bytes", "last_modified", "why")
        .mapInArrow(partial(run_task, orders), spark_type(TALLY))
    )
    total = Tally()
    for row in frame.collect():
        total.add(Tally.from_json(row["tally"]))
    return total


def _together() -> Column:
    """Name what one task must have whole: a slice, which it lists; objects without one are asked for one by one."""
    alone = sf.pmod(sf.xxhash64("address"), sf.lit(_GROUPS_WITHOUT_SLICE)).cast("string")
    return sf.when(sf.col("slice") == "", alone).otherwise(sf.col("slice"))


@dataclass(frozen=True)
class _Spread:
    tasks: int
    deletes_per_second: float | None
    lot_rows: int
    requests_at_once: int


def _spread(run: Run, rows: int) -> _Spread:
    """Put a plan into tasks that have something to do, and give each its share of the limit, if there is one.

    With a limit there are no more tasks than can run at once now: the shares of
    all of them together are the limit, so it holds as well when the cluster
    grows under way.
    """
    limit, at_once = run.options.max_deletes_per_second, run.spark.sparkContext.defaultParallelism
    batches = max(1, -(-rows // BATCH_ROWS))
    if limit is None:
        tasks = min(batches, max(at_once, -(-rows // _ROWS_OF_A_TASK)))
        if run.options.quarantine:
            # A copy takes its time, and what was seen of an object that waits for one becomes old; copies go side by side anyway.
            return _Spread(tasks, None, BATCH_ROWS, 1)
        return _Spread(tasks, None, LOT_ROWS, REQUESTS_AT_ONCE)
    tasks = min(batches, at_once)
    return _Spread(tasks, limit / (tasks * (2 if speculates(run.spark) else 1)), BATCH_ROWS, 1)


def _time_left(run: Run, look_began: datetime, lease: Lease) -> timedelta:
    """Return how long requests may be sent: under a look and under a lease that are both good."""
    margin = min(_LEASE_MARGIN, run.options.lease_ttl / 4)
    return min(_good_until(run, look_began), lease.expires_at - margin) - run.now()


def _good_until(run: Run, look_began: datetime) -> datetime:
    """Return until when a request may begin under a look, so that its repetitions by the client fall under it, too."""
    every = run.options.reread_every
    return look_began + every - min(run.store.options.retry_timeout, every * _LONGEST_REPETITION)


def _without_time(run: Run, look: Look, lasted: timedelta) -> TransientError:
    """Say why rounds go by in which nothing is sent, and which setting lets them go on."""
    if lasted > timedelta(0):
        return TransientError(
            f"run {run.key} of {run.repository.id}: {_IDLE_ROUNDS} rounds passed without a single deletion. The last one had "
            f"{_whole(lasted)}, and no task came to its first request: each reads its part of the plan and looks at its "
            "objects before",
            "A round lasts as long as the second look is good for "
            f"({run.options.reread_every}) or the lease ({run.options.lease_ttl}), whichever ends first: raise "
            "lease_ttl_seconds and reread_minutes (at most 10), or give the sweep more Spark cores.",
        )
    return TransientError(
        f"run {run.key} of {run.repository.id}: {_IDLE_ROUNDS} rounds passed without a single deletion, because the time in which "
        f"one may be sent was over before: refs and commits are good for {run.options.reread_every} from when they began to be "
        f"read, less what a request may take, and that was {_whole(run.now() - look.began)} ago (a lease is good for "
        f"{run.options.lease_ttl})",
        "Give reading them more Spark cores or range_partitions, or raise "
        "reread_minutes (at most 10) or lease_ttl_seconds. How long what is staged takes to read does not matter.",
    )


def _whole(time: timedelta) -> timedelta:
    return timedelta(seconds=round(time.total_seconds()))
