"""The listing of a mark from an S3 Inventory, where listing the bucket is what a run costs.

An inventory is a listing that began at its own date. So the order of a mark holds by that date, and
nothing that was written later is a candidate. Rows of it that are no longer true only keep or name
what is gone: a sweep looks at each object in the store before it asks for its deletion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, sorted_once
from spark_core.addresses.candidates import Limits
from spark_core.addresses.namespace import Namespace
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import (
    IncompleteReadError,
    RepositoryStateError,
    SettingsError,
    UnsafePlanError,
)
from spark_core.extras import require
from spark_core.records.figures import InventoryFigures, ListedFigures
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.exchange import Batches, Exchange, Sent, no_work, numbers_of
from spark_core.spark.tasks import counting, deal_out
from spark_core.storage import ObjectStore, StoreOptions
from spark_core.storage.inventory import (
    Inventory,
    InventoryFile,
    Wanted,
    find_inventory,
    is_table,
    rows_of,
)
from spark_core.storage.inventory.rows import PASSED_OVER, ROWS

# The name of the bucket in an inventory of a local blockstore, made to try one out.
LOCAL_BUCKET = "local"

# Bytes of a row in its compressed file: some 100 in CSV, fewer in the formats by columns.
_BYTES_OF_A_ROW = 40

_HASHES = pa.schema([schemas.NAMESPACE_SLICES.field("address_hash")])
# Hashes of a bucket that are looked at by their addresses. Objects that only share a hash are far
# fewer.
_SOME = 100


@dataclass(frozen=True)
class FitInventory:
    """An inventory that is fit for a run.

    Attributes:
        inventory: What its manifest says.
        store: What its files' keys are relative to.
        wanted: The rows that lie in the namespace.
        limits: The run's limits for names and ages, with what the inventory's date adds.
        began: When the run began to read.
        requests: Requests to the store that the driver sent for it.
        most_tasks: Tasks at most.
    """

    inventory: Inventory
    store: ObjectStore
    wanted: Wanted
    limits: Limits
    began: datetime
    requests: Counter[str]
    most_tasks: int

    @property
    def tasks(self) -> list[tuple[InventoryFile, ...]]:
        """The data files, dealt out to tasks."""
        return deal_out(self.inventory.files, self.most_tasks)

    @property
    def rows(self) -> int:
        """How many rows they have, as far as their sizes tell."""
        return sum(file.size_bytes for file in self.inventory.files) // _BYTES_OF_A_ROW

    def read(
        self, task: Sequence[InventoryFile], figures: Counter[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read the files of a task, on an executor; columns of `schemas.OBJECT_LISTING`."""
        with counting(figures, self.store.requests):
            for file in task:
                yield from rows_of(self.store, self.inventory, file, self.wanted, figures)

    def figures(self, counted: Counter[str]) -> InventoryFigures:
        """Take the figures of the inventory out of those of all tasks."""
        rows, passed_over = counted.pop(ROWS, 0), counted.pop(PASSED_OVER, 0)
        files = self.inventory.files
        return InventoryFigures(
            manifest=self.inventory.place,
            created_at=self.inventory.created_at.isoformat(),
            age_seconds=(self.began - self.inventory.created_at).total_seconds(),
            files=len(files),
            file_bytes=sum(file.size_bytes for file in files),
            rows=rows,
            rows_passed_over=passed_over,
        )


def require_named_once(run: Run, slices: StoredTable) -> None:
    """Refuse an inventory that names an object more than once.

    A store lists each key once. Twice in the table, an object would be counted twice among what is
    alive, and twice in the report of what was deleted. The cost is a shuffle of the hashes.

    Args:
        run: The run.
        slices: Table 1; nothing is asked where the store itself was listed.

    Raises:
        IncompleteReadError: If it does, with the name of such an object.
    """
    inventory = ListedFigures.of(slices.manifest).inventory
    if inventory is None:
        return
    named = _named_twice(run, slices)
    if named is not None:
        address, rows = named
        raise IncompleteReadError(
            f"{inventory.manifest} names {address} {rows} times, which no listing does",
            "Wait for the next inventory, or take inventory out, and mark under a new run key.",
        )


