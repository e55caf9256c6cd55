"""Repositories with a past, and what a collection ought to do to every file of them.

The demo proves itself against the fates told here, so each one is written
down by hand beside the step that decides it, never worked out by the rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from lakegc_dagster.sandbox import gc, merge, objects, refs, repositories
from lakegc_dagster.sandbox.server import Sandbox
from spark_core.graveler import CommitRecord, Entry

_PARTS = 8


@dataclass(frozen=True)
class StoryFile:
    """One object in the store and what ought to become of it.

    Attributes:
        path: Path in the repository; the address again for an object that never had one.
        ref: Where it can be read by its path: a branch, a tag or a commit id; None when nothing leads to it.
        address: Its address relative to the storage namespace.
        physical_address: Its address as the server prints it.
        data: Its bytes.
        deleted: Whether a collection ought to delete it.
        reason: Why it is deleted or kept, in words.
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
    """One commit and what ought to become of it.

    Attributes:
        id: Commit id.
        label: What the story calls it.
        line: The branch that it was made on.
        age: How old it is at the story's now.
        retained: Whether it retains its objects.
        reason: Why, in words.
    """

    id: str
    label: str
    line: str
    age: timedelta
    retained: bool
    reason: str


@dataclass(frozen=True)
class Story:
    """A repository with a past.

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
        """The files that ought to be deleted."""
        return tuple(file for file in self.files if file.deleted)

    @property
    def kept(self) -> tuple[StoryFile, ...]:
        """The files that ought to be kept."""
        return tuple(file for file in self.files if not file.deleted)


@dataclass
class _File:
    """An object while its story is still being told."""

    path: str
    ref: str | None
    address: str
    data: bytes
    deleted: bool = False
    reason: str = ""

    def keep(self, reason: str, ref: str | None = None) -> None:
        self.deleted, self.reason = False, reason
        self.ref = ref or self.ref

    def delete(self, reason: str, ref: str | None = None) -> None:
        self.deleted, self.reason = True, reason
        self.ref = ref or self.ref


class _Teller:
    """Does to a repository what its story says, each step at its own time."""

    def __init__(self, sandbox: Sandbox, repository_id: str, now: datetime) -> None:
        self.sandbox = sandbox
        self.core = sandbox.core
        self.repository_id = repository_id
        self.namespace = f"local://{repository_id}"
        self.now = now
        self._files: list[_File] = []
        self._commits: list[StoryCommit] = []

    @contextmanager
    def ago(self, *, days: float = 0, hours: float = 0) -> Iterator[None]:
        """Stand so long before the story's now."""
        with self.core.lock, self.sandbox.clock.at(self.now - timedelta(days=days, hours=hours)):
            yield

    def upload(self, branch: str, path: str, data: bytes) -> _File:
        """Upload an object; its reason is still to be given."""
        entry = objects.upload(self.core, self.repository_id, branch, path, data)
        return self._remember(entry, branch, data)

    def _remember(self, entry: Entry, ref: str | None, data: bytes) -> _File:
        file = _File(entry.path.decode(), ref, entry.address, data)
        self._files.append(file)
        return file

    def link(self, branch: str, path: str, data: bytes) -> _File:
        """Write an object past the server and link its address: stored whole on a local blockstore."""
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
            content_type=None,
            metadata=None,
            mtime=None,
            link=True,
        )
        file = _File(path, branch, address, data)
        self._files.append(file)
        return file

    def stray(self, data: bytes) -> _File:
        """Write an object that no entry ever names: an upload that stopped half-way."""
        address = self.core.ids.object_address()
        self.core.blockstore.write(self.namespace, address, data)
        file = _File(address, None, address, data)
        self._files.append(file)
        return file

    def remove(self, branch: str, *paths: str) -> None:
        """Delete paths from a branch."""
        objects.delete(self.core, self.repository_id, branch, paths)

    def branch(self, name: str, source: str, *, hidden: bool = False) -> None:
        """Make a branch."""
        refs.create_branch(self.core, self.repository_id, name, source, hidden=hidden)

    def commit(self, branch: str, label: str, *, retained: bool, reason: str) -> CommitRecord:
        """Commit a branch at the present instant."""
        now = self.core.now()
        commit = refs.commit(self.core, self.repository_id, branch, message=label, date=int(now.timestamp()))
        return self.told(commit, branch, retained=retained, reason=reason)

    def told(self, commit: CommitRecord, line: str, *, retained: bool, reason: str) -> CommitRecord:
        """Note what ought to become of a commit."""
        self._commits.append(StoryCommit(commit.id, commit.message, line, self.now - self.core.now(), retained, reason))
        return commit

    def story(self, default_days: int, branch_days: Mapping[str, int]) -> Story:
        """Set the rules and end the story."""
        with self.core.lock:
            gc.set_rules(self.core, self.repository_id, gc.Rules(default_days, branch_days))
        return Story(
            repository_id=self.repository_id,
            storage_namespace=self.namespace,
            now=self.now,
            default_retention_days=default_days,
            branch_retention_days=dict(branch_days),
            commits=tuple(self._commits),
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
                for file in self._files
            ),
        )


