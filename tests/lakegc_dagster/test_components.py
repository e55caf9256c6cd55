"""Another project's definitions with a collector among them: by YAML, and by merging."""

import textwrap
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox
from dagster_aws.s3 import S3Resource

from lakegc_dagster.components import CollectorComponent
from lakegc_dagster.definitions import build_defs
from spark_core.errors import SettingsError
from spark_core.settings import Settings

SETTINGS = Settings.model_validate(
    {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": {"one": {}}}
)
JOBS = {"mark", "mark_and_sweep", "sweep"}


@dg.asset
def orders() -> None:
    """An asset of the other project."""


@dg.job
def nightly_backup():
    """A job of the other project."""


def test_a_project_adds_a_collector_by_yaml():
    with create_defs_folder_sandbox() as project:
        folder = project.scaffold_component(
            component_cls=CollectorComponent,
            defs_path="collector",
            defs_yaml_contents={
                "type": "lakegc_dagster.components.CollectorComponent",
                "attributes": {"settings_file": "lakegc.toml"},
            },
        )
        (folder / "lakegc.toml").write_text(
            '[server]\nendpoint = "http://127.0.0.1:9"\n[repositories.theirs]\n[schedule]\n'
            'cron = "30 4 * * *"\n'
        )
        own = textwrap.dedent("""
            import dagster as dg

            @dg.asset
            def orders() -> None: ...

            @dg.definitions
            def own():
                return dg.Definitions(assets=[orders], executor=dg.multiprocess_executor)
        """)
        (project.defs_folder_path / "own.py").write_text(own)
        with project.build_all_defs() as defs:
            dg.Definitions.validate_loadable(defs)
            keys = {spec.key.to_user_string() for spec in defs.resolve_all_asset_specs()}
            assert {"orders", "namespace_slices", "deletion_report"} <= keys
            assert defs.resolve_schedule_def("nightly_mark").cron_schedule == "30 4 * * *"
            assert defs.executor is dg.multiprocess_executor
            assert defs.resolve_job_def("mark").executor_def.name == "in_process"


def test_a_settings_file_is_looked_for_beside_the_component_and_named_where_it_is_not(tmp_path):
    with pytest.raises(SettingsError, match=rf"settings file {tmp_path}/none\.toml does not exist"):
        CollectorComponent(settings_file="none.toml").build_defs(SimpleNamespace(path=tmp_path))


def test_definitions_of_a_user_with_an_executor_and_a_store_of_their_own_take_a_collector_in():
    s3 = S3Resource(region_name="eu-1")
    theirs = dg.Definitions(
        assets=[orders],
        jobs=[nightly_backup],
        resources={"s3": s3},
        executor=dg.multiprocess_executor,
    )
    merged = dg.Definitions.merge(theirs, build_defs(SETTINGS, s3=s3, executor=None))
    dg.Definitions.validate_loadable(merged)
    assert len(merged.resolve_all_asset_specs()) == 12
    for name in JOBS:
        assert merged.resolve_job_def(name).executor_def.name == "in_process"
    assert merged.resolve_job_def("nightly_backup").executor_def.name == "multiprocess"
    assert merged.resources["s3"] is s3


def test_definitions_of_a_user_without_an_executor_take_a_collector_in_as_it_is():
    merged = dg.Definitions.merge(
        build_defs(SETTINGS), dg.Definitions(assets=[orders], jobs=[nightly_backup])
    )
    dg.Definitions.validate_loadable(merged)
    assert {job.name for job in merged.get_repository_def().get_all_jobs()} >= {
        *JOBS,
        "nightly_backup",
    }
