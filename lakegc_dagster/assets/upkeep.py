"""The asset that cleans up after a run.

It is the only place where Dagster asks the engine to prune and to end quarantine.
"""

from typing import Any

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.assets.declaration import declared
from lakegc_dagster.assets.of_repositories import report_run
from lakegc_dagster.headlines import of_house_keeping
from lakegc_dagster.in_dagster.done_before import is_at_rest, repeated_metadata
from lakegc_dagster.metadata import above, counters_metadata, work_metadata
from lakegc_dagster.resources import Runs
from lakegc_dagster.runs.run_config import HOUSE_KEEPING, VERDICT, LeaseConfig
from spark_core.records.tables import DELETION_REPORT


@declared(
    HOUSE_KEEPING,
    "upkeep",
    "parquet",
    deletes="old_tables",
    after=[VERDICT, DELETION_REPORT.name],
)
def house_keeping(
    context: dg.AssetExecutionContext, config: LeaseConfig, runs: Runs
) -> dg.MaterializeResult[Any]:
    """Deletes lakegc's own tables of old runs, and objects whose days in quarantine are over.

    It does so only after a run that did its work.
    """
    if is_at_rest(context):
        return dg.MaterializeResult(
            metadata={
                **repeated_metadata(engine.closed_runs.AT_REST),
                **of_house_keeping(engine.closed_runs.AT_REST),
            }
        )
    with runs.opened(context.partition_key, HOUSE_KEEPING, config) as run:
        house = engine.house_keeping.after_run(run)
    context.log.info(house.words)
    # Outside the block, because an error of Dagster's storage says nothing about what was deleted.
    report_run(context, runs.names, may_sweep=run.options.may_sweep)
    worked = work_metadata(runs.work_of(context.partition_key, HOUSE_KEEPING))
    told = above(of_house_keeping(house.words), counters_metadata(house.facts))
    return dg.MaterializeResult(metadata={**told, **worked})
