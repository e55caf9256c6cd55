"""Until when a round may delete, told by the driver's clock and kept by executors whose clocks nobody trusts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_core.clocks import ClockReading
from spark_core.errors import TransientError
from spark_core.storage import ObjectStore
from spark_core.storage.probes import read_clock

_READINGS = 3


class DeadlinePassedError(Exception):
    """A request was about to be sent after its round; what is left belongs to the next one. Never leaves a task."""


def _wall() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clocks:
    """The clocks of one machine.

    Attributes:
        wall: Tells the time, rightly or wrongly.
        monotonic: Seconds that never jump, but may stand still while a machine sleeps.
        read: Reads the store's clock against `wall`; None if the answer says nothing.
    """

    wall: Callable[[], datetime] = _wall
    monotonic: Callable[[], float] = time.monotonic
    read: Callable[[ObjectStore], ClockReading | None] = read_clock


@dataclass(frozen=True)
class Deadline:
    """Until when a round may send; made on the driver, kept on executors.

    The store's clock is what both can read: how far it stands from the
    driver's clock and from the executor's bounds how far those two stand apart. Of
    what is possible the executor assumes the latest, so a slow clock ends its
    work no later, and one that is fast no earlier than by the seconds that a
    reading is uncertain.

    Attributes:
        instant: By the driver's machine's clock.
        given_at: When it was set, by that clock: before any task of the round began.
        store_ahead_at_least: What the store's clock shows at the least more than the driver's.
    """

    instant: datetime
    given_at: datetime
    store_ahead_at_least: timedelta

    @classmethod
    def after(cls, left: timedelta, store: ObjectStore, clocks: Clocks | None = None) -> Deadline:
        """Set a deadline from now on.

        Args:
            left: How long the round may last.
            store: Rooted at the namespace.
            clocks: The driver's.

        Raises:
            TransientError: If the store's clock cannot be read.
        """
        clocks = clocks or Clocks()
        now = clocks.wall()
        return cls(now + left, now, _reading(store, clocks, "the driver").lowest)

    def start(self, store: ObjectStore, clocks: Clocks | None = None) -> Timer:
        """Begin to keep it, in the process of a task.

        Raises:
            TransientError: If the store's clock cannot be read.
        """
        clocks = clocks or Clocks()
        reading = _reading(store, clocks, "an executor")
        wall, monotonic = clocks.wall(), clocks.monotonic()
        latest = wall + reading.highest - self.store_ahead_at_least
        return Timer(self.instant, max(latest, self.given_at), wall, monotonic, clocks)


@dataclass(frozen=True)
class Timer:
    """A deadline as one task keeps it.

    Attributes:
        instant: By the driver's clock.
        began: The latest that the driver's clock can have shown when the task began.
        wall: What this machine's showed then ...
        monotonic: ... and its monotonic one.
        clocks: This machine's.
    """

    instant: datetime
    began: datetime
    wall: datetime
    monotonic: float
    clocks: Clocks

    def now(self) -> datetime:
        """Return the latest that the driver's clock can show."""
        by_wall = self.clocks.wall() - self.wall
        # A machine that slept, or whose clock was set back, has two answers: the later one is the careful one.
        return self.began + max(by_wall, timedelta(seconds=self.clocks.monotonic() - self.monotonic))

    @property
    def passed(self) -> bool:
        """Whether nothing more may be sent."""
        return self.now() >= self.instant

    def require(self) -> None:
        """Refuse to go on once it has passed.

        Raises:
            DeadlinePassedError: If it has.
        """
        if self.passed:
            raise DeadlinePassedError


def _reading(store: ObjectStore, clocks: Clocks, whose: str) -> ClockReading:
    for _ in range(_READINGS):
        reading = clocks.read(store)
        if reading is not None:
            return reading
    raise TransientError(
        f"the clock of {store.root} could not be read from {whose} in {_READINGS} attempts (each took longer than a minute): until "
        "when may be deleted cannot be told there",
        "Look at the store's latency, and run again.",
    )
