"""Compute the ids of tables and commits, and encode what is hashed.

References:
    lakefs-facts 2.7, 3.2; lakeFS v1.84 `pkg/ident/ident.go`,
    `pkg/graveler/sstable/writer.go`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

_INT64 = b"\x02\x08"


def tagged_int(value: int) -> bytes:
    """Encode a signed 64-bit number with its type."""
    return _INT64 + value.to_bytes(8, "big", signed=True)


def tagged_bytes(value: bytes) -> bytes:
    """Encode bytes with their type and length."""
    return b"\x00" + tagged_int(len(value)) + value


def tagged_string(value: str) -> bytes:
    """Encode a string with its type and its length in bytes."""
    raw = value.encode()
    return b"\x01" + tagged_int(len(raw)) + raw


def tagged_list(values: Sequence[str]) -> bytes:
    """Encode a list of strings with its type and count."""
    return b"\x03" + tagged_int(len(values)) + b"".join(map(tagged_string, values))


def tagged_map(values: Mapping[str, str]) -> bytes:
    """Encode a map of strings, sorted by the bytes of its keys."""
    pairs = sorted(values.items(), key=lambda pair: pair[0].encode())
    return (
        b"\x04"
        + tagged_int(len(pairs))
        + b"".join(tagged_string(key) + tagged_string(value) for key, value in pairs)
    )


def tagged_identity(identity: bytes) -> bytes:
    """Encode the hash of a nested value, such as a commit's parents."""
    return b"\x05" + tagged_bytes(identity)


def commit_id(
    *,
    committer: str,
    message: str,
    metarange_id: str,
    creation_date: int,
    metadata: Mapping[str, str],
    parents: Sequence[str],
) -> str:
    """Hash a commit; version and generation are not part of its id.

    Args:
        committer: Who committed.
        message: The commit message.
        metarange_id: Id of its metarange; empty for a repository's first commit.
        creation_date: Unix seconds.
        metadata: User metadata.
        parents: Parent ids in stored order.

    Returns:
        The id, 64 hex digits.
    """
    return hashlib.sha256(
        tagged_string("commit:v1")
        + tagged_string(committer)
        + tagged_string(message)
        + tagged_string(metarange_id)
        + tagged_int(creation_date)
        + tagged_map(metadata)
        + tagged_identity(hashlib.sha256(tagged_list(parents)).digest())
    ).hexdigest()


class TableHash:
    """Computes the id of a table as its records are added.

    Args:
        properties: The properties set before the first record (`type`, and more for a refs dump).
            Those set at closing, such as counts, are not hashed.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._hash = hashlib.sha256()

    def add(self, key: bytes, value: bytes) -> None:
        """Add one record: its key and its whole stored value."""
        self._hash.update(b"%d%b|%d%b|" % (len(key), key, len(value), value))

    def id(self) -> str:
        """Return the id, 64 hex digits; add nothing afterwards."""
        self._hash.update(tagged_map(self._properties))
        return self._hash.hexdigest()
