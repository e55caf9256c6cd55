"""By which a driver asks the tasks of its round to end soon, wherever they run."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from spark_core.errors import LakegcError
from spark_core.storage import ObjectStore

# So often a task looks: a request each time.
_EVERY_SECONDS = 2.0


@dataclass
class StopSign:
    """Says to tasks whether they are to end after what they have sent.

    Threads of the driver's process see it at once. Executors have the store in common with the
    driver, and nothing else that a task can ask: Spark itself only kills the workers of tasks that
    it was told to cancel, in the middle of a request.

    Attributes:
        key: Below `lakegc_keys.PROBE`, and never used before.
        store: Where executors look; None: the tasks are threads of the driver.
        is_up: Whether it is known that they are to end.
    """

    key: str = ""
    store: ObjectStore | None = None
    is_up: bool = False
    _next_look: float = 0.0

    def put_up(self) -> None:
        """Ask the tasks to end. Where executors cannot be told, their deadline ends them."""
        self.is_up = True
        if self.store is not None:
            with suppress(LakegcError):
                self.store.put(self.key, b"the tasks of this round are to end\n")

    def __call__(self) -> bool:
        """Say whether a task is to end."""
        if self.store is not None and not self.is_up and time.monotonic() >= self._next_look:
            with suppress(LakegcError):
                self.is_up = self.store.exists(self.key)
            self._next_look = time.monotonic() + _EVERY_SECONDS
        return self.is_up

    def take_down(self) -> None:
        """Remove what executors saw."""
        if self.store is not None and self.is_up:
            with suppress(LakegcError):
                self.store.delete([self.key])
