"""Clients of servers whose answers a test decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from spark_core.lakefs import LakeFSServer, ServerOptions
from tests.support.recorded_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.support.scripted_server import ScriptedServer


@contextmanager
def clients_of_scripts() -> Iterator[Callable[[Any], LakeFSServer]]:
    """Give a function that starts a server with scripted answers and returns a client of it."""
    with ExitStack() as stack:

        def start(overrides: Any) -> LakeFSServer:
            scripted = stack.enter_context(ScriptedServer(overrides=overrides))
            return LakeFSServer(ServerOptions(scripted.endpoint, ACCESS_KEY_ID, SECRET_ACCESS_KEY))

        yield start
