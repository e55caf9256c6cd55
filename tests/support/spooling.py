"""What every remote store must do with a file that is too large for memory."""

from __future__ import annotations

import os

import pytest

from spark_core.storage import ObjectStore, remote


def require_spooled(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, *, size_bytes: int = 7 << 20
) -> None:
    """Write and read a file of random bytes of which memory holds a part only."""
    monkeypatch.setattr(remote, "_SPOOLED_BYTES", 1 << 20)
    data = os.urandom(size_bytes)
    with store.open_sink("big") as sink:
        sink.write(data)
    with store.open_source("big") as source:
        source.seek(-5, os.SEEK_END)
        assert source.read() == data[-5:]
        source.seek(0)
        assert source.read() == data
