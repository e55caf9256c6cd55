"""Measure a mark (and a sweep) of the case in lakeFS's design document, on synthetic servers.

    # all of it: 20 million objects
    python -m benchmarks.large --scratch /scratch
    # a hundredth of it
    python -m benchmarks.large --factor 0.01 --form many --sweep
    # a mark with the index beside a clean one, after a hundredth of the objects changed
    python -m benchmarks.large --form many --optimized --scratch /scratch
    # make it, and measure nothing
    python -m benchmarks.large --factor 0.01 --make

The case has 20 million objects in 2,000 slices, 5 million of them staged and 1 million to go, 1,000
branches and 30,000 commits. It has two forms: `few` large ranges (130 of 100,000 entries), and
`many` (120,000 ranges with 50 million entries). Objects are only numbers
(`hooks/lakegc_bench_plan.py`). Ranges, metaranges, the refs dump and the server's own files are
real; they are made once and kept below `--scratch`.

Slices are dated evenly from 90 to 3 days back, as of a lake that grew by 1.1 % a day, and with
`--optimized` those of another 1.5 % in the two days before the mark. So an optimized mark, which
lists what is younger than seven days before its base, lists 7 % of the objects again.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from pathlib import Path

from benchmarks import large_change, large_serve, optimized, runs
from benchmarks.large_case import Case, made


def main() -> None:
    """Make the cases, measure, print, store and compare."""
    asked = _arguments()
    with runs.measuring(asked) as measurement:
        for form in asked.form or ["few", "many"]:
            case = Case(form, asked.factor)
            began = time.monotonic()
            directory = made(measurement.scratch, case)
            name = f"{case.slices * case.slice_objects:,} objects, {form} ranges"
            measurement.console.print(
                f"\n{name}: {case.slices} slices, {case.commits} commits, {case.branches} branches "
                f"(made in {time.monotonic() - began:.0f} s); {os.cpu_count()} cores"
            )
            if asked.optimized:
                _optimized(asked, measurement, name, case, directory)
            elif not asked.make:
                measurement.case(
                    name, case, partial(large_serve.served, directory, latency_ms=asked.latency_api)
                )


def _optimized(
    asked: argparse.Namespace,
    measurement: runs.Measurement,
    name: str,
    case: Case,
    directory: Path,
) -> None:
    """Make base and change of a case, and measure both marks of the changed state."""
    began = time.monotonic()
    expired = large_change.made(directory, case, spark=dict(asked.spark))
    measurement.console.print(
        f"{expired:,} to go since the base (made in {time.monotonic() - began:.0f} s)"
    )
    if not asked.make:
        serve = partial(large_change.served, directory, expired, latency_ms=asked.latency_api)
        optimized.measure(measurement, name, case, serve, optimized.large(case.form))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--factor", type=float, default=1.0, help="so many times the case (1)")
    parser.add_argument(
        "--form",
        choices=["few", "many"],
        action="append",
        help="of the ranges; may be repeated (both)",
    )
    parser.add_argument(
        "--optimized",
        action="store_true",
        help="compare a mark with the index with a clean one, where a hundredth of the objects and "
        "three commits changed since a mark and its sweep",
    )
    parser.add_argument(
        "--make",
        action="store_true",
        help="make what is missing below --scratch (with --optimized the base, too), and measure "
        "nothing",
    )
    runs.add_arguments(parser, runs=1, latency_api=15.0)
    asked = parser.parse_args()
    if asked.optimized:
        if asked.checkout or asked.sweep:
            parser.error("--optimized goes without --checkout and --sweep")
        asked.checkout = optimized.checkouts()
    return asked


if __name__ == "__main__":
    main()
