"""The asset that sums up all repositories of the settings, and the schedule that makes it."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from lakegc_dagster.headlines import of_repositories
from lakegc_dagster.in_dagster.failures import raising_failures
from lakegc_dagster.metadata import work_metadata
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.runs.run_config import HOUSE_KEEPING, VERDICT
from spark_core.phases import NOTHING_DELETED, phase
from spark_core.settings import Settings
from spark_core.spark import placement

NAME = "repositories"
# Enough for the sums of the last 30 days where a night has a run, and few enough to be read every
# hour. If there are more, the text says so.
_NEWEST = 60


def build_repositories(
    settings: Settings | None, names: Names = OWN
) -> tuple[Sequence[dg.AssetsDefinition], Sequence[dg.ScheduleDefinition]]:
    """Make the asset, and the schedule with its job; neither while there are no settings.

    The schedule is on if the nightly one is.
    """
    if settings is None:
        return [], []

    @dg.asset(
        key=names.key(NAME),
        group_name=names.named("overview"),
        kinds={"json"},
        # Neither is a table: the run of a table's reader would start Spark.
        deps=[names.key(VERDICT), names.key(HOUSE_KEEPING)],
        owners=list(names.owners),
        tags={"lakegc/deletes": "nothing"},
    )
    def repositories() -> dg.MaterializeResult[Any]:
        """How each repository of the settings stands: last good runs, what waits, what is late.

        It is read from the stores, so runs of every machine are in it. The plots show the figures
        of each repository apart.
        """
        from spark_core.stored_runs.overview import overview

        before = placement.work_so_far()
        with raising_failures(lambda _error: None), phase(NOTHING_DELETED):
            found = [past.status for past in overview(settings, newest=_NEWEST)]
        worked = work_metadata(placement.work_so_far().since(before))
        return dg.MaterializeResult(metadata={**of_repositories(found), **worked})

    return [repositories], [_hourly(settings, names)]


def _hourly(settings: Settings, names: Names) -> dg.ScheduleDefinition:
    job = dg.define_asset_job(
        names.named("overview"),
        selection=dg.AssetSelection.assets(names.key(NAME)),
        description="Read how each repository stands; starts no Spark and deletes nothing.",
        executor_def=dg.in_process_executor,
    )
    return dg.ScheduleDefinition(
        name=names.named("hourly_overview"),
        job=job,
        cron_schedule="50 * * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING
        if settings.schedule.run
        else dg.DefaultScheduleStatus.STOPPED,
        description="Every hour, how each repository of the settings stands.",
    )
