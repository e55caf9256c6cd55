"""Azurite, Microsoft's emulator of Azure Blob Storage, as a process on loopback and a free port,
all in memory.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob import BlobServiceClient, ContainerClient

from spark_core.storage import StoreOptions
from tests.support.emulator import Emulator

# The account that every Azurite has; its key is in the emulator's documentation and opens nothing
# else.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

_AZURITE = Emulator(
    name="Azurite",
    program="azurite-blob",
    installed=".emulators/azurite/node_modules/.bin/azurite-blob",
    script=".ci/install-azurite (it needs npm)",
    variable="LAKEGC_AZURITE",
)
why_not = _AZURITE.why_not

_numbers = itertools.count(1)


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
        return BlobServiceClient(
            self.endpoint, credential=AzureNamedKeyCredential(ACCOUNT, ACCOUNT_KEY)
        )

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
    with _AZURITE.running(
        lambda port: [
            *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"),
            *("--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", *more),
        ],
        lambda port: socket.create_connection(("127.0.0.1", port), 1).close(),
        folder=folder,
    ) as port:
        yield Azurite(f"http{'s' if '--cert' in more else ''}://127.0.0.1:{port}/{ACCOUNT}")
