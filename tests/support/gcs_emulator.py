"""fake-gcs-server, an emulator of Google Cloud Storage, as a process on loopback and a free port, all in memory."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Bucket, Client

from spark_core.storage import StoreOptions

_HERE = Path(__file__).resolve().parents[2]
_VARIABLE = "LAKEGC_FAKE_GCS_SERVER"
_STARTS_WITHIN_SECONDS = 30
# The emulator ends by itself then, should the tests be killed.
_LIVES_SECONDS = 3600

_numbers = itertools.count(1)


def find_emulator() -> str | None:
    """Find the program: named by LAKEGC_FAKE_GCS_SERVER, installed by `.ci/install-gcs-emulator`, or on the PATH."""
    named = os.environ.get(_VARIABLE)
    if named:
        return named
    installed = _HERE / ".emulators/bin/fake-gcs-server"
    return str(installed) if installed.exists() else shutil.which("fake-gcs-server")


def why_not() -> str | None:
    """Say why the tests that need the emulator are skipped; None when it is there."""
    if find_emulator() is None:
        return f"fake-gcs-server is not installed: run .ci/install-gcs-emulator (it needs Go), or name the program in {_VARIABLE}"
    return None


@dataclass(frozen=True)
class GcsEmulator:
    """A running emulator; buckets are made on it by `bucket`."""

    endpoint: str

    def options(self, **changes: Any) -> StoreOptions:
        """Options that reach this server, impatient enough for tests."""
        chosen: dict[str, Any] = {
            "gcs_endpoint": self.endpoint,
            "allow_http": True,
            "max_retries": 1,
            "connect_timeout": timedelta(seconds=2),
            "read_timeout": timedelta(seconds=10),
        }
        return StoreOptions(**{**chosen, **changes})

    def bucket(self) -> Bucket:
        """Make a bucket with a name of its own; a plain handle to put what a test needs and to look at what is there."""
        client = Client(
            project="lakegc", credentials=AnonymousCredentials(), client_options={"api_endpoint": self.endpoint}
        )
        return client.create_bucket(f"lakegc-{os.getpid()}-{next(_numbers)}")


@contextmanager
def gcs_emulator() -> Iterator[GcsEmulator]:
    """Start an emulator, and stop it at the end of the block."""
    program = find_emulator()
    if program is None:
        raise FileNotFoundError(why_not())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    bounded = ["timeout", str(_LIVES_SECONDS)] if shutil.which("timeout") else []
    command = [*bounded, program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-backend", "memory", "-public-host", f"127.0.0.1:{port}", "-log-level", "error"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            _wait(process, f"http://127.0.0.1:{port}")
            yield GcsEmulator(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(process: subprocess.Popen[bytes], endpoint: str) -> None:
    """Wait until the emulator answers; say what it said when it does not."""
    until = time.monotonic() + _STARTS_WITHIN_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(f"{endpoint}/_internal/healthcheck", timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    process.kill()
    assert process.stdout is not None
    raise RuntimeError(f"fake-gcs-server did not start: {process.stdout.read().decode(errors='replace')[-2000:]}")
