"""Run commands of one or more versions of lakegc in turn, measure and compare them."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import figures, marks, processes

# Name of the repository on every server.
REPOSITORY = "bench"
ROOT = Path(__file__).resolve().parents[1]
HOOKS = Path(__file__).resolve().parent / "hooks"
_COUNTS = ("spark", "store_requests", "store_log", "server_calls", "rows_read", "feigned", "found")
_MARK, _SWEEP = "mark", "sweep"
# A measured command is ended after this time.
_LONGEST_SECONDS = 7200


@dataclass(frozen=True)
class Checkout:
    """A version of lakegc to measure.

    Attributes:
        label: Its name in the tables.
        directory: Its source tree.
        python: The interpreter with its libraries.
        settings: Settings of the repository that it runs with.
    """

    label: str
    directory: Path
    python: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """The command line of its console script `lakegc`."""
        project = tomllib.loads((self.directory / "pyproject.toml").read_text())
        module, _, function = project["project"]["scripts"]["lakegc"].partition(":")
        return [
            self.python,
            "-c",
            f"import sys; sys.argv[0] = 'lakegc'; from {module} import {function}; {function}()",
        ]

    @property
    def commit(self) -> str:
        """Its checked-out commit, with a `+` where files were changed; empty without git."""
        git = shutil.which("git")
        if git is None:
            return ""
        asked = [
            git,
            "-C",
            str(self.directory),
            "describe",
            "--always",
            "--dirty=+",
            "--abbrev=7",
            "--exclude=*",
        ]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


@dataclass(frozen=True)
class Asked:
    """The options that all runs of a measurement share.

    Attributes:
        scratch: Folder for everything that is written.
        commands: The commands, in order.
        store_ms: Delay before each request to the store.
        server_ms: Delay before each call to the server.
        spark: Spark properties.
        store_log: Path of the store's log of requests.
    """

    scratch: Path
    commands: tuple[str, ...]
    store_ms: float
    server_ms: float
    spark: dict[str, str]
    store_log: Path | None


@dataclass(frozen=True)
class Served:
    """A server and a store that a measured command works on.

    Attributes:
        settings: Tables of `lakegc.toml` with their addresses: table -> key -> value; `repository`
            for the repository's own.
        environment: Variables with their keys.
        server: host:port of the server.
        beside: Process ids that are counted separately, by name.
        expired: Objects that a mark ought to find; None if nobody knows.
        delays_calls: Whether the server itself adds the requested delay to its answers.
        hooks: Variables for `hooks/sitecustomize.py`; with any, it is active in every run.
        read: Reads a key of the repository's namespace; None if a measurement does not need it.
    """

    settings: dict[str, dict[str, Any]]
    environment: dict[str, str]
    server: str
    beside: dict[str, int]
    expired: int | None
    delays_calls: bool = True
    hooks: dict[str, str] = field(default_factory=dict)
    read: Callable[[str], bytes] | None = None


Serve = Callable[[], AbstractContextManager[Served]]


def add_arguments(parser: argparse.ArgumentParser, *, runs: int, latency_api: float = 0.0) -> None:
    """Add the options of every measurement.

    Args:
        parser: The command line's parser.
        runs: Default of `--runs`.
        latency_api: Default of `--latency-api`.
    """
    add = parser.add_argument
    add(
        "--runs",
        type=int,
        default=runs,
        help=f"timed runs of each version ({runs}); 0 counts alone",
    )
    add("--sweep", action="store_true", help="measure a sweep after each mark, too")
    add(
        "--checkout",
        type=_checkout,
        action="append",
        metavar="LABEL=DIRECTORY[:PYTHON]",
        help="a source tree of lakegc to measure, and the Python to run it with; may be repeated, "
        "and they run in turn",
    )
    add(
        "--latency-s3",
        type=float,
        default=0.0,
        metavar="MS",
        help="delay of each request to the store",
    )
    add(
        "--latency-api",
        type=float,
        default=latency_api,
        metavar="MS",
        help="delay of each call to the server",
    )
    add(
        "--store-log",
        type=Path,
        metavar="FILE",
        help="where a remote store logs requests, as s3mem does",
    )
    add(
        "--spark",
        type=_pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a Spark property",
    )
    add(
        "--scratch",
        type=Path,
        help="folder for repositories and runs; kept, so the next time is quicker",
    )
    add("--json", type=Path, metavar="FILE", help="keep the figures")
    add(
        "--compare",
        type=Path,
        metavar="FILE",
        help="print ratios to the figures of an earlier --json",
    )


class Measurement:
    """One measurement: each case runs with every version.

    Args:
        arguments: The options of `add_arguments`.
        scratch: Folder for everything that is written.
    """

    def __init__(self, arguments: argparse.Namespace, scratch: Path) -> None:
        if not Path("/proc/self/smaps_rollup").exists():
            raise SystemExit("the measurement reads /proc as Linux has it")
        self.scratch = scratch
        self.console = Console(width=150)
        self._arguments = arguments
        self._checkouts = arguments.checkout or [Checkout("now", ROOT, sys.executable)]
        self._earlier = json.loads(arguments.compare.read_text()) if arguments.compare else None
        self._asked = Asked(
            scratch,
            (_MARK, _SWEEP) if arguments.sweep else (_MARK,),
            arguments.latency_s3,
            arguments.latency_api,
            dict(arguments.spark),
            arguments.store_log,
        )
        self._kept: dict[str, Any] = {
            "format": 1,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "cores": os.cpu_count(),
            "arguments": sys.argv[1:],
            "checkouts": {checkout.label: checkout.commit for checkout in self._checkouts},
            "cases": {},
        }

    def case(
        self, name: str, shape: Any, serve: Serve
    ) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Run a case with every version, show its figures and store them.

        Args:
            name: Name of the case.
            shape: A dataclass that describes it.
            serve: Serves the repository for one mark and the commands after it.

        Returns:
            The runs by label and command; the first of each counted.
        """
        runs = self.runs(serve, self._checkouts)
        self._kept["cases"][name] = {"shape": asdict(shape), "runs": runs}
        _show(self.console, name, self._kept, self._earlier)
        self.keep({})
        return runs

    def runs(
        self, serve: Serve, checkouts: list[Checkout]
    ) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Run some versions by turns; see `case`."""
        times = self._arguments.runs
        return _measure_by_turns(self._asked, checkouts, serve, times, self.console)

    def collect(self, serve: Serve, checkout: Checkout) -> None:
        """Mark and sweep a repository once, unmeasured."""
        with serve() as served:
            key = None
            for command in (_MARK, _SWEEP):
                run = _run(self._asked, checkout, served, command, key, counting=False)
                key = run["key"]
                self.console.print(f"  base {command}: {run['seconds']:.1f} s", soft_wrap=True)

    def keep(self, more: Mapping[str, Any]) -> None:
        """Store the figures so far, with more of them."""
        self._kept |= more
        if self._arguments.json:
            self._arguments.json.write_text(json.dumps(self._kept, indent=1))


@contextmanager
def measuring(arguments: argparse.Namespace) -> Iterator[Measurement]:
    """Begin a measurement; without `--scratch` its files are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="lakegc-bench-") as temporary:
        scratch = (arguments.scratch or Path(temporary)).resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        yield Measurement(arguments, scratch)


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[tuple[str, int]]:
    """Run a server of this source tree, whichever version is measured.

    The server prints its address, and ends with its standard input.

    Args:
        module: Module to run.
        *arguments: Its arguments.

    Yields:
        The server's address and process id.
    """
    server = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if server.stdin is None or server.stdout is None:
        raise AssertionError  # both were asked for
    try:
        endpoint = server.stdout.readline().strip()
        if not endpoint:
            raise SystemExit(f"{module} did not start")
        yield endpoint, server.pid
    finally:
        server.stdin.close()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _beside_seconds(beside: dict[str, int]) -> dict[str, float]:
    return {name: processes.cpu_seconds(pid) for name, pid in beside.items()}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _checkout(text: str) -> Checkout:
    label, path = _pair(text)
    where, _, python = path.partition(":")
    directory = Path(where).resolve()
    if not (directory / "pyproject.toml").exists():
        raise argparse.ArgumentTypeError(f"{directory} is no source tree of lakegc")
    return Checkout(label, directory, python or sys.executable)


