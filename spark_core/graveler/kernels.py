"""Loop over table blocks in compiled code: offsets, keys, values and protobuf fields.

Every loop checks each length against the end of the block, value or message before it reads,
because a file may be broken or hostile although its checksums fit. No loop raises: it returns a
status and the position in the buffer where it stopped, and the caller names the file and the
offset.

All functions stand in this one file because numba renews cached code only when the file of the
called function itself changes.

References:
    pebble `sstable/block.go` (block layout), Go `encoding/binary` (varints),
    lakeFS v1.84 `pkg/graveler/committed/value.go` (values) and
    `pkg/catalog/catalog.proto` (entries).
"""

# ruff: noqa: PLR0911, PLR0917, C901 - loops over bytes leave at each thing that can be wrong, and numba takes arrays by position

from __future__ import annotations

from typing import Any, TypeAlias

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spark_core.graveler.table_format import CRC_MASK, PLAIN, SNAPPY
from spark_core.jit import compiled

# NumPy arrays of uint8, int64 and int32. All numbers are int64, because numba computes in floats
# when they are mixed with unsigned ones. The type checker does not model that, so the arrays are
# `Any` to it.
Bytes: TypeAlias = Any
Longs: TypeAlias = Any
Ints: TypeAlias = Any

OK = 0
CUT_VARINT = 1
LONG_VARINT = 2
BAD_RESTARTS = 3
SHARED_TOO_LONG = 4
KEY_BEYOND_BLOCK = 5
VALUE_BEYOND_BLOCK = 6
SHORT_KEY = 7
NOT_A_SET = 8
TOO_MANY_RECORDS = 9
NOT_ONE_HANDLE = 10
KEYS_NOT_ASCENDING = 11
NEGATIVE_LENGTH = 12
BEYOND_VALUE = 13
AFTER_VALUE = 14
UNKNOWN_FIELD = 15
REPEATED_FIELD = 16
WRONG_WIRE_TYPE = 17
FIELD_BEYOND_MESSAGE = 18
NO_ADDRESS = 19
UNKNOWN_ADDRESS_TYPE = 20
NUMBER_TOO_LARGE = 21
BLOCK_TOO_LARGE = 22
BAD_CHECKSUM = 23
UNKNOWN_BLOCK_TYPE = 24
HANDLE_OUTSIDE = 25

# What statuses mean; the callers have words of their own for the last three.
PROBLEMS = {
    CUT_VARINT: "a varint that runs past the end of what holds it",
    LONG_VARINT: "a varint longer than its number needs or than 64 bits",
    BAD_RESTARTS: "a block whose list of restarts does not fit into it",
    SHARED_TOO_LONG: "a key that shares more bytes than the key before it has",
    KEY_BEYOND_BLOCK: "a key longer than the rest of its block",
    VALUE_BEYOND_BLOCK: "a value longer than the rest of its block",
    SHORT_KEY: "a key without its own 8-byte trailer",
    NOT_A_SET: "a record that is not a plain SET with sequence number 0",
    TOO_MANY_RECORDS: "more records than the `count` property says",
    NOT_ONE_HANDLE: "an index entry that does not hold exactly one block handle",
    KEYS_NOT_ASCENDING: "a key that is not greater than the one before it",
    NEGATIVE_LENGTH: "a negative length in a value",
    BEYOND_VALUE: "a length in a value that runs past the value's end",
    AFTER_VALUE: "bytes after the data of a value",
    UNKNOWN_FIELD: "an unknown protobuf field number",
    REPEATED_FIELD: "a protobuf field that may occur only once, twice",
    WRONG_WIRE_TYPE: "a protobuf field with a wire type that it does not have",
    FIELD_BEYOND_MESSAGE: "a protobuf field longer than its message",
    NO_ADDRESS: "an entry without an address",
    UNKNOWN_ADDRESS_TYPE: "an address_type other than 0, 1 and 2",
    NUMBER_TOO_LARGE: "a number too large for 63 bits",
    BLOCK_TOO_LARGE: "a compressed block that claims to be larger than snappy can make it",
}

# A snappy copy of 64 bytes takes 3 bytes. Nothing expands more than that.
_SNAPPY_MAX_EXPANSION = 22

# Bytes that `copy_wide` copies.
_WIDE = 16


