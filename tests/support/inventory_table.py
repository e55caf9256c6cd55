"""Inventory tables as S3 Metadata keeps them, written by pyiceberg."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.s3_inventory import Row

SCHEMA = pa.schema(
    [
        ("bucket", pa.string()),
        ("key", pa.string()),
        ("sequence_number", pa.string()),
        ("version_id", pa.string()),
        ("is_delete_marker", pa.bool_()),
        ("size", pa.int64()),
        ("last_modified_date", pa.timestamp("us")),
        ("e_tag", pa.string()),
        ("storage_class", pa.string()),
        ("is_multipart", pa.bool_()),
    ]
)


class LiveTable:
    """The inventory table of a bucket."""

    def __init__(
        self, warehouse: str, bucket: str = "local", schema: pa.Schema = SCHEMA, **io: str
    ):
        # Each process of the tests reads this file, one of them makes tables.
        from pyiceberg.catalog.memory import InMemoryCatalog

        self.bucket, self.schema = bucket, schema
        catalog = InMemoryCatalog("tables", warehouse=warehouse, **io)
        catalog.create_namespace(f"b_{bucket}")
        self.table = catalog.create_table(
            f"b_{bucket}.inventory",
            schema=schema,
            properties={"write.metadata.previous-versions": 9},
        )

    @property
    def place(self) -> str:
        """Where its newest metadata lies."""
        return self.table.metadata_location.removeprefix("file://")

    def add(self, rows: Sequence[Row], **changes: Any) -> None:
        """Write a file of rows, as a snapshot of now."""
        values = [{**self._values(row), **changes} for row in rows]
        self.table.append(pa.Table.from_pylist(values, self.schema))

    def remove(self, key: str) -> None:
        """Take a row away, as S3 does when an object is deleted."""
        self.table.delete(f"key = '{key}'")

    def files(self) -> list[Path]:
        """The data files of the newest snapshot."""
        return [
            Path(task.file.file_path.removeprefix("file://"))
            for task in self.table.scan().plan_files()
        ]

    def _values(self, row: Row) -> dict[str, Any]:
        return {
            "bucket": self.bucket,
            "key": row.key,
            "sequence_number": "80",
            "version_id": row.version or None,
            "is_delete_marker": row.marker,
            "size": row.size,
            "last_modified_date": row.modified.replace(tzinfo=None),
            "e_tag": row.tag,
            "storage_class": row.storage_class,
            "is_multipart": False,
        }