def _measure_by_turns(
    asked: Asked, checkouts: list[Checkout], serve: Serve, runs: int, console: Console
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Run every version once to count, then in turn for the times.

    Returns:
        The runs by label and command; the first run of each counted.
    """
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        checkout.label: {command: [] for command in asked.commands} for checkout in checkouts
    }
    for number in range(runs + 1):
        for checkout in checkouts:
            with serve() as served:
                key = None
                for command in asked.commands:
                    run = _run(asked, checkout, served, command, key, counting=number == 0)
                    key = run.pop("key")
                    found[checkout.label][command].append(run)
                    console.print(_progress(checkout, command, run, number), soft_wrap=True)
    return found


def _progress(checkout: Checkout, command: str, run: dict[str, Any], number: int) -> str:
    what = "counting" if number == 0 else f"run {number}"
    counted = (
        ""
        if "spark" not in run
        else f"{run['spark']['jobs']} jobs, {run['spark']['tasks']} tasks, "
    )
    return (
        f"  {checkout.label} {command} {what}: {counted}{run['seconds']:.1f} s, CPU "
        f"{sum(run['cpu_seconds'].values()):.1f} s, "
        f"PSS {sum(run['pss_bytes'].values()) / 2**20:,.0f} MiB, load {run['load']:.1f}"
    )


def _run(
    asked: Asked,
    checkout: Checkout,
    served: Served,
    command: str,
    key: str | None,
    *,
    counting: bool,
) -> dict[str, Any]:
    """Run one command; exit if it fails or finds a wrong number of objects.

    Args:
        asked: What is measured.
        checkout: The version.
        served: Its repository.
        command: The command.
        key: Run key; None for a mark, which chooses its own.
        counting: Whether its work and its requests are counted.
    """
    folder = asked.scratch / "run"
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    watching = {"PYTHONPATH": str(checkout.directory)}
    server_ms = 0.0 if served.delays_calls else asked.server_ms
    if counting or asked.store_ms or server_ms or served.hooks:
        watching["PYTHONPATH"] = f"{HOOKS}{os.pathsep}{checkout.directory}"
        watching["LAKEGC_BENCH_SERVER"] = served.server
        watching["LAKEGC_BENCH_STORE_MS"] = str(asked.store_ms)
        watching["LAKEGC_BENCH_SERVER_MS"] = str(server_ms)
        watching |= served.hooks
    spark = dict(asked.spark)
    if counting:
        watching["LAKEGC_BENCH_REQUESTS"] = str(folder)
        events = folder / "events"
        events.mkdir()
        spark |= {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
    settings = folder / "lakegc.toml"
    settings.write_text(_settings_text(asked, checkout, served, spark))
    result = folder / "measured.json"
    before, logged = _beside_seconds(served.beside), _log_size(asked)
    named = [] if key is None else ["--run", key]
    words = [command, REPOSITORY, *named, "--config", str(settings)]
    measuring = [
        sys.executable,
        "-m",
        "benchmarks.processes",
        str(result),
        "--",
        *checkout.command,
        *words,
    ]
    # The measuring process runs the code of this tree, the measured one that of the checkout, by
    # the variable from `env`.
    measuring[5:5] = ["/usr/bin/env", *(f"{name}={value}" for name, value in watching.items())]
    environment = {
        **os.environ,
        **served.environment,
        "PYTHONPATH": str(ROOT),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }
    subprocess.run(measuring, env=environment, cwd=folder, check=True, timeout=_LONGEST_SECONDS)
    run: dict[str, Any] = json.loads(result.read_text())
    after = _beside_seconds(served.beside)
    run["beside_seconds"] = {name: round(after[name] - before[name], 2) for name in after}
    run["steps"] = figures.steps_of(run["lines"], run["seconds"])
    spent = [(cpu, line) for cpu, (_, line) in zip(run["line_cpu"], run["lines"], strict=True)]
    run["cpu_steps"] = figures.steps_of(spent, sum(run["cpu_seconds"].values()))
    run["rows"] = figures.rows_of(run["lines"])
    _require_done(run, checkout, command, served)
    if asked.store_log is not None:
        run["store_log"] = _logged(asked.store_log, logged)
    if counting:
        logs = [
            line for file in (folder / "events").iterdir() for line in file.read_text().splitlines()
        ]
        run["spark"] = asdict(figures.read_event_log(logs))
        noted = [
            line for file in folder.glob("*.requests") for line in file.read_text().splitlines()
        ]
        counts = map(dict, figures.read_requests(noted))
        run["store_requests"], run["server_calls"], run["rows_read"], run["feigned"] = counts
    run["key"] = key or figures.key_of(run["lines"])
    if served.read is not None:
        run["found"] = marks.found(served.read, run["key"])
    del run["lines"], run["line_cpu"], run["errors"]
    return run


def _log_size(asked: Asked) -> int:
    return 0 if asked.store_log is None else asked.store_log.stat().st_size


def _logged(file: Path, start: int) -> dict[str, int]:
    """Count the requests in a store's log behind an offset; the log is written with a delay."""
    time.sleep(1)
    with file.open() as log:
        log.seek(start)
        return figures.store_log(log)


def _require_done(run: dict[str, Any], checkout: Checkout, command: str, served: Served) -> None:
    table = {_MARK: "expired_addresses", _SWEEP: "deletion_report"}[command]
    found = run["rows"].get(table)
    is_right = found is not None and served.expired in (None, found)
    if run["exit_code"] == 0 and is_right:
        return
    said = "\n".join(line for _, line in run["lines"][-40:])
    raise SystemExit(
        f"{checkout.label}: lakegc {command} ended with {run['exit_code']}, {found} rows in "
        f"{table}, "
        f"{served.expired} were expected:\n{said}\n{run['errors'][-2000:]}"
    )


def _settings_text(asked: Asked, checkout: Checkout, served: Served, spark: dict[str, str]) -> str:
    """Write `lakegc.toml`; each version keeps its Dagster home between runs."""
    home = asked.scratch / f"dagster-{checkout.label}"
    tables: dict[str, dict[str, Any]] = {
        **served.settings,
        "dagster": {"home": str(home)},
        f"repositories.{REPOSITORY}": {
            "mode": "sweep",
            # What is measured is deletion; local files would go into quarantine by default.
            "quarantine": False,
            **served.settings.get("repository", {}),
            **checkout.settings,
        },
        "spark.config": spark,
    }
    lines = [f'throwaway_repositories = ["{REPOSITORY}"]']
    for name, values in tables.items():
        if name != "repository":
            lines += [
                "",
                f"[{name}]",
                *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in values.items()),
            ]
    return "\n".join(lines) + "\n"


def _show(
    console: Console, case: str, kept: dict[str, Any], earlier: dict[str, Any] | None
) -> None:
    runs = kept["cases"][case]["runs"]
    labels = list(runs)
    for command in runs[labels[0]]:
        columns = {
            f"{label} ({kept['checkouts'][label]})": _compared(runs[label][command])
            for label in labels
        }
        before = None
        if earlier is not None and case in earlier["cases"]:
            of_then = earlier["cases"][case]["runs"]
            label = labels[-1] if labels[-1] in of_then else list(of_then)[-1]
            before = figures.medians(_compared(of_then[label].get(command, [])))
        console.print()
        console.print(figures.table(f"{command} of {case}", columns, before))


def _compared(runs: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Take counts from the counting run, and times from the others, if any."""
    if not runs:
        return []
    counted = figures.measures({key: value for key, value in runs[0].items() if key in _COUNTS})
    timed = [figures.measures({**run, **dict.fromkeys(_COUNTS)}) for run in runs[1:]]
    return [counted, *timed] if timed else [figures.measures(runs[0])]
