"""What lakegc uses of Dagster past its public interface, each with what is done without it.

Two names are private: a class of errors, and a class in a file of settings. The rest are public
names that are used in a way of their own. An upgrade may break any of these:
`tests/lakegc_dagster/in_dagster/test_private_doors.py` says which.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import dagster as dg
import yaml
from dagster_shared.error import SerializableErrorInfo

from lakegc_dagster.runs.job_names import REQUESTED_RUNS
from spark_core.text_files import read_text
from spark_core.yaml_documents import read_yaml

try:
    from dagster._core.errors import DagsterUserCodeProcessError as _ShownAsItSays
except ImportError:
    # Then Dagster's own stack stands before the sentence.
    class _ShownAsItSays(Exception):  # type: ignore[no-redef]  # noqa: N818 - Dagster's in its place
        pass


if TYPE_CHECKING:
    from starlette.types import ASGIApp

# As the file of an instance names it.
NO_LOG_FILES = {
    "module": "dagster._core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
}

# What the script `dagster-daemon` runs, which is not beside every interpreter.
DAEMON = (
    "-c",
    """
from importlib.metadata import entry_points
entry_points(group="console_scripts", name="dagster-daemon")["dagster-daemon"].load()()
""",
)

# Dagster's name for the definitions of a code location that declares no repository.
_REPOSITORY = "__repository__"

# The tags of a run, as Dagster stores and shows them.
_LABEL = ".dagster/repository"
_SENSOR = "dagster/sensor_name"
_BACKFILL = "dagster/backfill"
_BY_A_CONDITION = frozenset(
    {"dagster/auto_materialize", "dagster/auto_observe", "dagster/from_automation_condition"}
)
_STARTED_BY_DAGSTER = _BY_A_CONDITION | {"dagster/schedule_name", _SENSOR, _BACKFILL}

_SHARING, _SHARED = Lock(), list[Sequence[logging.Handler]]()


def started_by_a_person(tags: Mapping[str, str], requests: str = REQUESTED_RUNS) -> bool:
    """Say whether a person started a run and looks at it, by its tags.

    There is no public list of these tags.

    Args:
        tags: The run's tags.
        requests: Name of the sensor that starts runs for people.
    """
    if tags.get(_SENSOR) == requests:
        return True
    return not _STARTED_BY_DAGSTER & tags.keys()


def is_of_a_backfill(tags: Mapping[str, str]) -> bool:
    """Say whether a run is one of a backfill, by its tags."""
    return _BACKFILL in tags


def is_asked_by_a_condition(tags: Mapping[str, str]) -> bool:
    """Say whether an automation condition started a run, by its tags."""
    return bool(_BY_A_CONDITION & tags.keys())


@contextmanager
def instance_without_log_files(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the instance of an existing home; what its runs print stays on the terminal.

    There is no public way to open a home with overrides, so they are in a file of their own
    meanwhile. Without Dagster's class for it, what runs print goes to files.
    """
    if find_spec(NO_LOG_FILES["module"]) is None:
        with dg.DagsterInstance.from_config(str(home)) as instance:
            yield instance
        return
    with tempfile.NamedTemporaryFile("w", dir=home, prefix=".lakegc-", suffix=".yaml") as file:
        config = read_yaml(read_text(home / "dagster.yaml", str(home / "dagster.yaml"))) or {}
        if not isinstance(config, dict):
            raise yaml.YAMLError("it is no mapping of names")
        yaml.safe_dump({**config, "compute_logs": NO_LOG_FILES}, file)
        file.flush()
        instance = dg.DagsterInstance.from_config(str(home), Path(file.name).name)
    with instance:
        yield instance


def share_log_handlers(instance: dg.DagsterInstance) -> None:
    """Let the runs of this process write to the log handlers that the first of them found.

    At the start of each run Dagster sets up Python's logging for the whole process anew, and shuts
    the handlers of the run beside it down, which ends in a deadlock. Where Dagster finds its
    handlers in another way, this changes nothing.

    Args:
        instance: The instance of a run that has not begun.
    """
    with _SHARING:
        if not _SHARED:
            _SHARED.append(instance.get_yaml_python_handlers())
    instance.get_yaml_python_handlers = lambda: _SHARED[0]  # type: ignore[method-assign]


def as_runs_of(
    instance: dg.DagsterInstance, job: str, *, module: str, location: str
) -> dict[str, str]:
    """Let the next runs that an instance makes belong to a job of a code location.

    `execute_in_process` makes runs without an origin. Dagster's timeline, its page of a job and its
    sensors show and see only those that have the origin of the code location. It is made of the
    form in which Dagster stores it. Where Dagster knows that form no more, runs have none.

    Args:
        instance: The instance of this process's runs.
        job: Name of the job.
        module: Module of the code location.
        location: Name of the code location in the workspace.

    Returns:
        The tags by which the page of a job finds its runs.
    """
    target = dict.fromkeys(("attribute", "package_name", "python_file", "working_directory"))
    stored = {
        "__class__": "ExternalPipelineOrigin",
        "external_repository_origin": {
            "__class__": "ExternalRepositoryOrigin",
            "repository_location_origin": {
                "__class__": "ManagedGrpcPythonEnvRepositoryLocationOrigin",
                "loadable_target_origin": {
                    "__class__": "LoadableTargetOrigin",
                    "executable_path": sys.executable,
                    "module_name": module,
                    **target,
                },
                "location_name": location,
            },
            "repository_name": _REPOSITORY,
        },
        "pipeline_name": job,
    }
    try:
        origin: Any = dg.deserialize_value(json.dumps(stored))
    except Exception:  # noqa: BLE001 - whatever Dagster says of the form, the run is worth more
        return {}
    make = partial(instance.create_run_for_job, remote_job_origin=origin)
    instance.create_run_for_job = make  # type: ignore[method-assign]
    return {_LABEL: f"{_REPOSITORY}@{location}"}


def serve_pages(workspace: Path, serve: Callable[[ASGIApp], None]) -> None:
    """Let Dagster's own command make its pages, and serve them in its place.

    `dagster-webserver` serves them at once, and lets nothing stand before them.

    Args:
        workspace: The file that names the code locations.
        serve: Serves the pages until they are no longer wanted.

    Raises:
        RuntimeError: If the command came to its end without pages.
    """
    import uvicorn
    from dagster_webserver.cli import cli

    served = list[object]()

    def run(app: ASGIApp, **_: object) -> None:
        served.append(app)
        serve(app)

    words = ["-w", str(workspace), "-p", "1", "--dagster-log-level", "warning"]
    own, uvicorn.run = uvicorn.run, run  # type: ignore[assignment]
    try:
        with cli.make_context("dagster-webserver", words) as context:
            cli.invoke(context)
    finally:
        uvicorn.run = own
    if not served:
        raise RuntimeError(f"Dagster {dg.__version__} serves its pages in another way")


class SentenceFailure(dg.Failure, _ShownAsItSays):
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
        has_stack = cause is not None and cause.__traceback__ is not None
        below = _below(cause) if cause is not None and has_stack else None
        self.user_code_process_error_infos = [
            SerializableErrorInfo(f"{kind}: {sentence}\n", [], kind, cause=below)
        ]


def _below(cause: BaseException) -> SerializableErrorInfo:
    return SerializableErrorInfo(
        "".join(traceback.format_exception_only(cause)),
        traceback.format_tb(cause.__traceback__),
        type(cause).__name__,
    )
