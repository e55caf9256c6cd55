"""Encode and decode whole entries of a range, for the writer, the sandbox and tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from spark_core.graveler.identity import tagged_int, tagged_map, tagged_string
from spark_core.graveler.wire import (
    BYTES,
    VARINT,
    ReadFile,
    bytes_field,
    map_field,
    message_field,
    read_fields,
    read_map_entry,
    read_text,
    svarint,
    varint_field,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ENTRY = {1: BYTES, 2: BYTES, 3: VARINT, 4: BYTES, 5: BYTES, 6: VARINT, 7: BYTES}
_TIMESTAMP = {1: VARINT, 2: VARINT}


@dataclass(frozen=True)
class Timestamp:
    """An instant with the whole range and precision that lakeFS stores.

    Attributes:
        seconds: Unix seconds.
        nanos: Nanoseconds within the second.
    """

    seconds: int
    nanos: int = 0

    @classmethod
    def of(cls, instant: datetime, extra_nanos: int = 0) -> Timestamp:
        """Convert an aware instant, adding nanoseconds below its microsecond.

        Raises:
            ValueError: If `instant` has no timezone.
        """
        if instant.tzinfo is None:
            raise ValueError("an instant needs a timezone")
        microseconds = (instant - _EPOCH) // _MICROSECOND
        return cls(microseconds // 1_000_000, microseconds % 1_000_000 * 1000 + extra_nanos)

    def instant(self) -> datetime:
        """Return the instant in UTC, cut to microseconds and clamped to what `datetime` holds."""
        try:
            return _EPOCH + timedelta(seconds=self.seconds, microseconds=self.nanos // 1000)
        except OverflowError:
            return (
                datetime.max.replace(tzinfo=UTC)
                if self.seconds > 0
                else datetime.min.replace(tzinfo=UTC)
            )

    def encode(self) -> bytes:
        """Encode as google.protobuf.Timestamp."""
        return varint_field(1, self.seconds) + varint_field(2, self.nanos)

    @classmethod
    def decode(cls, payload: bytes, source: ReadFile) -> Timestamp:
        """Decode a google.protobuf.Timestamp.

        Raises:
            CorruptTableError: If it is not one.
        """
        parts = {number: value for number, value, _ in read_fields(payload, _TIMESTAMP, source)}
        return cls(parts.get(1, 0), parts.get(2, 0))


@dataclass(frozen=True)
class Entry:
    """One object of a commit or of a staging area.

    Attributes:
        path: Path in the repository, as the user wrote it.
        address: Physical address; `address_type` says whether it is relative or absolute.
        address_type: 0 by prefix (deprecated), 1 relative, 2 full.
        size_bytes: Size of the object.
        checksum: The object's ETag, usually an MD5 in hex.
        last_modified: When the entry was made, aware.
        content_type: Media type; imported objects have none.
        metadata: User metadata; its order is kept.
        last_modified_nanos: Nanoseconds below the microsecond of `last_modified`, 0 to 999.
    """

    path: bytes
    address: str
    address_type: int
    size_bytes: int
    checksum: str
    last_modified: datetime
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    last_modified_nanos: int = 0


def encode_entry(entry: Entry) -> bytes:
    """Encode an entry as the server's protobuf message."""
    return b"".join(
        (
            bytes_field(1, entry.address.encode()),
            message_field(2, Timestamp.of(entry.last_modified, entry.last_modified_nanos).encode()),
            varint_field(3, entry.size_bytes),
            bytes_field(4, entry.checksum.encode()),
            map_field(5, entry.metadata),
            varint_field(6, entry.address_type),
            bytes_field(7, entry.content_type.encode()),
        )
    )


def encode_value(identity: bytes, payload: bytes) -> bytes:
    """Encode a record's value: identity and payload, each preceded by its length."""
    return svarint(len(identity)) + identity + svarint(len(payload)) + payload


def entry_identity(entry: Entry) -> bytes:
    """Hash what makes two entries the same content: neither the address nor the time is part of it.

    Returns:
        32 bytes.

    References:
        lakefs-facts 3.2; lakeFS v1.84 `pkg/catalog/entry.go`.
    """
    encoded = (
        tagged_int(entry.size_bytes) + tagged_string(entry.checksum) + tagged_map(entry.metadata)
    )
    if entry.content_type:
        encoded += tagged_string(entry.content_type)
    return hashlib.sha256(encoded).digest()


def entry_value(entry: Entry) -> bytes:
    """Encode the whole stored value of an entry."""
    return encode_value(entry_identity(entry), encode_entry(entry))


def decode_entry(payload: bytes, *, path: bytes = b"", name: str = "entry") -> Entry:
    """Decode an entry with all its fields.

    Args:
        payload: The record's payload.
        path: The record's key.
        name: Name of the file, for errors.

    Returns:
        The entry.

    Raises:
        CorruptTableError: If the message is broken, has an unknown field or
            address type, or no address.
    """
    source = ReadFile(name, f"entry {path!r}")
    numbers = {3: 0, 6: 0}
    texts = {1: b"", 4: b"", 7: b""}
    metadata: dict[str, str] = {}
    modified = Timestamp(0)
    for number, value, raw in read_fields(payload, _ENTRY, source, repeated={5}):
        if number in numbers:
            numbers[number] = value
        elif number in texts:
            texts[number] = raw
        elif number == 2:
            modified = Timestamp.decode(raw, source)
        else:
            key, text = read_map_entry(raw, source)
            metadata[key] = text
    if not texts[1]:
        raise source.fail("it has no address")
    if numbers[6] not in (0, 1, 2):
        raise source.fail(f"address_type is {numbers[6]}, wanted 0, 1 or 2")
    return Entry(
        path=path,
        address=read_text(texts[1], source),
        address_type=numbers[6],
        size_bytes=numbers[3],
        checksum=read_text(texts[4], source),
        last_modified=modified.instant(),
        content_type=read_text(texts[7], source),
        metadata=metadata,
        last_modified_nanos=modified.nanos % 1000,
    )
