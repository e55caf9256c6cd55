"""Generated repositories of any size for benchmarks, written without the API."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from lakegc_dagster.sandbox import gc, refs, repositories
from lakegc_dagster.sandbox.blockstore import RELATIVE
from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.objects import DEFAULT_CONTENT_TYPE
from lakegc_dagster.sandbox.records import BranchRecord, RepositoryRecord, StagedChange
from lakegc_dagster.sandbox.server import Sandbox
from lakegc_dagster.sandbox.times import to_seconds
from lakegc_dagster.sandbox.xids import IdSource
from spark_core.graveler import CommitRecord, Entry

_SMALLEST_BYTES = 1000
_END_BYTES = 8


@dataclass(frozen=True)
class Population:
    """A generated repository.

    Attributes:
        repository_id: Its name.
        now: The instant that all ages count back from.
        objects: Objects under `data/`.
        commits: Commits, the first empty one included.
        retained_commits: Commits that the rules retain.
        expired: Objects that a collection at `now` must delete.
    """

    repository_id: str
    now: datetime
    objects: int
    commits: int
    retained_commits: int
    expired: int


class SparseWriter:
    """Writes objects as sparse files, no two with the same content.

    The first object of a size is all zeros; each further one ends in its own number. Sizes grow by
    one byte at a time, so each checksum of zeros continues the one before.

    Args:
        core: The sandbox.
        repository: The repository.
        ids: Gives the addresses.
        sizes: Number of different object sizes; None for as many as objects.
        smallest_bytes: Size of the first object.

    Attributes:
        written: Objects that were written.
    """

    def __init__(
        self,
        core: Core,
        repository: RepositoryRecord,
        ids: IdSource,
        sizes: int | None = None,
        smallest_bytes: int = _SMALLEST_BYTES,
    ) -> None:
        self._core = core
        self._ids = ids
        self._sizes = sizes
        self._smallest_bytes = smallest_bytes
        self._directory = core.blockstore.directory(repository.storage_namespace)
        self._made: set[Path] = set()
        self._zeros = hashlib.md5(bytes(smallest_bytes - 1), usedforsecurity=False)
        self.written = 0

    def write(self, path: str) -> Entry:
        """Write one object at the clock's instant and return its entry, without staging it."""
        now = self._core.now()
        address = self._ids.object_address()
        repeated, number = divmod(self.written, self._sizes) if self._sizes else (0, self.written)
        size = self._smallest_bytes + number
        end = repeated.to_bytes(_END_BYTES) if repeated else b""
        self.written += 1
        file = self._directory / address
        if file.parent not in self._made:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(file.parent)
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        try:
            os.ftruncate(descriptor, size)
            os.pwrite(descriptor, end, size - len(end))
            seconds = now.timestamp()
            os.utime(descriptor, (seconds, seconds))
        finally:
            os.close(descriptor)
        return Entry(
            path.encode(),
            address,
            RELATIVE,
            size,
            self._checksum(size, end),
            now,
            DEFAULT_CONTENT_TYPE,
        )

    def _checksum(self, size: int, end: bytes) -> str:
        if end:
            return hashlib.md5(bytes(size - len(end)) + end, usedforsecurity=False).hexdigest()
        self._zeros.update(b"\0")
        return self._zeros.hexdigest()