@intrinsic
def _copy_wide(_context: Any, source: Any, source_at: Any, target: Any, target_at: Any) -> Any:
    """Copy 16 bytes at once; nobody checks that they lie inside the arrays."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        places = []
        for number in (0, 2):
            array = context.make_array(signature.args[number])(context, builder, values[number])
            places.append(builder.gep(array.data, [values[number + 1]]))
        size: Any = cgutils.intp_t(_WIDE)
        move: Any = cgutils.raw_memcpy
        move(builder, places[1], places[0], size, 1)
        return context.get_dummy_value()

    return types.void(source, source_at, target, target_at), generate


def _copy_wide_slowly(source: Any, source_at: int, target: Any, target_at: int) -> None:
    """Do the same where numba does not compile."""
    target[target_at : target_at + _WIDE] = source[source_at : source_at + _WIDE]


_config: Any = numba.config
copy_wide: Any = _copy_wide_slowly if _config.DISABLE_JIT else _copy_wide


@compiled
def as_long(number: Any) -> int:
    """Widen a number of an array so that arithmetic with it is signed."""
    return np.int64(number)  # type: ignore[return-value] # to the compiler both are int64


@compiled
def copy(source: Bytes, source_at: int, target: Bytes, target_at: int, size: int) -> None:
    """Copy bytes between two arrays, or to a place 16 bytes or more behind them in the same one.

    Up to 15 bytes behind the copy may change, so a target is filled from front to back.
    """
    # numba needs no negative case for unsigned indexes.
    begin = np.uint64(source_at)
    at = np.uint64(target_at)
    if source_at + size + _WIDE > source.size or target_at + size + _WIDE > target.size:
        for j in range(np.uint64(size)):
            target[at + j] = source[begin + j]
        return
    done = 0
    while done < size:
        copy_wide(source, source_at + done, target, target_at + done)
        done += _WIDE


@compiled
def read_uvarint(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read an unsigned varint as int64 (2^63 and above come out negative).

    Go writes the shortest form; a longer form of the same number means a flipped bit.

    Returns:
        The value and the position after it, or 0 and the negated status.
    """
    if position < end and buffer[np.uint64(position)] < 128:
        return as_long(buffer[np.uint64(position)]), position + 1
    value = 0
    for i in range(10):
        if position + i >= end:
            return 0, -CUT_VARINT
        byte = as_long(buffer[np.uint64(position + i)])
        if byte < 128:
            if byte == 0 or (i == 9 and byte > 1):
                return 0, -LONG_VARINT
            return value | (byte << (7 * i)), position + i + 1
        value |= (byte & 127) << (7 * i)
    return 0, -LONG_VARINT


@compiled
def entries_end(buffer: Bytes, begin: int, end: int) -> int:
    """Return where a block's entries end and its restarts begin, or the negated status."""
    if end - begin < 8:
        return -BAD_RESTARTS
    restarts = 0
    for i in range(4):
        restarts |= as_long(buffer[end - 4 + i]) << (8 * i)
    if restarts < 1 or restarts > (end - begin) // 4 - 1:
        return -BAD_RESTARTS
    return end - 4 * (restarts + 1)


@compiled
def check_blocks(
    file: Bytes, offsets: Longs, lengths: Longs, checksums: Longs, starts: Longs
) -> tuple[int, int]:
    """Check the trailers of stored blocks, and find their sizes after decompression.

    A trailer is one byte for the block's type and four for its checksum.

    Args:
        file: The whole file.
        offsets: Where each block begins; block and trailer are known to lie inside the file.
        lengths: Length of each without its trailer.
        checksums: CRC32C of each with its type.
        starts: Receives, after a first 0, where each block ends behind those before it.

    Returns:
        Status and the number of the block.
    """
    for i in range(offsets.size):
        begin = offsets[i]
        end = begin + lengths[i]
        checksum = masked(checksums[i])
        for j in range(4):
            if file[end + 1 + j] != (checksum >> (8 * j)) & 255:
                return BAD_CHECKSUM, i
        size = lengths[i]
        if file[end] != PLAIN:
            if file[end] != SNAPPY:
                return UNKNOWN_BLOCK_TYPE, i
            size, position = read_uvarint(file, begin, end)
            if position < 0:
                return -position, i
            if size < 0 or size > lengths[i] * _SNAPPY_MAX_EXPANSION:
                return BLOCK_TOO_LARGE, i
        starts[i + 1] = starts[i] + size
    return OK, 0


