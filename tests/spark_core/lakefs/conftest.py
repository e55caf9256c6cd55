"""A clock that does not wait, and clients of scripted servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_core.lakefs import LakeFSServer, ServerOptions
from tests.support.recorded_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.support.scripted_server import ScriptedServer


class FakeClock:
    """Goes on only by sleeping."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.while_asleep: Callable[[float], None] = lambda _seconds: None

    def now(self) -> datetime:
        return datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.while_asleep(self.monotonic())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(clock: FakeClock) -> Iterator[Callable[..., tuple[LakeFSServer, ScriptedServer]]]:
    """Start a scripted server with these overrides and return a client of it, and it."""
    with ExitStack() as stack:

        def start(overrides: Any, **options: Any) -> tuple[LakeFSServer, ScriptedServer]:
            scripted = stack.enter_context(ScriptedServer(overrides=overrides))
            return (
                LakeFSServer(
                    ServerOptions(scripted.endpoint, ACCESS_KEY_ID, SECRET_ACCESS_KEY, **options),
                    clock=clock,
                ),
                scripted,
            )

        yield start
