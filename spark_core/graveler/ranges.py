"""Read a range, which holds the entries of a commit between two keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_core import schemas
from spark_core.errors import CorruptTableError
from spark_core.graveler.blocks import Pieces
from spark_core.graveler.loops import protobuf_messages, statuses
from spark_core.graveler.records import RANGES, Records, gather, scan

# An entry's identity is a SHA-256.
IDENTITY_SIZE = 32


def read_range(
    data: bytes, *, name: str, expected_count: int | None = None, expected_id: str | None = None
) -> pa.RecordBatch:
    """Read the entries of a range.

    This is the hot loop of the collector. Compiled code goes from blocks to
    Arrow buffers, without a Python object per entry.

    Args:
        data: The whole file.
        name: Name of the file, for errors.
        expected_count: Number of entries by the metarange (RangeData.count);
            None to check only against the file's own `count`.
        expected_id: The range's id, to detect another whole file in its place;
            None not to hash the content.

    Returns:
        Columns of `schemas.RANGE_ENTRIES`, one row for each entry, in key order,
        paths unique. Addresses are as stored; `address_type` says whether they
        are relative or absolute.

    Raises:
        CorruptTableError: If anything in the file is broken or unknown, or
            if it is not a range of objects.

    Examples:
        >>> entries = read_range(run.store.read(f"_lakefs/{range_id}"), name=range_id)
        >>> entries.num_rows, entries.column("size_bytes").to_pylist()
        (1, [5])

    References:
        lakefs-facts 2.2-2.6; lakeFS v1.84 `pkg/catalog/entry.go`.
    """
    return _entries(_scanned(data, name, expected_count, expected_id))


def read_dated_range(
    data: bytes, *, name: str, expected_count: int | None = None, expected_id: str | None = None
) -> pa.RecordBatch:
    """Read the entries of a range with their dates; see `read_range`.

    Returns:
        Its columns, and `modified_seconds`: whole seconds since 1970, 0 for an entry without a
        date.
    """
    records = _scanned(data, name, expected_count, expected_id)
    entries = _entries(records)
    seconds, blocks = np.zeros(len(records.keys), np.int64), records.table.data
    payloads = records.payloads
    status, position = protobuf_messages.entry_times(
        blocks.buffer, payloads.starts, payloads.lengths, seconds
    )
    if status != statuses.OK:
        raise blocks.fail(status, position, "Entry")
    return entries.append_column("modified_seconds", pa.array(seconds))


def _scanned(
    data: bytes, name: str, expected_count: int | None, expected_id: str | None
) -> Records:
    records = scan(data, name=name, type_=RANGES, entity=None, expected_id=expected_id)
    count = len(records.keys)
    if expected_count is not None and count != expected_count:
        raise CorruptTableError(
            name, None, f"the range holds {count} entries, its metarange says {expected_count}"
        )
    return records


def _entries(records: Records) -> pa.RecordBatch:
    count, blocks = len(records.keys), records.table.data
    _check_identities(records)
    addresses, checksums = Pieces.room(count), Pieces.room(count)
    types, sizes = np.empty(count, np.int32), np.empty(count, np.int64)
    status, position = protobuf_messages.entry_fields(
        blocks.buffer,
        records.payloads.starts,
        records.payloads.lengths,
        addresses.starts,
        addresses.lengths,
        types,
        sizes,
        checksums.starts,
        checksums.lengths,
    )
    if status != statuses.OK:
        raise blocks.fail(status, position, "Entry")
    return pa.RecordBatch.from_arrays(
        [
            records.keys,
            _text(records, addresses, "address"),
            pa.array(types),
            pa.array(sizes),
            _text(records, checksums, "e_tag"),
        ],
        schema=schemas.RANGE_ENTRIES,
    )


def _check_identities(records: Records) -> None:
    wrong = np.flatnonzero(records.identities.lengths != IDENTITY_SIZE)
    if wrong.size:
        bad = int(wrong[0])
        path = records.keys[bad].as_py()
        raise records.table.data.broken(
            int(records.identities.starts[bad]),
            f"the identity of {path!r} has {records.identities.lengths[bad]} bytes, wanted "
            f"{IDENTITY_SIZE}",
        )


def _text(records: Records, pieces: Pieces, field: str) -> pa.StringArray:
    buffer = records.table.data.buffer
    text = gather(buffer, pieces, pa.string(), records.table.name)
    if np.frombuffer(text.buffers()[2], np.int8).min(initial=0) == 0:
        # All of it is ASCII.
        return text
    try:
        text.validate(full=True)
    except pa.ArrowInvalid as error:
        raw = gather(buffer, pieces, pa.binary(), records.table.name)
        bad = next(i for i, value in enumerate(raw) if not _is_utf8(value.as_py()))
        path = records.keys[bad].as_py()
        raise records.table.data.broken(
            int(pieces.starts[bad]), f"the {field} of {path!r} is not UTF-8: {raw[bad].as_py()!r}"
        ) from error
    return text


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
