"""Build a repository with a history, each step at its own time, and state each object's fate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakegc_dagster.sandbox import gc, objects, refs
from lakegc_dagster.sandbox.server import Sandbox
from spark_core.graveler import CommitRecord


@dataclass(frozen=True)
class StoryFile:
    """One object in the store and its fate.

    Attributes:
        path: Path in the repository; the address again for an object that never had a path.
        ref: The ref at which its path can be read: a branch, a tag or a commit id; None when no ref
            has it.
        address: Its address relative to the storage namespace.
        physical_address: Its physical address in the server's form.
        data: Its bytes.
        deleted: Whether a collection must delete it.
        reason: Why it is deleted or kept, as text.
    """

    path: str
    ref: str | None
    address: str
    physical_address: str
    data: bytes
    deleted: bool
    reason: str


@dataclass(frozen=True)
class StoryCommit:
    """One commit and its fate.

    Attributes:
        id: Commit id.
        label: Its name in the story.
        line: The branch on which it was made.
        age: How old it is at the story's now.
        retained: Whether it retains its objects.
        reason: Why, as text.
    """

    id: str
    label: str
    line: str
    age: timedelta
    retained: bool
    reason: str


@dataclass(frozen=True)
class Story:
    """A repository with a history.

    Attributes:
        repository_id: Its name.
        storage_namespace: Its namespace.
        now: The instant that all ages count back from.
        default_retention_days: Days of the default rule.
        branch_retention_days: Days of the branches' rules.
        commits: Every commit but the first, oldest first.
        files: Every object under `data/`.
    """

    repository_id: str
    storage_namespace: str
    now: datetime
    default_retention_days: int
    branch_retention_days: Mapping[str, int]
    commits: tuple[StoryCommit, ...]
    files: tuple[StoryFile, ...]

    @property
    def deleted(self) -> tuple[StoryFile, ...]:
        """The files that a collection must delete."""
        return tuple(file for file in self.files if file.deleted)

    @property
    def kept(self) -> tuple[StoryFile, ...]:
        """The files that a collection must keep."""
        return tuple(file for file in self.files if not file.deleted)


@dataclass
class ToldFile:
    """An object whose fate may still change while the story is built."""

    path: str
    ref: str | None
    address: str
    data: bytes
    deleted: bool = False
    reason: str = ""

    def keep(self, reason: str, ref: str | None = None) -> None:
        """State that a collection must keep it, and its ref if that is not its branch."""
        self.deleted, self.reason = False, reason
        self.ref = ref or self.ref

    def delete_committed(self, reason: str, ref: str | None = None) -> None:
        """State that a collection must delete it, and its ref until then if not its branch."""
        self.deleted, self.reason = True, reason
        self.ref = ref or self.ref

    def delete_uncommitted(self, reason: str) -> None:
        """State that a collection must delete it, and that no ref has it any more."""
        self.deleted, self.reason, self.ref = True, reason, None


class Teller:
    """Builds a repository by the steps of a story, each at its own time."""

    def __init__(self, sandbox: Sandbox, repository_id: str, now: datetime) -> None:
        self.sandbox = sandbox
        self.core = sandbox.core
        self.repository_id = repository_id
        self.namespace = f"local://{repository_id}"
        self.now = now
        self.files: list[ToldFile] = []
        self.commits: list[StoryCommit] = []

    @contextmanager
    def ago(self, *, days: float = 0, hours: float = 0) -> Iterator[None]:
        """Set the clock to this long before the story's `now`."""
        with self.core.lock, self.sandbox.clock.at(self.now - timedelta(days=days, hours=hours)):
            yield

    def content(self, name: str) -> bytes:
        """Make the bytes of the next object: a few lines, of a size that no other object has."""
        return b"".join(
            f"{name[-20:]:>20},{row:>10}\n".encode() for row in range(len(self.files) + 3)
        )

    def upload(self, branch: str, path: str, data: bytes | None = None) -> ToldFile:
        """Upload an object; its fate is stated later."""
        data = self.content(path) if data is None else data
        entry = objects.upload(self.core, self.repository_id, branch, path, data)
        return self._remember(path, branch, entry.address, data)

    def _remember(self, path: str, ref: str | None, address: str, data: bytes) -> ToldFile:
        file = ToldFile(path, ref, address, data)
        self.files.append(file)
        return file

    def link(self, branch: str, path: str) -> ToldFile:
        """Write an object without the server and link its full address."""
        data = self.content(path)
        address = objects.signed_address(self.core, self.repository_id, branch, path)
        self.core.blockstore.write(self.namespace, address, data)
        objects.stage(
            self.core,
            self.repository_id,
            branch,
            path,
            physical_address=self.core.blockstore.location(self.namespace, address),
            checksum=hashlib.md5(data, usedforsecurity=False).hexdigest(),
            size_bytes=len(data),
            link=True,
        )
        return self._remember(path, branch, address, data)

    def stray(self) -> ToldFile:
        """Write an object without an entry, as an interrupted upload does."""
        data = self.content("stray")
        address = self.core.ids.object_address()
        self.core.blockstore.write(self.namespace, address, data)
        return self._remember(address, None, address, data)

    def remove(self, branch: str, *paths: str) -> None:
        """Delete paths from a branch."""
        objects.delete(self.core, self.repository_id, branch, paths)

    def branch(self, name: str, source: str, *, hidden: bool = False) -> None:
        """Make a branch."""
        refs.create_branch(self.core, self.repository_id, name, source, hidden=hidden)

    def commit(self, branch: str, label: str, *, retained: bool, reason: str) -> CommitRecord:
        """Commit a branch at the present instant."""
        now = self.core.now()
        commit = refs.commit(
            self.core, self.repository_id, branch, message=label, date=int(now.timestamp())
        )
        return self.add_commit(commit, branch, retained=retained, reason=reason)

    def add_commit(
        self, commit: CommitRecord, line: str, *, retained: bool, reason: str
    ) -> CommitRecord:
        """State the fate of a commit."""
        self.commits.append(
            StoryCommit(
                commit.id, commit.message, line, self.now - self.core.now(), retained, reason
            )
        )
        return commit

    def story(self, default_days: int, branch_days: Mapping[str, int]) -> Story:
        """Set the retention rules and return the story."""
        with self.core.lock:
            gc.set_rules(self.core, self.repository_id, gc.Rules(default_days, branch_days))
        return Story(
            repository_id=self.repository_id,
            storage_namespace=self.namespace,
            now=self.now,
            default_retention_days=default_days,
            branch_retention_days=dict(branch_days),
            commits=tuple(self.commits),
            files=tuple(
                StoryFile(
                    path=file.path,
                    ref=file.ref,
                    address=file.address,
                    physical_address=self.core.blockstore.location(self.namespace, file.address),
                    data=file.data,
                    deleted=file.deleted,
                    reason=file.reason,
                )
                for file in self.files
            ),
        )
