"""One run of a repository: its state and figures, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from spark_core.prices import Price
from spark_core.records.figures import Collects
from spark_core.records.swept import FINAL
from spark_core.report.fate_counts import Amount, as_json, total

State = Literal[
    "unfinished", "refused", "marked", "sweep unfinished", "swept in part", "swept", "restored",
    "superseded", "unreadable",
]  # fmt: skip
KindName = Literal["", "clean", "optimized"]
STATES: tuple[State, ...] = State.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True)
class PastRun:
    """One run of a repository.

    Attributes:
        run: Run key.
        state: `unfinished`: the mark has no verdict. `refused`: a check stops the sweep. `marked`:
            the sweep may begin. `sweep unfinished`: a sweep began and left no report. `swept in
            part`: the store did not delete everything. `restored`: something of it came back.
            `superseded`: it did not end, and a later run of its kind was swept since.
            `unreadable`: a document of the run is damaged.
        refused: Name of each check that stops the sweep -> its sentence.
        confirmable: Those of them that a person may confirm by name.
        lifted_by: Name of each of them -> what lifts it.
        began: When the mark began to read; None if it left no table.
        concluded_at: When the verdict was stored.
        swept_at: When the report of the sweep was stored.
        mark_seconds: From the first byte read to the verdict.
        sweep_seconds: From the beginning of the last sweep to its report.
        listed_objects: Objects of the namespace.
        expired_objects: Objects that may go ...
        expired_bytes: ... and their bytes.
        expired_by_class: Those bytes by storage class, as far as classes are known.
        listed_by_class: Bytes of the namespace by storage class, as far as classes are known.
        collects: What it lets go: `all`, only what `policies` name, or only what a `reference mark`
            names, too; None if its mark named nothing yet, or cannot be read.
        fates: Fate -> objects and bytes, of every object, as `fates.fates_of` gives them.
        deleted_before: Objects and bytes that may go although an earlier sweep reported them
            deleted.
        outcomes: Outcome of a sweep -> objects and bytes.
        restored: Objects and bytes that restores brought back.
        quarantine_until: Until when the deleted objects can come out of quarantine, if they were
            moved there.
        moved_at: When the last of them was moved there, if another run ended its sweep.
        in_quarantine: Objects and bytes of the run that lie there now.
        ended_by: The run that ended its sweep, which had died; empty if none did.
        kind: `clean` or `optimized`; empty if its mark did not begin, or cannot be read.
        index: Run key of the run that saved the index of an optimized one; empty for a clean one.
        why_full: Why a run that might be optimized was a clean one.
        problem: What could not be read, and why.
    """

    run: str
    state: State = "unfinished"
    refused: Mapping[str, str] = field(default_factory=dict)
    confirmable: tuple[str, ...] = ()
    lifted_by: Mapping[str, str] = field(default_factory=dict)
    began: datetime | None = None
    concluded_at: datetime | None = None
    swept_at: datetime | None = None
    mark_seconds: float | None = None
    sweep_seconds: float | None = None
    listed_objects: int | None = None
    expired_objects: int | None = None
    expired_bytes: int | None = None
    expired_by_class: Mapping[str, int] = field(default_factory=dict)
    listed_by_class: Mapping[str, int] = field(default_factory=dict)
    collects: Collects | None = None
    fates: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    deleted_before: Amount = (0, 0)
    outcomes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    restored: tuple[int, int] = (0, 0)
    quarantine_until: datetime | None = None
    moved_at: datetime | None = None
    in_quarantine: Amount = (0, 0)
    ended_by: str = ""
    kind: KindName = ""
    index: str = ""
    why_full: str = ""
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether the mark ended well: every check passed, or its finding was confirmed."""
        return self.concluded_at is not None and not self.refused and self.state != "unreadable"

    @property
    def swept(self) -> bool:
        """Whether a sweep of it left a report."""
        return self.swept_at is not None

    @property
    def reclaimed(self) -> tuple[int, int]:
        """Objects and bytes that its sweep took from their places, and no earlier one took.

        What was restored is left out.
        """
        taken = (self.outcomes.get("deleted", (0, 0)), self.restored, self.deleted_before)
        objects, size_bytes = (of - back - before for of, back, before in zip(*taken, strict=True))
        return max(0, objects), max(0, size_bytes)

    @property
    def saved_bytes(self) -> int:
        """Bytes that it reclaimed and that nobody pays for any more: quarantine takes up space.

        What an earlier sweep had saved and this one met again is taken off while it lies there.
        """
        deleted = self.outcomes.get("deleted", (0, 0))[1]
        return max(0, deleted - self.restored[1] - self.in_quarantine[1]) - min(
            deleted, self.deleted_before[1]
        )

    @property
    def not_swept(self) -> tuple[int, int]:
        """Objects and bytes that it names and that no sweep is known to be done with."""
        if not self.swept:
            back, back_bytes = self.restored
            return (self.expired_objects or 0) - back, (self.expired_bytes or 0) - back_bytes
        return total(amount for name, amount in self.outcomes.items() if name not in FINAL)

    @property
    def seconds(self) -> float | None:
        """How long mark and sweep took together; None if the mark did not end."""
        if self.mark_seconds is None:
            return None
        return self.mark_seconds + (self.sweep_seconds or 0.0)

    def price_of_expired(self, price: Price) -> Price:
        """Return what a GB of what it lets go costs on the average, and so one of what it took."""
        return price.over(self.expired_by_class, self.expired_bytes or 0)

    def to_json(self) -> dict[str, Any]:
        """Return its values as JSON has them."""
        found: dict[str, Any] = as_json({**asdict(self), "seconds": self.seconds})
        return found
