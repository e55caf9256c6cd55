"""Compile the loops before they are needed."""

from __future__ import annotations

from datetime import UTC, datetime

from spark_core.graveler.entries import Entry
from spark_core.graveler.metaranges import read_metarange
from spark_core.graveler.range_writer import write_metarange, write_tables
from spark_core.graveler.ranges import read_range


def warm_up() -> None:
    """Compile or load every loop that reading and writing need.

    Compiling takes seconds and happens once per machine. If the driver calls this while it waits
    for the server, its executors do not all compile the same loops at the same moment.
    """
    entry = Entry(
        b"warm",
        "data/warm/up",
        1,
        1,
        "0" * 32,
        datetime(2026, 1, 1, tzinfo=UTC),
        metadata={"a": "b"},
    )
    metarange, ranges = write_tables([entry])
    for table in ranges:
        read_range(table.data, name=table.id, expected_count=1, expected_id=table.id)
    read_metarange(write_metarange(ranges).data, name=metarange.id, expected_id=metarange.id)
