"""The tasks' part of a sweep: recheck, intent, deletion and outcome, lot by lot.

The objects of a batch are rechecked together. Some batches form a lot: one intent, their requests
side by side, one outcome. So a journal has few parts, and a task need not wait after each request
to a store that takes few keys in one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from spark_core import schemas
from spark_core.addresses.candidates import Limits
from spark_core.errors import LakegcError, UnsafePlanError
from spark_core.lock.processes import at_work
from spark_core.records.journal import Journal
from spark_core.spark.tasks import Attempt, attempt
from spark_core.storage import ObjectStore
from spark_core.storage.outcomes import Outcomes, Pace
from spark_core.sweep.deadline import Clocks, Deadline, DeadlinePassedError, Timer
from spark_core.sweep.pacing import Pacer, Rate, StorePace, shared
from spark_core.sweep.plan import require_allowed
from spark_core.sweep.recheck import SEEN_SECONDS, Examiner, Row, SeenState
from spark_core.sweep.why_kept import NOT_LET_GO

# Rows that are looked at together.
BATCH_ROWS = 1_000
# Most rows of one intent.
LOT_ROWS = 25_000
# A lot that is older than this takes no more batches: the look at its first objects must not become
# old.
LOT_SECONDS = 10.0
# Requests of a task that are under way at once, where deletions have no limit.
REQUESTS_AT_ONCE = 4
# Undeleted objects that a task names to the driver.
NAMED = 20

# Deletes objects as `ObjectStore.delete` does: one outcome per key, in the order given.
Dispose: TypeAlias = Callable[[ObjectStore, Sequence[str], Pace], Outcomes]

# What became of an object: its outcome, and the cause of one that is not wanted.
_Answer = tuple[str, str | None]
# An object as the mark listed it, and when it was last seen so.
_Planned = tuple[Row, float]


def delete(store: ObjectStore, addresses: Sequence[str], pace: Pace) -> Outcomes:
    """Delete objects for good."""
    return store.delete(addresses, pace=pace)


@dataclass(frozen=True)
class DeletionOrders:
    """What the driver tells every task of a round.

    Attributes:
        journal: Where intents and outcomes are written. Objects are deleted in the journal's store.
        limits: The limits that each address is compared with once more.
        deadline: Until when requests may be sent.
        sweep: Id of the process that sweeps.
        round: Number of the round in that process.
        deletes_per_second: Most deletions of each task per second; None: no limit.
        rate: With which the tasks of each process begin to look for the store's own pace; None: it
            has none.
        threads: Objects that a task asks the store for at once.
        dispose: Deletes objects, or moves them to quarantine.
        batch_rows: Rows of one batch.
        lot_rows: Rows of one lot.
        requests_at_once: Requests of a task that are under way at once, where deletions have no
            limit.
        clocks: The executor's clocks; None means its own.
        tasks_lock: As `Lease.tasks_lock` has it.
        is_ended: Says whether the driver, whose threads are the tasks, gave the round up.
    """

    journal: Journal
    limits: Limits
    deadline: Deadline
    sweep: str
    round: int
    deletes_per_second: float | None = None
    rate: Rate | None = None
    threads: int = 8
    dispose: Dispose = delete
    batch_rows: int = BATCH_ROWS
    lot_rows: int = LOT_ROWS
    requests_at_once: int = REQUESTS_AT_ONCE
    clocks: Clocks | None = None
    tasks_lock: str | None = None
    is_ended: Callable[[], bool] | None = None


@dataclass
class Tally:
    """What tasks did, as far as the driver needs it.

    Attributes:
        objects: Number by outcome; `unsent` ones are left to the next round.
        size_bytes: Bytes by outcome.
        left: Some of the objects that the store did not delete: address, outcome and cause.
        retries: Attempts at tasks that had an earlier attempt.
        busy: Times that the store was busy.
        paces: Keys a second that the store takes from a process, as each task knew it at its end;
            nothing of tasks that never saw it busy.
    """

    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    left: list[tuple[str, str, str]] = field(default_factory=list)
    retries: int = 0
    busy: int = 0
    paces: list[float] = field(default_factory=list)

    def count(self, address: str, size: int, answer: _Answer) -> None:
        """Add one object."""
        outcome, error = answer
        self.objects[outcome] += 1
        self.size_bytes[outcome] += size
        if outcome in {"refused", "failed"} and len(self.left) < NAMED:
            self.left.append((address, outcome, error or ""))

    def add(self, other: Tally) -> None:
        """Add what another task did."""
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        self.left = sorted([*self.left, *other.left])[:NAMED]
        self.retries += other.retries
        self.busy += other.busy
        self.paces += other.paces

    @property
    def concluded(self) -> int:
        """Number of objects that are not left to the next round."""
        return self.objects.total() - self.objects["unsent"]


def run_task(orders: DeletionOrders, number: int, rows: pa.Table) -> Tally:
    """Delete the objects of one task until they are done or the deadline has passed.

    Args:
        orders: The driver's orders.
        number: Number of the task in its round.
        rows: Columns address, size_bytes, last_modified, and `why` (what references the object
            now, else null); sorted by slice and address.

    Returns:
        What was done.

    Raises:
        UnsafePlanError: If a row may not be deleted at all, or the store does not answer for each
            object.
        LeaseLostError: If another process has found that the holder of the lease was gone.
    """
    with at_work(orders.tasks_lock):
        task = _DeletionTask(orders, number)
        for begin in range(0, rows.num_rows, orders.batch_rows):
            (batch,) = rows.slice(begin, orders.batch_rows).combine_chunks().to_batches()
            require_allowed(batch, orders.limits)
            task.take(batch)
        task.delete_lot()
    return task.ended()


class _DeletionTask:
    """One attempt at one task."""

    def __init__(self, orders: DeletionOrders, number: int) -> None:
        self._orders = orders
        self._store = orders.journal.store
        timer = orders.deadline.start(self._store, orders.clocks)
        self._timer = timer if orders.is_ended is None else replace(timer, is_ended=orders.is_ended)
        self._examiner = Examiner(self._store, orders.threads, self._timer.clocks.monotonic)
        self.tally = Tally()
        self._lot: list[tuple[pa.RecordBatch, list[SeenState]]] = []
        self._lot_until = 0.0
        self._number = 0
        attempted = attempt() or Attempt(0, 0)
        self._name = f"{number}.{attempted.id}"
        self.tally.retries = min(attempted.number, 1)
        self._pace = None if orders.rate is None else shared(orders.sweep, orders.rate)
        # Appended to by the threads that send.
        self._busy: list[None] = []
        self._pacer: Pacer | None = None
        if orders.deletes_per_second is not None:
            self._pacer = Pacer(orders.deletes_per_second, self._store.delete_batch_size)
            if attempted.number > 0:
                self._pacer.hold_back()

    def take(self, rows: pa.RecordBatch) -> None:
        """Look at a batch's objects and add them to the lot; delete a large or old lot."""
        if self._timer.passed:
            self._count(rows, {})
            return
        monotonic = self._timer.clocks.monotonic
        if not self._lot:
            left = (self._timer.instant - self._timer.now()).total_seconds()
            # In a short round the objects must still be sent within it.
            self._lot_until = monotonic() + min(LOT_SECONDS, left / 4)
        self._lot.append((rows, self._examiner.examine(rows)))
        lot_rows: float = self._orders.lot_rows
        if self._pace is not None:
            lot_rows = min(lot_rows, self._pace.rate.per_second * LOT_SECONDS)
        if (
            sum(rows.num_rows for rows, _ in self._lot) >= lot_rows
            or monotonic() >= self._lot_until
        ):
            self.delete_lot()

    def ended(self) -> Tally:
        """Return what was done, and what is known of the store's pace."""
        self.tally.busy = len(self._busy)
        if self._pace is not None and self._pace.rate.ceiling is not None:
            self.tally.paces.append(self._pace.rate.ceiling)
        return self.tally

    def delete_lot(self) -> None:
        """Delete the lot, and write down the outcome."""
        if not self._lot:
            return
        rows = pa.concat_batches([rows for rows, _ in self._lot])
        seen = [state for _, states in self._lot for state in states]
        self._lot = []
        columns = [
            rows.column(name).to_pylist() for name in ("address", "size_bytes", "last_modified")
        ]
        planned = dict(
            zip(
                columns[0],
                zip(zip(*columns, strict=True), (one.at for one in seen), strict=True),
                strict=True,
            )
        )
        known = {
            address: found
            for address, reason, state in zip(
                columns[0], rows.column("why").to_pylist(), seen, strict=True
            )
            if (found := _without_asking(reason, state)) is not None
        }
        asked = (
            {}
            if self._timer.passed
            else {key: one for key, one in planned.items() if key not in known}
        )
        known |= self._delete(rows, asked, known)
        self._count(rows, known)

    def _count(self, rows: pa.RecordBatch, known: dict[str, _Answer]) -> None:
        addresses, sizes = rows.column("address").to_pylist(), rows.column("size_bytes").to_pylist()
        for address, size in zip(addresses, sizes, strict=True):
            self.tally.count(address, size, known.get(address, ("unsent", None)))

    def _delete(
        self, rows: pa.RecordBatch, asked: Mapping[str, _Planned], known: Mapping[str, _Answer]
    ) -> dict[str, _Answer]:
        """Journal, delete and journal again; return the answers for the objects asked for."""
        batch = f"{self._orders.sweep}.{self._orders.round}.{self._name}.{self._number}"
        self._number += 1
        journal, sizes = (
            self._orders.journal,
            dict(zip(*(rows.column(i).to_pylist() for i in (0, 1)), strict=True)),
        )
        if asked:
            journal.intend(batch, self._entries(dict.fromkeys(asked, ("intended", None)), sizes))
        answers, error = self._send(asked)
        if known or answers:
            journal.conclude(batch, self._entries({**known, **answers}, sizes))
        if error is not None:
            raise error
        return answers

    def _entries(self, known: dict[str, _Answer], sizes: dict[str, int]) -> pa.RecordBatch:
        at = self._timer.now()
        return pa.record_batch(
            [
                pa.array(known, pa.string()),
                pa.array([sizes[address] for address in known], pa.int64()),
                pa.array([outcome for outcome, _ in known.values()], pa.string()),
                pa.array([error for _, error in known.values()], pa.string()),
                pa.array([at] * len(known), schemas.INSTANT),
            ],
            schema=schemas.JOURNAL,
        )

    def _send(self, asked: Mapping[str, _Planned]) -> tuple[dict[str, _Answer], Exception | None]:
        """Send requests, several at once without a limit, until one has no known outcome.

        Returns:
            The answer for each object, except those without a known outcome; and the error that
            ended it.
        """
        size = self._store.delete_batch_size
        if self._pacer is not None:
            size = self._pacer.batch_size
        elif self._pace is not None:
            size = self._pace.keys(size)
        keys = list(asked)
        requests = [
            {key: asked[key] for key in keys[begin : begin + size]}
            for begin in range(0, len(keys), size)
        ]
        at_once = (
            1 if self._pacer is not None else min(self._orders.requests_at_once, len(requests))
        )
        if at_once <= 1:
            answers: Iterator[dict[str, _Answer]] = map(self._answered, requests)
            return _gathered(answers)
        with ThreadPoolExecutor(at_once, thread_name_prefix="lakegc-delete") as pool:
            return _gathered(pool.map(self._answered, requests))

    def _answered(self, request: Mapping[str, _Planned]) -> dict[str, _Answer]:
        known: dict[str, _Answer] = dict.fromkeys(request, ("unsent", None))
        # Waited for first, so that what is seen of the objects is young when the request is sent.
        sent_at = 0.0 if self._pace is None else self._pace.wait(len(request))
        keys = [] if self._timer.passed else self._still_there(request)
        # The deadline is also checked after the questions, because quarantine copies before it asks
        # the pace.
        if not keys or self._timer.passed:
            return known
        pace = _DeletionPace(self._timer, self._pacer, self._pace, self._busy, len(keys), sent_at)
        try:
            known |= self._request(keys, pace)
        except DeadlinePassedError:
            if pace.sent:
                # Nobody knows what a request under way has done. Its intent stays open, and the
                # next round looks.
                known = {key: one for key, one in known.items() if key not in set(keys)}
        return known

    def _still_there(self, request: Mapping[str, _Planned]) -> list[str]:
        """Ask again for objects that were seen too long ago, and return those that are unchanged.

        The others are left to the next round, which looks anew.
        """
        oldest = self._timer.clocks.monotonic() - SEEN_SECONDS
        old = {key: row for key, (row, at) in request.items() if at < oldest}
        seen = (
            dict(zip(old, self._examiner.examine_again(list(old.values())), strict=True))
            if old
            else {}
        )
        return [key for key in request if key not in seen or seen[key].state == "there"]

    def _request(self, keys: list[str], pace: Pace) -> dict[str, _Answer]:
        try:
            outcomes = self._orders.dispose(self._store, keys, pace)
        except LakegcError as error:
            return dict.fromkeys(keys, ("failed", str(error)))
        answered = [outcome.key for outcome in outcomes]
        if answered != keys:
            raise UnsafePlanError(
                f"the store answered for {len(answered)} of {len(keys)} objects of a batch; what "
                "it did is unknown. Run the sweep again: it looks at each object."
            )
        # The object was there a moment ago, and lakegc asked for its deletion: a repeated request
        # finds the result of the first one.
        return {
            outcome.key: (
                "deleted" if outcome.outcome == "already_gone" else outcome.outcome,
                outcome.error,
            )
            for outcome in outcomes
        }


