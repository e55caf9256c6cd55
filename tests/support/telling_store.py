"""A store of local files that gives MD5s of contents, also in listings, as a bucket on S3 does."""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from spark_core.storage import ObjectInfo, ObjectStore
from spark_core.storage.local import LocalStore


class TellingStore(LocalStore):
    """A local store with checksums."""

    tells_content = True

    @classmethod
    def like(cls, store: ObjectStore) -> TellingStore:
        """Make one of a namespace's own store."""
        return cls(store.namespace, store.options)

    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        return replace(found, checksum=self._md5(key)) if key.startswith("data/") else found

    def content(self, key: str) -> ObjectInfo:
        return replace(super().head(key), checksum=self._md5(key))

    def _md5(self, key: str) -> str:
        return hashlib.md5(self.read(key)).hexdigest()

    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        return map(self._told, super().list(prefix))

    def children(self, prefix: str) -> tuple[builtins.list[str], pa.Table]:
        names, found = super().children(prefix)
        return names, pa.Table.from_batches(map(self._told, found.to_batches()), found.schema)

    def _told(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        told = [
            self._md5(key) if key.startswith("data/") else None
            for key in rows.column("key").to_pylist()
        ]
        return rows.set_column(
            rows.schema.get_field_index("checksum"),
            rows.schema.field("checksum"),
            pa.array(told, pa.string()),
        )
