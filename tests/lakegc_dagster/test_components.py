"""Another project's definitions with a collector among them: by YAML, and by merging."""

import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
import yaml
from dagster._core.workspace.autodiscovery import loadable_targets_from_python_file
from dagster.components.testing import create_defs_folder_sandbox

from lakegc_dagster.components import CollectorComponent
from lakegc_dagster.definitions import build_defs
from spark_core.errors import SettingsError
from spark_core.settings import Settings

SETTINGS = Settings.model_validate(
    {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": {"one": {}}}
)
JOBS = {"mark", "mark_and_sweep", "sweep"}
PAGE = Path(__file__).parents[2] / "docs" / "dagster.md"
FILE = '[server]\nendpoint = "http://127.0.0.1:9"\n[repositories.theirs]\n'


@dg.asset
def orders() -> None:
    """An asset of the other project."""


@dg.job
def nightly_backup():
    """A job of the other project."""


OWN = """
import dagster as dg

@dg.asset
def orders() -> None: ...

@dg.definitions
def own():
    return dg.Definitions(assets=[orders], executor=dg.multiprocess_executor)
"""


@contextmanager
def project_with(**components):
    """The definitions of a project with one asset of its own, and with components in YAML.

    Args:
        components: Folder -> attributes, and the settings file beside them if there is one.
    """
    with create_defs_folder_sandbox() as project:
        for name, (attributes, file) in components.items():
            folder = project.scaffold_component(
                component_cls=CollectorComponent,
                defs_path=name,
                defs_yaml_contents={
                    "type": "lakegc_dagster.components.CollectorComponent",
                    "attributes": attributes,
                },
            )
            if file:
                (folder / "lakegc.toml").write_text(file)
        (project.defs_folder_path / "own.py").write_text(OWN)
        with project.build_all_defs() as defs:
            dg.Definitions.validate_loadable(defs)
            yield defs


def keys_of(defs):
    return {spec.key.to_user_string() for spec in defs.resolve_all_asset_specs()}


def test_a_project_adds_a_collector_with_a_settings_file_by_yaml():
    file = FILE + '[schedule]\ncron = "30 4 * * *"\n'
    with project_with(collector=({"settings_file": "lakegc.toml"}, file)) as defs:
        assert {"orders", "lakegc/namespace_slices", "lakegc/deletion_report"} <= keys_of(defs)
        assert defs.resolve_schedule_def("lakegc_nightly_mark").cron_schedule == "30 4 * * *"
        assert defs.executor is dg.multiprocess_executor
        assert defs.resolve_job_def("lakegc_mark").executor_def.name == "in_process"


def test_the_yaml_of_the_page_says_all_that_a_collector_needs(monkeypatch):
    (block,) = re.findall(r"```yaml\n(type: lakegc_dagster.*?)```", PAGE.read_text(), re.DOTALL)
    attributes = yaml.safe_load(block)["attributes"]
    monkeypatch.setenv("LAKEFS_ENDPOINT", "http://127.0.0.1:9")
    # Without it the names of the file would be looked for.
    monkeypatch.setenv("LAKEGC_CONFIG", "/no/such/lakegc.toml")
    with project_with(collector=(attributes, None)) as defs:
        nightly = defs.resolve_schedule_def("lakegc_nightly_mark_and_sweep")
        assert (nightly.cron_schedule, nightly.execution_timezone) == ("0 3 * * *", "Europe/Berlin")
        assert nightly.default_status == dg.DefaultScheduleStatus.RUNNING
        verdict = defs.resolve_asset_graph().get(dg.AssetKey(["lakegc", "verdict"]))
        assert list(verdict.owners) == ["team:data", "ann@example.com"]
        mark = defs.resolve_job_def("lakegc_mark")
        assert {node.definition.pool for node in mark.graph.nodes} == {"spark"}
        runs = defs.resources["lakegc_runs"]
        settings = runs.wiring.settings
        assert settings.server.endpoint == "http://127.0.0.1:9"
        assert settings.repository("my-repo").mode == "sweep"
        assert settings.repository("team-b").mode == "mark"


def test_two_components_of_one_project_have_two_prefixes():
    one = (
        {"endpoint": "http://127.0.0.1:9", "repositories": {"mine": None}, "key_prefix": "one"},
        "",
    )
    with project_with(one=one, other=({"settings_file": "lakegc.toml"}, FILE)) as defs:
        assert {key.partition("/")[0] for key in keys_of(defs)} == {"orders", "one", "lakegc"}


@pytest.mark.parametrize(
    ("attributes", "line", "title"),
    [
        ({"endpoint": "http://127.0.0.1:8"}, 2, r"\[server\] endpoint"),
        ({"repositories": {"theirs": {}}}, 3, r"\[repositories\] theirs"),
    ],
)
def test_what_file_and_component_both_say_is_refused(tmp_path, attributes, line, title):
    (tmp_path / "lakegc.toml").write_text(FILE)
    component = CollectorComponent(settings_file="lakegc.toml", **attributes)
    said = rf"line {line} and the component in {tmp_path} both say {title}\. Say it in one"
    with pytest.raises(SettingsError, match=said):
        component.build_defs(SimpleNamespace(path=tmp_path))


def test_a_wrong_word_of_a_component_is_said_to_be_its_own(tmp_path):
    component = CollectorComponent(endpoint="http://127.0.0.1:9", schedule={"crom": "* * * * *"})
    said = rf"the component in {tmp_path}: \[schedule\] crom is not a setting; did you mean cron"
    with pytest.raises(SettingsError, match=said):
        component.build_defs(SimpleNamespace(path=tmp_path))


def test_a_settings_file_is_looked_for_beside_the_component_and_named_where_it_is_not(tmp_path):
    with pytest.raises(SettingsError, match=rf"settings file {tmp_path}/none\.toml does not exist"):
        CollectorComponent(settings_file="none.toml").build_defs(SimpleNamespace(path=tmp_path))


def test_the_page_shows_definitions_that_dagster_loads_as_they_are(tmp_path, monkeypatch):
    (block,) = re.findall(r"```python\n(# definitions\.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "definitions.py"
    file.write_text(block)
    (tmp_path / "lakegc.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    (target,) = loadable_targets_from_python_file(str(file))
    merged = target.target_definition()
    dg.Definitions.validate_loadable(merged)
    keys = {spec.key.to_user_string() for spec in merged.resolve_all_asset_specs()}
    assert {"orders", "lakegc/verdict", "lakegc/deletion_report"} <= keys
    assert {key.partition("/")[0] for key in keys} == {"orders", "lakegc"}
    assert merged.resolve_schedule_def("lakegc_nightly_mark").job_name == "lakegc_mark"
    assert merged.executor is None


def test_definitions_of_a_user_with_an_executor_and_a_store_of_their_own_take_a_collector_in():
    from dagster_aws.s3 import S3Resource

    s3 = S3Resource(region_name="eu-1")
    theirs = dg.Definitions(
        assets=[orders],
        jobs=[nightly_backup],
        resources={"s3": s3},
        executor=dg.multiprocess_executor,
    )
    merged = dg.Definitions.merge(theirs, build_defs(SETTINGS, s3=s3, executor=None))
    dg.Definitions.validate_loadable(merged)
    assert len(merged.resolve_all_asset_specs()) == 13
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
