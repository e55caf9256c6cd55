"""The part of a sweep that runs on executors: a last look, the intent, the deletion, the outcome; lot by lot.

A batch is looked at together, and some batches are a lot: one intent, their
requests side by side, one outcome. So a journal has few parts, and a store that
takes few keys in a request is not waited for after each.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
from pyspark import TaskContext

from spark_core import schemas
from spark_core.addresses.candidates import Limits
from spark_core.errors import LakegcError, UnsafePlanError
from spark_core.records.journal import Journal
from spark_core.storage import ObjectStore
from spark_core.storage.contract import Outcomes, Pace
from spark_core.sweep.deadline import Clocks, Deadline, DeadlinePassedError, Timer
from spark_core.sweep.pacing import Pacer
from spark_core.sweep.plan import require_allowed
from spark_core.sweep.sight import SEEN_SECONDS, Examiner, Row, Seen

# Rows that are looked at together.
BATCH_ROWS = 1_000
# Most rows of one intent.
LOT_ROWS = 10_000
# A lot that is older takes no more batches: what was seen of its first objects must not become old.
LOT_SECONDS = 10.0
# Requests of a task that are under way at once, where there is no limit of deletions.
REQUESTS_AT_ONCE = 4
# Objects that a task names to the driver, of those that were not deleted.
NAMED = 20

TALLY = pa.schema([pa.field("tally", pa.string(), nullable=False)])

# Makes objects go, as `ObjectStore.delete` does it: one outcome per key, in the order given.
Dispose: TypeAlias = Callable[[ObjectStore, Sequence[str], Pace], Outcomes]

_Told = tuple[str, str | None]
# An object as the mark listed it, and when it was last seen so.
_Planned = tuple[Row, float]


def delete(store: ObjectStore, addresses: Sequence[str], pace: Pace) -> Outcomes:
    """Delete objects for good."""
    return store.delete(addresses, pace=pace)


@dataclass(frozen=True)
class Orders:
    """What the driver tells every task of a round.

    Attributes:
        journal: Where intents and outcomes are written; its store is the one that is deleted in.
        limits: What each address is compared with once more.
        deadline: Until when requests may be sent.
        sweep: Id of the process that sweeps.
        round: Number of the round in that process.
        deletes_per_second: How fast each task may delete; None: no limit.
        threads: Objects that a task asks the store for at once.
        dispose: What makes objects go.
        batch_rows: Rows of one batch.
        lot_rows: Rows of one lot.
        requests_at_once: Requests of a task that are under way at once, where there is no limit.
        clocks: The executor's; None means its own.
    """

    journal: Journal
    limits: Limits
    deadline: Deadline
    sweep: str
    round: int
    deletes_per_second: float | None = None
    threads: int = 8
    dispose: Dispose = delete
    batch_rows: int = BATCH_ROWS
    lot_rows: int = LOT_ROWS
    requests_at_once: int = REQUESTS_AT_ONCE
    clocks: Clocks | None = None


@dataclass
class Tally:
    """What tasks did, as far as the driver needs it.

    Attributes:
        objects: By outcome; `unsent` is what is left to the next round.
        size_bytes: By outcome.
        left: Some of those that the store did not delete: address, outcome and cause.
        retries: Attempts at tasks that another one had come before.
    """

    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    left: list[tuple[str, str, str]] = field(default_factory=list)
    retries: int = 0

    def count(self, address: str, size: int, told: _Told) -> None:
        """Add one object."""
        outcome, error = told
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

    @property
    def settled(self) -> int:
        """Objects that are not left to the next round."""
        return self.objects.total() - self.objects["unsent"]

    def to_json(self) -> str:
        """Write it for the way to the driver."""
        return json.dumps([self.objects, self.size_bytes, self.left, self.retries])

    @classmethod
    def from_json(cls, text: str) -> Tally:
        """Read it back."""
        objects, size_bytes, left, retries = json.loads(text)
        return cls(Counter(objects), Counter(size_bytes), [(row[0], row[1], row[2]) for row in left], retries)


def run_task(orders: Orders, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Delete the objects of one Spark task until they are done or the deadline has passed.

    Args:
        orders: What the driver tells.
        batches: Columns address, size_bytes, last_modified, and `why`: what references the object now, else
            null; sorted by slice and address.

    Yields:
        One row with the task's tally.

    Raises:
        UnsafePlanError: If a row may not be deleted at all, or the store does not answer for each object.
    """
    task = _Task(orders)
    for rows in _rebatched(batches, orders.batch_rows):
        require_allowed(rows, orders.limits)
        task.take(rows)
    task.delete_lot()
    yield pa.record_batch([[task.tally.to_json()]], schema=TALLY)


