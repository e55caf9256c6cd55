"""Start Dagster's UI (`dagster dev`) on the home that the command line uses."""

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

from lakegc_dagster.launch.home import prepare_home, write_workspace
from lakegc_dagster.settings import FILE_VARIABLE, Settings
from spark_core.errors import LakegcError, SettingsError

HOST = "127.0.0.1"
_END_SECONDS = 20


def serve(settings: Settings, port: int, host: str = HOST) -> None:
    """Run `dagster dev` until it exits or is stopped.

    Args:
        settings: The settings; UI and command line share their home.
        port: Port.
        host: Address of this machine to listen on; loopback by default, since the UI has no login.

    Raises:
        SettingsError: If the port is taken.
        LakegcError: If the UI ends by itself with an error.
    """
    _require_free(port, host)
    workspace = write_workspace(prepare_home(settings.dagster_home))
    # A script that starts lakegc with `&` makes it ignore SIGINT. The UI would inherit that, and
    # Ctrl-C could not stop it.
    of_sigint = signal.signal(signal.SIGINT, signal.default_int_handler)
    # The UI has its own session, so Ctrl-C reaches it only through this process, and the sandbox
    # stops after the UI.
    process = subprocess.Popen(
        command(workspace, port, host),
        env=environment(settings, os.environ),
        start_new_session=True,
    )

    def end(_number: int, _frame: FrameType | None) -> None:
        process.send_signal(signal.SIGINT)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    before[signal.SIGINT] = of_sigint
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if process.poll() is None:
            process.terminate()
            process.wait(_END_SECONDS)
    if code not in {0, -signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM}:
        raise LakegcError(
            f"the UI ended with exit code {code}; its output is above. Runs in the store are "
            "untouched."
        )


def command(workspace: Path, port: int, host: str = HOST) -> list[str]:
    """Return the command that starts the UI.

    Args:
        workspace: The file that names the code location. `dagster dev -m` would name the location
            after its module; its schedules, sensors and history would then not be those of a
            workspace.
        port: Port.
        host: Address of this machine to listen on.
    """
    # Dagster recommends `dg dev`, which needs another kind of project: hide that warning.
    quiet = "ignore:Function `dev_command` is superseded"
    return [
        sys.executable,
        "-W",
        quiet,
        "-m",
        "dagster",
        "dev",
        "-w",
        str(workspace),
        "-h",
        host,
        "-p",
        str(port),
    ]


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches a host.

    A host name other than localhost counts as reachable from elsewhere.
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def environment(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that the UI and the runs it starts see.

    Args:
        settings: The settings of the command line; the code location reads the same file.
        env: This process's environment.
    """
    same_file = {} if settings.file is None else {FILE_VARIABLE: str(settings.file)}
    return {
        **env,
        **same_file,
        "DAGSTER_HOME": str(settings.dagster_home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }


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
