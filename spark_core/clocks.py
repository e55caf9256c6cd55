"""How far another machine's clock stands from this one's, told by what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from spark_core.errors import UnsafePlanError

# From here on the age of an object is no longer what it seems (kopia refuses at the same point).
MAX_CLOCK_SKEW = timedelta(minutes=5)

# HTTP dates and most stores cut the time to whole seconds.
_RESOLUTION = timedelta(seconds=1)
# A question that took longer says too little: the other clock was read at some moment in between.
_LONGEST_QUESTION = timedelta(minutes=1)


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
        whole = timedelta(seconds=round(abs(self.skew).total_seconds()))
        return f"is {whole} {'ahead of' if self.skew > timedelta(0) else 'behind'} this machine's"


def require_near(reading: ClockReading | None, whose: str, *, at_most: timedelta = MAX_CLOCK_SKEW) -> None:
    """Refuse where a clock stands so far from this machine's that ages and days cannot be told.

    Args:
        reading: Of the other clock; None, where it does not tell, is no reason to refuse.
        whose: The other clock's owner, for the message.
        at_most: The limit, where it is to be narrower than `MAX_CLOCK_SKEW`.

    Raises:
        UnsafePlanError: If they differ by more than that.
    """
    limit = min(at_most, MAX_CLOCK_SKEW)
    if reading is not None and reading.further_than(limit):
        raise UnsafePlanError(
            f"the clock of {whose} {reading}, at most {limit} is accepted: how old an object is, and how long a commit "
            "is kept, cannot be told, and an upload under way could look old; nothing was deleted. "
            "Set the clocks of both (NTP), and run again."
        )


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
