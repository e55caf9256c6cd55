"""Whether the runs of a pool wait for each other, without a command that somebody types."""

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.in_dagster.pool_limit import limit_pool
from lakegc_dagster.launch.home import open_instance
from spark_core.settings import Settings

RUNS = "concurrency: {pools: {granularity: run}}\n"


def home(tmp_path, config):
    (tmp_path / "dagster.yaml").write_text(config)
    return open_instance(tmp_path)


def limits(instance):
    found = instance.event_log_storage.get_pool_limits()
    return {each.name: each.limit for each in found if not each.from_default}


def test_the_home_that_lakegc_makes_has_a_limit_from_the_first_run_on(tmp_path):
    with open_instance(tmp_path) as instance:
        assert "has the limit 1" in limit_pool(instance, "lakegc")
        assert limits(instance) == {"lakegc": 1}
        assert limit_pool(instance, "lakegc") is None


def test_what_somebody_said_stays(tmp_path):
    with home(tmp_path, RUNS) as instance:
        instance.event_log_storage.set_concurrency_slots("lakegc", 4)
        assert limit_pool(instance, "lakegc") is None
        assert limits(instance) == {"lakegc": 4}


def test_a_limit_of_all_pools_is_the_limit_of_this_one(tmp_path):
    config = "concurrency: {pools: {granularity: run, default_limit: 3}}\n"
    with home(tmp_path, config) as instance:
        assert "has the limit 3" in limit_pool(instance, "lakegc")
        assert limits(instance) == {"lakegc": 3}


@pytest.mark.parametrize("config", ["", "concurrency: {pools: {granularity: op}}\n"])
def test_where_steps_wait_a_person_is_told_the_line(tmp_path, config):
    with home(tmp_path, config) as instance:
        assert "`dagster instance concurrency set lakegc 1`" in limit_pool(instance, "lakegc")
        assert limits(instance) == {}


def test_the_sensor_that_knows_the_repositories_gives_the_limit(tmp_path):
    settings = Settings.model_validate(
        {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": {"one": {}}}
    )
    sensor = build_defs(settings).resolve_sensor_def("configured_repositories")
    with home(tmp_path, RUNS) as instance:
        sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
        assert limits(instance) == {"lakegc": 1}