def _rebatched(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Cut batches to `size` rows, the last one excepted."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        begin = 0
        while begin < batch.num_rows:
            piece = batch.slice(begin, size - rows)
            waiting.append(piece)
            begin, rows = begin + piece.num_rows, rows + piece.num_rows
            if rows == size:
                yield pa.concat_batches(waiting)
                waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


class _Task:
    """One attempt at one Spark task."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._store = orders.journal.store
        self._timer: Timer = orders.deadline.start(self._store, orders.clocks)
        self._examiner = Examiner(self._store, orders.threads, self._timer.clocks.monotonic)
        self.tally = Tally()
        self._lot: list[tuple[pa.RecordBatch, list[Seen]]] = []
        self._lot_until = 0.0
        self._number = 0
        context = TaskContext.get()
        # Unique among all attempts at all tasks of a session, a second copy of the same task included.
        self._name = "0.0" if context is None else f"{context.partitionId()}.{context.taskAttemptId()}"
        if context is not None and context.attemptNumber():
            self.tally.retries = 1
        self._pacer: Pacer | None = None
        if orders.deletes_per_second is not None:
            self._pacer = Pacer(orders.deletes_per_second, self._store.delete_batch_size)
            if context is not None and context.attemptNumber() > 0:
                self._pacer.hold_back()

    def take(self, rows: pa.RecordBatch) -> None:
        """Look at the objects of a batch and put it to the lot; a lot that is large or old is deleted."""
        if self._timer.passed:
            self._count(rows, {})
            return
        monotonic = self._timer.clocks.monotonic
        if not self._lot:
            left = (self._timer.instant - self._timer.now()).total_seconds()
            # Where a round is short, what was looked at must still be sent in it.
            self._lot_until = monotonic() + min(LOT_SECONDS, left / 4)
        self._lot.append((rows, self._examiner.look(rows)))
        if sum(rows.num_rows for rows, _ in self._lot) >= self._orders.lot_rows or monotonic() >= self._lot_until:
            self.delete_lot()

    def delete_lot(self) -> None:
        """Delete the lot, and write down what that did."""
        if not self._lot:
            return
        rows = pa.concat_batches([rows for rows, _ in self._lot])
        seen = [state for _, states in self._lot for state in states]
        self._lot = []
        columns = [rows.column(name).to_pylist() for name in ("address", "size_bytes", "last_modified")]
        planned = dict(
            zip(columns[0], zip(zip(*columns, strict=True), (one.at for one in seen), strict=True), strict=True)
        )
        told = {
            address: found
            for address, reason, state in zip(columns[0], rows.column("why").to_pylist(), seen, strict=True)
            if (found := _without_asking(reason, state)) is not None
        }
        asked = {} if self._timer.passed else {key: one for key, one in planned.items() if key not in told}
        told |= self._delete(rows, asked, told)
        self._count(rows, told)

    def _count(self, rows: pa.RecordBatch, told: dict[str, _Told]) -> None:
        addresses, sizes = rows.column("address").to_pylist(), rows.column("size_bytes").to_pylist()
        for address, size in zip(addresses, sizes, strict=True):
            self.tally.count(address, size, told.get(address, ("unsent", None)))

    def _delete(
        self, rows: pa.RecordBatch, asked: Mapping[str, _Planned], told: Mapping[str, _Told]
    ) -> dict[str, _Told]:
        """Journal, delete, journal; returns what was told of the objects that were asked for."""
        batch = f"{self._orders.sweep}.{self._orders.round}.{self._name}.{self._number}"
        self._number += 1
        journal, sizes = self._orders.journal, dict(zip(*(rows.column(i).to_pylist() for i in (0, 1)), strict=True))
        if asked:
            journal.intend(batch, self._entries(dict.fromkeys(asked, ("intended", None)), sizes))
        answers, error = self._send(asked)
        if told or answers:
            journal.conclude(batch, self._entries({**told, **answers}, sizes))
        if error is not None:
            raise error
        return answers

    def _entries(self, told: dict[str, _Told], sizes: dict[str, int]) -> pa.RecordBatch:
        at = self._timer.now()
        return pa.record_batch(
            [
                pa.array(told, pa.string()),
                pa.array([sizes[address] for address in told], pa.int64()),
                pa.array([outcome for outcome, _ in told.values()], pa.string()),
                pa.array([error for _, error in told.values()], pa.string()),
                pa.array([at] * len(told), schemas.INSTANT),
            ],
            schema=schemas.JOURNAL,
        )

    def _send(self, asked: Mapping[str, _Planned]) -> tuple[dict[str, _Told], Exception | None]:
        """Send requests, several at once where no limit is kept, until one of them cannot be answered for.

        Returns:
            What was told of each object, but for those of which nobody knows; and what ended it.
        """
        size = self._store.delete_batch_size if self._pacer is None else self._pacer.batch_size
        keys = list(asked)
        requests = [{key: asked[key] for key in keys[begin : begin + size]} for begin in range(0, len(keys), size)]
        at_once = 1 if self._pacer is not None else min(self._orders.requests_at_once, len(requests))
        if at_once <= 1:
            answers: Iterator[dict[str, _Told]] = map(self._answered, requests)
            return _gathered(answers)
        with ThreadPoolExecutor(at_once, thread_name_prefix="lakegc-delete") as pool:
            return _gathered(pool.map(self._answered, requests))

    def _answered(self, request: Mapping[str, _Planned]) -> dict[str, _Told]:
        told: dict[str, _Told] = dict.fromkeys(request, ("unsent", None))
        # Copies into quarantine are made before the pace is asked, and a limit is waited for.
        if self._timer.passed:
            return told
        keys = self._still_there(request)
        pace = _Pace(self._timer, self._pacer)
        try:
            told |= self._request(keys, pace) if keys else {}
        except DeadlinePassedError:
            if pace.sent:
                # What a request under way has done nobody knows: its intent stands open, and the next round looks.
                told = {key: one for key, one in told.items() if key not in set(keys)}
        return told

    def _still_there(self, request: Mapping[str, _Planned]) -> list[str]:
        """Ask once more for what was seen too long ago; what is not as it was is left to the next round, which looks anew."""
        oldest = self._timer.clocks.monotonic() - SEEN_SECONDS
        old = {key: row for key, (row, at) in request.items() if at < oldest}
        seen = dict(zip(old, self._examiner.look_again(list(old.values())), strict=True)) if old else {}
        return [key for key in request if key not in seen or seen[key].state == "there"]

    def _request(self, keys: list[str], pace: Pace) -> dict[str, _Told]:
        try:
            outcomes = self._orders.dispose(self._store, keys, pace)
        except LakegcError as error:
            return dict.fromkeys(keys, ("failed", str(error)))
        answered = [outcome.key for outcome in outcomes]
        if answered != keys:
            raise UnsafePlanError(
                f"the store answered for {len(answered)} of {len(keys)} objects of a batch; what it did is unknown. "
                "Run the sweep again: it looks at each object."
            )
        # It was there a moment ago, and lakegc has asked for it to go: a repeated request finds what the first one did.
        return {
            outcome.key: ("deleted" if outcome.outcome == "already_gone" else outcome.outcome, outcome.error)
            for outcome in outcomes
        }


@dataclass
class _Pace:
    """Waits for the limit, and lets nothing be sent after the deadline."""

    timer: Timer
    pacer: Pacer | None
    sent: bool = False

    def __call__(self) -> None:
        self.timer.require()
        if self.pacer is not None:
            self.pacer()
            self.timer.require()
        self.sent = True


def _gathered(answers: Iterator[dict[str, _Told]]) -> tuple[dict[str, _Told], Exception | None]:
    """Put answers together up to the first one that is an error; nothing more is sent after that one is met."""
    told: dict[str, _Told] = {}
    try:
        for answer in answers:
            told |= answer
    except Exception as error:  # noqa: BLE001 - raised again, behind what was answered before
        return told, error
    return told, None


def _without_asking(why: str | None, seen: Seen) -> _Told | None:
    """Tell the outcome of an object whose deletion must not, or need not, be asked for; None for the others."""
    if seen.state == "absent":
        return "already_gone", None
    if why is not None:
        return "kept", f"referenced again: {why}"
    if seen.state == "changed":
        return "kept", seen.why
    if seen.state == "unseen":
        return "failed", seen.why
    return None
