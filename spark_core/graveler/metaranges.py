"""Read a metarange, which lists the ranges of a commit."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from spark_core import schemas
from spark_core.errors import CorruptTableError
from spark_core.graveler.blocks import Pieces
from spark_core.graveler.loops import protobuf_messages, statuses
from spark_core.graveler.records import METARANGES, RANGES, gather, scan
from spark_core.graveler.sstable import read_properties

# Bytes at the end of a table that have its properties, unless its keys are very long.
END_BYTES = 4096

# Ids become object keys, so nothing but a SHA-256 in hex may pass.
_TABLE_ID = re.compile(rb"[0-9a-f]{64}")


def read_metarange(data: bytes, *, name: str, expected_id: str | None = None) -> pa.RecordBatch:
    """Read the ranges of a metarange of objects.

    Args:
        data: The whole file.
        name: Name of the file, for errors.
        expected_id: As for `read_range`.

    Returns:
        Columns of `schemas.METARANGE_RANGES`, one row for each range, in key order,
        disjoint. An empty commit has no row.

    Raises:
        CorruptTableError: If anything in the file is broken or unknown, or
            if it is not a metarange of objects.

    Examples:
        >>> ranges = read_metarange(run.store.read(f"_lakefs/{metarange_id}"), name=metarange_id)
        >>> ranges.column("range_id").to_pylist() == [range_id]
        True

    References:
        lakefs-facts 2.4, 2.5; lakeFS v1.84 `pkg/graveler/committed/meta_range_writer.go`.
    """
    return read_ranges_of(data, name=name, entity=None, expected_id=expected_id)


def is_metarange(end: bytes, size_bytes: int, *, name: str) -> bool | None:
    """Tell a metarange of objects from a range and from the tables of a refs dump; see `kind_of`.

    Returns:
        None if more of the file is needed to tell.
    """
    kind = kind_of(end, size_bytes, name=name)
    return None if kind is None else kind == (METARANGES, "")


def kind_of(end: bytes, size_bytes: int, *, name: str) -> tuple[str, str] | None:
    """Tell what kind of table a file is, by its end.

    Args:
        end: The last bytes of the file; `END_BYTES` nearly always suffice.
        size_bytes: Size of the file.
        name: Name of the file, for errors.

    Returns:
        `RANGES` or `METARANGES`, and the kind of record of a refs dump (empty for objects); None if
        more of the file is needed to tell.

    Raises:
        CorruptTableError: If it is no table that lakeFS writes.
    """
    properties = read_properties(end, size_bytes, name=name)
    if properties is None:
        return None
    kind = properties.get("type", b"").decode("ascii", "replace")
    if kind not in (RANGES, METARANGES):
        raise CorruptTableError(name, None, f"property `type` is {kind!r}")
    return kind, properties.get("entity", b"").decode("ascii", "replace")


def read_ranges_of(
    data: bytes, *, name: str, entity: str | None, expected_id: str | None
) -> pa.RecordBatch:
    """Read a metarange of objects or, with an `entity`, of a refs dump; see `read_metarange`."""
    records = scan(data, name=name, type_=METARANGES, entity=entity, expected_id=expected_id)
    blocks = records.table.data
    count = len(records.keys)
    minima, maxima = Pieces.room(count), Pieces.room(count)
    sizes, counts = np.empty(count, np.int64), np.empty(count, np.int64)
    status, position = protobuf_messages.range_data_fields(
        blocks.buffer,
        records.payloads.starts,
        records.payloads.lengths,
        minima.starts,
        minima.lengths,
        maxima.starts,
        maxima.lengths,
        sizes,
        counts,
    )
    if status != statuses.OK:
        raise blocks.fail(status, position, "RangeData")
    ids = gather(blocks.buffer, records.identities, pa.binary(), name)
    min_keys = gather(blocks.buffer, minima, pa.binary(), name)
    max_keys = gather(blocks.buffer, maxima, pa.binary(), name)
    _check_ranges(name, records.keys, ids, min_keys, max_keys)
    return pa.RecordBatch.from_arrays(
        [ids.cast(pa.string()), min_keys, max_keys, pa.array(sizes), pa.array(counts)],
        schema=schemas.METARANGE_RANGES,
    )


def _check_ranges(
    name: str,
    keys: pa.BinaryArray,
    ids: pa.BinaryArray,
    min_keys: pa.BinaryArray,
    max_keys: pa.BinaryArray,
) -> None:
    previous: bytes | None = None
    for key, id_, low, high in zip(
        keys.to_pylist(), ids.to_pylist(), min_keys.to_pylist(), max_keys.to_pylist(), strict=True
    ):
        if not _TABLE_ID.fullmatch(id_):
            raise CorruptTableError(
                name, None, f"range id {id_!r} at key {key!r}, wanted 64 lower-case hex digits"
            )
        if high != key:
            raise CorruptTableError(
                name, None, f"the range at key {key!r} says that its last key is {high!r}"
            )
        if low > high or (previous is not None and low <= previous):
            raise CorruptTableError(
                name,
                None,
                f"the range at key {key!r} begins at {low!r}, the one before it ends at "
                f"{previous!r}",
            )
        previous = high
