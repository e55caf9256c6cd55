"""The arithmetic of the measurements: figures from files, medians, ratios and tables."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rich import box
from rich.table import Table

_API = "/api/v1"
# Words of a call's path that are followed by a name.
_NAMING = {
    "repositories",
    "branches",
    "refs",
    "commits",
    "tags",
    "users",
    "policies",
    "range",
    "metarange",
    "status",
}
# Words that may follow and are not names.
_FIXED = {"range", "metarange", "branches", "commits", "diff", "objects", "status"}
# A finished step in the command's output without a terminal: `  namespace_slices   3,800 rows  32.2
# kB  1.2 s`.
_STEP = re.compile(r"^  (\w+) +([\d,]+) rows\b")
# The folder of a table of lakegc in a key, and the kind of file: `part`, or what lies beside it.
_RUN = re.compile(r"\bmark\S* \S+, run (\S+)")
_PART_OF_A_TABLE = re.compile(r"([a-z]+)/(?:run_id=[^/]+/)?([a-z_]+)-[^/]+$")
# The unit in which a measure is shown.
_SECONDS, _BYTES, _COUNT = "s", "MiB", ""


@dataclass
class SparkFigures:
    """The work of Spark, by its event log.

    Attributes:
        jobs: Jobs that began.
        stages: Stages that ran.
        tasks: Tasks that ended.
        task_seconds: Time of all tasks on their executors.
        shuffled: Records that tasks wrote for other tasks.
        widest: Tasks of the widest stages, widest first.
    """

    jobs: int = 0
    stages: int = 0
    tasks: int = 0
    task_seconds: float = 0.0
    shuffled: int = 0
    widest: list[int] = field(default_factory=list)


def read_event_log(lines: Iterable[str]) -> SparkFigures:
    """Count jobs, stages and tasks in a Spark event log, which may be truncated.

    Args:
        lines: One JSON value each.
    """
    found = SparkFigures()
    by_stage: Counter[int] = Counter()
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # The last line of a truncated log.
        kind = event.get("Event")
        if kind == "SparkListenerJobStart":
            found.jobs += 1
        elif kind == "SparkListenerStageCompleted":
            found.stages += 1
        elif kind == "SparkListenerTaskEnd":
            found.tasks += 1
            by_stage[event["Stage ID"]] += 1
            task = event.get("Task Metrics") or {}
            found.task_seconds += task.get("Executor Run Time", 0) / 1000
            found.shuffled += task.get("Shuffle Write Metrics", {}).get(
                "Shuffle Records Written", 0
            )
    found.widest = sorted(by_stage.values(), reverse=True)[:5]
    return found


def route_of(method: str, url: str) -> str:
    """Return the route of a call to lakeFS, without the names in it.

    Examples:
        >>> route_of("GET", "/api/v1/repositories/docs/branches/main/diff?after=x")
        'GET /repositories/*/branches/*/diff'
        >>> route_of("POST", "http://127.0.0.1:1/api/v1/repositories/docs/gc/prepare_commits/async")
        'POST /repositories/*/gc/prepare_commits/async'
    """
    parts = urlsplit(url).path.removeprefix(_API).strip("/").split("/")
    shown = [
        "*"
        if number and parts[number - 1] in _NAMING and (number == 1 or part not in _FIXED)
        else part
        for number, part in enumerate(parts)
    ]
    return f"{method} /{'/'.join(shown)}"


def read_requests(
    lines: Iterable[str],
) -> tuple[Counter[str], Counter[str], Counter[str], Counter[str]]:
    """Add up what `hooks/sitecustomize.py` recorded.

    Returns:
        Requests to the store by kind, calls to the server by route, rows that were read from
        lakegc's own tables, by folder and kind of file, and microseconds of CPU in which a
        synthetic store made its answers up, by kind of request.
    """
    store: Counter[str] = Counter()
    server: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    feigned: Counter[str] = Counter()
    for line in lines:
        whom, _, rest = line.rstrip("\n").partition(" ")
        what, _, count = rest.rpartition(" ")
        if whom == "store":
            store[what] += int(count)
        elif whom == "server":
            method, _, url = what.partition("\t")
            server[route_of(method, url)] += int(count)
        elif whom == "rows":
            found = _PART_OF_A_TABLE.search(what)
            rows["other" if found is None else f"{found[1]}/{found[2]}"] += int(count)
        elif whom == "feigned":
            feigned[what] += int(count)
    return store, server, rows, feigned


def store_log(lines: Iterable[str]) -> dict[str, int]:
    """Count requests by kind in an access log, without those of the lakeFS server.

    A line has the form `TIME s3_KIND STATUS ... USER-AGENT`.

    Examples:
        >>> store_log(
        ...     [
        ...         "10:00:00 s3_GetObject 200 /b/k Boto3/1.4",
        ...         "10:00:00 s3_PutObject 200 /b/k aws-sdk-go-v2/1",
        ...     ]
        ... )
        {'GetObject': 1}
    """
    counts: dict[str, int] = {}
    for line in lines:
        _, _, rest = line.partition(" s3_")
        kind = rest.partition(" ")[0]
        # The client of the lakeFS server.
        if kind and "aws-sdk-go" not in rest:
            counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))


def steps_of(lines: Sequence[tuple[float, str]], seconds: float) -> dict[str, float]:
    """Return the duration of each step of a command, by the time of its line in the output.

    Args:
        lines: Lines of its output with the seconds since its start.
        seconds: When it ended.

    Returns:
        Seconds by table; the first one includes the start, and `the rest` is the time after the
        last.
    """
    steps: dict[str, float] = {}
    before = 0.0
    for at, line in lines:
        found = _STEP.match(line)
        if found:
            steps[found[1]] = round(at - before, 3)
            before = at
    return {**steps, "the rest": round(seconds - before, 3)}


def key_of(lines: Sequence[tuple[float, str]]) -> str:
    """Return the run key that a mark said it chose.

    Raises:
        ValueError: If it said none.
    """
    for _, line in lines:
        found = _RUN.search(line)
        if found:
            return found[1]
    raise ValueError("the mark did not say its run key")


def rows_of(lines: Sequence[tuple[float, str]]) -> dict[str, int]:
    """Return the number of rows of each table."""
    found = (_STEP.match(line) for _, line in lines)
    return {step[1]: int(step[2].replace(",", "")) for step in found if step}


def measures(run: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of one run by their names; missing figures are left out.

    Args:
        run: The run of one command, in the form of the JSON file.
    """
    found: dict[str, float] = {}
    if "seconds" in run:
        found["time, s"] = run["seconds"]
        found |= {f"time of {step}, s": seconds for step, seconds in run["steps"].items()}
        found["CPU, s"] = sum(run["cpu_seconds"].values())
        found |= {f"CPU of {kind}, s": seconds for kind, seconds in run["cpu_seconds"].items()}
        found["PSS at its peak, MiB"] = sum(run["pss_bytes"].values()) / 2**20
        found |= {f"PSS of {kind}, MiB": held / 2**20 for kind, held in run["pss_bytes"].items()}
        found |= {f"processes of {kind}": count for kind, count in run["most_processes"].items()}
        found |= {
            f"CPU of the {name} beside it, s": seconds
            for name, seconds in run["beside_seconds"].items()
        }
    if run.get("spark"):
        found |= {f"Spark {name}": run["spark"][name] for name in ("jobs", "stages", "tasks")}
    for whom, title in (
        ("store_requests", "requests to the store"),
        ("store_log", "requests that the store logged"),
        ("server_calls", "calls to the server"),
    ):
        if run.get(whom) is not None:
            found[title] = sum(run[whom].values())
            found |= {f"{title}: {kind}": count for kind, count in sorted(run[whom].items())}
    return found


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each measure over the runs that have it, in order of appearance.

    Examples:
        >>> medians([{"a": 1}, {"a": 5, "b": 2}, {"a": 3}])
        {'a': 3, 'b': 2}
    """
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: statistics.median([run[name] for run in runs if name in run]) for name in names}


def ratio_text(now: float | None, before: float | None) -> str:
    """Format the ratio of a figure to an earlier one.

    Examples:
        >>> ratio_text(20.0, 67.0), ratio_text(3, None), ratio_text(2, 0)
        ('0.30', '', '')
    """
    return f"{now / before:.2f}" if now is not None and before else ""


def number_text(value: float | None) -> str:
    """Format a figure: as a whole number where it is large or whole, else with one decimal.

    Examples:
        >>> number_text(1234.5), number_text(4.25), number_text(33), number_text(None)
        ('1,234', '4.2', '33', '')
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def spread_text(values: Sequence[float]) -> str:
    """Format the smallest and the largest of several figures; empty for one figure."""
    return f"{number_text(min(values))} to {number_text(max(values))}" if len(values) > 1 else ""


