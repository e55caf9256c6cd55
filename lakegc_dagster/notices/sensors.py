"""The sensors that tell people: of runs that failed or were refused, of what is late or waits.

They are there, and on, where `[notify]` names somebody to tell. Of runs that Dagster did not
start, whoever did tells. Dagster loads this file in all of its processes, so what sends is imported
when there is something to send.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import dagster as dg

from lakegc_dagster.assets import ASKED_ASSETS, MARK_ASSETS, SWEEP_ASSETS, UPKEEP_ASSETS
from lakegc_dagster.jobs import build_jobs
from lakegc_dagster.names import OWN, Names, asset_name
from lakegc_dagster.partitions import parse_partition_key
from lakegc_dagster.pipes.launched import STEP
from spark_core import errors
from spark_core.checks import ADVISORY
from spark_core.errors import LakegcError, SettingsError
from spark_core.json_and_toml import read_json
from spark_core.settings import Settings

if TYPE_CHECKING:
    from spark_core.notices.messages import Message
    from spark_core.report.status import RepositoryStatus

# Mostly enough to find the last good mark, and few enough for the time that a sensor has.
_NEWEST = 30

# When people have come to work; a timer with `lakegc notify` says it at any other time.
_HOUR_OF_THE_DIGEST = 8

# How often the sensor looks for what is overdue or waiting.
_CHECKED_SECONDS = 3600


def build_notify_sensors(
    settings: Settings | None, names: Names = OWN
) -> Sequence[dg.SensorDefinition]:
    """Make the sensors; none if nobody is to be told."""
    if settings is None or not settings.notify.is_on:
        return []
    if settings.notify.digest:
        return [_digest(settings, names)]
    return [_failed_and_refused(settings, names), _overdue_and_waiting(settings, names)]


def _digest(settings: Settings, names: Names) -> dg.SensorDefinition:
    @dg.sensor(
        name=names.named("tell_of_the_night"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells everybody in [notify] once a day what was reclaimed and what waits.",
    )
    def tell_of_the_night(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        now = datetime.now(UTC)
        before = None if context.cursor is None else datetime.fromisoformat(context.cursor)
        if before is not None and not digest_is_due(settings, before, now):
            return dg.SkipReason("the next one is not due")
        if before is not None:
            from spark_core.notices.digest import digest_of
            from spark_core.notices.sending import tell
            from spark_core.stored_runs.overview import overview

            rows = [past.row for past in overview(settings, newest=_NEWEST)]
            tell(settings, digest_of(rows, before))
        # The first tick only begins to count.
        context.update_cursor(now.isoformat())
        return dg.SkipReason("the digest was sent" if before else "the first one is due tomorrow")

    return tell_of_the_night


def digest_is_due(settings: Settings, before: datetime, now: datetime) -> bool:
    """Say whether the hour of the digest came between two instants.

    Args:
        settings: The time zone that the hour is meant in.
        before: When the last one was sent.
        now: The time.
    """
    there = now.astimezone(ZoneInfo(settings.schedule.timezone))
    today = there.replace(hour=_HOUR_OF_THE_DIGEST, minute=0, second=0, microsecond=0)
    last = today if today <= there else today - timedelta(days=1)
    return before < last


def _failed_and_refused(settings: Settings, names: Names) -> dg.SensorDefinition:
    @dg.run_failure_sensor(
        name=names.named("tell_of_failed_and_refused_runs"),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells everybody in [notify] of each run that failed or was refused.",
    )
    def tell_of_failed_and_refused_runs(context: dg.RunFailureSensorContext) -> None:
        from spark_core.notices.sending import tell

        message = message_of(context, names)
        if message is not None:
            went = tell(settings, message)
            context.log.info("%s: told %s", message.title, ", ".join(went) or "nobody")

    return tell_of_failed_and_refused_runs


def message_of(context: dg.RunFailureSensorContext, names: Names = OWN) -> "Message | None":
    """Make the message about a failed run; None if it is not lakegc's.

    Args:
        context: The run.
        names: Those of the collector whose sensor it is; the runs of another are not its own.
    """
    from spark_core.notices import messages

    run = context.dagster_run
    partition = run.tags.get("dagster/partition", "")
    if not _is_of(context, names) or "|" not in partition:
        return None
    try:
        repository_id, key = (str(part) for part in parse_partition_key(partition))
    except SettingsError:
        # Somebody typed a key that is no instant; the partition is all that is known.
        repository_id, _, key = partition.partition("|")
    failing = _failed_checks(context)
    if failing:
        return messages.of_checks(repository_id, key, failing)
    for event in context.get_step_failure_events():
        failure = event.step_failure_data.user_failure_data
        if failure is not None and failure.description:
            kind = failure.metadata.get("error")
            text = failure.description.partition(": ")[2]
            return messages.of_error(repository_id, key, _error(kind, text))
    words = context.failure_event.message or "the run failed, and Dagster does not say why"
    return messages.of_error(repository_id, key, LakegcError(words))


def _is_of(context: dg.RunFailureSensorContext, names: Names) -> bool:
    """Say whether a run is a collector's: one of its jobs, or another with its tags and assets."""
    run = context.dagster_run
    if run.job_name in {job.name for job in build_jobs(names).values()}:
        return True
    assets = [*MARK_ASSETS, *SWEEP_ASSETS, *UPKEEP_ASSETS, *ASKED_ASSETS]
    steps = {names.op(asset.name) for asset in assets}
    steps |= {names.named(STEP), *(names.named(f"check_{asset.name}") for asset in assets)}
    failed = {event.step_key for event in context.get_step_failure_events()}
    return "lakegc/repository" in run.tags and bool(failed & steps)


