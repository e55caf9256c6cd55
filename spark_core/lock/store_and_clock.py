"""What the store and this machine's clock must prove before a lease means anything."""

from __future__ import annotations

import secrets

from spark_core import lakegc_keys
from spark_core.clocks import SystemClock, require_near, require_not_set_back
from spark_core.errors import UnsafePlanError
from spark_core.run import Run
from spark_core.storage.probes import honours_conditional_put, read_clock

_TERMS_UNKNOWN = (
    "a lease taken now would keep everybody else waiting for as much, or end one under which "
    "somebody is at work"
)


def require_conditional_put(run: Run) -> None:
    """Refuse a store on which two collectors could both seem to hold the lease (safety 33).

    Raises:
        UnsafePlanError: If the store does not honour create-if-absent, and the options do not say
            that nobody else collects.
    """
    if run.options.exclusive:
        return
    if not honours_conditional_put(
        run.store, f"{lakegc_keys.PROBE}condition-{secrets.token_hex(8)}"
    ):
        raise UnsafePlanError(
            f"{run.store.root}: the store does not keep the condition of a put (a second writer of "
            "one object was not told so), "
            "so no lease can keep two collectors apart there",
            "Use a store or a gateway that honours "
            f"If-None-Match; or, if nobody else ever collects {run.repository.id}, set exclusive "
            "= true for it.",
        )


def require_right_clock(run: Run) -> None:
    """Refuse to take a lease by a clock that is not the store's.

    All who come later compare the lease's end with their own clocks.

    Raises:
        UnsafePlanError: If the clock is further off than `MAX_CLOCK_SKEW`, or was set back by more
            since the run began.
    """
    clock = run.environment.clock
    require_near(read_clock(run.store), f"the store of {run.store.root}", why=_TERMS_UNKNOWN)
    if isinstance(clock, SystemClock):
        require_not_set_back(clock.ahead, why=_TERMS_UNKNOWN)
