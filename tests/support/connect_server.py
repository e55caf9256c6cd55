"""A Spark Connect server on loopback: the one that the installed pyspark brings."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

# With this in the environment, sessions of tests are on such a server.
WANTED = "LAKEGC_TESTS_ON_CONNECT"
# Of a server whose executors have lakegc installed: their Python has imported it before they ask.
IMPORTED_AHEAD = {"spark.python.daemon.module": "spark_core.spark.spark_daemon"}
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTS_SECONDS = 120


def is_wanted() -> bool:
    """Say whether tests are to use Spark Connect."""
    return bool(os.environ.get(WANTED))


@contextmanager
def connect_server(
    log: Path,
    *,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Run a server while the block lasts; it ends with it.

    Args:
        log: File that gets its lines.
        master: Its own Spark master.
        conf: Its Spark properties.
        env: Its environment, which its executors on this machine have, too; None: that of this
            process.

    Yields:
        Its address.
    """
    env = dict(os.environ if env is None else env)
    home = Path(env.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    port = _free_port()
    properties = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **(conf or {}),
    }
    words = [word for name, value in properties.items() for word in ("--conf", f"{name}={value}")]
    # A process that was told of a server would look for that one.
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE"):
        env.pop(name, None)
    with log.open("wb") as lines:
        process = subprocess.Popen(
            [home / "bin" / "spark-submit", "--class", _CLASS, *words, "spark-internal"],
            env=env,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(process, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _STARTS_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"the Connect server does not serve: {log.read_text()[-2000:]}")
