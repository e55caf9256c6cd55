"""What one sandbox holds, and the look-ups that every room of it needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from lakegc_dagster.sandbox.blockstore import Blockstore
from lakegc_dagster.sandbox.clock import SandboxClock
from lakegc_dagster.sandbox.errors import not_found, read_only
from lakegc_dagster.sandbox.state import BranchRecord, RepositoryRecord, State
from lakegc_dagster.sandbox.trees import Trees
from lakegc_dagster.sandbox.xids import IdSource
from spark_core.graveler import CommitRecord

COMMITTER = "sandbox"


@dataclass
class Behaviour:
    """What a test may turn while the sandbox runs.

    Attributes:
        grace: What the server calls its grace period; also how long a signed address can be linked.
        uncommitted_page_rows: A page of prepare_uncommitted ends after so many rows or branches; None: one page.
        deletion_lag: How long a deleted repository goes on answering, empty; the real server does for 5 s.
        pending_polls: How often the status of a task says "not yet" before it says what the task did.
        while_dumping: Called between the parts of a refs dump with the name of the one just read (`commits`, `branches`,
            `tags`), in the server's thread, which holds the lock: it may change the sandbox through its rooms.
    """

    grace: timedelta = timedelta(hours=24)
    uncommitted_page_rows: int | None = None
    deletion_lag: timedelta = timedelta(seconds=5)
    pending_polls: int = 0
    while_dumping: Callable[[str], None] | None = None


@dataclass
class Core:
    """One sandbox: its state, its files and its clock.

    The methods of the rooms (`objects`, `refs`, ...) take it as their first
    argument. Whoever calls them from another thread than the server's holds
    `lock`.
    """

    directory: Path
    behaviour: Behaviour = field(default_factory=Behaviour)
    clock: SandboxClock = field(default_factory=SandboxClock)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.directory = self.directory.resolve()
        (self.directory / "blockstore").mkdir(parents=True, exist_ok=True)
        self.state = State(self.directory / "state.sqlite")
        self.blockstore = Blockstore(self.directory / "blockstore", self.clock)
        self.trees = Trees(self.blockstore)
        self.ids = IdSource(self.clock.now)
        self._deleted: dict[str, tuple[float, RepositoryRecord]] = {}
        self.polls: dict[str, int] = {}

    def close(self) -> None:
        """Close the state."""
        self.state.close()

    def now(self) -> datetime:
        """Return the sandbox's present instant."""
        return self.clock.now()

    def lingering(self, repository_id: str) -> RepositoryRecord | None:
        """Return a repository that was deleted a moment ago and still answers (`lakefs-facts` 11.40)."""
        deleted = self._deleted.get(repository_id)
        if deleted is None:
            return None
        if time.monotonic() - deleted[0] >= self.behaviour.deletion_lag.total_seconds():
            del self._deleted[repository_id]
            return None
        return deleted[1]

    def linger(self, repository: RepositoryRecord) -> None:
        """Let a deleted repository go on answering for a while."""
        self._deleted[repository.id] = (time.monotonic(), repository)

    def forget_deleted(self) -> None:
        """Let no deleted repository answer any longer."""
        self._deleted.clear()

    def repository(self, repository_id: str) -> RepositoryRecord:
        """Return a repository.

        Raises:
            ApiError: 404 if there is none.
        """
        found = self.state.repository(repository_id) or self.lingering(repository_id)
        if found is None:
            raise not_found("repository")
        return found

    def writable(self, repository_id: str, *, force: bool = False) -> RepositoryRecord:
        """Return a repository that may be changed.

        Raises:
            ApiError: 404 if there is none, 403 if it is read-only and the request does not insist.
        """
        found = self.repository(repository_id)
        if found.read_only and not force:
            raise read_only()
        return found

    def branch(self, repository: RepositoryRecord, branch_id: str) -> BranchRecord:
        """Return a branch.

        Raises:
            ApiError: 404 if there is none.
        """
        found = self.state.branch(repository.number, branch_id)
        if found is None:
            raise not_found("branch")
        return found

    def commit(self, repository: RepositoryRecord, commit_id: str) -> CommitRecord:
        """Return a commit by its full id.

        Raises:
            ApiError: 404 if there is none.
        """
        found = self.state.commit(repository.number, commit_id)
        if found is None:
            raise not_found("commit")
        return found

    def head(self, repository: RepositoryRecord, branch: BranchRecord) -> CommitRecord:
        """Return the head commit of a branch."""
        return self.commit(repository, branch.commit_id)