def _failed_checks(context: dg.RunFailureSensorContext) -> Mapping[str, str]:
    """Return the blocking checks of the mark that failed in the run, with their sentences."""
    records = context.instance.all_logs(
        context.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
    )
    found = (
        record.dagster_event.asset_check_evaluation_data
        for record in records
        if record.dagster_event is not None
    )
    return {
        check.check_name: check.description or ""
        for check in found
        if not check.passed
        and check.check_name not in ADVISORY
        and asset_name(check.asset_key) != "deletion_report"
    }


def _error(kind: object, text: str) -> LakegcError:
    """Make an error of the class that a failure's metadata names."""
    named = getattr(errors, str(getattr(kind, "value", "")), LakegcError)
    made: LakegcError = named.from_message(text)
    return made


def _overdue_and_waiting(settings: Settings, names: Names) -> dg.SensorDefinition:
    @dg.sensor(
        name=names.named("tell_of_overdue_and_waiting_repositories"),
        minimum_interval_seconds=_CHECKED_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells everybody in [notify] of repositories whose last good mark is too "
        "long ago (once a day), and of objects that wait for a confirmation (once for a run).",
    )
    def tell_of_overdue_and_waiting_repositories(
        context: dg.SensorEvaluationContext,
    ) -> dg.SkipReason:
        from spark_core.notices.sending import tell
        from spark_core.stored_runs.overview import overview

        statuses = [past.status for past in overview(settings, newest=_NEWEST)]
        sent_before = frozenset(read_json(context.cursor or "[]"))
        due = due_messages(statuses, datetime.now(UTC))
        # Where sending fails, those who were told are told again: twice is better than never.
        for name, message in due.items():
            if name not in sent_before:
                tell(settings, message)
        context.update_cursor(json.dumps(sorted(due)))
        return dg.SkipReason(f"{len(set(due) - sent_before)} messages were sent")

    return tell_of_overdue_and_waiting_repositories


def due_messages(statuses: Iterable["RepositoryStatus"], now: datetime) -> dict[str, "Message"]:
    """Return what there is to tell now, by a name under which it is told once.

    Args:
        statuses: How each repository stands.
        now: The time.
    """
    from spark_core.notices.messages import of_status

    found = {}
    for status in statuses:
        for message in of_status(status):
            once = message.run or f"{now:%Y-%m-%d}"
            found[f"{message.event}|{status.repository}|{once}"] = message
    return found
