"""A small repository whose runs fail at any call, compared with a run without faults.

It is built once. Its namespace is saved after each stage and restored before each point, so only
the failing part is run repeatedly.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.xids import encode_xid
from spark_core import holds, lakegc_keys, report, sweep
from spark_core.checks import sweepable
from spark_core.errors import ChainError, DeletionFailedError, LakegcError, VerdictError
from spark_core.lock import lease_log
from spark_core.records import journal, tables
from spark_core.run import Run
from tests.support.faults import (
    HTTP_KINDS,
    STORE_KINDS,
    Call,
    Faults,
    FaultyConnections,
    FaultyStore,
)
from tests.support.killing import Killed
from tests.support.live_repository import short
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_repository import SandboxRepository, SandboxServer
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.search_oracle import Options, reachable, young

NOW = datetime(2026, 9, 1, 2, tzinfo=UTC)
HELD = (
    f"data/gqv3epl4fd2o8m3men70/{encode_xid(int((NOW - timedelta(days=3)).timestamp()), bytes(8))}"
)
FRESH, MARKED = "fresh", "marked"
# Marks that saved something in the index before the one that may fail.
INDEXED = (NOW - timedelta(days=14), NOW - timedelta(seconds=1))
# The lease of a killed process, and the minutes by which clocks may differ, are over by then.
WAITED_MINUTES = 11

Command = Callable[[Run], object]


def mark_command(run: Run) -> None:
    """Mark, as `lakegc mark` does."""
    _, found, _ = mark_and_conclude(run)
    if not found.passed:
        raise VerdictError("the checks refused.")


def sweep_command(run: Run) -> None:
    """Sweep and report, as `lakegc sweep` does."""
    stored = run.keep(sweep.sweep(run))
    sweep.require_complete(stored)
    report.load(run)


@dataclass
class Tried:
    """The results of the points.

    Attributes:
        points: How many calls failed, by kind.
        refused: How often a command ended by an error.
        absorbed: How often it ended without an error.
        again: Commands that were run again to their end.
        later: How often only a later run took garbage that a listing had left out.
        shared: Points that left the store as another point did, so that one second command is
            enough for both.
        losses: Objects lost, and other findings, described.
    """

    points: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    absorbed: int = 0
    again: int = 0
    later: int = 0
    shared: int = 0
    losses: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.points.items()))
        return (
            f"{self.points.total()} points ({kinds}): {self.refused} refused, {self.absorbed} "
            f"absorbed, {self.again} run again, "
            f"{self.later} with garbage left to the next run "
            f"({self.shared} others had left the store alike), {len(self.losses)} findings"
        )


class FaultWorld:
    """A repository on the sandbox in which everything that must live has an object, and some may
    go.

    Args:
        sandbox: Shared; the repository is its own.
        spark: The session.
        folder: For what is put aside.
        has_index: Whether the mark takes from the index: two others came before, one of which was
            swept, and shorter rules since.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        spark: Any,
        folder: Path,
        *,
        has_index: bool = False,
        **options: Any,
    ) -> None:
        self.sandbox, self.spark, self.folder, self.options = sandbox, spark, folder, options
        self.faults = Faults(folder / "faults")
        self._seen: set[Any] = set()
        self.repository = self._built()
        self.root = Path(self.repository.store.folder)
        self.key = NOW
        self.opened = 0
        self.faults.arm(0, "")
        run = self.open()
        holds.add(run, "audit", "address", HELD, who="ann@desk", why="a test")
        self._prepare(run)
        if has_index:
            self._fill_the_index()
        self.before = self.repository.objects()
        self.put_aside(FRESH)
        self.faults.arm(0, "")
        mark_command(self.open())
        self.mark_calls = self.faults.calls()
        self.plan = self._planned()
        self.put_aside(MARKED)
        self.faults.arm(0, "")
        sweep_command(self.open())
        self.sweep_calls = self.faults.calls()
        self.end = self.repository.objects()
        live = self._live()
        # The oracle and the run without faults agree, so that either can be held against those with
        # faults.
        assert set(self.end) == {
            address for address in self.before if address in live or address == HELD
        }
        assert set(self.before) - set(self.end) == self.plan
        assert len(self.plan) > 3
        self.built_until = self.opened

    def _built(self) -> SandboxRepository:
        """Make the repository."""
        return _built(self.sandbox)

    def _mark_anew(self, key: datetime) -> None:
        self.faults.arm(0, "")
        mark_command(self.open(key))

    def _fill_the_index(self) -> None:
        """Make two marks, with slices and ranges that are new to the second one."""
        self.options = {**self.options, "optimized": True}
        self.repository.rules(20, main=40)
        self._mark_anew(INDEXED[0])
        sweep_command(self.open(INDEXED[0]))
        self.sandbox.clock.set(NOW - timedelta(days=3))
        self.repository.upload("main", "between", b"committed between")
        self.repository.commit("main")
        self.sandbox.clock.set(NOW)
        self._mark_anew(INDEXED[1])
        self.repository.rules(7, main=10)
        self.sandbox.clock.set(NOW - timedelta(days=2))
        self.repository.upload("main", "a", b"committed since")
        self.repository.commit("main")
        self.sandbox.clock.set(NOW)

    def _prepare(self, run: Run) -> None:
        """Say what else counts for runs."""

    def _live(self) -> set[str]:
        """Return what no run may take, besides what is held by its address."""
        cutoff = self.open().cutoff
        return reachable(self.repository, NOW, Options()) | young(
            self.repository, self.before, cutoff
        )

    # The namespace

    def put_aside(self, stage: str) -> None:
        """Keep a copy of the namespace as it is."""
        shutil.copytree(self.root, self.folder / stage, symlinks=True)

    def put_back(self, stage: str) -> None:
        """Restore the namespace."""
        shutil.rmtree(self.root)
        shutil.copytree(self.folder / stage, self.root, symlinks=True)

    # Runs

    def open(self, key: datetime | None = None) -> Run:
        """Open the run as a new process, some time after the last one; its calls fail as armed."""
        self.opened += 1
        opened = NOW + timedelta(minutes=self.opened)
        # One branch at a time: the n-th call is the same one each time.
        chosen = {"branches_at_once": 1, **self.options}
        run = open_sandbox_run(
            self.sandbox, self.repository.name, self.spark, key or NOW, opened=opened, **chosen
        )
        client = run.server._transport.client.rest_client
        client.pool_manager = FaultyConnections(client.pool_manager, self.faults)
        store = FaultyStore(run.namespace, run.store.options).failing(self.faults)
        return replace(run, store=store)

    def _planned(self) -> set[str]:
        self.faults.arm(0, "")
        expired = self.open().load(tables.EXPIRED_ADDRESSES)
        return {
            row["address"] for batch in expired.batches(["address"]) for row in batch.to_pylist()
        }

    def try_point(self, stage: str, command: Command, at: int, kind: str, tried: Tried) -> None:
        """Let a command fail at one call, check what it did, and run it again to its end.

        Args:
            stage: State of the namespace at its start.
            command: The command.
            at: Which call fails ...
            kind: ... and how.
            tried: Gets the result.
        """
        self.put_back(stage)
        # So is the time, else it would leave the days in which a mark may be swept.
        self.opened = self.built_until
        self.faults.arm(at, kind)
        error: BaseException | None = None
        try:
            command(self.open())
        except (Exception, Killed) as raised:  # noqa: BLE001 - whatever it is, it is judged below
            error = raised
        fired = self.faults.fired
        if fired is None:
            return
        self.faults.arm(0, "")
        tried.points[fired.partition(":")[0]] += 1
        tried.refused += error is not None
        tried.absorbed += error is None
        self._judge(fired, error, tried)
        shape = (stage, self._shape())
        if shape in self._seen:
            tried.shared += 1
            return
        self._seen.add(shape)
        tried.again += 1
        try:
            self.finish()
        except (Exception, Killed) as raised:  # noqa: BLE001 - whatever it is, it is a finding
            tried.losses.append(f"{fired}: run again, it does not end: {raised!r}"[:1_500])
            return
        if set(self.end) < set(self.repository.objects()):
            # A listing that left objects out keeps them for this time; the next mark lists them.
            tried.later += 1
            self._run_anew(NOW + timedelta(seconds=2))
        self._require_end(f"{fired}, run again", tried)

    def finish(self) -> None:
        """Run again what was asked, to its end: under the same key where that is open, else under a
        new one, once the lease that was left behind has run out.
        """
        self.opened += WAITED_MINUTES
        run = self.open()
        if run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)) and not any(
            sweep.plan.left_by_sweep(run.load(tables.DELETION_REPORT).manifest)
        ):
            if self.repository.objects() == self.end:
                return
        elif self._marked(run):
            sweep_command(self.open())
            return
        self._run_anew(NOW + timedelta(seconds=1))

    def _run_anew(self, key: datetime) -> None:
        mark_command(self.open(key))
        sweep_command(self.open(key))

    def _marked(self, run: Run) -> bool:
        """Say whether the run has a verdict that passed; where it has none, make it."""
        if not run.store.exists(lakegc_keys.verdict_key(run.key)):
            mark_command(self.open())
            return True
        try:
            sweepable.require_sweepable(run)
        except (VerdictError, ChainError):
            return False
        return True

    # What they did

    def _judge(self, fired: str, error: BaseException | None, tried: Tried) -> None:
        """Compare the work of a command with a fault with the oracle, and its report with the
        store.
        """
        found, told = self.repository.objects(), self._told()
        findings = [
            f"LOST {address}" for address, data in self.end.items() if found.get(address) != data
        ]
        findings += [f"{address} was made" for address in found.keys() - self.before.keys()]
        findings += [
            f"{name} of the server is gone or another" for name in self._changed_of_server()
        ]
        if not isinstance(error, LakegcError | Killed | None) and not _is_killed(error):
            findings.append(f"ended by what is no error of the tree: {error!r}")
        if told is not None:
            findings += self._untrue(told, found, error)
            left = {
                address for address in set(found) - set(self.end) if told.get(address) != "kept"
            }
            if error is None and left:
                findings.append(f"said to have ended, and left {sorted(left)}: {told}")
        tried.losses += [f"{fired}: {finding}"[:1_500] for finding in findings]

    def _untrue(
        self, told: Mapping[str, str], found: Mapping[str, bytes], error: BaseException | None
    ) -> Iterator[str]:
        """Name the differences between a report and the store, except where no answer came."""
        for address, outcome in told.items():
            wrong = (
                address in found if outcome in ("deleted", "already_gone") else address not in found
            )
            if wrong and not (outcome == "failed" and isinstance(error, DeletionFailedError)):
                yield f"the report says {address} {outcome}, the store says otherwise"
        for address in self.plan - set(found) - set(told):
            yield f"{address} is gone, and the report does not say so"

    def _changed_of_server(self) -> Iterator[str]:
        """Name the files below the namespace that are neither objects nor lakegc's and are not as
        they were.
        """
        for path in _files(self.folder / FRESH):
            name = path.relative_to(self.folder / FRESH).as_posix()
            if not name.startswith(("data/", lakegc_keys.ROOT)):
                there = self.root / name
                if not there.exists() or there.read_bytes() != path.read_bytes():
                    yield name

    def _require_end(self, what: str, tried: Tried) -> None:
        found = self.repository.objects()
        if found != self.end:
            lost, left = sorted(set(self.end) - set(found)), sorted(set(found) - set(self.end))
            tried.losses.append(f"{what}: lost {lost}, left {left}")

    def _told(self) -> dict[str, str] | None:
        """Read the reports; address -> outcome."""
        told: dict[str, str] = {}
        for run in (self.open(), self.open(NOW + timedelta(seconds=1))):
            if run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
                stored = run.load(tables.DELETION_REPORT)
                told |= {
                    row["address"]: row["outcome"]
                    for batch in stored.batches()
                    for row in batch.to_pylist()
                }
                return told
        return None

    def _shape(self) -> Any:
        """Describe the namespace as far as a second command can see it: names, what the journal
        says, the lease, the plan.

        Ids and digests are made anew by every process and mean nothing to the next one, so they are
        left out.
        """
        run = self.open()
        names = sorted(
            _NUMBERS.sub("#", path.relative_to(self.root).as_posix()) for path in _files(self.root)
        )
        kept = journal.Journal(run.store, str(run.key), "")
        said = Counter()
        for part in kept.parts():
            rows = journal.Journal(run.store, str(run.key), self._plan_digest(run)).read(part)
            said.update(
                (row["address"], row["outcome"])
                for row in rows.select(["address", "outcome"]).to_pylist()
            )
        last = lease_log.last_record(run.store)
        return (
            tuple(names),
            frozenset(said.items()),
            last and last.state,
            frozenset(self._plan_of(run)),
        )

    def _plan_digest(self, run: Run) -> str:
        return run.load(tables.EXPIRED_ADDRESSES).manifest.sha256

    def _plan_of(self, run: Run) -> Iterator[str]:
        if run.store.exists(tables.manifest_key(tables.EXPIRED_ADDRESSES, run.key)):
            for batch in run.load(tables.EXPIRED_ADDRESSES).batches(["address"]):
                yield from batch.column("address").to_pylist()


