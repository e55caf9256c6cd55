"""Retries with growing pauses: one policy for calls to the lakeFS server and for the stores.

For the stores that is keys that a busy store did not delete, and obstore's requests to Azure. Other
requests to stores are repeated by their clients within the same bounds (for S3:
`storage/s3/clients.py`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tenacity import RetryCallState, Retrying, wait_exponential
from tenacity.retry import RetryBaseT

T = TypeVar("T")


@dataclass(frozen=True)
class Backoff:
    """How often a question is asked, and after which pauses.

    Attributes:
        first_seconds: Pause before the second try; it doubles each time.
        longest_seconds: Longest pause.
        spread: Share, 0 to 1, by which a pause may be longer, so that many do not come back at
            once.
        tries: Most tries, the first one included.
        within_seconds: No pause begins that would end later.
    """

    first_seconds: float = 1.0
    longest_seconds: float = 30.0
    spread: float = 0.5
    tries: float = math.inf
    within_seconds: float = math.inf

    def ask(
        self,
        question: Callable[[], T],
        *,
        again: RetryBaseT,
        sleep: Callable[[float], None],
        spent: Callable[[], float] | None = None,
        at_least: Callable[[T], float] | None = None,
    ) -> T:
        """Ask until there is an answer, or no try or time is left.

        Args:
            question: The function to call.
            again: Which answers and errors call for another try; one of tenacity's `retry_if_...`.
            sleep: Waits so many seconds.
            spent: Seconds since the beginning, against `within_seconds`; by default only the pauses
                count.
            at_least: Shortest pause, in seconds, that an answer asks for.

        Returns:
            The last answer, also one that called for another try.

        Raises:
            Exception: The last error, as it was raised.
        """
        doubling = wait_exponential(multiplier=self.first_seconds, max=self.longest_seconds)

        def pause(state: RetryCallState) -> float:
            own = doubling(state) * random.uniform(1, 1 + self.spread)  # noqa: S311 - no secret
            return own if at_least is None else max(own, at_least(_last(state)))

        def is_over(state: RetryCallState) -> bool:
            so_far = state.idle_for if spent is None else spent()
            return (
                state.attempt_number >= self.tries
                or so_far + state.upcoming_sleep > self.within_seconds
            )

        return Retrying(
            wait=pause, stop=is_over, retry=again, sleep=sleep, retry_error_callback=_last
        )(question)


def _last(state: RetryCallState) -> Any:
    """Return the last answer, or raise the last error."""
    assert state.outcome is not None  # noqa: S101 - tenacity asks only about tries that ended
    return state.outcome.result()
