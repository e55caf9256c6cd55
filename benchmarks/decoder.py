"""Measure how many entries of a range one core reads in a second, and what a small range costs.

    python -m benchmarks.decoder [--entries 50000] [--runs 31]

Checksums, decompression and building of Arrow arrays are included. Rates are per second of
processor time, so that other work on the machine does not count. The rate by wall-clock time is
printed beside it.

Small ranges have 400 entries each. A task reads many of them, as it does in a mark: from their
bytes in memory to the rows of the table of committed addresses, as Parquet in memory.

The project's own writer writes the range; its files are byte for byte those of a lakeFS server. The
first read loads or compiles the machine code and is shown separately.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa

from lakegc_dagster.sandbox.tables import TableFile, write_range
from spark_core import schemas
from spark_core.addresses.namespace import Namespace
from spark_core.graveler import Entry, read_range
from spark_core.records import writing
from spark_core.references.range_entries import read_ranges
from spark_core.references.shared_ranges import RANGES
from spark_core.references.table_reader import TableReader
from spark_core.storage import ObjectStore, WrittenFile, parquet

# Million entries a second of a large range, with its id.
TARGET = 4.0
# Milliseconds for a small range.
SMALL_TARGET = 0.8
SMALL_ENTRIES, SMALL_RANGES = 400, 64
# As a task does by default.
_THREADS = 8


class Memory:
    """What a task needs of a store, in memory."""

    tells_content = True

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.small_files: dict[str, bytes] = {}
        self.requests = Counter[str]()

    def read(self, key: str) -> bytes:
        """Return a file."""
        return self.files[key]

    def write_parquet(
        self, key: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> WrittenFile:
        """Write a file, and forget it."""
        rows, size_bytes, sha256, _ = parquet.write(io.BytesIO(), batches, schema)
        return WrittenFile(key, rows, size_bytes, sha256)


def read_and_write(tables: list[TableFile]) -> Callable[[], object]:
    """Make what a task does with ranges: each other one is of a branch head."""
    known = {
        "is_retained": True,
        "newest": None,
        "why": None,
        "times": 1,
    }
    rows: list[dict[str, Any]] = [
        {
            "range_id": table.id,
            "count": table.count,
            "min_key": table.min_key,
            "is_head": bool(number % 2),
            **known,
        }
        for number, table in enumerate(tables)
    ]
    ranges = pa.Table.from_pylist(rows, RANGES)
    store = cast("ObjectStore", Memory({f"_lakefs/{table.id}": table.data for table in tables}))
    namespace = Namespace.parse("s3://bucket/repository")
    reader = TableReader(store, namespace, "_lakefs", _THREADS, with_paths=False)
    target = writing.Target(store, "rows/", writing.new_attempt(), schemas.COMMITTED_ADDRESSES)

    def task() -> object:
        return writing.write_read(
            target, lambda some, figures: read_ranges(reader, some, figures), 0, ranges
        )

    return task


def entries(count: int) -> list[Entry]:
    """Make entries of Parquet files: long shared prefixes, random addresses and checksums."""
    written = datetime(2026, 11, 1, tzinfo=UTC)
    made = []
    for number in range(count):
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        name = f"day={number // 500:05d}/part-{number % 500:05d}-{digest[:8]}.parquet"
        made.append(
            Entry(
                path=f"tables/events/{name}".encode(),
                address=f"data/ft6rgj9ksdue1420d2a0/{digest[8:28]}",
                address_type=1,
                size_bytes=int(digest[28:35], 16),
                checksum=digest[32:],
                last_modified=written,
                content_type="application/octet-stream",
                last_modified_nanos=number % 1000,
            )
        )
    return made


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Return processor time and wall-clock time of one call, in seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.process_time() - processor, time.perf_counter() - wall


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, default=50_000, help="entries of the range")
    parser.add_argument("--runs", type=int, default=31, help="timed reads")
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    content = entries(asked.entries)
    _, written = seconds(lambda: write_range(content))
    table = write_range(content)
    say = sys.stdout.write
    say(
        f"range: {table.count:,} entries, {len(table.data) / 1e6:.1f} MB, written in {written:.2f} "
        "s\n"
    )

    def plain() -> object:
        return read_range(table.data, name=table.id, expected_count=table.count)

    def hashed() -> object:
        return read_range(
            table.data, name=table.id, expected_count=table.count, expected_id=table.id
        )

    _, first = seconds(plain)
    say(f"first read in this process (loads the compiled code): {first:.2f} s\n")
    for label, action in (("read", plain), ("read and hash its id", hashed)):
        for _ in range(3):
            action()
        times = [seconds(action) for _ in range(asked.runs)]
        rates = sorted(table.count / processor / 1e6 for processor, _ in times)
        wall = table.count / statistics.median(on_wall for _, on_wall in times) / 1e6
        middle = statistics.median(rates)
        quarter = len(rates) // 4
        noise = (rates[-1 - quarter] - rates[quarter]) / 2 / middle
        say(
            f"{label}: {middle:.2f} million entries/s on one core (median of {len(rates)}, half "
            "the middle spread "
            f"{noise:.0%}, {rates[0]:.2f} to {rates[-1]:.2f}; by the wall clock {wall:.2f})\n"
        )
        if action is hashed:
            say(f"target {TARGET}: {'met' if middle >= TARGET else 'MISSED'}\n")

    count = SMALL_ENTRIES * SMALL_RANGES
    small = entries(count)
    task = read_and_write(
        [
            write_range(small[begin : begin + SMALL_ENTRIES])
            for begin in range(0, count, SMALL_ENTRIES)
        ]
    )
    for _ in range(3):
        task()
    costs = sorted(seconds(task)[0] / SMALL_RANGES * 1e3 for _ in range(asked.runs))
    middle = statistics.median(costs)
    say(
        f"a range of {SMALL_ENTRIES} entries, from its bytes to written rows: {middle:.2f} ms of "
        f"one core (median of {len(costs)}, {costs[0]:.2f} to {costs[-1]:.2f})\n"
        f"target {SMALL_TARGET}: {'met' if middle <= SMALL_TARGET else 'MISSED'}\n"
    )


if __name__ == "__main__":
    main()
