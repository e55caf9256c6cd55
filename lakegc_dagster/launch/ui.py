"""Start Dagster's UI, behind a guard."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

from lakegc_dagster.launch import webserver
from lakegc_dagster.launch.home import prepare_home, write_workspace
from lakegc_dagster.launch.report_pages import PLACE
from spark_core.errors import LakegcError, SettingsError
from spark_core.extras import require
from spark_core.settings import FILE_VARIABLE, Settings

_END_SECONDS = 20
_ENDED_WELL = {
    0,
    -signal.SIGINT,
    -signal.SIGTERM,
    128 + signal.SIGINT,
    128 + signal.SIGTERM,
}
_PAGES_VARIABLE = "LAKEGC__REPORT__BASE_URL"


def serve(settings: Settings, port: int, host: str = webserver.HOST) -> None:
    """Run the UI, Dagster's daemon and the code location until they exit or are stopped.

    Args:
        settings: The settings; they name the home.
        port: Port.
        host: Address of this machine to listen on; loopback by default, since the UI has no login.

    Raises:
        SettingsError: If the port is taken, or Dagster's web server is not installed.
        LakegcError: If the UI ends by itself with an error.
    """
    require("ui", "The pages of `lakegc ui`")
    _require_free(port, host)
    workspace = write_workspace(prepare_home(settings.dagster_home))
    process: subprocess.Popen[bytes] | None = None
    is_ended = False

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_ended
        is_ended = True
        if process is not None:
            process.send_signal(signal.SIGINT)

    # A script that starts lakegc with `&` makes it ignore SIGINT. The UI would inherit that, and
    # Ctrl-C could not stop it. What is not ignored it does not inherit.
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        # The UI has its own session, so Ctrl-C reaches it only through this process, and the
        # sandbox stops after the UI.
        process = subprocess.Popen(
            command(workspace, port, host),
            env=environment(settings, os.environ, pages=f"http://{_named(host)}:{port}{PLACE}"),
            start_new_session=True,
        )
        if is_ended:
            process.send_signal(signal.SIGINT)
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait(_END_SECONDS)
    if not is_ended and code not in _ENDED_WELL:
        raise LakegcError(
            f"the UI ended with exit code {code}; its output is above. Runs in the store are "
            "untouched."
        )


def command(workspace: Path, port: int, host: str = webserver.HOST) -> list[str]:
    """Return the command that starts the UI.

    Args:
        workspace: The file that names the code location.
        port: Port.
        host: Address of this machine to listen on.
    """
    words = ["-m", webserver.__name__, "--daemon", "-w", str(workspace)]
    return [sys.executable, *words, "-h", host, "-p", str(port)]


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches a host.

    A host name other than localhost counts as reachable from elsewhere.
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def environment(
    settings: Settings, env: Mapping[str, str], *, pages: str | None = None
) -> dict[str, str]:
    """Return the environment that the UI and the runs it starts see.

    Args:
        settings: The settings of the command line; the code location reads the same file.
        env: This process's environment.
        pages: Where the UI serves report pages; the settings win over it.
    """
    same_file = {} if settings.file is None else {FILE_VARIABLE: str(settings.file)}
    is_said = pages is None or settings.report.base_url is not None or settings.file is None
    return {
        **env,
        **same_file,
        **({} if is_said else {_PAGES_VARIABLE: str(pages)}),
        "DAGSTER_HOME": str(settings.dagster_home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }


def _named(host: str) -> str:
    """Name the address of a UI in a link; one that listens everywhere is here, too."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "localhost"
    return f"[{host}]" if address.version == 6 else host


def _require_free(port: int, host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as taken:
            raise SettingsError(
                f"port {port} on {host} cannot be used ({taken.strerror})",
                "Another UI may be open there; end it, or choose a port with --port, or an address "
                "of this machine with --host.",
            ) from taken
