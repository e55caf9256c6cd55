"""Check the blocks of a table as they are stored, and decompress them.

References:
    pebble `sstable/reader.go`; snappy's `format_description.txt`.
"""

# ruff: noqa: PLR0917 - numba takes arrays by position

from __future__ import annotations

import numpy as np

from spark_core.graveler.loops.buffers import WIDE, Bytes, Longs, as_long, copy, read_uvarint
from spark_core.graveler.loops.statuses import (
    BAD_CHECKSUM,
    BLOCK_TOO_LARGE,
    OK,
    UNKNOWN_BLOCK_TYPE,
)
from spark_core.jit import compiled

# Types of stored blocks, and what is added to a stored checksum.
PLAIN, SNAPPY = 0, 1
CRC_MASK = 0xA282EAD8

# A snappy copy of 64 bytes takes 3 bytes. Nothing expands more than that.
_SNAPPY_MAX_EXPANSION = 22


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
            if back >= WIDE:
                copy(buffer, at - back, buffer, at, length)
            else:
                for i in range(length):
                    buffer[np.uint64(at + i)] = buffer[np.uint64(at - back + i)]
        at += length
    return at == stop
