"""The driver's part of a sweep: rounds of deletion, each under a good lease and second look."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial, reduce
from typing import Protocol, TypeAlias

import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame

from spark_core.addresses.candidates import Limits
from spark_core.errors import TransientError
from spark_core.lock.lease import Lease
from spark_core.phases import Deleting
from spark_core.records.figures import SecondLookFigures
from spark_core.records.journal import Journal
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.session import may_be_at_work, speculates, surfacing_errors
from spark_core.sweep.deadline import Deadline
from spark_core.sweep.delete_batches import (
    BATCH_ROWS,
    LOT_ROWS,
    REQUESTS_AT_ONCE,
    TALLY,
    Dispose,
    Orders,
    Tally,
    run_task,
)
from spark_core.sweep.outcomes import finished
from spark_core.sweep.progress import Meter, OnProgress

# The rows of a task wait in memory while they are sorted.
_ROWS_OF_A_TASK = 100_000
# Objects directly below data/, or at the root, have no slice. This many groups of them are spread
# over tasks.
_GROUPS_WITHOUT_SLICE = 64
# With less than this share of its time left, a look is taken again before a new round.
_WORTH_A_ROUND = 0.2
# Largest share of a look's time that is left to requests under way: the store's own client may
# repeat one.
_LONGEST_REPETITION = 0.3
# A request that is sent at the last moment stays under way for a while.
_LEASE_MARGIN = timedelta(seconds=30)
_IDLE_ROUNDS = 3


class SecondLook(Protocol):
    """The objects of a plan that something references now."""

    @property
    def began(self) -> datetime:
        """When it began, before the first byte was read, by the run's clock."""

    @property
    def frame(self) -> DataFrame:
        """Columns address (key) and why."""

    @property
    def figures(self) -> SecondLookFigures:
        """Figures for the report."""


# Called with the run, the rest of the plan, and the tables of its mark.
ReadReferences: TypeAlias = Callable[[Run, DataFrame, Mapping[str, StoredTable]], SecondLook]


@dataclass(frozen=True)
class Plan:
    """The input of a sweep.

    Attributes:
        expired: The expired addresses.
        mark: The tables of the mark, by name.
        limits: What each row is compared with.
        read_references: Finds the objects that came back to life since the mark.
        dispose: Deletes objects, or moves them to quarantine.
    """

    expired: StoredTable
    mark: Mapping[str, StoredTable]
    limits: Limits
    read_references: ReadReferences
    dispose: Dispose


@dataclass(frozen=True)
class Swept:
    """The result of one process's rounds.

    Attributes:
        tally: Objects by outcome, this process's only.
        rounds: Number of rounds.
        second_look: Figures of the last look at what is referenced.
    """

    tally: Tally
    rounds: int
    second_look: SecondLookFigures


def delete_in_rounds(
    run: Run,
    plan: Plan,
    journal: Journal,
    lease: Lease,
    tell: OnProgress,
    *,
    sent: Deleting | None = None,
) -> Swept:
    """Delete the rest of a plan.

    Args:
        run: The run.
        plan: What to delete.
        journal: Bound to the plan.
        lease: Held by this process; its `sent_until` stays set if an executor was lost.
        tell: Called with the progress.
        sent: Told what was sent, so that an error message can say what was deleted; None: nobody
            asks.

    Returns:
        What was done. Every object of the plan then has an outcome in the journal.

    Raises:
        LeaseLostError: If somebody else collects now.
        TransientError: If rounds pass without a single request, or the store does not give the
            time.
        LakegcError: The error of reading again, or of an executor; the journal stands.
    """
    sent = sent or Deleting(journal.folder)
    rounds, idle = _Rounds(run, plan, journal, lease, tell=tell, sent=sent), 0
    try:
        while True:
            done, look, time_left = rounds.delete_for_one()
            if not done.objects["unsent"]:
                return Swept(replace_unsent(rounds.total), rounds.number, look.figures)
            idle = 0 if done.concluded else idle + 1
            if idle == _IDLE_ROUNDS:
                raise _without_time(run, look, time_left)
    finally:
        rounds.release()


