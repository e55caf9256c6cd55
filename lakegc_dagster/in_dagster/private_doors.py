"""What lakegc uses of Dagster past its public interface, each with what is done without it.

Two names are private: a class of errors, and a class that names what a check was about. The rest
are public names that are used in a way of their own. An upgrade may break any of these:
`tests/lakegc_dagster/in_dagster/test_private_doors.py` says which.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster_shared.error import SerializableErrorInfo

from lakegc_dagster.runs.run_config import REQUESTED_RUNS

try:
    from dagster._core.errors import DagsterUserCodeProcessError as _ShownAsItSays
except ImportError:
    # Then Dagster's own stack stands before the sentence.
    class _ShownAsItSays(Exception):  # type: ignore[no-redef]  # noqa: N818 - Dagster's in its place
        pass


try:
    from dagster._core.definitions.asset_checks.asset_check_evaluation import (
        AssetCheckEvaluationTargetMaterializationData as _Target,
    )
except ImportError:
    # Then Dagster shows the results of checks on their pages, and does not count them.
    _Target = None  # type: ignore[assignment, misc]

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# What the script `dagster-daemon` runs, which is not beside every interpreter.
DAEMON = (
    "-c",
    """
from importlib.metadata import entry_points
entry_points(group="console_scripts", name="dagster-daemon")["dagster-daemon"].load()()
""",
)

# The tags of a run, as Dagster stores and shows them.
_SENSOR = "dagster/sensor_name"
_BACKFILL = "dagster/backfill"
_BY_A_CONDITION = frozenset(
    {"dagster/auto_materialize", "dagster/auto_observe", "dagster/from_automation_condition"}
)
_STARTED_BY_DAGSTER = _BY_A_CONDITION | {"dagster/schedule_name", _SENSOR, _BACKFILL}


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


def target_of(record: dg.EventLogRecord) -> Any:
    """Return what a result of a check says of the materialization that it is about.

    Dagster counts a result only if it names the newest materialization of its partition.
    """
    if _Target is None:
        return None
    return _Target(storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp)


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
