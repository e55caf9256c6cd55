"""Where lakegc keeps its own files: the folders and keys under `_lakefs/retention/gc/`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from spark_core.errors import SettingsError
from spark_core.model import RunKey

# lakeFS keeps files of its own there, and some of its folders have the names of ours; see `run_of`.
ROOT = "_lakefs/retention/gc/"

# Folders of tables and of files for a sweep. Each holds a folder `run_id=<run>/` for a run.
SLICES = "slices"
UNCOMMITTED = "uncommitted"
COMMITS = "commits"
COMMITTED = "committed"
RANGES = "ranges"
EXPIRATIONS = "expirations"
ADDRESSES = "addresses"
REPORTS = "reports"
REFERENCE = "reference"
MISSING = "missing"
EXPIRED_COMMITS = "expired"
EXPLANATIONS = "explanations"
FATES = "fates"
JOURNAL = "journal"
POLICY_DELETIONS = "policydeletions"
# Records of the deletion of what the server wrote for a run's calls.
SERVER_FILES = "serverfiles"

# Folders of the namespace as a whole.
BRANCHES = f"{ROOT}branches/"
HOLDS = f"{ROOT}holds/"
# Ranges and closed slices that were read once: files of all runs.
INDEX = f"{ROOT}index/"
LEASE = f"{ROOT}lease/"
POLICIES = f"{ROOT}policies/"
# What people confirmed of versions of the policy, beside the versions.
CONFIRMED_POLICIES = f"{POLICIES}confirmed/"
PROBE = f"{ROOT}probe/"
PURGES = f"{ROOT}purges/"
QUARANTINE = f"{ROOT}quarantine/"
REMOVALS = f"{ROOT}removals/"
RESTORES = f"{ROOT}restores/"
# Marks in the form that lakeFS's own job writes and reads.
UNIFIED = f"{ROOT}unified/"

# Objects written to read the store's clock.
CLOCK = f"{PROBE}clock"

# Names of Parquet files: parts of tables, files beside tables, and diffs of branches.
PART = (
    r"(?:part|_expired|_waiting|_aside)"
    r"-\d{5}-\d{3}-[0-9a-f]{32}-[0-9a-f]{8}\.parquet"
)
# Files of the index: closed slices, metaranges, ranges, and entries of ranges.
INDEXED = r"(?:slices|gone|trees|ranges|entries)-\d{5}-\d{3}-[0-9a-f]{32}-[0-9a-f]{8}\.parquet"
DIFFS = r"_diffs-[0-9a-f]{32}-\d{5}\.parquet"
SAVED = r"_saved\.json"
# Names of files that are made anew whenever somebody asks: they do not say that a run is at work.
FOR_READERS = r"_(?:what_if\.json|report\.(?:json|html))"

_INSTANT = "%Y-%m-%dT%H-%M-%S.%fZ"
_RESTORED = f"{ROOT}{SLICES}/_restored-"
_DONE = re.compile(rf"{re.escape(ROOT)}{SERVER_FILES}/run_id=[^/]+/[^/]+\.done\.json")
_OF_A_RUN = re.compile(rf"{re.escape(ROOT)}[a-z]+/run_id=(?P<run>[^/]+)/")


def of_run(kind: str, run: RunKey | str) -> str:
    """Return the folder of a run under a kind of folder, ending in a slash."""
    return f"{ROOT}{kind}/run_id={run}/"


def part(name: str, number: int, count: int, unique: str) -> str:
    """Return the name of a part.

    Args:
        name: `part`, or a name with an underscore first for files that are not the table's.
        number: Number of the task.
        count: Number of the part among the task's.
        unique: Attempt and try, so that no two write to one name.
    """
    return f"{name}-{number:05d}-{count:03d}-{unique}.parquet"


def diffs(unique: str, number: int) -> str:
    """Return the name of a file of diffs."""
    return f"_diffs-{unique}-{number:05d}.parquet"


def manifest_key(kind: str, run: RunKey) -> str:
    """Return the key of a table's manifest; Parquet readers skip it for its underscore."""
    return f"{of_run(kind, run)}_manifest.json"


def verdict_key(run: RunKey) -> str:
    """Return the key of a run's verdict, beside its addresses."""
    return f"{of_run(ADDRESSES, run)}_verdict.json"


def saved_key(run: RunKey) -> str:
    """Return the key of what a mark saved for the optimized run after it."""
    return f"{of_run(UNCOMMITTED, run)}_saved.json"


def confirmation_key(run: RunKey, check: str) -> str:
    """Return the key of a confirmation, beside the verdict."""
    return f"{of_run(ADDRESSES, run)}_confirmed.{check}.json"