def documents_history(sandbox: Sandbox, repository_id: str, *, now: datetime) -> Story:
    """Build the example of the garbage-collection documents, and what else a collector has to get right.

    The commits are those of the documents' picture (main 21 days, dev 7,
    default 14, collected on 2022-03-31 at 12:00), moved so that that day is
    `now`. Beside them lie uncommitted objects of every kind, deleted
    branches, a tag that the rules would let expire, linked objects, an
    identical re-upload and young objects.

    Args:
        sandbox: A running sandbox in this process.
        repository_id: Name of the repository to make; its namespace has the same name.
        now: The instant of the collection, aware.

    Returns:
        The fate of every object and commit.
    """
    teller = _Teller(sandbox, repository_id, now)
    with teller.ago(days=33):
        repositories.create(teller.core, repository_id, teller.namespace)
    tables = _main_until_dev(teller)
    _dev(teller)
    _main_after_dev(teller, tables)
    _other_lines(teller)
    _uncommitted(teller)
    return teller.story(14, {"main": 21, "dev": 7})


def _table(teller: _Teller, version: str) -> list[_File]:
    """Write every part of the table anew."""
    return [
        teller.upload("main", f"table/part-{part:02}", f"table {version}, part {part}\n".encode() * (part + 1))
        for part in range(_PARTS)
    ]


def _delete_all(files: list[_File], reason: str, ref: str) -> None:
    for file in files:
        file.delete(reason, ref)


def _keep_all(files: list[_File], reason: str, ref: str | None = None) -> None:
    for file in files:
        file.keep(reason, ref)


def _main_until_dev(teller: _Teller) -> list[_File]:
    """Tell main's first three commits; return the table that is current after them."""
    expired = "older than main's 21 days, and a newer commit stands at that day"
    with teller.ago(days=32):
        teller.upload("main", "keep/readme", b"read me first\n").keep("on every commit, main's head too", "main")
        only = teller.upload("main", "only_0227", b"1")
        table = _table(teller, "of 02-27")
        commit = teller.commit("main", "2022-02-27", retained=False, reason=expired)
        _delete_all([only, *table], "only in the commit of 2022-02-27, which expired", commit.id)
    with teller.ago(days=30):
        teller.remove("main", "only_0227")
        only = teller.upload("main", "only_0301", b"2")
        table = _table(teller, "of 03-01")
        commit = teller.commit("main", "2022-03-01", retained=False, reason=expired)
        _delete_all([only, *table], "only in the commit of 2022-03-01, which expired", commit.id)
    with teller.ago(days=22):
        teller.remove("main", "only_0301")
        table = _table(teller, "of 03-09")
        file = teller.upload("main", "f_0309", b"3")
        commit = teller.commit(
            "main", "2022-03-09", retained=True, reason="the first commit beyond main's 21 days: its state at that day"
        )
        file.keep("in main's state of 21 days ago", commit.id)
        teller.branch("dev", "main")
    return table


def _dev(teller: _Teller) -> None:
    expired = "older than dev's 7 days, and dev's head is, too"
    with teller.ago(days=17):
        teller.upload("dev", "d_0314", b"4").keep("on dev's head, and merged to main", "dev")
        overwritten = teller.upload("dev", "d_overwritten", b"first")
        removed = teller.upload("dev", "d_deleted", b"5")
        commit = teller.commit("dev", "d: 2022-03-14", retained=False, reason=expired)
        overwritten.delete("overwritten on dev 11 days ago, and dev keeps 7", commit.id)
        removed.delete("deleted on dev 11 days ago, and dev keeps 7", commit.id)
    with teller.ago(days=15):
        removed = teller.upload("dev", "d_0316", b"6")
        features = [teller.upload("dev", f"features/{part:02}", f"old {part}".encode()) for part in range(_PARTS)]
        commit = teller.commit("dev", "d: 2022-03-16", retained=False, reason=expired)
        removed.delete("deleted on dev 8 days ago; the head that did it is the state at 7 days", commit.id)
        _delete_all(features, "overwritten on dev 11 days ago, and dev keeps 7", commit.id)
    with teller.ago(days=11):
        teller.upload("dev", "d_overwritten", b"second").keep("on dev's head, and merged to main", "dev")
        teller.remove("dev", "d_deleted")
        features = [teller.upload("dev", f"features/{part:02}", f"new {part}".encode()) for part in range(_PARTS)]
        _keep_all(features, "on dev's head, and merged to main", "dev")
        teller.commit("dev", "d: 2022-03-20", retained=False, reason=expired)
    with teller.ago(days=8):
        teller.remove("dev", "d_0316")
        teller.upload("dev", "d_0323", b"7").keep("on dev's head, and merged to main", "dev")
        teller.commit("dev", "d: 2022-03-23", retained=True, reason="dev's head, kept however old")


