"""Dagster's home: made once, shared by the command line and the UI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.instance import InstanceRef  # Dagster has no public way to open a home with overrides

_CONFIG = """\
# Written by lakegc when it made this Dagster home; yours to change.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    # Each run brings a Spark session of its own.
    max_concurrent_runs: 1
"""


def prepare_home(home: Path) -> Path:
    """Make a Dagster home that sends no telemetry; one that is there stays as it is.

    Args:
        home: The directory.

    Returns:
        The directory, absolute, for `DAGSTER_HOME`.
    """
    home.mkdir(parents=True, exist_ok=True)
    config = home / "dagster.yaml"
    if not config.exists():
        config.write_text(_CONFIG)
    return home.resolve()


@contextmanager
def open_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the instance of a home for a run in this process.

    The run's output stays on the terminal: Dagster would redirect it to files
    under the feet of whoever draws progress on it.

    Args:
        home: Dagster's home; made when it is not there.
    """
    quiet = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
    reference = InstanceRef.from_dir(str(prepare_home(home)), overrides={"compute_logs": quiet})
    with dg.DagsterInstance.from_ref(reference) as instance:
        yield instance
