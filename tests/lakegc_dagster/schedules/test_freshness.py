"""When Dagster shows that the collector has stopped."""

from datetime import timedelta

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from spark_core.settings import Settings
from spark_core.settings.sections import ScheduleSettings
from spark_core.settings.ticks import longest_pause


def policies(settings):
    specs = build_defs(settings).resolve_all_asset_specs()
    return {
        spec.key.to_user_string(): spec.freshness_policy
        for spec in specs
        if spec.freshness_policy is not None
    }


def settings(**more):
    document = {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": {"one": {}}}
    return Settings.model_validate(document | more)


@pytest.mark.parametrize(
    ("cron", "hours"),
    [
        ("0 2 * * *", 24),
        ("0 2 * * 1-5", 72),
        ("0 2 * * 1,5", 96),
        ("0 */6 * * *", 6),
        ("0 2 1 * *", 31 * 24),
        # From Friday at 23:00 to Monday at 0:00.
        ("0 * * * 1-5", 49),
        # From the last night of June to New Year.
        ("0 2 * 1-6 *", 185 * 24),
        ("*/20 8-17 * * *", 14 + 1 / 3),
        ("0 0,1,12 * * *", 12),
        ("0 2 1 * 1", 7 * 24),
        ("* * * * *", 1 / 60),
    ],
)
@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
def test_the_longest_pause_of_a_schedule_is_found_although_its_ticks_are_not_alike(
    cron, hours, timezone
):
    schedule = ScheduleSettings(cron=cron, timezone=timezone)
    assert longest_pause(schedule) == timedelta(hours=hours)


@pytest.mark.parametrize(("cron", "days"), [("0 2 1 1 *", 366), ("0 2 29 2 *", 1461)])
def test_so_is_that_of_one_with_a_tick_a_year(cron, days):
    schedule = ScheduleSettings(cron=cron, timezone="Asia/Kolkata")
    assert longest_pause(schedule) == timedelta(days=days)


def test_a_repository_is_late_after_half_a_pause_too_many_and_has_stopped_after_a_whole_one():
    policy = policies(settings(schedule={"cron": "0 2 * * 1-5"}))["repositories/one"]
    assert policy == dg.FreshnessPolicy.time_window(
        fail_window=timedelta(days=6), warn_window=timedelta(hours=108)
    )


def test_each_repository_has_a_policy_of_its_own_and_nothing_else_has_one():
    assert policies(None) == {}
    two = settings(repositories={"one": {}, "two": {"mode": "sweep"}})
    assert set(policies(two)) == {"repositories/one", "repositories/two"}
