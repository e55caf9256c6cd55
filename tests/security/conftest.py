"""A sandbox of its own for every whole run."""

import pytest

from lakegc_dagster.sandbox import Sandbox


@pytest.fixture
def sandbox(tmp_path):
    with Sandbox(tmp_path / "sandbox") as running:
        yield running
