"""Paces of deletions that tell a test what they were asked and told."""

from __future__ import annotations

from collections.abc import Callable

from spark_core.storage.outcomes import Pace


class Called(Pace):
    """A pace that calls a function before each request, and notes what the store was too busy for.

    Attributes:
        turned_away: Keys, each time; None: all of a request.
    """

    def __init__(self, before: Callable[[], object]) -> None:
        self._before = before
        self.turned_away: list[int | None] = []

    def __call__(self) -> None:
        self._before()

    def busy(self, keys: int | None = None) -> None:
        self.turned_away.append(keys)
