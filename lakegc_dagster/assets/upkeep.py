"""The asset that cleans up after a run: the only place where Dagster asks the engine to prune and to end quarantine."""

from typing import Any

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.assets.mark import verdict
from lakegc_dagster.assets.sweep import deletion_report
from lakegc_dagster.metadata import figures_metadata
from lakegc_dagster.partitions import REPOSITORY_RUN, forget_runs
from lakegc_dagster.resources import Runs


@dg.asset(group_name="upkeep", partitions_def=REPOSITORY_RUN, deps=[verdict, deletion_report])
def house_keeping(context: dg.AssetExecutionContext, runs: Runs) -> dg.MaterializeResult[Any]:
    """Deletes lakegc's own tables of old runs, and objects whose days in quarantine are over, after a run that did its work."""
    with runs.opened(context.partition_key, "house_keeping") as run:
        house = engine.housekeeping.after_run(run)
        keep = runs.longest_kept(run.options.keep_runs)
    runs.observer.kept_house(house)
    context.log.info(house.words)
    # Outside: what Dagster's storage raises is no word about what was deleted.
    forget_runs(context.instance, house.pruned.runs, keep)
    return dg.MaterializeResult(metadata=figures_metadata(house.facts))