@compiled
def masked(checksum: int) -> int:
    """Return the form in which a table stores a CRC32C."""
    rotated = (checksum >> 15) | ((checksum << 17) & 0xFFFFFFFF)
    return (rotated + CRC_MASK) & 0xFFFFFFFF


@compiled
def decompress_blocks(
    file: Bytes, offsets: Longs, lengths: Longs, starts: Longs, buffer: Bytes
) -> int:
    """Decompress the blocks that `check_blocks` accepted.

    Args:
        file: As for `check_blocks`.
        offsets: Likewise.
        lengths: Likewise.
        starts: From `check_blocks`.
        buffer: Receives the blocks.

    Returns:
        Number of the first block that is broken, or -1.
    """
    for i in range(offsets.size):
        begin = offsets[i]
        end = begin + lengths[i]
        if file[end] == PLAIN:
            copy(file, begin, buffer, starts[i], lengths[i])
            continue
        _, position = read_uvarint(file, begin, end)
        if not decompress(file, position, end, buffer, starts[i], starts[i + 1]):
            return i
    return -1


@compiled
def little_endian(buffer: Bytes, position: int, end: int, width: int) -> tuple[int, int]:
    """Read a number, and return it with the position after it; -1 if it does not end there."""
    number = 0
    if width > end - position:
        return number, -1
    for i in range(width):
        number |= as_long(buffer[np.uint64(position + i)]) << (8 * i)
    return number, position + width


@compiled
def decompress(file: Bytes, position: int, end: int, buffer: Bytes, start: int, stop: int) -> bool:
    """Decompress one block; say whether it is sound and fills its place to the last byte.

    Args:
        file: The whole file.
        position: Where the block's literals and copies begin.
        end: Where they end.
        buffer: Receives the bytes.
        start: Where the block begins there.
        stop: Where it ends.

    References:
        Snappy's `format_description.txt`.
    """
    at = start
    while position < end:
        tag = as_long(file[np.uint64(position)])
        kind = tag & 3
        length = (tag >> 2) + 1
        position += 1
        if kind == 0:
            if length > 60:
                width = length - 60
                length, position = little_endian(file, position, end, width)
                length += 1
            if position < 0 or length > end - position or length > stop - at:
                return False
            copy(file, position, buffer, at, length)
            position += length
        else:
            # A width that is known to the compiler costs no loop.
            if kind == 1:
                back, position = little_endian(file, position, end, 1)
                back |= (tag >> 5) << 8
                length = ((tag >> 2) & 7) + 4
            elif kind == 2:
                back, position = little_endian(file, position, end, 2)
            else:
                back, position = little_endian(file, position, end, 4)
            if position < 0 or back < 1 or back > at - start or length > stop - at:
                return False
            if back >= _WIDE:
                copy(buffer, at - back, buffer, at, length)
            else:
                for i in range(length):
                    buffer[np.uint64(at + i)] = buffer[np.uint64(at - back + i)]
        at += length
    return at == stop


@compiled
def scan_entry(
    buffer: Bytes, position: int, limit: int, previous: int
) -> tuple[int, int, int, int]:
    """Read the head of one block entry.

    Args:
        buffer: Decompressed blocks.
        position: Where the entry begins.
        limit: Where the entries of its block end.
        previous: Length of the key before it in the block; 0 for the first.

    Returns:
        Shared length, unshared length, value length, and the position of the
        unshared key bytes or the negated status.
    """
    zero = 0
    shared, at = read_uvarint(buffer, position, limit)
    if at < 0:
        return zero, zero, zero, at
    unshared, at = read_uvarint(buffer, at, limit)
    if at < 0:
        return zero, zero, zero, at
    value, at = read_uvarint(buffer, at, limit)
    if at < 0:
        return zero, zero, zero, at
    if shared < 0 or shared > previous:
        return zero, zero, zero, -SHARED_TOO_LONG
    if unshared < 0 or unshared > limit - at:
        return zero, zero, zero, -KEY_BEYOND_BLOCK
    if value < 0 or value > limit - at - unshared:
        return zero, zero, zero, -VALUE_BEYOND_BLOCK
    return shared, unshared, value, at


