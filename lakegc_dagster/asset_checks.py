"""The engine's checks on the assets: they show safety, stop a run, and only read.

The lock itself is the stored verdict.
"""

import inspect
import warnings
from collections.abc import Iterator, Sequence

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.assets.declaration import with_runs
from lakegc_dagster.in_dagster.done_before import repeated_assets
from lakegc_dagster.in_dagster.failures import failure_of, refusal_of
from lakegc_dagster.metadata import figures_metadata
from lakegc_dagster.names import Names
from lakegc_dagster.partitions import parse_partition_key, repository_run
from lakegc_dagster.resources import Runs
from lakegc_dagster.runs.run_config import VERDICT
from spark_core import checks as guards
from spark_core.checks import CheckResult
from spark_core.records import tables
from spark_core.records.tables import TableSpec

# As the engine names it, which is imported when a check is made.
NOTHING_LEFT = "every_object_was_deleted"


def asset_of(table: str) -> str:
    """Name the asset on which Dagster shows the checks of a table.

    The checks of the last table are about the whole mark. They come after the verdict, because a
    failed one must not keep the verdict from being stored.
    """
    return VERDICT if table == tables.EXPIRED_ADDRESSES.name else table


def as_dagster(result: CheckResult, names: Names, *, blocks: bool = True) -> dg.AssetCheckResult:
    """Show a result: the sentence, the figures behind it, its limit, and what lifts it.

    The result does not say what was deleted: a check may be executed again long after the sweep.

    Args:
        result: The result.
        names: Those of the collector whose check it is.
        blocks: Whether it may stop its run; one of a closed run may not.
    """
    limits = {"limit": result.limit, "lifted_by": result.lifted_by} if result.limit else {}
    return dg.AssetCheckResult(
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR
        if blocks and result.name not in guards.ADVISORY
        else dg.AssetCheckSeverity.WARN,
        asset_key=names.key(asset_of(result.table)),
        check_name=result.name,
        description=result.summary,
        metadata=figures_metadata({**result.figures, **limits}),
    )


def _shown(
    partition_key: str, results: Sequence[CheckResult], names: Names
) -> Iterator[dg.AssetCheckResult]:
    """Show results, and end the step with the refusal's sentence if one of them blocks.

    Dagster would end it with only the names of the checks.
    """
    yield from (as_dagster(result, names) for result in results)
    refused = refusal_of(*parse_partition_key(partition_key), results)
    if refused is not None:
        raise failure_of(refused) from refused


def _spec(names: Names, name: str, asset: str, description: str | None) -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        # Dagster calls results per partition a preview. Without partitions, the result of one
        # repository would hide the result of another.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            name,
            asset=names.key(asset),
            description=description,
            blocking=name not in guards.ADVISORY,
            partitions_def=repository_run(names),
        )


def _specs_on(names: Names, asset: str) -> list[dg.AssetCheckSpec]:
    if asset == tables.DELETION_REPORT.name:
        described = (
            "Every object of the sweep is gone. If the store kept one, the run fails after the "
            "report is stored."
        )
        return [_spec(names, NOTHING_LEFT, asset, described)]
    return [
        _spec(names, name, asset, inspect.getdoc(check))
        for name, table, check in guards.CHECKS
        if asset_of(table) == asset
    ]


def _checks_on(names: Names, spec: TableSpec) -> dg.AssetChecksDefinition:
    asset = asset_of(spec.name)

    def check(context: dg.AssetCheckExecutionContext, runs: Runs) -> Iterator[dg.AssetCheckResult]:
        repeated = repeated_assets(context).get(asset)
        with runs.opened(context.partition_key, asset) as run:
            if repeated is None:
                results = engine.checks_of_stored_tables.judge(run, spec)
            else:
                results = engine.closed_runs.results(run, spec, repeated)
        if repeated is None:
            yield from _shown(context.partition_key, results, names)
        else:
            yield from (as_dagster(each, names, blocks=False) for each in results)

    return dg.multi_asset_check(
        name=names.named(f"check_{asset}"),
        specs=_specs_on(names, asset),
        pool=names.pool,
        required_resource_keys={names.named("runs")},
    )(with_runs(names, check))


def build_checks(names: Names) -> list[dg.AssetChecksDefinition]:
    """Make the checks of all assets, each with an op of its own for the checks of an asset."""
    return [_checks_on(names, spec) for spec in tables.ALL_TABLES]
