"""A clock that stands where a test puts it."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Tells the instant it was given; waiting moves it on without taking time."""

    def __init__(self, instant: datetime):
        self.instant = instant.astimezone(UTC)
        self.slept: list[float] = []

    def now(self) -> datetime:
        # Each question takes a moment, so that what came first is also first by the clock.
        self.instant += timedelta(milliseconds=1)
        return self.instant

    def monotonic(self) -> float:
        return self.instant.timestamp()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.instant += timedelta(seconds=seconds)
