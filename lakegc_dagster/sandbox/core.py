"""The state, files and clock of one sandbox, and the look-ups that all its modules share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from lakegc_dagster.sandbox.blockstore import Blockstore
from lakegc_dagster.sandbox.clock import SandboxClock
from lakegc_dagster.sandbox.errors import aborted, not_found, protected, read_only
from lakegc_dagster.sandbox.records import BranchRecord, RepositoryRecord
from lakegc_dagster.sandbox.state import State
from lakegc_dagster.sandbox.trees import Trees
from lakegc_dagster.sandbox.xids import IdSource
from spark_core.branches.stale.server_patterns import protects
from spark_core.graveler import CommitRecord

COMMITTER = "sandbox"
# How long an upload may wait for its reference, and a signed address can be linked.
GRACE = timedelta(hours=24)


@dataclass
class Behaviour:
    """Settings that a test may change while the sandbox runs.

    Attributes:
        uncommitted_page_rows: Rows or branches after which a page of prepare_uncommitted ends; None
            for one page.
        while_dumping: Called between the parts of a refs dump with the name of the part just read
            (`commits`, `branches`, `tags`). It runs in the server's thread, which holds the lock,
            so it may change the sandbox through its modules.
        protected: Patterns of protected branches: no staged writes, resets or commits there; merges
            and reverts go through. They count at once; a real server remembers the ones before for
            up to six seconds.
        edition: The server's edition, as it says it; the open one never compacts what is staged.
        hook: Called with an event (`pre-commit`, `pre-merge`, `pre-revert`, `pre-delete-branch`)
            and a branch; returns why an action of the repository refuses, or None. It runs in the
            server's thread, which holds the lock.
        longest_login: Longest life of a token for an AWS identity.
    """

    uncommitted_page_rows: int | None = None
    while_dumping: Callable[[str], None] | None = None
    protected: tuple[str, ...] = ()
    edition: str = "lakeFS"
    hook: Callable[[str, str], str | None] | None = None
    longest_login: timedelta = timedelta(days=14)


@dataclass
class Core:
    """One sandbox: its state, files and clock.

    The functions of the modules (`objects`, `refs`, ...) take it as their first argument. A caller
    in another thread than the server's must hold `lock`.
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

    def close(self) -> None:
        """Close the state."""
        self.state.close()

    def now(self) -> datetime:
        """Return the sandbox's present instant."""
        return self.clock.now()

    def repository(self, repository_id: str) -> RepositoryRecord:
        """Return a repository.

        Raises:
            ApiError: 404 if there is none.
        """
        found = self.state.repository(repository_id)
        if found is None:
            raise not_found("repository")
        return found

    def writable(self, repository_id: str) -> RepositoryRecord:
        """Return a repository that may be changed.

        Raises:
            ApiError: 404 if there is none, 403 if it is read-only.
        """
        found = self.repository(repository_id)
        if found.read_only:
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

    def require_unprotected(self, branch_id: str, what: str) -> None:
        """Refuse to write to, or to commit to, a protected branch.

        Args:
            branch_id: The branch.
            what: `write` or `commit`.

        Raises:
            ApiError: 403 if it is protected.
        """
        if any(protects(pattern, branch_id) for pattern in self.behaviour.protected):
            raise protected(what)

    def ask_hook(self, event: str, branch_id: str) -> None:
        """Let an action of the repository refuse an event.

        Raises:
            ApiError: 412 if it does.
        """
        hook = self.behaviour.hook
        why = None if hook is None else hook(event, branch_id)
        if why is not None:
            raise aborted(event, self.ids.object_address().rpartition("/")[2], why)

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

    def base(self, repository: RepositoryRecord, branch: BranchRecord) -> str:
        """Return the metarange under a branch's staged changes: a compacted one, or its head's."""
        return branch.compacted or self.head(repository, branch).metarange_id
