"""The columns of every table, as Arrow schemas.

One file: whoever asks what a column means looks it up here, whichever room writes the table, and a
later table takes its columns from an earlier one.

Addresses are relative to the storage namespace unless a column says otherwise.
Instants are microseconds in UTC, sizes are bytes.
"""

from __future__ import annotations

import pyarrow as pa

INSTANT = pa.timestamp("us", tz="UTC")
STORAGE_CLASS = pa.field("storage_class", pa.string())

# Columns of which hardly two rows agree.
_NEARLY_DISTINCT = frozenset(
    {
        "address",
        "address_hash",
        "addresses",
        "checksum",
        "digest",
        "head_path",
        "path",
        "row",
        "sizes",
    }
)

# What a store's listing yields: `key` is relative to the store's root.
OBJECT_LISTING = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", INSTANT, nullable=False),
        # MD5 of the content in hex where the store's listing gives it, else null.
        pa.field("checksum", pa.string()),
        # As the store names it, such as STANDARD_IA; null where the listing does not say it.
        STORAGE_CLASS,
    ]
)

# The rows of a range file, one per entry, in key order.
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

# The rows of a metarange file, one per range, in key order.
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
        # Its standing by name and age: candidate, protected, young, upload, stranger, inherited
        # (see `candidates`).
        pa.field("standing", pa.string(), nullable=False),
        pa.field("address_hash", pa.int64(), nullable=False),
        STORAGE_CLASS,
    ]
)

# A staged object, as the server's scans and diffs show it. Duplicates allowed (pages and diffs
# overlap).
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
        # Hash of the object that the entry keeps: see `references.kept_objects`.
        pa.field("address_hash", pa.int64(), nullable=False),
    ]
)

# A name under which an object of the namespace is staged. Duplicates allowed.
STAGED_NAMES = pa.schema(
    [
        # Hash of the object that the entry keeps: see `references.kept_objects`.
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        # The entry's date, cut to whole seconds; null if the server says none.
        pa.field("modified", INSTANT),
    ]
)

# 3. A commit that retains its objects. Key: commit_id.
RETAINED_COMMITS = pa.schema(
    [
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("metarange_id", pa.string(), nullable=False),
        # Null when only the server's list knows the commit.
        pa.field("created_at", INSTANT),
        # The reason in words: "head of main", "main: within 21 days", "tag v1", ...
        pa.field("reason", pa.string(), nullable=False),
        # Whose reading keeps it: "lakegc", "server" or "server+lakegc".
        pa.field("retained_by", pa.string(), nullable=False),
        # When its retention ends if no ref moves; null: as long as the ref exists.
        pa.field("retained_until", INSTANT),
        # Whether a branch points at it.
        pa.field("is_head", pa.bool_(), nullable=False),
    ]
)

# Of the expired commits that have a metarange which no retained commit has, the one that was kept
# last; that which was kept last of all comes first. It chooses the words of reports. Key:
# metarange_id.
EXPIRED_COMMITS = pa.schema(
    [
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("metarange_id", pa.string(), nullable=False),
        pa.field("created_at", INSTANT, nullable=False),
        # The branch whose line of main parents kept it longest; null if no branch's did.
        pa.field("branch", pa.string()),
        # Date of the commit that followed on that line; its own date if none did.
        pa.field("replaced_at", INSTANT, nullable=False),
        # How long that line keeps a commit that was replaced.
        pa.field("retention_days", pa.int32(), nullable=False),
    ]
)

# 4. An address that a retained commit reaches. Duplicates allowed (a task drops only its own).
# Addresses are relative inside the namespace. Entries outside it are here only where a branch head
# has them, with their absolute address.
COMMITTED_ADDRESSES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # Path of the entry where a branch head has it, else null. Path and checksum find twins.
        pa.field("head_path", pa.binary()),
        pa.field("checksum", pa.string()),
        # Whether a branch head has it below data/, so that the listing should have its object.
        pa.field("is_live", pa.bool_(), nullable=False),
        # Hash of the object that the entry keeps: see `references.kept_objects`.
        pa.field("address_hash", pa.int64(), nullable=False),
    ]
)

# Numbers of rows of another file that do not count any more, sorted.
LEFT_OUT_ROWS = pa.schema([pa.field("row", pa.int32(), nullable=False)])

# The index: what never changes, and is kept for later runs. A metarange, and its ranges in order.
INDEXED_TREES = pa.schema(
    [
        pa.field("metarange_id", pa.string(), nullable=False),
        pa.field("range_ids", pa.list_(pa.field("element", pa.string())), nullable=False),
        # A sum over the hashes of all these ids.
        pa.field("digest", pa.int64(), nullable=False),
    ]
)

# A range that was read once, and where its entries lie: `count` rows from a first one on, in the
# file of that key. Key: range_id.
INDEXED_RANGES = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        # Entries of the range, as its metaranges say.
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("first_row", pa.int64(), nullable=False),
        # Entries whose address does not lie below data/.
        pa.field("outside", pa.int64(), nullable=False),
        # A sum over range_id, count, min_key and outside of this row, and over the entries, which
        # does not depend on their order.
        pa.field("digest", pa.int64(), nullable=False),
    ]
)

