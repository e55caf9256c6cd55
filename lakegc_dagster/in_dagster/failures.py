"""The engine's errors as Dagster shows them: class, whole message, a retry only if it may help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.in_dagster.private_doors import SentenceFailure
from spark_core.checks import CONFIRMABLE, CheckResult
from spark_core.errors import DeletionFailedError, LakegcError, SameWorkError, TransientError
from spark_core.model import RunKey
from spark_core.phases import NOTHING_DELETED, SWEEP_STANDS, add_state
from spark_core.records.tables import DELETION_REPORT

RETRIES = 2
RETRY_AFTER = timedelta(seconds=30)
# A second sweep of one mark waits 20 minutes for the first. The lease of a dead first sweep is over
# in ten at most, unless `lease_ttl_seconds` is longer. If the first takes longer, the second fails,
# which costs nothing.
RETRIES_BESIDE_THE_SAME = 40


@dataclass
class Retries:
    """How often a step may be tried again; Dagster counts all tries of a step together.

    Attributes:
        waits: Tries in this process that ended because the same work was under way elsewhere. A
            server that is silent after a long wait is asked again as often as one that is silent at
            once.
    """

    waits: int = 0

    def allowed(self, error: LakegcError) -> int:
        """Return how many retries after errors a step may have had, with this one; 0 for none."""
        if isinstance(error, SameWorkError):
            self.waits += 1
            return RETRIES_BESIDE_THE_SAME
        return self.waits + RETRIES if may_pass(error) else 0


def may_pass(error: LakegcError) -> bool:
    """Say whether asking again may help; not where a wrong endpoint is the likely reason.

    A step that runs elsewhere starts with a connection of its own, and its error comes back as what
    it is in the tree: there it may pass.
    """
    # Who only loads the code location asks no server, and need not wait for its client.
    from spark_core.lakefs.failures import NeverAnsweredError

    return isinstance(error, TransientError) and not isinstance(error, NeverAnsweredError)


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
    failed = [result for result in results if not result.allows]
    if not failed:
        return None
    if failed[0].table == DELETION_REPORT.name:
        return add_state(DeletionFailedError(failed[0].summary), SWEEP_STANDS)
    failing = [f"{result.name}: {result.summary}" for result in failed]
    refused: LakegcError = engine.verdict.not_passed(
        repository_id,
        key,
        "; ".join(failing),
        has_way_on={result.name for result in failed} <= CONFIRMABLE,
    )
    return add_state(refused, NOTHING_DELETED)


@contextmanager
def raising_failures(
    seen: Callable[[LakegcError], None],
    *,
    retry_after: timedelta = RETRY_AFTER,
    retries: Retries | None = None,
) -> Iterator[None]:
    """Turn an engine error into the end of a Dagster step.

    A refusal is final: asking again cannot make a doubtful state safe, and an operator must see it.
    If a server or store did not answer, it is asked again, and then the table is made anew from its
    beginning; a server that never answered is not. A lease that another process has for this very
    work is also asked for again: that process ends, or its lease does.

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
