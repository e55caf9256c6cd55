"""The sandbox server: one process, one directory, loopback only."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from lakegc_dagster.sandbox import (
    routes_config,
    routes_gc,
    routes_login,
    routes_objects,
    routes_refs,
    routes_repositories,
    routes_reviews,
)
from lakegc_dagster.sandbox.accounts import Accounts, Credentials
from lakegc_dagster.sandbox.clock import SandboxClock
from lakegc_dagster.sandbox.core import Behaviour, Core
from lakegc_dagster.sandbox.errors import ApiError
from lakegc_dagster.sandbox.web import Requests, failure, route

_HOST = "127.0.0.1"
_START_SECONDS = 20.0
# How long what is being answered may go on when the server is stopped.
_LAST_ANSWERS_SECONDS = 1.0
_CREDENTIALS_FILE = "credentials.json"


def application(core: Core, accounts: Accounts, requests: Requests) -> Starlette:
    """Make the web application."""
    endpoints = [
        *routes_config.ENDPOINTS,
        *routes_login.ENDPOINTS,
        *routes_repositories.ENDPOINTS,
        *routes_refs.ENDPOINTS,
        *routes_objects.ENDPOINTS,
        *routes_gc.ENDPOINTS,
        *routes_reviews.ENDPOINTS,
    ]

    async def unknown(_request: Request, _error: Exception) -> Response:
        return failure(ApiError(HTTPStatus.NOT_FOUND, "invalid API endpoint"))

    async def unusable(_request: Request, error: Exception) -> Response:
        return failure(
            ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"the sandbox's disk cannot be used ({error})"
            )
        )

    handlers: dict[int | type[Exception], Callable[[Request, Exception], object]] = {
        HTTPException: unknown,
        sqlite3.Error: unusable,
        OSError: unusable,
    }
    return Starlette(
        routes=[route(endpoint, core, accounts, requests) for endpoint in endpoints],
        exception_handlers=handlers,  # type: ignore[arg-type]  # starlette types the answer as its own union
    )


def _credentials(
    directory: Path, access_key_id: str | None, secret_access_key: str | None
) -> Credentials:
    """Return the given key pair, or the directory's own, which the first start makes."""
    if access_key_id and secret_access_key:
        return Credentials(access_key_id, secret_access_key)
    file = directory / _CREDENTIALS_FILE
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(json.dumps(asdict(Credentials.made()), indent=2) + "\n")
    stored = json.loads(file.read_text())
    return Credentials(stored["access_key_id"], stored["secret_access_key"])


class _Server(uvicorn.Server):
    """A server that ends soon after it is told to.

    uvicorn looks for that ten times a second and then waits another tenth, which is longer than
    many a sandbox lives.
    """

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # noqa: ASYNC110 - another thread tells it
            await asyncio.sleep(0.02)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for closing in (*self.servers, *(sockets or ())):
            closing.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        until = time.monotonic() + _LAST_ANSWERS_SECONDS
        state = self.server_state
        while state.connections or state.tasks:
            if time.monotonic() > until:
                break
            await asyncio.sleep(0.002)


class Sandbox:
    """A lakeFS-compatible server on local files that runs in a thread of this process.

    It writes lakeFS's own table format. It keeps its state in its directory, so it can be stopped
    and started again there.

    Args:
        directory: Directory of the state and of all files; made when missing.
        port: Port on loopback; 0 takes a free one.
        access_key_id: Key to use instead of the directory's own.
        secret_access_key: Secret that belongs to it.

    Attributes:
        core: The sandbox's state, for callers that skip HTTP; they must hold `core.lock`.
        behaviour: Settings that may be changed while it runs.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, Sandbox(Path(folder)) as sandbox:
        ...     sandbox.endpoint.startswith("http://127.0.0.1:")
        True
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
    ) -> None:
        self.behaviour = Behaviour()
        self.clock = SandboxClock()
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        owner = _credentials(self._directory, access_key_id, secret_access_key)
        self._accounts = Accounts(owner, self.clock.now)
        self._requests = Requests(Counter())
        self._port = port
        self._core: Core | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def core(self) -> Core:
        """The state of the running sandbox.

        Raises:
            RuntimeError: If it is not running.
        """
        if self._core is None:
            raise RuntimeError(f"the sandbox in {self._directory} is not running; start it first")
        return self._core

    @property
    def endpoint(self) -> str:
        """Address of the server, without the API's path."""
        return f"http://{_HOST}:{self._port}"

    @property
    def access_key_id(self) -> str:
        """The key that the server accepts."""
        return self._accounts.owner.credentials.access_key_id

    @property
    def secret_access_key(self) -> str:
        """The secret that belongs to it."""
        return self._accounts.owner.credentials.secret_access_key

    @property
    def blockstore(self) -> Path:
        """Root directory of the local blockstore."""
        return self._directory.resolve() / "blockstore"

    @property
    def requests(self) -> Counter[str]:
        """Number of requests served, by the method's name in lakefs-sdk."""
        return self._requests.counts

    def observe(self, observer: Callable[[str], None] | None) -> None:
        """Call a function with each endpoint's name before the request is served; None ends it.

        The function runs in the server's thread and may change the sandbox through `core`. So a
        test can commit or delete in the middle of a run. Concurrent requests call it concurrently;
        it holds `core.lock` where that matters.
        """
        self._requests.observer = observer

    def start(self) -> None:
        """Start the server and return when it answers requests.

        Raises:
            RuntimeError: If the server does not come up.
            OSError: If the port is taken.
        """
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, self._port))
        self._port = listener.getsockname()[1]
        self._core = Core(self._directory, self.behaviour, self.clock)
        config = uvicorn.Config(
            application(self._core, self._accounts, self._requests),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            # A script may pause for minutes between two calls on one connection.
            timeout_keep_alive=600,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [listener]},
            name="lakegc-sandbox",
            daemon=True,
        )
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError(
                    f"the sandbox in {self._directory} did not start serving on {self.endpoint}"
                )
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop the server; the state stays in the directory. A second call does nothing."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
        if self._core is not None:
            self._core.close()
        self._server = self._thread = self._core = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
