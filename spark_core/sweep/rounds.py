"""The driver's part of a sweep: rounds of deletion, each under a good lease and second look."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from spark_core import lakegc_keys
from spark_core.addresses.candidates import Limits
from spark_core.interrupts import to_its_end
from spark_core.lock.held_lease import Lease
from spark_core.phases import Deleting
from spark_core.records.figures import SecondLookFigures
from spark_core.records.journal import Journal
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.exchange import AnySource
from spark_core.spark.session import may_be_at_work
from spark_core.sweep.concluded import Concluded
from spark_core.sweep.deadline import Deadline
from spark_core.sweep.deletion_orders import DeletionOrders, Dispose, Tally
from spark_core.sweep.progress import Meter, OnProgress
from spark_core.sweep.spread import rate_to_begin_with, spread_of
from spark_core.sweep.stop_sign import StopSign
from spark_core.sweep.tasks_of_a_round import delete_as_tasks, objects_of_plan
from spark_core.sweep.time_of_a_round import (
    IDLE_ROUNDS,
    is_worth_a_round,
    time_left_of,
    without_time,
)
from spark_core.sweep.why_kept import Kept


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
                    without_unsent(rounds.total),
                    rounds.number,
                    look.figures,
                    rounds.store_keys_per_second,
                )
            idle = 0 if done.concluded else idle + 1
            if idle == IDLE_ROUNDS:
                raise without_time(run, look.began, time_left)
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
        self._spread = spread_of(run, plan.expired.manifest.rows, is_here=self._is_here)
        self._rate = rate_to_begin_with(run, self._spread.processes)
        self._concluded = Concluded(run, journal, self._sweep)
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
        time_left = time_left_of(self._run, look.began, self._lease)
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
        if self._look is None or not is_worth_a_round(self._run, self._look.began):
            plan = objects_of_plan(self._plan.expired)
            read = self._plan.read_references
            self._look = read(self._run, plan, self._plan.mark, concluded)
        return self._look

    def _send(
        self, concluded: AnySource, look: SecondLook, time_left: timedelta, meter: Meter
    ) -> Tally:
        """Let tasks delete until the time is over; count what they did."""
        run, lease, spread = self._run, self._lease, self._spread
        now, lost_until = run.now(), lease.sent_until
        until, deadline = now + time_left, Deadline.after(time_left, run.store)
        key = f"{lakegc_keys.PROBE}stop-{self._sweep}-{self.number}"
        sign = StopSign(key, None if self._is_here else run.store)
        orders = DeletionOrders(
            journal=self._journal,
            limits=self._plan.limits,
            deadline=deadline,
            sweep=self._sweep,
            round=self.number,
            deletes_per_second=spread.deletes_per_second,
            rate=self._rate,
            threads=run.options.read_threads,
            dispose=self._plan.dispose,
            lot_rows=spread.lot_rows,
            requests_at_once=spread.requests_at_once,
            tasks_lock=lease.tasks_lock,
            is_ended=sign,
            clock_ahead=now - deadline.given_at,
        )
        if time_left > timedelta():
            self._sent.round_begins(until)
            lease.sent_until = max(until, lost_until or until)
        sources = {"planned": objects_of_plan(self._plan.expired), "concluded": concluded}

        def send() -> Tally:
            with meter.watching(self._journal, self._sweep, self.number):
                done = delete_as_tasks(
                    run, sources, look.kept, orders, spread.tasks, is_here=self._is_here
                )
            self.total.add(done)
            if self._is_here or not may_be_at_work(run.spark, was_retried=done.retries > 0):
                lease.sent_until = lost_until
            left = done.objects["unsent"] if lease.sent_until is None else None
            self._sent.round_ended(self.total.objects["deleted"], left)
            sign.take_down()
            return done

        return to_its_end(send, sign.put_up)

    def _report(self, done: Tally, meter: Meter) -> None:
        objects = self.total.objects
        meter.concluded += done.concluded
        meter.kept, meter.failed = objects["kept"], objects["refused"] + objects["failed"]
        meter.tell(self.number)


def without_unsent(total: Tally) -> Tally:
    """Return a tally without the objects that rounds left to the next one."""
    counted = {outcome: count for outcome, count in total.objects.items() if outcome != "unsent"}
    sizes = {outcome: size for outcome, size in total.size_bytes.items() if outcome != "unsent"}
    return replace(
        total, objects=type(total.objects)(counted), size_bytes=type(total.size_bytes)(sizes)
    )


def deletes_here(expired: StoredTable) -> bool:
    """Say whether the driver deletes the objects of a plan by itself."""
    return placement.driver_works(expired.manifest.rows)
