"""What a code location is built with."""

from dataclasses import dataclass, field
from datetime import timedelta

from lakegc_dagster.names import OWN, Names
from spark_core.clocks import Clock, SystemClock
from spark_core.settings import Settings
from spark_core.tries import RETRY_AFTER


@dataclass(frozen=True)
class Wiring:
    """The parts that a code location is built with.

    Attributes:
        settings: The settings; None when there are none yet, then every run says so.
        clock: Tells the time.
        retry_after: How long a step waits before it asks a server or store again that did not
            answer.
        names: What the collector is called in its Dagster project.
    """

    settings: Settings | None
    clock: Clock = field(default_factory=SystemClock)
    retry_after: timedelta = RETRY_AFTER
    names: Names = OWN
