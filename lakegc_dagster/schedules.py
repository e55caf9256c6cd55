"""The nightly schedules: one run key a night for every configured repository."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import dagster as dg

from lakegc_dagster.jobs import JobName
from lakegc_dagster.partitions import add_partitions, partition_key
from lakegc_dagster.settings import Settings
from spark_core.errors import SettingsError
from spark_core.model import RunKey


@dataclass(frozen=True)
class NightlyRun:
    """One run that a night asks for.

    Attributes:
        repository_id: Repository.
        key: The night's run key, the same for all repositories.
    """

    repository_id: str
    key: RunKey

    @property
    def name(self) -> str:
        """What Dagster tells runs apart by: a tick that is evaluated twice starts it once."""
        return f"{self.repository_id}|{self.key}"

    @property
    def tags(self) -> dict[str, str]:
        """How people find it."""
        return {"lakegc/repository": self.repository_id, "lakegc/run": str(self.key)}


def nightly_runs(settings: Settings, job: JobName, scheduled: datetime) -> list[NightlyRun]:
    """Decide which repositories a tick runs a job for.

    The key is the instant that was scheduled, not the one at which somebody
    got round to it, so every repository of a night has the same.

    Args:
        settings: The settings.
        job: `mark` takes the repositories that are only marked, `mark_and_sweep` those that are swept.
        scheduled: When the tick was due.
    """
    key = RunKey.at(scheduled)
    wanted = "sweep" if job == "mark_and_sweep" else "mark"
    return [NightlyRun(name, key) for name in settings.repository_ids if settings.repository(name).mode == wanted]


def build_schedules(settings: Settings | None) -> Sequence[dg.ScheduleDefinition]:
    """Make the nightly schedules; they are off unless the settings switch them on.

    Raises:
        SettingsError: If `cron` is not a schedule.
    """
    if settings is None:
        return []
    try:
        return [_nightly(settings, "mark"), _nightly(settings, "mark_and_sweep")]
    except dg.DagsterInvalidDefinitionError as invalid:
        raise SettingsError(
            f"{settings.file or 'the settings'}: [schedule] cron is {settings.schedule.cron!r}, wanted five fields like "
            '"0 2 * * *".'
        ) from invalid


def _nightly(settings: Settings, name: JobName) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"nightly_{name}",
        job_name=name,
        cron_schedule=settings.schedule.cron,
        execution_timezone=settings.schedule.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING if settings.schedule.run else dg.DefaultScheduleStatus.STOPPED,
        description=f"Every night, `{name}` for each repository of that mode, all under one run key.",
    )
    def nightly(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        runs = nightly_runs(settings, name, context.scheduled_execution_time)
        if not runs:
            return dg.SkipReason(f"no repository of the settings has the mode that {name} is for")
        add_partitions(context.instance, [run.repository_id for run in runs], [run.key for run in runs])
        return [
            dg.RunRequest(run_key=run.name, partition_key=partition_key(run.repository_id, run.key), tags=run.tags)
            for run in runs
        ]

    return nightly
