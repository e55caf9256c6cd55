"""Which errors of a step are met by trying it again, how often, and after how long.

A refusal is final: asking again cannot make a doubtful state safe, and an operator must see it.
If a server or store did not answer, it is asked again, and then the table is made anew from its
beginning; a server that never answered is not. A lease that another process has for this very work
is also asked for again: that process ends, or its lease does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeVar

from spark_core.clocks import Clock
from spark_core.errors import LakegcError, SameWorkError, TransientError
from spark_core.events import Event, OnEvent

RETRIES = 2
RETRY_AFTER = timedelta(seconds=30)
# A second sweep of one mark waits 20 minutes for the first. The lease of a dead first sweep is over
# in ten at most, unless `lease_ttl_seconds` is longer. If the first takes longer, the second fails,
# which costs nothing.
RETRIES_BESIDE_THE_SAME = 40

Result = TypeVar("Result")


@dataclass
class Retries:
    """How often a step may be tried again.

    Attributes:
        waits: Tries that ended because the same work was under way elsewhere. A server that is
            silent after a long wait is asked again as often as one that is silent at once.
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
    # Who only loads Dagster's code location asks no server, and need not wait for its client.
    from spark_core.lakefs.failures import NeverAnsweredError

    return isinstance(error, TransientError) and not isinstance(error, NeverAnsweredError)


def until_done(
    step: Callable[[bool], Result],
    table: str,
    on_event: OnEvent,
    clock: Clock,
) -> Result:
    """Do a step, again where that may help.

    Args:
        step: Does it; told whether this is another try.
        table: The table that it makes.
        on_event: Told of each try that failed.
        clock: Waits between two tries.

    Returns:
        What the step returns.

    Raises:
        LakegcError: The last error.
    """
    retries, tries = Retries(), 0
    while True:
        try:
            return step(tries > 0)
        except LakegcError as error:
            allowed, tries = retries.allowed(error), tries + 1
            kind: Literal["waits", "retries", "failed"] = "failed"
            words = str(error)
            if isinstance(error, SameWorkError):
                kind, words = "waits", error.message
            elif tries <= allowed:
                kind, words = "retries", error.found
            on_event(Event(kind, table, words, tries=tries - retries.waits))
            if tries > allowed:
                raise
            clock.sleep(RETRY_AFTER.total_seconds())
