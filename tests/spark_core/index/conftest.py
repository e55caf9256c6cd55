"""A sandbox of its own for every test that lists one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core.records import writing


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with Sandbox(tmp_path / "sandbox") as running:
        yield running


@pytest.fixture(autouse=True)
def _stored_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each file lie in the store, as those of large repositories do."""
    monkeypatch.setattr(writing, "HELD_BYTES", 0)
