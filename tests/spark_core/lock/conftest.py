"""The run that wants a lease, also on a machine that knows its processes."""

from dataclasses import replace

import pytest

from spark_core.lock import processes
from tests.support.leases import REQUEST, DatedStore
from tests.support.written_run import written_run


@pytest.fixture
def run(tmp_path):
    return replace(written_run(tmp_path, spark=None).run, store=DatedStore())


@pytest.fixture
def here(run, tmp_path, monkeypatch):
    """The run on a machine that knows its processes, and on a store whose requests end."""
    monkeypatch.setattr(processes, "folder", lambda: str(tmp_path))
    monkeypatch.setattr(processes, "monotonic", run.environment.clock.monotonic)
    run.store.longest_request = REQUEST
    return run