def table(
    title: str,
    columns: Mapping[str, Sequence[Mapping[str, float]]],
    earlier: Mapping[str, float] | None = None,
) -> Table:
    """Make the table of one command.

    Args:
        title: Title of the table.
        columns: Runs of each checkout, from `measures`; the last checkout is compared with the
            first.
        earlier: Medians of an earlier file, compared with the last checkout.
    """
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    shown.add_column("measure")
    labels = list(columns)
    middle = {label: medians(runs) for label, runs in columns.items()}
    for label in labels:
        shown.add_column(label, justify="right")
        shown.add_column("spread", justify="right")
    if len(labels) > 1:
        shown.add_column(f"{labels[-1]} / {labels[0]}", justify="right")
    if earlier is not None:
        shown.add_column("earlier", justify="right")
        shown.add_column("ratio", justify="right")
    names = dict.fromkeys(name for found in middle.values() for name in found)
    for name in sorted(names, key=_order):
        cells = [name]
        for label in labels:
            cells.append(number_text(middle[label].get(name)))
            cells.append(spread_text([run[name] for run in columns[label] if name in run]))
        last = middle[labels[-1]].get(name)
        if len(labels) > 1:
            cells.append(ratio_text(last, middle[labels[0]].get(name)))
        if earlier is not None:
            cells += [number_text(earlier.get(name)), ratio_text(last, earlier.get(name))]
        shown.add_row(*cells)
    return shown


_GROUPS = ("time", "CPU", "PSS", "processes", "Spark", "requests to", "requests that", "calls to")


def _order(name: str) -> int:
    return next(
        (number for number, group in enumerate(_GROUPS) if name.startswith(group)), len(_GROUPS)
    )