_NUMBERS = re.compile(r"[0-9a-v]{12,}|\d+")


def try_all(
    world: FaultWorld,
    stage: str,
    command: Command,
    chosen: Iterable[tuple[int, str]],
    record_property: Callable[[str, object], None],
) -> Tried:
    """Try each chosen point of a command, tell how many did what, and fail with what was found."""
    tried, began = Tried(), time.monotonic()
    for at, kind in chosen:
        world.try_point(stage, command, at, kind, tried)
    record_property(
        "figures",
        f"faults at calls of a {command.__name__}: {tried}, in {time.monotonic() - began:.0f} s",
    )
    assert not tried.losses, "\n".join(tried.losses[:20])
    return tried


def points(calls: Iterable[Call]) -> list[tuple[int, str]]:
    """Return every call with every way in which it can fail."""
    return [
        (call.number, kind) for call in calls for kind in STORE_KINDS.get(call.what, HTTP_KINDS)
    ]


def rotated(calls: Iterable[Call], number: int, *, first: int = 0) -> list[tuple[int, str]]:
    """Choose a number of points, spread over the calls; each call fails in another way than the one
    before.
    """
    every = points(calls)
    # A step that shares no factor with what is usual, so that calls and kinds take turns.
    step = max(1, len(every) // number) | 1
    return every[first % step :: step][:number]


def _files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file())


