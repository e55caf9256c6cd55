"""Open a table file: footer, block handles, checksums, decompression, properties, both kinds of index.

References:
    lakefs-facts 2.2; pebble `sstable/table.go` (footer), `sstable/properties.go`.
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

Longs: TypeAlias = NDArray[np.int64]

FOOTER_SIZE = 53
TRAILER_SIZE = 5
MAGIC = bytes.fromhex("f7cff485b741e288")
FORMAT_VERSION = 2
CHECKSUM_CRC32C = 1
PLAIN, SNAPPY = 0, 1
CRC_MASK = 0xA282EAD8

# Arrow's binary offsets are 32-bit, and the server closes a range at some 20 MiB.
MAX_DECOMPRESSED_BYTES = 2**31 - 1

PROPERTIES_BLOCK = b"rocksdb.properties"
SINGLE_LEVEL, TWO_LEVEL = 0, 2

# What pebble writes besides lakeFS's own properties; anything else of these families is another table format.
_ENGINE_PREFIXES = ("rocksdb.", "pebble.")
_ENGINE_PROPERTIES = frozenset(
    "rocksdb." + name
    for name in (
        "block.based.table.index.type",
        "block.based.table.prefix.filtering",
        "block.based.table.whole.key.filtering",
        "column.family.id",
        "column.family.name",
        "comparator",
        "compression",
        "compression_options",
        "creation.time",
        "data.size",
        "deleted.keys",
        "external_sst_file.global_seqno",
        "external_sst_file.version",
        "file.creation.time",
        "filter.size",
        "fixed.key.length",
        "format.version",
        "index.key.is.user.key",
        "index.partitions",
        "index.size",
        "index.value.is.delta.encoded",
        "merge.operands",
        "merge.operator",
        "num.data.blocks",
        "num.entries",
        "num.range-deletions",
        "oldest.key.time",
        "prefix.extractor.name",
        "property.collectors",
        "raw.key.size",
        "raw.value.size",
        "top-level.index.size",
    )
)
_FIXED_PROPERTIES = {
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.deleted.keys": b"\x00",
    "rocksdb.merge.operands": b"\x00",
    "rocksdb.num.range-deletions": b"\x00",
    "rocksdb.index.value.is.delta.encoded": b"\x00",
}


@dataclass(frozen=True)
class Blocks:
    """Decompressed blocks, one behind the other.

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

    def fail(self, status: int, position: int) -> CorruptTableError:
        """Describe what a kernel found at a position of the buffer."""
        block = int(np.searchsorted(self.starts[1:-1], position, side="right"))
        inside = position - int(self.starts[block])
        offset = int(self.offsets[block])
        problem = kernels.PROBLEMS[status]
        if self.plain[block]:
            return CorruptTableError(self.name, offset + inside, f"found {problem}")
        return CorruptTableError(
            self.name, offset, f"found {problem} (at byte {inside} of the block that is compressed here)"
        )


@dataclass(frozen=True)
class Table:
    """An opened table: every block was read and its checksum fits.

    Attributes:
        name: Name of the file, for errors.
        properties: All properties, the engine's and lakeFS's, in file order.
        data: The data blocks in key order.
    """

    name: str
    properties: dict[str, bytes]
    data: Blocks

    def text(self, key: str) -> str:
        """Return a property that must be there, as text.

        Raises:
            CorruptTableError: If it is missing or is not ASCII.
        """
        value = self.properties.get(key)
        if value is None or not value.isascii():
            raise CorruptTableError(self.name, None, f"property `{key}` is {value!r}, wanted text")
        return value.decode()

    def number(self, key: str) -> int:
        """Return a property that must be a decimal number.

        Raises:
            CorruptTableError: If it is missing or is not the decimal text of a number below 2^63.
        """
        value = self.text(key)
        if not value.isdigit() or len(value) > 19 or int(value) >= 2**63:
            raise CorruptTableError(self.name, None, f"property `{key}` is {value!r}, wanted a decimal number")
        return int(value)


def open_table(data: bytes, *, name: str) -> Table:
    """Read every block of a table file and check all that does not depend on its records.

    The blocks must tile the file without gap or overlap, as pebble writes
    them: an index that lost a block, or names one twice, is seen by that
    although each checksum fits.

    Args:
        data: The whole file.
        name: Name of the file, for errors.

    Returns:
        The opened table.

    Raises:
        CorruptTableError: If the file is not a complete table of the one
            format that lakeFS writes.
    """
    limit = len(data) - FOOTER_SIZE
    metaindex, index = _read_footer(data, name)
    (entries, _) = _read_named_block(data, name, metaindex, "metaindex")
    if list(entries) != [PROPERTIES_BLOCK]:
        names = ", ".join(repr(key) for key in entries)
        raise CorruptTableError(
            name, metaindex[0], f"the metaindex names {names or 'nothing'}, wanted rocksdb.properties"
        )
    properties_handle = _one_handle(entries[PROPERTIES_BLOCK], name, metaindex[0])
    raw, _ = _read_named_block(data, name, properties_handle, "properties")
    properties = _check_properties(raw, name, properties_handle[0])

    top = _load(data, name, *_columns([index]))
    offsets, lengths = _read_handles(top)
    handles = [_columns([metaindex, index, properties_handle]), (offsets, lengths)]
    if _index_type(properties, name) == TWO_LEVEL:
        partitions = _load(data, name, offsets, lengths, named_at=index[0])
        offsets, lengths = _read_handles(partitions)
        handles.append((offsets, lengths))
    _check_tiling(handles, limit, name)
    if np.any(np.diff(offsets) < 0):
        raise CorruptTableError(name, index[0], "the index does not name the data blocks in file order")
    blocks = _engine_number(properties, "rocksdb.num.data.blocks", name)
    if blocks != offsets.size:
        raise CorruptTableError(
            name,
            index[0],
            f"the index names {offsets.size} data blocks, property rocksdb.num.data.blocks says {blocks}",
        )
    return Table(name, properties, _load(data, name, offsets, lengths, named_at=index[0]))


