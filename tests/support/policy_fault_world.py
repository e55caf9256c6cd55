"""A repository with a retention policy whose sweep is killed, and changed before it is resumed.

Rules take committed and staged objects of it. What happens meanwhile is undone after each try.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from spark_core import holds
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures
from spark_core.records.swept import left_by_sweep
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Policy
from spark_core.run import Run
from tests.support.fault_world import MARKED, NOW, FaultWorld, sweep_command
from tests.support.faults import AFTER, STORE_KINDS
from tests.support.killing import Killed
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_repository import SandboxRepository
from tests.support.told_repository import rule

USERS, DEV = "users", "scratch"
POLICY = Policy(
    (
        rule(f"{USERS}/logs/", 3),
        rule(f"{USERS}/tmp/", 3, "uncommitted"),
        rule(f"{DEV}/", 3, "uncommitted"),
    ),
    branch_order=("main", USERS),
)
_DAYS = timedelta(days=1)


@dataclass
class Resumed:
    """What was tried.

    Attributes:
        killed: Sweeps that were killed.
        states: In how many different states they left the store.
        gone_before: Objects that a policy takes which were gone by then ...
        kept: ... and those that the resumed sweep kept.
        losses: What was wrong, described.
    """

    killed: int = 0
    states: int = 0
    gone_before: int = 0
    kept: int = 0
    losses: list[str] = field(default_factory=list)


class PolicyFaultWorld(FaultWorld):
    """A repository in which rules take logs, and scratch that nobody committed.

    Attributes:
        taken: Name -> relative address of what the policy takes.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.taken: dict[str, str] = {}
        super().__init__(*arguments, policies="sweep", max_policy_share=1, **options)
        core = self.sandbox.core
        self._server = sqlite3.connect(":memory:", check_same_thread=False)
        with core.lock:
            core.state._connection.backup(self._server)
        self._commits = dict(self.repository.commits)

    def _built(self) -> SandboxRepository:
        repository, clock = super()._built(), self.sandbox.clock
        clock.set(NOW - 20 * _DAYS)
        repository.branch(USERS, "main")
        for name in ("a", "b"):
            self.taken[f"logs/{name}"] = repository.upload(
                USERS, f"logs/{name}", f"log {name}".encode()
            )
        repository.commit(USERS)
        repository.branch(DEV, "main")
        clock.set(NOW - 10 * _DAYS)
        for name in ("a", "b", "c", "d"):
            data = f"scratch of users, {name}".encode()
            self.taken[f"tmp/{name}"] = repository.upload(USERS, f"tmp/{name}", data)
        self.taken["dev"] = repository.upload(DEV, "x", b"staged on another branch")
        repository.upload(USERS, "data/staged", b"staged, and no rule takes it")
        clock.set(NOW)
        return repository

    def _prepare(self, run: Run) -> None:
        confirmed.confirm(run, versions.store_version(run, POLICY, who="test"), "test")

    def _live(self) -> set[str]:
        return super()._live() - set(self.taken.values())

    # What happens between a kill and the next sweep

    def put_all_back(self, stage: str) -> None:
        """Restore the namespace, and what the server knows."""
        core = self.sandbox.core
        with core.lock:
            self._server.backup(core.state._connection)
        self.repository.commits.clear()
        self.repository.commits.update(self._commits)
        self.put_back(stage)
        self.opened = self.built_until

    def kills(self) -> Iterator[tuple[int, str]]:
        """Yield where a sweep may be killed: after each call that changes the store.

        A kill anywhere else leaves the store as one of these does, or as it was.
        """
        for call in self.sweep_calls:
            if AFTER in STORE_KINDS.get(call.what, ()):
                yield call.number, AFTER

    def try_change(self, change: Change, at: int, kind: str, tried: Resumed) -> None:
        """Kill a sweep at a call, change something, and sweep the same run to its end."""
        self.put_all_back(MARKED)
        self.faults.arm(at, kind)
        try:
            sweep_command(self.open())
        except (Exception, Killed):  # noqa: BLE001 - a worker that is killed is Spark's error
            tried.killed += 1
        fired = self.faults.fired
        self.faults.arm(0, "")
        state = (change.name, self._shape())
        if fired is None or state in self._seen:
            return
        self._seen.add(state)
        tried.states += 1
        gone = set(self.before) - set(self.repository.objects())
        tried.gone_before += len(gone & set(self.taken.values()))
        change.happens(self)
        before = self.repository.objects()
        self.opened += 11
        run = self.open()
        is_ended = run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key))
        if not is_ended or any(left_by_sweep(run.load(tables.DELETION_REPORT).manifest)):
            sweep_command(run)
        tried.losses += [f"{change.name}, {fired}: {loss}" for loss in self._losses(change, before)]
        tried.kept += len(self._told_kept())

    def _losses(self, change: Change, before: dict[str, bytes]) -> Iterator[str]:
        there, told = self.repository.objects(), self._told() or {}
        names = {address: name for name, address in self.taken.items()}
        for address, data in before.items():
            name = names.get(address, address)
            if change.keeps_history and address in self.plan - set(names):
                # Whether it was reached before the rules let it go decides.
                continue
            must_go = address in self.plan and not change.keeps(name)
            if must_go == (there.get(address) == data):
                yield f"{name} {'is still there' if must_go else 'is gone'}"
        for address, outcome in told.items():
            if (outcome == "kept") != (address in there):
                yield f"of {names.get(address, address)} the report says {outcome}"
        run = self.open()
        took = run.load(tables.POLICY_DELETIONS, anew=True)
        noted = {row["address"] for batch in took.batches() for row in batch.to_pylist()}
        if noted != set(names) - set(there):
            yield f"the table of what policies took has {sorted(noted)}"

    def _told_kept(self) -> set[str]:
        return {address for address, outcome in (self._told() or {}).items() if outcome == "kept"}

    def require_nothing_missing(self) -> None:
        """Mark again: whatever is gone, a policy took it, or nothing refers to it."""
        run = self.open(NOW + timedelta(seconds=3))
        marked, verdict, results = mark_and_conclude(run)
        assert verdict.passed, [result for result in results if not result.passed]
        assert ExpiredFigures.of(marked.expired.manifest).missing_objects == 0


