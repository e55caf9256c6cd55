"""Measure `lakegc mark` and `lakegc sweep` as an operator runs them, with all their processes.

    python -m benchmarks.mark [--objects 300] [--objects 105000] [--runs 3] [--sweep]
    python -m benchmarks.mark --objects 105000 --commits 1000 --commits 10000 --runs 0
    python -m benchmarks.mark --checkout before=../lakegc-before --checkout now=.  # two versions
    python -m benchmarks.mark --store s3://bench/lakegc --server http://127.0.0.1:8000 --slices 3
    python -m benchmarks.mark --objects 505000 --sizes 4 --garbage 3000    # alike by their sizes
    python -m benchmarks.mark --optimized     # a hundredth changed: with the index and clean
    python -m benchmarks.mark --latency-s3 40 --latency-api 15 --json now.json --compare before.json

The first run of each version counts the work of Spark and the requests to store and server, and
warms up caches. The timed runs after it have no instrumentation inside the command, except for
requested delays.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from itertools import product
from pathlib import Path

from benchmarks import local, optimized, remote, runs


def main() -> None:
    """Measure, print, store and compare."""
    asked = _arguments()
    usual_objects, usual_slices = ([135_000], 100) if asked.optimized else ([300, 105_000], 3)
    with runs.measuring(asked) as measurement:
        for objects, slices, commits, branches in product(
            asked.objects or usual_objects,
            asked.slices or [usual_slices],
            asked.commits or [None],
            asked.branches or [None],
        ):
            shape = local.Shape.of(
                objects,
                slices=slices,
                commits=commits,
                branches=branches,
                garbage=asked.garbage,
                sizes=asked.sizes,
                is_changed=asked.optimized and not asked.store,
            )
            where = " on a remote store" if asked.store else ""
            name = (
                f"{objects:,} objects in {slices} slices, {shape.commits:,} commits and "
                f"{shape.branches:,} branches{where}"
            )
            began = time.monotonic()
            found = local.made(measurement.scratch, shape)
            serve = (
                _remote(asked, measurement, shape, found)
                if asked.store
                else _local(asked, found, measurement.scratch)
            )
            measurement.console.print(
                f"\n{name}: {found.expired:,} to go (made in {time.monotonic() - began:.0f} s)"
            )
            if asked.optimized:
                optimized.measure(measurement, name, shape, serve, optimized.SMALL)
            else:
                measurement.case(name, shape, serve)


def _local(asked: argparse.Namespace, found: local.Made, scratch: Path) -> runs.Serve:
    return partial(local.served, found, scratch, latency_ms=asked.latency_api)


def _remote(
    asked: argparse.Namespace,
    measurement: runs.Measurement,
    shape: local.Shape,
    found: local.Made,
) -> runs.Serve:
    keys = os.environ["LAKEGC_ACCESS_KEY_ID"], os.environ["LAKEGC_SECRET_ACCESS_KEY"]
    server = remote.Server(asked.server.rstrip("/"), *keys)
    there = remote.carried(found, server, asked.store, asked.s3_endpoint)
    if asked.optimized:
        # The store dates everything today, so the first run and the change are made there.
        measurement.collect(partial(remote.served, there), optimized.checkouts()[1])
        there = remote.changed(there, shape.objects)
    return partial(remote.served, there)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--objects",
        type=int,
        action="append",
        help="objects of a repository (300, 105000); may be repeated",
    )
    add(
        "--slices",
        type=int,
        action="append",
        help="slices that its objects lie in (3); may be repeated",
    )
    for what, usual in (("commits", "10, or 250"), ("branches", "5, or 100")):
        add(
            f"--{what}",
            type=int,
            action="append",
            help=f"{what} of a repository ({usual} from 10,000 objects on); may be repeated",
        )
    add("--garbage", type=int, help="objects that were never committed (a tenth of all)")
    add(
        "--sizes",
        type=int,
        help="different sizes of objects (nearly as many as objects); objects of one size may have "
        "the same content, which a mark must find out",
    )
    add(
        "--optimized",
        action="store_true",
        help="compare a mark with the index with a clean one, where a hundredth of the objects and "
        "three commits changed since a mark and its sweep (135,000 objects in 100 slices, of "
        "which the sweep takes a quarter)",
    )
    add("--store", metavar="s3://BUCKET/PREFIX", help="a remote store instead of local files")
    add("--server", metavar="URL", help="the lakeFS server of that store")
    add(
        "--s3-endpoint",
        metavar="URL",
        default=os.environ.get("AWS_ENDPOINT_URL"),
        help="of that store",
    )
    runs.add_arguments(parser, runs=3)
    asked = parser.parse_args()
    if asked.optimized:
        if asked.checkout or asked.sweep:
            parser.error("--optimized goes without --checkout and --sweep")
        asked.checkout = optimized.checkouts()
    if bool(asked.store) != bool(asked.server):
        parser.error("--store and --server go together")
    return asked


if __name__ == "__main__":
    main()
