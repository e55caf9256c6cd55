"""Where lakegc keeps its own files: each folder and key under `_lakefs/retention/gc/` of a namespace."""

from __future__ import annotations

import re
from datetime import datetime

from spark_core.errors import SettingsError
from spark_core.model import RunKey

# lakeFS keeps files of its own there, in folders of which some have the names of ours; see `run_of`.
ROOT = "_lakefs/retention/gc/"

# Folders of tables, and of what was written for a sweep: in each a folder `run_id=<run>/` for a run.
SLICES = "slices"
UNCOMMITTED = "uncommitted"
COMMITS = "commits"
COMMITTED = "committed"
ADDRESSES = "addresses"
REPORTS = "reports"
REFERENCE = "reference"
MISSING = "missing"
JOURNAL = "journal"

# Folders of the namespace as a whole.
HOLDS = f"{ROOT}holds/"
LEASE = f"{ROOT}lease/"
PROBE = f"{ROOT}probe/"
PURGES = f"{ROOT}purges/"
QUARANTINE = f"{ROOT}quarantine/"
RESTORES = f"{ROOT}restores/"
# Marks as lakeFS's own job writes and reads them.
UNIFIED = f"{ROOT}unified/"

# Written to read the store's clock.
CLOCK = f"{PROBE}clock"

# Names of Parquet files: parts of tables, what lies beside them, and diffs of branches that were read on the way.
PART = r"(?:part|_expired)-\d{5}-\d{3}-[0-9a-f]{32}-[0-9a-f]{8}\.parquet"
DIFFS = r"_diffs-[0-9a-f]{32}-\d{5}\.parquet"

_OF_A_RUN = re.compile(rf"{re.escape(ROOT)}[a-z]+/run_id=(?P<run>[^/]+)/")


def of_run(kind: str, run: RunKey | str) -> str:
    """Return the folder of a run among those of a kind, ending in a slash."""
    return f"{ROOT}{kind}/run_id={run}/"


def part(name: str, number: int, count: int, unique: str) -> str:
    """Return the name of a part.

    Args:
        name: `part`, or what begins with an underscore for files that are none of the table's.
        number: Of the task.
        count: Of the part among the task's.
        unique: Attempt and try, so that no two write to one name.
    """
    return f"{name}-{number:05d}-{count:03d}-{unique}.parquet"


def diffs(unique: str, number: int) -> str:
    """Return the name of a file of diffs."""
    return f"_diffs-{unique}-{number:05d}.parquet"


def manifest_key(kind: str, run: RunKey) -> str:
    """Return the key of a table's manifest; the underscore keeps it out of Parquet readers' sight."""
    return f"{of_run(kind, run)}_manifest.json"


def verdict_key(run: RunKey) -> str:
    """Return the key of a run's verdict, beside its addresses."""
    return f"{of_run(ADDRESSES, run)}_verdict.json"


def confirmation_key(run: RunKey, check: str) -> str:
    """Return the key of a confirmation, beside the verdict."""
    return f"{of_run(ADDRESSES, run)}_confirmed.{check}.json"


def report_keys(run: RunKey, *, swept: bool) -> dict[str, str]:
    """Return the keys of a report's files: `json` to be read again, `html` and `png` to be looked at."""
    where = of_run(REPORTS if swept else ADDRESSES, run)
    return {ending: f"{where}_report.{ending}" for ending in ("json", "html", "png")}


def hold_key(name: str) -> str:
    """Return where a hold lies."""
    return f"{HOLDS}{name}.json"


def lease_key(epoch: int, number: int) -> str:
    """Return the key of a place in the log of an epoch."""
    return f"{LEASE}{epoch:010d}/{number:010d}"


def in_quarantine(run: RunKey | str) -> str:
    """Return where the objects of a run lie in quarantine, ending in a slash."""
    return f"{QUARANTINE}run_id={run}/"


def record(folder: str, run: RunKey, began: datetime) -> str:
    """Return the folder of what one purge or restore did, ending in a slash.

    Args:
        folder: `PURGES` or `RESTORES`.
        run: The run whose objects it is about, or that it ended with.
        began: When it began.
    """
    return f"{folder}run_id={run}/{began:%Y-%m-%dT%H-%M-%S.%fZ}/"


def run_of(key: str) -> RunKey | None:
    """Return the run that a key or a folder belongs to; None for what is of somebody else.

    lakeFS keeps files in folders of the same names: its own job wrote `addresses/mark_id=<id>/`, the server writes
    `commits/run_id=<id>/` with ids that are no instants.

    Args:
        key: Relative to the namespace.
    """
    found = _OF_A_RUN.match(key)
    try:
        return RunKey.parse(found["run"]) if found else None
    except SettingsError:
        return None
