"""Whether the Dagster that is installed still has what lakegc uses behind its public interface."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import dagster as dg
import pytest

ROOT = Path(__file__).parents[3]
CLOSED = (
    f"Dagster {dg.__version__} has no {{}} any more: find another way in "
    "lakegc_dagster/in_dagster/private_doors.py"
)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("dagster._core.errors", "DagsterUserCodeProcessError"),
        ("dagster._core.storage.noop_compute_log_manager", "NoOpComputeLogManager"),
    ],
)
def test_the_private_class_is_still_where_it_was(module, name):
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        found = None
    assert found is not None, CLOSED.format(f"{module}.{name}")


def test_no_other_private_name_of_dagster_is_used():
    used = {
        (path.name, found)
        for package in ("lakegc_dagster", "spark_core")
        for path in (ROOT / package).rglob("*.py")
        for found in re.findall(r"\bdagster(?:_\w+)?(?:\.\w+)*\._[\w.]+", path.read_text())
    }
    assert used == {
        ("private_doors.py", "dagster._core.errors"),
        ("private_doors.py", "dagster._core.storage.noop_compute_log_manager"),
    }


@pytest.mark.slow
def test_the_daemon_is_still_what_a_script_of_that_name_runs():
    from lakegc_dagster.in_dagster.private_doors import DAEMON

    done = subprocess.run(
        [sys.executable, *DAEMON, "run", "--help"], capture_output=True, text=True, check=False
    )
    assert "--workspace" in done.stdout, CLOSED.format("script dagster-daemon")


def test_an_instance_of_a_home_is_still_made_with_another_keeper_of_logs(tmp_path):
    from lakegc_dagster.in_dagster.private_doors import NO_LOG_FILES, instance_without_log_files

    (tmp_path / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with instance_without_log_files(tmp_path) as instance:
        found = type(instance.compute_log_manager)
        assert (found.__module__, found.__name__) == tuple(NO_LOG_FILES.values()), CLOSED.format(
            "compute_logs in DagsterInstance.from_config"
        )
        assert not instance.telemetry_enabled, CLOSED.format(
            "DagsterInstance.from_config that reads the home's own dagster.yaml"
        )


def test_runs_side_by_side_do_not_shut_down_the_log_handlers_of_each_other(monkeypatch):
    from lakegc_dagster.in_dagster import private_doors

    def set_up_anew(_config):
        raise AssertionError(CLOSED.format("get_yaml_python_handlers in DagsterInstance"))

    with dg.DagsterInstance.ephemeral() as instance:
        private_doors.share_log_handlers(instance)
        monkeypatch.setattr("logging.config.dictConfig", set_up_anew)
        assert idle.execute_in_process(instance=instance).success


@dg.op
def nothing():
    pass


@dg.job
def idle():
    nothing()


def test_a_run_of_this_process_belongs_to_the_job_of_a_code_location():
    from lakegc_dagster.in_dagster.private_doors import as_runs_of

    with dg.DagsterInstance.ephemeral() as instance:
        tags = as_runs_of(instance, "idle", module="some.module", location="here")
        made = idle.execute_in_process(instance=instance, tags=tags)
        run = instance.get_run_by_id(made.run_id)
    origin = run.remote_job_origin
    assert origin is not None, CLOSED.format(
        "DagsterInstance.create_run_for_job(remote_job_origin)"
    )
    assert (origin.job_name, origin.location_name) == ("idle", "here")
    assert run.tags[".dagster/repository"] == "__repository__@here"


@pytest.mark.parametrize(
    ("tags", "by_a_person"),
    [
        ({}, True),
        ({"dagster/partition": "repo|key", "lakegc/repository": "repo"}, True),
        ({"dagster/sensor_name": "requested_runs"}, True),
        ({"dagster/sensor_name": "theirs"}, False),
        ({"dagster/schedule_name": "nightly_mark"}, False),
        ({"dagster/backfill": "abc"}, False),
        ({"dagster/auto_materialize": "true"}, False),
        ({"dagster/from_automation_condition": "true"}, False),
    ],
)
def test_a_run_that_dagster_started_by_itself_is_known_by_its_tags(tags, by_a_person):
    from lakegc_dagster.in_dagster.private_doors import started_by_a_person

    assert started_by_a_person(tags) is by_a_person, CLOSED.format("tag of that name")


def test_a_failure_with_a_sentence_is_shown_without_dagsters_stack():
    from lakegc_dagster.in_dagster.private_doors import SentenceFailure

    @dg.op
    def refused():
        raise SentenceFailure("RefusedError", "This is so. Do that.")

    @dg.job
    def refusing():
        refused()

    with dg.DagsterInstance.ephemeral() as instance:
        made = refusing.execute_in_process(instance=instance, raise_on_error=False)
    (step,) = [event for event in made.all_events if event.is_step_failure]
    shown = step.step_failure_data.error
    assert shown.to_string().strip() == "RefusedError: This is so. Do that.", CLOSED.format(
        "DagsterUserCodeProcessError.user_code_process_error_infos"
    )
    assert step.step_failure_data.user_failure_data.description == shown.message.strip()
    (ended,) = [
        event for event in made.all_events if event.event_type is dg.DagsterEventType.RUN_FAILURE
    ]
    assert ended.event_specific_data.error == shown


def test_where_dagster_has_no_class_for_it_what_runs_print_goes_to_files(tmp_path, monkeypatch):
    from lakegc_dagster.in_dagster.private_doors import NO_LOG_FILES, instance_without_log_files

    (tmp_path / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setitem(NO_LOG_FILES, "module", "dagster.there_is_no_such_module")
    with instance_without_log_files(tmp_path) as instance:
        assert "NoOp" not in type(instance.compute_log_manager).__name__


def test_where_dagster_does_not_know_the_form_of_an_origin_runs_have_none(monkeypatch):
    from lakegc_dagster.in_dagster.private_doors import as_runs_of

    def unknown(_form):
        raise ValueError("no class of that name")

    monkeypatch.setattr(dg, "deserialize_value", unknown)
    with dg.DagsterInstance.ephemeral() as instance:
        assert as_runs_of(instance, "idle", module="some.module", location="here") == {}
        made = idle.execute_in_process(instance=instance)
        assert instance.get_run_by_id(made.run_id).remote_job_origin is None


def test_the_form_of_an_origin_is_the_one_that_dagster_stores():
    from dagster._core.remote_origin import (
        ManagedGrpcPythonEnvCodeLocationOrigin,
        RemoteRepositoryOrigin,
    )
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

    from lakegc_dagster.in_dagster.private_doors import as_runs_of

    target = LoadableTargetOrigin(executable_path=sys.executable, module_name="some.module")
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, "here")
    repository = RemoteRepositoryOrigin(location, "__repository__")
    with dg.DagsterInstance.ephemeral() as instance:
        tags = as_runs_of(instance, "idle", module="some.module", location="here")
        made = idle.execute_in_process(instance=instance, tags=tags)
        found = instance.get_run_by_id(made.run_id)
    assert found.remote_job_origin == repository.get_job_origin("idle")
    assert found.tags[".dagster/repository"] == repository.get_label()