@compiled
def scan_handles(
    buffer: Bytes, starts: Longs, limit_of_blocks: int, offsets: Longs, lengths: Longs
) -> tuple[int, int, int]:
    """Read the block handles of index blocks; the separator keys are not used.

    Args:
        buffer: Decompressed index blocks, one after another.
        starts: Where each begins, and the end of the last.
        limit_of_blocks: Where the last block can end in the file, without its trailer.
        offsets: Receives the offsets; must have room for one entry in 5 bytes.
        lengths: Receives the lengths.

    Returns:
        Status, position, and number of handles; behind those, the one that reaches out of the file.
    """
    found = 0
    for block in range(starts.size - 1):
        position = starts[block]
        limit = entries_end(buffer, position, starts[block + 1])
        if limit < 0:
            return -limit, position, found
        previous = 0
        while position < limit:
            shared, unshared, size, at = scan_entry(buffer, position, limit, previous)
            if at < 0:
                return -at, position, found
            previous = shared + unshared
            value = at + unshared
            offset, at = read_uvarint(buffer, value, value + size)
            if at < 0:
                return -at, value, found
            length, at = read_uvarint(buffer, at, value + size)
            if at < 0:
                return -at, value, found
            if at != value + size or found >= offsets.size:
                return NOT_ONE_HANDLE, value, found
            offsets[found] = offset
            lengths[found] = length
            if offset < 0 or length < 0 or length > limit_of_blocks - offset:
                return HANDLE_OUTSIDE, value, found
            found += 1
            position = value + size
    return OK, 0, found


@compiled
def scan_records(
    buffer: Bytes,
    starts: Longs,
    trailer: int,
    shared: Longs,
    key_starts: Longs,
    key_lengths: Longs,
    value_starts: Longs,
    value_lengths: Longs,
) -> tuple[int, int, int]:
    """Find the records of data blocks, or the names and values of a block of those.

    Args:
        buffer: Decompressed blocks, one after another.
        starts: Where each begins, and the end of the last.
        trailer: Bytes behind each user key: 8 in data blocks, else 0.
        shared: Receives how many bytes a key shares with the internal key before it.
        key_starts: Receives where the unshared bytes of a key begin.
        key_lengths: Receives the length of the whole user key.
        value_starts: Receives where a value begins.
        value_lengths: Receives its length.

    Returns:
        Status, position, and number of records.
    """
    found = 0
    for block in range(starts.size - 1):
        position = starts[block]
        limit = entries_end(buffer, position, starts[block + 1])
        if limit < 0:
            return -limit, position, found
        previous = 0
        while position < limit:
            common, unshared, size, at = scan_entry(buffer, position, limit, previous)
            if at < 0:
                return -at, position, found
            if unshared < trailer:
                return SHORT_KEY, position, found
            for i in range(trailer):
                if buffer[at + unshared - trailer + i] != (1 if i == 0 else 0):
                    return NOT_A_SET, position, found
            if found >= shared.size:
                return TOO_MANY_RECORDS, position, found
            shared[found] = common
            key_starts[found] = at
            key_lengths[found] = common + unshared - trailer
            value_starts[found] = at + unshared
            value_lengths[found] = size
            found += 1
            previous = common + unshared
            position = at + unshared + size
    return OK, 0, found


@compiled
def rebuild_keys(
    buffer: Bytes, shared: Longs, key_starts: Longs, key_lengths: Longs, offsets: Ints, keys: Bytes
) -> tuple[int, int]:
    """Undo the prefix compression and check that keys ascend strictly.

    A key may share bytes with the trailer of the key before it (01 and seven
    zeros). The trailers are not kept here, so their bytes are put back when needed.

    Args:
        buffer: As for `scan_records`.
        shared: From `scan_records`.
        key_starts: From `scan_records`.
        key_lengths: From `scan_records`.
        offsets: Where each key begins in `keys`, and the end of the last.
        keys: Receives the user keys.

    Returns:
        Status and position in `buffer`.
    """
    for i in range(shared.size):
        at = as_long(offsets[i])
        length = key_lengths[i]
        common = shared[i]
        before = 0
        before_length = 0
        if i > 0:
            before = as_long(offsets[i - 1])
            before_length = key_lengths[i - 1]
        equal = min(common, before_length)
        copy(keys, before, keys, at, equal)
        for j in range(equal, common):
            keys[at + j] = 1 if j == before_length else 0
        copy(buffer, key_starts[i], keys, at + common, length - common)
        if i > 0:
            j = equal
            while j < length and j < before_length and keys[at + j] == keys[before + j]:
                j += 1
            if j == length or (j < before_length and keys[at + j] < keys[before + j]):
                return KEYS_NOT_ASCENDING, key_starts[i]
    return OK, 0


