"""Compare a mark with the index with a clean one of the same state, measure by measure."""

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

CLEAN, OPTIMIZED = "clean", "optimized"
# Objects of the mark that shows what each mark costs.
LITTLE = 300
_MIB = 2**20
# The step that reads what is staged: the server lists all of it for each run.
_STAGED = "uncommitted_addresses"

# Starts Spark as `lakegc mark` does, and ends.
_START = """
import sys
from pathlib import Path
from spark_core.settings import load_settings
from spark_core.settings.environment import session_of
from spark_core.spark.output import OUTPUT

settings = load_settings(Path(sys.argv[1]))
OUTPUT.keep_in(settings.dagster_home)
session_of(settings)
"""


@dataclass(frozen=True)
class Bars:
    """What a mark with the index may take; None where there is no bar.

    Attributes:
        requests: Requests to the store.
        cpu_seconds: CPU above Spark's start ...
        cpu_without_staged: ... the same without the step that reads what is staged ...
        cpu_share: ... and CPU in all, as a share of a clean mark's.
        read_share: Pages and table files read, as a share of a clean mark's.
        seconds: Time.
        pss_mib: Memory at its peak.
    """

    requests: int
    cpu_seconds: float | None = None
    cpu_without_staged: float | None = None
    cpu_share: float | None = None
    read_share: float | None = None
    seconds: float | None = None
    pss_mib: float | None = None


SMALL = Bars(requests=60, cpu_seconds=1.2, seconds=5.0)
_LARGE = Bars(requests=700, cpu_share=0.3, read_share=0.02, pss_mib=1.6e9 / _MIB)


@dataclass(frozen=True)
class Measure:
    """One line of the table.

    Attributes:
        name: What is measured.
        clean: Of the clean run.
        optimized: Of the one with the index.
        most: What the latter may take; None where there is no bar.
        bar: The bar in words.
    """

    name: str
    clean: float
    optimized: float
    most: float | None = None
    bar: str = ""


def large(form: str) -> Bars:
    """Return the bars of the design case, in one of its forms."""
    seconds = {"few": 25.0, "many": 40.0}[form]
    return Bars(**{**asdict(_LARGE), "cpu_without_staged": seconds})


def checkouts() -> list[Checkout]:
    """Return this tree twice: with clean marks, and with those that take from the index."""
    return [
        Checkout(CLEAN, runs.ROOT, sys.executable, {"optimized": False}),
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
    measurement: runs.Measurement, name: str, shape: Any, serve: runs.Serve, bars: Bars
) -> None:
    """Run both marks of a case, and show each measure with its bar.

    Args:
        measurement: The measurement, with the versions of `checkouts`.
        name: Name of the case.
        shape: A dataclass that describes it.
        serve: Serves the repository with its index.
        bars: What the mark with the index may take.
    """
    found = measurement.case(name, shape, serve)
    clean, optimized = (found[label]["mark"] for label in (CLEAN, OPTIMIZED))
    require_optimized(optimized[0])
    little = local.made(measurement.scratch, local.Shape.of(LITTLE))
    serve_little = partial(local.served, little, measurement.scratch, latency_ms=0.0)
    measurement.console.print(f"\nmark of {LITTLE} objects, and Spark's start")
    fixed = measurement.runs(serve_little, checkouts()[:1])[CLEAN]["mark"]
    compared = measures(
        clean,
        optimized,
        bars,
        start=spark_start(measurement.scratch),
        little=_median(fixed, cpu),
    )
    measurement.console.print(table(f"{name}: clean and optimized", compared))
    measurement.keep({"optimized": {name: [asdict(one) for one in compared]}})


