"""What each column of a table means, for the readers of Dagster's catalog."""

from __future__ import annotations

from collections.abc import Mapping

from spark_core.records import tables

_ADDRESS = "Address of the object, relative to the storage namespace."
_SIZE = "Its bytes."
_MODIFIED = "When the store says it was written."
_SLICE = "The folder of `data/` that it lies in."
_HASH = "Hash of the object's address; the tables are compared by it."
_CHECKSUM = "MD5 of the content, where the store or the commit gives it."

COLUMNS: Mapping[str, Mapping[str, str]] = {
    tables.NAMESPACE_SLICES.name: {
        "slice": _SLICE,
        "address": _ADDRESS,
        "size_bytes": _SIZE,
        "last_modified": _MODIFIED,
        "checksum": _CHECKSUM,
        "standing": "What its name and age say: `candidate` may go if nothing reaches it; every "
        "other word keeps it.",
        "address_hash": _HASH,
        "storage_class": "As the store names it; empty where its listing does not say it.",
    },
    tables.UNCOMMITTED_ADDRESSES.name: {
        "address": "Address of a staged object, relative to the storage namespace. An address may "
        "appear twice.",
        "created_at": "When the server says it was staged.",
        "address_hash": _HASH,
    },
    tables.RETAINED_COMMITS.name: {
        "commit_id": "Id of a commit that keeps its objects.",
        "metarange_id": "Id of its metarange, which names all its objects.",
        "created_at": "When it was made; empty where only the server's list knows it.",
        "reason": "Why it keeps its objects: the head of a branch, the days of a branch, a tag, a "
        "hold.",
        "retained_by": "Whose reading of the rules keeps it: `lakegc`, `server` or both.",
        "retained_until": "Until when it keeps them if no ref moves; empty: as long as the ref is "
        "there.",
        "is_head": "Whether a branch stands on it.",
    },
    tables.COMMITTED_ADDRESSES.name: {
        "address": "Address that a retained commit reaches. An address may appear twice.",
        "size_bytes": "Its bytes, as the commit has them.",
        "head_path": "Its path where the head of a branch has it.",
        "checksum": _CHECKSUM,
        "is_live": "Whether the head of a branch has it, so that the store must have it.",
        "address_hash": _HASH,
    },
    tables.POLICY_EXPIRATIONS.name: {
        "address": _ADDRESS,
        "path": "The path of it that fell due last.",
        "branch": "The branch of that path; empty where it is undecided.",
        "action": "`all` or `noncurrent`: what the rule expires.",
        "rule": "Number of the rule in the document, from 1 on.",
        "due_since": "Since when the rule names it.",
        "size_bytes": _SIZE,
        "last_modified": _MODIFIED,
        "slice": _SLICE,
        "reason": "The rule in words.",
    },
    tables.EXPIRED_ADDRESSES.name: {
        "address": _ADDRESS,
        "size_bytes": _SIZE,
        "last_modified": _MODIFIED,
        "slice": _SLICE,
        "reason": "Why it may go; `lakegc explain` says more of one object.",
    },
    tables.DELETION_REPORT.name: {
        "address": _ADDRESS,
        "size_bytes": _SIZE,
        "reason": "Why the mark let it go.",
        "outcome": "`deleted`, `already_gone`, `kept`, `refused` or `failed`.",
        "error": "What the store said, or why it was kept.",
        "attempts": "How many batches asked the store to delete it.",
        "deleted_at": "When the store had deleted it.",
    },
}
