"""The requests that delete: each of its size, at its pace, and none after the end of the round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

from spark_core.errors import LakegcError, UnsafePlanError
from spark_core.storage.outcomes import Pace
from spark_core.sweep.deadline import DeadlinePassedError, Timer, is_never
from spark_core.sweep.deletion_orders import Answer, DeletionOrders
from spark_core.sweep.objects_now import SEEN_SECONDS, Examiner, Row
from spark_core.sweep.pacing import Pacer, StorePace, shared

# An object as the sweep looked at it, and when.
Planned: TypeAlias = tuple[Row, float]


class DeletionRequests:
    """The requests of one attempt at a task.

    Args:
        orders: The driver's orders.
        timer: Until when requests may be sent.
        examiner: Looks at objects that were seen too long ago.
        is_retry: Whether another attempt at the task came before.

    Attributes:
        pace: What the store takes; None: it has no pace.
        busy: An item for each time that the store was busy.
    """

    def __init__(
        self, orders: DeletionOrders, timer: Timer, examiner: Examiner, *, is_retry: bool
    ) -> None:
        self._orders, self._timer, self._examiner = orders, timer, examiner
        self._store = orders.journal.store
        self.pace = None if orders.rate is None else shared(orders.sweep, orders.rate)
        # Appended to by the threads that send.
        self.busy: list[None] = []
        self._pacer: Pacer | None = None
        if orders.deletes_per_second is not None:
            self._pacer = Pacer(orders.deletes_per_second, self._store.delete_batch_size)
            if is_retry:
                self._pacer.hold_back()

    def send(self, asked: Mapping[str, Planned]) -> tuple[dict[str, Answer], Exception | None]:
        """Send requests, several at once without a limit, until one has no known outcome.

        Returns:
            The answer for each object, except those without a known outcome; and the error that
            ended it.
        """
        size = self._store.delete_batch_size
        if self._pacer is not None:
            size = self._pacer.batch_size
        elif self.pace is not None:
            size = self.pace.keys(size)
        keys = list(asked)
        requests = [
            {key: asked[key] for key in keys[begin : begin + size]}
            for begin in range(0, len(keys), size)
        ]
        at_once = (
            1 if self._pacer is not None else min(self._orders.requests_at_once, len(requests))
        )
        if at_once <= 1:
            answers: Iterator[dict[str, Answer]] = map(self._answered, requests)
            return _gathered(answers)
        with ThreadPoolExecutor(at_once, thread_name_prefix="lakegc-delete") as pool:
            return _gathered(pool.map(self._answered, requests))

    def _answered(self, request: Mapping[str, Planned]) -> dict[str, Answer]:
        known: dict[str, Answer] = dict.fromkeys(request, ("unsent", None))
        # Waited for first, so that what is seen of the objects is young when the request is sent.
        sent_at = 0.0 if self.pace is None else self.pace.wait(len(request))
        keys = [] if self._timer.passed else self._still_there(request)
        # The deadline is also checked after the questions, because quarantine copies before it asks
        # the pace.
        if not keys or self._timer.passed:
            return known
        pace = _DeletionPace(self._timer, self._pacer, self.pace, self.busy, len(keys), sent_at)
        try:
            known |= self._request({key: request[key][0] for key in keys}, pace)
        except DeadlinePassedError:
            if pace.sent:
                # Nobody knows what a request under way has done. Its intent stays open, and the
                # next round looks.
                known = {key: one for key, one in known.items() if key not in set(keys)}
        return known

    def _still_there(self, request: Mapping[str, Planned]) -> list[str]:
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

    def _request(self, rows: Mapping[str, Row], pace: Pace) -> dict[str, Answer]:
        try:
            outcomes = self._orders.dispose(self._store, rows, pace)
        except LakegcError as error:
            return dict.fromkeys(rows, ("failed", str(error)))
        answered = [outcome.key for outcome in outcomes]
        if answered != list(rows):
            raise UnsafePlanError(
                f"the store answered for {len(answered)} of {len(rows)} objects of a batch; what "
                "it did is unknown. Run the sweep again: it looks at each object."
            )
        # What somebody else deleted before it had a copy in quarantine was not asked for, nor what
        # was written again. The next round looks anew.
        return {
            outcome.key: (
                "unsent" if outcome.outcome in {"already_gone", "changed"} else outcome.outcome,
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
        # What was sent comes to its end, or nobody would know what it did; but for the deadline.
        self.timer, self.sent = replace(self.timer, is_ended=is_never), True

    def busy(self, keys: int | None = None) -> None:
        self.was_busy.append(None)
        self.keys = self.keys if keys is None else keys
        if self.store is not None:
            self.store.busy(self.sent_at)


def _gathered(answers: Iterator[dict[str, Answer]]) -> tuple[dict[str, Answer], Exception | None]:
    """Collect answers up to the first error; nothing more is sent after it."""
    known: dict[str, Answer] = {}
    try:
        for answer in answers:
            known |= answer
    except Exception as error:  # noqa: BLE001 - raised again, after the answers so far are written down
        return known, error
    return known, None
