"""What a store says of one object: its size and age, or enough to recognize and compare it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class ObjectInfo:
    """One object as the store describes it.

    Attributes:
        key: Relative to the namespace.
        size_bytes: Length of the content.
        last_modified: Aware instant in UTC.
        checksum: MD5 of the content in hex where the store gives it, else None.
    """

    key: str
    size_bytes: int
    last_modified: datetime
    checksum: str | None = None


@dataclass(frozen=True)
class Description:
    """One object at one moment, as its store describes it.

    Attributes:
        key: Relative to the namespace.
        size_bytes: Length of the content.
        version: Changes when the object is written again; the store's own words (an ETag, a
            generation).
        digests: Checksums of the whole content by algorithm, as the store keeps them; empty if none
            depends on the content alone.
    """

    key: str
    size_bytes: int
    version: str
    digests: Mapping[str, str] = field(default_factory=dict)
