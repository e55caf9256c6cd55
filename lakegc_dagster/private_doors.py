"""Uses of Dagster's private interface, each with why there is no public way.

An upgrade may break any of these: `tests/lakegc_dagster/test_private_doors.py` says which.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster._core.errors import DagsterUserCodeProcessError
from dagster._core.instance import InstanceRef
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.tags import (
    AUTO_MATERIALIZE_TAG,
    AUTOMATION_CONDITION_TAG,
    BACKFILL_ID_TAG,
    REPOSITORY_LABEL_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._utils.error import serializable_error_info_from_exc_info
from dagster_shared.error import SerializableErrorInfo

from lakegc_dagster.job_names import REQUESTED_RUNS

if TYPE_CHECKING:
    from starlette.types import ASGIApp

NO_LOG_FILES = {
    "module": "dagster._core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
}

# The module behind the script `dagster-daemon`, which is not beside every interpreter.
DAEMON = "dagster._daemon"

# Dagster's name for the definitions of a code location that declares no repository.
_REPOSITORY = "__repository__"

# The tags of a run that Dagster starts by itself.
_STARTED_BY_DAGSTER = frozenset(
    {
        SCHEDULE_NAME_TAG,
        SENSOR_NAME_TAG,
        BACKFILL_ID_TAG,
        AUTO_MATERIALIZE_TAG,
        AUTOMATION_CONDITION_TAG,
    }
)


def started_by_a_person(tags: Mapping[str, str], requests: str = REQUESTED_RUNS) -> bool:
    """Say whether a person started a run and looks at it, by its tags.

    There is no public list of these tags.

    Args:
        tags: The run's tags.
        requests: Name of the sensor that starts runs for people.
    """
    if tags.get(SENSOR_NAME_TAG) == requests:
        return True
    return not _STARTED_BY_DAGSTER & tags.keys()


def instance_without_log_files(home: Path) -> dg.DagsterInstance:
    """Make the instance of an existing home; what its runs print stays on the terminal.

    There is no public way to open a home with overrides.
    """
    reference = InstanceRef.from_dir(str(home), overrides={"compute_logs": NO_LOG_FILES})
    return dg.DagsterInstance.from_ref(reference)


def as_runs_of(
    instance: dg.DagsterInstance, job: str, *, module: str, location: str
) -> dict[str, str]:
    """Let the next runs that an instance makes belong to a job of a code location.

    `execute_in_process` makes runs without an origin. Dagster's timeline, its page of a job and its
    sensors show and see only those that have the origin of the code location.

    Args:
        instance: The instance of this process's runs.
        job: Name of the job.
        module: Module of the code location.
        location: Name of the code location in the workspace.

    Returns:
        The tags by which the page of a job finds its runs.
    """
    code_location = ManagedGrpcPythonEnvCodeLocationOrigin(
        LoadableTargetOrigin(executable_path=sys.executable, module_name=module), location
    )
    repository = RemoteRepositoryOrigin(code_location, _REPOSITORY)
    make = partial(instance.create_run_for_job, remote_job_origin=repository.get_job_origin(job))
    instance.create_run_for_job = make  # type: ignore[method-assign]
    return {REPOSITORY_LABEL_TAG: repository.get_label()}


@contextmanager
def pages(instance: dg.DagsterInstance, workspace: Path) -> Iterator[ASGIApp]:
    """Open Dagster's pages without serving them.

    `dagster-webserver` serves them at once, and lets nothing stand before them.

    Args:
        instance: The instance that they show.
        workspace: The file that names the code locations.
    """
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceFileTarget
    from dagster_webserver.app import create_app_from_workspace_process_context

    with WorkspaceProcessContext(
        instance,
        WorkspaceFileTarget([str(workspace)]),
        version=dg.__version__,
        code_server_log_level="WARNING",
    ) as context:
        yield create_app_from_workspace_process_context(context, live_data_poll_rate=2000)


@contextmanager
def code_servers(
    instance: dg.DagsterInstance, workspace: Path
) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Run the code locations of a workspace while the block lasts, as `dagster dev` does.

    `dagster code-server start` does not start one again that died, nor end when nobody asks it any
    more.

    Args:
        instance: The instance of their runs.
        workspace: The file that names the code locations.

    Yields:
        What to write into `load_from` of a workspace that uses them.
    """
    from dagster._cli.proxy_server_manager import ProxyServerManager
    from dagster._core.workspace.load_target import WorkspaceFileTarget

    target = WorkspaceFileTarget([str(workspace)])
    with ProxyServerManager(instance, target, code_server_log_level="WARNING") as started:
        yield started.get_code_server_specs()


class SentenceFailure(dg.Failure, DagsterUserCodeProcessError):  # noqa: N818 - as Dagster's own
    """The end of a step whose page begins with a sentence instead of Dagster's own stack.

    Dagster adds the stack to every exception of a step, except to one that says by itself how it
    is shown. The stack of what another library raised is kept below the sentence.

    Args:
        kind: Name of the error.
        sentence: What was found, and the way on.
        cause: What another library raised; None if nothing.
    """

    def __init__(self, kind: str, sentence: str, cause: BaseException | None = None) -> None:
        # `dg.Failure` would hand its description on to the other class, which takes none.
        Exception.__init__(self, f"{kind}: {sentence}")
        self.description = f"{kind}: {sentence}"
        self.metadata = {"error": dg.MetadataValue.text(kind)}
        self.allow_retries = False
        below = (
            None
            if cause is None or cause.__traceback__ is None
            else serializable_error_info_from_exc_info((type(cause), cause, cause.__traceback__))
        )
        self.user_code_process_error_infos = [
            SerializableErrorInfo(f"{kind}: {sentence}\n", [], kind, cause=below)
        ]
