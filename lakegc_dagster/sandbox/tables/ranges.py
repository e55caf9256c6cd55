"""Write ranges and metaranges, and cut entries into ranges where the server would.

References:
    lakefs-facts 2.1-2.5; lakeFS v1.84 `pkg/graveler/committed/meta_range_writer.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakegc_dagster.sandbox.tables.range_ends import (
    MAX_RANGE_SIZE_BYTES,
    RANGE_RAGGEDNESS,
    ends_range,
)
from lakegc_dagster.sandbox.tables.table_builder import TableBuilder, TableFile
from spark_core.graveler.encoded_entries import Entry, encode_value, entry_value
from spark_core.graveler.records import METARANGES, RANGES
from spark_core.graveler.wire import bytes_field, varint_field


def write_range(entries: Sequence[Entry]) -> TableFile:
    """Write entries into one range, however many they are.

    Args:
        entries: Sorted by path, paths unique.

    Returns:
        The range.

    Raises:
        ValueError: If the paths do not ascend strictly.
    """
    builder = TableBuilder({"type": RANGES})
    for entry in entries:
        builder.add(entry.path, entry_value(entry))
    return builder.finish()


def write_metarange(
    ranges: Sequence[TableFile], *, properties: Mapping[str, str] | None = None
) -> TableFile:
    """Write a metarange.

    Args:
        ranges: In key order, disjoint; none for an empty commit.
        properties: Properties besides `type`, for a refs dump.

    Returns:
        The metarange.

    Raises:
        ValueError: If the ranges are not in order.
    """
    builder = TableBuilder({**(properties or {}), "type": METARANGES})
    for table in ranges:
        payload = (
            bytes_field(1, table.min_key)
            + bytes_field(2, table.max_key)
            + varint_field(3, table.estimated_size_bytes)
            + varint_field(4, table.count)
        )
        builder.add(table.max_key, encode_value(table.id.encode(), payload))
    return builder.finish()


def write_tables(
    entries: Iterable[Entry],
    *,
    max_range_size_bytes: int = MAX_RANGE_SIZE_BYTES,
    raggedness: int = RANGE_RAGGEDNESS,
) -> tuple[TableFile, list[TableFile]]:
    """Write the metarange and ranges of a commit's entries.

    Args:
        entries: Sorted by path, paths unique.
        max_range_size_bytes: A range ends when its estimated size reaches this.
        raggedness: A range ends after a key whose FNV-1a-64 hash this divides.

    Returns:
        The metarange, and its ranges in key order.

    Raises:
        ValueError: If the paths do not ascend strictly.
    """
    return write_records(
        ((entry.path, entry_value(entry)) for entry in entries),
        properties={},
        max_range_size_bytes=max_range_size_bytes,
        raggedness=raggedness,
    )


def write_records(
    records: Iterable[tuple[bytes, bytes]],
    *,
    properties: Mapping[str, str],
    max_range_size_bytes: int = MAX_RANGE_SIZE_BYTES,
    raggedness: int = RANGE_RAGGEDNESS,
) -> tuple[TableFile, list[TableFile]]:
    """Write keys and whole values as `write_tables` does, with `properties` on every file."""
    ranges: list[TableFile] = []
    builder: TableBuilder | None = None
    for key, value in records:
        if builder is None:
            builder = TableBuilder({**properties, "type": RANGES})
            if ranges and key <= ranges[-1].max_key:
                raise ValueError(f"keys must ascend strictly: {key!r} after {ranges[-1].max_key!r}")
        builder.add(key, value)
        if builder.estimated_size_bytes >= max_range_size_bytes or ends_range(key, raggedness):
            ranges.append(builder.finish())
            builder = None
    if builder is not None:
        ranges.append(builder.finish())
    return write_metarange(ranges, properties=properties), ranges
