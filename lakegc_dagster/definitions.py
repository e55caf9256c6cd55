"""The code location: assets, checks, jobs, schedules, sensors and resources put together.

Importing it starts nothing and sends no request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster.asset_checks import MARK_CHECKS, SWEEP_CHECKS
from lakegc_dagster.assets.repositories import build_repositories
from lakegc_dagster.freshness import assets_with_freshness
from lakegc_dagster.io_managers import table_io_manager
from lakegc_dagster.jobs import JOBS
from lakegc_dagster.notices.sensors import build_notify_sensors
from lakegc_dagster.resources import Wiring, build_resources
from lakegc_dagster.schedules import build_schedules
from lakegc_dagster.sensors import build_sensors
from lakegc_dagster.start_run import build_start_run
from spark_core.settings import Settings, load_settings, no_settings, settings_are_given

if TYPE_CHECKING:
    from dagster_aws.s3 import S3Resource

    from lakegc_dagster.resources.azure import AzureResource


def build_defs(
    settings: Settings | None,
    *,
    s3: S3Resource | None = None,
    azure: AzureResource | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """Build the code location for some settings.

    `dg.Definitions.merge` puts it together with others. If both have a resource (`s3`, `azure`),
    both must be given the same object; `spark`, `runs` and `tables` are lakegc's own.

    Args:
        settings: The settings; None when there are none yet, then the asset graph is shown and
            every run says what is missing.
        s3: The S3 resource to take credentials from; else the settings and the AWS chain give them.
        azure: The Azure resource to take account and credentials from; else the settings and the
            Azure environment give them.
        executor: The executor of what is started outside the jobs, which have their own; None if
            the definitions to merge with have one.

    Raises:
        SettingsError: If the schedule of the settings is no schedule.
    """
    schedules = build_schedules(
        settings
    )  # first: it says what is wrong with the schedule of the settings
    overview, overview_schedules = build_repositories(settings)
    request_jobs, request_sensors = build_start_run(settings)
    return dg.Definitions(
        assets=[*assets_with_freshness(settings), *overview],
        asset_checks=[*MARK_CHECKS, *SWEEP_CHECKS],
        jobs=[*JOBS, *request_jobs],
        schedules=[*schedules, *overview_schedules],
        sensors=[
            *build_sensors(settings),
            *build_notify_sensors(settings),
            *request_sensors,
        ],
        resources={**build_resources(Wiring(settings), s3, azure), "tables": table_io_manager},
        executor=executor,
        metadata={"settings": str(no_settings() if settings is None else settings.file)},
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Build the code location from `lakegc.toml` when Dagster asks for it."""
    return build_defs(load_settings() if settings_are_given() else None)
