"""Mark: the five tables up to `expired_addresses`, in a safe order; deletes nothing.

The cutoff is fixed before anything is read. The listing comes first, and only objects older than
the cutoff count. References only move from staged to committed. So the staged entries are read
completely before the commits are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from spark_core.mark.committed import committed_addresses as committed_addresses
from spark_core.mark.expired import expired_addresses as expired_addresses
from spark_core.mark.listing import namespace_slices as namespace_slices
from spark_core.records import tables
from spark_core.records.reading import StoredTable
from spark_core.records.tables import TableSpec
from spark_core.records.writing import Draft
from spark_core.references.needed_tables import telling_who_needs
from spark_core.references.retained_commits import retained_commits as retained_commits
from spark_core.references.uncommitted_addresses import (
    uncommitted_addresses as uncommitted_addresses,
)
from spark_core.run import Run
from spark_core.run.chain import Mark


def _committed(run: Run, commits: StoredTable) -> Draft:
    with telling_who_needs(run, lambda: pa.Table.from_batches(commits.batches())):
        return committed_addresses(run, commits)


_MAKERS: Mapping[TableSpec, Callable[..., Draft]] = {
    tables.NAMESPACE_SLICES: namespace_slices,
    tables.UNCOMMITTED_ADDRESSES: uncommitted_addresses,
    tables.RETAINED_COMMITS: retained_commits,
    tables.COMMITTED_ADDRESSES: _committed,
    tables.EXPIRED_ADDRESSES: lambda run, *four: expired_addresses(run, Mark(*four)),
}


def make(run: Run, spec: TableSpec, parents: Mapping[str, StoredTable]) -> Draft:
    """Make one table of a mark.

    The specs in `records.tables` give the order: each names the tables that it is made from.

    Args:
        run: The run.
        spec: One of `tables.MARK_TABLES`.
        parents: The stored tables that it is made from, by name; others are ignored.

    Raises:
        KeyError: If a parent is missing.
    """
    return _MAKERS[spec](run, *(parents[name] for name in spec.parents))
