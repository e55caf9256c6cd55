"""Serve a state of the design case by the synthetic server, with the synthetic store."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import runs
from benchmarks.hooks.lakegc_bench_plan import Plan
from benchmarks.large_case import COMMITS_RUN, RETENTION, UNCOMMITTED_RUN


def clear(directory: Path) -> None:
    """Remove the files of the run before."""
    kept = {directory / "made.json", directory / "plan.json", directory / "refs.json"}
    retention = directory / "blockstore" / runs.REPOSITORY / RETENTION
    kept_runs = [
        retention / "commits" / f"run_id={COMMITS_RUN}",
        retention / "uncommitted" / UNCOMMITTED_RUN,
    ]
    for folder in retention.iterdir():
        for run in list(folder.iterdir()) if folder.is_dir() else [folder]:
            if run not in kept_runs:
                shutil.rmtree(run) if run.is_dir() else run.unlink()
    for file in directory.iterdir():
        if file.is_file() and file not in kept:
            file.unlink()


@contextmanager
def served(directory: Path, *, latency_ms: float) -> Iterator[runs.Served]:
    """Serve a case, after the files of the run before are removed."""
    clear(directory)
    plan = replace(Plan.read(directory / "plan.json"), served_at=int(time.time()))
    plan.write(directory / "plan.json")
    with serving(directory, ".", expired=plan.groups, latency_ms=latency_ms) as found:
        yield found


@contextmanager
def serving(
    directory: Path, state: str, *, expired: int | None, latency_ms: float
) -> Iterator[runs.Served]:
    """Serve a state of a case.

    Args:
        directory: Directory of the case.
        state: Folder there with the state's refs and plan.
        expired: Objects that a mark ought to find.
        latency_ms: Delay of each answer.
    """
    with runs.serving(
        "benchmarks.synthetic_server",
        str(directory),
        "--state",
        state,
        "--latency-ms",
        str(latency_ms),
    ) as (address, pid):
        yield runs.Served(
            settings={
                "server": {"endpoint": address},
                "storage": {"local_path": str(directory / "blockstore")},
            },
            environment={
                "LAKEGC_ACCESS_KEY_ID": "AKIAJBENCHBENCHBENCH",
                "LAKEGC_SECRET_ACCESS_KEY": "bench",
            },
            server=address.removeprefix("http://"),
            beside={"server": pid},
            expired=expired,
            hooks={"LAKEGC_BENCH_PLAN": str(directory / state / "plan.json")},
            read=lambda key: (directory / "blockstore" / runs.REPOSITORY / key).read_bytes(),
        )
