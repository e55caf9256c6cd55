"""fake-gcs-server, an emulator of Google Cloud Storage, as a process on loopback and a free port,
all in memory.
"""

from __future__ import annotations

import itertools
import os
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Bucket, Client

from spark_core.storage import StoreOptions
from tests.support.emulator import Emulator

_EMULATOR = Emulator(
    name="fake-gcs-server",
    program="fake-gcs-server",
    installed=".emulators/bin/fake-gcs-server",
    script=".ci/install-gcs-emulator (it needs Go)",
    variable="LAKEGC_FAKE_GCS_SERVER",
)
why_not = _EMULATOR.why_not

# The emulator ends by itself then, should the tests be killed.
_LIVES_SECONDS = 3600

_numbers = itertools.count(1)


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
        """Make a bucket with a name of its own; a plain handle to put what a test needs and to look
        at what is there.
        """
        client = Client(
            project="lakegc",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.endpoint},
        )
        return client.create_bucket(f"lakegc-{os.getpid()}-{next(_numbers)}")


@contextmanager
def gcs_emulator() -> Iterator[GcsEmulator]:
    """Start an emulator, and stop it at the end of the block."""
    with _EMULATOR.running(
        lambda port: [
            *("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"),
            *("-public-host", f"127.0.0.1:{port}", "-log-level", "error"),
        ],
        _ask,
        before=["timeout", str(_LIVES_SECONDS)] if shutil.which("timeout") else [],
    ) as port:
        yield GcsEmulator(f"http://127.0.0.1:{port}")


def _ask(port: int) -> None:
    urllib.request.urlopen(f"http://127.0.0.1:{port}/_internal/healthcheck", timeout=1).close()
