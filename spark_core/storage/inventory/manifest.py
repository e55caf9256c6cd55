"""The manifest of an S3 Inventory: of which bucket it is, since when, and which files it has.

References:
    AWS, Amazon S3 User Guide, "Cataloging and analyzing your data with S3 Inventory" and "Locating
    your inventory list" (the manifest's fields, the layout of folders, the columns).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import pyarrow as pa

from spark_core.errors import CorruptTableError
from spark_core.json_and_toml import read_json
from spark_core.storage.contract import ObjectStore

OF_AN_INVENTORY = (
    "Compare it with what S3 delivered; wait for the next inventory, or list the store "
    "(take inventory out)."
)

KEY, SIZE, MODIFIED, TAG = "key", "size", "lastmodifieddate", "etag"
CLASS = "storageclass"
LATEST, MARKER, VERSION = "islatest", "isdeletemarker", "versionid"

# As S3's documentation spells them.
_NEEDED = ("Key", "Size", "LastModifiedDate", "ETag")
_NEEDED_OF_VERSIONS = ("IsLatest", "IsDeleteMarker")

# How each format's `fileSchema` names a column: `Bucket, Key`; `required binary key (UTF8);`;
# `struct<bucket:string,key:string>`.
_COLUMN = {
    "CSV": re.compile(r"\s*([^,]+?)\s*(?:,|$)"),
    "Parquet": re.compile(r"\b(?:required|optional)\s+\w+\s+(\w+)"),
    "ORC": re.compile(r"(\w+):"),
}
_MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class InventoryFile:
    """A data file.

    Attributes:
        key: In the bucket that the inventory lies in.
        size_bytes: Its size.
        md5: Of its bytes, in hex; empty where no manifest says it.
    """

    key: str
    size_bytes: int
    md5: str


class InventoryTable(Protocol):
    """A table that has the rows of an inventory, and knows its own files."""

    def batches(
        self, store: ObjectStore, file: InventoryFile, bucket: str
    ) -> Iterator[pa.RecordBatch]:
        """Read one of its files, each row of which must be of the bucket."""


@dataclass(frozen=True)
class Inventory:
    """What a manifest says.

    Attributes:
        place: Where the manifest lies, to be shown.
        source_bucket: The bucket whose objects it names.
        created_at: When S3 began to look at the bucket.
        file_format: Format of the data files: CSV, Parquet or ORC; or Iceberg.
        columns: Their columns, in their order.
        files: The data files.
        table: The Iceberg table that it is; None where S3 delivered files.
    """

    place: str
    source_bucket: str
    created_at: datetime
    file_format: str
    columns: tuple[str, ...]
    files: tuple[InventoryFile, ...]
    table: InventoryTable | None = None

    @property
    def has_versions(self) -> bool:
        """Whether it names every version of an object, and not only the current ones."""
        return self.table is None and any(
            plain(column) in (VERSION, LATEST, MARKER) for column in self.columns
        )

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """The columns that a listing needs, as S3's documentation calls them."""
        return (*_NEEDED, *(_NEEDED_OF_VERSIONS if self.has_versions else ()))

    def require_columns(self) -> None:
        """Refuse an inventory that does not say all that a listing must say.

        The ETag is among it: where an entry gives another checksum than its object has, entries'
        checksums are not believed (safety 34), and only the listing can show that.

        Raises:
            CorruptTableError: Naming the columns that are missing.
        """
        there = set(map(plain, self.columns))
        missing = [name for name in self.needed_columns if plain(name) not in there]
        if missing:
            raise CorruptTableError(
                self.place,
                None,
                f"its files have no {' and no '.join(missing)}, and an object cannot be judged "
                "without",
                "Add the fields to the inventory's configuration "
                f'("optional fields": {", ".join(missing)}), and wait for the next inventory.',
            )


def plain(column: str) -> str:
    """Return a column's name without its spelling: `LastModifiedDate` is `last_modified_date`."""
    return column.replace("_", "").lower()


def read_manifest(content: bytes, place: str) -> Inventory:
    """Read a manifest.json.

    Args:
        content: Its bytes.
        place: Where it lies, for messages.

    Raises:
        CorruptTableError: If it is no manifest of an S3 Inventory.
    """
    try:
        found = read_json(content)
        return _inventory(found, place)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        problem = f"no manifest of an S3 Inventory ({type(error).__name__}: {error})"
        raise CorruptTableError(place, None, problem, OF_AN_INVENTORY) from error


def _inventory(found: dict[str, Any], place: str) -> Inventory:
    file_format = found["fileFormat"]
    if file_format not in _COLUMN:
        raise ValueError(f"fileFormat is {file_format!r}, wanted {', '.join(_COLUMN)}")
    columns = tuple(_COLUMN[file_format].findall(found["fileSchema"]))
    if len(set(map(plain, columns))) != len(columns):
        raise ValueError(f"fileSchema names a column twice: {', '.join(columns)}")
    files = tuple(
        InventoryFile(str(each["key"]), int(each["size"]), each["MD5checksum"].lower())
        for each in found["files"]
    )
    if unlike := [file.md5 for file in files if not _MD5.fullmatch(file.md5)]:
        raise ValueError(f"MD5checksum is {unlike[0]!r}")
    if len({file.key for file in files}) != len(files):
        raise ValueError("it names a file twice")
    return Inventory(
        place=place,
        source_bucket=str(found["sourceBucket"]).rpartition(":")[2],
        created_at=datetime.fromtimestamp(int(found["creationTimestamp"]) / 1000, UTC),
        file_format=file_format,
        columns=columns,
        files=files,
    )
