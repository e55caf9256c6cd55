"""S3 Metadata's live inventory table: an Iceberg table that S3 itself keeps of a bucket.

It is read by pyiceberg, whose files go through our own stores: the same credentials, proxies,
bounds and counts of requests as for everything else. The table runs behind the bucket. An object
that it lacks is no candidate; one that it still names is looked at before anything is deleted.

References:
    AWS, Amazon S3 User Guide, "S3 Metadata live inventory tables schema" (the columns; changes
    arrive typically within an hour; it has every version, told apart by sequence_number) and "S3
    Metadata table" (the table bucket `aws-s3`, the namespace `b_BUCKET`, the table `inventory`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, StartsWith
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from spark_core.addresses.namespace import Namespace
from spark_core.errors import CorruptTableError, NotFoundError, SettingsError
from spark_core.storage import open_store
from spark_core.storage.contract import ObjectStore
from spark_core.storage.inventory.manifest import (
    CLASS,
    KEY,
    MODIFIED,
    OF_AN_INVENTORY,
    SIZE,
    TAG,
    Inventory,
    InventoryFile,
    plain,
)
from spark_core.storage.inventory.store_io import StoreIO, key_of
from spark_core.storage.options import StoreOptions

ICEBERG = "Iceberg"
# How long S3 says that a change typically takes to arrive in the table.
BEHIND = timedelta(hours=1)

_BUCKET, _VERSION, _MARKER = "bucket", "versionid", "isdeletemarker"
_OURS = (KEY, SIZE, MODIFIED, TAG, CLASS)
_READ = (*_OURS, _BUCKET, _VERSION, _MARKER)
_NEEDED = {_BUCKET: "bucket", _VERSION: "version_id", _MARKER: "is_delete_marker"}
_ARN = re.compile(r"arn:[\w-]+:s3tables:(?P<region>[\w-]+):\d{12}:bucket/[\w.-]+")
# What an object has for a version in a bucket that never kept versions.
_NO_VERSION = ("", "null")
_UNSOUND = (pa.ArrowException, ValueError, KeyError, OSError, NotImplementedError, ValidationError)


@dataclass(frozen=True)
class IcebergTable:
    """A snapshot of an inventory table, as tasks read it.

    Attributes:
        metadata: The table's metadata.
        schema: The columns that are read.
        only: Which rows are read.
        root: What every location in it begins with; the rest is the key in its store.
        tasks: Key of a data file -> the file with what was deleted from it.
    """

    metadata: TableMetadata
    schema: Schema
    only: BooleanExpression
    root: str
    tasks: Mapping[str, FileScanTask]

    def batches(
        self, store: ObjectStore, file: InventoryFile, bucket: str
    ) -> Iterator[pa.RecordBatch]:
        """Read one data file: the columns of an inventory, named as `plain` names them.

        Raises:
            ValueError: If a row is of another bucket, or of a bucket that keeps versions.
        """
        scan = ArrowScan(self.metadata, StoreIO(store, self.root), self.schema, self.only)
        for batch in scan.to_record_batches([self.tasks[file.key]]):
            named = batch.rename_columns([plain(name) for name in batch.schema.names])
            _require_current(named, bucket)
            yield named.select([name for name in _OURS if name in named.schema.names])


def find_table(where: str, namespace: Namespace, options: StoreOptions) -> tuple[Inventory, Any]:
    """Read the newest snapshot of an inventory table.

    Its date is that of the newest snapshot that changed rows, less the hour that changes take to
    arrive.

    Args:
        where: ARN of the table bucket (`arn:aws:s3tables:REGION:ACCOUNT:bucket/aws-s3`), whose
            inventory table of the namespace's bucket is meant; or the table's `.metadata.json`, at
            `s3://BUCKET/...` or an absolute path.
        namespace: Of the repository.
        options: How S3 is reached.

    Returns:
        The inventory, and the store that its files' keys are relative to.

    Raises:
        SettingsError: If the place has another form.
        NotFoundError: If there is no such table, or it has no rows.
        CorruptTableError: If it cannot be read as an Iceberg table, or lacks a column.
    """
    location = _location(where, namespace, options) if where.startswith("arn:") else where
    store, root = _store_of(location, options)
    try:
        table = _table(StoreIO(store, root), location)
        return _newest(table, namespace, root), store
    except _UNSOUND as error:
        problem = f"no sound Iceberg table ({type(error).__name__}: {error})"
        raise CorruptTableError(location, None, problem, OF_AN_INVENTORY) from error


def _newest(table: Table, namespace: Namespace, root: str) -> Inventory:
    snapshot = table.current_snapshot()
    columns = {plain(field.name): field.name for field in table.schema().fields}
    begins: Any = StartsWith  # Its types do not know that a column may be named.
    only = begins(columns[KEY], f"{namespace.path}/") if namespace.path else AlwaysTrue()
    if missing := [name for key, name in _NEEDED.items() if key not in columns]:
        raise ValueError(f"it has no {' and no '.join(missing)}")
    chosen = [columns[name] for name in _READ if name in columns]
    scan = table.scan(row_filter=only, selected_fields=tuple(chosen))
    tasks = {key_of(task.file.file_path, root): task for task in scan.plan_files()}
    if snapshot is None or not tasks:
        raise NotFoundError(
            f"{table.metadata_location} has no rows below {namespace.root}",
            "S3 may still be filling it: its status must be Active (aws s3api "
            "get-bucket-metadata-configuration). Until then take inventory out.",
        )
    files = [
        InventoryFile(key, task.file.file_size_in_bytes, "") for key, task in sorted(tasks.items())
    ]
    read = IcebergTable(table.metadata, scan.projection(), only, root, tasks)
    inventory = Inventory(
        place=table.metadata_location,
        source_bucket="",
        created_at=_changed_at(table, snapshot) - BEHIND,
        file_format=ICEBERG,
        columns=tuple(chosen),
        files=tuple(files),
        table=read,
    )
    return replace(inventory, source_bucket=_bucket_of(table, only, columns[_BUCKET]))


def _changed_at(table: Table, snapshot: Snapshot) -> datetime:
    """Return when rows last changed: compaction makes snapshots that have the rows of older ones.

    Where those before a compaction are expired, it is the instant of the oldest that is known.
    """
    while snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE:
        parent = snapshot.parent_snapshot_id
        before = None if parent is None else table.snapshot_by_id(parent)
        if before is None:
            break
        snapshot = before
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def _bucket_of(table: Table, only: BooleanExpression, column: str) -> str:
    """Return the bucket of one of its rows; the rows of each file are compared with it."""
    first = table.scan(row_filter=only, selected_fields=(column,), limit=1).to_arrow()
    return str(first[column][0].as_py()) if len(first) else ""


def _require_current(batch: pa.RecordBatch, bucket: str) -> None:
    """Refuse rows of another bucket, and of one with versions.

    Which of an object's versions is the latest only shows when all of them are compared.
    """
    if not pc.all(pc.equal(batch[_BUCKET], bucket), skip_nulls=False).as_py() and len(batch):
        raise ValueError(f"it has rows of other buckets than {bucket!r}")
    versions = pc.fill_null(batch[_VERSION], "")
    have = pc.invert(pc.is_in(versions, pa.array(_NO_VERSION)))
    if pc.any(pc.or_(have, pc.fill_null(batch[_MARKER], False))).as_py():
        raise ValueError(
            "its bucket keeps versions, and the table does not say which is the latest; S3 "
            "Inventory does"
        )


def _table(io: StoreIO, location: str) -> Table:
    metadata = FromInputFile.table_metadata(io.new_input(location))
    return Table(("inventory",), metadata, location, io, NoopCatalog("inventory"))


def _store_of(location: str, options: StoreOptions) -> tuple[ObjectStore, str]:
    """Open what a table's locations lie in, and return what each of them begins with."""
    scheme, colon, rest = location.partition("://")
    if colon and scheme == "s3":
        bucket = rest.partition("/")[0]
        return open_store(Namespace.parse(f"s3://{bucket}"), options), f"s3://{bucket}/"
    path = Path(location)
    if colon or not path.is_absolute() or len(path.parents) < 3:
        raise SettingsError(
            f"inventory is {location!r}",
            "Give the table bucket as arn:aws:s3tables:REGION:ACCOUNT:bucket/aws-s3, or the "
            "table's .metadata.json as s3://BUCKET/..., or as an absolute path on this machine.",
        )
    # Of `TABLE/metadata/N.metadata.json`.
    folder = path.parents[1]
    at = str(folder.parent)
    namespace = Namespace.parse(f"local://{folder.name}", server_path=at)
    return open_store(namespace, replace(options, local_path=at)), f"{folder}/"


def _location(arn: str, namespace: Namespace, options: StoreOptions) -> str:
    """Ask S3 Tables where the metadata of the bucket's inventory table lies."""
    found = _ARN.fullmatch(arn)
    if found is None or not namespace.bucket:
        raise SettingsError(
            f"inventory is {arn!r}",
            "The ARN of S3's own table bucket is arn:aws:s3tables:REGION:ACCOUNT:bucket/aws-s3, "
            "and it has the tables of buckets of S3.",
        )
    from spark_core.storage.s3.inventory_table import metadata_location

    return metadata_location(arn, found["region"], namespace.bucket, options)
