"""The six tables as assets; each calls one function of the engine and stores what it returns."""

from lakegc_dagster.assets.mark import (
    committed_addresses,
    expired_addresses,
    namespace_slices,
    retained_commits,
    uncommitted_addresses,
)
from lakegc_dagster.assets.sweep import deletion_report

MARK_ASSETS = [namespace_slices, uncommitted_addresses, retained_commits, committed_addresses, expired_addresses]
SWEEP_ASSETS = [deletion_report]

__all__ = [
    "MARK_ASSETS",
    "SWEEP_ASSETS",
    "committed_addresses",
    "deletion_report",
    "expired_addresses",
    "namespace_slices",
    "retained_commits",
    "uncommitted_addresses",
]