def populate(
    sandbox: Sandbox,
    repository_id: str,
    *,
    now: datetime,
    objects: int = 100_000,
    commits: int = 250,
    branches: int = 100,
    days: float = 60,
    retention_days: int = 21,
    overwritten_share: float = 0.25,
    garbage: int = 2_500,
    staged: int = 1_000,
    slices: int | None = None,
    sizes: int | None = None,
) -> Population:
    """Make a repository with a long history on main and branches along it.

    Each commit adds paths that stay, and rewrites the same few hot paths, so each hot object is in
    one commit only. The objects are sparse files of zeros. Objects of the same size differ in their
    last bytes.

    Args:
        sandbox: A running sandbox in this process.
        repository_id: Name of the repository to make.
        now: The instant that all ages count back from, aware.
        objects: Objects in commits.
        commits: Commits on main.
        branches: Branches, spread evenly over main's commits.
        days: Age of the first commit.
        retention_days: Days of the default rule.
        overwritten_share: Share of a commit's objects, 0 to 1, that are hot.
        garbage: Objects that nothing ever referred to, two days old.
        staged: Objects staged on main, two days old.
        slices: Slices that hold the objects; by default as many as a server makes in that time.
        sizes: Number of different object sizes; the last objects, garbage first of all, have the
            sizes of the first. By default each object has its own size, so no two look like the
            same content.

    Returns:
        The facts that a collection at `now` must find.

    Raises:
        ValueError: With fewer than two commits, or fewer objects than commits.
    """
    if commits < 2 or objects < commits:
        raise ValueError(
            f"a population needs two commits and an object in each, not {objects} objects in "
            f"{commits}"
        )
    core, hot = sandbox.core, int(objects / commits * overwritten_share)
    with core.lock, core.state.transaction():
        with sandbox.clock.at(now - timedelta(days=days)):
            repository = repositories.create(core, repository_id, f"local://{repository_id}")
        writer = SparseWriter(
            core, repository, _ids(core, objects + garbage + staged, slices), sizes
        )
        ages = [timedelta(days=days / commits) * (commits - n - 0.5) for n in range(commits)]
        batches = zip(ages, _batches(objects, commits, hot), strict=True)
        made = _commit_all(sandbox, repository, writer, now, batches)
        _branch_along(core, repository, made, branches)
        with sandbox.clock.at(now - timedelta(days=2)):
            changes = _written(writer, [f"staged/{number:07}" for number in range(staged)])
            core.state.stage(repository.number, "main", changes)
            for number in range(garbage):
                writer.write(f"garbage/{number}")
        rules = gc.Rules(retention_days, {})
        gc.set_rules(core, repository_id, rules)
        all_commits = core.state.commits(repository.number)
        active = set(
            gc.active_commits(all_commits, core.state.branches(repository.number), rules, now)
        )
    lost = [commit.id not in active for commit in made]
    # The hot objects of the first commit are in the second as well.
    versions = (lost[0] and lost[1]) + sum(lost[2:])
    return Population(
        repository_id=repository_id,
        now=now,
        objects=writer.written,
        commits=len(all_commits),
        retained_commits=len(active),
        expired=hot * versions + garbage,
    )


def _ids(core: Core, objects: int, slices: int | None) -> IdSource:
    if slices is None:
        return core.ids
    return IdSource(core.now, slice_objects=-(-objects // slices), slice_age=timedelta.max)


def _batches(objects: int, commits: int, hot: int) -> list[list[str]]:
    """Return the paths that each commit writes, in order.

    Hot paths sort first. The hot paths and the first paths that stay have their own commits, and so
    their own ranges. Otherwise each commit's records would flow into the range of the commit
    before, and every commit would write that range again, and longer.
    """
    hot_paths = [f"hot/part-{part:06}" for part in range(hot)]
    batches = [list(hot_paths)]
    left = objects - hot * (commits - 1)
    for number in range(1, commits):
        share = left // (commits - 1) + (number <= left % (commits - 1))
        kept = [f"kept-{number:06}/part-{part:06}" for part in range(share)]
        batches.append(kept if number == 1 else hot_paths + kept)
    return batches


def _commit_all(
    sandbox: Sandbox,
    repository: RepositoryRecord,
    writer: SparseWriter,
    now: datetime,
    batches: Iterable[tuple[timedelta, Sequence[str]]],
) -> list[CommitRecord]:
    """Commit batches of paths on main, each at its age.

    The ages lie half a step off whole days, so no rule's threshold falls on a commit.
    """
    core = sandbox.core
    head = core.head(repository, core.branch(repository, "main"))
    made: list[CommitRecord] = []
    for number, (age, paths) in enumerate(batches):
        with sandbox.clock.at(now - age):
            head = _commit(core, repository, head, _written(writer, paths), f"commit {number}")
        made.append(head)
    return made


def _branch_along(
    core: Core, repository: RepositoryRecord, made: Sequence[CommitRecord], branches: int
) -> None:
    """Make branches, spread evenly over commits."""
    for number in range(branches):
        at = made[number * len(made) // branches]
        core.state.put_branch(
            repository.number, BranchRecord(f"branch-{number:05}", at.id, hidden=False)
        )


def _written(writer: SparseWriter, paths: Sequence[str]) -> list[StagedChange]:
    return [StagedChange(path.encode(), writer.write(path)) for path in paths]


def _commit(
    core: Core,
    repository: RepositoryRecord,
    head: CommitRecord,
    changes: Sequence[StagedChange],
    message: str,
) -> CommitRecord:
    tree = core.trees.apply(repository.storage_namespace, head.metarange_id, changes).metarange_id
    return refs.make_commit(
        core,
        repository,
        core.branch(repository, "main"),
        message=message,
        metarange_id=tree,
        metadata={},
        parents=[head],
        date=to_seconds(core.now()),
    )
