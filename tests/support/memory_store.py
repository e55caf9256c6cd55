"""A store in memory with conditional writes, for lakegc's own documents."""

import pyarrow as pa

from spark_core import schemas
from spark_core.errors import NotFoundError, ObjectExistsError
from spark_core.storage import DeleteOutcome


class MemoryStore:
    """Objects by key; several runs may share one."""

    delete_batch_size = 1_000
    delete_permission = "s3:DeleteObject"
    root = "s3://bucket/repo/"
    # Nobody can tell; tests of a lease set it.
    longest_request = None

    def __init__(self):
        self.objects: dict[str, bytes] = {}

    def list(self, prefix):
        keys = sorted(key for key in self.objects if key.startswith(prefix))
        rows = [{"key": key, "size_bytes": len(self.objects[key])} for key in keys]
        yield from pa.Table.from_pylist(rows, schema=schemas.OBJECT_LISTING).to_batches()

    def children(self, prefix):
        below = [key.removeprefix(prefix) for key in self.objects if key.startswith(prefix)]
        folders = sorted({f"{prefix}{name.partition('/')[0]}/" for name in below if "/" in name})
        direct = [
            {"key": f"{prefix}{name}", "size_bytes": 0} for name in sorted(below) if "/" not in name
        ]
        return folders, pa.Table.from_pylist(direct, schema=schemas.OBJECT_LISTING)

    def read(self, key):
        if key not in self.objects:
            raise NotFoundError(f"no {key}")
        return self.objects[key]

    def head(self, key):
        self.read(key)
        raise NotImplementedError("it keeps no dates")

    def written_at(self, key):
        return self.head(key).last_modified

    def exists(self, key):
        return key in self.objects

    def put(self, key, data):
        self.objects[key] = data

    def put_if_absent(self, key, data):
        if key in self.objects:
            raise ObjectExistsError(f"{key} is there")
        self.objects[key] = data

    def delete(self, keys):
        return [
            DeleteOutcome(key, "already_gone" if self.objects.pop(key, None) is None else "deleted")
            for key in keys
        ]
