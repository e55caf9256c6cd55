"""Read the records of decompressed blocks: handles of an index, records of data, their whole keys.

References:
    pebble `sstable/block.go` (block layout), Go `encoding/binary` (varints).
"""

# ruff: noqa: PLR0911, PLR0917 - loops over bytes leave at each thing that can be wrong, and numba takes arrays by position

from __future__ import annotations

from spark_core.graveler.loops.buffers import Bytes, Ints, Longs, as_long, copy, read_uvarint
from spark_core.graveler.loops.statuses import (
    BAD_RESTARTS,
    HANDLE_OUTSIDE,
    KEY_BEYOND_BLOCK,
    KEYS_NOT_ASCENDING,
    NOT_A_SET,
    NOT_ONE_HANDLE,
    OK,
    SHARED_TOO_LONG,
    SHORT_KEY,
    TOO_MANY_RECORDS,
    VALUE_BEYOND_BLOCK,
)
from spark_core.jit import compiled


@compiled
def records_end(buffer: Bytes, begin: int, end: int) -> int:
    """Return where a block's records end and its restarts begin, or the negated status."""
    if end - begin < 8:
        return -BAD_RESTARTS
    restarts = 0
    for i in range(4):
        restarts |= as_long(buffer[end - 4 + i]) << (8 * i)
    if restarts < 1 or restarts > (end - begin) // 4 - 1:
        return -BAD_RESTARTS
    return end - 4 * (restarts + 1)


@compiled
def scan_head(buffer: Bytes, position: int, limit: int, previous: int) -> tuple[int, int, int, int]:
    """Read the head of one record.

    Args:
        buffer: Decompressed blocks.
        position: Where the record begins.
        limit: Where the records of its block end.
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
        offsets: Receives the offsets; must have room for one record in 5 bytes.
        lengths: Receives the lengths.

    Returns:
        Status, position, and number of handles; behind those, the one that reaches out of the file.
    """
    found = 0
    for block in range(starts.size - 1):
        position = starts[block]
        limit = records_end(buffer, position, starts[block + 1])
        if limit < 0:
            return -limit, position, found
        previous = 0
        while position < limit:
            shared, unshared, size, at = scan_head(buffer, position, limit, previous)
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
        limit = records_end(buffer, position, starts[block + 1])
        if limit < 0:
            return -limit, position, found
        previous = 0
        while position < limit:
            common, unshared, size, at = scan_head(buffer, position, limit, previous)
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
