"""The clock that everything goes by, and how far another machine's stands from it, told by what that answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Protocol

from spark_core.errors import UnsafePlanError

# From here on the age of an object is no longer what it seems (kopia refuses at the same point).
MAX_CLOCK_SKEW = timedelta(minutes=5)

# What cannot be told, in the words of a refusal.
AGES_UNKNOWN = (
    "how old an object is, and how long a commit is kept, cannot be told, and an upload under way could look old"
)

# HTTP dates and most stores cut the time to whole seconds.
_RESOLUTION = timedelta(seconds=1)
# A question that took longer says too little: the other clock was read at some moment in between.
_LONGEST_QUESTION = timedelta(minutes=1)


class Clock(Protocol):
    """Tells the time and waits; injected so that tests move it instead of waiting."""

    def now(self) -> datetime:
        """Tell the time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Count seconds from some moment, never backwards."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


def _wall() -> datetime:
    return datetime.now(UTC)


class SystemClock:
    """The machine's own clock, which is not believed when it is set back.

    A look at the repository, or a lease, would else be good for longer by as
    much. What the machine counts since this clock was made stands against it;
    that count may stand still while the machine sleeps, so the later one of both is the careful one.
    """

    def __init__(self) -> None:
        self._began = _wall()
        self._counted = time.monotonic()

    def now(self) -> datetime:
        """Tell the time, aware and in UTC."""
        return max(_wall(), self._by_count())

    def wall(self) -> datetime:
        """Tell what the machine shows, set back or not: what readings of other clocks are compared with."""
        return _wall()

    @property
    def ahead(self) -> timedelta:
        """How far this clock is ahead of what the machine shows, because that was set back; never negative."""
        return max(self._by_count() - _wall(), timedelta(0))

    def _by_count(self) -> datetime:
        return self._began + timedelta(seconds=time.monotonic() - self._counted)

    def monotonic(self) -> float:
        """Count seconds from some moment, never backwards."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(frozen=True)
class ClockReading:
    """Bounds of what another clock shows more than this machine's; negative where it is behind.

    Attributes:
        lowest: The other clock is at least this much ahead ...
        highest: ... and at most this much.

    Examples:
        >>> noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
        >>> reading = ClockReading.of(noon, sent=noon, received=noon + timedelta(seconds=2))
        >>> reading.skew, reading.further_than(MAX_CLOCK_SKEW)
        (datetime.timedelta(0), False)
    """

    lowest: timedelta
    highest: timedelta

    @classmethod
    def of(cls, told: datetime, *, sent: datetime, received: datetime) -> ClockReading | None:
        """Read another clock from one answer.

        Args:
            told: What it showed at some moment of the question, cut to whole seconds.
            sent: When this machine asked, by its own clock.
            received: When it had the answer.

        Returns:
            None if the question took so long, or this clock was set meanwhile, that the answer says nothing.
        """
        if not timedelta(0) <= received - sent <= _LONGEST_QUESTION:
            return None
        return cls(told - received, told + _RESOLUTION - sent)

    @property
    def skew(self) -> timedelta:
        """The least that the clocks differ by, with its sign; nothing if they may agree."""
        return max(self.lowest, timedelta(0)) + min(self.highest, timedelta(0))

    def further_than(self, limit: timedelta) -> bool:
        """Say whether the clocks differ by more than a limit, however the answer is read."""
        return abs(self.skew) > limit

    def __str__(self) -> str:
        if not self.skew:
            return "agrees with this machine's to a second or two"
        return f"is {_whole(abs(self.skew))} {'ahead of' if self.skew > timedelta(0) else 'behind'} this machine's"


def require_near(
    reading: ClockReading | None, whose: str, *, at_most: timedelta = MAX_CLOCK_SKEW, why: str = AGES_UNKNOWN
) -> None:
    """Refuse where a clock stands so far from this machine's that ages and days cannot be told.

    Args:
        reading: Of the other clock; None, where it does not tell, is no reason to refuse.
        whose: The other clock's owner, for the message.
        at_most: The limit, where it is to be narrower than `MAX_CLOCK_SKEW`.
        why: What would go wrong, for the message.

    Raises:
        UnsafePlanError: If they differ by more than that.
    """
    limit = min(at_most, MAX_CLOCK_SKEW)
    if reading is not None and reading.further_than(limit):
        raise UnsafePlanError(
            f"the clock of {whose} {reading}, at most {limit} is accepted: {why}",
            "Set the clocks of both (NTP), and run again.",
        )


def require_not_set_back(ahead: timedelta, *, at_most: timedelta = MAX_CLOCK_SKEW, why: str = AGES_UNKNOWN) -> None:
    """Refuse where this machine's clock was set back so far since the run began that the run goes by another time.

    A machine that starts with its clock hours ahead, and is set right a moment
    later, has given the run a time that readings of other clocks do not show:
    they are compared with what the machine shows now.

    Args:
        ahead: How far the run's clock is ahead of what the machine shows.
        at_most: The limit, where it is to be narrower than `MAX_CLOCK_SKEW`.
        why: What would go wrong, for the message.

    Raises:
        UnsafePlanError: If it is further ahead than that.
    """
    limit = min(at_most, MAX_CLOCK_SKEW)
    if ahead > limit:
        raise UnsafePlanError(
            f"the clock of this machine was set back by {_whole(ahead)} since this process began, at most {limit} is "
            f"accepted: {why}",
            "See that the clock is right (NTP), and start again.",
        )


def require_begun(
    instant: datetime,
    now: datetime,
    readings: Mapping[str, ClockReading | None],
    *,
    at_most: timedelta = MAX_CLOCK_SKEW,
) -> None:
    """Refuse where the instant that a run stands for has not come yet, by this machine's clock or by another one.

    Args:
        instant: What the run stands for.
        now: What this machine's clock shows, the one that the readings were compared with.
        readings: Of other clocks, by whose they are; None, where one does not tell, is passed over.
        at_most: The limit, where it is to be narrower than `MAX_CLOCK_SKEW`.

    Raises:
        UnsafePlanError: If it lies further ahead than that.
    """
    limit = min(at_most, MAX_CLOCK_SKEW)
    skews = {whose: reading.skew for whose, reading in readings.items() if reading is not None}
    for whose, skew in {"this machine": timedelta(0), **skews}.items():
        ahead = instant - (now + skew)
        if ahead > limit:
            raise UnsafePlanError(
                f"the run stands for {instant.isoformat()}, which is {_whole(ahead)} ahead of the clock of {whose}, at most "
                f"{limit} is accepted: a clock was ahead when the run was begun, and an upload under way could look old",
                "See that the clocks are right (NTP), and start again under a new run key.",
            )


def _whole(difference: timedelta) -> timedelta:
    return timedelta(seconds=round(difference.total_seconds()))


def narrower(one: ClockReading | None, other: ClockReading | None) -> ClockReading | None:
    """Return the reading that says more."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda reading: reading.highest - reading.lowest)


def http_date(header: str) -> datetime | None:
    """Read an HTTP Date header; None if there is none that can be read."""
    try:
        told = parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    # RFC 9110 dates are in GMT, which the parser tells as no zone when it is written `-0000`.
    return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
