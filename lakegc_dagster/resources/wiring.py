"""What a code location is built with, and who hears what its runs do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from lakegc_dagster.in_dagster.failures import RETRY_AFTER
from lakegc_dagster.names import OWN, Names
from spark_core.checks import CheckResult
from spark_core.clocks import Clock, SystemClock
from spark_core.errors import LakegcError
from spark_core.records.manifest import Manifest
from spark_core.run import Run
from spark_core.settings import Settings

if TYPE_CHECKING:
    from spark_core.report import Report
    from spark_core.sweep import Progress
    from spark_core.upkeep.house_keeping_result import House


class Observer:
    """Hears what a run does, in the process that does it; this class ignores everything."""

    def started(self, table: str) -> None:
        """A table is about to be made."""

    def progressed(self, table: str, progress: "Progress") -> None:
        """A table that takes long reports its progress."""

    def stored(self, manifest: Manifest) -> None:
        """A table was stored."""

    def checked(self, results: Sequence[CheckResult]) -> None:
        """The checks of a table were run."""

    def concluded(self, run: Run, report: "Report | None") -> None:
        """A mark has its verdict, and a report unless that failed."""

    def failed(self, table: str, error: LakegcError) -> None:
        """A table or its checks raised."""

    def broke(self, table: str, state: str | None) -> None:
        """An error outside lakegc ended a table or its checks; `state` is what they had done."""

    def away(self, tries: int, words: str) -> None:
        """The server, which had answered, is away; a call to it was tried so often."""

    def kept_house(self, house: "House") -> None:
        """House-keeping after the run has ended."""


@dataclass(frozen=True)
class Wiring:
    """The parts that a code location is built with.

    Attributes:
        settings: The settings; None when there are none yet, then every run says so.
        clock: Tells the time.
        observer: Hears what runs do.
        retry_after: How long a step waits before it asks a server or store again that did not
            answer.
        names: What the collector is called in its Dagster project.
    """

    settings: Settings | None
    clock: Clock = field(default_factory=SystemClock)
    observer: Observer = field(default_factory=Observer)
    retry_after: timedelta = RETRY_AFTER
    names: Names = OWN
