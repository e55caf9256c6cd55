"""The sandbox's clock: real time, real time with an offset, or one frozen instant.

Object names, slices, file times, entries, and commits without a date all follow it. So a test
builds a history of weeks in a second.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta


class SandboxClock:
    """A clock that can be set.

    Examples:
        >>> clock = SandboxClock()
        >>> clock.set(datetime(2026, 3, 1, tzinfo=UTC))
        >>> clock.advance(timedelta(days=1))
        >>> clock.now().isoformat()
        '2026-03-02T00:00:00+00:00'
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frozen: datetime | None = None
        self._offset = timedelta(0)

    def now(self) -> datetime:
        """Return the present instant of the sandbox, in UTC."""
        with self._lock:
            return self._frozen if self._frozen is not None else datetime.now(UTC) + self._offset

    def set(self, instant: datetime) -> None:
        """Freeze the clock at an instant until it is set, advanced or released.

        Raises:
            ValueError: If `instant` has no timezone.
        """
        if instant.tzinfo is None:
            raise ValueError("the sandbox's clock needs a timezone-aware instant")
        with self._lock:
            self._frozen = instant.astimezone(UTC)

    def advance(self, delta: timedelta) -> None:
        """Move the clock by `delta`, forward or back; a running clock keeps running."""
        with self._lock:
            if self._frozen is not None:
                self._frozen += delta
            else:
                self._offset += delta

    @contextmanager
    def at(self, instant: datetime) -> Iterator[None]:
        """Freeze the clock at an instant inside the block, then restore its former state.

        Raises:
            ValueError: If `instant` has no timezone.
        """
        with self._lock:
            before = (self._frozen, self._offset)
        self.set(instant)
        try:
            yield
        finally:
            with self._lock:
                self._frozen, self._offset = before

    def release(self) -> None:
        """Return to real time."""
        with self._lock:
            self._frozen = None
            self._offset = timedelta(0)
