"""The engine's errors as Dagster shows them: the class by name, the message in full, and a retry only where it may help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import dagster as dg

from spark_core.errors import LakegcError, TransientError

RETRIES = 2
RETRY_AFTER = timedelta(seconds=30)


@contextmanager
def raising_failures(seen: Callable[[LakegcError], None], *, retry_after: timedelta = RETRY_AFTER) -> Iterator[None]:
    """Turn an engine error into the end of a Dagster step.

    A refusal is final: asking again cannot make a doubtful state safe, and an
    operator must see it. Only a server or store that did not answer is asked
    again, and then the table is made anew from its beginning.

    Args:
        seen: Told of the error before it leaves.
        retry_after: How long a retry waits.

    Raises:
        Failure: For every engine error but a passing one.
        RetryRequested: For a passing one.
    """
    try:
        yield
    except LakegcError as error:
        seen(error)
        failure = dg.Failure(
            description=f"{type(error).__name__}: {error}",
            metadata={"error": type(error).__name__},
            allow_retries=False,
        )
        if not isinstance(error, TransientError):
            raise failure from error
        failure.__cause__ = error
        # Dagster shows the cause of the last request when there are no more retries.
        raise dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=retry_after.total_seconds()) from failure