class _Rounds:
    """The rounds of one process: what they share, and what they did so far.

    Args:
        run: The run.
        plan: What to delete.
        journal: Bound to the plan.
        lease: Held by this process.
        tell: Called with the progress.
        sent: Told what was sent.
    """

    def __init__(
        self,
        run: Run,
        plan: Plan,
        journal: Journal,
        lease: Lease,
        *,
        tell: OnProgress,
        sent: Deleting,
    ) -> None:
        self._run, self._plan, self._journal = run, plan, journal
        self._lease, self._tell, self._sent = lease, tell, sent
        self._sweep = secrets.token_hex(6)
        self._spread = _spread(run, plan.expired.manifest.rows)
        self._remainder = _Remainder(run, plan.expired, journal, self._sweep)
        self._look: SecondLook | None = None
        self._meter: Meter | None = None
        self.total, self.number = Tally(), 0

    def delete_for_one(self) -> tuple[Tally, SecondLook, timedelta]:
        """Delete for one round; return what it did, under which look, and how long it had."""
        self.number += 1
        left = self._remainder.frame()
        look = self._good_look(left)
        # The look may have taken long. The beat after it shows that no other collector has begun.
        self._lease.beat()
        rows = self._plan.expired.manifest.rows
        self._meter = self._meter or Meter(rows, self._remainder.done, self._tell)
        time_left = _time_left(self._run, look.began, self._lease)
        done = self._send(left, look, time_left, self._meter)
        self._report(done, self._meter)
        return done, look, time_left

    def release(self) -> None:
        """Release what the executors hold."""
        self._remainder.release()
        if self._look is not None:
            self._look.frame.unpersist()

    def _good_look(self, left: DataFrame) -> SecondLook:
        """Return the last look, or another one if too little of its time is left."""
        last = self._look
        if last is not None and _is_worth_a_round(self._run, last):
            return last
        self._look = look = self._plan.read_references(self._run, left, self._plan.mark)
        # The earlier look is released only now: what it has seen alive stays alive.
        if last is not None:
            last.frame.unpersist()
        return look

    def _send(self, left: DataFrame, look: SecondLook, time_left: timedelta, meter: Meter) -> Tally:
        """Let the executors delete until the time is over; count what they did."""
        run, lease, spread = self._run, self._lease, self._spread
        until, lost_until = run.now() + time_left, lease.sent_until
        orders = Orders(
            journal=self._journal,
            limits=self._plan.limits,
            deadline=Deadline.after(time_left, run.store),
            sweep=self._sweep,
            round=self.number,
            deletes_per_second=spread.deletes_per_second,
            threads=run.options.read_threads,
            dispose=self._plan.dispose,
            lot_rows=spread.lot_rows,
            requests_at_once=spread.requests_at_once,
            tasks_lock=lease.tasks_lock,
        )
        if time_left > timedelta():
            self._sent.round_begins(until)
            lease.sent_until = max(until, lost_until or until)
        with surfacing_errors(), meter.watching(self._journal, self._sweep, self.number):
            done = _round(left, look.frame, spread.tasks, orders)
        self.total.add(done)
        self._sent.round_ended(self.total.objects["deleted"])
        if not may_be_at_work(run.spark, was_retried=done.retries > 0):
            lease.sent_until = lost_until
        return done

    def _report(self, done: Tally, meter: Meter) -> None:
        objects = self.total.objects
        meter.concluded += done.concluded
        meter.kept, meter.failed = objects["kept"], objects["refused"] + objects["failed"]
        meter.tell(self.number)


def replace_unsent(total: Tally) -> Tally:
    """Return a tally without the objects that rounds left to the next one."""
    counted = {outcome: count for outcome, count in total.objects.items() if outcome != "unsent"}
    sizes = {outcome: size for outcome, size in total.size_bytes.items() if outcome != "unsent"}
    return replace(
        total, objects=type(total.objects)(counted), size_bytes=type(total.size_bytes)(sizes)
    )