# What an entry of a range says, in numbers; the rows of each range follow one another.
INDEXED_ENTRIES = pa.schema(
    [
        # Hash of the object that the entry keeps: see `references.kept_objects`.
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # Hash of the checksum.
        pa.field("checksum", pa.int64(), nullable=False),
        # Bits: 1: its address lies below data/; 2: the checksum is an MD5.
        pa.field("flags", pa.uint8(), nullable=False),
    ]
)

# A range of this run whose entries are taken from the index, and what its commits are. It is read
# by `references.known_ranges`. Key: range_id.
TAKEN_RANGES = pa.schema(
    [
        *INDEXED_RANGES,
        pa.field("is_head", pa.bool_(), nullable=False),
        pa.field("is_retained", pa.bool_(), nullable=False),
        # Row of the expired commit that has it and was kept last; null where a retained one has it.
        pa.field("newest", pa.int32()),
    ]
)

# An object that the rules of a retention policy name, although a commit reaches it or it is staged.
# Key: address.
POLICY_EXPIRATIONS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        # The name of it that fell due last: path, and branch (null where that is undecided).
        pa.field("path", pa.binary(), nullable=False),
        pa.field("branch", pa.string()),
        # all, noncurrent or uncommitted, and the number of the rule in the document, from 1 on.
        pa.field("action", pa.string(), nullable=False),
        pa.field("rule", pa.int32(), nullable=False),
        pa.field("due_since", INSTANT, nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", INSTANT, nullable=False),
        pa.field("slice", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
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

# What becomes of each listed object that no retained commit reaches, or that a policy takes. Key:
# address_hash.
FATES = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        # A value of `fates.Fate`.
        pa.field("fate", pa.string(), nullable=False),
        pa.field("why", pa.string(), nullable=False),
        # The earliest moment at which the fate could change; null where time alone changes nothing.
        pa.field("until", INSTANT),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # Of what may go, and of what a hold, a branch or an unanswered question alone keeps.
        pa.field("address", pa.string()),
    ]
)

# What an object that may go was, where an expired commit had it. Key: address.
EXPLANATIONS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        # Path under which the last commit had it; bytes that are no UTF-8 are replaced.
        pa.field("path", pa.string(), nullable=False),
        # Other paths under which expired commits had it.
        pa.field("other_paths", pa.int32(), nullable=False),
        # The last commit that had it, as far as expired commits were read.
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("committed_at", INSTANT, nullable=False),
        # As in `EXPIRED_COMMITS`.
        pa.field("branch", pa.string()),
        pa.field("replaced_at", INSTANT, nullable=False),
        pa.field("retention_days", pa.int32(), nullable=False),
        # All of it in one sentence.
        pa.field("explanation", pa.string(), nullable=False),
    ]
)

# 6. The outcome of a sweep for one object. Key: address.
DELETION_REPORT = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # Why the mark let it go: as in the expired addresses, which are pruned sooner.
        pa.field("reason", pa.string(), nullable=False),
        # deleted, already_gone, kept, refused, failed
        pa.field("outcome", pa.string(), nullable=False),
        # The cause, for the last three outcomes.
        pa.field("error", pa.string()),
        # Number of batches that asked the store to delete it.
        pa.field("attempts", pa.int32(), nullable=False),
        pa.field("deleted_at", INSTANT),
    ]
)

# A sweep's record of an object, before and after it asks for the deletion. No key: an object may be
# tried again.
JOURNAL = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # intended; or an outcome of the report; or unsent: intended, and certainly not asked for.
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("at", INSTANT, nullable=False),
    ]
)

# The outcome of a restoration for one object. Key: address.
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
        # The run whose sweep moved it to quarantine.
        pa.field("run", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # purged, in_use, left, unknown
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("purged_at", INSTANT, nullable=False),
    ]
)

# An address that a mark of lakeFS's own job names, and its standing today. No key: null where the
# job wrote none.
REFERENCE_ADDRESSES = pa.schema(
    [
        pa.field("address", pa.string()),
        # Null where the listing has no such object.
        pa.field("size_bytes", pa.int64()),
        pa.field("may_go", pa.bool_(), nullable=False),
        pa.field("standing", pa.string(), nullable=False),
    ]
)

# An address that a branch head or a staged entry reaches and that is not in the listing. Key:
# address.
MISSING_ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])

# An object that a sweep set out to take by a retention policy, although entries lead to it. Key:
# address.
POLICY_DELETIONS = pa.schema([pa.field("address", pa.string(), nullable=False)])

# The columns that the server writes for uncommitted objects (`lakefs-facts` 5.4): checked exactly.
SERVER_UNCOMMITTED = pa.schema(
    [
        pa.field("physical_address", pa.string(), nullable=False),
        pa.field("creation_date", pa.int64(), nullable=False),
    ]
)


def repeating(schema: pa.Schema) -> list[str]:
    """Return the columns whose values repeat, which Parquet stores by a dictionary.

    Of addresses, paths and hashes it would only be made and thrown away: without one they are
    written in half the time, and a file of addresses is a quarter smaller.
    """
    return [name for name in schema.names if name not in _NEARLY_DISTINCT]
