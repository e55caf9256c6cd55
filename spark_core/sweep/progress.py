"""The progress of a sweep, reported while its tasks work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from spark_core.errors import LakegcError
from spark_core.records.journal import Journal

_EVERY_SECONDS = 15.0


@dataclass(frozen=True)
class Progress:
    """The progress of a sweep.

    Attributes:
        round: Number of the round in this process.
        planned: Objects of the plan.
        concluded: Objects of the plan that have an outcome, from earlier sweeps too.
        kept: Objects that were kept, as far as this process knows.
        failed: Objects that the store did not delete, as far as this process knows.
        per_second: Objects that got an outcome per second, since this process began to delete.
        left: How long the rest would take at that rate; None if unknown.
    """

    round: int
    planned: int
    concluded: int
    kept: int
    failed: int
    per_second: float
    left: timedelta | None

    def __str__(self) -> str:
        left = (
            ""
            if self.left is None
            else f", {timedelta(seconds=round(self.left.total_seconds()))} left"
        )
        return (
            f"round {self.round}: {self.concluded:,} of {self.planned:,} objects done, "
            f"{self.kept:,} kept, {self.failed:,} failed; {self.per_second:,.0f} a second{left}"
        )


OnProgress = Callable[[Progress], None]


def unheard(progress: Progress) -> None:
    """Ignore the progress."""


class Meter:
    """Counts the objects that a sweep concludes.

    The counts come from the journal during a round, and from the tallies after it.

    Args:
        planned: Objects of the plan.
        done: Objects that were concluded before.
        tell: Called with the progress.
    """

    def __init__(self, planned: int, done: int, tell: OnProgress) -> None:
        self._planned = planned
        self._done = done
        self._tell = tell
        self._began = time.monotonic()
        self.concluded = 0
        self.kept = 0
        self.failed = 0

    def tell(self, number: int, under_way: int = 0) -> None:
        """Report the progress of the sweep.

        Args:
            number: Number of the round.
            under_way: Objects that the round has concluded so far.
        """
        concluded = self.concluded + under_way
        rate = concluded / max(time.monotonic() - self._began, 0.001)
        rest = max(self._planned - self._done - concluded, 0)
        left = timedelta(seconds=rest / rate) if rate else None
        self._tell(
            Progress(
                number,
                self._planned,
                min(self._done + concluded, self._planned),
                self.kept,
                self.failed,
                rate,
                left,
            )
        )

    @contextmanager
    def watching(self, journal: Journal, sweep: str, number: int) -> Iterator[None]:
        """Report from time to time during a round, by the names of its parts in the journal."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_EVERY_SECONDS):
                try:
                    parts = [
                        part
                        for part in journal.parts()
                        if part.sweep == sweep and part.kind == "outcome"
                    ]
                except LakegcError:
                    continue  # the watching may fail; the tasks meet the store's errors themselves
                concluded = sum(part.rows for part in parts) - self.concluded
                if not ended.is_set():
                    self.tell(number, max(concluded, 0))

        watcher = threading.Thread(target=watch, name="lakegc-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
