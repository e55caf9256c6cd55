"""When Dagster's sensors tell people, and of what."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.notices.sensors import digest_is_due, due_messages, message_of
from spark_core.notices.messages import of_status
from spark_core.report.status import RepositoryStatus
from spark_core.stored_runs.overview import Past
from tests.lakegc_dagster.conftest import new_key
from tests.spark_core.notices.test_messages import NOW, OVERDUE, SHARE, WAITING, settings
from tests.spark_core.report.test_fleet_page import IN_ORDER
from tests.support.listeners import http_listener


@pytest.fixture
def web():
    with http_listener() as server:
        yield server


def test_what_is_overdue_is_told_once_a_day_and_what_waits_once_for_a_run():
    assert list(due_messages([WAITING, OVERDUE], NOW)) == [
        "waiting|repo|2026-11-20T01-00-00Z",
        "overdue|repo|2026-11-20",
    ]
    (waits,) = of_status(WAITING)
    assert (
        waits.text
        == f"2 objects, 20 bytes, wait for confirmation of {SHARE}. {SHARE}: 61% would go."
    )
    assert waits.next_step == WAITING.next_step
    (late,) = of_status(OVERDUE)
    assert (late.text, late.next_step) == ("No mark of it ever passed.", "lakegc runs repo")


def test_a_repository_in_order_has_nothing_to_tell():
    assert due_messages([RepositoryStatus("repo", waits_for="a sweep", waiting=(1, 1))], NOW) == {}


def sensors(made):
    return {sensor.name: sensor for sensor in build_defs(made).sensors}


def test_without_anybody_to_tell_there_are_no_sensors():
    assert set(sensors(settings())) == {
        "configured_repositories",
        "due_repositories",
        "requested_runs",
        "runs_made_elsewhere",
    }
    on = sensors(settings(webhook_env="HOOK"))
    assert set(on) == {
        "due_repositories",
        "configured_repositories",
        "requested_runs",
        "runs_made_elsewhere",
        "tell_of_failed_and_refused_runs",
        "tell_of_overdue_and_waiting_repositories",
    }
    # It takes the place of a schedule, and so somebody switches it on.
    assert on.pop("due_repositories").default_status is dg.DefaultSensorStatus.STOPPED
    assert {each.default_status for each in on.values()} == {dg.DefaultSensorStatus.RUNNING}


def test_the_sensor_tells_what_is_new_and_remembers_it(web, monkeypatch):
    shown = [WAITING]
    monkeypatch.setattr(
        "spark_core.stored_runs.overview.overview",
        lambda _settings, newest: [Past(each.repository, (), each) for each in shown],
    )
    sensor = sensors(settings({"HOOK": web.url}, webhook_env="HOOK"))[
        "tell_of_overdue_and_waiting_repositories"
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        first = sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
        assert "1 messages" in first.skip_message
        shown.append(OVERDUE)
        again = sensor.evaluate_tick(
            dg.build_sensor_context(instance=instance, cursor=first.cursor)
        )
        assert "1 messages" in again.skip_message
    assert [body["event"] for _, body in web.got] == ["waiting", "overdue"]


def failed_run(ground, result, **changed):
    """The context in which Dagster calls the sensor after a failed run."""
    run = ground.instance.get_run_by_id(result.run_id)
    (event,) = [each for each in result.all_events if each.is_run_failure]
    return dg.build_run_status_sensor_context(
        sensor_name="tell_of_failed_and_refused_runs",
        dagster_event=event,
        dagster_instance=ground.instance,
        dagster_run=run._replace(**changed),
    ).for_run_failure()


@pytest.mark.slow
@pytest.mark.spark
def test_the_sensor_tells_of_a_mark_that_a_check_refuses(ground, web):
    strict = ground.with_settings(share_from_objects=1, max_expired_share=0.0)
    key = new_key()
    result = strict.job("mark", key)
    assert not result.success
    made = settings({"HOOK": web.url}, webhook_env="HOOK")
    sensor = sensors(made)["tell_of_failed_and_refused_runs"]
    sensor(failed_run(ground, result))
    ((_, body),) = web.got
    assert (body["event"], body["repository"], body["run"]) == (
        "refused", ground.repository_id, str(key),
    )  # fmt: skip
    assert body["text"].startswith(f"{SHARE}: ")
    assert body["text"].endswith("No sweep began.")
    assert body["next_step"] == f"lakegc confirm {ground.repository_id} {SHARE} --run {key}"


@pytest.mark.spark
def test_the_sensor_tells_of_a_run_that_an_error_ends_in_its_own_words(ground):
    key = new_key(ago=-timedelta(days=2))
    # A wrong request of a person is canceled, and nobody is told.
    scheduled = {"dagster/schedule_name": "nightly_mark"}
    message = message_of(failed_run(ground, ground.job("mark", key, tags=scheduled)))
    assert (message.event, message.run) == ("refused", str(key))
    assert message.text.startswith(f"run key {key} lies in the future")
    assert message.text.endswith("Nothing was deleted.")


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_of_somebody_else_is_not_told_by_the_sensor(ground):
    @dg.job
    def theirs():
        @dg.op
        def breaks():
            raise ValueError("not ours")

        breaks()

    result = theirs.execute_in_process(instance=ground.instance, raise_on_error=False)
    assert message_of(failed_run(ground, result)) is None


@pytest.mark.parametrize(
    ("before", "now", "due"),
    [
        ("2026-11-19T08:00", "2026-11-20T06:59", False),
        ("2026-11-19T08:00", "2026-11-20T07:00", True),
        ("2026-11-20T07:00", "2026-11-20T23:00", False),
        ("2026-11-18T09:00", "2026-11-20T03:00", True),
    ],
)
def test_it_is_due_once_a_day_at_its_hour_in_the_zone_of_the_schedule(before, now, due):
    made = settings()
    zone = made.schedule.model_copy(update={"timezone": "Europe/Berlin"})
    made = made.model_copy(update={"schedule": zone})
    instants = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (before, now)]
    assert digest_is_due(made, *instants) is due


def test_the_sensor_is_the_only_one_and_sends_what_came_since(monkeypatch):
    monkeypatch.setattr(
        "spark_core.stored_runs.overview.overview",
        lambda _settings, newest: [Past("lake", IN_ORDER.runs, IN_ORDER.status)],
    )
    with http_listener() as web, dg.DagsterInstance.ephemeral() as instance:
        made = settings({"HOOK": web.url}, webhook_env="HOOK", events=["digest"])
        told = {name: each for name, each in sensors(made).items() if name.startswith("tell_")}
        assert set(told) == {"tell_of_the_night"}
        (sensor,) = told.values()
        first = sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
        assert web.got == []
        again = sensor.evaluate_tick(
            dg.build_sensor_context(instance=instance, cursor=first.cursor)
        )
        assert again.skip_message == "the next one is not due"
        sensor.evaluate_tick(
            dg.build_sensor_context(instance=instance, cursor="2026-11-01T00:00:00+00:00")
        )
        assert [body["event"] for _, body in web.got] == ["digest"]
