"""From which moment on a candidate may hide on a branch (safety 35)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.references.heads import Heads
from spark_core.run import Run

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_BEFORE_ALL = -(2**63)


def moment_of(run: Run, since: Heads, branch: str, grace: timedelta) -> int:
    """Return the moment from which a candidate may hide on a branch, in microseconds.

    It is the moment since which the branch stands on its head, less the time of an upload.

    An object is named when its upload begins, and some stores date it then. It is staged when the
    upload ends. A linked object is staged within the server's grace period.
    """
    options = run.options
    head = since.branches.get(branch)
    # A branch that was made after the heads were read has nothing older staged.
    made, why = (since.read_at, "") if head is None else (head.since, head.why)
    if since.is_damaged or options.hidden_entries == "ask_all" or why or made is None:
        return _BEFORE_ALL
    if options.allow_unsafe_min_age and options.min_age < grace:
        before = max(options.min_age, timedelta(0))
    else:
        before = max(options.min_age, grace, options.longest_upload) + MAX_CLOCK_SKEW
    return (made.replace(microsecond=0) - _EPOCH - before) // timedelta(microseconds=1)