def _main_after_dev(teller: _Teller, tables: list[_File]) -> None:
    within = "within main's 21 days"
    with teller.ago(days=19):
        file = teller.upload("main", "f_0312", b"8")
        commit = teller.commit("main", "2022-03-12", retained=True, reason=within)
        file.keep(f"in commits {within}", commit.id)
    with teller.ago(days=13):
        _keep_all(tables, "overwritten on main 13 days ago, and main keeps 21", commit.id)
        teller.remove("main", "f_0309")
        teller.upload("main", "f_0318", b"9").keep("on main's head", "main")
        _keep_all(_table(teller, "of 03-18"), "on main's head", "main")
        teller.commit("main", "2022-03-18", retained=True, reason=within)
    with teller.ago(days=7):
        merged = merge.merge(teller.core, teller.repository_id, "dev", "main", message="merge dev")
        teller.told(merged, "main", retained=True, reason=within)
    with teller.ago(days=5):
        teller.remove("main", "f_0312")
        teller.upload("main", "f_0326", b"10").keep("on main's head", "main")
        teller.link("main", "linked/model", b"weights\n" * 64).keep(
            "on main's head; linked, so its entry holds an absolute address", "main"
        )
        teller.commit("main", "2022-03-26", retained=True, reason="main's head")


def _other_lines(teller: _Teller) -> None:
    """Tell what became of branches that are gone, and of a release that only a tag remembers."""
    core, repository_id = teller.core, teller.repository_id
    root = f"main~{sum(commit.line == 'main' for commit in teller._commits)}"  # noqa: SLF001 - this module's own class
    with teller.ago(days=28):
        teller.branch("release", root)
        report = teller.upload("release", "release/report.csv", b"quarter,total\nq1,42\n")
        commit = teller.commit(
            "release", "release 1.0", retained=True, reason="tag v1.0 keeps it, although its branch is gone"
        )
        refs.create_tag(core, repository_id, "v1.0", commit.id)
        refs.delete_branch(core, repository_id, "release")
        report.keep("in the commit of tag v1.0; the rules alone would let it expire", "v1.0")
    with teller.ago(days=20):
        teller.branch("experiment", root)
        trials = [teller.upload("experiment", f"trials/{part:02}", b"trial" * (part + 1)) for part in range(_PARTS)]
        commit = teller.commit(
            "experiment",
            "an experiment",
            retained=False,
            reason="its branch is gone, and it is older than the default 14 days",
        )
        _delete_all(trials, "only on a deleted branch, and older than the default 14 days", commit.id)
        refs.delete_branch(core, repository_id, "experiment")
    with teller.ago(days=4):
        teller.branch("hotfix", "main")
        fix = teller.upload("hotfix", "fix.sql", b"update t set a = 1;\n")
        commit = teller.commit(
            "hotfix", "a hotfix", retained=True, reason="its branch is gone, but it is within the default 14 days"
        )
        staged = teller.upload("hotfix", "fix-notes.txt", b"staged, never committed\n")
        fix.keep("only on a deleted branch, but within the default 14 days", commit.id)
        refs.delete_branch(core, repository_id, "hotfix")
        staged.ref = None
        staged.delete("staged on a branch that was deleted; nothing leads to it any more")