def measures(
    clean: Sequence[Mapping[str, Any]],
    optimized: Sequence[Mapping[str, Any]],
    bars: Bars,
    *,
    start: float,
    little: float,
) -> list[Measure]:
    """Compare the runs of a clean mark and of one with the index.

    Args:
        clean: Runs of the clean one; the first counted.
        optimized: Runs of the other one.
        bars: What the latter may take.
        start: CPU seconds of Spark's start, also where a mark does without.
        little: CPU seconds of a mark of hardly anything.
    """
    counted = clean[0], optimized[0]

    def each(name: str, of_run: Any, most: float | None = None, bar: str = "") -> Measure:
        return Measure(name, of_run(counted[0]), of_run(counted[1]), most, bar)

    def timed(name: str, of_run: Any, most: float | None = None, bar: str = "") -> Measure:
        return Measure(name, _median(clean, of_run), _median(optimized, of_run), most, bar)

    def share(of: float | None, found: float) -> tuple[float | None, str]:
        return (None, "") if of is None else (of * found, f"{of:.0%}")

    sources = {name: None for run in counted for name in (*run["found"]["rows"], *_files(run))}
    return [
        each("requests to the store", requests, bars.requests, str(bars.requests)),
        each(
            "pages and table files read",
            files_read,
            *share(bars.read_share, files_read(counted[0])),
        ),
        *(each(f"  {name}", partial(_source, name=name)) for name in sources),
        timed("time, s", seconds, bars.seconds, _at_most(bars.seconds)),
        timed("CPU seconds in all", cpu, *share(bars.cpu_share, _median(clean, cpu))),
        timed(
            "  above Spark's start",
            lambda run: cpu(run) - start,
            bars.cpu_seconds,
            _at_most(bars.cpu_seconds),
        ),
        timed(
            "  above it, without reading what is staged",
            lambda run: cpu(run) - start - run["cpu_steps"].get(_STAGED, 0.0),
            bars.cpu_without_staged,
            _at_most(bars.cpu_without_staged),
        ),
        timed("  above a mark of 300 objects", lambda run: cpu(run) - little),
        each("  a synthetic store's own, in all", feigned),
        Measure("  Spark's start, which was taken off", start, start),
        timed("PSS at its peak, MiB", pss, bars.pss_mib, _at_most(bars.pss_mib)),
        each("calls to the server", lambda run: sum(run["server_calls"].values())),
        each("objects named", lambda run: run["found"]["named"]),
        Measure("fates that are not the clean mark's", 0, unlike(*counted), 0, "none"),
    ]


def unlike(clean: Mapping[str, Any], optimized: Mapping[str, Any]) -> int:
    """Count the fates of which two marks of one state found other objects."""
    one, other = clean["found"], optimized["found"]
    return sum(
        one[sums].get(fate) != other[sums].get(fate)
        for sums in ("fates", "by_fate")
        for fate in {*one[sums], *other[sums]}
    )


def requests(run: Mapping[str, Any]) -> int:
    """Return the requests of a counting run to the store."""
    return sum(run["store_requests"].values())


def files_read(run: Mapping[str, Any]) -> int:
    """Return the pages of the listing and the server's tables that a run read."""
    return sum(_files(run).values())


def cpu(run: Mapping[str, Any]) -> float:
    """Return the CPU seconds of a run."""
    return float(sum(run["cpu_seconds"].values()))


def seconds(run: Mapping[str, Any]) -> float:
    """Return the time of a run."""
    return float(run["seconds"])


def pss(run: Mapping[str, Any]) -> float:
    """Return the memory of a run at its peak, in MiB."""
    return float(sum(run["pss_bytes"].values())) / _MIB


def feigned(run: Mapping[str, Any]) -> float:
    """Return the CPU seconds in which a synthetic store made its answers up."""
    return float(sum(run.get("feigned", {}).values())) / 1e6


def _files(run: Mapping[str, Any]) -> Mapping[str, int]:
    files: Mapping[str, int] = run["found"]["files"]
    return files


def _source(run: Mapping[str, Any], *, name: str) -> int:
    return int({**run["found"]["rows"], **_files(run)}.get(name, 0))


def _at_most(bar: float | None) -> str:
    return "" if bar is None else number_text(bar)


def _median(found: Sequence[Mapping[str, Any]], of_run: Any) -> float:
    """Return the median over the timed runs, or the figure of the counting one."""
    return float(statistics.median(of_run(run) for run in found[1:] or found))


def require_optimized(run: Mapping[str, Any]) -> None:
    """Exit unless a run took from the index."""
    if run["found"]["index"] is None:
        raise SystemExit(f"the optimized mark was a clean one: {run['found']['why_full']}")


def table(title: str, found: Sequence[Measure]) -> Table:
    """Make the table of the comparison."""
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    shown.add_column("measure")
    for name in (CLEAN, OPTIMIZED, "ratio", "at most", "reached"):
        shown.add_column(name, justify="right")
    for one in found:
        reached = "" if one.most is None else "yes" if one.optimized <= one.most else "no"
        shown.add_row(
            one.name,
            number_text(one.clean),
            number_text(one.optimized),
            ratio_text(one.optimized, one.clean),
            one.bar,
            reached,
        )
    return shown
