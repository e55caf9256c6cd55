"""Measure how many entries of a range one core reads in a second.

    python -m benchmarks.decoder [--entries 50000] [--runs 31]

Checksums, decompression and building of Arrow arrays are included. Rates are per second of
processor time, so that other work on the machine does not count. The rate by wall-clock time is
printed beside it.

The project's own writer writes the range; its files are byte for byte those of a lakeFS server. The
first read loads or compiles the machine code and is shown separately.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from spark_core.graveler import Entry, read_range, write_range

# Million entries a second.
TARGET = 1.5


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
        if action is plain:
            say(f"target {TARGET}: {'met' if middle >= TARGET else 'MISSED'}\n")


if __name__ == "__main__":
    main()