@dataclass
class _DeletionPace(Pace):
    """Waits for the limit, and before a repetition for the store; stops all after the deadline."""

    timer: Timer
    pacer: Pacer | None
    store: StorePace | None
    was_busy: list[None]
    keys: int
    sent_at: float
    sent: bool = False

    def __call__(self) -> None:
        self.timer.require()
        if self.pacer is not None:
            self.pacer()
        if self.store is not None and self.sent:
            self.sent_at = self.store.wait(self.keys)
        self.timer.require()
        self.sent = True

    def busy(self, keys: int | None = None) -> None:
        self.was_busy.append(None)
        self.keys = self.keys if keys is None else keys
        if self.store is not None:
            self.store.busy(self.sent_at)


def _gathered(answers: Iterator[dict[str, _Answer]]) -> tuple[dict[str, _Answer], Exception | None]:
    """Collect answers up to the first error; nothing more is sent after it."""
    known: dict[str, _Answer] = {}
    try:
        for answer in answers:
            known |= answer
    except Exception as error:  # noqa: BLE001 - raised again, after the answers so far are written down
        return known, error
    return known, None


def _without_asking(why: str | None, seen: SeenState) -> _Answer | None:
    """Return an object's outcome if no deletion must or need be asked for; else None."""
    if seen.state == "absent":
        return "already_gone", None
    if why is not None:
        return "kept", why if why.startswith(NOT_LET_GO) else f"referenced again: {why}"
    if seen.state == "changed":
        return "kept", seen.why
    if seen.state == "unseen":
        return "failed", seen.why
    return None
