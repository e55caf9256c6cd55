"""Azurite, Microsoft's emulator of Azure Blob Storage, as a process on loopback and a free port, all in memory."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob import BlobServiceClient, ContainerClient

from spark_core.storage import StoreOptions

# The account that every Azurite has; its key is in the emulator's documentation and opens nothing else.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_HERE = Path(__file__).resolve().parents[2]
_VARIABLE = "LAKEGC_AZURITE"
_STARTS_WITHIN_SECONDS = 60

_numbers = itertools.count(1)


def find_azurite() -> str | None:
    """Find the program: named by LAKEGC_AZURITE, installed by `.ci/install-azurite`, or on the PATH."""
    named = os.environ.get(_VARIABLE)
    if named:
        return named
    installed = _HERE / ".emulators/azurite/node_modules/.bin/azurite-blob"
    return str(installed) if installed.exists() else shutil.which("azurite-blob")


def why_not() -> str | None:
    """Say why the tests that need Azurite are skipped; None when it is there."""
    if find_azurite() is None:
        return f"Azurite is not installed: run .ci/install-azurite (it needs npm), or name the program in {_VARIABLE}"
    return None


@dataclass(frozen=True)
class Azurite:
    """A running emulator; containers are made on it by `container`."""

    endpoint: str

    def options(self, **changes: Any) -> StoreOptions:
        """Options that reach this server, impatient enough for tests."""
        chosen: dict[str, Any] = {
            "azure_endpoint": self.endpoint,
            "azure_account_key": ACCOUNT_KEY,
            "allow_http": True,
            "max_retries": 1,
            "connect_timeout": timedelta(seconds=2),
            "read_timeout": timedelta(seconds=20),
        }
        return StoreOptions(**{**chosen, **changes})

    def service(self) -> BlobServiceClient:
        """A plain client, to put what a test needs and to look at what is there."""
        return BlobServiceClient(self.endpoint, credential=AzureNamedKeyCredential(ACCOUNT, ACCOUNT_KEY))

    def container(self) -> ContainerClient:
        """Make a container with a name of its own."""
        return self.service().create_container(f"lakegc-{os.getpid()}-{next(_numbers)}")


def uri(container: ContainerClient, path: str = "") -> str:
    """The storage namespace of a container, as a lakeFS server names it."""
    where = f"https://{ACCOUNT}.blob.core.windows.net/{container.container_name}"
    return f"{where}/{path}" if path else where


@contextmanager
def azurite(folder: Path, *more: str) -> Iterator[Azurite]:
    """Start an emulator, and stop it at the end of the block."""
    program = find_azurite()
    if program is None:
        raise FileNotFoundError(why_not())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
    command += ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", *more]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder
    ) as process:
        try:
            _wait(process, port)
            yield Azurite(f"http{'s' if '--cert' in more else ''}://127.0.0.1:{port}/{ACCOUNT}")
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the emulator answers; say what it said when it does not."""
    until = time.monotonic() + _STARTS_WITHIN_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    process.kill()
    assert process.stdout is not None
    raise RuntimeError(f"Azurite did not start: {process.stdout.read().decode(errors='replace')[-2000:]}")
