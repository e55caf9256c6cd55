"""A repository on a sandbox with branches of every age, and runs that stand for chosen instants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import Sandbox, objects, refs, repositories
from spark_core import holds
from spark_core.branches.stale import delete_branches, make_again, marked
from spark_core.references.policies import versions
from spark_core.references.policies.parsing import parse
from tests.support.earlier_runs import store_seen_heads
from tests.support.sandbox_runs import open_sandbox_run

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
POLICY = """branch_lifecycle:
  policies: [{branches: [dev-*], max_inactivity_days: 30}]
  keep: [dev-keep]
"""

WITH_STAGED = """branch_lifecycle:
  policies: [{branches: [dev-*], max_inactivity_days: 30}]
  delete_staged: true
  undo_days: 7
"""


@dataclass
class World:
    """The repository, driven past HTTP; time is the sandbox's clock."""

    sandbox: Sandbox
    seconds: int = 0

    @property
    def place(self):
        return self.sandbox.core, "repo"

    def run(self, **options):
        """Open a run; each stands for a second of its own."""
        self.seconds += 10
        return open_sandbox_run(
            self.sandbox, "repo", None, NOW + timedelta(seconds=self.seconds), **options
        )

    def policy(self, text=POLICY):
        versions.store_version(self.run(), parse(text.encode(), name="policy.yml"), who="ann")

    def branch(self, name, *, days=100.0, source="main", files=("a",)):
        """Make a branch whose only own commit is so old; return the commit."""
        with self.sandbox.core.lock, self.sandbox.clock.at(NOW - timedelta(days=days)):
            refs.create_branch(*self.place, name, source)
            for path in files:
                objects.upload(*self.place, name, path, f"{name}/{path}".encode())
            if not files:
                return self.head(name)
            return refs.commit(*self.place, name, message="work").id

    def upload(self, branch, path, data=b"x", *, days=0.0):
        with self.sandbox.core.lock, self.sandbox.clock.at(NOW - timedelta(days=days)):
            return objects.upload(*self.place, branch, path, data)

    def commit(self, branch, **more):
        with self.sandbox.core.lock:
            return refs.commit(*self.place, branch, message="work", **more).id

    def heads(self):
        repository = self.sandbox.core.repository("repo")
        with self.sandbox.core.lock:
            found = self.sandbox.core.state.branches(repository.number)
        return {branch.id: branch.commit_id for branch in found}

    def head(self, branch):
        return self.heads().get(branch)

    def stored_run(self, days, heads):
        """Store what a run saw so many days ago."""
        return store_seen_heads(self.run(), NOW - timedelta(days=days), heads)

    def mark(self):
        return marked.mark(self.run(), who="ann")

    def confirmed(self, *only):
        """Mark and confirm; return the key."""
        key = self.mark().key
        marked.confirm(self.run(), key, who="bob", only=only)
        return key

    def delete(self, key, **changes):
        found = delete_branches.delete(replace(self.run(), **changes), key, who="bob")
        return {each.branch: each for each in found}

    def undo(self, key, *only):
        return {
            each.branch: each for each in make_again.undo(self.run(), key, who="bob", only=only)
        }

    def holds(self):
        return {hold.name: hold for hold in holds.load(self.run().store).holds}


@pytest.fixture
def world(tmp_path):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        sandbox.clock.set(NOW - timedelta(days=200))
        with sandbox.core.lock:
            repositories.create(sandbox.core, "repo", "local://repo")
            objects.upload(sandbox.core, "repo", "main", "m", b"main")
            refs.commit(sandbox.core, "repo", "main", message="first")
        sandbox.clock.set(NOW)
        made = World(sandbox)
        made.policy()
        yield made


@pytest.fixture
def stale(world):
    """Two branches that may go, and their commits."""
    return {name: world.branch(name) for name in ("dev-1", "dev-2")}


def outcomes(found):
    return {name: each.outcome for name, each in found.items()}
