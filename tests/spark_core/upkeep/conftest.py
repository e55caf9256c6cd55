"""A run that ended, long after whatever else is stored."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.written_run import written_run

_KEPT_RUNS = 2


@pytest.fixture
def run(tmp_path):
    run = written_run(tmp_path, spark=None).run
    # What is stored now, by the machine's clock, is long past.
    run.environment.clock.instant = run.environment.clock.instant + timedelta(days=365)
    return replace(run, options=replace(run.options, keep_runs=_KEPT_RUNS, may_sweep=True))
