"""Measure what a year of marks leaves under `_lakefs/`: bytes and files, by who wrote them.

    python -m benchmarks.nights                     a year on 10,000 commits
    python -m benchmarks.nights --before            the same, with a dump each night, and with lists
                                                    and scans that nobody takes away
    python -m benchmarks.nights --commits 1000 --nights 60

The server is the sandbox, in this process, and the clock goes from night to night. Each day one
commit is made, each night a mark and house-keeping. All commits are retained.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console

from lakegc_dagster.sandbox import Sandbox, gc, objects, refs, repositories
from spark_core import mark
from spark_core.checks import verdict
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.references import earlier_dump
from spark_core.run import Environment, Run, RunOptions, open_run
from spark_core.run.chain import Mark
from spark_core.storage import StoreOptions
from spark_core.upkeep import house_keeping, server_files

NAME, DAY = "bench", timedelta(days=1)
FIRST = datetime(2027, 1, 1, 2, tzinfo=UTC)
_TABLE = re.compile(r"[0-9a-f]{64}")
_LISTS, _SCANS, _DUMPS = "lists of commits", "scans of staged entries", "tables of dumps"
_OWN, _COMMITS = "lakegc's own files", "tables of commits"
_KINDS = (_LISTS, _SCANS, _DUMPS, _OWN, _COMMITS)


class Clock:
    """The sandbox's clock as lakegc asks it; it waits in no time."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def now(self) -> datetime:
        """Return the instant of the sandbox."""
        return self._sandbox.clock.now()

    def monotonic(self) -> float:
        """Return seconds that only rise."""
        return self.now().timestamp()

    def sleep(self, seconds: float) -> None:
        """Go on by some seconds."""
        self._sandbox.clock.advance(timedelta(seconds=seconds))


class Nights:
    """A repository of many commits, and what lies under its `_lakefs/`."""

    def __init__(self, sandbox: Sandbox, commits: int) -> None:
        self.sandbox, self.core = sandbox, sandbox.core
        self.dumped: set[Path] = set()
        with sandbox.clock.at(FIRST - 40 * DAY):
            repositories.create(self.core, NAME, f"local://{NAME}")
            gc.set_rules(self.core, NAME, gc.Rules(36_500, {}))
            self.commit(-1)
            for number in range(1, commits):
                refs.commit(self.core, NAME, "main", message=f"{number}", allow_empty=True)

    @property
    def root(self) -> Path:
        """The folder that the server and lakegc write to."""
        return Path(self.sandbox.blockstore) / NAME / "_lakefs"

    def commit(self, night: int) -> None:
        """Write one object over, and commit."""
        objects.upload(self.core, NAME, "main", "table", b"day %d" % night)
        refs.commit(self.core, NAME, "main", message=f"day {night}")

    def tables(self) -> set[Path]:
        """Return the server's tables."""
        return {path for path in self.root.iterdir() if _TABLE.fullmatch(path.name)}

    def night(self, number: int) -> None:
        """Make a commit, a mark, and keep house."""
        now = FIRST + number * DAY
        with self.sandbox.clock.at(now - DAY / 2):
            self.commit(number)
        self.sandbox.clock.set(now)
        before = self.tables()
        run = self._open(now)
        _mark(run)
        house = house_keeping.after_run(run)
        if house.problem is not None or house.pruned.not_now is not None:
            raise AssertionError(house.words)
        self.dumped |= self.tables() - before

    def _open(self, now: datetime) -> Run:
        clock, sandbox = Clock(self.sandbox), self.sandbox
        sandbox.clock.advance(timedelta(seconds=1))
        options = ServerOptions(sandbox.endpoint, sandbox.access_key_id, sandbox.secret_access_key)
        store = StoreOptions(local_path=str(sandbox.blockstore))
        server = LakeFSServer(options, clock=clock)
        environment = Environment(server=server, store_options=store, spark=_no_spark, clock=clock)
        return open_run(environment, NAME, RunKey.at(now), RunOptions())

    def kinds(self) -> Iterator[tuple[str, int]]:
        """Yield who wrote each file, and its bytes."""
        for path in self.root.rglob("*"):
            if path.is_file():
                yield self._kind(path), path.stat().st_size

    def _kind(self, path: Path) -> str:
        name = path.relative_to(self.root).as_posix()
        if _TABLE.fullmatch(name):
            return _DUMPS if path in self.dumped else _COMMITS
        if name.endswith("/commits.csv"):
            return _LISTS
        if re.match(r"retention/gc/uncommitted/[0-9a-v]{20}/", name):
            return _SCANS
        return _OWN


def _no_spark() -> Any:
    raise AssertionError("so small a run needs no Spark")


def _mark(run: Run) -> None:
    slices = run.keep(mark.namespace_slices(run))
    uncommitted = run.keep(mark.uncommitted_addresses(run, slices))
    commits = run.keep(mark.retained_commits(run, uncommitted))
    made = {tables.RETAINED_COMMITS.name: commits}
    committed = run.keep(mark.make(run, tables.COMMITTED_ADDRESSES, made))
    run.keep(mark.expired_addresses(run, Mark(slices, uncommitted, commits, committed)))
    stored, checks = verdict.conclude(run)
    assert stored.passed, [check for check in checks if not check.passed]  # noqa: S101


@contextmanager
def _as_before() -> Iterator[None]:
    """A dump each night; lists and scans stay."""
    with (
        patch.object(earlier_dump, "DUMP_EVERY", timedelta(0)),
        patch.object(server_files, "going", lambda *_: []),
    ):
        yield


def _measure(commits: int, nights: int) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Sandbox(Path(folder)) as sandbox:
        year = Nights(sandbox, commits)
        files, size_bytes = Counter[str](), Counter[str]()
        for number in range(nights):
            year.night(number)
        for kind, size in year.kinds():
            files[kind] += 1
            size_bytes[kind] += size
    say = Console(width=100, highlight=False).print
    say(f"{commits:,} commits, {nights} nights, {time.monotonic() - began:.0f} s")
    for kind in _KINDS:
        say(f"{kind:26} {files[kind]:7,} files {size_bytes[kind] / 1e6:10,.1f} MB")
    grown = [kind for kind in _KINDS if kind != _COMMITS]
    total = sum(size_bytes[kind] for kind in grown) / 1e6
    count = sum(files[kind] for kind in grown)
    say(f"{'all but the last':26} {count:7,} files {total:10,.1f} MB")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--before", action="store_true")
    chosen = parser.parse_args()
    if chosen.before:
        with _as_before():
            _measure(chosen.commits, chosen.nights)
    else:
        _measure(chosen.commits, chosen.nights)


if __name__ == "__main__":
    main()
