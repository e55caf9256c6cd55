"""Fixtures of the tests of losses: scripted servers, a small store, a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core.addresses.namespace import Namespace
from spark_core.lakefs import LakeFSServer
from spark_core.records import writing
from spark_core.storage import ObjectStore, StoreOptions, open_store
from tests.support.scripted_clients import clients_of_scripts


@pytest.fixture
def answering() -> Iterator[Callable[[Any], LakeFSServer]]:
    """Return a client of a server with scripted answers."""
    with clients_of_scripts() as start:
        yield start


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    (tmp_path / "repo").mkdir()
    return open_store(
        Namespace.parse("local://repo", server_path="/bs"), StoreOptions(local_path=str(tmp_path))
    )


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with Sandbox(tmp_path / "sandbox") as running:
        yield running


@pytest.fixture
def nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is too large to lie in a document."""
    monkeypatch.setattr(writing, "HELD_BYTES", 0)
