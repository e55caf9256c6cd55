"""Read the protobuf messages of entries and of a metarange's ranges.

References:
    lakeFS v1.84 `pkg/catalog/catalog.proto` (entries).
"""

# ruff: noqa: PLR0911, PLR0917, C901 - loops over bytes leave at each thing that can be wrong, and numba takes arrays by position

from __future__ import annotations

from spark_core.graveler.loops.buffers import Bytes, Ints, Longs, read_uvarint
from spark_core.graveler.loops.statuses import (
    FIELD_BEYOND_MESSAGE,
    NO_ADDRESS,
    NUMBER_TOO_LARGE,
    OK,
    REPEATED_FIELD,
    UNKNOWN_ADDRESS_TYPE,
    UNKNOWN_FIELD,
    WRONG_WIRE_TYPE,
)
from spark_core.jit import compiled


@compiled
def read_field(
    buffer: Bytes, position: int, end: int, wire_types: int
) -> tuple[int, int, int, int]:
    """Read one protobuf field.

    Args:
        buffer: Decompressed blocks.
        position: Where the field's tag begins.
        end: Where its message ends.
        wire_types: The wire type of field f, 0 or 2, in the bits 2f and 2f+1; 3 for an unknown
            field number.

    Returns:
        Field number; value of a varint or length of bytes; where the bytes
        begin; and where the field ends or the negated status.
    """
    zero = 0
    tag, at = read_uvarint(buffer, position, end)
    if at < 0:
        return zero, zero, zero, at
    field = tag >> 3
    if field < 1 or field > 15 or (wire_types >> (2 * field)) & 3 == 3:
        return zero, zero, zero, -UNKNOWN_FIELD
    wire_type = tag & 7
    if wire_type != (wire_types >> (2 * field)) & 3:
        return zero, zero, zero, -WRONG_WIRE_TYPE
    number, at = read_uvarint(buffer, at, end)
    if at < 0:
        return zero, zero, zero, at
    if wire_type == 0:
        return field, number, at, at
    if number < 0 or number > end - at:
        return zero, zero, zero, -FIELD_BEYOND_MESSAGE
    return field, number, at, at + number


def _wire_types(**fields: int) -> int:
    mask = 0xFFFFFFFF
    for name, wire_type in fields.items():
        number = int(name[1:])
        mask = mask & ~(3 << 2 * number) | wire_type << 2 * number
    return mask


# Entry: address, last_modified, size, e_tag, metadata, address_type, content_type
_ENTRY = _wire_types(f1=2, f2=2, f3=0, f4=2, f5=2, f6=0, f7=2)
# RangeData: min_key, max_key, estimated_size, count
_RANGE_DATA = _wire_types(f1=2, f2=2, f3=0, f4=0)
_TIMESTAMP = _wire_types(f1=0, f2=0)
_MAP_ENTRY = _wire_types(f1=2, f2=2)


@compiled
def check_message(buffer: Bytes, position: int, end: int, wire_types: int) -> tuple[int, int]:
    """Check a message whose content is not needed: known fields, each at most once.

    Returns:
        Status and position.
    """
    seen = 0
    while position < end:
        field, _, _, after = read_field(buffer, position, end, wire_types)
        if after < 0:
            return -after, position
        if seen & (1 << field):
            return REPEATED_FIELD, position
        seen |= 1 << field
        position = after
    return OK, 0


@compiled
def entry_fields(
    buffer: Bytes,
    starts: Longs,
    lengths: Longs,
    address_starts: Longs,
    address_lengths: Longs,
    address_types: Ints,
    sizes: Longs,
    checksum_starts: Longs,
    checksum_lengths: Longs,
) -> tuple[int, int]:
    """Read the fields of each Entry that the collector needs, and check the rest.

    Returns:
        Status and position.
    """
    for i in range(starts.size):
        position = starts[i]
        end = position + lengths[i]
        seen = 0
        address_types[i] = 0
        sizes[i] = 0
        checksum_starts[i] = position
        checksum_lengths[i] = 0
        address_lengths[i] = 0
        while position < end:
            field, number, at, after = read_field(buffer, position, end, _ENTRY)
            if after < 0:
                return -after, position
            if field != 5 and seen & (1 << field):
                return REPEATED_FIELD, position
            seen |= 1 << field
            if field == 1:
                address_starts[i] = at
                address_lengths[i] = number
            elif field == 3:
                sizes[i] = number
            elif field == 4:
                checksum_starts[i] = at
                checksum_lengths[i] = number
            elif field == 6:
                if number < 0 or number > 2:
                    return UNKNOWN_ADDRESS_TYPE, position
                address_types[i] = number
            elif field == 2 or field == 5:  # noqa: PLR1714 - numba compiles the comparison of two numbers, not of a set
                status, where = check_message(
                    buffer, at, after, _TIMESTAMP if field == 2 else _MAP_ENTRY
                )
                if status != OK:
                    return status, where
            position = after
        if address_lengths[i] == 0:
            return NO_ADDRESS, starts[i]
    return OK, 0


@compiled
def entry_times(buffer: Bytes, starts: Longs, lengths: Longs, seconds: Longs) -> tuple[int, int]:
    """Read the date of each Entry, in whole seconds since 1970; 0 where it has none.

    Returns:
        Status and position.
    """
    for i in range(starts.size):
        position = starts[i]
        end = position + lengths[i]
        seconds[i] = 0
        while position < end:
            field, _, at, after = read_field(buffer, position, end, _ENTRY)
            if after < 0:
                return -after, position
            while field == 2 and at < after:
                inner, number, _, next_at = read_field(buffer, at, after, _TIMESTAMP)
                if next_at < 0:
                    return -next_at, at
                if inner == 1:
                    seconds[i] = number
                at = next_at
            position = after
    return OK, 0


@compiled
def range_data_fields(
    buffer: Bytes,
    starts: Longs,
    lengths: Longs,
    min_starts: Longs,
    min_lengths: Longs,
    max_starts: Longs,
    max_lengths: Longs,
    estimated_sizes: Longs,
    counts: Longs,
) -> tuple[int, int]:
    """Read each RangeData of a metarange.

    Returns:
        Status and position.
    """
    for i in range(starts.size):
        position = starts[i]
        end = position + lengths[i]
        seen = 0
        min_starts[i] = position
        min_lengths[i] = 0
        max_starts[i] = position
        max_lengths[i] = 0
        estimated_sizes[i] = 0
        counts[i] = 0
        while position < end:
            field, number, at, after = read_field(buffer, position, end, _RANGE_DATA)
            if after < 0:
                return -after, position
            if seen & (1 << field):
                return REPEATED_FIELD, position
            seen |= 1 << field
            if field == 1:
                min_starts[i] = at
                min_lengths[i] = number
            elif field == 2:
                max_starts[i] = at
                max_lengths[i] = number
            else:
                if number < 0:
                    return NUMBER_TOO_LARGE, position
                if field == 3:
                    estimated_sizes[i] = number
                else:
                    counts[i] = number
            position = after
    return OK, 0
