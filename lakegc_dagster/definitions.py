"""The code location: assets, checks, jobs, schedules, sensor and resources put together. Importing it starts nothing and asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster.asset_checks import MARK_CHECKS, SWEEP_CHECKS
from lakegc_dagster.assets import MARK_ASSETS, SWEEP_ASSETS, UPKEEP_ASSETS
from lakegc_dagster.io_managers import table_io_manager
from lakegc_dagster.jobs import JOBS
from lakegc_dagster.resources import Wiring, build_resources
from lakegc_dagster.schedules import build_schedules
from lakegc_dagster.sensors import build_sensors
from lakegc_dagster.settings import Settings, load_settings, no_settings, settings_are_given

if TYPE_CHECKING:
    from dagster_aws.s3 import S3Resource

    from lakegc_dagster.azure_resources import AzureResource


def build_defs(
    settings: Settings | Wiring | None, *, s3: S3Resource | None = None, azure: AzureResource | None = None
) -> dg.Definitions:
    """Build the code location for some settings.

    Args:
        settings: The settings; a wiring where clock or observer are not the usual ones; None when there are no
            settings yet, then the asset graph is shown and every run says what is missing.
        s3: The S3 resource to take credentials from; else the settings and the AWS chain are asked.
        azure: The Azure resource to take account and credentials from; else the settings and the Azure environment are asked.

    Raises:
        SettingsError: If the schedule of the settings is none.
    """
    wiring = settings if isinstance(settings, Wiring) else Wiring(settings)
    return dg.Definitions(
        assets=[*MARK_ASSETS, *SWEEP_ASSETS, *UPKEEP_ASSETS],
        asset_checks=[*MARK_CHECKS, *SWEEP_CHECKS],
        jobs=JOBS,
        schedules=build_schedules(wiring.settings),
        sensors=build_sensors(wiring.settings),
        resources={**build_resources(wiring, s3, azure), "tables": table_io_manager},
        # One process and one Spark session a run: the tables are frames that only Spark's own workers compute.
        executor=dg.in_process_executor,
        metadata={"settings": str(no_settings() if wiring.settings is None else wiring.settings.file)},
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Build the code location from `lakegc.toml`, when Dagster asks for it."""
    return build_defs(load_settings() if settings_are_given() else None)
