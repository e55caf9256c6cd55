"""A repository on the sandbox whose days a test tells, and its retention policy."""

from datetime import UTC, datetime, timedelta

from spark_core.references.policies import expirations, versions
from spark_core.references.policies.document import Period, Policy, Rule
from tests.support.pipeline import mark_only
from tests.support.sandbox_repository import SandboxRepository, SandboxServer
from tests.support.sandbox_runs import open_sandbox_run

BEGIN = datetime(2026, 11, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)


class Told:
    """A repository whose days a test tells, and what a policy names in it."""

    def __init__(self, sandbox, spark):
        self.sandbox, self.spark, self.day = sandbox, spark, 0
        self.at(0)
        self.repository = SandboxRepository(SandboxServer.of(sandbox))

    def at(self, day):
        self.day = day
        self.sandbox.clock.set(BEGIN + day * DAY)

    def committed(self, branch, *paths):
        addresses = [self.repository.upload(branch, path, path.encode()) for path in paths]
        self.repository.commit(branch)
        return addresses[0] if len(addresses) == 1 else addresses

    def linked(self, branch, path):
        """Stage the address of logs/a under another path."""
        physical = self.repository.stat("main", "logs/a")["physical_address"]
        self.repository.stage(branch, path, physical, size_bytes=6)

    def marked(self, **options):
        now = BEGIN + self.day * DAY
        self.sandbox.clock.set(now + timedelta(seconds=1))
        run = open_sandbox_run(self.sandbox, self.repository.name, self.spark, now, **options)
        return run, mark_only(run).tables

    def named(self, *rules, order=(), **options):
        run, mark = self.marked(**options)
        policy = Policy(rules, order)
        versions.store_version(run, policy, who="test")
        stored = run.keep(expirations.policy_expirations(run, mark))
        rows = {row["address"]: row for batch in stored.batches() for row in batch.to_pylist()}
        facts = stored.manifest.facts
        assert facts["policy_objects"] == len(rows)
        assert facts["policy_digest"] == policy.digest
        only_figures = expirations.find(run, policy, mark)[0].facts()
        assert only_figures == {name: facts[name] for name in only_figures}
        return rows


def rule(prefix, days, action="all"):
    branch, _, path = (prefix or "").partition("/")
    return Rule(branch or None, path, {action: Period(days=days)})
