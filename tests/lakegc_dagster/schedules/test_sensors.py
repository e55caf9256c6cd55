"""The sensor that keeps Dagster in step with the settings adds no run that nobody asked for."""

import dagster as dg

from lakegc_dagster.definitions import build_defs
from spark_core.settings import Settings


def evaluate(instance, repositories, cursor=None):
    settings = Settings.model_validate(
        {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": repositories}
    )
    sensor = build_defs(settings).resolve_sensor_def("configured_repositories")
    return sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=cursor))


def test_the_sensor_adds_no_partition_and_starts_no_run():
    with dg.DagsterInstance.ephemeral() as instance:
        for repositories in ({"one": {}}, {}):
            answer = evaluate(instance, repositories)
            assert not answer.dynamic_partitions_requests
            assert not answer.run_requests
        assert instance.get_dynamic_partitions("repository_run") == []


def test_the_sensor_carries_the_runs_of_earlier_versions_over_once():
    @dg.asset(name="deletion_report", partitions_def=dg.DynamicPartitionsDefinition(name="earlier"))
    def report(): ...

    partition = "one|2026-11-20T02-00-00Z"
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("run", ["2026-11-20T02-00-00Z"])
        instance.add_dynamic_partitions("earlier", [partition])
        dg.materialize([report], instance=instance, partition_key=partition)
        cursor = evaluate(instance, {"one": {}}).cursor
        assert instance.get_dynamic_partitions("repository_run") == [partition]
        # What is forgotten later stays forgotten.
        instance.delete_dynamic_partition("repository_run", partition)
        evaluate(instance, {"one": {}}, cursor)
        assert instance.get_dynamic_partitions("repository_run") == []
