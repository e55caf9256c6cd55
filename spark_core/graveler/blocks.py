"""Load blocks of a table file: handles, checksums, decompression.

References:
    lakefs-facts 2.2 item 2; pebble `sstable/reader.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from spark_core.errors import CorruptTableError
from spark_core.graveler.loops import block_records, buffers, statuses, stored_blocks
from spark_core.graveler.loops.stored_blocks import PLAIN, SNAPPY
from spark_core.graveler.table_format import MAY_MATTER, TRAILER_SIZE

Longs: TypeAlias = NDArray[np.int64]

# Arrow's binary offsets are 32-bit, and the server closes a range at some 20 MiB.
MAX_DECOMPRESSED_BYTES = 2**31 - 1


@dataclass(frozen=True)
class Pieces:
    """Pieces of a buffer: where each begins, and its length in bytes."""

    starts: Longs
    lengths: Longs

    @classmethod
    def room(cls, count: int) -> Pieces:
        """Make room for `count` pieces that a loop fills in."""
        return cls(np.empty(count, np.int64), np.empty(count, np.int64))


@dataclass(frozen=True)
class Blocks:
    """Decompressed blocks, one after another.

    Attributes:
        name: Name of the file, for errors.
        buffer: The bytes of all blocks.
        starts: Where each block begins in `buffer`, and the end of the last.
        offsets: Where each block begins in the file.
        plain: Whether each is stored uncompressed.
    """

    name: str
    buffer: NDArray[np.uint8]
    starts: Longs
    offsets: Longs
    plain: NDArray[np.bool_]

    def scan(self, most: int, *, trailer: int) -> tuple[Longs, Pieces, Pieces]:
        """Find the records of the blocks.

        Args:
            most: How many there may be.
            trailer: Bytes behind each user key.

        Returns:
            How many bytes each key shares with the one before it; the bytes that it does not share,
            with the length of the whole user key; and the values.

        Raises:
            CorruptTableError: If they cannot be read, or are too many.
        """
        shared, keys, values = np.empty(most, np.int64), Pieces.room(most), Pieces.room(most)
        arrays = (keys.starts, keys.lengths, values.starts, values.lengths)
        status, position, found = block_records.scan_records(
            self.buffer, self.starts, trailer, shared, *arrays
        )
        if status != statuses.OK:
            raise self.fail(status, position)
        key_starts, key_lengths, value_starts, value_lengths = (array[:found] for array in arrays)
        return shared[:found], Pieces(key_starts, key_lengths), Pieces(value_starts, value_lengths)

    def fail(self, status: int, position: int, message: str = "") -> CorruptTableError:
        """Make the error for what a loop found at a position of the buffer.

        Args:
            status: A key of `statuses.PROBLEMS`.
            position: Where in the buffer.
            message: Name of the protobuf message that is read there.
        """
        found = f"found {statuses.PROBLEMS[status]}"
        if status == statuses.UNKNOWN_FIELD:
            tag, _ = buffers.read_uvarint(self.buffer, position, self.buffer.size)
            found += f", {(int(tag) & 2**64 - 1) >> 3}, in {message}: {MAY_MATTER}"
        return self.broken(position, found)

    def broken(self, position: int, problem: str) -> CorruptTableError:
        """Make the error for a position of the buffer, naming the place in the file."""
        block = int(np.searchsorted(self.starts[1:-1], position, side="right"))
        inside = position - int(self.starts[block])
        offset = int(self.offsets[block])
        if self.plain[block]:
            return CorruptTableError(self.name, offset + inside, problem)
        return CorruptTableError(
            self.name, offset, f"{problem} (at byte {inside} of the block that is compressed here)"
        )


@dataclass(frozen=True)
class Handles:
    """Where blocks lie in the file; they are known to lie inside it.

    Attributes:
        offsets: Offset of each block's payload.
        lengths: Length of each payload in bytes, without the trailer.
    """

    offsets: Longs
    lengths: Longs

    @property
    def ends(self) -> Longs:
        """Where each block's trailer ends."""
        return self.offsets + self.lengths + TRAILER_SIZE

    def earlier_by(self, size_bytes: int) -> Handles:
        """Return where the blocks lie in what is left of the file without its first bytes."""
        return Handles(self.offsets - size_bytes, self.lengths)


def load_blocks(data: bytes, name: str, handles: Handles) -> Blocks:
    """Check and decompress blocks.

    Args:
        data: The whole file.
        name: Name of the file, for errors.
        handles: Where the blocks lie.

    Returns:
        The blocks in the order of the handles.

    Raises:
        CorruptTableError: If a checksum does not fit, or a block's type is
            unknown, or it does not decompress to the size that it states.
    """
    offsets, lengths = handles.offsets, handles.lengths
    ends = offsets + lengths
    checksum = google_crc32c.value
    checksums = np.array(
        [
            checksum(data[begin : end + 1])
            for begin, end in zip(offsets.tolist(), ends.tolist(), strict=True)
        ],
        np.int64,
    )
    file, starts = np.frombuffer(data, np.uint8), np.zeros(offsets.size + 1, np.int64)
    status, bad = stored_blocks.check_blocks(file, offsets, lengths, checksums, starts)
    if status != statuses.OK:
        place = int(offsets[bad]), int(ends[bad])
        raise _broken_block(data, name, status, place, int(checksums[bad]))
    if starts[-1] > MAX_DECOMPRESSED_BYTES:
        raise CorruptTableError(
            name, None, f"its blocks decompress to {starts[-1]} bytes, more than a table can hold"
        )
    buffer, is_plain = np.empty(int(starts[-1]), np.uint8), file[ends] == PLAIN
    bad = stored_blocks.decompress_blocks(file, offsets, lengths, starts, buffer)
    if bad >= 0:
        raise CorruptTableError(
            name,
            int(offsets[bad]),
            f"the block does not decompress to the {starts[bad + 1] - starts[bad]} bytes that its "
            "head says",
        )
    return Blocks(name, buffer, starts, offsets, is_plain)


def _broken_block(
    data: bytes, name: str, status: int, place: tuple[int, int], checksum: int
) -> CorruptTableError:
    """Make the error for what `check_blocks` found of the block between two offsets."""
    begin, end = place
    if status == statuses.BAD_CHECKSUM:
        stored = int.from_bytes(data[end + 1 : end + TRAILER_SIZE], "little")
        return CorruptTableError(
            name,
            begin,
            f"the block's checksum is {stored_blocks.masked(checksum):08x}, its trailer says "
            f"{stored:08x}",
        )
    if status == statuses.UNKNOWN_BLOCK_TYPE:
        return CorruptTableError(
            name, end, f"block type {data[end]}, wanted {PLAIN} (plain) or {SNAPPY} (snappy)"
        )
    return CorruptTableError(name, begin, f"found {statuses.PROBLEMS[status]}")
