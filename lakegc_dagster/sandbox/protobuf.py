"""The few bytes of protobuf that garbage-collection rules need."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT = 0
_LENGTH_DELIMITED = 2


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_field(number: int, value: int) -> bytes:
    """Encode an int32 field; a negative one takes ten bytes."""
    return _varint(number << 3 | _VARINT) + _varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode a string, bytes or message field."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(value)) + value


def signed_32(value: int) -> int:
    """Wrap an integer to 32 bits with a sign, as the server's conversion does."""
    return (value + 2**31) % 2**32 - 2**31


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message as (number, value).

    Raises:
        ValueError: If the bytes are cut short or hold another wire type.
    """
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            if position >= len(data):
                raise ValueError("a protobuf message ends within a number")
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(data):
        key = varint()
        if key & 7 == _VARINT:
            yield key >> 3, varint()
        elif key & 7 == _LENGTH_DELIMITED:
            length = varint()
            if position + length > len(data):
                raise ValueError("a protobuf message ends within a field")
            yield key >> 3, data[position : position + length]
            position += length
        else:
            raise ValueError(f"unknown protobuf wire type {key & 7}")
