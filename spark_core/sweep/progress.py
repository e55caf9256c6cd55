"""How far a sweep has come, told while its executors work."""

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
    """How far a sweep has come.

    Attributes:
        round: Number of the round in this process.
        planned: Objects of the plan.
        settled: Those of them that have an outcome, of earlier sweeps too.
        kept: Those that were kept, as far as this process knows.
        failed: Those that the store did not delete, as far as this process knows.
        per_second: Objects that got an outcome in a second, since this process began to delete.
        left: How long the rest would take at that rate; None if that cannot be told.
    """

    round: int
    planned: int
    settled: int
    kept: int
    failed: int
    per_second: float
    left: timedelta | None

    def __str__(self) -> str:
        left = "" if self.left is None else f", {timedelta(seconds=round(self.left.total_seconds()))} left"
        return (
            f"round {self.round}: {self.settled:,} of {self.planned:,} objects done, {self.kept:,} kept, {self.failed:,} "
            f"failed; {self.per_second:,.0f} a second{left}"
        )


OnProgress = Callable[[Progress], None]


def unheard(progress: Progress) -> None:
    """Tell nobody."""


class Meter:
    """Counts what a sweep settles, from its journal while a round is under way and from its tallies after.

    Args:
        planned: Objects of the plan.
        done: Those that were settled before.
        tell: Told of the progress.
    """

    def __init__(self, planned: int, done: int, tell: OnProgress) -> None:
        self._planned = planned
        self._done = done
        self._tell = tell
        self._began = time.monotonic()
        self.settled = 0
        self.kept = 0
        self.failed = 0

    def tell(self, number: int, under_way: int = 0) -> None:
        """Tell how far the sweep is.

        Args:
            number: Of the round.
            under_way: Objects that the round has settled so far.
        """
        settled = self.settled + under_way
        rate = settled / max(time.monotonic() - self._began, 0.001)
        rest = max(self._planned - self._done - settled, 0)
        left = timedelta(seconds=rest / rate) if rate else None
        self._tell(
            Progress(
                number, self._planned, min(self._done + settled, self._planned), self.kept, self.failed, rate, left
            )
        )

    @contextmanager
    def watching(self, journal: Journal, sweep: str, number: int) -> Iterator[None]:
        """Tell now and then while a round is under way, by the names of its parts in the journal."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_EVERY_SECONDS):
                try:
                    parts = [part for part in journal.parts() if part.sweep == sweep and part.kind == "outcome"]
                except LakegcError:
                    continue  # a round does not depend on being watched; the tasks themselves meet the store's errors
                settled = sum(part.rows for part in parts) - self.settled
                if not ended.is_set():
                    self.tell(number, max(settled, 0))

        watcher = threading.Thread(target=watch, name="lakegc-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
