"""The pace of deletions: the tasks of a run share one limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


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
