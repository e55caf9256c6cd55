"""A repository on the sandbox whose days a test tells, and the removals of its policy; no Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lakegc_dagster.sandbox import Sandbox
from spark_core.branches import removal
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Period, Policy, Rule
from spark_core.run import Run
from tests.support.sandbox_repository import SandboxRepository, SandboxServer
from tests.support.sandbox_runs import open_sandbox_run

BEGIN = datetime(2026, 11, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)


def rule(prefix: str, days: int | None, *, staged: int | None = None) -> Rule:
    """Make a rule that removes."""
    branch, _, path = prefix.partition("/")
    periods = {"all": days, "uncommitted": staged}
    return Rule(
        branch,
        path,
        {action: Period(days=count) for action, count in periods.items() if count is not None},
        effect="remove",
    )


class World:
    """A repository, its days and its removals.

    Attributes:
        repository: The repository, as its users see it.
        last: The last run that removed.
    """

    def __init__(self, sandbox: Sandbox, spark: Any = None) -> None:
        self.sandbox, self.spark = sandbox, spark
        self.last: Run | None = None
        self.at(0)
        self.repository = SandboxRepository(SandboxServer.of(sandbox))
        self.name = self.repository.name

    def at(self, day: float) -> None:
        self.day = day
        self.sandbox.clock.set(BEGIN + day * DAY)

    def write(self, branch: str, *paths: str, data: bytes | None = None) -> list[str]:
        """Upload; return the addresses."""
        return [
            self.repository.upload(branch, path, path.encode() if data is None else data)
            for path in paths
        ]

    def committed(self, branch: str, *paths: str, data: bytes | None = None) -> list[str]:
        """Upload and commit; return the addresses."""
        addresses = self.write(branch, *paths, data=data)
        self.repository.commit(branch)
        return addresses

    def run(self, **options: Any) -> Run:
        return open_sandbox_run(
            self.sandbox,
            self.name,
            self.spark,
            BEGIN + self.day * DAY,
            **{"policies": "sweep", **options},
        )

    def policy(self, *rules: Rule, confirm: bool = True, resets: bool = False) -> Policy:
        """Set a policy, and confirm it."""
        policy, run = Policy(rules), self.run()
        version = versions.store_version(run, policy, who="ann@host")
        if confirm:
            confirmed.confirm(run, version, "ann@host")
        if resets:
            confirmed.confirm_resets(run, version, "ann@host")
        return policy

    def remove(self, *, dry_run: bool = False, **options: Any) -> removal.Removal:
        self.last = self.run(**options)
        return removal.remove(self.last, who="ann@host", dry_run=dry_run)

    def outcome(self, **options: Any) -> removal.Outcome:
        """Remove by a policy of one rule."""
        (named,) = self.remove(**options).named
        return named.outcome

    def undo(self, **decided: bool) -> tuple[removal.Reverted, ...]:
        """Undo the last removal."""
        assert self.last is not None
        return removal.undo(self.run(), self.last.key, who="ann@host", **decided)

    def paths(self, ref: str = "main") -> set[str]:
        return set(self.repository.entries(ref))

    def work_branches(self) -> set[str]:
        return {name for name in self.repository.branches() if name.startswith("lakegc-")}

    def log(self, branch: str = "main") -> list[dict[str, Any]]:
        """The commits of a branch's main line, newest first."""
        listed = self.repository.server.listed(
            f"/repositories/{self.name}/refs/{branch}/commits", first_parent="true"
        )
        return [dict(each) for each in listed]
