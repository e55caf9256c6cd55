"""The code location: assets, checks, jobs, schedules, sensors and resources put together.

Importing it starts nothing and sends no request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster.asset_checks import build_checks
from lakegc_dagster.assets import ALL_ASSETS
from lakegc_dagster.assets.of_repositories import build_assets_of_repositories
from lakegc_dagster.assets.repositories import build_repositories
from lakegc_dagster.io_managers import build_table_io_manager
from lakegc_dagster.jobs import build_jobs
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.notices.sensors import build_notify_sensors
from lakegc_dagster.pipes.launched import STEP, build_launched
from lakegc_dagster.pipes.launchers import Launcher, launcher_of
from lakegc_dagster.resources import Wiring, build_resources
from lakegc_dagster.runs_made_elsewhere import build_runs_made_elsewhere
from lakegc_dagster.schedules.known_repositories import known_repositories
from lakegc_dagster.schedules.nightly import build_schedules
from lakegc_dagster.schedules.sensors import build_sensors
from lakegc_dagster.schedules.start_run import build_start_run
from spark_core.settings import Settings, load_settings, no_settings, settings_are_given

if TYPE_CHECKING:
    from dagster_aws.s3 import S3Resource

    from lakegc_dagster.resources.azure import AzureResource


def build_defs(
    settings: Settings | None,
    *,
    names: Names = OWN,
    s3: S3Resource | None = None,
    azure: AzureResource | None = None,
    launcher: Launcher | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """Build the code location for some settings.

    `dg.Definitions.merge` puts it together with others. Under a prefix nothing in it has a name
    that another part of the project could have, so it may be there twice, too.

    Args:
        settings: The settings; None when there are none yet, then the asset graph is shown and
            every run says what is missing.
        names: What its assets, jobs, pool, partitions and so on are called.
        s3: The S3 resource to take credentials from; else the settings and the AWS chain give them.
        azure: The Azure resource to take account and credentials from; else the settings and the
            Azure environment give them.
        launcher: Starts each run elsewhere, by a client of Dagster's pipes; left out, what the
            settings say.
        executor: The executor of what is started outside the jobs, which have their own; None if
            the definitions to merge with have one.

    Raises:
        SettingsError: If the schedule of the settings is no schedule.
    """
    schedules = build_schedules(
        settings, names
    )  # first: it says what is wrong with the schedule of the settings
    overview, overview_schedules = build_repositories(settings, names)
    jobs = build_jobs(names)
    launcher = launcher or launcher_of(settings)
    request_jobs, request_sensors = build_start_run(
        settings, jobs, names, step=None if launcher is None else STEP
    )
    resources = build_resources(Wiring(settings, names=names), s3, azure)
    resources["tables"] = build_table_io_manager(names)
    assets: Sequence[dg.AssetsDefinition] = [asset.make(names) for asset in ALL_ASSETS]
    of_repositories, due = build_assets_of_repositories(
        settings, known_repositories(settings, names), names
    )
    checks = build_checks(names)
    if settings is not None and launcher is not None:
        *of_a_run, asked = assets
        assets, checks = [build_launched(settings, names, of_a_run, launcher), asked], []
    return dg.Definitions(
        assets=[*assets, *overview, *of_repositories],
        asset_checks=checks,
        jobs=[*jobs.values(), *request_jobs],
        schedules=[*schedules, *overview_schedules],
        sensors=[
            *build_sensors(settings, names),
            *build_runs_made_elsewhere(settings, names),
            *build_notify_sensors(settings, names),
            *request_sensors,
            *due,
        ],
        resources={names.named(key): resource for key, resource in resources.items()},
        executor=executor,
        metadata={
            names.named("settings"): str(no_settings() if settings is None else settings.file)
        },
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Build the code location from `lakegc.toml` when Dagster asks for it."""
    return build_defs(load_settings() if settings_are_given() else None)