class _Remainder:
    """The rest of a plan, computed from the journal; each part of the journal is read once.

    The addresses that a part concludes stay with the executors, in memory or on their disks. A
    round costs a listing of the journal's names, the plan, and the journal's parts since the round
    before, whichever process wrote them. Parts that were lost with an executor are read again.

    Args:
        run: The run.
        expired: The plan.
        journal: Journal, bound to the plan.
        sweep: Id of this process.
    """

    def __init__(self, run: Run, expired: StoredTable, journal: Journal, sweep: str) -> None:
        self._run, self._expired, self._journal, self._sweep = run, expired, journal, sweep
        self._read: set[str] = set()
        self._finished: list[DataFrame] = []
        self.done = 0

    def frame(self) -> DataFrame:
        """Return the rest of the plan: columns of `schemas.EXPIRED_ADDRESSES`."""
        outcomes = [part for part in self._journal.parts() if part.kind == "outcome"]
        new = [part for part in outcomes if part.key not in self._read]
        if new:
            rows = self._journal.frame(self._run.spark, new)
            self._finished.append(finished(rows, self._sweep).persist())
            self._read.update(part.key for part in new)
            self.done += sum(part.rows for part in new)
        plan = self._expired.frame(self._run.spark)
        if not self._finished:
            return plan
        done = reduce(DataFrame.unionByName, self._finished)
        return plan.join(done, on="address", how="left_anti")

    def release(self) -> None:
        """Release what the executors hold."""
        for frame in self._finished:
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
    """Return the group that one task must have whole: a slice, which the task lists.

    Objects without a slice are asked for one by one.
    """
    alone = sf.pmod(sf.xxhash64("address"), sf.lit(_GROUPS_WITHOUT_SLICE)).cast("string")
    return sf.when(sf.col("slice") == "", alone).otherwise(sf.col("slice"))


@dataclass(frozen=True)
class _Spread:
    tasks: int
    deletes_per_second: float | None
    lot_rows: int
    requests_at_once: int


def _spread(run: Run, rows: int) -> _Spread:
    """Deal a plan out to tasks that all have work, and give each its share of any limit.

    With a limit there are no more tasks than can run at once now. Their shares together are the
    limit, so it also holds when the cluster grows meanwhile.
    """
    limit, at_once = run.options.max_deletes_per_second, run.spark.sparkContext.defaultParallelism
    batches = max(1, -(-rows // BATCH_ROWS))
    if limit is None:
        tasks = min(batches, max(at_once, -(-rows // _ROWS_OF_A_TASK)))
        if run.options.quarantine:
            # A copy takes time, and the look at an object that waits for its copy becomes old.
            # Copies run side by side anyway.
            return _Spread(tasks, None, BATCH_ROWS, 1)
        return _Spread(tasks, None, LOT_ROWS, REQUESTS_AT_ONCE)
    tasks = min(batches, at_once)
    return _Spread(tasks, limit / (tasks * (2 if speculates(run.spark) else 1)), BATCH_ROWS, 1)


def _time_left(run: Run, look_began: datetime, lease: Lease) -> timedelta:
    """Return how long requests may be sent: while both look and lease are good."""
    margin = min(_LEASE_MARGIN, run.options.lease_ttl / 4)
    return min(_good_until(run, look_began), lease.expires_at - margin) - run.now()


def _good_until(run: Run, look_began: datetime) -> datetime:
    """Return until when a request may begin under a look.

    The client's repetitions of the request must fall under the same look.
    """
    every = run.options.reread_every
    return look_began + every - min(run.store.options.retry_timeout, every * _LONGEST_REPETITION)


def _is_worth_a_round(run: Run, look: SecondLook) -> bool:
    least = run.options.reread_every * _WORTH_A_ROUND
    return _good_until(run, look.began) - run.now() >= least


def _without_time(run: Run, look: SecondLook, lasted: timedelta) -> TransientError:
    """Say why rounds pass without a request, and which setting lets them go on."""
    if lasted > timedelta(0):
        return TransientError(
            f"run {run.key} of {run.repository.id}: {_IDLE_ROUNDS} rounds passed without a single "
            f"deletion. The last one had {_whole(lasted)}, and no task came to its first request: "
            "each reads its part of the plan and looks at its objects before",
            f"A round lasts as long as the second look is good for ({run.options.reread_every}) or "
            f"the lease ({run.options.lease_ttl}), whichever ends first: raise lease_ttl_seconds "
            "and reread_minutes (at most 10), or give the sweep more Spark cores.",
        )
    return TransientError(
        f"run {run.key} of {run.repository.id}: {_IDLE_ROUNDS} rounds passed without a single "
        "deletion, because the time in which one may be sent was over before: refs and commits are "
        f"good for {run.options.reread_every} from when they began to be read, less what a request "
        f"may take, and that was {_whole(run.now() - look.began)} ago (a lease is good for "
        f"{run.options.lease_ttl})",
        "Give reading them more Spark cores or range_partitions, or raise reread_minutes (at most "
        "10) or lease_ttl_seconds. How long what is staged takes to read does not matter.",
    )


def _whole(time: timedelta) -> timedelta:
    return timedelta(seconds=round(time.total_seconds()))