def _read_footer(data: bytes, name: str) -> tuple[tuple[int, int], tuple[int, int]]:
    at = len(data) - FOOTER_SIZE
    if at < 0:
        raise CorruptTableError(
            name, 0, f"the file has {len(data)} bytes, wanted at least the {FOOTER_SIZE} of a table's footer"
        )
    footer = data[at:]
    if footer[45:] != MAGIC:
        raise CorruptTableError(name, at + 45, f"magic number {footer[45:].hex()}, wanted {MAGIC.hex()}")
    version = int.from_bytes(footer[41:45], "little")
    if version != FORMAT_VERSION:
        raise CorruptTableError(name, at + 41, f"format version {version}, wanted {FORMAT_VERSION}")
    if footer[0] != CHECKSUM_CRC32C:
        raise CorruptTableError(name, at, f"checksum type {footer[0]}, wanted {CHECKSUM_CRC32C} (CRC32C)")
    numbers = []
    position = 1
    for _ in range(4):
        number, position = _uvarint(footer, position, 41, name, at)
        numbers.append(number)
    if any(footer[position:41]):
        raise CorruptTableError(name, at + position, "bytes after the footer's two block handles, wanted zeros")
    metaindex, index = (numbers[0], numbers[1]), (numbers[2], numbers[3])
    for offset, length in (metaindex, index):
        _check_handle(offset, length, at, name, at + 1)
    return metaindex, index


