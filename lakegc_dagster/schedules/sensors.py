"""The sensor that lets Dagster know the configured repositories and the night's run key."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from lakegc_dagster.in_dagster.pool_limit import limit_pool
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.partitions import repositories_of, runs_of
from lakegc_dagster.schedules.known_repositories import remember_repositories
from lakegc_dagster.schedules.ticks import time_windows
from spark_core.model import RunKey
from spark_core.settings import Settings
from spark_core.settings.collected_repositories import collected_repositories


@dataclass(frozen=True)
class NewPartitions:
    """Keys that Dagster does not know yet."""

    repositories: list[str]
    runs: list[str]


def new_partitions(
    configured: Sequence[str],
    known_repositories: Sequence[str],
    known_runs: Sequence[str],
    night: RunKey,
) -> NewPartitions:
    """Decide which keys to add.

    A repository that left the settings stays, because people may still look at its history. Nothing
    is added while no repository is configured.

    Args:
        configured: Repositories of the settings.
        known_repositories: Repositories that Dagster knows.
        known_runs: Runs that Dagster knows.
        night: The latest night.
    """
    runs = [str(night)] if configured and str(night) not in known_runs else []
    return NewPartitions([name for name in configured if name not in known_repositories], runs)


def latest_night(cron: str, timezone: str, now: datetime) -> RunKey:
    """Return the run key of the last instant that a schedule was due at or before `now`."""
    window = time_windows(cron, timezone).get_prev_partition_window(now)
    if window is None:
        raise ValueError(f"no night of {cron!r} lies before {now.isoformat()}")
    return RunKey.at(window.end)


def build_sensors(settings: Settings | None, names: Names = OWN) -> Sequence[dg.SensorDefinition]:
    """Make the sensor; it only adds keys, so it is on from the start."""
    if settings is None:
        return []
    schedule = settings.schedule

    @dg.sensor(
        name=names.named("configured_repositories"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Lets Dagster know each repository of the settings and the night's run key, "
        "as partitions, and gives the pool of the runs its limit.",
    )
    def configured_repositories(
        context: dg.SensorEvaluationContext,
    ) -> dg.SensorResult | dg.SkipReason:
        told = limit_pool(context.instance, names.pool)
        if told is not None:
            context.log.info(told)
        collected = collected_repositories(settings)
        if settings.repository_patterns and remember_repositories(settings, names, collected):
            context.log.info("Reload the definitions to see the assets of all repositories.")
        new = new_partitions(
            collected,
            context.instance.get_dynamic_partitions(names.named("repository")),
            context.instance.get_dynamic_partitions(names.named("run")),
            latest_night(schedule.cron, schedule.timezone, datetime.now(UTC)),
        )
        requests = [
            definition.build_add_request(keys)
            for definition, keys in (
                (repositories_of(names), new.repositories),
                (runs_of(names), new.runs),
            )
            if keys
        ]
        if not requests:
            return dg.SkipReason("every configured repository and the night's run are known")
        return dg.SensorResult(dynamic_partitions_requests=requests)

    return [configured_repositories]
