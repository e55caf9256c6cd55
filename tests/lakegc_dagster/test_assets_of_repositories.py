"""The asset of each repository: who materializes it, and what starts its next run."""

from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.definitions.freshness import FreshnessState, FreshnessStateChange

from lakegc_dagster.assets.of_repositories import DUE
from lakegc_dagster.definitions import build_defs
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.schedules.known_repositories import known_repositories, remember_repositories
from spark_core.settings import Settings
from tests.lakegc_dagster.conftest import failure, new_key


def settings(repositories, **more):
    return Settings.model_validate(
        {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": repositories, **more}
    )


def newest(ground):
    event = ground.instance.get_latest_materialization_event(
        OWN.of_repository(ground.repository_id)
    )
    return None if event is None else (event.run_id, event.asset_materialization)


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_that_did_its_work_materializes_the_asset_of_its_repository(ground):
    key = new_key(ago=timedelta(minutes=2))
    marked = ground.job("mark", key)
    assert marked.success, failure(marked)
    run_id, told = newest(ground)
    assert run_id == marked.run_id
    assert told.partition is None
    assert told.metadata["run"].value == str(key)
    assert told.metadata["objects_that_may_go"].value == len(ground.garbage)
    assert "may go" in told.metadata["headline"].value
    assert told.metadata["page"].value.endswith(".html")

    swept = ground.job("mark_and_sweep", new_key())
    _, told = newest(ground)
    assert told.metadata["objects_deleted"].value == len(ground.garbage)
    assert "deleted" in told.metadata["headline"].value

    # A repeat, a backfill and a run that fails are no runs that count.
    assert ground.job("mark", key).success
    backfill = {"dagster/backfill": "all"}
    assert ground.job("mark", new_key(ago=timedelta(minutes=1)), tags=backfill).success
    strict = ground.with_settings(max_expired_share=0.0, share_from_objects=0)
    strict.with_settings().job("sweep", new_key(ago=timedelta(days=1)))
    assert newest(ground)[0] == swept.run_id


def test_each_repository_has_its_key_also_under_a_prefix():
    built = build_defs(settings({"one": {}, "two": {}}), names=Names("gc"))
    keys = {spec.key.to_user_string() for spec in built.resolve_all_asset_specs()}
    assert {"gc/repositories/one", "gc/repositories/two", "gc/repositories"} <= keys
    graph = built.resolve_asset_graph()
    asset = graph.get(dg.AssetKey(["gc", "repositories", "one"]))
    assert not asset.is_materializable
    assert asset.automation_condition == DUE
    sensor = built.resolve_sensor_def("gc_due_repositories")
    assert sensor.default_status is dg.DefaultSensorStatus.STOPPED


def requested(built, instance, cursor=None):
    result = dg.evaluate_automation_conditions(built, instance, cursor=cursor)
    asked = {
        key.to_user_string()
        for key in (OWN.of_repository("one"), OWN.of_repository("two"))
        if result.get_num_requested(key)
    }
    return asked, result.cursor


def test_the_condition_holds_once_for_a_repository_that_is_late_and_once_when_it_has_stopped():
    built = build_defs(settings({"one": {}, "two": {}}))
    with dg.DagsterInstance.ephemeral() as instance:
        for name in ("one", "two"):
            instance.report_runless_asset_event(dg.AssetMaterialization(OWN.of_repository(name)))

        def state(name, new):
            change = FreshnessStateChange(
                key=OWN.of_repository(name),
                previous_state=FreshnessState.UNKNOWN,
                new_state=new,
                state_change_timestamp=0.0,
            )
            instance.report_runless_asset_event(change)

        state("two", FreshnessState.PASS)
        asked, cursor = requested(built, instance)
        assert asked == set()
        state("one", FreshnessState.WARN)
        asked, cursor = requested(built, instance, cursor)
        assert asked == {"repositories/one"}
        asked, cursor = requested(built, instance, cursor)
        assert asked == set()
        state("one", FreshnessState.FAIL)
        asked, cursor = requested(built, instance, cursor)
        assert asked == {"repositories/one"}


def observed(ground, tags):
    built = build_defs(ground.settings)
    key = OWN.of_repository(ground.repository_id)
    definition = built.resolve_implicit_global_asset_job_def()
    result = definition.execute_in_process(
        instance=ground.instance, asset_selection=[key], tags=tags, raise_on_error=False
    )
    assert result.success, failure(result)
    return ground.instance.get_run_by_id(result.run_id)


def request_of(ground, run):
    sensor = build_defs(ground.settings).resolve_sensor_def("requested_runs")
    event = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.RUN_SUCCESS.value, job_name=run.job_name
    )
    context = dg.build_run_status_sensor_context(
        sensor_name="requested_runs",
        dagster_event=event,
        dagster_instance=ground.instance,
        dagster_run=run,
    )
    return sensor(context)


def test_a_condition_that_holds_asks_for_the_run_of_the_repositorys_mode(ground):
    run = observed(ground, {"dagster/from_automation_condition": "true"})
    asked = request_of(ground, run)
    assert isinstance(asked, dg.RunRequest)
    assert asked.job_name == "mark_and_sweep"
    assert asked.partition_key.startswith(f"{ground.repository_id}|")


def test_a_person_who_observes_a_repository_starts_nothing(ground):
    run = observed(ground, {})
    assert isinstance(request_of(ground, run), dg.SkipReason)


def test_what_patterns_matched_is_known_when_dagster_loads_the_next_time(tmp_path):
    teams = settings({"team-*": {}, "one": {}}, dagster={"home": str(tmp_path / "home")})
    assert known_repositories(teams, OWN) == ("one",)
    assert remember_repositories(teams, OWN, ["one", "team-a", "team-b"])
    assert not remember_repositories(teams, OWN, ["team-b", "team-a", "one"])
    assert known_repositories(teams, OWN) == ("one", "team-a", "team-b")
    keys = {spec.key.to_user_string() for spec in build_defs(teams).resolve_all_asset_specs()}
    assert "repositories/team-a" in keys
    # One that left the server or the settings leaves the list.
    assert remember_repositories(teams, OWN, ["one", "team-b"])
    assert known_repositories(teams, OWN) == ("one", "team-b")
    others = settings({"x-*": {}}, dagster={"home": str(tmp_path / "home")})
    assert known_repositories(others, OWN) == ()


@pytest.mark.parametrize("content", [b"", b"{", b"[1, null]", b"\xff"])
def test_a_list_that_somebody_damaged_is_none(tmp_path, content):
    teams = settings({"team-*": {}}, dagster={"home": str(tmp_path)})
    (tmp_path / "repositories.json").write_bytes(content)
    assert known_repositories(teams, OWN) == ()
