"""Read the records of any table: keys, identities and payloads as Arrow arrays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_core.errors import CorruptTableError
from spark_core.graveler.blocks import MAX_DECOMPRESSED_BYTES, Blocks, Longs, Pieces
from spark_core.graveler.identity import tagged_map
from spark_core.graveler.loops import block_records, buffers, hashes, statuses
from spark_core.graveler.loops.record_values import split_values
from spark_core.graveler.sstable import Table, open_table

RANGES, METARANGES = "ranges", "metaranges"

# The properties that are set before the first record, and so are part of a table's id.
HASHED_PROPERTIES = ("type", "entity", "schema_name", "schema_definition")
# Two lengths of up to ten digits and two bars.
_HASH_OVERHEAD = 22
# The trailer of a key, and three lengths before it.
_TRAILER = 8
_SMALLEST_RECORD = 3 + _TRAILER


@dataclass(frozen=True)
class Records:
    """The records of a table, still in its decompressed blocks.

    Attributes:
        table: The opened table.
        keys: The user keys, rebuilt and strictly ascending.
        values: Where the whole values lie in `table.data.buffer`.
        identities: Where the identities lie in `table.data.buffer`.
        payloads: Where the payloads lie in `table.data.buffer`.
    """

    table: Table
    keys: pa.BinaryArray
    values: Pieces
    identities: Pieces
    payloads: Pieces


@dataclass(frozen=True)
class SSTable:
    """Any table, record by record.

    Attributes:
        properties: All properties by name.
        keys: Keys, strictly ascending.
        identities: The identity of each value.
        payloads: The data of each value.
    """

    properties: dict[str, bytes]
    keys: pa.BinaryArray
    identities: pa.BinaryArray
    payloads: pa.BinaryArray


def read_records(data: bytes, *, name: str) -> SSTable:
    """Read a table of any type, the ranges and metaranges of a refs dump included.

    Args:
        data: The whole file.
        name: Name of the file, for errors.

    Returns:
        Its properties and records.

    Raises:
        CorruptTableError: If anything in the file is broken or unknown.
    """
    return sstable_of(scan(data, name=name))


def sstable_of(records: Records) -> SSTable:
    """Copy the identities and payloads of scanned records out of their blocks."""
    name, buffer = records.table.name, records.table.data.buffer
    return SSTable(
        records.table.properties,
        records.keys,
        gather(buffer, records.identities, pa.binary(), name),
        gather(buffer, records.payloads, pa.binary(), name),
    )


def scan(
    data: bytes,
    *,
    name: str,
    type_: str | None = None,
    entity: str | None = "",
    expected_id: str | None = None,
) -> Records:
    """Open a table, rebuild its keys and find its values.

    Args:
        data: The whole file.
        name: Name of the file, for errors.
        type_: The wanted `type` property; None for either type.
        entity: The wanted `entity` property; None when it must be missing
            (a table of objects), "" for any.
        expected_id: The wanted id of the content; None not to hash it.

    Returns:
        The records.

    Raises:
        CorruptTableError: If anything in the file is broken or unknown.
    """
    table = open_table(data, name=name)
    _check_type(table, type_, entity)
    count = table.count()
    blocks = table.data
    if count > blocks.buffer.size // _SMALLEST_RECORD:
        raise CorruptTableError(
            name, None, f"property `count` says {count}, more records than its blocks can hold"
        )
    shared, keys, values = blocks.scan(count, trailer=_TRAILER)
    if shared.size != count:
        raise CorruptTableError(
            name, None, f"the file holds {shared.size} records, property `count` says {count}"
        )
    rebuilt = _rebuild_keys(blocks, shared, keys)
    _check_end_keys(table, rebuilt)
    identities, payloads = Pieces.room(count), Pieces.room(count)
    status, position = split_values(
        blocks.buffer,
        values.starts,
        values.lengths,
        identities.starts,
        identities.lengths,
        payloads.starts,
        payloads.lengths,
    )
    if status != statuses.OK:
        raise blocks.fail(status, position)
    records = Records(table, rebuilt, values, identities, payloads)
    if expected_id is not None:
        _check_id(records, expected_id)
    return records


def _check_id(records: Records, expected_id: str) -> None:
    """Refuse content with another id: checksums do not detect another whole file in its place."""
    buffer = records.table.data.buffer
    values, keys = records.values, records.keys
    key_bytes = np.frombuffer(keys.buffers()[2], np.uint8)
    offsets = np.frombuffer(keys.buffers()[1], np.int32)
    text = np.empty(
        key_bytes.size + int(values.lengths.sum()) + _HASH_OVERHEAD * len(keys), np.uint8
    )
    used = hashes.hash_input(key_bytes, offsets, buffer, values.starts, values.lengths, text)
    table = records.table
    hashed = hashlib.sha256(text[:used].data)
    hashed.update(
        tagged_map({key: table.text(key) for key in HASHED_PROPERTIES if key in table.properties})
    )
    if hashed.hexdigest() != expected_id:
        raise CorruptTableError(
            table.name, None, f"its content has the id {hashed.hexdigest()}, wanted {expected_id}"
        )


def _check_type(table: Table, type_: str | None, entity: str | None) -> None:
    found = table.text("type")
    if found not in (RANGES, METARANGES):
        raise CorruptTableError(
            table.name, None, f"property `type` is {found!r}, wanted `ranges` or `metaranges`"
        )
    if type_ is not None and found != type_:
        raise CorruptTableError(table.name, None, f"property `type` is `{found}`, wanted `{type_}`")
    if entity == "":
        return
    holds = table.text("entity") if "entity" in table.properties else None
    if holds != entity:
        raise CorruptTableError(
            table.name,
            None,
            f"it holds {_plural(holds)} (property `entity`), wanted {_plural(entity)}",
        )


def _plural(entity: str | None) -> str:
    return "objects" if entity is None else f"records of `{entity}`"


def _rebuild_keys(blocks: Blocks, shared: Longs, keys: Pieces) -> pa.BinaryArray:
    offsets = _offsets(keys.lengths, blocks.name)
    rebuilt = np.empty(int(offsets[-1]), np.uint8)
    status, position = block_records.rebuild_keys(
        blocks.buffer, shared, keys.starts, keys.lengths, offsets, rebuilt
    )
    if status != statuses.OK:
        raise blocks.fail(status, position)
    return _array(pa.binary(), offsets, rebuilt)


def _check_end_keys(table: Table, keys: pa.BinaryArray) -> None:
    for key, found in (
        ("min_key", keys[0].as_py() if len(keys) else b""),
        ("max_key", keys[-1].as_py() if len(keys) else b""),
    ):
        if table.properties.get(key) != found:
            raise CorruptTableError(
                table.name,
                None,
                f"property `{key}` is {table.properties.get(key)!r}, the records say {found!r}",
            )


def _offsets(lengths: Longs, name: str) -> NDArray[np.int32]:
    ends = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if lengths.size and (
        ends[-1] > MAX_DECOMPRESSED_BYTES or lengths.max() > MAX_DECOMPRESSED_BYTES
    ):
        raise CorruptTableError(
            name, None, f"a column of {int(ends[-1])} bytes, more than a table can hold"
        )
    return ends.astype(np.int32)


def _array(kind: pa.DataType, offsets: NDArray[np.int32], values: NDArray[np.uint8]) -> pa.Array:
    return pa.Array.from_buffers(
        kind, offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    )


def gather(buffer: NDArray[np.uint8], pieces: Pieces, kind: pa.DataType, name: str) -> pa.Array:
    """Copy pieces of a buffer into an Arrow array of bytes or (unchecked) text.

    Raises:
        CorruptTableError: If the column is larger than Arrow's offsets allow.
    """
    offsets = _offsets(pieces.lengths, name)
    values = np.empty(int(offsets[-1]), np.uint8)
    buffers.gather(buffer, pieces.starts, pieces.lengths, offsets, values)
    return _array(kind, offsets, values)
