"""The sandbox's stored state: repositories, refs, commits, staged changes and tasks, in SQLite."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakegc_dagster.sandbox.records import (
    BranchRecord,
    PullRecord,
    RepositoryRecord,
    StagedChange,
    Task,
)
from lakegc_dagster.sandbox.rows import (
    branch_of,
    commit_of,
    commit_row,
    repository_of,
    staged_of,
    staged_row,
)
from spark_core.graveler import CommitRecord

_SCHEMA = """
CREATE TABLE IF NOT EXISTS repositories (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, storage_namespace TEXT, default_branch TEXT,
    creation_date INTEGER, read_only INTEGER);
CREATE TABLE IF NOT EXISTS branches (
    repository INTEGER, id TEXT, commit_id TEXT, hidden INTEGER, compacted TEXT,
    PRIMARY KEY (repository, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tags (
    repository INTEGER, id TEXT, commit_id TEXT, PRIMARY KEY (repository, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS commits (
    repository INTEGER, id TEXT, committer TEXT, message TEXT, created_seconds INTEGER,
    created_nanos INTEGER, metarange_id TEXT, metadata TEXT, parents TEXT, version INTEGER,
    generation INTEGER, PRIMARY KEY (repository, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS staged (
    repository INTEGER, branch TEXT, path BLOB, tombstone INTEGER, address TEXT,
    address_type INTEGER, size_bytes INTEGER, checksum TEXT, last_modified INTEGER,
    content_type TEXT, metadata TEXT,
    PRIMARY KEY (repository, branch, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tasks (
    id TEXT PRIMARY KEY, repository INTEGER, kind TEXT, update_time TEXT, body TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pulls (
    repository INTEGER, id TEXT, title TEXT, source TEXT, destination TEXT, status TEXT,
    created TEXT, PRIMARY KEY (repository, id)) WITHOUT ROWID;
"""


class State:
    """The sandbox's database; every call is one transaction.

    Args:
        file: The SQLite file; made when missing.
    """

    def __init__(self, file: Path) -> None:
        self._lock = threading.RLock()
        # A pool of threads answers requests one at a time (the core holds a lock).
        self._connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(
            "PRAGMA synchronous=OFF"
        )  # A sandbox may lose its last second when the machine crashes.
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do several writes as one transaction, which is much faster for many small ones."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self._connection.execute("BEGIN")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _rows(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def _write(self, sql: str, *values: object) -> int:
        with self._lock:
            return self._connection.execute(sql, values).rowcount

    # repositories

    def add_repository(
        self,
        repository_id: str,
        storage_namespace: str,
        default_branch: str,
        creation_date: int,
        *,
        read_only: bool,
    ) -> RepositoryRecord:
        """Add a repository."""
        with self._lock:
            cursor = self._connection.execute(
                "INSERT INTO repositories"
                " (id, storage_namespace, default_branch, creation_date, read_only)"
                " VALUES (?, ?, ?, ?, ?)",
                (repository_id, storage_namespace, default_branch, creation_date, int(read_only)),
            )
        number = cursor.lastrowid or 0
        return RepositoryRecord(
            number, repository_id, storage_namespace, default_branch, creation_date, read_only
        )

    def repository(self, repository_id: str) -> RepositoryRecord | None:
        """Return a repository, None when there is none."""
        rows = self._rows("SELECT * FROM repositories WHERE id = ?", repository_id)
        return repository_of(rows[0]) if rows else None

    def repositories(self) -> list[RepositoryRecord]:
        """Return all repositories by name."""
        return [repository_of(row) for row in self._rows("SELECT * FROM repositories ORDER BY id")]

    def delete_repository(self, number: int) -> None:
        """Delete a repository with all its rows; files stay."""
        with self.transaction():
            for table in ("branches", "tags", "commits", "staged", "tasks", "pulls"):
                self._write(f"DELETE FROM {table} WHERE repository = ?", number)  # noqa: S608 - names from the line above
            self._write("DELETE FROM repositories WHERE number = ?", number)

    # branches and tags

    def branch(self, repository: int, branch_id: str) -> BranchRecord | None:
        """Return a branch, None when there is none."""
        rows = self._rows(
            "SELECT id, commit_id, hidden, compacted FROM branches WHERE repository = ? AND id = ?",
            repository,
            branch_id,
        )
        return branch_of(rows[0]) if rows else None

    def branches(self, repository: int) -> list[BranchRecord]:
        """Return all branches by name, hidden ones too."""
        return [
            branch_of(row)
            for row in self._rows(
                "SELECT id, commit_id, hidden, compacted FROM branches"
                " WHERE repository = ? ORDER BY id",
                repository,
            )
        ]

    def put_branch(self, repository: int, branch: BranchRecord) -> None:
        """Create or move a branch."""
        self._write(
            "INSERT OR REPLACE INTO branches VALUES (?, ?, ?, ?, ?)",
            repository,
            branch.id,
            branch.commit_id,
            int(branch.hidden),
            branch.compacted,
        )

    def delete_branch(self, repository: int, branch_id: str) -> None:
        """Delete a branch and its staged changes."""
        with self.transaction():
            self.drop_staged(repository, branch_id)
            self._write(
                "DELETE FROM branches WHERE repository = ? AND id = ?", repository, branch_id
            )

    def tag(self, repository: int, tag_id: str) -> str | None:
        """Return the commit of a tag, None when there is none."""
        rows = self._rows(
            "SELECT commit_id FROM tags WHERE repository = ? AND id = ?", repository, tag_id
        )
        return str(rows[0][0]) if rows else None

    def tags(self, repository: int) -> list[tuple[str, str]]:
        """Return all tags as (name, commit id), by name."""
        return [
            (str(row[0]), str(row[1]))
            for row in self._rows(
                "SELECT id, commit_id FROM tags WHERE repository = ? ORDER BY id", repository
            )
        ]

    def put_tag(self, repository: int, tag_id: str, commit_id: str) -> None:
        """Create a tag."""
        self._write("INSERT OR REPLACE INTO tags VALUES (?, ?, ?)", repository, tag_id, commit_id)

    def delete_tag(self, repository: int, tag_id: str) -> bool:
        """Delete a tag; return False when there was none."""
        return (
            self._write("DELETE FROM tags WHERE repository = ? AND id = ?", repository, tag_id) > 0
        )

    # commits

    def commit(self, repository: int, commit_id: str) -> CommitRecord | None:
        """Return a commit, None when there is none."""
        rows = self._rows(
            "SELECT * FROM commits WHERE repository = ? AND id = ?", repository, commit_id
        )
        return commit_of(rows[0]) if rows else None

    def commits(self, repository: int) -> dict[str, CommitRecord]:
        """Return every commit of a repository by id, in the order of the ids."""
        records = (
            commit_of(row)
            for row in self._rows(
                "SELECT * FROM commits WHERE repository = ? ORDER BY id", repository
            )
        )
        return {record.id: record for record in records}

    def commits_starting_with(self, repository: int, prefix: str) -> list[str]:
        """Return at most two ids that begin with a prefix of hex digits."""
        return [
            str(row[0])
            for row in self._rows(
                "SELECT id FROM commits WHERE repository = ? AND id >= ? AND id < ? LIMIT 2",
                repository,
                prefix,
                prefix + "g",
            )
        ]

    def add_commits(self, repository: int, records: Sequence[CommitRecord]) -> None:
        """Add commits."""
        with self.transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [commit_row(repository, record) for record in records],
            )

    # staged changes

    def stage(self, repository: int, branch_id: str, changes: Sequence[StagedChange]) -> None:
        """Stage changes on a branch; the newest change of a path wins."""
        with self.transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO staged VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [staged_row(repository, branch_id, change) for change in changes],
            )

    def staged(self, repository: int, branch_id: str, path: bytes) -> StagedChange | None:
        """Return the staged change of a path, None when there is none."""
        rows = self._rows(
            "SELECT * FROM staged WHERE repository = ? AND branch = ? AND path = ?",
            repository,
            branch_id,
            path,
        )
        return staged_of(rows[0]) if rows else None

    def staged_from(self, repository: int, branch_id: str, path: bytes = b"") -> list[StagedChange]:
        """Return a branch's staged changes at or after a path, in the order of their bytes."""
        return [
            staged_of(row)
            for row in self._rows(
                "SELECT * FROM staged WHERE repository = ? AND branch = ? AND path >= ?"
                " ORDER BY path",
                repository,
                branch_id,
                path,
            )
        ]

    def drop_staged(self, repository: int, branch_id: str) -> None:
        """Delete the staged changes of a branch."""
        self._write("DELETE FROM staged WHERE repository = ? AND branch = ?", repository, branch_id)

    # pull requests

    def put_pull(self, repository: int, pull: PullRecord) -> None:
        """Create or change a pull request."""
        self._write(
            "INSERT OR REPLACE INTO pulls VALUES (?, ?, ?, ?, ?, ?, ?)",
            repository,
            pull.id,
            pull.title,
            pull.source,
            pull.destination,
            pull.status,
            pull.created,
        )

    def pulls(self, repository: int) -> list[PullRecord]:
        """Return all pull requests by id."""
        rows = self._rows(
            "SELECT id, title, source, destination, status, created FROM pulls"
            " WHERE repository = ? ORDER BY id",
            repository,
        )
        return [PullRecord(*(str(value) for value in row)) for row in rows]

    # tasks

    def put_task(self, repository: int, task: Task) -> None:
        """Store a finished task."""
        self._write(
            "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?, ?, ?)",
            task.id,
            repository,
            task.kind,
            task.update_time,
            json.dumps(task.body),
        )

    def task(self, repository: int, kind: str, task_id: str) -> Task | None:
        """Return a task of a repository and kind, None when there is none."""
        rows = self._rows(
            "SELECT id, kind, update_time, body FROM tasks WHERE repository = ? AND kind = ? AND "
            "id = ?",
            repository,
            kind,
            task_id,
        )
        if not rows:
            return None
        identifier, kind_, update_time, body = (str(value) for value in rows[0])
        return Task(identifier, kind_, update_time, json.loads(body))
