"""Partitions are a repository and a run key, and back."""

import threading
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from lakegc_dagster.launch.home import open_instance
from lakegc_dagster.names import OWN
from lakegc_dagster.partitions import (
    add_partition,
    carry_over,
    parse_partition_key,
    partition_key,
    repository_run,
)
from spark_core.errors import SettingsError
from spark_core.model import RunKey

KEY = RunKey(datetime(2026, 11, 20, 2, tzinfo=UTC))


def test_a_partition_key_is_read_back_as_it_was_made():
    assert parse_partition_key(partition_key("my-repo", KEY)) == ("my-repo", KEY)
    assert parse_partition_key("my-repo|2026-11-20T02-00-00Z") == ("my-repo", KEY)


def test_a_run_that_is_not_an_instant_is_refused():
    with pytest.raises(
        SettingsError, match="run key 'tonight' is not an instant like 2026-11-20T02-00-00Z"
    ):
        parse_partition_key("my-repo|tonight")
    with pytest.raises(
        SettingsError, match="partition 'my-repo' is not a repository and a run key"
    ):
        parse_partition_key("my-repo")


def test_a_run_that_was_added_is_a_partition_and_adding_it_again_changes_nothing():
    with dg.DagsterInstance.ephemeral() as instance:
        for repository_id in ("one", "two", "two"):
            add_partition(instance, repository_id, KEY)
        with dg.partition_loading_context(dynamic_partitions_store=instance):
            assert set(repository_run(OWN).get_partition_keys()) == {
                partition_key("one", KEY),
                partition_key("two", KEY),
            }


def _days(*days):
    return [RunKey(datetime(2026, 11, day, 2, tzinfo=UTC)) for day in days]


TWO_DIMENSIONS = dg.MultiPartitionsDefinition(
    {name: dg.DynamicPartitionsDefinition(name=name) for name in ("repository", "run")}
)


def test_what_was_made_under_two_dimensions_is_seen_under_the_one_and_nothing_else_is_missing():
    """A home of 0.1.0: two nights of two repositories, one of them in the second night alone."""

    @dg.asset(name="namespace_slices", partitions_def=TWO_DIMENSIONS)
    def earlier(): ...

    @dg.asset(name="namespace_slices", partitions_def=repository_run(OWN))
    def now(): ...

    first, second, pruned = _days(17, 18, 16)
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("repository", ["one", "two"])
        instance.add_dynamic_partitions("run", [str(first), str(second), str(pruned)])
        made = [("one", first), ("one", second), ("two", second), ("one", pruned)]
        for repository_id, key in made:
            both = dg.MultiPartitionKey({"repository": repository_id, "run": str(key)})
            assert both == partition_key(repository_id, key)
            dg.materialize([earlier], instance=instance, partition_key=both)
        instance.delete_dynamic_partition("run", str(pruned))
        for _ in range(2):
            carry_over(instance)
            known = instance.get_dynamic_partitions("repository_run")
            assert sorted(known) == sorted(partition_key(*each) for each in made[:3])
        shown = instance.get_status_by_partition(now.key, known, repository_run(OWN))
        assert {status.name for status in shown.values()} == {"MATERIALIZED"}


def test_a_home_without_runs_of_earlier_versions_gets_no_partition():
    with dg.DagsterInstance.ephemeral() as instance:
        carry_over(instance)
        assert instance.get_dynamic_partitions("repository_run") == []


def test_two_commands_at_once_in_one_home_lose_no_run(tmp_path):
    together, failed = threading.Barrier(2), []

    def add():
        with open_instance(tmp_path) as instance:
            for number in range(40):
                together.wait(60)
                try:
                    add_partition(instance, "repo", RunKey(KEY.instant + timedelta(number)))
                except Exception as error:  # noqa: BLE001 - whatever it is
                    failed.append(error)

    with open_instance(tmp_path):
        pass
    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with open_instance(tmp_path) as instance:
        assert len(instance.get_dynamic_partitions("repository_run")) == 40
