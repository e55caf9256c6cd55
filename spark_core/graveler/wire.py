"""Read and write the few protobuf forms that lakeFS stores: varints, bytes, and maps of strings.

References:
    lakefs-facts 2.5, 3.1; protobuf encoding specification.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from spark_core.errors import CorruptTableError
from spark_core.graveler.table_format import MAY_MATTER

VARINT, BYTES = 0, 2
_FIXED = {1: 8, 5: 4}


@dataclass(frozen=True)
class ReadFile:
    """What is being read, for errors.

    Attributes:
        name: Name of the file.
        what: The part of the file, for example "commit 5f3a...".
        offset: Where that part begins in the file, if known.
    """

    name: str
    what: str
    offset: int | None = None

    def fail(self, problem: str) -> CorruptTableError:
        """Make the error that names the file and the part."""
        return CorruptTableError(self.name, self.offset, f"{self.what}: {problem}")


def uvarint(number: int) -> bytes:
    """Encode an unsigned varint; a negative number becomes its 64-bit two's complement."""
    if 0 <= number < 0x80:
        return _ONE_BYTE[number]
    number &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_ONE_BYTE = [bytes([number]) for number in range(0x80)]


def svarint(number: int) -> bytes:
    """Encode a zig-zag varint, as Go's `binary.PutVarint`."""
    return uvarint(number << 1 if number >= 0 else ~number << 1 | 1)


def varint_field(number: int, value: int) -> bytes:
    """Encode a varint field; zero is left out, as in proto3."""
    return uvarint(number << 3 | VARINT) + uvarint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode a bytes or string field; an empty one is left out, as in proto3."""
    return message_field(number, value) if value else b""


def message_field(number: int, value: bytes) -> bytes:
    """Encode a message field, even when the message is empty."""
    return uvarint(number << 3 | BYTES) + uvarint(len(value)) + value


def map_field(number: int, entries: Mapping[str, str]) -> bytes:
    """Encode a map of strings in its own order.

    The server's order is random, and a copy must keep it.
    """
    return b"".join(
        message_field(number, message_field(1, key.encode()) + message_field(2, value.encode()))
        for key, value in entries.items()
    )


def read_fields(
    payload: bytes,
    wire_types: Mapping[int, int],
    source: ReadFile,
    *,
    repeated: Container[int] = (),
    others_matter: bool = True,
) -> Iterator[tuple[int, int, bytes]]:
    """Read the known fields of a message.

    Args:
        payload: The message.
        wire_types: The wire type, `VARINT` or `BYTES`, of each known field number.
        source: What is being read, for errors.
        repeated: Field numbers that may occur more than once.
        others_matter: Whether an unknown field could say what is alive; if not, it is skipped.

    Yields:
        Field number, value of a varint (signed 64 bit) else 0, bytes else empty.

    Raises:
        CorruptTableError: If a field is unknown and matters, has another wire type,
            is there twice or does not fit.
    """
    position = 0
    seen = set()
    while position < len(payload):
        tag, position = read_uvarint(payload, position, source)
        field, wire_type = tag >> 3, tag & 7
        if field not in wire_types:
            if others_matter or not field:
                raise source.fail(f"unknown field {field}: {MAY_MATTER}")
            position = _behind(payload, position, field, wire_type, source)
            continue
        if wire_type != wire_types[field]:
            raise source.fail(
                f"field {field} has wire type {wire_type}, wanted {wire_types[field]}"
            )
        if field in seen and field not in repeated:
            raise source.fail(f"field {field} is there twice")
        seen.add(field)
        number, position = read_uvarint(payload, position, source)
        if wire_type == VARINT:
            yield field, number - 2**64 if number >= 2**63 else number, b""
            continue
        if number > len(payload) - position:
            raise source.fail(
                f"field {field} claims {number} bytes, {len(payload) - position} are left"
            )
        yield field, 0, payload[position : position + number]
        position += number


def _behind(payload: bytes, position: int, field: int, wire_type: int, source: ReadFile) -> int:
    """Return where an unknown field ends; `position` is after its tag.

    Raises:
        CorruptTableError: If it does not fit, or has a wire type that the server does not write.
    """
    if wire_type in _FIXED:
        end = position + _FIXED[wire_type]
    else:
        if wire_type not in (VARINT, BYTES):
            raise source.fail(f"field {field} has wire type {wire_type}, which no lakeFS writes")
        number, end = read_uvarint(payload, position, source)
        end += number if wire_type == BYTES else 0
    if end > len(payload):
        raise source.fail(f"field {field} ends {end - len(payload)} bytes behind its message")
    return end


def read_uvarint(payload: bytes, position: int, source: ReadFile) -> tuple[int, int]:
    """Read an unsigned varint and return it with the position after it.

    Raises:
        CorruptTableError: If it is cut off, longer than 64 bits, or longer than its number needs
            (Go writes the shortest form).
    """
    value = 0
    for i in range(10):
        if position + i >= len(payload):
            raise source.fail("a varint runs past the end")
        byte = payload[position + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if value >= 2**64 or (i and not byte):
                break
            return value, position + i + 1
    raise source.fail("a varint is longer than its number needs or than 64 bits")


def read_uvarints(raw: bytes, count: int, source: ReadFile, *, padded: bool = False) -> list[int]:
    """Read so many unsigned varints, with nothing behind them; zeros if they are padded.

    Raises:
        CorruptTableError: As `read_uvarint`, or if there is more.
    """
    numbers = []
    position = 0
    for _ in range(count):
        number, position = read_uvarint(raw, position, source)
        numbers.append(number)
    rest = raw[position:]
    if rest and not (padded and not any(rest)):
        raise source.fail(f"{rest.hex()} behind what belongs there")
    return numbers


def read_text(value: bytes, source: ReadFile) -> str:
    """Decode a string field.

    Raises:
        CorruptTableError: If it is not UTF-8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise source.fail(f"text {value!r} is not UTF-8") from error


def read_map_entry(payload: bytes, source: ReadFile) -> tuple[str, str]:
    """Read one entry of a map of strings.

    Raises:
        CorruptTableError: If it is not one.
    """
    parts = {field: value for field, _, value in read_fields(payload, {1: BYTES, 2: BYTES}, source)}
    return read_text(parts.get(1, b""), source), read_text(parts.get(2, b""), source)
