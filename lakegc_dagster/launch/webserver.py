"""Dagster's web server behind a guard: `python -m lakegc_dagster.launch.webserver`.

`lakegc ui` starts this. By itself it stands in for `dagster-webserver` where the other processes
are started apart.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click
import dagster as dg
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakegc_dagster.in_dagster.private_doors import DAEMON, serve_pages
from lakegc_dagster.launch import report_pages
from lakegc_dagster.launch.foreign_errors import in_dagsters_home
from lakegc_dagster.launch.request_guard import AskedOfUi, hosts_of, refusal
from spark_core.errors import LakegcError
from spark_core.settings import load_settings

HOST = "127.0.0.1"
PORT = 3000
_CLOSES_SECONDS = 10
# A daemon that launches a run ends when that is done.
_DAEMON_ENDS_SECONDS = 60
_LOGGER = logging.getLogger("lakegc.ui")
# A page elsewhere that shows the UI in a frame could have a person click on what they don't see.
_NO_FRAMES = (b"x-frame-options", b"SAMEORIGIN")


class GuardedPages:
    """Dagster's pages for those requests alone that may reach them.

    Args:
        app: The pages.
        hosts: The hosts by which they may be asked, as `hosts_of` returns them.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        refused = refusal(_asked(scope), self.hosts)
        if refused is not None:
            _LOGGER.warning("The UI refused a request: %s", refused)
            headers = {"X-Content-Type-Options": "nosniff"}
            answer = PlainTextResponse(f"lakegc: {refused}\n", 403, headers)
            await answer(scope, receive, send)
            return
        if scope["type"] == "http" and report_pages.is_a_report(scope["method"], scope["path"]):
            page = await report_pages.answer(scope["path"])
            await page(scope, receive, send)
            return

        async def unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), _NO_FRAMES]
            await send(message)

        await self.app(scope, receive, unframed)


def _asked(scope: Scope) -> AskedOfUi:
    return AskedOfUi(
        kind=scope["type"],
        method=scope.get("method", "GET"),
        path=scope["path"],
        query=scope["query_string"].decode("latin-1"),
        headers=[
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in scope["headers"]
        ],
    )


@click.command()
@click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="File that names the code locations.",
)
@click.option("-h", "--host", default=HOST, show_default=True, help="Address to listen on.")
@click.option("-p", "--port", type=int, default=PORT, show_default=True, help="Port.")
@click.option("--daemon", "with_daemon", is_flag=True, help="Start the daemon as well.")
def main(workspace: Path, host: str, port: int, *, with_daemon: bool) -> None:
    """Serve Dagster's pages behind a guard, for the hosts of `[ui]` in the settings."""
    # Whoever ends a pod sends SIGTERM.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        hosts = hosts_of(host, load_settings().ui.hosts)
    except LakegcError as refused:
        raise click.ClickException(str(refused)) from None
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        # Without a home Dagster would show an instance that is made for the moment.
        stack.enter_context(_instance())
        daemon = stack.enter_context(_daemon(workspace)) if with_daemon else None

        def serve(app: ASGIApp) -> None:
            server = uvicorn.Server(
                uvicorn.Config(
                    GuardedPages(app, hosts),
                    host=host,
                    port=port,
                    log_level="warning",
                    lifespan="off",
                    timeout_graceful_shutdown=_CLOSES_SECONDS,
                )
            )
            if daemon is not None:
                threading.Thread(target=_end_with, args=(daemon, server), daemon=True).start()
            server.run()

        serve_pages(workspace, serve)
        if daemon is not None and daemon.poll() is not None:
            raise click.ClickException(
                f"Dagster's daemon ended by itself, with exit code {daemon.poll()}"
            )


def _instance() -> dg.DagsterInstance:
    try:
        with in_dagsters_home(Path(os.environ["DAGSTER_HOME"])):
            return dg.DagsterInstance.get()
    except LakegcError as unusable:
        raise click.ClickException(str(unusable)) from None


@contextmanager
def _daemon(workspace: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run Dagster's daemon while the block lasts."""
    process = subprocess.Popen([sys.executable, *DAEMON, "run", "-w", str(workspace)])
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(_DAEMON_ENDS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_with(daemon: subprocess.Popen[bytes], server: uvicorn.Server) -> None:
    daemon.wait()
    server.should_exit = True


if __name__ == "__main__":
    main()
