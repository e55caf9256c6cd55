"""The engine's checks on the assets: they show safety, stop a run, and only read.

The lock itself is the stored verdict.
"""

import inspect
import warnings
from collections.abc import Iterator, Sequence

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.assets import VERDICT
from lakegc_dagster.assets.arguments import POOL
from lakegc_dagster.failures import failure_of, refusal_of
from lakegc_dagster.metadata import figures_metadata
from lakegc_dagster.partitions import REPOSITORY_RUN, parse_partition_key
from lakegc_dagster.resources import Runs
from spark_core import checks as guards
from spark_core.checks import CheckResult
from spark_core.errors import DeletionFailedError
from spark_core.records import tables
from spark_core.records.reading import StoredTable
from spark_core.records.tables import TableSpec
from spark_core.run import Run

_NOTHING_LEFT = "every_object_was_deleted"


def judge(run: Run, spec: TableSpec) -> Sequence[CheckResult]:
    """Run the checks of a table by its manifest and the manifests of the tables before it."""
    before = tables.MARK_TABLES[: tables.MARK_TABLES.index(spec) + 1]
    return guards.check_table(
        run, spec.name, {table.name: run.load(table).manifest for table in before}
    )


def judge_mark(run: Run) -> Sequence[CheckResult]:
    """Read from the stored verdict what the checks of the whole mark said."""
    return [result for result in engine.verdict.results(run) if asset_of(result.table) == VERDICT]


def judge_report(report: StoredTable) -> CheckResult:
    """Say of a stored report whether the sweep deleted everything that it had to delete."""
    summary, passed = f"{report.manifest.rows} objects, each with its outcome", True
    try:
        engine.sweep.require_complete(report)
    except DeletionFailedError as left:
        summary, passed = str(left), False
    return CheckResult(_NOTHING_LEFT, report.manifest.table, passed, summary, report.manifest.facts)


def asset_of(table: str) -> str:
    """Name the asset on which Dagster shows the checks of a table.

    The checks of the last table are about the whole mark. They come after the verdict, because a
    failed one must not keep the verdict from being stored.
    """
    return VERDICT if table == tables.EXPIRED_ADDRESSES.name else table


def as_dagster(result: CheckResult) -> dg.AssetCheckResult:
    """Show a result: the sentence, the figures behind it, its limit, and what lifts it.

    The result does not say what was deleted: a check may be executed again long after the sweep.
    """
    limits = {"limit": result.limit, "lifted_by": result.lifted_by} if result.limit else {}
    return dg.AssetCheckResult(
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR
        if result.name not in guards.ADVISORY
        else dg.AssetCheckSeverity.WARN,
        asset_key=asset_of(result.table),
        check_name=result.name,
        description=result.summary,
        metadata=figures_metadata({**result.figures, **limits}),
    )


def _shown(partition_key: str, results: Sequence[CheckResult]) -> Iterator[dg.AssetCheckResult]:
    """Show results, and end the step with the refusal's sentence if one of them blocks.

    Dagster would end it with only the names of the checks.
    """
    yield from map(as_dagster, results)
    refused = refusal_of(*parse_partition_key(partition_key), results)
    if refused is not None:
        raise failure_of(refused)


def _spec(name: str, asset: str, description: str | None) -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        # Dagster calls results per partition a preview. Without partitions, the result of one
        # repository would hide the result of another.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            name,
            asset=asset,
            description=description,
            blocking=name not in guards.ADVISORY,
            partitions_def=REPOSITORY_RUN,
        )


def _specs_on(asset: str) -> list[dg.AssetCheckSpec]:
    return [
        _spec(name, asset, inspect.getdoc(check))
        for name, table, check in guards.CHECKS
        if asset_of(table) == asset
    ]


def _checks_on(spec: TableSpec) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(name=f"check_{spec.name}", specs=_specs_on(spec.name), pool=POOL)
    def check_table(
        context: dg.AssetCheckExecutionContext, runs: Runs
    ) -> Iterator[dg.AssetCheckResult]:
        with runs.opened(context.partition_key, spec.name) as run:
            results = judge(run, spec)
        runs.observer.checked(results)
        yield from _shown(context.partition_key, results)

    return check_table


@dg.multi_asset_check(name=f"check_{VERDICT}", specs=_specs_on(VERDICT), pool=POOL)
def check_verdict(
    context: dg.AssetCheckExecutionContext, runs: Runs
) -> Iterator[dg.AssetCheckResult]:
    """Say what the stored verdict says of the whole mark."""
    with runs.opened(context.partition_key, VERDICT) as run:
        results = judge_mark(run)
    runs.observer.checked(results)
    yield from _shown(context.partition_key, results)


@dg.multi_asset_check(
    name=f"check_{tables.DELETION_REPORT.name}",
    specs=[
        _spec(
            _NOTHING_LEFT,
            tables.DELETION_REPORT.name,
            "Every object of the sweep is gone. If the store kept one, the run fails after the "
            "report is stored.",
        )
    ],
    pool=POOL,
)
def check_deletion_report(
    context: dg.AssetCheckExecutionContext, runs: Runs
) -> Iterator[dg.AssetCheckResult]:
    """Say whether the sweep deleted everything that it had to delete."""
    with runs.opened(context.partition_key, tables.DELETION_REPORT.name) as run:
        result = judge_report(run.load(tables.DELETION_REPORT))
    runs.observer.checked([result])
    yield from _shown(context.partition_key, [result])


MARK_CHECKS = [*map(_checks_on, tables.MARK_TABLES[:-1]), check_verdict]
SWEEP_CHECKS = [check_deletion_report]
