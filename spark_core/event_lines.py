"""The events of a run as lines of a log: one for each step, at its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from spark_core.events import Event
from spark_core.plain_text import bytes_text


def seconds_text(seconds: float) -> str:
    """Format a duration in seconds."""
    return f"{seconds:.1f} s"


def found_text(event: Event) -> str:
    """Say what a step has made that ended well or failed."""
    if event.kind == "failed":
        return f"failed after {event.tries} tries" if event.tries > 1 else "failed"
    return f"{event.rows:>9,} rows  {bytes_text(event.size_bytes):>10}"


class EventLines:
    """Writes the lines; a run calls it with each event.

    Args:
        write: Writes a line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._began: dict[str, float] = {}
        self._told: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Write what is worth a line."""
        step = event.table
        if event.kind == "started":
            self._began.setdefault(step, time.monotonic())
        elif event.kind == "progressed":
            self._write(f"  {step:<22} {event.words}")
        elif event.kind in {"stored", "failed"}:
            self._end(event)
        elif event.kind == "waits":
            self._once(step, f"  {step} waits, and goes on by itself: {event.words}")
        elif event.kind == "retries":
            self._once(step, f"  {step:<22} tried again: {event.words}")
        elif not event.passed:
            self._write(f"  refused by {event.check}")

    def _once(self, step: str, line: str) -> None:
        """Say once what a step waits for: it is tried again until that is over."""
        if step not in self._told:
            self._told.add(step)
            self._write(line)

    def _end(self, event: Event) -> None:
        now = time.monotonic()
        took = now - self._began.get(event.table, now) if event.seconds is None else event.seconds
        self._write(f"  {event.table:<22} {found_text(event)}  {seconds_text(took):>8}")
