"""What a night runs, decided without Dagster, and what Dagster is told."""

from contextlib import contextmanager
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.schedules.nightly import nightly_runs
from spark_core.errors import SettingsError
from spark_core.settings import Settings

NIGHT = datetime(2026, 11, 20, 2, tzinfo=UTC)


def settings(**more):
    return Settings.model_validate(
        {
            "server": {"endpoint": "http://127.0.0.1:9"},
            "throwaway_repositories": ["demo"],
            "repositories": {"first": {}, "second": {}, "demo": {"mode": "sweep"}},
            **more,
        }
    )


def schedule(name, **more):
    return build_defs(settings(**more)).resolve_schedule_def(name)


def test_every_repository_of_a_night_has_the_same_run_key():
    runs = nightly_runs(settings(), "mark", NIGHT)
    assert [(run.repository_id, str(run.key)) for run in runs] == [
        ("first", "2026-11-20T02-00-00Z"),
        ("second", "2026-11-20T02-00-00Z"),
    ]


def test_each_repository_runs_in_the_job_of_its_mode_and_in_no_other():
    marked = {run.repository_id for run in nightly_runs(settings(), "mark", NIGHT)}
    swept = {run.repository_id for run in nightly_runs(settings(), "mark_and_sweep", NIGHT)}
    assert swept == {"demo"}
    assert marked.isdisjoint(swept)
    assert marked | swept == set(settings().repository_ids)


def test_the_run_key_is_the_scheduled_instant_in_utc_whatever_the_time_zone():
    (run, *_) = nightly_runs(
        settings(), "mark", datetime(2026, 7, 1, 2, tzinfo=ZoneInfo("Europe/Berlin"))
    )
    assert str(run.key) == "2026-07-01T00-00-00Z"


@contextmanager
def tick(name, **more):
    """What a schedule answers when it is due at NIGHT, and the instance that it answered on."""
    code_location = build_defs(settings(**more))
    with (
        dg.instance_for_test() as instance,
        dg.build_schedule_context(
            instance=instance,
            scheduled_execution_time=NIGHT,
            repository_def=code_location.get_repository_def(),
        ) as context,
    ):
        yield code_location.resolve_schedule_def(name).evaluate_tick(context), instance


def test_a_tick_asks_for_one_run_per_repository_with_partition_and_tags():
    with tick("nightly_mark") as (answer, instance):
        asked = answer.run_requests
        assert [(request.run_key, request.partition_key) for request in asked] == [
            (f"{name}|2026-11-20T02-00-00Z", f"{name}|2026-11-20T02-00-00Z")
            for name in ("first", "second")
        ]
        assert asked[0].tags["lakegc/repository"] == "first"
        assert asked[0].tags["lakegc/run"] == "2026-11-20T02-00-00Z"
        known = instance.get_dynamic_partitions("repository_run")
        assert known == [request.partition_key for request in asked]


def test_a_night_without_repositories_of_a_mode_is_skipped_and_says_so():
    with tick("nightly_mark_and_sweep", repositories={"first": {}}) as (answer, instance):
        assert not answer.run_requests
        assert (
            "no repository of the settings has the mode that mark_and_sweep is for"
            in answer.skip_message
        )
        assert instance.get_dynamic_partitions("repository_run") == []


def test_schedules_are_off_until_the_settings_switch_them_on():
    names = ("nightly_mark", "nightly_mark_and_sweep")
    assert {schedule(name).default_status for name in names} == {dg.DefaultScheduleStatus.STOPPED}
    assert {schedule(name, schedule={"run": True}).default_status for name in names} == {
        dg.DefaultScheduleStatus.RUNNING
    }


def test_the_settings_say_when_and_in_whose_hours():
    nightly = schedule("nightly_mark", schedule={"cron": "30 3 * * 1", "timezone": "Europe/Berlin"})
    assert (nightly.cron_schedule, nightly.execution_timezone) == ("30 3 * * 1", "Europe/Berlin")


def test_a_cron_that_is_none_is_refused_with_its_place():
    with pytest.raises(
        SettingsError, match=r"\[schedule\] cron is 'every night', wanted five fields like"
    ):
        build_defs(settings(schedule={"cron": "every night"}))
