"""How long a round may send requests: while the look before it and the lease are good."""

from __future__ import annotations

from datetime import datetime, timedelta

from spark_core.errors import TransientError
from spark_core.lock.held_lease import Lease
from spark_core.references.parts_of_look import GOOD_FOR
from spark_core.run import Run

# With less than this share of its time left, a look is taken again before a new round.
_WORTH_A_ROUND = 0.2
# Largest share of a look's time that is left to requests under way: the store's own client may
# repeat one.
_LONGEST_REPETITION = 0.3
# A request that is sent at the last moment stays under way for a while.
_LEASE_MARGIN = timedelta(seconds=30)
# Rounds without a single request before a sweep gives up.
IDLE_ROUNDS = 3


def time_left_of(run: Run, look_began: datetime, lease: Lease) -> timedelta:
    """Return how long requests may be sent: while both look and lease are good."""
    margin = min(_LEASE_MARGIN, run.options.lease_ttl / 4)
    return min(_good_until(run, look_began), lease.expires_at - margin) - run.now()


def _good_until(run: Run, look_began: datetime) -> datetime:
    """Return until when a request may begin under a look.

    The client's repetitions of the request must fall under the same look.
    """
    repetition = min(run.store.options.retry_timeout, GOOD_FOR * _LONGEST_REPETITION)
    return look_began + GOOD_FOR - repetition


def is_worth_a_round(run: Run, look_began: datetime) -> bool:
    """Say whether enough of a look's time is left to begin a round under it."""
    return _good_until(run, look_began) - run.now() >= GOOD_FOR * _WORTH_A_ROUND


def without_time(run: Run, look_began: datetime, lasted: timedelta) -> TransientError:
    """Say why rounds pass without a request, and which setting lets them go on."""
    if lasted > timedelta(0):
        return TransientError(
            f"run {run.key} of {run.repository.id}: {IDLE_ROUNDS} rounds passed without a single "
            f"deletion. The last one had {_whole(lasted)}, and no task came to its first request: "
            "each reads its part of the plan and looks at its objects before",
            f"A round lasts as long as the second look is good for ({GOOD_FOR}) or "
            f"the lease ({run.options.lease_ttl}), whichever ends first: raise lease_ttl_seconds, "
            "or give the sweep more Spark cores.",
        )
    return TransientError(
        f"run {run.key} of {run.repository.id}: {IDLE_ROUNDS} rounds passed without a single "
        "deletion, because the time in which one may be sent was over before: refs and commits are "
        f"good for {GOOD_FOR} from when they began to be read, less what a request "
        f"may take, and that was {_whole(run.now() - look_began)} ago (a lease is good for "
        f"{run.options.lease_ttl})",
        "Give reading them more Spark cores, or raise lease_ttl_seconds. "
        "How long what is staged takes to read does not matter.",
    )


def _whole(time: timedelta) -> timedelta:
    return timedelta(seconds=round(time.total_seconds()))