def _is_killed(error: BaseException | None) -> bool:
    """Say whether a worker was killed, by Spark's message."""
    return isinstance(error, PySparkException | Py4JJavaError) and "Killed" in str(error)


def _built(sandbox: Sandbox) -> SandboxRepository:
    """Make a repository: heads, history within and beyond its rules, a tag, a branch that is gone,
    staged, young and held objects.
    """
    clock = sandbox.clock
    clock.set(NOW - timedelta(days=60))
    repository = SandboxRepository(SandboxServer.of(sandbox))
    repository.rules(7, main=10)
    for age, branch, path in (
        (57, "main", "a"),
        (54, "main", "a"),
        (50, "main", "a"),
        (45, "gone", "b"),
        (30, "main", "a"),
        (20, "dev", "c"),
        (9, "main", "a"),
    ):
        clock.set(NOW - timedelta(days=age))
        if branch not in repository.branches():
            repository.branch(branch, "main")
        repository.upload(branch, path, f"{branch} {path} {age}".encode())
        repository.upload(branch, "second", f"{age} days".encode())
        repository.commit(branch)
        if age == 45:
            repository.tag("kept", short(list(repository.commits)[-1]))
    repository.drop_branch("gone")
    clock.set(NOW - timedelta(days=3))
    repository.upload("dev", "staged", b"staged, and old enough")
    repository.upload("main", "over", b"staged and overwritten")
    repository.upload("main", "over", b"staged")
    for number in range(2):
        repository.write_unlinked("main", "nowhere", f"never linked, {number}".encode())
    repository.store.put(HELD, b"held by name")
    repository.written[HELD] = clock.now()
    clock.set(NOW - timedelta(hours=1))
    repository.upload("main", "young", b"young and overwritten")
    repository.upload("main", "young", b"young")
    clock.set(NOW)
    return repository
