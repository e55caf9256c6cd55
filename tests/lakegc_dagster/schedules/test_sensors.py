"""Which partitions the sensor adds, decided without Dagster, and what Dagster is told."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.schedules.sensors import latest_night, new_partitions
from spark_core.model import RunKey
from spark_core.settings import Settings

NIGHT = RunKey(datetime(2026, 11, 20, 2, tzinfo=UTC))
NAMES = st.lists(st.sampled_from(["one", "two", "three", "four"]), unique=True)


def test_what_dagster_does_not_know_is_added():
    new = new_partitions(["one", "two"], ["one"], [], NIGHT)
    assert (new.repositories, new.runs) == (["two"], ["2026-11-20T02-00-00Z"])


@pytest.mark.slow
@given(NAMES, NAMES, st.booleans())
def test_afterwards_every_configured_repository_is_known_and_nothing_is_added_twice(
    configured, known, night_known
):
    runs = [str(NIGHT)] if night_known else []
    new = new_partitions(configured, known, runs, NIGHT)
    assert set(known) | set(new.repositories) == set(known) | set(configured)
    assert set(new.repositories).isdisjoint(known)
    assert new.runs == ([] if night_known or not configured else [str(NIGHT)])
    again = new_partitions(configured, known + new.repositories, runs + new.runs, NIGHT)
    assert (again.repositories, again.runs) == ([], [])


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-1, "2026-11-19T01-00-00Z"), (0, "2026-11-20T01-00-00Z"), (1, "2026-11-20T01-00-00Z")],
)
def test_the_night_begins_at_the_instant_that_the_schedule_is_due(seconds, expected):
    due = datetime(2026, 11, 20, 1, tzinfo=UTC)  # 2 o'clock in Berlin
    assert (
        str(latest_night("0 2 * * *", "Europe/Berlin", due + timedelta(seconds=seconds)))
        == expected
    )


def test_the_night_of_the_sensor_never_lies_in_the_future():
    now = datetime.now(UTC)
    assert latest_night("*/5 * * * *", "UTC", now).instant <= now


def evaluate(instance, repositories):
    settings = Settings.model_validate(
        {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": repositories}
    )
    sensor = build_defs(settings).resolve_sensor_def("configured_repositories")
    return sensor.evaluate_tick(dg.build_sensor_context(instance=instance))


def test_the_sensor_adds_repositories_and_the_nights_run_and_then_rests():
    with dg.DagsterInstance.ephemeral() as instance:
        asked = evaluate(instance, {"one": {}}).dynamic_partitions_requests
        assert [
            (request.partitions_def_name, list(request.partition_keys)) for request in asked
        ] == [
            ("repository", ["one"]),
            ("run", [str(latest_night("0 2 * * *", "UTC", datetime.now(UTC)))]),
        ]
        for request in asked:
            instance.add_dynamic_partitions(
                request.partitions_def_name, list(request.partition_keys)
            )
        rest = evaluate(instance, {"one": {}})
        assert not rest.dynamic_partitions_requests
        assert "are known" in rest.skip_message


def test_without_repositories_the_sensor_adds_nothing():
    with dg.DagsterInstance.ephemeral() as instance:
        assert not evaluate(instance, {}).dynamic_partitions_requests
