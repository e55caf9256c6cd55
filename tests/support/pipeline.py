"""Whole runs of the engine without Dagster, the way an orchestrator would drive it."""

from dataclasses import dataclass

from spark_core import mark, sweep
from spark_core.checks import CheckResult, verdict
from spark_core.records import tables
from spark_core.records.reading import StoredTable
from spark_core.records.verdict_document import Verdict
from spark_core.references.policies import expirations as policies
from spark_core.run import Run
from spark_core.run.chain import Mark
from tests.support.stored_rows import rows_of


@dataclass(frozen=True)
class Marked:
    """The five tables of a mark."""

    tables: Mark
    expired: StoredTable

    def addresses(self, run: Run) -> list[str]:
        return sorted(row.address for row in rows_of(self.expired, ["address"]))


def mark_only(run: Run) -> Marked:
    """Make tables 1 to 5 in their order."""
    slices = run.keep(mark.namespace_slices(run))
    uncommitted = run.keep(mark.uncommitted_addresses(run, slices))
    commits = run.keep(mark.retained_commits(run, uncommitted))
    made = {tables.RETAINED_COMMITS.name: commits}
    committed = run.keep(mark.make(run, tables.COMMITTED_ADDRESSES, made))
    four = Mark(slices, uncommitted, commits, committed)
    policies.store_if_asked(run)
    return Marked(four, run.keep(mark.expired_addresses(run, four)))


def marked_before(run: Run) -> Marked:
    """Read the five tables of a mark that are stored."""
    *four, expired = (run.load(spec) for spec in tables.MARK_TABLES)
    return Marked(Mark(*four), expired)


def mark_and_conclude(run: Run) -> tuple[Marked, Verdict, list[CheckResult]]:
    """Mark and store the verdict."""
    marked = mark_only(run)
    stored, results = verdict.conclude(run)
    return marked, stored, results


def sweep_only(run: Run) -> dict[str, str]:
    """Sweep a concluded mark; address -> outcome."""
    report = run.keep(sweep.sweep(run))
    sweep.require_complete(report)
    return {row.address: row.outcome for row in rows_of(report, ["address", "outcome"])}
