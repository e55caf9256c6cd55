"""The time until which a round may delete: set by the driver's clock, kept by executors.

The executors' clocks are not trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_core.clocks import ClockReading, uptime
from spark_core.errors import TransientError
from spark_core.storage import ObjectStore
from spark_core.storage.probes import read_clock

_READINGS = 3


class DeadlinePassedError(Exception):
    """A request was due after the end of its round, so the next round takes the rest.

    The error never leaves a task.
    """


def _wall() -> datetime:
    return datetime.now(UTC)


def is_never() -> bool:
    """Say that nobody wants a task to end."""
    return False


@dataclass(frozen=True)
class Clocks:
    """The clocks of one machine.

    Attributes:
        wall: Returns the time, right or wrong.
        monotonic: Seconds that never jump; not every system counts those in which it sleeps.
        read: Reads the store's clock against `wall`; None if the answer says nothing.
    """

    wall: Callable[[], datetime] = _wall
    monotonic: Callable[[], float] = uptime
    read: Callable[[ObjectStore], ClockReading | None] = read_clock


@dataclass(frozen=True)
class Deadline:
    """The time until which a round may send requests; made on the driver, kept on executors.

    Driver and executor can both read the store's clock. Its distance from the driver's clock and
    its distance from the executor's clock bound the distance between those two. The executor
    assumes the latest possible time. So a slow clock does not end its work later. A fast clock ends
    it earlier by no more than the uncertainty of a reading, in seconds.

    Attributes:
        instant: End of the round, by the driver's machine's clock.
        given_at: When the deadline was set, by that clock: before any task of the round began.
        store_ahead_at_least: The least by which the store's clock is ahead of the driver's.
    """

    instant: datetime
    given_at: datetime
    store_ahead_at_least: timedelta

    @classmethod
    def after(cls, left: timedelta, store: ObjectStore, clocks: Clocks | None = None) -> Deadline:
        """Set a deadline that counts from now.

        Args:
            left: How long the round may last.
            store: Rooted at the namespace.
            clocks: The driver's clocks.

        Raises:
            TransientError: If the store's clock cannot be read.
        """
        clocks = clocks or Clocks()
        now = clocks.wall()
        return cls(now + left, now, _reading(store, clocks, "the driver").lowest)

    def start(self, store: ObjectStore, clocks: Clocks | None = None) -> Timer:
        """Start the timer of this deadline, in the process of a task.

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
        instant: End of the round, by the driver's clock.
        began: The latest time that the driver's clock can have shown when the task began.
        wall: What this machine's wall clock showed at that moment.
        monotonic: What this machine's monotonic clock showed at that moment.
        clocks: This machine's clocks.
        is_ended: Says whether the task is to end.
    """

    instant: datetime
    began: datetime
    wall: datetime
    monotonic: float
    clocks: Clocks
    is_ended: Callable[[], bool] = is_never

    def now(self) -> datetime:
        """Return the latest time that the driver's clock can show."""
        by_wall = self.clocks.wall() - self.wall
        # After a sleep of the machine, or a clock set back, the two clocks disagree. The later
        # answer is the careful one.
        return self.began + max(
            by_wall, timedelta(seconds=self.clocks.monotonic() - self.monotonic)
        )

    @property
    def passed(self) -> bool:
        """Whether nothing more may be sent."""
        return self.is_ended() or self.now() >= self.instant

    def require(self) -> None:
        """Refuse to go on once the deadline has passed.

        Raises:
            DeadlinePassedError: If the deadline has passed.
        """
        if self.passed:
            raise DeadlinePassedError


def _reading(store: ObjectStore, clocks: Clocks, whose: str) -> ClockReading:
    for _ in range(_READINGS):
        reading = clocks.read(store)
        if reading is not None:
            return reading
    raise TransientError(
        f"the clock of {store.root} could not be read from {whose} in {_READINGS} attempts (each "
        "took longer than a minute): no deadline for deletions can be set there",
        "Look at the store's latency, and run again.",
    )
