"""Dagster's home: made once, and the workspace in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from lakegc_dagster.launch.foreign_errors import in_dagsters_home

# The name of the code location in each workspace of lakegc: `lakegc ui` and `dagster dev` in a
# clone. Dagster keeps the state of schedules and sensors by it.
CODE_LOCATION = "lakegc"
MODULE = "lakegc_dagster.definitions"

_WORKSPACE = f"""\
# Written by lakegc each time that `lakegc ui` starts.
load_from:
  - python_module:
      module_name: {MODULE}
      location_name: {CODE_LOCATION}
"""

_CONFIG = """\
# Written by lakegc when it made this Dagster home; yours to change.
telemetry:
  enabled: false
nux:
  enabled: false
freshness:
  # Shows when the newest run of a repository is too old.
  enabled: true
concurrency:
  # Each run brings a Spark session of its own. For more at once raise both; \
from its first run on, the pool of lakegc's
  # runs has a limit of its own: `dagster instance concurrency set lakegc 2`.
  runs:
    max_concurrent_runs: 1
  pools:
    granularity: run
    default_limit: 1
"""


def prepare_home(home: Path) -> Path:
    """Make a Dagster home that sends no telemetry; an existing home stays as it is.

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


def write_workspace(home: Path) -> Path:
    """Write the workspace with lakegc's code location into an existing home.

    Args:
        home: Dagster's home.

    Returns:
        The file.
    """
    file = home.resolve() / "lakegc-workspace.yaml"
    file.write_text(_WORKSPACE)
    return file


@contextmanager
def open_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the instance of a home, which is made when it is not there."""
    with in_dagsters_home(home), dg.DagsterInstance.from_config(str(prepare_home(home))) as found:
        yield found
