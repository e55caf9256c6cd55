"""The sensor that keeps Dagster in step with the settings: repositories, pool, older homes."""

from collections.abc import Sequence

import dagster as dg

from lakegc_dagster.in_dagster.pool_limit import limit_pool
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.partitions import carry_over
from lakegc_dagster.schedules.known_repositories import remember_repositories
from spark_core.settings import Settings
from spark_core.settings.collected_repositories import collected_repositories

# The sensor's cursor once the runs of version 0.1.0 are partitions of now.
_CARRIED_OVER = "repository_run"


def build_sensors(settings: Settings | None, names: Names = OWN) -> Sequence[dg.SensorDefinition]:
    """Make the sensor; it starts nothing, so it is on from the start."""
    if settings is None:
        return []

    @dg.sensor(
        name=names.named("configured_repositories"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Remembers which repositories the patterns of the settings match, for their "
        "assets, and gives the pool of the runs its limit.",
    )
    def configured_repositories(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        told = limit_pool(context.instance, names.pool)
        if told is not None:
            context.log.info(told)
        if context.cursor != _CARRIED_OVER:
            carry_over(context.instance, names)
            context.update_cursor(_CARRIED_OVER)
        if settings.repository_patterns and remember_repositories(
            settings, names, collected_repositories(settings)
        ):
            context.log.info("Reload the definitions to see the assets of all repositories.")
        return dg.SkipReason("it starts no run")

    return [configured_repositories]
