"""Dagster's home is made once, without telemetry."""

from pathlib import Path

import dagster as dg
import yaml

from lakegc_dagster.launch.home import (
    CODE_LOCATION,
    MODULE,
    open_instance,
    prepare_home,
    write_workspace,
)


def test_a_new_home_sends_no_telemetry_and_runs_one_thing_at_a_time(tmp_path):
    home = prepare_home(tmp_path / "a" / "home")
    written = yaml.safe_load((home / "dagster.yaml").read_text())
    assert written["telemetry"]["enabled"] is False
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert not instance.telemetry_enabled
        concurrency = instance.get_concurrency_config()
        assert concurrency.run_queue_config.max_concurrent_runs == 1
        # A step of the command line never waits for the place of a run that was killed: whole runs
        # wait, in the queue.
        pools = concurrency.pool_config
        assert (pools.default_pool_limit, pools.pool_granularity.value) == (1, "run")
        assert instance.freshness_enabled


def test_a_home_that_is_there_stays_as_it_is(tmp_path):
    (tmp_path / "dagster.yaml").write_text("telemetry:\n  enabled: true\n")
    prepare_home(tmp_path)
    assert (tmp_path / "dagster.yaml").read_text() == "telemetry:\n  enabled: true\n"


def test_what_one_process_adds_another_sees(tmp_path):
    with open_instance(tmp_path / "home") as instance:
        instance.add_dynamic_partitions("repository_run", ["one"])
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        assert instance.get_dynamic_partitions("repository_run") == ["one"]


def test_each_way_to_start_the_ui_has_the_same_code_location_under_the_same_name(tmp_path):
    mine = yaml.safe_load(write_workspace(tmp_path).read_text())["load_from"][0]["python_module"]
    assert mine == {"module_name": MODULE, "location_name": CODE_LOCATION}
    clone = yaml.safe_load((Path(__file__).parents[3] / "workspace.yaml").read_text())
    assert mine.items() <= clone["load_from"][0]["python_module"].items()
