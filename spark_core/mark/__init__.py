"""Mark: the five tables up to `expired_addresses`, in the order that makes them safe; deletes nothing.

The cutoff is fixed before anything is read. References only move from staged
to committed, so the staged entries are read completely before the commits are
looked at, and the listing, which only counts objects older than the cutoff,
comes first of all.
"""

from spark_core.mark.commits import retained_commits
from spark_core.mark.committed import committed_addresses
from spark_core.mark.expired import Mark, expired_addresses
from spark_core.mark.slices import namespace_slices
from spark_core.mark.uncommitted import uncommitted_addresses

__all__ = [
    "Mark",
    "committed_addresses",
    "expired_addresses",
    "namespace_slices",
    "retained_commits",
    "uncommitted_addresses",
]
