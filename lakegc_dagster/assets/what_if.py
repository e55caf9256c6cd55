"""The asset that asks what other rules would free; its job is started by hand."""

from typing import Any

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.assets.declaration import declared
from lakegc_dagster.headlines import of_what_if
from lakegc_dagster.in_dagster.done_before import is_at_rest, repeated_metadata
from lakegc_dagster.metadata import page_metadata, work_metadata
from lakegc_dagster.resources import Runs
from lakegc_dagster.runs.run_config import VERDICT
from spark_core.run.local_path import page_to_open

_NAME = "what_if"


@declared(_NAME, "overview", "spark", "lakefs", after=[VERDICT])
def what_if(context: dg.AssetExecutionContext, runs: Runs) -> dg.MaterializeResult[Any]:
    """What would be free if every branch kept 1, 3, 7, ... 90 days, by the listing of a mark.

    It costs about as much as a mark, so no nightly job makes it. The page of the run shows
    the curve from then on.
    """
    if is_at_rest(context):
        return dg.MaterializeResult(metadata=repeated_metadata(engine.closed_runs.AT_REST))
    with runs.opened(context.partition_key, _NAME) as run:
        found = engine.explain.what_if(run)
        curve = engine.explain.keep_answer(run, found, engine.explain.DAYS)
        page = page_metadata(page_to_open(run, engine.report.page_of(run)))
        told = of_what_if(curve, run.options.price)
    worked = work_metadata(runs.work_of(context.partition_key, _NAME))
    return dg.MaterializeResult(metadata={**told, **page, **worked})
