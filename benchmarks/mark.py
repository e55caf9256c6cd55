"""Measure a whole mark of a generated repository: time by step, requests by kind, peak memory.

    python benchmarks/mark.py --objects 100000 --commits 250 --branches 5

The repository lies on local files behind the sandbox. Its own requests to the
store for Parquet parts and manifests are not counted: they are a few dozen,
whatever the size.
"""

# ruff: noqa: INP001 - a folder of scripts is no package

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.populate import Population, populate
from spark_core import graveler, mark, verdict
from spark_core.cluster import prepare_cluster
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.run import Environment, Run, RunOptions, open_run
from spark_core.session import spark_config
from spark_core.storage import StoreOptions
from spark_core.tables import Draft, StoredTable

DRIVER_PYTHON, DRIVER_JAVA, EXECUTOR_JAVA, WORKERS = (
    "this process, with the sandbox",
    "driver Java",
    "executor Java",
    "Python workers",
)


class PeakMemory:
    """The largest memory that this process and all its children held at once, and each kind of them, sampled from /proc.

    Attributes:
        peak_bytes: Of all together.
        by_kind: Of each kind by itself: this process with the sandbox, Java, and Spark's Python workers (pages that
            forked workers share count for each).
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.by_kind: Counter[str] = Counter()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(0.2):
            now: Counter[str] = Counter()
            for pid in _family(os.getpid()):
                now[_kind(pid)] += _resident(pid)
            self.peak_bytes = max(self.peak_bytes, now.total())
            self.by_kind |= now


def _kind(pid: int) -> str:
    if pid == os.getpid():
        return DRIVER_PYTHON
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "ended"
    executor = b"CoarseGrainedExecutorBackend" in command
    if b"java" not in command.split(b"\0")[0]:
        return WORKERS
    return EXECUTOR_JAVA if executor else DRIVER_JAVA


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0  # it ended since it was listed
    return pages * os.sysconf("SC_PAGE_SIZE")


def _family(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended since it was listed
            children.setdefault(parent, []).append(int(entry.name))
    family, todo = [], [root]
    while todo:
        pid = todo.pop()
        family.append(pid)
        todo += children.get(pid, [])
    return family


def _spark(master: str) -> SparkSession:
    builder = SparkSession.builder
    for key, value in spark_config(master=master).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    prepare_cluster(session)
    return session


def _mark(run: Run, table: Table) -> StoredTable:
    def step(make: Callable[[], Draft]) -> StoredTable:
        began = time.perf_counter()
        stored = run.keep(make())
        seconds = time.perf_counter() - began
        manifest = stored.manifest
        table.add_row(
            manifest.table, f"{manifest.rows:,}", f"{manifest.size_bytes:,}", str(len(manifest.parts)), f"{seconds:.1f}"
        )
        return stored

    slices = step(lambda: mark.namespace_slices(run))
    uncommitted = step(lambda: mark.uncommitted_addresses(run, slices))
    commits = step(lambda: mark.retained_commits(run, uncommitted))
    committed = step(lambda: mark.committed_addresses(run, commits))
    return step(lambda: mark.expired_addresses(run, mark.Mark(slices, uncommitted, commits, committed)))


def _by_kind(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items())) + f"; together {counts.total():,}"


@dataclass(frozen=True)
class Measured:
    """What one mark took.

    Attributes:
        seconds: Without the start of Spark.
        store_requests: To the store, of all kinds.
        server_calls: To lakeFS.
    """

    seconds: float
    store_requests: int
    server_calls: int

    def row(self, objects: int, commits: int, master: str, memory: PeakMemory) -> str:
        """Return the row of docs/clusters.md."""
        mebibytes = {kind: f"{peak / 2**20:,.0f}" for kind, peak in memory.by_kind.items()}
        return (
            f"| {objects:,} | {commits:,} | `{master}` | {self.seconds:.0f} s | {self.store_requests:,} | {self.server_calls:,} "
            f"| {mebibytes.get(DRIVER_PYTHON, '-')} | {mebibytes.get(DRIVER_JAVA, '-')} | {mebibytes.get(EXECUTOR_JAVA, '-')} "
            f"| {mebibytes.get(WORKERS, '-')} |"
        )


def _measure(sandbox: Sandbox, population: Population, console: Console, *, twin_calls: int, master: str) -> Measured:
    began = time.perf_counter()
    spark = _spark(master)
    graveler.warm_up()
    started = time.perf_counter()
    options = ServerOptions(sandbox.endpoint, sandbox.access_key_id, sandbox.secret_access_key)
    environment = Environment(
        server=LakeFSServer(options),
        store_options=StoreOptions(local_path=str(sandbox.blockstore)),
        spark=lambda: spark,
    )
    sandbox.requests.clear()
    table = Table("table", "rows", "bytes", "parts", "seconds", title="the mark")
    run = open_run(
        environment,
        population.repository_id,
        RunKey.at(population.now),
        RunOptions(twin_calls=twin_calls, clock_margin=timedelta(0)),
    )
    expired = _mark(run, table)
    stored, _ = verdict.conclude(run)
    ended = time.perf_counter()
    console.print(table)
    store = Counter(run.store.requests)
    for found in verdict.load_mark(run).values():
        store.update(found.manifest.facts.get("requests", {}))
    console.print(f"Spark start {started - began:.1f} s, mark {ended - started:.1f} s, together {ended - began:.1f} s")
    console.print(f"calls to lakeFS: {_by_kind(Counter(sandbox.requests))}")
    console.print(f"requests to the store: {_by_kind(store)}")
    twins = expired.manifest.facts["twins"]
    console.print(
        f"expired {expired.manifest.rows:,}, expected {population.expired:,}; kept as unchecked twins "
        f"{twins['unchecked_objects']:,}; verdict passed: {stored.passed}"
    )
    return Measured(ended - started, store.total(), Counter(sandbox.requests).total())


def main() -> None:
    """Make the repository, mark it, print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=250)
    parser.add_argument("--branches", type=int, default=5, help="on local files each branch is asked about twins")
    parser.add_argument("--twin-calls", type=int, default=2_000)
    parser.add_argument("--master", default="local[2]", help="a Spark master; executors must see the same files")
    chosen = parser.parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as directory, Sandbox(Path(directory)) as sandbox:
        began = time.perf_counter()
        now = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
        population = populate(
            sandbox, "bench", now=now, objects=chosen.objects, commits=chosen.commits, branches=chosen.branches
        )
        console.print(
            f"made {chosen.objects:,} objects in {chosen.commits} commits in {time.perf_counter() - began:.1f} s"
        )
        with PeakMemory() as memory:
            measured = _measure(sandbox, population, console, twin_calls=chosen.twin_calls, master=chosen.master)
        console.print(f"peak memory of all processes, the sandbox's included: {memory.peak_bytes / 2**30:.2f} GiB")
        peaks = ", ".join(f"{kind} {peak / 2**20:,.0f} MiB" for kind, peak in sorted(memory.by_kind.items()))
        console.print(f"peaks by kind: {peaks}")
        console.print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        console.print("as a row of docs/clusters.md:")
        # Not through the console, which would wrap it.
        sys.stdout.write(f"{measured.row(chosen.objects, chosen.commits, chosen.master, memory)}\n")


if __name__ == "__main__":
    main()
