"""Clocks that stand where a test puts them, or run ahead of the real one."""

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


class LaterClock:
    """Tells the real time, ahead by so much. Nothing waits by it."""

    def __init__(self, ahead: timedelta):
        self.ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return self.now().timestamp()

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing waits {seconds} seconds here")
