"""The tasks' part of a sweep: recheck, intent, deletion and outcome, lot by lot.

The objects of a batch are rechecked together. Some batches form a lot: one intent, their requests
side by side, one outcome. So a journal has few parts, and a task need not wait after each request
to a store that takes few keys in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from spark_core import schemas
from spark_core.lock.processes import at_work
from spark_core.spark.tasks import Attempt, attempt
from spark_core.sweep.deletion_orders import Answer, DeletionOrders, Tally
from spark_core.sweep.deletion_requests import DeletionRequests, Planned
from spark_core.sweep.objects_now import Examiner, SeenState
from spark_core.sweep.plan import require_allowed
from spark_core.sweep.why_kept import NOT_LET_GO

# A lot that is older than this takes no more batches: the look at its first objects must not become
# old.
LOT_SECONDS = 10.0


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
        store = orders.journal.store
        timer = orders.deadline.start(store, orders.clocks)
        self._timer = timer if orders.is_ended is None else replace(timer, is_ended=orders.is_ended)
        self._examiner = Examiner(store, orders.threads, self._timer.clocks.monotonic)
        self.tally = Tally()
        self._lot: list[tuple[pa.RecordBatch, list[SeenState]]] = []
        self._lot_until = 0.0
        self._number = 0
        attempted = attempt() or Attempt(0, 0)
        self._name = f"{number}.{attempted.id}"
        self.tally.retries = min(attempted.number, 1)
        self._requests = DeletionRequests(
            orders, self._timer, self._examiner, is_retry=attempted.number > 0
        )

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
        if self._requests.pace is not None:
            lot_rows = min(lot_rows, self._requests.pace.rate.per_second * LOT_SECONDS)
        if (
            sum(rows.num_rows for rows, _ in self._lot) >= lot_rows
            or monotonic() >= self._lot_until
        ):
            self.delete_lot()

    def ended(self) -> Tally:
        """Return what was done, and what is known of the store's pace."""
        pace = self._requests.pace
        self.tally.busy = len(self._requests.busy)
        if pace is not None and pace.rate.ceiling is not None:
            self.tally.paces.append(pace.rate.ceiling)
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
        # An object goes as it was looked at, which is at most as young as the mark listed it.
        planned = {
            address: ((address, size, one.modified or listed), one.at)
            for address, size, listed, one in zip(*columns, seen, strict=True)
        }
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

    def _count(self, rows: pa.RecordBatch, known: dict[str, Answer]) -> None:
        addresses, sizes = rows.column("address").to_pylist(), rows.column("size_bytes").to_pylist()
        for address, size in zip(addresses, sizes, strict=True):
            self.tally.count(address, size, known.get(address, ("unsent", None)))

    def _delete(
        self, rows: pa.RecordBatch, asked: Mapping[str, Planned], known: Mapping[str, Answer]
    ) -> dict[str, Answer]:
        """Journal, delete and journal again; return the answers for the objects asked for."""
        batch = f"{self._orders.sweep}.{self._orders.round}.{self._name}.{self._number}"
        self._number += 1
        journal, sizes = (
            self._orders.journal,
            dict(zip(*(rows.column(i).to_pylist() for i in (0, 1)), strict=True)),
        )
        if asked:
            journal.intend(batch, self._entries(dict.fromkeys(asked, ("intended", None)), sizes))
        answers, error = self._requests.send(asked)
        if known or answers:
            journal.conclude(batch, self._entries({**known, **answers}, sizes))
        if error is not None:
            raise error
        return answers

    def _entries(self, known: dict[str, Answer], sizes: dict[str, int]) -> pa.RecordBatch:
        at = self._timer.now() + self._orders.clock_ahead
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


def _without_asking(why: str | None, seen: SeenState) -> Answer | None:
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
