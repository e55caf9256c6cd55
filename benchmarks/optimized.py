"""Compare an optimized mark with a full one of the same state, measure by measure, with its bar."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from benchmarks import local, runs
from benchmarks.figures import number_text, ratio_text
from benchmarks.runs import Checkout

FULL, OPTIMIZED = "full", "optimized"
# At this number of objects, and in the design case, CPU above Spark's start may be so much of a
# full run's.
CPU_SHARE = 0.25
LARGE_CPU_SHARE = 0.15
_ROWS_SHARE = _REQUESTS_SHARE = 0.05
_FEW_REQUESTS = 60
# Objects of the mark that shows what each mark costs.
LITTLE = 300
# Rows of staged entries: the server lists all of them for each run.
_STAGED = "uncommitted/"

# Starts Spark as `lakegc mark` does, and ends.
_START = """
import sys
from pathlib import Path
from lakegc_dagster.java_process import end, start_quietly
from lakegc_dagster.settings import load_settings
from spark_core.spark.session import start_session

settings = load_settings(Path(sys.argv[1]))
Path(settings.dagster_home).mkdir(parents=True, exist_ok=True)
start_quietly(settings)
start_session(settings.spark_config())
end(seconds=60)
"""


@dataclass(frozen=True)
class Measure:
    """One line of the table.

    Attributes:
        name: What is measured.
        full: Of the full run.
        optimized: Of the optimized one.
        most: What the optimized run may take; None where there is no bar.
        bar: The bar in words.
    """

    name: str
    full: float
    optimized: float
    most: float | None = None
    bar: str = ""


def checkouts() -> list[Checkout]:
    """Return this tree twice: with full marks, and with optimized ones."""
    return [
        Checkout(FULL, runs.ROOT, sys.executable, {"optimized": False}),
        Checkout(OPTIMIZED, runs.ROOT, sys.executable, {"optimized": True}),
    ]


def spark_start(scratch: Path, times: int = 3) -> float:
    """Return the CPU seconds of starting and ending Spark; the median of some starts."""
    settings, result = scratch / "start.toml", scratch / "start.json"
    settings.write_text(
        '[server]\nendpoint = "http://127.0.0.1:1"\n[dagster]\n'
        f"home = {json.dumps(str(scratch / 'start-home'))}\n"
    )
    program = [sys.executable, "-c", _START, str(settings)]
    found: list[float] = []
    for _ in range(times):
        subprocess.run(
            [sys.executable, "-m", "benchmarks.processes", str(result), "--", *program],
            env={**os.environ, "PYTHONPATH": str(runs.ROOT)},
            cwd=scratch,
            check=True,
        )
        measured = json.loads(result.read_text())
        if measured["exit_code"]:
            raise SystemExit(f"Spark did not start: {measured['errors'][-2000:]}")
        found.append(sum(measured["cpu_seconds"].values()))
    return statistics.median(found)


def measure(
    measurement: runs.Measurement,
    name: str,
    shape: Any,
    serve: runs.Serve,
    *,
    cpu_share: float = CPU_SHARE,
) -> None:
    """Run both marks of a case, and show each measure with its bar.

    Args:
        measurement: The measurement, with the versions of `checkouts`.
        name: Name of the case.
        shape: A dataclass that describes it.
        serve: Serves the repository with its base.
        cpu_share: As in `measures`.
    """
    found = measurement.case(name, shape, serve)
    full, changed = (found[label]["mark"] for label in (FULL, OPTIMIZED))
    require_optimized(changed[0])
    little = local.made(measurement.scratch, local.Shape.of(LITTLE))
    serve_little = partial(local.served, little, measurement.scratch, latency_ms=0.0)
    measurement.console.print(f"\nmark of {LITTLE} objects, and Spark's start")
    fixed = measurement.runs(serve_little, checkouts()[:1])[FULL]["mark"]
    compared = measures(
        full,
        changed,
        start=spark_start(measurement.scratch),
        little=cpu_of(fixed),
        cpu_share=cpu_share,
    )
    measurement.console.print(table(f"{name}: full and optimized", compared))
    measurement.keep({"optimized": {name: [asdict(one) for one in compared]}})


def measures(
    full: Sequence[Mapping[str, Any]],
    optimized: Sequence[Mapping[str, Any]],
    *,
    start: float,
    little: float,
    cpu_share: float = CPU_SHARE,
) -> list[Measure]:
    """Compare the runs of a full and of an optimized mark.

    Args:
        full: Runs of the full one; the first counted.
        optimized: Runs of the optimized one.
        start: CPU seconds of Spark's start, also where a mark does without.
        little: CPU seconds of a mark of hardly anything.
        cpu_share: Share of a full run's CPU above that which is allowed.
    """
    both = full[0], optimized[0]
    requests = [sum(run["store_requests"].values()) for run in both]
    calls = [sum(run["server_calls"].values()) for run in both]
    rows = [rows_of(run) for run in both]
    totals = [sum(each.values()) for each in rows]
    seconds = cpu_of(full), cpu_of(optimized)
    above = [each - start for each in seconds]
    charged = [
        each - (start if _starts_spark(run) else 0.0)
        for each, run in zip(seconds, both, strict=True)
    ]
    named = [set(run["found"]["addresses"]) for run in both]
    alone = [len(named[0] - named[1]), len(named[1] - named[0])]
    few, share = f"the larger of {_FEW_REQUESTS} and {_REQUESTS_SHARE:.0%}", f"{_ROWS_SHARE:.0%}"
    most = max(_FEW_REQUESTS, _REQUESTS_SHARE * requests[0])
    return [
        Measure("requests to the store", requests[0], requests[1], most, few),
        Measure(
            "rows read, listed and shuffled", totals[0], totals[1], _ROWS_SHARE * totals[0], share
        ),
        *(
            Measure(f"  {name}", rows[0].get(name, 0), rows[1].get(name, 0))
            for name in sorted({*rows[0], *rows[1]}, key=lambda name: -rows[0].get(name, 0))
        ),
        Measure(
            "CPU seconds above Spark's start",
            above[0],
            above[1],
            cpu_share * above[0],
            f"{cpu_share:.0%}",
        ),
        Measure("  a mark without Spark charged with all of it", charged[0], charged[1]),
        Measure("  Spark's start, which was taken off", start, start),
        Measure("  in all", seconds[0], seconds[1]),
        Measure(f"  above a mark of {LITTLE} objects", seconds[0] - little, seconds[1] - little),
        Measure("calls to the server", calls[0], calls[1], calls[0], "no more"),
        Measure("objects named", len(named[0]), len(named[1])),
        Measure("  named by the full mark alone: missed", alone[0], 0),
        Measure("  named by the optimized mark alone", 0, alone[1], 0, "none"),
    ]


def rows_of(run: Mapping[str, Any]) -> dict[str, int]:
    """Return the rows that a counting run read, listed and shuffled, by source.

    Staged entries, and the table of them, are left out. Rows of lakegc's own tables count each time
    they are read, those of the base too.
    """
    stored = {
        f"rows of stored tables: {name}": count
        for name, count in run["rows_read"].items()
        if not name.startswith(_STAGED)
    }
    found = {**run["found"]["rows"], **stored, "records shuffled": run["spark"]["shuffled"]}
    return {name: count for name, count in found.items() if count}


def _starts_spark(run: Mapping[str, Any]) -> bool:
    return any("Java" in kind for kind in run["cpu_seconds"])


def require_optimized(run: Mapping[str, Any]) -> None:
    """Exit unless a run was optimized."""
    if run["found"]["base"] is None:
        raise SystemExit(f"the optimized mark was a full one: {run['found']['why_full']}")


def table(title: str, found: Sequence[Measure]) -> Table:
    """Make the table of the comparison."""
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    shown.add_column("measure")
    for name in ("full", "optimized", "ratio", "bar", "reached"):
        shown.add_column(name, justify="right")
    for one in found:
        reached = "" if one.most is None else "yes" if one.optimized <= one.most else "no"
        shown.add_row(
            one.name,
            number_text(one.full),
            number_text(one.optimized),
            ratio_text(one.optimized, one.full),
            one.bar,
            reached,
        )
    return shown


def cpu_of(found: Sequence[Mapping[str, Any]]) -> float:
    """Return the CPU seconds of runs: the median of the timed ones, or of the counting one."""
    seconds = [float(sum(run["cpu_seconds"].values())) for run in found[1:] or found]
    return statistics.median(seconds)
