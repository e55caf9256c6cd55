"""A repository on the sandbox with identical content staged in every way that hides it; days count
back.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lakegc_dagster.sandbox import Sandbox, objects, refs, repositories
from spark_core import sweep
from spark_core.run import Run
from tests.support.clean_beside import mark_beside_a_clean_one, why_clean
from tests.support.pipeline import Marked, mark_and_conclude
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.stored_rows import rows_of
from tests.support.telling_store import TellingStore

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
# As long as the server's: of a name with another one lakegc would not believe that lakeFS gave it.
_SIGNATURE = "s" * 43


@dataclass
class HidingPlace:
    """The repository.

    Attributes:
        sandbox: Where it is.
        spark: The session.
    """

    sandbox: Sandbox
    spark: Any
    name: str = "repo"

    def __post_init__(self) -> None:
        with self.ago(60):
            repositories.create(self.core, self.name, f"local://{self.name}")

    @property
    def core(self) -> Any:
        return self.sandbox.core

    @contextmanager
    def ago(self, days: float) -> Any:
        with self.core.lock, self.sandbox.clock.at(NOW - timedelta(days=days)):
            yield

    def upload(self, days: float, path: str, data: bytes = b"same", branch: str = "main") -> str:
        """Upload through the server; return the address."""
        with self.ago(days):
            return str(objects.upload(self.core, self.name, branch, path, data).address)

    def commit(self, days: float, branch: str = "main", **data: Any) -> str:
        with self.ago(days):
            return str(refs.commit(self.core, self.name, branch, message="m", **data).id)

    def committed(self, days: float, path: str, data: bytes = b"same", branch: str = "main") -> str:
        """Upload and commit; return the address."""
        address = self.upload(days, path, data, branch)
        self.commit(days, branch)
        return address

    def branch(self, days: float, name: str, source: str = "main") -> None:
        with self.ago(days):
            refs.create_branch(self.core, self.name, name, source)

    def with_a_twin_from_before(self) -> str:
        """Stage on dev what main commits a month later: a reset there hides it from the diff."""
        self.committed(55, "q", b"base")
        self.branch(55, "dev")
        twin = self.upload(50, "p", branch="dev")
        self.committed(20, "p")
        return twin

    def compact(self, days: float, branch: str = "main") -> str:
        """Compact what is staged on a branch, as lakeFS Enterprise can; return the file's key."""
        self.core.behaviour.edition = "lakeFS-Enterprise"
        with self.ago(days):
            return f"_lakefs/{refs.compact(self.core, self.name, branch)}"

    def hard_reset(self, days: float, branch: str, ref: str) -> None:
        with self.ago(days):
            refs.hard_reset(self.core, self.name, branch, ref)

    def drop_branch(self, days: float, name: str) -> None:
        with self.ago(days):
            refs.delete_branch(self.core, self.name, name)

    def write(self, days: float, data: bytes, *, signed: bool) -> str:
        """Write an object without the server; return its address, signed as if allocated for an
        upload.
        """
        with self.ago(days):
            address = self.core.ids.object_address() + (f",{_SIGNATURE}" if signed else "")
            self.core.blockstore.write(
                f"local://{self.name}", address, data, written_at=self.core.now()
            )
        return str(address)

    def stage(
        self,
        days: float,
        path: str,
        address: str,
        *,
        size: int,
        checksum: str,
        branch: str = "main",
    ) -> None:
        """Stage an address, with a size and a checksum that somebody says."""
        uri = (
            address
            if "://" in address
            else f"local://{self.sandbox.blockstore}/{self.name}/{address}"
        )
        with self.ago(days):
            objects.stage(
                self.core,
                self.name,
                branch,
                path,
                physical_address=uri,
                checksum=checksum,
                size_bytes=size,
                link=False,
            )

    def copy(self, days: float, path: str, source: str, branch: str = "main") -> str:
        with self.ago(days):
            return str(objects.copy(self.core, self.name, branch, path, source_path=source).address)

    def checksum(self, path: str, branch: str = "main") -> str:
        """Return what an entry says of its content."""
        with self.core.lock:
            return str(objects.stat(self.core, self.name, branch, path)[1].checksum)

    def commit_aside(self, days: float, source: str) -> str:
        """Make a commit from a branch on one of its own, which goes again; return it."""
        self.branch(days, "aside", source)
        self.upload(days, "aside", b"aside", "aside")
        made = self.commit(days, "aside")
        self.drop_branch(days, "aside")
        return made

    def lose(self, address: str) -> None:
        """Let an object vanish from the store."""
        self.file(address).unlink()

    def file(self, key: str) -> Any:
        return self.sandbox.blockstore / self.name / key

    def metarange(self, commit: str) -> str:
        """Return the key of a commit's metarange."""
        record = self.core.commit(self.core.repository(self.name), commit)
        return f"_lakefs/{record.metarange_id}"

    def date(self, key: str, days: float) -> None:
        """Change the date of a file in the store."""
        seconds = (NOW - timedelta(days=days)).timestamp()
        os.utime(self.file(key), (seconds, seconds))

    def reads(self, path: str, branch: str = "main") -> str:
        """Return the address of a branch's entry, relative where it is inside the namespace; its
        object exists.
        """
        repository, entry = objects.stat(self.core, self.name, branch, path)
        self.core.blockstore.read(repository.storage_namespace, entry.address, entry.address_type)
        return str(entry.address).rpartition(f"/{self.name}/")[2]

    def run(self, days: float = 0, **options: Any) -> Run:
        self.sandbox.clock.set(NOW - timedelta(days=days))
        return open_sandbox_run(
            self.sandbox, self.name, self.spark, NOW - timedelta(days=days), **options
        )

    def opened(
        self, days: float, *, tells: bool = False, full: bool = False, **options: Any
    ) -> Run:
        """Open a run that no share of what may go or is missing stops."""
        run = self.run(days, **{"max_expired_share": 1, "max_missing_share": 1, **options})
        store = TellingStore.like(run.store) if tells else run.store
        return replace(run, store=store, full=full)

    def mark(self, days: float = 0, **options: Any) -> tuple[Run, Marked]:
        """Mark, and conclude; the verdict must pass.

        Args:
            days: Days ago.
            **options: Of the run; `full`: whether a clean one is asked for, and `tells`: whether
                the store tells contents, as S3 does.
        """
        run = self.opened(days, **options)
        marked, verdict, results = mark_and_conclude(run)
        assert verdict.passed, [result for result in results if not result.passed]
        return run, marked

    def mark_as_a_clean_one(
        self, days: float = 0, *, behind: Collection[str] = (), **options: Any
    ) -> tuple[Run, Marked]:
        """Mark with the index, and clean in the same state: both find the same.

        Args:
            days: Days ago.
            behind: As in `clean_beside.require_alike`.
            **options: As in `mark`.

        Returns:
            The run with the index, and what it found; its verdict passed.
        """
        run, (marked, verdict, results) = mark_beside_a_clean_one(
            self.file(""),
            lambda: self.opened(days, **{"optimized": True, **options}),
            behind=behind,
        )
        assert not why_clean(marked)
        assert verdict.passed, [result for result in results if not result.passed]
        return run, marked

    def plan(self, days: float = 0, **options: Any) -> tuple[set[str], dict[str, Any]]:
        """Mark; return what may go, and the figures of the search for hidden entries."""
        run, marked = self.mark(days, **options)
        return set(marked.addresses(run)), marked.expired.manifest.facts["twins"]

    def collect(self, days: float = 0, **options: Any) -> set[str]:
        """Mark and sweep; return what was deleted."""
        run, _ = self.mark(days, **options)
        report = run.keep(sweep.sweep(run))
        rows = rows_of(report, ["address", "outcome"])
        return {row.address for row in rows if row.outcome == "deleted"}