@dataclass(frozen=True)
class Change:
    """What somebody does between the kill of a sweep and the next one.

    Attributes:
        name: In a word.
        happens: Does it.
        kept: What of the names of `PolicyFaultWorld.taken` it keeps, by the beginning of a name.
        keeps_history: It also keeps what any commit of a branch had.
    """

    name: str
    happens: Callable[[PolicyFaultWorld], object]
    kept: tuple[str, ...]
    keeps_history: bool = False

    def keeps(self, name: str) -> bool:
        """Say whether the change keeps what has a name."""
        return name.startswith(self.kept) if self.kept else False


def _link(world: PolicyFaultWorld, branch: str, path: str) -> None:
    """Stage the address of scratch under another name, be its object there or gone."""
    repository, address = world.repository, world.taken["tmp/a"]
    repository.stage(
        branch,
        path,
        f"local://{repository.store.folder}/{address}",
        size_bytes=len(world.before[address]),
    )


def _hold(world: PolicyFaultWorld) -> None:
    holds.add(world.open(), "mine", "branch", USERS, who="ann@desk", why="a test")


def _put(world: PolicyFaultWorld, policy: Policy | None) -> None:
    run = world.open()
    version = versions.store_version(run, policy, who="test")
    if policy is not None:
        confirmed.confirm(run, version, "test")


def _other_document(world: PolicyFaultWorld) -> None:
    _put(world, Policy((rule(f"{USERS}/tmp/", 2, "uncommitted"),), POLICY.branch_order))


def _there_and_back(world: PolicyFaultWorld) -> None:
    _other_document(world)
    _put(world, POLICY)


ALL = ("logs/", "tmp/", "dev")
CHANGES = [
    Change("nothing", lambda _: None, ()),
    Change("committed", lambda world: world.repository.commit(USERS), ("tmp/",)),
    Change(
        "uploaded anew", lambda world: world.repository.upload(USERS, "tmp/a", b"anew"), ("tmp/a",)
    ),
    Change("linked outside the rule", lambda world: _link(world, USERS, "kept/a"), ("tmp/a",)),
    Change("linked in time", lambda world: _link(world, DEV, "tmp/a"), ("tmp/a",)),
    Change(
        "taken back",
        lambda world: world.repository.reset(USERS, type="object", path="tmp/a"),
        ("tmp/a",),
    ),
    Change("branch deleted", lambda world: world.repository.drop_branch(DEV), ("dev",)),
    Change("branch held", _hold, ("logs/", "tmp/"), keeps_history=True),
    Change("head tagged", lambda world: world.repository.tag("v1", USERS), ("logs/",)),
    Change("other document", _other_document, ALL),
    Change("document ended", lambda world: _put(world, None), ALL),
    Change("other document, and back", _there_and_back, ()),
]
