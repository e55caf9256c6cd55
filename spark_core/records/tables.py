"""Which tables a run has, where they lie, and which runs there are.

`manifest`, `reading`, `writing` and `storing` deal with the content of tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from spark_core import lakegc_keys, schemas
from spark_core.model import RunKey
from spark_core.storage import ObjectStore


@dataclass(frozen=True)
class TableSpec:
    """The name of a table, where it lies, and which tables it is made from.

    Attributes:
        name: Name of the asset.
        folder: Folder under `lakegc_keys.ROOT`.
        schema: Columns.
        parents: Tables whose manifests its manifest names.
    """

    name: str
    folder: str
    schema: pa.Schema
    parents: tuple[str, ...]


NAMESPACE_SLICES = TableSpec("namespace_slices", lakegc_keys.SLICES, schemas.NAMESPACE_SLICES, ())
UNCOMMITTED_ADDRESSES = TableSpec(
    "uncommitted_addresses",
    lakegc_keys.UNCOMMITTED,
    schemas.UNCOMMITTED_ADDRESSES,
    ("namespace_slices",),
)
RETAINED_COMMITS = TableSpec(
    "retained_commits", lakegc_keys.COMMITS, schemas.RETAINED_COMMITS, ("uncommitted_addresses",)
)
COMMITTED_ADDRESSES = TableSpec(
    "committed_addresses", lakegc_keys.COMMITTED, schemas.COMMITTED_ADDRESSES, ("retained_commits",)
)
# Made beside the committed addresses: the ranges whose entries are taken from the index.
TAKEN_RANGES = TableSpec(
    "taken_ranges", lakegc_keys.RANGES, schemas.TAKEN_RANGES, ("retained_commits",)
)
EXPIRED_ADDRESSES = TableSpec(
    "expired_addresses",
    lakegc_keys.ADDRESSES,
    schemas.EXPIRED_ADDRESSES,
    ("namespace_slices", "uncommitted_addresses", "retained_commits", "committed_addresses"),
)
DELETION_REPORT = TableSpec(
    "deletion_report", lakegc_keys.REPORTS, schemas.DELETION_REPORT, ("expired_addresses",)
)
# Made for the report of a run that verifies a mark of lakeFS's own job; it decides nothing.
REFERENCE_ADDRESSES = TableSpec(
    "reference_addresses",
    lakegc_keys.REFERENCE,
    schemas.REFERENCE_ADDRESSES,
    (*EXPIRED_ADDRESSES.parents, "expired_addresses"),
)
# Made beside the expired addresses if any is missing. It names all missing ones, and decides
# nothing.
MISSING_ADDRESSES = TableSpec(
    "missing_addresses", lakegc_keys.MISSING, schemas.MISSING_ADDRESSES, EXPIRED_ADDRESSES.parents
)
# Made before the expired addresses where the settings ask for it: what the retention policy names.
POLICY_EXPIRATIONS = TableSpec(
    "policy_expirations",
    lakegc_keys.EXPIRATIONS,
    schemas.POLICY_EXPIRATIONS,
    EXPIRED_ADDRESSES.parents,
)
# Made before the first deletion of a sweep by a retention policy. It stays: heads have entries of
# these objects, which are not missing.
POLICY_DELETIONS = TableSpec(
    "policy_deletions",
    lakegc_keys.POLICY_DELETIONS,
    schemas.POLICY_DELETIONS,
    ("expired_addresses",),
)
# Made before the expired addresses, which are a selection of it.
FATES = TableSpec("fates", lakegc_keys.FATES, schemas.FATES, EXPIRED_ADDRESSES.parents)
# Made beside the retained commits and the expired addresses, for the words of reports.
EXPIRED_COMMITS = TableSpec(
    "expired_commits",
    lakegc_keys.EXPIRED_COMMITS,
    schemas.EXPIRED_COMMITS,
    RETAINED_COMMITS.parents,
)
EXPLANATIONS = TableSpec(
    "explanations", lakegc_keys.EXPLANATIONS, schemas.EXPLANATIONS, EXPIRED_ADDRESSES.parents
)
MARK_TABLES = (
    NAMESPACE_SLICES,
    UNCOMMITTED_ADDRESSES,
    RETAINED_COMMITS,
    COMMITTED_ADDRESSES,
    EXPIRED_ADDRESSES,
)
ALL_TABLES = (*MARK_TABLES, DELETION_REPORT)
BY_NAME = {spec.name: spec for spec in ALL_TABLES}
# Including the tables that a run has only if they have rows.
OPTIONAL_TABLES = (
    FATES,
    REFERENCE_ADDRESSES,
    MISSING_ADDRESSES,
    EXPIRED_COMMITS,
    EXPLANATIONS,
    POLICY_EXPIRATIONS,
    TAKEN_RANGES,
)
SCHEMAS = {spec.name: spec.schema for spec in (*ALL_TABLES, *OPTIONAL_TABLES, POLICY_DELETIONS)}

# Tables that are made, and stored, while another one is: that one's manifest names them.
ON_THE_WAY = (
    FATES,
    MISSING_ADDRESSES,
    EXPIRED_COMMITS,
    EXPLANATIONS,
    TAKEN_RANGES,
)

# In whose manifest theirs lie.
ENCLOSED_IN = {
    EXPIRED_COMMITS.name: RETAINED_COMMITS,
    TAKEN_RANGES.name: COMMITTED_ADDRESSES,
    EXPLANATIONS.name: EXPIRED_ADDRESSES,
    FATES.name: EXPIRED_ADDRESSES,
}

# Tables about a mark rather than of it: its verdict does not close them.
AFTER_THE_VERDICT = (DELETION_REPORT, POLICY_DELETIONS, REFERENCE_ADDRESSES)


def folder(spec: TableSpec, run: RunKey) -> str:
    """Return the folder of a table of a run, ending in a slash."""
    return lakegc_keys.of_run(spec.folder, run)


def manifest_key(spec: TableSpec, run: RunKey) -> str:
    """Return the key of a table's manifest."""
    return lakegc_keys.manifest_key(spec.folder, run)


def runs(store: ObjectStore, where: str = lakegc_keys.ADDRESSES) -> list[RunKey]:
    """Return the runs that have a folder of a kind, newest first; the one source of runs.

    It costs one request for each thousand runs. A folder does not prove that its content was
    written completely.

    Args:
        store: Rooted at the namespace.
        where: Kind of folder under `_lakefs/retention/gc/`; by default the folder of the expired
            addresses.
    """
    return _runs(store.children(f"{lakegc_keys.ROOT}{where}/")[0])


def runs_and_restores(store: ObjectStore) -> tuple[list[RunKey], list[datetime]]:
    """Return the runs that began a mark, newest first, and when each restore began and ended.

    It costs what `runs` costs.
    """
    folders, beside = store.children(f"{lakegc_keys.ROOT}{NAMESPACE_SLICES.folder}/")
    restored = map(lakegc_keys.restored_at, beside["key"].to_pylist())
    return _runs(folders), sorted(at for at in restored if at is not None)


def _runs(folders: Sequence[str]) -> list[RunKey]:
    return sorted(filter(None, map(lakegc_keys.run_of, folders)), reverse=True)
