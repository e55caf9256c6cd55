"""Two collectors in one project: no name of theirs is the same, and both work."""

from datetime import timedelta

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.in_dagster.private_doors import started_by_a_person
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.notices.sensors import message_of
from lakegc_dagster.partitions import add_partition, partition_key
from lakegc_dagster.resources import SparkResource, Wiring, build_resources
from spark_core.errors import SettingsError
from spark_core.settings import Settings
from tests.lakegc_dagster.conftest import failure, ground_on, new_key

ONE, OTHER = Names("one"), Names("other")
TOLD = {
    "server": {"endpoint": "http://127.0.0.1:9"},
    "repositories": {"repo": {}},
    "notify": {"webhook_env": "HOOK"},
}


def taken(names):
    """Every name that a collector takes in a project, by kind."""
    built = build_defs(Settings.model_validate(TOLD), names=names, executor=None)
    specs = built.resolve_all_asset_specs()
    jobs = [built.resolve_job_def(job.name) for job in built.jobs]
    sets = {spec.partitions_def.name for spec in specs if spec.partitions_def is not None}
    return {
        "assets": {spec.key.to_user_string() for spec in specs},
        "groups": {spec.group_name for spec in specs},
        "jobs": {job.name for job in jobs},
        "ops": {node.definition.name for job in jobs for node in job.graph.nodes},
        "pools": {node.definition.pool for job in jobs for node in job.graph.nodes} - {None},
        "schedules": {schedule.name for schedule in built.schedules},
        "sensors": {sensor.name for sensor in built.sensors},
        "resources": set(built.resources),
        "partitions": sets,
        "metadata": set(built.metadata),
    }


def test_a_prefix_stands_before_every_name_and_without_one_there_is_none():
    plain, prefixed = taken(OWN), taken(ONE)
    assert {key: len(names) for key, names in plain.items()} == {
        key: len(names) for key, names in prefixed.items()
    }
    for kind, names in prefixed.items():
        assert names, kind
        assert all(name.startswith("one") for name in names), (kind, names)
    assert (plain["pools"], prefixed["pools"]) == ({"lakegc"}, {"one"})
    assert prefixed["partitions"] == {"one_repository_run"}
    assert plain["partitions"] == {"repository_run"}
    assert prefixed["assets"] == {f"one/{name}" for name in plain["assets"]}


def test_a_prefix_that_dagster_would_not_take_in_names_is_refused():
    with pytest.raises(SettingsError, match="key_prefix is 'my-lake', wanted one word"):
        Names("my-lake")


def test_a_run_that_the_sensor_of_a_prefix_starts_is_a_persons():
    assert started_by_a_person({"dagster/sensor_name": "one_requested_runs"}, "one_requested_runs")
    assert not started_by_a_person({"dagster/sensor_name": "one_requested_runs"})


@pytest.fixture
def project(served, monkeypatch, request):
    """Two collectors, each with a repository, in one project on one instance."""
    monkeypatch.setattr(SparkResource, "start_ahead", lambda _spark: None)
    own = f"{abs(hash(request.node.nodeid)) % 10**10}"
    with ground_on(served, f"a{own}") as first, ground_on(served, f"b{own}") as second:
        built = [
            build_defs(ground.settings, names=names, executor=None)
            for ground, names in ((first, ONE), (second, OTHER))
        ]
        merged = dg.Definitions.merge(*built)
        dg.Definitions.validate_loadable(merged)
        yield merged, first, second


def run(project, ground, names, job, key, *, tags=None, **config):
    add_partition(ground.instance, ground.repository_id, key, names)
    wired = build_resources(Wiring(ground.settings, names=names, retry_after=timedelta(0)))
    return project.resolve_job_def(names.named(job)).execute_in_process(
        instance=ground.instance,
        partition_key=partition_key(ground.repository_id, key),
        raise_on_error=False,
        resources={names.named(name): resource for name, resource in wired.items()},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}, **config},
        tags=tags,
    )


@pytest.mark.slow
def test_two_collectors_in_one_project_mark_and_sweep_beside_each_other(project):
    merged, first, second = project
    second.instance = first.instance
    key = new_key()
    marked = run(
        merged, first, ONE, "mark", key,
        ops={"one__namespace_slices": {"config": {"full": True}}},
    )  # fmt: skip
    assert marked.success, failure(marked)
    swept = run(merged, second, OTHER, "mark_and_sweep", key)
    assert swept.success, failure(swept)

    assert first.has_verdict(key)
    assert first.objects() == first.alive | first.garbage
    assert second.objects() == second.alive
    made = {event.asset_key.to_user_string() for event in swept.get_asset_materialization_events()}
    assert "other/deletion_report" in made
    assert all(name.startswith("other/") for name in made)
    checks = {check.asset_key.path[0] for check in marked.get_asset_check_evaluations()}
    assert checks == {"one"}
    for names, ground in ((ONE, first), (OTHER, second)):
        known = first.instance.get_dynamic_partitions(names.named("repository_run"))
        assert known == [partition_key(ground.repository_id, key)]


@pytest.mark.slow
def test_the_sensor_of_a_collector_tells_of_its_own_runs_alone(project):
    merged, first, _ = project
    key = new_key(ago=-timedelta(days=2))
    # Nobody is told of a wrong request of a person, which ends as canceled.
    tags = {"dagster/schedule_name": "one_nightly_mark"}
    result = run(merged, first, ONE, "mark", key, tags=tags)
    (event,) = [each for each in result.all_events if each.is_run_failure]
    context = dg.build_run_status_sensor_context(
        sensor_name="tells",
        dagster_event=event,
        dagster_instance=first.instance,
        dagster_run=first.instance.get_run_by_id(result.run_id),
    ).for_run_failure()
    assert message_of(context, ONE).run == str(key)
    assert message_of(context, OTHER) is None
