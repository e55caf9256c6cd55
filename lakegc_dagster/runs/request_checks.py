"""What a person asks for, checked before Dagster gets a run or a partition of it.

A request is a repository, a job and a run key. It is wrong where no run at all could do it: the key
is no instant or lies in the future, the mode forbids the sweep, there is no such mark, or the work
was done. Whatever else ends a run is about the repository, and its run shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from lakegc_dagster.partitions import parse_partition_key
from spark_core.errors import (
    ClosedPartitionError,
    LakegcError,
    NotFoundError,
    SettingsError,
    UnsafePlanError,
    VerdictError,
)
from spark_core.mark_and_sweep import require_possible
from spark_core.model import Job, RunKey
from spark_core.phases import NOTHING_BY_THIS_SWEEP, NOTHING_DELETED, add_state, ended_a_command
from spark_core.run import Environment, Run, open_run, require_past
from spark_core.settings import Settings

# What the checks below raise of a wrong request. A server that is silent, a damaged table and the
# like are no matter of the request.
_WRONG = (SettingsError, UnsafePlanError, ClosedPartitionError, VerdictError, NotFoundError)
_NOTHING = (NOTHING_DELETED, NOTHING_BY_THIS_SWEEP)


def wrong_request(
    settings: Settings,
    environment_of: Callable[[], Environment],
    job: Job,
    repository_id: str,
    key: RunKey,
    *,
    now: datetime,
) -> LakegcError | None:
    """Return what is wrong with a request; None if nothing is, or if only its run can show it.

    Args:
        settings: The settings.
        environment_of: Makes the server, the store and the clock that a run would have.
        job: What is asked.
        repository_id: Repository name.
        key: Run key.
        now: The time.
    """
    try:
        options = settings.run_options(repository_id)
        require_past(key, now)
    except LakegcError as error:
        return _ended(error, job)
    try:
        run = open_run(environment_of(), repository_id, key, options)
    except LakegcError:
        # Server, store or credentials: the run meets it again, and Dagster's history has it.
        return None
    try:
        require_possible(run, job)
    except LakegcError as error:
        return _ended(error, job) if isinstance(error, _WRONG) else None
    return None


def _ended(error: LakegcError, job: Job) -> LakegcError:
    """Say what the request did; the run that it asks to sweep may have been swept before."""
    if job == "sweep" and not isinstance(error, SettingsError):
        return add_state(error, NOTHING_BY_THIS_SWEEP)
    return ended_a_command(error)


def was_wrong(
    error: LakegcError,
    settings: Settings | None,
    partition_key: str,
    run: Run | None,
    *,
    job: Job,
    now: datetime,
) -> bool:
    """Say of a request whose run failed whether it was wrong from the beginning.

    A request may be wrong by now and have been right when its run began: another process ended the
    same sweep, for example. So the request must be wrong in the way that the run says, and the run
    must have deleted nothing.

    Args:
        error: What ended the run, with its state.
        settings: The settings; None when there are none.
        partition_key: Repository and run key, as a person chose them.
        run: The run; None if it could not be opened.
        job: What was asked of it.
        now: The time.
    """
    if type(error) not in _WRONG or error.state not in _NOTHING:
        return False
    try:
        repository_id, key = parse_partition_key(partition_key)
        if settings is not None:
            settings.repository(repository_id)
        require_past(key, now)
        if run is not None:
            require_possible(run, job)
    except LakegcError as wrong:
        # The request looks for the run to sweep; the sweep itself looks for the run's verdict.
        said = VerdictError if isinstance(wrong, NotFoundError) else type(wrong)
        return type(error) is said
    return False
