"""Uses of Dagster's private interface: it has no public way to open a home with overrides.

An upgrade may break any of these: `tests/lakegc_dagster/test_private_doors.py` says which.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from dagster._core.instance import InstanceRef

NO_LOG_FILES = {
    "module": "dagster._core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
}


def instance_without_log_files(home: Path) -> dg.DagsterInstance:
    """Make the instance of an existing home; what its runs print stays on the terminal."""
    reference = InstanceRef.from_dir(str(home), overrides={"compute_logs": NO_LOG_FILES})
    return dg.DagsterInstance.from_ref(reference)
