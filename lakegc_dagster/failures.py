"""The engine's errors as Dagster shows them: the class by name, the message in full, and a retry only where it may help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import dagster as dg

from spark_core.errors import LakegcError, SameWorkError, TransientError

RETRIES = 2
RETRY_AFTER = timedelta(seconds=30)
# A second sweep of one mark waits for the first for 20 minutes: a dead one's lease is over in ten, unless
# `lease_ttl_seconds` is longer. A first one that takes longer fails the second, which costs nothing.
RETRIES_BESIDE_THE_SAME = 40


@dataclass
class Retries:
    """How often a step may be tried again; Dagster counts the tries of a step together, whatever they were for.

    Attributes:
        waits: Tries in this process that ended because the same work was under way elsewhere. A server that is silent
            after a long wait is asked again as often as one that is silent at once.
    """

    waits: int = 0

    def allowed(self, error: LakegcError) -> int:
        """Return how many retries a step may have had, this one included, that ended by an error; 0 for none."""
        if isinstance(error, SameWorkError):
            self.waits += 1
            return RETRIES_BESIDE_THE_SAME
        return self.waits + RETRIES if isinstance(error, TransientError) else 0


@contextmanager
def raising_failures(
    seen: Callable[[LakegcError], None], *, retry_after: timedelta = RETRY_AFTER, retries: Retries | None = None
) -> Iterator[None]:
    """Turn an engine error into the end of a Dagster step.

    A refusal is final: asking again cannot make a doubtful state safe, and an
    operator must see it. Only a server or store that did not answer is asked
    again, and then the table is made anew from its beginning. So is a lease that
    another process has for this very work: that one ends, or its lease does.

    Args:
        seen: Told of the error before it leaves.
        retry_after: How long a retry waits.
        retries: Of the step, the same at each try of it; None where it is tried but once.

    Raises:
        Failure: For every engine error but a passing one.
        RetryRequested: For a passing one, and for the same work under way elsewhere.
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
        allowed = (retries or Retries()).allowed(error)
        if not allowed:
            raise failure from error
        failure.__cause__ = error
        # Dagster shows the cause of the last request when there are no more retries.
        raise dg.RetryRequested(max_retries=allowed, seconds_to_wait=retry_after.total_seconds()) from failure
