"""What is said of the stored tables of a run, wherever its checks are shown; this only reads."""

from __future__ import annotations

from collections.abc import Sequence

from spark_core import sweep
from spark_core.checks import CheckResult, check_table, confirming
from spark_core.errors import DeletionFailedError
from spark_core.records import tables
from spark_core.records.reading import StoredTable
from spark_core.records.tables import TableSpec
from spark_core.run import Run

# The check of a sweep, which no verdict waits for.
NOTHING_LEFT = "every_object_was_deleted"


def judge(run: Run, spec: TableSpec) -> Sequence[CheckResult]:
    """Run the checks of a stored table of a run.

    Those of the mark's last table are about the whole mark: the stored verdict has what they said.

    Args:
        run: The run.
        spec: One of the mark's tables, or the report of the sweep.

    Raises:
        ChainError: If the table is missing.
        VerdictError: If the mark has no verdict, where that is asked for.
    """
    if spec is tables.DELETION_REPORT:
        return [judge_report(run.load(spec))]
    if spec is tables.EXPIRED_ADDRESSES:
        return [result for result in confirming.confirmed_results(run) if result.table == spec.name]
    before = tables.MARK_TABLES[: tables.MARK_TABLES.index(spec) + 1]
    return check_table(run, spec.name, {table.name: run.load(table).manifest for table in before})


def judge_report(report: StoredTable) -> CheckResult:
    """Say of a stored report whether the sweep deleted everything that it had to delete."""
    summary, passed = f"{report.manifest.rows} objects, each with its outcome", True
    try:
        sweep.require_complete(report)
    except DeletionFailedError as left:
        summary, passed = str(left), False
    return CheckResult(NOTHING_LEFT, report.manifest.table, passed, summary, report.manifest.facts)
