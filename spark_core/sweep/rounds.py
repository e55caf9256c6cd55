"""The driver's part of a sweep: rounds of deletion, each under a good lease and second look."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from threading import Event
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, hashed, with_address_hash
from spark_core.addresses.candidates import Limits
from spark_core.errors import ChainError, CorruptTableError, TransientError
from spark_core.lock.held_lease import Lease
from spark_core.phases import Deleting
from spark_core.records import tables
from spark_core.records.figures import DeletionFigures, SecondLookFigures
from spark_core.records.journal import Journal
from spark_core.records.reading import StoredTable, load_table
from spark_core.records.writing import Receipt, write_parts
from spark_core.references import rows_aside
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, numbers_of
from spark_core.spark.session import cores, may_be_at_work, speculates
from spark_core.sweep.deadline import Deadline
from spark_core.sweep.delete_batches import (
    BATCH_ROWS,
    LOT_ROWS,
    REQUESTS_AT_ONCE,
    DeletionOrders,
    Dispose,
    Tally,
    run_task,
)
from spark_core.sweep.outcomes import are_finished
from spark_core.sweep.pacing import Rate, first_rate
from spark_core.sweep.progress import Meter, OnProgress
from spark_core.sweep.why_kept import Kept

PLANNED = pa.schema(
    [
        ADDRESS_HASH,
        *(
            schemas.EXPIRED_ADDRESSES.field(name)
            for name in ("address", "size_bytes", "last_modified", "slice")
        ),
    ]
)
_CONCLUDED = pa.schema([ADDRESS_HASH, schemas.JOURNAL.field("address")])
_OF_A_TASK = ["address", "size_bytes", "last_modified", "why"]

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
# Reports of earlier sweeps that are asked for the store's pace.
_SWEEPS_ASKED = 3


class SecondLook(Protocol):
    """The objects of a plan that something references now."""

    @property
    def began(self) -> datetime:
        """When it began, before the first byte was read, by the run's clock."""

    @property
    def kept(self) -> Kept:
        """The objects, and why they stay."""

    @property
    def figures(self) -> SecondLookFigures:
        """Figures for the report."""

    def release(self) -> None:
        """Remove what later looks of the same sweep would have read."""


# Called with the run, the plan, the tables of its mark, and what of the plan is concluded.
ReadReferences: TypeAlias = Callable[
    [Run, AnySource, Mapping[str, StoredTable], AnySource], SecondLook
]


