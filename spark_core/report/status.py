"""The state of a repository's collection: last good runs, what waits, what is late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any

from spark_core.prices import Price
from spark_core.records.figures import Collects
from spark_core.report.fate_counts import as_json

# Runs of the kinds that are not the collection itself, in words.
OTHER_KINDS: Mapping[Collects, str] = {
    "policies": "runs that take only what policies name",
    "reference mark": "runs within a mark of lakeFS's own job",
}


@dataclass(frozen=True, kw_only=True)
class KindStatus:
    """The runs of one kind: a run of another kind is neither its mark nor its sweep.

    Attributes:
        collects: What they let go, as in `PastRun`.
        last_mark: Run key of the newest mark that passed or was confirmed ...
        last_marked_at: ... and when it ended.
        last_mark_kind: What it read: `clean` or `optimized`; empty if nobody knows ...
        last_mark_why_full: ... and why a mark that might be optimized was a clean one.
        last_sweep: Run key of the newest sweep that left a report ...
        last_swept_at: ... and when it ended.
        waiting: Objects and bytes that the newest mark names and nobody has swept ...
        waiting_run: ... and its run key.
        waits_for: What they wait for; empty if nothing waits.
        next_step: The command that goes on; empty if nothing waits.
        refused: Name of each check that refuses the newest mark -> its sentence.
    """

    collects: Collects = "all"
    last_mark: str | None = None
    last_marked_at: datetime | None = None
    last_mark_kind: str = ""
    last_mark_why_full: str = ""
    last_sweep: str | None = None
    last_swept_at: datetime | None = None
    waiting: tuple[int, int] = (0, 0)
    waiting_run: str | None = None
    waits_for: str = ""
    next_step: str = ""
    refused: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return its values as JSON has them."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        found: dict[str, Any] = as_json({**own, "refused": dict(self.refused)})
        return found


@dataclass(frozen=True)
class RepositoryStatus(KindStatus):
    """One repository: the runs that let go what nothing reaches, and what all runs come to.

    Attributes:
        repository: Repository id.
        runs: How many runs it has, or how many of the newest were read.
        only_newest: That number, where older runs were not read; None if all were.
        newest: Run key of the newest run, whatever became of it ...
        newest_state: ... and what did.
        reclaimed_lately: Objects and bytes that sweeps of the last 30 days took from their places.
        reclaimed_before: The same of the 30 days before those, to compare with.
        lately_is_whole: Whether it has all of those sweeps; else some may be among older runs.
        reclaimed: The same of all sweeps. What was restored is not counted.
        in_quarantine: Objects and bytes that lie in quarantine, and take up space.
        left_by_dead: What of it sweeps left that did not end, in a sentence; empty if nothing.
        listed: Objects and bytes that the newest mark that ended listed.
        overdue: What is late, in sentences; empty if nothing is.
        others: The runs of each other kind; empty if there are none.
        price: What a GB costs in a month; None if the settings do not say.
        money_per_month: What bytes cost in a month, by what they are; of reclaimed ones what is
            saved, so without those in quarantine. Empty without a price.
        problem: Why nothing else is known; empty if it is.
    """

    repository: str
    runs: int = 0
    only_newest: int | None = None
    newest: str | None = None
    newest_state: str | None = None
    reclaimed_lately: tuple[int, int] = (0, 0)
    reclaimed_before: tuple[int, int] = (0, 0)
    lately_is_whole: bool = True
    reclaimed: tuple[int, int] = (0, 0)
    in_quarantine: tuple[int, int] = (0, 0)
    left_by_dead: str = ""
    listed: tuple[int, int] = (0, 0)
    overdue: str = ""
    others: tuple[KindStatus, ...] = ()
    price: Price | None = None
    money_per_month: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""

    @property
    def kinds(self) -> tuple[KindStatus, ...]:
        """All kinds of runs, the collection itself first."""
        return (self, *self.others)

    @property
    def most_waiting(self) -> tuple[int, int]:
        """The most that one kind waits with; kinds may name the same objects."""
        return max(kind.waiting for kind in self.kinds)

    def to_json(self) -> dict[str, Any]:
        """Return its values as JSON has them."""
        return {
            **super().to_json(),
            "others": [other.to_json() for other in self.others],
            "price": None if self.price is None else asdict(self.price),
        }
