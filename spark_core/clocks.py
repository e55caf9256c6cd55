"""Read this machine's clock, compare other clocks with it, and refuse too large differences."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Protocol

from spark_core.errors import UnsafePlanError

# With a larger difference, the ages of objects cannot be trusted (kopia has the same limit).
MAX_CLOCK_SKEW = timedelta(minutes=5)

# Why a wrong clock is refused.
AGES_UNKNOWN = (
    "how old an object is, and how long a commit is kept, cannot be told, and an upload under way "
    "could look old"
)

# HTTP dates and most stores cut the time to whole seconds.
_RESOLUTION = timedelta(seconds=1)
# After a longer call the bounds are too wide: the other clock was read at some moment during it.
_LONGEST_QUESTION = timedelta(minutes=1)


class Clock(Protocol):
    """Tells the time and waits; injected so that tests can move it instead of waiting."""

    def now(self) -> datetime:
        """Return the time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Count seconds from some moment, never backwards."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


def _wall() -> datetime:
    return datetime.now(UTC)


def uptime() -> float:
    """Count seconds, never backwards; on Linux also those in which the machine sleeps."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SystemClock:
    """The machine's own clock, but never earlier than the time that has passed.

    If the machine's clock is set back, a reading of the repository or a lease would stay valid for
    longer. So this clock also counts the seconds since it was made. Not every system counts those
    in which it sleeps. The later of the two times is the safe one.
    """

    def __init__(self) -> None:
        self._began = _wall()
        self._counted = uptime()

    def now(self) -> datetime:
        """Return the time, aware and in UTC."""
        return max(_wall(), self._by_count())

    def wall(self) -> datetime:
        """Return the time that the machine shows; readings of other clocks are relative to it."""
        return _wall()

    @property
    def ahead(self) -> timedelta:
        """How far this clock is ahead of the machine's, which was set back; never negative."""
        return max(self._by_count() - _wall(), timedelta(0))

    def _by_count(self) -> datetime:
        return self._began + timedelta(seconds=uptime() - self._counted)

    def monotonic(self) -> float:
        """Count seconds from some moment, never backwards."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(frozen=True)
class ClockReading:
    """Bounds of the difference between another clock and this machine's; negative if it is behind.

    Attributes:
        lowest: The other clock is at least this much ahead.
        highest: The other clock is at most this much ahead.

    Examples:
        >>> noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
        >>> reading = ClockReading.of(noon, sent=noon, received=noon + timedelta(seconds=2))
        >>> reading.skew, reading.further_than(MAX_CLOCK_SKEW)
        (datetime.timedelta(0), False)
    """

    lowest: timedelta
    highest: timedelta

    @classmethod
    def of(cls, shown: datetime, *, sent: datetime, received: datetime) -> ClockReading | None:
        """Read another clock from one answer.

        Args:
            shown: The time of the other clock at some moment of the call, cut to whole seconds.
            sent: When this machine sent the request, by its own clock.
            received: When this machine received the answer, by its own clock.

        Returns:
            None if the call took too long, or if this clock was set meanwhile.
        """
        if not timedelta(0) <= received - sent <= _LONGEST_QUESTION:
            return None
        return cls(shown - received, shown + _RESOLUTION - sent)

    @property
    def skew(self) -> timedelta:
        """The least difference of the clocks, with its sign; zero if they may agree."""
        return max(self.lowest, timedelta(0)) + min(self.highest, timedelta(0))

    def further_than(self, limit: timedelta) -> bool:
        """Say whether the clocks certainly differ by more than a limit."""
        return abs(self.skew) > limit

    def __str__(self) -> str:
        if not self.skew:
            return "agrees with this machine's to a second or two"
        side = "ahead of" if self.skew > timedelta(0) else "behind"
        return f"is {_whole(abs(self.skew))} {side} this machine's"


def require_near(
    reading: ClockReading | None,
    whose: str,
    *,
    why: str = AGES_UNKNOWN,
) -> None:
    """Refuse a clock that differs so much from this machine's that ages cannot be known.

    Args:
        reading: A reading of the other clock; None, if there is none, is not refused.
        whose: The owner of the other clock, for the message.
        why: What would go wrong, for the message.

    Raises:
        UnsafePlanError: If the clocks differ by more than `MAX_CLOCK_SKEW`.
    """
    if reading is not None and reading.further_than(MAX_CLOCK_SKEW):
        raise UnsafePlanError(
            f"the clock of {whose} {reading}, at most {MAX_CLOCK_SKEW} is accepted: {why}",
            "Set the clocks of both (NTP), and run again.",
        )


def require_not_set_back(ahead: timedelta, *, why: str = AGES_UNKNOWN) -> None:
    """Refuse if this machine's clock was set back too far since the run began.

    A machine may start with its clock hours ahead and be set right a moment later.
    Then the run has a wrong time, and the readings of other clocks do not show it,
    because they are compared with what the machine shows now.

    Args:
        ahead: How far the run's clock is ahead of what the machine shows.
        why: What would go wrong, for the message.

    Raises:
        UnsafePlanError: If the run's clock is ahead by more than `MAX_CLOCK_SKEW`.
    """
    if ahead > MAX_CLOCK_SKEW:
        raise UnsafePlanError(
            f"the clock of this machine was set back by {_whole(ahead)} since this process began, "
            f"at most {MAX_CLOCK_SKEW} is accepted: {why}",
            "See that the clock is right (NTP), and start again.",
        )


def require_begun(
    instant: datetime,
    now: datetime,
    readings: Mapping[str, ClockReading | None],
) -> None:
    """Refuse if the instant of a run lies in the future, by this machine's clock or another one.

    Args:
        instant: The instant that the run stands for.
        now: The time of this machine's clock, with which the readings were compared.
        readings: Readings of other clocks by owner; None, if there is none, is skipped.

    Raises:
        UnsafePlanError: If the instant lies further ahead than `MAX_CLOCK_SKEW`.
    """
    skews = {whose: reading.skew for whose, reading in readings.items() if reading is not None}
    for whose, skew in {"this machine": timedelta(0), **skews}.items():
        ahead = instant - (now + skew)
        if ahead > MAX_CLOCK_SKEW:
            raise UnsafePlanError(
                f"the run stands for {instant.isoformat()}, which is {_whole(ahead)} ahead of the "
                f"clock of {whose}, at most {MAX_CLOCK_SKEW} is accepted: a clock was ahead when "
                "the run was begun, and an upload under way could look old",
                "See that the clocks are right (NTP), and start again under a new run key.",
            )


def _whole(difference: timedelta) -> timedelta:
    return timedelta(seconds=round(difference.total_seconds()))


def narrower(one: ClockReading | None, other: ClockReading | None) -> ClockReading | None:
    """Return the reading with the narrower bounds; one that is None does not count."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda reading: reading.highest - reading.lowest)


def http_date(header: str) -> datetime | None:
    """Read an HTTP Date header; None if there is none that can be read."""
    try:
        date = parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    # RFC 9110 dates are in GMT. The parser gives no zone when GMT is written as `-0000`.
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
