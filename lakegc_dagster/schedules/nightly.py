"""The nightly schedules: one run key a night for every configured repository."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import dagster as dg

from lakegc_dagster.names import OWN, Names
from lakegc_dagster.partitions import add_partition
from spark_core.errors import SettingsError
from spark_core.model import RunKey
from spark_core.settings import Settings
from spark_core.settings.collected_repositories import collected_repositories

NightlyJob: TypeAlias = Literal["mark", "mark_and_sweep"]


@dataclass(frozen=True)
class WantedRun:
    """One run that a schedule or a person asks for.

    Attributes:
        repository_id: Repository.
        key: Its run key; the same for all repositories of a night.
    """

    repository_id: str
    key: RunKey

    @property
    def name(self) -> str:
        """Dagster's key for telling runs apart: a tick that is evaluated twice starts one run."""
        return f"{self.repository_id}|{self.key}"

    @property
    def tags(self) -> dict[str, str]:
        """The tags by which people find it."""
        return {"lakegc/repository": self.repository_id, "lakegc/run": str(self.key)}


def nightly_runs(settings: Settings, job: NightlyJob, scheduled: datetime) -> list[WantedRun]:
    """Decide which repositories a tick runs a job for.

    The key is the scheduled instant, not the instant of evaluation, so every repository of a night
    has the same key.

    Args:
        settings: The settings.
        job: `mark` takes the repositories that are only marked, `mark_and_sweep` the swept ones.
        scheduled: When the tick was due.

    Raises:
        LakegcError: If the settings have a pattern, and the server does not give its list.
    """
    key = RunKey.at(scheduled)
    wanted = "sweep" if job == "mark_and_sweep" else "mark"
    return [
        WantedRun(name, key)
        for name in collected_repositories(settings)
        if settings.repository(name).mode == wanted
    ]


def build_schedules(
    settings: Settings | None, names: Names = OWN
) -> Sequence[dg.ScheduleDefinition]:
    """Make the nightly schedules; they are off unless the settings switch them on.

    Raises:
        SettingsError: If `cron` is not a schedule.
    """
    if settings is None:
        return []
    try:
        return [_nightly(settings, names, job) for job in ("mark", "mark_and_sweep")]
    except dg.DagsterInvalidDefinitionError as invalid:
        raise SettingsError(
            f"{settings.file or 'the settings'}: [schedule] cron is {settings.schedule.cron!r}, "
            "wanted five fields like "
            '"0 2 * * *".'
        ) from invalid


def _nightly(settings: Settings, names: Names, job: NightlyJob) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=names.named(f"nightly_{job}"),
        job_name=names.named(job),
        cron_schedule=settings.schedule.cron,
        execution_timezone=settings.schedule.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING
        if settings.schedule.run
        else dg.DefaultScheduleStatus.STOPPED,
        description=f"Every night, `{job}` for each repository of that mode, all under one run "
        "key.",
    )
    def nightly(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        runs = nightly_runs(settings, job, context.scheduled_execution_time)
        if not runs:
            return dg.SkipReason(f"no repository of the settings has the mode that {job} is for")
        return [
            dg.RunRequest(
                run_key=run.name,
                partition_key=add_partition(context.instance, run.repository_id, run.key, names),
                tags=run.tags,
            )
            for run in runs
        ]

    return nightly
