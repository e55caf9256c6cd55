"""The engine's checks on the assets: they show safety and stop a run; the lock itself is the stored verdict."""

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from lakegc_dagster.metadata import figures_metadata
from lakegc_dagster.partitions import REPOSITORY_RUN, forget_runs
from lakegc_dagster.resources import Runs
from spark_core import guards, housekeeping, reference_writer, sweep, tables, verdict
from spark_core.errors import DeletionFailedError
from spark_core.guards import CheckResult
from spark_core.run import Run
from spark_core.tables import StoredTable, TableSpec

_NOTHING_LEFT = "every_object_was_deleted"


def judge(run: Run, spec: TableSpec) -> Sequence[CheckResult]:
    """Run the checks that sit on a table.

    Those of the last table see the whole mark, so there the verdict is stored,
    passed or not; it closes the partition. A passed one is what a mark for
    lakeFS's own job needs, where the settings ask for that.
    """
    if spec is tables.EXPIRED_ADDRESSES:
        found, results = verdict.conclude(run)
        reference_writer.write_if_asked(run, found)
        return [result for result in results if result.table == spec.name]
    before = tables.MARK_TABLES[: tables.MARK_TABLES.index(spec) + 1]
    return guards.check_table(run, spec.name, {table.name: run.load(table).manifest for table in before})


def judge_report(report: StoredTable) -> CheckResult:
    """Say of a stored report whether the sweep deleted everything that it was to delete."""
    summary, passed = f"{report.manifest.rows} objects, each with its outcome", True
    try:
        sweep.require_complete(report)
    except DeletionFailedError as left:
        summary, passed = str(left), False
    return CheckResult(_NOTHING_LEFT, report.manifest.table, passed, summary, report.manifest.facts)


def keep_house(context: dg.AssetCheckExecutionContext, runs: Runs, run: Run) -> Mapping[str, Any]:
    """Prune old runs after one that did its work, in the store and among Dagster's partitions; return the figures."""
    house = housekeeping.keep_house(run)
    settings = runs.wiring.settings
    longest = (
        max((settings.repository(name).keep_runs for name in settings.repository_ids), default=0) if settings else 0
    )
    forget_runs(context.instance, house.pruned.runs, max(longest, run.options.keep_runs))
    runs.observer.kept_house(house)
    context.log.info(house.words)
    return {"house_keeping": house.facts}


def as_dagster(result: CheckResult, more: Mapping[str, Any] | None = None) -> dg.AssetCheckResult:
    """Show a result: the sentence, the figures behind it, its limit, and what lifts it."""
    said = {"limit": result.limit, "lifted_by": result.lifted_by} if result.limit else {}
    return dg.AssetCheckResult(
        passed=result.passed,
        asset_key=result.table,
        check_name=result.name,
        description=result.summary,
        metadata=figures_metadata({**result.figures, **said, **(more or {})}),
    )


def _blocking(name: str, table: str, description: str | None) -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        # Dagster calls answers per partition a preview; without, the one about a repository hides that about another.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            name, asset=table, description=description, blocking=True, partitions_def=REPOSITORY_RUN
        )


def _checks_on(spec: TableSpec) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=f"check_{spec.name}",
        specs=[
            _blocking(name, table, inspect.getdoc(check)) for name, table, check in guards.CHECKS if table == spec.name
        ],
    )
    def check_table(context: dg.AssetCheckExecutionContext, runs: Runs) -> Iterator[dg.AssetCheckResult]:
        with runs.opened(context.partition_key, spec) as run:
            results = judge(run, spec)
            only_marked = spec is tables.EXPIRED_ADDRESSES and not run.options.may_sweep
            done = only_marked and all(result.passed for result in results)
            more = keep_house(context, runs, run) if done else {}
        runs.observer.checked(results)
        yield from (as_dagster(result, more if result is results[-1] else None) for result in results)

    return check_table


@dg.multi_asset_check(
    name=f"check_{tables.DELETION_REPORT.name}",
    specs=[
        _blocking(
            _NOTHING_LEFT,
            tables.DELETION_REPORT.name,
            "Every object of the sweep is gone; one that the store kept fails the run, after the report of all is stored.",
        )
    ],
)
def check_deletion_report(context: dg.AssetCheckExecutionContext, runs: Runs) -> Iterator[dg.AssetCheckResult]:
    """Say whether the sweep deleted everything that it was to delete."""
    with runs.opened(context.partition_key, tables.DELETION_REPORT) as run:
        result = judge_report(run.load(tables.DELETION_REPORT))
        more = keep_house(context, runs, run) if result.passed else {}
    runs.observer.checked([result])
    yield as_dagster(result, more)


MARK_CHECKS = [_checks_on(spec) for spec in tables.MARK_TABLES]
SWEEP_CHECKS = [check_deletion_report]
