"""The asset of the sweep: the only place where Dagster asks the engine to delete."""

from typing import TYPE_CHECKING, Any

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.assets.declaration import table_asset
from lakegc_dagster.in_dagster.done_before import is_at_rest
from lakegc_dagster.resources import Runs
from lakegc_dagster.runs.run_config import VERDICT, SweepConfig
from spark_core.records import tables

if TYPE_CHECKING:
    from spark_core.sweep import Progress


@table_asset(
    tables.DELETION_REPORT, "sweep", "lakefs", deletes="objects", reads=False, after=[VERDICT]
)
def deletion_report(
    context: dg.AssetExecutionContext, config: SweepConfig, runs: Runs
) -> Any:  # Dagster takes no union
    """Deletes the expired addresses of a mark whose stored verdict passed.

    It says what happened to each object. A backfill begins no sweep.
    """

    def tell(progress: "Progress") -> None:
        context.log.info(str(progress))

    with runs.making(context.partition_key, tables.DELETION_REPORT, config) as run:
        return engine.closed_runs.sweep_or_stored(run, tell, may_begin=not is_at_rest(context))
