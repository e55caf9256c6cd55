"""Call the lakeFS server through lakefs-sdk, and read the files that it writes for a collection.

This package knows nothing of runs, and decides nothing about an object.
"""

from spark_core.clocks import Clock, SystemClock
from spark_core.lakefs.answer_types import (
    DatedEntry,
    EntriesPage,
    LoggedCommit,
    PreparedCommits,
    PreparedUncommitted,
    RefsDump,
    StorageConfig,
)
from spark_core.lakefs.branch_reads import ActionFile, BranchReads, Pull, StagedEntry
from spark_core.lakefs.branch_writes import BranchRefusedError, BranchWrites
from spark_core.lakefs.entries import CallBudget, addresses_on, pages_of
from spark_core.lakefs.failures import NoSuchCallError
from spark_core.lakefs.files import (
    read_refs_dump,
    read_retained,
    read_uncommitted,
    uncommitted_files,
)
from spark_core.lakefs.options import ServerOptions
from spark_core.lakefs.scans import (
    DiffsRead,
    StagedEntries,
    diff_addresses,
    diff_names,
    resolved,
    scan_uncommitted,
)
from spark_core.lakefs.server import LONGEST_RETENTION_DAYS, LakeFSServer
from spark_core.lakefs.walk import complete_refs, walk_refs
from spark_core.lakefs.writes import MOST_PATHS, WriteRefusedError, Writes

__all__ = [
    "LONGEST_RETENTION_DAYS",
    "MOST_PATHS",
    "ActionFile",
    "BranchReads",
    "BranchRefusedError",
    "BranchWrites",
    "CallBudget",
    "Clock",
    "DatedEntry",
    "DiffsRead",
    "EntriesPage",
    "LakeFSServer",
    "LoggedCommit",
    "NoSuchCallError",
    "PreparedCommits",
    "PreparedUncommitted",
    "Pull",
    "RefsDump",
    "ServerOptions",
    "StagedEntries",
    "StagedEntry",
    "StorageConfig",
    "SystemClock",
    "WriteRefusedError",
    "Writes",
    "addresses_on",
    "complete_refs",
    "diff_addresses",
    "diff_names",
    "pages_of",
    "read_refs_dump",
    "read_retained",
    "read_uncommitted",
    "resolved",
    "scan_uncommitted",
    "uncommitted_files",
    "walk_refs",
]