def _named_twice(run: Run, slices: StoredTable) -> tuple[str, int] | None:
    """Return the first address that is there more than once, and how often; None for none."""
    sources = {"listed": slices.source(_HASHES.names)}
    work = Exchange(sources, _twice, _HASHES, no_work)
    found, _ = work.run(lambda: run.spark, threads=run.options.read_threads)
    hashes = sorted_once(np.concatenate(found))
    if not len(hashes):
        return None
    listed = slices.source([*_HASHES.names, "address"])
    some = listed.through(listed.schema, partial(_among, hashes))
    found = some.each(lambda: run.spark, partial(_table_of, listed.schema))
    # Two objects may have one hash.
    counts = pa.concat_tables(found).group_by("address").aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1)).sort_by("address").to_pylist()
    return (twice[0]["address"], twice[0]["count_all"]) if twice else None


def _twice(bucket: Mapping[str, pa.Table]) -> Sent[Any]:
    """Return some of the hashes that are there more than once, sorted."""
    hashes = np.sort(numbers_of(bucket["listed"]["address_hash"]))
    return Sent(sorted_once(hashes[1:][hashes[1:] == hashes[:-1]])[:_SOME], {})


def _among(hashes: Any, batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(pa.array(are_among(numbers_of(batch.column("address_hash")), hashes)))


def _table_of(schema: pa.Schema, batches: Batches) -> pa.Table:
    return pa.Table.from_batches(batches, schema)


def find(run: Run, began: datetime) -> FitInventory:
    """Find the inventory that the run's options name, and refuse one that is not of the namespace.

    Args:
        run: The run.
        began: When the run began to read.

    Raises:
        SettingsError: If the namespace is in no S3 bucket.
        NotFoundError: If there is none.
        CorruptTableError: If its manifest is damaged, or its files lack a column.
        RepositoryStateError: If it is of another bucket.
        UnsafePlanError: If its date lies in the future.
    """
    namespace, skew = run.namespace, MAX_CLOCK_SKEW
    store_options = run.environment.storage_of(run.repository).store_options
    inventory, store = ask_manifest(namespace, run.options.inventory or "", store_options)
    inventory.require_columns()
    require_of_bucket(inventory, namespace)
    require_past(inventory, began, skew)
    cutoff = min(run.cutoff, inventory.created_at - skew)
    limits = replace(
        run.limits, cutoff=cutoff, uploads_cutoff=min(run.limits.uploads_cutoff, cutoff)
    )
    return FitInventory(
        inventory,
        store,
        wanted_of(namespace, flat=run.options.flat),
        limits,
        began,
        Counter(store.requests),
        run.reading_tasks(len(inventory.files)),
    )


def ask_manifest(
    namespace: Namespace, where: str, store_options: StoreOptions
) -> tuple[Inventory, ObjectStore]:
    """Find the manifest that the options of a repository name.

    Args:
        namespace: Of the repository.
        where: Its place by the options.
        store_options: How the repository's store is reached.

    Returns:
        The inventory, and the store that its files' keys are relative to.

    Raises:
        SettingsError: If the namespace is in no S3 bucket.
        NotFoundError: If there is none.
        CorruptTableError: If its manifest is damaged.
    """
    if namespace.kind not in ("s3", "local"):
        raise SettingsError(
            f"inventory reads inventories of S3, and {namespace.root} lies in a store "
            f"of the kind {namespace.kind}, whose inventories have other manifests",
            'Set inventory = "" for this repository.',
        )
    if is_table(where):
        require("iceberg", "Inventory tables of S3 Metadata")
        from spark_core.storage.inventory.iceberg import find_table

        return find_table(where, namespace, store_options)
    return find_inventory(where, store_options)


def require_of_bucket(inventory: Inventory, namespace: Namespace) -> None:
    """Refuse an inventory of another bucket than the namespace's.

    Raises:
        RepositoryStateError: If it is.
    """
    bucket = namespace.bucket or LOCAL_BUCKET
    if inventory.source_bucket != bucket:
        raise RepositoryStateError(
            f"{inventory.place} is an inventory of the bucket {inventory.source_bucket!r}, and "
            f"{namespace.root} lies in {bucket!r}",
            "Set inventory to one of that bucket.",
        )


def require_past(inventory: Inventory, now: datetime, skew: timedelta) -> None:
    """Refuse an inventory whose date lies in the future by more than clocks may differ.

    Raises:
        UnsafePlanError: If it does.
    """
    if inventory.created_at > now + skew:
        raise UnsafePlanError(
            f"{inventory.place} is of {inventory.created_at.isoformat()}, and now it is "
            f"{now.isoformat()}: objects that are still being uploaded would look old",
            "Set the clock of this machine (NTP), or wait for the next inventory.",
        )


def wanted_of(namespace: Namespace, *, flat: bool) -> Wanted:
    """Return which rows of an inventory lie in a namespace."""
    return Wanted(f"{namespace.path}/" if namespace.path else "", flat)
