"""The engine's errors as Dagster shows them: class, whole message, a retry only if it may help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.in_dagster.private_doors import SentenceFailure
from spark_core.checks import CheckResult
from spark_core.errors import DeletionFailedError, LakegcError
from spark_core.model import RunKey
from spark_core.phases import SWEEP_STANDS, add_state
from spark_core.records.tables import DELETION_REPORT
from spark_core.tries import RETRY_AFTER, Retries


def failure_of(error: LakegcError) -> dg.Failure:
    """Return an engine's error as Dagster shows it: class and whole message, and no retry."""
    return SentenceFailure(error.kind, str(error), error.__cause__)


def refusal_of(
    repository_id: str, key: RunKey, results: Sequence[CheckResult]
) -> LakegcError | None:
    """Return the refusal by checks that failed; None if they all allow to go on.

    Args:
        repository_id: Repository name.
        key: Run key.
        results: What the checks found.
    """
    of_sweep = [each for each in results if each.table == DELETION_REPORT.name and not each.allows]
    if of_sweep:
        return add_state(DeletionFailedError(of_sweep[0].summary), SWEEP_STANDS)
    refused: LakegcError | None = engine.verdict.refusal_of(repository_id, key, results)
    return refused


@contextmanager
def raising_failures(
    seen: Callable[[LakegcError], None],
    *,
    retry_after: timedelta = RETRY_AFTER,
    retries: Retries | None = None,
) -> Iterator[None]:
    """Turn an engine error into the end of a Dagster step.

    Dagster tries the step again where that may help (`spark_core.tries`).

    Args:
        seen: Told of the error before it leaves.
        retry_after: How long a retry waits.
        retries: Of the step, the same at each try of it; None if it is tried but once.

    Raises:
        Failure: For every engine error but a passing one.
        RetryRequested: For a passing one, and for the same work under way elsewhere.
    """
    try:
        yield
    except LakegcError as error:
        seen(error)
        failure = failure_of(error)
        allowed = (retries or Retries()).allowed(error)
        if not allowed:
            raise failure from error
        failure.__cause__ = error
        # When no retries are left, Dagster shows the cause of the last request.
        raise dg.RetryRequested(
            max_retries=allowed, seconds_to_wait=retry_after.total_seconds()
        ) from failure
