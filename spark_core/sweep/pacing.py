"""The pace of deletions: the limit that is set, which tasks share, and what the store can take.

The store's own pace is looked for as congestion control does: up fast until it is busy, down by a
share, back towards where it was busy, and then up by small steps that grow. S3 takes some 3,500
keys a second for each partition of a bucket and counts each key of a bulk deletion.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

# Keys a second with which a first sweep begins, on all tasks together (AWS, "Best practices design
# patterns: optimizing Amazon S3 performance": 3,500 for each partition).
FIRST = 3_500.0
# No store is asked for less.
_LEAST = 50.0
# The pace is raised as often at most.
_EVERY_SECONDS = 1.0
# Nothing is sent for as long after the store was busy.
_QUIET_SECONDS = 0.25
# What is left of the pace when the store was busy.
_LEFT = 0.85
# The first step above where it was busy; each next one is twice as large.
_FIRST_STEP, _LARGEST_STEP = 0.01, 0.16
# Requests a second among which the keys are divided, and the fewest keys of one.
_REQUESTS_A_SECOND, _FEWEST_KEYS = 8, 250


@dataclass(frozen=True)
class Rate:
    """Keys a second, and what is known of the store's own pace.

    Attributes:
        per_second: Now.
        ceiling: The fastest at which it was not busy; None until it was busy.
        step: Share by which the next second is faster, above the ceiling.
    """

    per_second: float
    ceiling: float | None = None
    step: float = _FIRST_STEP

    def after_a_second(self) -> Rate:
        """Return the rate after a second in which all of it was used, and the store was not busy.

        >>> Rate(3_500.0).after_a_second()
        Rate(per_second=7000.0, ceiling=None, step=0.01)
        >>> Rate(3_000.0, ceiling=4_000.0).after_a_second().per_second
        3500.0
        """
        if self.ceiling is None:
            return replace(self, per_second=2 * self.per_second)
        if self.per_second < self.ceiling * (1 - _FIRST_STEP):
            return replace(self, per_second=(self.per_second + self.ceiling) / 2)
        step = min(2 * self.step, _LARGEST_STEP)
        return Rate(self.per_second * (1 + self.step), max(self.per_second, self.ceiling), step)

    def after_busy(self) -> Rate:
        """Return the rate after the store was busy.

        >>> Rate(7_000.0).after_busy()
        Rate(per_second=2975.0, ceiling=3500.0, step=0.01)
        """
        # Before it was ever busy the rate has doubled: half of it went well.
        known = self.per_second / 2 if self.ceiling is None else min(self.ceiling, self.per_second)
        return Rate(max(_LEAST, _LEFT * known), max(_LEAST, known))


class StorePace:
    """Keeps the deletions of a process at the store's own pace; its threads share it.

    Args:
        rate: To begin with.
        now: Seconds of a clock that never jumps.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        rate: Rate,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = rate
        self._now, self._sleep = now, sleep
        self._lock = threading.Lock()
        self._due = self._changed = now()
        self._lowered = -math.inf
        self._is_used = False

    def keys(self, most: int) -> int:
        """Return of how many keys a request should be.

        Args:
            most: Most that the store takes.
        """
        wanted = max(_FEWEST_KEYS, int(self.rate.per_second / _REQUESTS_A_SECOND))
        return min(most, wanted)

    def wait(self, keys: int) -> float:
        """Wait until a request of some keys may be sent; return when that was."""
        while True:
            asked, begin = self.reserve(keys)
            while (left := begin - self._now()) > 0:
                self._sleep(left)
            if self.is_kept(asked):
                return begin

    def is_kept(self, asked: float) -> bool:
        """Say whether what was reserved at some time holds: the pace was not lowered since."""
        return self._lowered <= asked

    def reserve(self, keys: int) -> tuple[float, float]:
        """Return now, and when a request of some keys may be sent."""
        with self._lock:
            now = self._now()
            if self._is_used and now - self._changed >= _EVERY_SECONDS:
                # A pace that nobody needs says nothing about the store.
                self.rate, self._changed, self._is_used = self.rate.after_a_second(), now, False
            begin = max(now, self._due)
            self._is_used |= begin > now
            self._due = begin + keys / self.rate.per_second
            return now, begin

    def busy(self, sent: float) -> None:
        """Go slower, as the store could not take a request.

        Args:
            sent: When it was sent. What was sent before the pace was lowered says nothing new.
        """
        with self._lock:
            if sent < self._lowered:
                return
            now = self._now()
            self.rate, self._is_used = self.rate.after_busy(), False
            self._changed = self._lowered = now
            self._due = now + _QUIET_SECONDS


def first_rate(known: float | None, processes: int) -> Rate:
    """Return the rate with which each process begins.

    Args:
        known: Keys a second that the store took from all of them in an earlier sweep, if it was
            busy then.
        processes: How many delete at once.

    >>> first_rate(None, 2)
    Rate(per_second=1750.0, ceiling=None, step=0.01)
    >>> first_rate(3_600.0, 2)
    Rate(per_second=1530.0, ceiling=1800.0, step=0.01)
    """
    if known is None:
        return Rate(FIRST / processes)
    ceiling = max(_LEAST, known / processes)
    return Rate(max(_LEAST, _LEFT * ceiling), ceiling)


_shared: dict[str, StorePace] = {}
_sharing = threading.Lock()


def shared(sweep: str, rate: Rate) -> StorePace:
    """Return the pace that all tasks of a sweep share in this process.

    Args:
        sweep: Id of the process that sweeps.
        rate: To begin with, if this is its first task here.
    """
    with _sharing:
        if sweep not in _shared:
            _shared.clear()
            _shared[sweep] = StorePace(rate)
        return _shared[sweep]


@dataclass
class Pacer:
    """Keeps one task's deletions below its share of a limit.

    Requests are sent at even intervals. Each has so few keys that no second, wherever it begins,
    sees more than the share. What is unused in one second is not saved up for the next one.

    Attributes:
        deletes_per_second: The share.
        largest_batch: Most keys that the store takes in one request.
        now: Seconds of a clock that never jumps.
        sleep: Waits so many seconds.
        batch_size: Keys of one request.
        interval_seconds: Between the beginnings of two requests.
    """

    deletes_per_second: float
    largest_batch: int
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    batch_size: int = field(init=False)
    interval_seconds: float = field(init=False)
    _due: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not self.deletes_per_second > 0:
            raise ValueError(f"deletes_per_second is {self.deletes_per_second}, wanted more than 0")
        if self.deletes_per_second < 1:
            self.batch_size, self.interval_seconds = 1, 1 / self.deletes_per_second
            return
        requests = min(
            math.ceil(self.deletes_per_second / self.largest_batch), int(self.deletes_per_second)
        )
        self.batch_size, self.interval_seconds = (
            int(self.deletes_per_second / requests),
            1 / requests,
        )

    def hold_back(self) -> None:
        """Wait an interval before the first request, as another attempt may just have sent one."""
        self._due = self.now() + self.interval_seconds

    def __call__(self) -> None:
        """Wait until the next request may be sent."""
        while self._due is not None and (wait := self._due - self.now()) > 0:
            self.sleep(wait)
        self._due = self.now() + self.interval_seconds
