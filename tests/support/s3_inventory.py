"""Inventories of a bucket as S3 writes them: a manifest, its checksum and data files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from spark_core.storage import ObjectStore

Format = Literal["CSV", "Parquet", "ORC"]

# Column -> its name in Parquet and ORC files.
COLUMNS = {
    "Bucket": "bucket",
    "Key": "key",
    "VersionId": "version_id",
    "IsLatest": "is_latest",
    "IsDeleteMarker": "is_delete_marker",
    "Size": "size",
    "LastModifiedDate": "last_modified_date",
    "ETag": "e_tag",
    "StorageClass": "storage_class",
}
OF_VERSIONS = ("VersionId", "IsLatest", "IsDeleteMarker")
_TYPES = {
    "IsLatest": pa.bool_(),
    "IsDeleteMarker": pa.bool_(),
    "Size": pa.int64(),
    "LastModifiedDate": pa.timestamp("ms", "UTC"),
}


@dataclass(frozen=True)
class Row:
    """An object of an inventory, or a version of one."""

    key: str
    size: int | None
    modified: datetime
    tag: str | None = None
    version: str = ""
    latest: bool = True
    marker: bool = False
    storage_class: str | None = None


@dataclass
class Delivery:
    """Writes inventories to a place.

    Attributes:
        put: Writes one file of the place by its key.
        bucket: The bucket that they are of.
        prefix: Where in the place they lie.
        without: Columns that are left out.
        versions: Whether they name all versions.
        fraction: The part of a second that times in CSV files have.
    """

    put: Callable[[str, bytes], Any]
    bucket: str = "local"
    prefix: str = "inv"
    without: Sequence[str] = ()
    versions: bool = False
    fraction: str = "000"
    written: dict[str, bytes] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The folder of the dated folders, which settings name."""
        return f"{self.prefix}/{self.bucket}/all/"

    @property
    def columns(self) -> list[str]:
        """The columns of the data files."""
        left_out = {*self.without, *(() if self.versions else OF_VERSIONS)}
        return [column for column in COLUMNS if column not in left_out]

    def write(
        self,
        rows: Sequence[Row],
        at: datetime,
        format_: Format = "Parquet",
        *,
        files: int = 2,
        changes: dict[str, Any] | None = None,
        checksum: bool = True,
    ) -> str:
        """Write an inventory, and return the key of its manifest."""
        named = []
        for number in range(files):
            some = rows[number::files]
            name = f"{at:%Y%m%d%H%M}-{number}.{format_.lower()}"
            key = f"{self.folder}data/{name}{'.gz' if format_ == 'CSV' else ''}"
            data = {"CSV": self._csv, "Parquet": self._parquet, "ORC": self._orc}[format_](some)
            self._put(key, data)
            named.append({"key": key, "size": len(data), "MD5checksum": _md5(data)})
        manifest = {
            "sourceBucket": self.bucket,
            "destinationBucket": "arn:aws:s3:::inventories",
            "version": "2016-11-30",
            "creationTimestamp": str(round(at.timestamp() * 1000)),
            "fileFormat": format_,
            "fileSchema": self._schema(format_),
            "files": named,
            **(changes or {}),
        }
        folder = f"{self.folder}{at:%Y-%m-%dT%H-%MZ}/"
        content = json.dumps(manifest).encode()
        self._put(f"{folder}manifest.json", content)
        if checksum:
            self._put(f"{folder}manifest.checksum", _md5(content).encode())
        return f"{folder}manifest.json"

    def _put(self, key: str, data: bytes) -> None:
        self.written[key] = data
        self.put(key, data)

    def _schema(self, format_: Format) -> str:
        if format_ == "CSV":
            return ", ".join(self.columns)
        names = [COLUMNS[column] for column in self.columns]
        if format_ == "ORC":
            return f"struct<{','.join(f'{name}:string' for name in names)}>"
        return (
            f"message s3.inventory {{ {' '.join(f'optional binary {n} (UTF8);' for n in names)} }}"
        )

    def _values(self, row: Row) -> dict[str, Any]:
        return {
            "Bucket": self.bucket,
            "Key": row.key,
            "VersionId": row.version,
            "IsLatest": row.latest,
            "IsDeleteMarker": row.marker,
            "Size": row.size,
            "LastModifiedDate": row.modified,
            "ETag": row.tag,
            "StorageClass": row.storage_class,
        }

    def _table(self, rows: Sequence[Row]) -> pa.Table:
        values = [self._values(row) for row in rows]
        return pa.table(
            {
                COLUMNS[column]: pa.array(
                    [value[column] for value in values], _TYPES.get(column, pa.string())
                )
                for column in self.columns
            }
        )

    def _parquet(self, rows: Sequence[Row]) -> bytes:
        sink = io.BytesIO()
        pq.write_table(self._table(rows), sink)
        return sink.getvalue()

    def _orc(self, rows: Sequence[Row]) -> bytes:
        sink = pa.BufferOutputStream()
        table = self._table(rows)
        if "last_modified_date" in table.schema.names:
            # Hive's timestamps have no zone.
            at = table.schema.names.index("last_modified_date")
            naive = table.column(at).cast(pa.timestamp("ns", "UTC")).cast(pa.timestamp("ns"))
            table = table.set_column(at, "last_modified_date", naive)
        orc.write_table(table, sink)
        return sink.getvalue().to_pybytes()

    def _csv(self, rows: Sequence[Row]) -> bytes:
        lines = []
        for row in rows:
            value = self._values(row)
            value["Key"] = quote_plus(row.key, safe="/")
            value["LastModifiedDate"] = f"{row.modified:%Y-%m-%dT%H:%M:%S}.{self.fraction}Z"
            value["Size"] = "" if row.size is None else row.size
            value["ETag"] = row.tag or ""
            value["StorageClass"] = row.storage_class or ""
            cells = (str(value[column]) for column in self.columns)
            lines.append(
                ",".join(f'"{cell.lower() if cell in _FLAGS else cell}"' for cell in cells)
            )
        return gzip.compress("".join(f"{line}\n" for line in lines).encode())


_FLAGS = ("True", "False")


def rows_of_store(store: ObjectStore, *, before: str) -> list[Row]:
    """Return a row for each object below `data/` of a store, as its inventory would have it."""
    return [
        Row(
            f"{before}{each['key']}",
            each["size_bytes"],
            each["last_modified"],
            each["checksum"],
            storage_class=each["storage_class"],
        )
        for batch in store.list("data/")
        for each in batch.to_pylist()
    ]


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
