"""The figures of a sweep, and of each of its looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_core.records.figures.base import LEFT_OUT, Figures
from spark_core.records.figures.committed import ReachedFigures
from spark_core.records.figures.staged import StagedReadFigures
from spark_core.records.figures.twins import TwinFigures


@dataclass(frozen=True, kw_only=True)
class SecondLookFigures(ReachedFigures):
    """A look at what is referenced, just before deleting.

    Attributes:
        began: When it began.
        oldest_began: When its oldest staged part was begun.
        seconds: How long it took.
        calls: Calls to the server.
        staged: How the staged entries were read, each time.
        commits: Commits of the repository.
        branches: Branches.
        tags: Tags.
        retained_commits: Commits that keep their objects.
        holds: Number of holds.
        twins: The search for hidden entries; None if it was not due.
        server_runs: Ids of the server's lists and scans, for this look and those before it.
    """

    began: str
    oldest_began: str
    seconds: float
    calls: int
    staged: tuple[StagedReadFigures, ...]
    commits: int
    branches: int
    tags: int
    retained_commits: int
    holds: int
    twins: TwinFigures | None
    server_runs: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return them as JSON values; a search that was not due is an empty object."""
        found = super().facts()
        return {**found, "twins": found["twins"] or {}}


@dataclass(frozen=True, kw_only=True)
class QuarantineFigures(Figures):
    """The promise of a sweep that moves objects; without values if it deletes at once.

    Attributes:
        quarantine_days: Days from the end of the sweep.
        quarantine_folder: Where the objects lie.
        undo: The command that brings them back.
    """

    quarantine_days: float | None = field(default=None, metadata=LEFT_OUT)
    quarantine_folder: str | None = field(default=None, metadata=LEFT_OUT)
    undo: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class DeletionFigures(QuarantineFigures):
    """Figures of `deletion_report`.

    Attributes:
        planned_objects: Objects of the plan.
        planned_bytes: Their bytes; None where no storage class is known, ...
        planned_by_class: ... else those bytes by storage class.
        rounds: Rounds of the last sweep; None where nothing was to be deleted.
        left_named: Address, outcome and error of some objects that were not deleted.
        second_look: The last look at what is referenced.
        store_was_busy: Times that the store could not take a request, or some keys of one, in the
            last sweep.
        store_keys_per_second: Keys a second that the store took; None where it was never busy.
        deleted_objects: Objects deleted; None: no row, or not counted.
        deleted_bytes: Their bytes.
        already_gone_objects: Objects that were gone before.
        already_gone_bytes: Their bytes.
        kept_objects: Objects that something references again.
        kept_bytes: Their bytes.
        refused_objects: Objects that the store refused to delete.
        refused_bytes: Their bytes.
        failed_objects: Objects on which the store failed.
        failed_bytes: Their bytes.
    """

    planned_objects: int
    planned_bytes: int | None = field(default=None, metadata=LEFT_OUT)
    planned_by_class: Mapping[str, int] | None = field(default=None, metadata=LEFT_OUT)
    rounds: int | None = field(default=None, metadata=LEFT_OUT)
    left_named: tuple[tuple[str, str, str | None], ...] | None = field(
        default=None, metadata=LEFT_OUT
    )
    second_look: SecondLookFigures | None = field(default=None, metadata=LEFT_OUT)
    store_was_busy: int = 0
    store_keys_per_second: int | None = field(default=None, metadata=LEFT_OUT)
    deleted_objects: int | None = field(default=None, metadata=LEFT_OUT)
    deleted_bytes: int = 0
    already_gone_objects: int = 0
    already_gone_bytes: int = 0
    kept_objects: int = 0
    kept_bytes: int = 0
    refused_objects: int = 0
    refused_bytes: int = 0
    failed_objects: int = 0
    failed_bytes: int = 0

    @property
    def left_objects(self) -> int:
        """Objects that the store refused to delete or failed on."""
        return self.refused_objects + self.failed_objects
