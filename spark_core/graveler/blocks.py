"""Load blocks of a table file: handles, checksums, decompression.

References:
    lakefs-facts 2.2 item 2; pebble `sstable/reader.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import cramjam
import google_crc32c
import numpy as np
from numpy.typing import NDArray

from spark_core.errors import CorruptTableError
from spark_core.graveler import kernels
from spark_core.graveler.table_format import (
    CRC_MASK,
    FOOTER_SIZE,
    MAY_MATTER,
    PLAIN,
    SNAPPY,
    TRAILER_SIZE,
)

Longs: TypeAlias = NDArray[np.int64]

# Arrow's binary offsets are 32-bit, and the server closes a range at some 20 MiB.
MAX_DECOMPRESSED_BYTES = 2**31 - 1


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

    def fail(self, status: int, position: int, message: str = "") -> CorruptTableError:
        """Make the error for what a kernel found at a position of the buffer.

        Args:
            status: A key of `kernels.PROBLEMS`.
            position: Where in the buffer.
            message: Name of the protobuf message that is read there.
        """
        found = f"found {kernels.PROBLEMS[status]}"
        if status == kernels.UNKNOWN_FIELD:
            tag, _ = kernels.read_uvarint(self.buffer, position, self.buffer.size)
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


def check_handles(offsets: Longs, lengths: Longs, data: bytes, name: str, named_at: int) -> Handles:
    """Check that blocks lie between the beginning of the file and its footer.

    Args:
        offsets: Offsets; those of 2^63 and above are negative.
        lengths: Lengths, likewise.
        data: The whole file.
        name: Name of the file, for errors.
        named_at: Offset of the handles that name the blocks.

    Raises:
        CorruptTableError: If a block does not.
    """
    limit = len(data) - FOOTER_SIZE
    outside = (
        (offsets < 0)
        | (offsets > limit)
        | (lengths < 0)
        | (lengths > limit - TRAILER_SIZE - offsets)
    )
    if outside.any():
        bad = int(np.flatnonzero(outside)[0])
        raise CorruptTableError(
            name,
            named_at,
            f"block handle ({offsets[bad]}, {lengths[bad]}) reaches out of the {limit} bytes "
            "before the footer",
        )
    return Handles(offsets, lengths)


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
    file = np.frombuffer(data, np.uint8)
    ends = offsets + lengths
    _check_checksums(data, file, name, offsets, ends)
    types = file[ends]
    unknown = np.flatnonzero(types > SNAPPY)
    if unknown.size:
        at = int(ends[unknown[0]])
        raise CorruptTableError(
            name, at, f"block type {data[at]}, wanted {PLAIN} (plain) or {SNAPPY} (snappy)"
        )
    sizes = np.empty(offsets.size, np.int64)
    status, position = kernels.snappy_sizes(file, offsets, lengths, sizes)
    if status != kernels.OK:
        raise CorruptTableError(name, int(position), f"found {kernels.PROBLEMS[status]}")
    starts = np.zeros(offsets.size + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    if starts[-1] > MAX_DECOMPRESSED_BYTES:
        raise CorruptTableError(
            name, None, f"its blocks decompress to {starts[-1]} bytes, more than a table can hold"
        )
    buffer = np.empty(int(starts[-1]), np.uint8)
    source, target = memoryview(data), buffer.data
    decompress = cramjam.snappy.decompress_raw_into
    for offset, end, (start, stop), kind in zip(
        offsets.tolist(), ends.tolist(), pairwise(starts.tolist()), types.tolist(), strict=True
    ):
        if kind == PLAIN:
            target[start:stop] = source[offset:end]
            continue
        try:
            written = decompress(source[offset:end], target[start:stop])
        except cramjam.DecompressionError as error:
            raise CorruptTableError(
                name, offset, f"the block does not decompress: {error}"
            ) from error
        if written != stop - start:
            raise CorruptTableError(
                name,
                offset,
                f"the block decompresses to {written} bytes, its head says {stop - start}",
            )
    return Blocks(name, buffer, starts, offsets, types == PLAIN)


def _check_checksums(
    data: bytes, file: NDArray[np.uint8], name: str, offsets: Longs, ends: Longs
) -> None:
    checksum = google_crc32c.value
    raw = np.array(
        [
            checksum(data[begin : end + 1])
            for begin, end in zip(offsets.tolist(), ends.tolist(), strict=True)
        ],
        np.uint32,
    )
    found = ((raw >> 15) | (raw << 17)) + np.uint32(CRC_MASK)
    stored = (
        np.ascontiguousarray(file[ends[:, None] + np.arange(1, TRAILER_SIZE)]).view("<u4").ravel()
    )
    wrong = np.flatnonzero(found != stored)
    if wrong.size:
        bad = int(wrong[0])
        raise CorruptTableError(
            name,
            int(offsets[bad]),
            f"the block's checksum is {int(found[bad]):08x}, its trailer says "
            f"{int(stored[bad]):08x}",
        )
