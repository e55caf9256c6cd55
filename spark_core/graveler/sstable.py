"""Open a table file: footer, metaindex, properties, both kinds of index, data blocks.

References:
    lakefs-facts 2.2; pebble `sstable/table.go` (footer).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_core.errors import CorruptTableError
from spark_core.graveler.blocks import Blocks, Handles, load_blocks
from spark_core.graveler.loops import block_records, statuses
from spark_core.graveler.table_format import (
    CHECKSUM_CRC32C,
    FOOTER_SIZE,
    FORMAT_VERSION,
    MAGIC,
    PROPERTIES_BLOCK,
    TRAILER_SIZE,
    TWO_LEVEL,
)
from spark_core.graveler.table_properties import check_properties, engine_number, index_type
from spark_core.graveler.wire import ReadFile, read_uvarints

# Three lengths, and in an index a handle of two numbers.
_SMALLEST_ENTRY, _SMALLEST_INDEX_ENTRY = 3, 5


@dataclass(frozen=True)
class Table:
    """An opened table: every block is read, and every checksum fits.

    Attributes:
        name: Name of the file, for errors.
        properties: All properties, the engine's and lakeFS's, in file order.
        data: The data blocks in key order.
    """

    name: str
    properties: dict[str, bytes]
    data: Blocks

    def count(self) -> int:
        """Return the number of records.

        Raises:
            CorruptTableError: If lakeFS's property and the engine's do not agree.
        """
        count = self.number("count")
        entries = engine_number(self.properties, "rocksdb.num.entries", self.name)
        if entries != count:
            raise CorruptTableError(
                self.name,
                None,
                f"property `count` says {count}, property rocksdb.num.entries {entries}",
            )
        return count

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
            raise CorruptTableError(
                self.name, None, f"property `{key}` is {value!r}, wanted a decimal number"
            )
        return int(value)


def open_table(data: bytes, *, name: str) -> Table:
    """Read every block of a table file and check all that does not depend on its records.

    The blocks must tile the file without gap or overlap, as pebble writes them.
    This detects an index that lost a block, or names one twice, although each
    checksum fits.

    Args:
        data: The whole file.
        name: Name of the file, for errors.

    Returns:
        The opened table.

    Raises:
        CorruptTableError: If the file is not a complete table of the one
            format that lakeFS writes.
    """
    metaindex, index = _read_footer(data, name)
    named = _read_plain_block(data, name, metaindex, "metaindex")
    if list(named) != [PROPERTIES_BLOCK]:
        names = ", ".join(repr(key) for key in named) or "nothing"
        raise CorruptTableError(
            name, _offset(metaindex), f"the metaindex names {names}, wanted rocksdb.properties"
        )
    inside = ReadFile(name, "the metaindex's entry", _offset(metaindex))
    numbers = read_uvarints(named[PROPERTIES_BLOCK], 2, inside)
    properties_block = _one_handle(numbers, len(data), name, _offset(metaindex))
    raw = _read_plain_block(data, name, properties_block, "properties")
    properties = check_properties(raw, ReadFile(name, "the properties", _offset(properties_block)))

    blocks = [_read_index(data, load_blocks(data, name, index), _offset(index))]
    if index_type(properties, name) == TWO_LEVEL:
        blocks.append(_read_index(data, load_blocks(data, name, blocks[0]), _offset(index)))
    _check_tiling([metaindex, index, properties_block, *blocks], len(data) - FOOTER_SIZE, name)
    data_blocks = blocks[-1]
    if np.any(np.diff(data_blocks.offsets) < 0):
        raise CorruptTableError(
            name, _offset(index), "the index does not name the data blocks in file order"
        )
    wanted = engine_number(properties, "rocksdb.num.data.blocks", name)
    if wanted != data_blocks.offsets.size:
        raise CorruptTableError(
            name,
            _offset(index),
            f"the index names {data_blocks.offsets.size} data blocks, property "
            f"rocksdb.num.data.blocks says {wanted}",
        )
    return Table(name, properties, load_blocks(data, name, data_blocks))


def read_properties(end: bytes, size_bytes: int, *, name: str) -> dict[str, bytes] | None:
    """Read the properties of a table from its end alone.

    Args:
        end: The last bytes of the file.
        size_bytes: Size of the file.
        name: Name of the file, for errors.

    Returns:
        All properties; None if they begin before `end` does.

    Raises:
        CorruptTableError: If it is no table of the one format that lakeFS writes.
    """
    before = size_bytes - len(end)
    metaindex, _ = _read_footer(end, name, before)
    if _offset(metaindex) < before:
        return None
    named = _read_plain_block(end, name, metaindex.earlier_by(before), "metaindex")
    inside = ReadFile(name, "the metaindex's entry", _offset(metaindex))
    numbers = read_uvarints(named.get(PROPERTIES_BLOCK, b""), 2, inside)
    block = _one_handle(numbers, size_bytes, name, _offset(metaindex))
    if _offset(block) < before:
        return None
    raw = _read_plain_block(end, name, block.earlier_by(before), "properties")
    return check_properties(raw, ReadFile(name, "the properties", _offset(block)))


def _read_footer(data: bytes, name: str, before: int = 0) -> tuple[Handles, Handles]:
    """Return the handles of the metaindex and of the index; so many bytes lie `before` the data."""
    at = len(data) - FOOTER_SIZE
    if at < 0:
        raise CorruptTableError(
            name,
            0,
            f"the file has {len(data)} bytes, wanted at least the {FOOTER_SIZE} of a table's "
            "footer",
        )
    footer = data[at:]
    if footer[45:] != MAGIC:
        raise CorruptTableError(
            name, at + 45, f"magic number {footer[45:].hex()}, wanted {MAGIC.hex()}"
        )
    version = int.from_bytes(footer[41:45], "little")
    if version != FORMAT_VERSION:
        raise CorruptTableError(name, at + 41, f"format version {version}, wanted {FORMAT_VERSION}")
    if footer[0] != CHECKSUM_CRC32C:
        raise CorruptTableError(
            name, at, f"checksum type {footer[0]}, wanted {CHECKSUM_CRC32C} (CRC32C)"
        )
    numbers = read_uvarints(
        footer[1:41], 4, ReadFile(name, "the footer's handles", at + 1), padded=True
    )
    size_bytes = before + len(data)
    return _one_handle(numbers[:2], size_bytes, name, before + at + 1), _one_handle(
        numbers[2:], size_bytes, name, before + at + 1
    )


def _one_handle(numbers: list[int], size_bytes: int, name: str, named_at: int) -> Handles:
    offset, length = numbers
    limit = size_bytes - FOOTER_SIZE
    if length > limit - TRAILER_SIZE - offset:
        raise _outside(offset, length, limit, name, named_at)
    return Handles(np.array([offset], np.int64), np.array([length], np.int64))


def _outside(offset: int, length: int, limit: int, name: str, named_at: int) -> CorruptTableError:
    return CorruptTableError(
        name,
        named_at,
        f"block handle ({offset}, {length}) reaches out of the {limit} bytes before the footer",
    )


def _offset(handle: Handles) -> int:
    return int(handle.offsets[0])


def _read_plain_block(data: bytes, name: str, handle: Handles, what: str) -> dict[bytes, bytes]:
    """Read a block of names and values that is never compressed."""
    blocks = load_blocks(data, name, handle)
    if not blocks.plain[0]:
        raise CorruptTableError(
            name, _offset(handle), f"the {what} block is compressed, wanted a plain one"
        )
    raw = blocks.buffer.tobytes()
    shared, keys, values = blocks.scan(len(raw) // _SMALLEST_ENTRY, trailer=0)
    entries: dict[bytes, bytes] = {}
    key = b""
    for common, begin, length, value, size in zip(
        shared.tolist(),
        keys.starts.tolist(),
        keys.lengths.tolist(),
        values.starts.tolist(),
        values.lengths.tolist(),
        strict=True,
    ):
        previous, key = key, key[:common] + raw[begin : begin + length - common]
        if entries and key <= previous:
            raise blocks.fail(statuses.KEYS_NOT_ASCENDING, begin)
        entries[key] = raw[value : value + size]
    return entries


def _read_index(data: bytes, index: Blocks, named_at: int) -> Handles:
    """Read the handles that index blocks hold."""
    capacity = index.buffer.size // _SMALLEST_INDEX_ENTRY + 1
    offsets, lengths = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    limit = len(data) - FOOTER_SIZE
    status, position, found = block_records.scan_handles(
        index.buffer, index.starts, limit - TRAILER_SIZE, offsets, lengths
    )
    if status == statuses.HANDLE_OUTSIDE:
        raise _outside(int(offsets[found]), int(lengths[found]), limit, index.name, named_at)
    if status != statuses.OK:
        raise index.fail(status, position)
    return Handles(offsets[:found], lengths[:found])


def _check_tiling(handles: list[Handles], limit: int, name: str) -> None:
    # A block ends behind its beginning. So they tile the file, whatever their order, if each ends
    # where one other begins.
    begins = np.sort(np.concatenate([*(handle.offsets for handle in handles), [limit]]))
    ends = np.sort(np.concatenate([[0], *(handle.ends for handle in handles)]))
    wrong = np.flatnonzero(begins != ends)
    if wrong.size:
        begin, end = int(begins[wrong[0]]), int(ends[wrong[0]])
        raise CorruptTableError(
            name,
            min(begin, end),
            f"the blocks do not tile the file: one ends at {end}, the next begins at {begin}",
        )