def report_keys(run: RunKey, *, swept: bool) -> dict[str, str]:
    """Return the keys of a report's files: `json` to be read again, `html` to look at."""
    where = of_run(REPORTS if swept else ADDRESSES, run)
    return {ending: f"{where}_report.{ending}" for ending in ("json", "html")}


def what_if_key(run: RunKey) -> str:
    """Return the key of what other rules would free, beside the addresses of a run."""
    return f"{of_run(ADDRESSES, run)}_what_if.json"


def hold_key(name: str) -> str:
    """Return the key of a hold."""
    return f"{HOLDS}{name}.json"


def policy_key(number: int) -> str:
    """Return the key of a version of the retention policy."""
    return f"{POLICIES}{number:010d}.json"


def confirmed_policy_key(policy_digest: str) -> str:
    """Return the key of the confirmation of a policy by its digest."""
    return f"{CONFIRMED_POLICIES}{policy_digest}.json"


def confirmed_resets_key(policy_digest: str) -> str:
    """Return the key of the confirmation that a policy may reset staged entries."""
    return f"{CONFIRMED_POLICIES}{policy_digest}.resets.json"


def removal(run: RunKey | str) -> str:
    """Return the folder of the record of a removal, ending in a slash."""
    return f"{REMOVALS}run_id={run}/"


def branch_mark_key(mark: RunKey) -> str:
    """Return the key of a mark of stale branches."""
    return f"{BRANCHES}{mark}/_marked.json"


def branch_confirmation_key(mark: RunKey) -> str:
    """Return the key of the confirmation of a mark of stale branches."""
    return f"{BRANCHES}{mark}/_confirmed.json"


def branch_step_key(mark: RunKey, number: int, step: str) -> str:
    """Return the key of the record of a step: what was, or is about to be, done to a branch.

    Args:
        mark: The mark.
        number: Number of the branch in it, from 1 on.
        step: `going`, `gone` or `back`.
    """
    return f"{BRANCHES}{mark}/{number:06d}.{step}.json"


def lease_key(epoch: int, number: int) -> str:
    """Return the key of a place in the log of an epoch."""
    return f"{LEASE}{epoch:010d}/{number:010d}"


def in_quarantine(run: RunKey | str) -> str:
    """Return the folder of a run's objects in quarantine, ending in a slash."""
    return f"{QUARANTINE}run_id={run}/"


def record(folder: str, run: RunKey, began: datetime) -> str:
    """Return the folder of the records of one purge or restore, ending in a slash.

    Args:
        folder: `PURGES` or `RESTORES`.
        run: The run whose objects it is about, or that it ended with.
        began: When it began.
    """
    return f"{folder}run_id={run}/{began:{_INSTANT}}/"


def server_files_key(run: RunKey, began: datetime, step: str) -> str:
    """Return the key of a record of the deletion of lists and scans.

    Args:
        run: The run that had asked the server for them.
        began: When the deletion began.
        step: `planned` or `done`.
    """
    return f"{of_run(SERVER_FILES, run)}{began.astimezone(UTC):{_INSTANT}}.{step}.json"


def is_done(key: str) -> bool:
    """Say whether a key is the record of a deletion of lists and scans that left nothing."""
    return _DONE.fullmatch(key) is not None


def restored_key(began: datetime) -> str:
    """Return the key that tells later marks of a restore: beside the runs that they look for.

    Args:
        began: When the restore began, or ended.
    """
    return f"{_RESTORED}{began.astimezone(UTC):{_INSTANT}}"


def restored_at(key: str) -> datetime | None:
    """Return when the restore of such a key began or ended; None if it is no such key.

    Examples:
        >>> restored_at("_lakefs/retention/gc/slices/_restored-2026-11-20T02-00-00.000001Z")
        datetime.datetime(2026, 11, 20, 2, 0, 0, 1, tzinfo=datetime.timezone.utc)
        >>> restored_at("_lakefs/retention/gc/slices/_other") is None
        True
    """
    try:
        return datetime.strptime(key, f"{_RESTORED}{_INSTANT}").replace(tzinfo=UTC)
    except ValueError:
        return None


def run_of(key: str) -> RunKey | None:
    """Return the run that a key or a folder belongs to; None if it is not lakegc's.

    lakeFS keeps files in folders of the same names, with ids that are no instants: its own job
    wrote `addresses/mark_id=<id>/`, the server writes `commits/run_id=<id>/`.

    Args:
        key: Relative to the namespace.
    """
    found = _OF_A_RUN.match(key)
    try:
        return RunKey.parse(found["run"]) if found else None
    except SettingsError:
        return None