def _uncommitted(teller: _Teller) -> None:
    core, repository_id = teller.core, teller.repository_id
    with teller.ago(days=10):
        teller.upload("main", "inbox/draft", b"staged for ten days\n").keep("staged on main, however old", "main")
        dropped = teller.upload("main", "inbox/dropped", b"staged, then deleted\n")
        replaced = teller.upload("main", "inbox/replaced", b"first try\n")
    with teller.ago(days=9):
        teller.remove("main", "inbox/dropped")
        dropped.ref = replaced.ref = None
        dropped.delete("staged and deleted again before any commit")
        replaced.delete("staged and overwritten before any commit")
        teller.upload("main", "inbox/replaced", b"second try\n").keep("staged on main, however old", "main")
    with teller.ago(days=6):
        experiments = [teller.upload("dev", f"scratch/{part:02}", b"scratch" * (part + 1)) for part in range(_PARTS)]
        objects.reset(core, repository_id, "dev", "reset")
        for file in experiments:
            file.ref = None
            file.delete("staged on dev, which was reset")
        teller.branch("_hidden-import", "main", hidden=True)
        teller.upload("_hidden-import", "import/batch", b"staged where branch lists do not look\n").keep(
            "staged on a hidden branch", "_hidden-import"
        )
        teller.link("main", "linked/staged", b"more weights\n" * 32).keep(
            "staged on main; linked, so prepare_uncommitted leaves it out", "main"
        )
        teller.stray(b"an upload that stopped half-way").delete(
            "no entry ever named it: an upload that stopped half-way"
        )
    with teller.ago(days=3):
        twin = teller.upload("main", "f_0326", b"10")
        twin.keep("the same content uploaded again: no diff shows it, yet main reads it", "main")
        committed = next(file for file in teller._files if file.path == "f_0326")  # noqa: SLF001 - this module's own class
        committed.keep("on main's head, under the same content uploaded again", "main@")
    with teller.ago(hours=2):
        young = teller.upload("main", "inbox/young", b"staged and deleted two hours ago\n")
        teller.remove("main", "inbox/young")
        young.ref = None
        young.keep("younger than the minimum age; the next collection takes it")
        teller.stray(b"an upload under way").keep("younger than the minimum age: an upload may be under way")


def upstream_scenario(sandbox: Sandbox, repository_id: str, *, now: datetime) -> Story:
    """Build lakeFS's own end-to-end scenario of garbage collection, file by file.

    Args:
        sandbox: A running sandbox in this process.
        repository_id: Name of the repository to make; its namespace has the same name.
        now: The instant of the collection, aware.

    Returns:
        The fate of every object and commit.

    References:
        `lakefs-facts` 8 (esti/unified_gc_test.go).
    """
    teller = _Teller(sandbox, repository_id, now)
    core = teller.core
    with teller.ago():
        repositories.create(core, repository_id, teller.namespace)
        teller.branch("dev", "main")
        teller.branch("dev2", "main")
    files: dict[str, _File] = {}
    expired = "only in commits of 14 days ago, which expired"

    def change(branch: str, days: int, label: str, *, retained: bool, reason: str) -> str:
        action, name = label.split()
        with teller.ago(days=days):
            if action == "create":
                files[name] = teller.upload(branch, name, name.encode())
            else:
                teller.remove(branch, name)
            return teller.commit(branch, label, retained=retained, reason=reason).id

    expire = partial(change, retained=False, reason="beyond the rule, and not the first commit beyond it")
    expire("main", 14, "create file_1")
    only_2 = expire("main", 14, "create file_2")
    expire("dev", 14, "create file_5")
    only_5 = expire("dev", 14, "create file_6")
    expire("dev2", 14, "create file_8")
    only_9 = expire("dev2", 14, "create file_9")
    with_1 = change("main", 12, "delete file_2", retained=True, reason="the first commit beyond main's 10 days")
    change("main", 8, "delete file_1", retained=True, reason="main's head")
    with_6 = change("dev", 8, "delete file_5", retained=True, reason="the first commit beyond dev's 7 days")
    with_8 = change("dev2", 8, "delete file_9", retained=True, reason="the first commit beyond the default 7 days")
    change("dev2", 6, "delete file_8", retained=True, reason="its branch is gone, but it is within the default 7 days")
    change("dev", 4, "delete file_6", retained=True, reason="dev's head")
    with teller.ago(days=3):
        files["file_3"] = teller.upload("main", "file_3", b"file_3")
        files["file_4"] = teller.upload("main", "file_4", b"file_4")
        files["file_7"] = teller.upload("dev", "file_7", b"file_7")
        files["file_10"] = teller.upload("dev2", "file_10", b"file_10")
        teller.remove("main", "file_4")
        refs.delete_branch(core, repository_id, "dev2")
        objects.reset(core, repository_id, "dev", "reset")
    for name in ("file_4", "file_7", "file_10"):
        files[name].ref = None
    files["file_1"].keep("in main's first commit beyond 10 days", with_1)
    files["file_2"].delete(expired, only_2)
    files["file_3"].keep("staged on main", "main")
    files["file_4"].delete("staged and deleted again before any commit")
    files["file_5"].delete(expired, only_5)
    files["file_6"].keep("in dev's first commit beyond 7 days", with_6)
    files["file_7"].delete("staged on dev, which was reset")
    files["file_8"].keep("in the parent of a deleted branch's recent tip", with_8)
    files["file_9"].delete(expired, only_9)
    files["file_10"].delete("staged on a branch that was deleted")
    return teller.story(7, {"main": 10, "dev": 7})
