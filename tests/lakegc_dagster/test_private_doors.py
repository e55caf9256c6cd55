"""Whether the Dagster that is installed still has what lakegc uses behind its public interface."""

from importlib import import_module
from importlib.util import find_spec

import dagster as dg
import pytest
import yaml

CLOSED = (
    f"Dagster {dg.__version__} has no {{}} any more: find another way in "
    "lakegc_dagster/private_doors.py"
)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("dagster._cli.proxy_server_manager", "ProxyServerManager"),
        ("dagster._core.errors", "DagsterUserCodeProcessError"),
        ("dagster._core.instance", "InstanceRef"),
        ("dagster._core.remote_origin", "ManagedGrpcPythonEnvCodeLocationOrigin"),
        ("dagster._core.remote_origin", "RemoteRepositoryOrigin"),
        ("dagster._core.storage.tags", "AUTO_MATERIALIZE_TAG"),
        ("dagster._core.storage.tags", "AUTOMATION_CONDITION_TAG"),
        ("dagster._core.storage.tags", "BACKFILL_ID_TAG"),
        ("dagster._core.storage.tags", "REPOSITORY_LABEL_TAG"),
        ("dagster._core.storage.tags", "SCHEDULE_NAME_TAG"),
        ("dagster._core.storage.tags", "SENSOR_NAME_TAG"),
        ("dagster._core.types.loadable_target_origin", "LoadableTargetOrigin"),
        ("dagster._core.workspace.context", "WorkspaceProcessContext"),
        ("dagster._core.workspace.load_target", "WorkspaceFileTarget"),
        ("dagster_webserver.app", "create_app_from_workspace_process_context"),
        ("dagster._core.storage.noop_compute_log_manager", "NoOpComputeLogManager"),
    ],
)
def test_the_private_class_is_still_where_it_was(module, name):
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        found = None
    assert found is not None, CLOSED.format(f"{module}.{name}")


def test_the_daemon_is_still_a_module_that_runs():
    from lakegc_dagster.private_doors import DAEMON

    assert find_spec(f"{DAEMON}.__main__") is not None, CLOSED.format(f"{DAEMON}.__main__")


def test_an_instance_of_a_home_is_still_made_with_another_keeper_of_logs(tmp_path):
    from lakegc_dagster.private_doors import NO_LOG_FILES, instance_without_log_files

    (tmp_path / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with instance_without_log_files(tmp_path) as instance:
        found = type(instance.compute_log_manager)
        assert (found.__module__, found.__name__) == tuple(NO_LOG_FILES.values()), CLOSED.format(
            "overrides of compute_logs in InstanceRef.from_dir"
        )
        assert not instance.telemetry_enabled, CLOSED.format(
            "DagsterInstance.from_ref that reads the home's own dagster.yaml"
        )


@dg.op
def nothing():
    pass


@dg.job
def idle():
    nothing()


def test_a_run_of_this_process_belongs_to_the_job_of_a_code_location():
    from lakegc_dagster.private_doors import as_runs_of

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
    from lakegc_dagster.private_doors import started_by_a_person

    assert started_by_a_person(tags) is by_a_person, CLOSED.format("tag of that name")


def test_a_failure_with_a_sentence_is_shown_without_dagsters_stack():
    from lakegc_dagster.private_doors import SentenceFailure

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


def test_code_servers_that_run_already_are_passed_on(tmp_path):
    from lakegc_dagster.private_doors import code_servers, instance_without_log_files

    server = {"host": "127.0.0.1", "port": 4266, "location_name": "lakegc"}
    workspace = tmp_path / "workspace.yaml"
    workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
    with (
        instance_without_log_files(tmp_path) as instance,
        code_servers(instance, workspace) as started,
    ):
        assert list(started) == [{"grpc_server": server}], CLOSED.format(
            "ProxyServerManager.get_code_server_specs"
        )
