"""The code location: what is in it, and that loading it starts nothing."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import dagster as dg
import pytest
import yaml

from lakegc_dagster import definitions
from lakegc_dagster.assets import ALL_ASSETS
from lakegc_dagster.definitions import build_defs
from lakegc_dagster.names import POOL
from lakegc_dagster.partitions import add_partition, partition_key
from lakegc_dagster.resources import SparkResource
from spark_core import checks as guards
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Settings.model_validate(
    {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": {"one": {}}}
)

# Whatever opens a socket or starts a program ends the process: an audit hook cannot be worked
# around from Python.
_WATCHED = """
import os, sys
STARTS = {
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "os.system",
    "os.posix_spawn",
    "os.fork",
}
def watch(event, args):
    # Python's own `platform` asks the program `file` how its interpreter was built.
    if event in STARTS and args[0] != "file":
        print("STARTED", event, args[:2], flush=True)
        os._exit(3)
sys.addaudithook(watch)
from lakegc_dagster import definitions
from lakegc_dagster.definitions import defs
loaded = defs()
loaded.resolve_all_asset_specs()
for name in ("mark", "mark_and_sweep", "sweep"):
    loaded.resolve_job_def(name)
import pyspark
assert pyspark.SparkContext._gateway is None and pyspark.SparkContext._active_spark_context is None
print("LOADED", len(loaded.resolve_all_asset_specs()), flush=True)
"""


def graph():
    return build_defs(SETTINGS).resolve_asset_graph()


def load_in_a_process_of_its_own(directory, **env):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LAKEGC")}
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", _WATCHED],
        cwd=directory,
        env=clean | {"PYTHONPATH": str(ROOT)} | env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_loading_starts_no_program_opens_no_socket_and_uses_nothing_deprecated(
    tmp_path,
):
    loaded = load_in_a_process_of_its_own(tmp_path)
    assert "LOADED 10" in loaded.stdout, loaded.stdout + loaded.stderr
    # Of what lies in Dagster alone nobody here can rid it; what Dagster says of our use of it names
    # our file or what it is.
    ours = ("/lakegc_dagster/", "PreviewWarning", "BetaWarning", "SupersessionWarning")
    assert [
        line
        for line in loaded.stderr.splitlines()
        if "Warning: " in line and any(map(line.count, ours))
    ] == []


# What each process of Dagster would wait for, and only a run, or a user of that very store, needs.
# The bar is half a second of a processor above Dagster and Spark; each of these takes a tenth and
# more of it.
_NOT_TO_LOAD = (
    "azure",
    "boto3",
    "botocore",
    "dagster_aws",
    "dagster_azure",
    "google.cloud",
    "lakefs_sdk",
    "matplotlib",
    "numba",
    "obstore",
    "pandas",
    "rich",
    "sqlalchemy",
    "urllib3",
    "spark_core.mark_and_sweep",
    "spark_core.graveler",
    "spark_core.upkeep.house_keeping",
    "spark_core.upkeep.prune_own_tables",
    "spark_core.lakefs",
    "spark_core.mark",
    "spark_core.upkeep.purge_quarantine",
    "spark_core.report",
    "spark_core.sweep",
)


@pytest.mark.slow
def test_loading_imports_nothing_that_only_a_run_needs():
    code = (
        "import sys; import dagster, pyspark.sql; before = set(sys.modules)\n"
        "import lakegc_dagster.definitions\n"
        f"print(sorted({set(_NOT_TO_LOAD)} & (set(sys.modules) - before)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


@pytest.mark.slow
def test_loading_with_settings_asks_neither_server_nor_keys(tmp_path):
    (tmp_path / "lakegc.toml").write_text(
        '[server]\nendpoint = "http://127.0.0.1:9"\n[repositories.one]\n[schedule]\nrun = true\n'
    )
    loaded = load_in_a_process_of_its_own(tmp_path)
    assert "LOADED 12" in loaded.stdout, loaded.stdout + loaded.stderr


@pytest.mark.slow
def test_wrong_settings_are_the_error_that_dagster_shows(tmp_path):
    (tmp_path / "lakegc.toml").write_text('[server]\nendpoint = "http://127.0.0.1:9"\nxyz = 1\n')
    loaded = load_in_a_process_of_its_own(tmp_path)
    assert "line 3: [server] xyz is not a setting" in loaded.stderr


def test_the_assets_have_the_names_of_the_design_in_its_order():
    upstream = {
        **{spec.name: set(spec.parents) for spec in tables.MARK_TABLES},
        "policy_expirations": set(tables.POLICY_EXPIRATIONS.parents),
        "expired_addresses": {*tables.EXPIRED_ADDRESSES.parents, "policy_expirations"},
        "verdict": {"expired_addresses"},
        "deletion_report": {"verdict"},
        "house_keeping": {"verdict", "deletion_report"},
        "repositories": {"verdict", "house_keeping"},
        "repositories/one": {"verdict"},
        "what_if": {"verdict"},
    }
    assert {key.to_user_string() for key in graph().get_all_asset_keys()} == set(upstream)
    for name, parents in upstream.items():
        # What a table names in its manifest is what Dagster knows as upstream; the verdict names
        # all five.
        assert {
            key.to_user_string() for key in graph().get(dg.AssetKey(name.split("/"))).parent_keys
        } == parents


def test_every_asset_is_partitioned_and_described_and_tables_are_shown_as_spark():
    groups = {
        "deletion_report": "sweep",
        "house_keeping": "upkeep",
        "repositories": "overview",
        "repositories/one": "repositories",
        "what_if": "overview",
    }
    deletes = {"deletion_report": "objects", "house_keeping": "old_tables"}
    for spec in build_defs(SETTINGS).resolve_all_asset_specs():
        name = spec.key.to_user_string()
        if name.startswith("repositories"):
            assert spec.partitions_def is None
        else:
            assert spec.partitions_def.name == "repository_run"
        assert spec.description
        assert spec.kinds
        assert spec.owners == ["team:lakegc"]
        assert spec.tags["lakegc/deletes"] == deletes.get(name, "nothing")
        assert ({"spark", "parquet"} <= spec.kinds) == (name in tables.SCHEMAS)
        assert spec.group_name == groups.get(name, "mark")


def test_every_check_of_the_engine_sits_on_its_asset_and_blocks_unless_advisory():
    keys = graph().asset_check_keys
    shown = {(key.asset_key.to_user_string(), key.name) for key in keys}
    wanted = {
        ("verdict" if table == "expired_addresses" else table, name)
        for name, table, _ in guards.CHECKS
    }
    assert shown == wanted | {("deletion_report", "every_object_was_deleted")}
    for key in keys:
        spec = graph().get_check_spec(key)
        assert spec.blocking == (key.name not in guards.ADVISORY)
        assert spec.description


MARK = [*[spec.name for spec in tables.MARK_TABLES], "policy_expirations", "verdict"]
UNCHECKED = {"expired_addresses", "house_keeping", "policy_expirations"}


@pytest.mark.parametrize(
    ("job", "assets"),
    [
        ("mark", MARK),
        ("mark_and_sweep", [*MARK, "deletion_report"]),
        ("sweep", ["deletion_report"]),
    ],
)
def test_each_job_makes_its_tables_with_their_checks_and_keeps_house_in_one_process(job, assets):
    definition = build_defs(SETTINGS).resolve_job_def(job)
    names = {*assets, "house_keeping"}
    assert set(definition.graph.node_dict) == names | {
        f"check_{name}" for name in names - UNCHECKED
    }
    assert definition.executor_def.name == "in_process"


def test_every_step_stands_in_line_for_one_pool():
    definition = build_defs(SETTINGS).resolve_job_def("mark_and_sweep")
    assert {node.definition.pool for node in definition.graph.nodes} == {POOL}


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["op", "run"])
def test_a_run_in_a_pool_of_one_begins_and_gives_its_place_back_although_it_failed(
    monkeypatch, granularity
):
    monkeypatch.setattr(SparkResource, "start_ahead", lambda _spark: None)
    pools = {"concurrency": {"pools": {"default_limit": 1, "granularity": granularity}}}
    with dg.instance_for_test(overrides=pools) as instance:
        key = RunKey.parse("2026-11-20T02-00-00Z")
        add_partition(instance, "one", key)
        result = (
            build_defs(None)
            .resolve_job_def("mark")
            .execute_in_process(
                instance=instance, partition_key=partition_key("one", key), raise_on_error=False
            )
        )
        (failed,) = [event for event in result.all_events if event.is_step_failure]
        assert failed.step_failure_data.user_failure_data.description.startswith(
            "SettingsError: no settings"
        )
        pool = instance.event_log_storage.get_concurrency_info(POOL)
        assert (pool.active_slot_count, pool.slot_count) == (
            0,
            1 if granularity == "op" else pool.slot_count,
        )
        assert result.dagster_run.run_op_concurrency.all_pools == {POOL}


def test_without_settings_the_graph_is_there_and_nothing_runs_by_itself():
    bare = build_defs(None)
    assert len(bare.resolve_all_asset_specs()) == 10
    assert not bare.schedules
    assert not bare.sensors
    assert bare.metadata["settings"].value.startswith("no settings: there is no lakegc.toml")


def test_the_workspace_of_a_clone_names_this_code_location():
    (entry,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    assert entry["python_module"]["module_name"] == definitions.__name__
    assert entry["python_module"]["working_directory"] == "."


@pytest.mark.parametrize(
    ("table", "name"), [("dagster", "module_name"), ("dg", "code_location_target_module")]
)
def test_the_project_names_this_code_location_to_dagster_and_to_dg(table, name):
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][table]
    said = said.get("project", said)
    assert said[name] == definitions.__name__
    assert said["code_location_name"] == "lakegc"


def test_each_asset_leads_to_its_code_and_each_table_has_a_name():
    for asset in ALL_ASSETS:
        spec = build_defs(SETTINGS).resolve_asset_graph().get(dg.AssetKey(asset.name))
        (place,) = spec.metadata["dagster/code_references"].code_references
        lines = Path(place.file_path).read_text().splitlines()[place.line_number - 1 :]
        assert any(line.startswith(f"def {asset.name}(") for line in lines[:12])
        if asset.name in tables.SCHEMAS:
            assert spec.metadata["dagster/table_name"].value == f"lakegc.{asset.name}"