def _uvarint(data: bytes, position: int, end: int, name: str, base: int) -> tuple[int, int]:
    value = 0
    for i in range(10):
        if position + i >= end:
            raise CorruptTableError(name, base + position, f"found {kernels.PROBLEMS[kernels.CUT_VARINT]}")
        byte = data[position + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, position + i + 1
    raise CorruptTableError(name, base + position, f"found {kernels.PROBLEMS[kernels.LONG_VARINT]}")


def _check_handle(offset: int, length: int, limit: int, name: str, at: int | None) -> None:
    if not (0 <= offset <= limit and 0 <= length <= limit - offset - TRAILER_SIZE):
        raise CorruptTableError(
            name, at, f"a block handle ({offset}, {length}) reaches beyond the file's {limit} bytes of blocks"
        )


def _one_handle(value: bytes, name: str, at: int) -> tuple[int, int]:
    offset, position = _uvarint(value, 0, len(value), name, at)
    length, position = _uvarint(value, position, len(value), name, at)
    if position != len(value):
        raise CorruptTableError(name, at, f"found {kernels.PROBLEMS[kernels.NOT_ONE_HANDLE]}")
    return offset, length


def _columns(handles: list[tuple[int, int]]) -> tuple[Longs, Longs]:
    table = np.array(handles, dtype=np.uint64).reshape(-1, 2).astype(np.int64)
    return table[:, 0].copy(), table[:, 1].copy()


def _read_named_block(data: bytes, name: str, handle: tuple[int, int], what: str) -> tuple[dict[bytes, bytes], Blocks]:
    blocks = _load(data, name, *_columns([handle]))
    if not blocks.plain[0]:
        raise CorruptTableError(name, handle[0], f"the {what} block is compressed, wanted a plain one")
    block = blocks.buffer.tobytes()
    limit = int(kernels.entries_end(blocks.buffer, 0, len(block)))
    if limit < 0:
        raise blocks.fail(-limit, 0)
    entries: dict[bytes, bytes] = {}
    key = b""
    position = 0
    while position < limit:
        shared, unshared, size, at = (
            int(number) for number in kernels.scan_entry(blocks.buffer, position, limit, len(key))
        )
        if at < 0:
            raise blocks.fail(-at, position)
        key = key[:shared] + block[at : at + unshared]
        if entries and key <= max(entries):
            raise blocks.fail(kernels.KEYS_NOT_ASCENDING, position)
        position = at + unshared + size
        entries[key] = block[at + unshared : position]
    return entries, blocks


def _check_properties(raw: dict[bytes, bytes], name: str, at: int) -> dict[str, bytes]:
    properties = {}
    for key, value in raw.items():
        if not key.isascii():
            raise CorruptTableError(name, at, f"property name {key!r} is not ASCII")
        text = key.decode()
        if text.startswith(_ENGINE_PREFIXES) and text not in _ENGINE_PROPERTIES:
            raise CorruptTableError(name, at, f"property {text} belongs to a table format that lakeFS does not write")
        properties[text] = value
    for text, wanted in _FIXED_PROPERTIES.items():
        if properties.get(text) != wanted:
            raise CorruptTableError(name, at, f"property {text} is {properties.get(text)!r}, wanted {wanted!r}")
    return properties


def _index_type(properties: dict[str, bytes], name: str) -> int:
    value = properties.get("rocksdb.block.based.table.index.type", b"")
    kind = int.from_bytes(value, "little") if len(value) == 4 else -1
    if kind not in (SINGLE_LEVEL, TWO_LEVEL):
        raise CorruptTableError(name, None, f"index type {value.hex() or 'missing'}, wanted 0 or 2 in four bytes")
    return kind


def _engine_number(properties: dict[str, bytes], key: str, name: str) -> int:
    value = properties.get(key, b"")
    number, end = _uvarint(value, 0, len(value), name, 0)
    if end != len(value):
        raise CorruptTableError(name, None, f"property {key} is {value!r}, wanted one varint")
    return number


def _read_handles(index: Blocks) -> tuple[Longs, Longs]:
    capacity = index.buffer.size // 5 + 1
    offsets = np.empty(capacity, np.int64)
    lengths = np.empty(capacity, np.int64)
    status, position, found = kernels.scan_handles(index.buffer, index.starts, offsets, lengths)
    if status != kernels.OK:
        raise index.fail(status, position)
    return offsets[:found], lengths[:found]


def _check_tiling(handles: list[tuple[Longs, Longs]], limit: int, name: str) -> None:
    offsets = np.concatenate([offset for offset, _ in handles])
    lengths = np.concatenate([length for _, length in handles])
    order = np.argsort(offsets, kind="stable")
    begins = np.append(offsets[order], limit)
    ends = np.append(0, (offsets + lengths + TRAILER_SIZE)[order])
    wrong = np.flatnonzero(begins != ends)
    if wrong.size:
        begin, end = int(begins[wrong[0]]), int(ends[wrong[0]])
        raise CorruptTableError(
            name, min(begin, end), f"the blocks do not tile the file: one ends at {end}, the next begins at {begin}"
        )


def _load(data: bytes, name: str, offsets: Longs, lengths: Longs, *, named_at: int | None = None) -> Blocks:
    """Check and decompress the blocks of handles that were read at the offset `named_at`."""
    limit = len(data) - FOOTER_SIZE
    outside = (offsets < 0) | (offsets > limit) | (lengths < 0) | (lengths > limit - offsets - TRAILER_SIZE)
    if outside.any():
        bad = int(np.flatnonzero(outside)[0])
        _check_handle(int(offsets[bad]), int(lengths[bad]), limit, name, named_at)
    file = np.frombuffer(data, np.uint8)
    ends = offsets + lengths
    _check_checksums(data, file, name, offsets, ends)
    types = file[ends]
    unknown = np.flatnonzero(types > SNAPPY)
    if unknown.size:
        at = int(ends[unknown[0]])
        raise CorruptTableError(name, at, f"block type {data[at]}, wanted {PLAIN} (plain) or {SNAPPY} (snappy)")
    sizes = np.empty(offsets.size, np.int64)
    status, position = kernels.snappy_sizes(file, offsets, lengths, sizes)
    if status != kernels.OK:
        raise CorruptTableError(name, int(position), f"found {kernels.PROBLEMS[status]}")
    starts = np.zeros(offsets.size + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    if starts[-1] > MAX_DECOMPRESSED_BYTES:
        raise CorruptTableError(name, None, f"its blocks decompress to {starts[-1]} bytes, more than a table can hold")
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
            raise CorruptTableError(name, offset, f"the block does not decompress: {error}") from error
        if written != stop - start:
            raise CorruptTableError(
                name, offset, f"the block decompresses to {written} bytes, its head says {stop - start}"
            )
    return Blocks(name, buffer, starts, offsets, types == PLAIN)


def _check_checksums(data: bytes, file: NDArray[np.uint8], name: str, offsets: Longs, ends: Longs) -> None:
    checksum = google_crc32c.value
    raw = np.array(
        [checksum(data[begin : end + 1]) for begin, end in zip(offsets.tolist(), ends.tolist(), strict=True)],
        np.uint32,
    )
    found = ((raw >> 15) | (raw << 17)) + np.uint32(CRC_MASK)
    stored = np.ascontiguousarray(file[ends[:, None] + np.arange(1, TRAILER_SIZE)]).view("<u4").ravel()
    wrong = np.flatnonzero(found != stored)
    if wrong.size:
        bad = int(wrong[0])
        raise CorruptTableError(
            name,
            int(offsets[bad]),
            f"the block's checksum is {int(found[bad]):08x}, its trailer says {int(stored[bad]):08x}",
        )
