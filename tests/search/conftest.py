"""One sandbox for all histories of a session: each has a repository of its own on it."""

import pytest

from lakegc_dagster.sandbox import Sandbox


@pytest.fixture(scope="session")
def shared_sandbox(tmp_path_factory):
    """A sandbox on which a deleted repository is gone at once."""
    with Sandbox(tmp_path_factory.mktemp("searched")) as running:
        yield running