@compiled
def read_length(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zig-zag length that must fit before `end`.

    Returns:
        The length, and the position after it or the negated status.
    """
    number, at = read_uvarint(buffer, position, end)
    if at < 0:
        return 0, at
    if number & 1:
        return 0, -NEGATIVE_LENGTH
    length = (number >> 1) & 0x7FFFFFFFFFFFFFFF
    if length > end - at:
        return 0, -BEYOND_VALUE
    return length, at


@compiled
def split_values(
    buffer: Bytes,
    value_starts: Longs,
    value_lengths: Longs,
    identity_starts: Longs,
    identity_lengths: Longs,
    payload_starts: Longs,
    payload_lengths: Longs,
) -> tuple[int, int]:
    """Split values into identity and payload.

    Returns:
        Status and position.
    """
    for i in range(value_starts.size):
        begin = value_starts[i]
        end = begin + value_lengths[i]
        length, at = read_length(buffer, begin, end)
        if at < 0:
            return -at, begin
        identity_starts[i] = at
        identity_lengths[i] = length
        length, at = read_length(buffer, at + length, end)
        if at < 0:
            return -at, begin
        if at + length != end:
            return AFTER_VALUE, begin
        payload_starts[i] = at
        payload_lengths[i] = length
    return OK, 0


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


@compiled
def gather(buffer: Bytes, starts: Longs, lengths: Longs, offsets: Ints, target: Bytes) -> None:
    """Copy pieces of a buffer one after another."""
    for i in range(starts.size):
        copy(buffer, starts[i], target, as_long(offsets[i]), lengths[i])


@compiled
def put_length(number: int, target: Bytes, at: int) -> int:
    """Write a length as decimal text and return the position after it."""
    end = at + 1
    bound = 10
    while number >= bound:
        end += 1
        bound *= 10
    rest = np.uint64(number)
    place = np.uint64(end)
    for _ in range(end - at):
        place -= np.uint64(1)
        tenth = rest // np.uint64(10)
        target[place] = np.uint64(48) + rest - tenth * np.uint64(10)
        rest = tenth
    return end


@compiled
def hash_input(
    keys: Bytes,
    key_offsets: Ints,
    buffer: Bytes,
    value_starts: Longs,
    value_lengths: Longs,
    target: Bytes,
) -> int:
    """Lay out records as the table id hashes them: length, bytes and a bar, for key and for value.

    Args:
        keys: The keys, one after another.
        key_offsets: Where each begins, and the end of the last.
        buffer: The buffer that holds the values.
        value_starts: Where each value begins.
        value_lengths: Length of each value.
        target: Receives the text; needs the size of all keys and values and 22 bytes a record.

    Returns:
        Number of bytes used in `target`.
    """
    at = 0
    for i in range(value_starts.size):
        size = as_long(key_offsets[i + 1]) - as_long(key_offsets[i])
        at = put_length(size, target, at)
        copy(keys, as_long(key_offsets[i]), target, at, size)
        target[np.uint64(at + size)] = 124
        at += size + 1
        size = value_lengths[i]
        at = put_length(size, target, at)
        copy(buffer, value_starts[i], target, at, size)
        target[np.uint64(at + size)] = 124
        at += size + 1
    return at


@compiled
def fnv1a_64(data: Bytes) -> int:
    """Hash bytes with FNV-1a, 64 bit; the result is unsigned."""
    value = np.uint64(0xCBF29CE484222325)
    for byte in data:
        value = (value ^ np.uint64(byte)) * np.uint64(0x100000001B3)
    return value  # type: ignore[return-value] # numba returns a Python int
