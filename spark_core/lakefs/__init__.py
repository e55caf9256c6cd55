"""Call the lakeFS server through lakefs-sdk, and read the files that it writes for a collection.

This package knows nothing of runs, and decides nothing about an object.
"""

from typing import TYPE_CHECKING

from spark_core.clocks import Clock as Clock
from spark_core.clocks import SystemClock as SystemClock
from spark_core.lakefs.options import ServerOptions
from spark_core.on_demand import on_demand

if TYPE_CHECKING:
    from spark_core.lakefs.answer_types import DatedEntry as DatedEntry
    from spark_core.lakefs.answer_types import EntriesPage as EntriesPage
    from spark_core.lakefs.answer_types import LoggedCommit as LoggedCommit
    from spark_core.lakefs.answer_types import PreparedCommits as PreparedCommits
    from spark_core.lakefs.answer_types import PreparedUncommitted as PreparedUncommitted
    from spark_core.lakefs.answer_types import RefsDump as RefsDump
    from spark_core.lakefs.answer_types import StorageConfig as StorageConfig
    from spark_core.lakefs.branch_diff import StagedEntries as StagedEntries
    from spark_core.lakefs.branch_reads import ActionFile as ActionFile
    from spark_core.lakefs.branch_reads import BranchReads as BranchReads
    from spark_core.lakefs.branch_reads import Pull as Pull
    from spark_core.lakefs.branch_reads import StagedEntry as StagedEntry
    from spark_core.lakefs.commits_from_log import complete_refs as complete_refs
    from spark_core.lakefs.commits_from_log import walk_refs as walk_refs
    from spark_core.lakefs.failures import NoSuchCallError as NoSuchCallError
    from spark_core.lakefs.files_of_server import read_refs_dump as read_refs_dump
    from spark_core.lakefs.files_of_server import read_retained as read_retained
    from spark_core.lakefs.files_of_server import read_uncommitted as read_uncommitted
    from spark_core.lakefs.files_of_server import uncommitted_files as uncommitted_files
    from spark_core.lakefs.path_lookups import CallBudget as CallBudget
    from spark_core.lakefs.path_lookups import addresses_on as addresses_on
    from spark_core.lakefs.path_lookups import pages_of as pages_of
    from spark_core.lakefs.rules import LONGEST_RETENTION_DAYS as LONGEST_RETENTION_DAYS
    from spark_core.lakefs.server import LakeFSServer
    from spark_core.lakefs.staged_entries import DiffsRead as DiffsRead
    from spark_core.lakefs.staged_entries import diff_addresses as diff_addresses
    from spark_core.lakefs.staged_entries import diff_names as diff_names
    from spark_core.lakefs.staged_entries import resolved as resolved
    from spark_core.lakefs.staged_entries import scan_uncommitted as scan_uncommitted
else:
    __getattr__ = on_demand(
        __name__,
        {
            "answer_types": "DatedEntry EntriesPage LoggedCommit PreparedCommits"
            " PreparedUncommitted RefsDump StorageConfig",
            "branch_diff": "StagedEntries",
            "branch_reads": "ActionFile BranchReads Pull StagedEntry",
            "commits_from_log": "complete_refs walk_refs",
            "failures": "NoSuchCallError",
            "files_of_server": "read_refs_dump read_retained read_uncommitted uncommitted_files",
            "path_lookups": "CallBudget addresses_on pages_of",
            "rules": "LONGEST_RETENTION_DAYS",
            "server": "LakeFSServer",
            "staged_entries": "DiffsRead diff_addresses diff_names resolved scan_uncommitted",
        },
    )


__all__ = ["LakeFSServer", "ServerOptions"]
