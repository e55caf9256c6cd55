"""Partitions are a repository and a run key, and back."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lakegc_dagster.names import OWN
from lakegc_dagster.partitions import (
    add_partitions,
    forget_runs,
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


def test_keys_that_were_added_make_partitions_and_adding_them_again_changes_nothing():
    with dg.DagsterInstance.ephemeral() as instance:
        add_partitions(instance, ["one", "two"], [KEY])
        add_partitions(instance, ["two", "two"], [KEY, KEY])
        with dg.partition_loading_context(dynamic_partitions_store=instance):
            assert set(repository_run(OWN).get_partition_keys()) == {
                partition_key("one", KEY),
                partition_key("two", KEY),
            }


def _days(*days):
    return [RunKey(datetime(2026, 11, day, 2, tzinfo=UTC)) for day in days]


def test_the_keys_of_pruned_runs_are_forgotten_and_all_others_stay():
    with dg.DagsterInstance.ephemeral() as instance:
        add_partitions(instance, ["one"], _days(17, 18, 19, 20))
        assert forget_runs(instance, _days(17), keep_runs=2) == ["2026-11-17T02-00-00Z"]
        left = [str(key) for key in _days(18, 19, 20)]
        assert sorted(instance.get_dynamic_partitions("run")) == left
        assert forget_runs(instance, _days(17), keep_runs=2) == [], "it is gone already"
        assert instance.get_dynamic_partitions("repository") == ["one"]


def test_a_key_that_another_repository_keeps_is_not_forgotten():
    with dg.DagsterInstance.ephemeral() as instance:
        add_partitions(instance, ["one"], _days(17, 18, 19, 20))
        assert forget_runs(instance, _days(17, 18), keep_runs=3) == ["2026-11-17T02-00-00Z"]
        assert forget_runs(instance, (), keep_runs=1) == []
        assert len(instance.get_dynamic_partitions("run")) == 3
