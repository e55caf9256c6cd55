"""A sandbox of its own for every whole run."""

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core.records import writing


@pytest.fixture
def nothing_is_held(monkeypatch):
    """Every file is too large to lie in a manifest."""
    monkeypatch.setattr(writing, "HELD_BYTES", 0)


@pytest.fixture
def sandbox(tmp_path):
    with Sandbox(tmp_path / "sandbox") as running:
        yield running