@dataclass(frozen=True)
class SweepPlan:
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
        store_keys_per_second: Keys a second that the store takes; None: it was never busy.
    """

    tally: Tally
    rounds: int
    second_look: SecondLookFigures
    store_keys_per_second: int | None = None


def delete_in_rounds(
    run: Run,
    plan: SweepPlan,
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
                return Swept(
                    replace_unsent(rounds.total),
                    rounds.number,
                    look.figures,
                    rounds.store_keys_per_second,
                )
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
        plan: SweepPlan,
        journal: Journal,
        lease: Lease,
        *,
        tell: OnProgress,
        sent: Deleting,
    ) -> None:
        self._run, self._plan, self._journal = run, plan, journal
        self._lease, self._tell, self._sent = lease, tell, sent
        self._sweep = secrets.token_hex(6)
        self._is_here = deletes_here(plan.expired)
        self._spread = _spread(run, plan.expired.manifest.rows, is_here=self._is_here)
        self._rate = _first_rate(run, self._spread.processes)
        self._concluded = _Concluded(run, journal, self._sweep)
        self._look: SecondLook | None = None
        self._meter: Meter | None = None
        self.total, self.number = Tally(), 0

    def delete_for_one(self) -> tuple[Tally, SecondLook, timedelta]:
        """Delete for one round; return what it did, under which look, and how long it had."""
        self.number += 1
        concluded = self._concluded.read()
        look = self._good_look(concluded)
        # The look may have taken long. The beat after it shows that no other collector has begun.
        self._lease.beat()
        rows = self._plan.expired.manifest.rows
        self._meter = self._meter or Meter(rows, self._concluded.rows, self._tell)
        time_left = _time_left(self._run, look.began, self._lease)
        done = self._send(concluded, look, time_left, self._meter)
        self._report(done, self._meter)
        return done, look, time_left

    @property
    def store_keys_per_second(self) -> int | None:
        """Keys a second that the store takes from all processes; None: it was never busy."""
        paces = self.total.paces
        return round(sum(paces) / len(paces) * self._spread.processes) if paces else None

    def release(self) -> None:
        """Remove what only this process reads."""
        self._concluded.release()
        if self._look is not None:
            self._look.release()

    def _good_look(self, concluded: AnySource) -> SecondLook:
        """Return the last look, or another one if too little of its time is left."""
        if self._look is None or not _is_worth_a_round(self._run, self._look):
            plan = planned(self._plan.expired)
            read = self._plan.read_references
            self._look = read(self._run, plan, self._plan.mark, concluded)
        return self._look

    def _send(
        self, concluded: AnySource, look: SecondLook, time_left: timedelta, meter: Meter
    ) -> Tally:
        """Let tasks delete until the time is over; count what they did."""
        run, lease, spread = self._run, self._lease, self._spread
        until, lost_until = run.now() + time_left, lease.sent_until
        orders = DeletionOrders(
            journal=self._journal,
            limits=self._plan.limits,
            deadline=Deadline.after(time_left, run.store),
            sweep=self._sweep,
            round=self.number,
            deletes_per_second=spread.deletes_per_second,
            rate=self._rate,
            threads=run.options.read_threads,
            dispose=self._plan.dispose,
            lot_rows=spread.lot_rows,
            requests_at_once=spread.requests_at_once,
            tasks_lock=lease.tasks_lock,
        )
        if time_left > timedelta():
            self._sent.round_begins(until)
            lease.sent_until = max(until, lost_until or until)
        sources = {"planned": planned(self._plan.expired), "concluded": concluded}
        with meter.watching(self._journal, self._sweep, self.number):
            done = _round(run, sources, look.kept, orders, spread.tasks, is_here=self._is_here)
        self.total.add(done)
        self._sent.round_ended(self.total.objects["deleted"])
        if self._is_here or not may_be_at_work(run.spark, was_retried=done.retries > 0):
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


def planned(expired: StoredTable) -> AnySource:
    """Return the objects of a plan: columns of `PLANNED`."""
    return expired.source(PLANNED.names[1:]).through(PLANNED, with_address_hash)


def deletes_here(expired: StoredTable) -> bool:
    """Say whether the driver deletes the objects of a plan by itself."""
    return placement.driver_works(expired.manifest.rows)


class _Concluded:
    """What of a plan needs nothing more, from the journal; each part of it is read once.

    A round costs a listing of the journal's names, and the journal's parts since the round before,
    whichever process wrote them.

    Args:
        run: The run.
        journal: Journal, bound to the plan.
        sweep: Id of this process.
    """

    def __init__(self, run: Run, journal: Journal, sweep: str) -> None:
        self._run, self._journal, self._sweep = run, journal, sweep
        self._target = rows_aside.target_of(run, _CONCLUDED)
        self._parts: set[str] = set()
        self._read: list[Receipt] = []
        self.rows = 0

    def read(self) -> AnySource:
        """Return the objects: columns of `_CONCLUDED`; duplicates allowed."""
        outcomes = [part for part in self._journal.parts() if part.kind == "outcome"]
        new = [part for part in outcomes if part.key not in self._parts]
        rows = self._journal.source(new).through(_CONCLUDED, partial(_finished, self._sweep))
        self._read += rows.each(lambda: self._run.spark, partial(write_parts, self._target, 0))
        self._parts.update(part.key for part in new)
        self.rows += rows.rows
        return rows_aside.source_of(self._run, _CONCLUDED, self._read)

    def release(self) -> None:
        """Remove what was put aside."""
        rows_aside.remove(self._target, self._read)


def _finished(sweep: str, batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(are_finished(batch, sweep)).select(_CONCLUDED.names)


def _round(
    run: Run,
    sources: Mapping[str, AnySource],
    kept: Kept,
    orders: DeletionOrders,
    tasks: int,
    *,
    is_here: bool,
) -> Tally:
    """Delete what is left of a plan, as tasks; the objects of a slice are in one of them.

    Args:
        run: The run.
        sources: The objects of the plan, `planned`, and those that are `concluded`.
        kept: What something refers to now; it travels with the orders, so that none gets lost.
        orders: What to do.
        tasks: How many tasks at most.
        is_here: Whether threads of this process are the tasks.
    """
    divide = partial(_left, tasks)
    if is_here:
        sent = divide({name: each.here(orders.threads) for name, each in sources.items()})
        tallies = _side_by_side(sent.rows, orders, kept)
    else:
        delete = partial(_delete, orders, kept)
        met = Exchange(sources, divide, PLANNED, delete)
        _, tallies = met.run(lambda: run.spark, threads=orders.threads)
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _left(tasks: int, bucket: Mapping[str, pa.Table]) -> Sent[None]:
    """Divide what is left of a plan: a task must have a slice whole, since it lists the slice.

    Objects without a slice are asked for one by one.
    """
    rows, concluded = bucket["planned"], bucket["concluded"]["address"].combine_chunks()
    left = rows.filter(pc.invert(pc.is_in(rows["address"], value_set=concluded)))
    alone = numbers_of(left["address_hash"]) % _GROUPS_WITHOUT_SLICE
    together = hashed(left["slice"].combine_chunks()).to_numpy()
    is_alone = numbers_of(pc.equal(left["slice"], ""))
    numbers = np.where(is_alone, alone, together).view(np.uint64) % np.uint64(tasks)
    return Sent(
        None,
        {int(number): left.filter(pa.array(numbers == number)) for number in np.unique(numbers)},
    )


def _delete(orders: DeletionOrders, kept: Kept, number: int, rows: pa.Table) -> Tally:
    rows = rows.sort_by([("slice", "ascending"), ("address", "ascending")])
    rows = rows.append_column("why", kept.why(numbers_of(rows["address_hash"])))
    return run_task(orders, number, rows.select(_OF_A_TASK))


def _side_by_side(tasks: Mapping[int, pa.Table], orders: DeletionOrders, kept: Kept) -> list[Tally]:
    """Delete the objects of all tasks on threads; if one fails, the others send nothing more."""
    ended = Event()
    stoppable = replace(orders, is_ended=ended.is_set)

    def delete(number: int, rows: pa.Table) -> Tally:
        try:
            return _delete(stoppable, kept, number, rows)
        except BaseException:
            ended.set()
            raise

    with ThreadPoolExecutor(_cores_here(), thread_name_prefix="lakegc-task") as pool:
        try:
            return list(pool.map(delete, tasks, tasks.values()))
        finally:
            # Who interrupts the sweep need not wait for the end of the round.
            ended.set()


def _cores_here() -> int:
    return os.cpu_count() or 1


@dataclass(frozen=True)
class _Spread:
    tasks: int
    deletes_per_second: float | None
    lot_rows: int
    requests_at_once: int
    processes: int


def _spread(run: Run, rows: int, *, is_here: bool) -> _Spread:
    """Deal a plan out to tasks that all have work, and give each its share of any limit.

    With a limit there are no more tasks than can run at once now. Their shares together are the
    limit, so it also holds when the cluster grows meanwhile.
    """
    limit = run.options.max_deletes_per_second
    at_once = _cores_here() if is_here else cores(run.spark)
    batches = max(1, -(-rows // BATCH_ROWS))
    processes = 1 if is_here else min(batches, at_once)
    if limit is None:
        tasks = min(batches, max(at_once, -(-rows // _ROWS_OF_A_TASK)))
        if run.options.quarantine:
            # A copy takes time, and the look at an object that waits for its copy becomes old.
            # Copies run side by side anyway.
            return _Spread(tasks, None, BATCH_ROWS, 1, processes)
        return _Spread(tasks, None, LOT_ROWS, REQUESTS_AT_ONCE, processes)
    tasks = min(batches, at_once)
    copies = 2 if not is_here and speculates(run.spark) else 1
    return _Spread(tasks, limit / (tasks * copies), BATCH_ROWS, 1, processes)


def _first_rate(run: Run, processes: int) -> Rate | None:
    """Return the rate with which the tasks of each process begin; None: a store without a pace."""
    if run.namespace.kind == "local":
        return None
    return first_rate(_last_known_pace(run), processes)


def _last_known_pace(run: Run) -> float | None:
    """Ask the reports of the last sweeps how many keys a second the store took."""
    for key in tables.runs(run.store, tables.DELETION_REPORT.folder)[:_SWEEPS_ASKED]:
        with suppress(ChainError, CorruptTableError):
            report = load_table(run.store, tables.DELETION_REPORT, key).manifest
            known = DeletionFigures.of(report).store_keys_per_second
            if known is not None:
                return known
    return None


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
