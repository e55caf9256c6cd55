"""The columns of every table, as Arrow schemas; Spark's types are derived from them.

Addresses are relative to the storage namespace unless a column says otherwise.
Instants are microseconds in UTC, sizes are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

INSTANT = pa.timestamp("us", tz="UTC")

# What a store's listing yields: `key` is relative to the store's root.
OBJECT_LISTING = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", INSTANT, nullable=False),
        # MD5 of the content in hex where the store's listing gives it, else null.
        pa.field("checksum", pa.string()),
    ]
)

# What a range file holds, one row an entry, in key order.
RANGE_ENTRIES = pa.schema(
    [
        pa.field("path", pa.binary(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        # 0 BY_PREFIX (deprecated), 1 RELATIVE, 2 FULL
        pa.field("address_type", pa.int32(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
    ]
)

# What a metarange file holds, one row a range, in key order.
METARANGE_RANGES = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("estimated_size_bytes", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)

# 1. An object found in the store under the namespace. Key: address.
NAMESPACE_SLICES = pa.schema(
    [
        pa.field("slice", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", INSTANT, nullable=False),
        pa.field("checksum", pa.string()),
        # How it stands by its name and age: candidate, protected, young, upload, stranger, inherited (see `candidates`).
        pa.field("standing", pa.string(), nullable=False),
        pa.field("address_hash", pa.int64(), nullable=False),
    ]
)

# What the server's scans and diffs tell of a staged object. Duplicates allowed (pages and diffs overlap).
STAGED_ADDRESSES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("created_at", INSTANT),
    ]
)

# 2. A staged object inside the namespace. Duplicates allowed.
UNCOMMITTED_ADDRESSES = pa.schema(
    [
        *STAGED_ADDRESSES,
        # Of the object that it keeps: see `mark.alive`.
        pa.field("address_hash", pa.int64(), nullable=False),
    ]
)

# 3. A commit that retains its objects. Key: commit_id.
RETAINED_COMMITS = pa.schema(
    [
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("metarange_id", pa.string(), nullable=False),
        # Null when only the server's list knows the commit.
        pa.field("created_at", INSTANT),
        # Why, in words: "head of main", "main: within 21 days", "tag v1", ...
        pa.field("reason", pa.string(), nullable=False),
        # "lakegc", "server" or "server+lakegc": whose reading keeps it.
        pa.field("retained_by", pa.string(), nullable=False),
        # When it stops being retained if nothing moves; null: as long as the ref exists.
        pa.field("retained_until", INSTANT),
        # Whether a branch points at it.
        pa.field("is_head", pa.bool_(), nullable=False),
    ]
)

# 4. An address that a retained commit reaches. Duplicates allowed (tasks leave out only their own). Relative inside the
# namespace; entries outside it stand here only where a branch head has them, with their absolute address.
COMMITTED_ADDRESSES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # Path of the entry where a branch head has it, else null; with the checksum it finds twins.
        pa.field("head_path", pa.binary()),
        pa.field("checksum", pa.string()),
        # Whether a branch head has it below data/, so that its object should be listed.
        pa.field("is_live", pa.bool_(), nullable=False),
        # Of the object that it keeps: see `mark.alive`.
        pa.field("address_hash", pa.int64(), nullable=False),
    ]
)

# 5. An object that may go. Key: address.
EXPIRED_ADDRESSES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", INSTANT, nullable=False),
        pa.field("slice", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)

# 6. What happened to one of them. Key: address.
DELETION_REPORT = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # deleted, already_gone, kept, refused, failed
        pa.field("outcome", pa.string(), nullable=False),
        # Why, for the last three.
        pa.field("error", pa.string()),
        # Batches that asked the store to delete it.
        pa.field("attempts", pa.int32(), nullable=False),
        pa.field("deleted_at", INSTANT),
    ]
)

# What a sweep writes down of an object before it asks for its deletion, and after. No key: an object may be tried again.
JOURNAL = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # intended; or an outcome of the report; or unsent: intended, and surely not asked for.
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("at", INSTANT, nullable=False),
    ]
)

# What became of an object that was to be brought back. Key: address.
RESTORATIONS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # restored, already_there, not_restorable, failed
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("error", pa.string()),
        # When the restore began.
        pa.field("restored_at", INSTANT, nullable=False),
    ]
)

PURGED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        # Whose sweep moved it to quarantine.
        pa.field("run", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # purged, in_use, left, unknown
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("purged_at", INSTANT, nullable=False),
    ]
)

# What a mark of lakeFS's own job names, and how it stands today. No key: null where the job wrote none.
REFERENCE_ADDRESSES = pa.schema(
    [
        pa.field("address", pa.string()),
        # Null where the listing has no such object.
        pa.field("size_bytes", pa.int64()),
        pa.field("may_go", pa.bool_(), nullable=False),
        pa.field("standing", pa.string(), nullable=False),
    ]
)

# An address that a branch head or a staged entry reaches and that the listing does not have. Key: address.
MISSING_ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])

# What the server writes for uncommitted objects (`lakefs-facts` 5.4): checked exactly.
SERVER_UNCOMMITTED = pa.schema(
    [
        pa.field("physical_address", pa.string(), nullable=False),
        pa.field("creation_date", pa.int64(), nullable=False),
    ]
)


def spark_type(schema: pa.Schema) -> StructType:
    """Translate an Arrow schema to Spark's, keeping order and nullability."""
    # Rooms without Spark (storage, graveler, the sandbox) use these schemas too and should not pay for its import.
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
