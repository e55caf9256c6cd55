"""The figures of what may go, and their sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spark_core.records.figures.base import LEFT_OUT, Figures, Groups
from spark_core.records.figures.commits import HoldFigures
from spark_core.records.figures.reference_job import ReferenceFigures
from spark_core.records.figures.twins import TwinFigures

# What a run lets go: what nothing reaches and what a policy names; only the latter; or only what a
# mark of lakeFS's own job names, too.
Collects = Literal["all", "policies", "reference mark"]


@dataclass(frozen=True, kw_only=True)
class AmountFigures(Figures):
    """Some objects.

    Attributes:
        objects: How many.
        bytes: Their bytes.
    """

    objects: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class SeenFigures(Figures):
    """Objects of slices that were taken from the index, and that may go.

    Attributes:
        objects: Those that were looked at in the store ...
        changed_objects: ... and those of them that had been written over.
        unseen_objects: Those that were not looked at, as that would have cost too much; a sweep
            looks at each object before its request.
    """

    objects: int = 0
    changed_objects: int = 0
    unseen_objects: int = 0


@dataclass(frozen=True, kw_only=True)
class ComparedFigures(Figures):
    """The closed slices of the index before a clean run, compared with its listing.

    Attributes:
        run: The run that saved the index.
        objects: Objects that the index has and no sweep deleted since.
        lacking_objects: Objects in these slices that the index lacked.
        extra_objects: Objects of the index that are not there.
        other_objects: Objects that have another size, date or checksum.
    """

    run: str
    objects: int = 0
    lacking_objects: int = 0
    extra_objects: int = 0
    other_objects: int = 0


@dataclass(frozen=True, kw_only=True)
class SumFigures(Figures):
    """Sums of the objects that may go.

    Attributes:
        expired_objects: Objects that may go.
        expired_bytes: Their bytes.
        not_collectable: Those with a name that is never collected.
        too_young: Those written at or after the cutoff.
        not_of_lakefs: Strangers and inherited objects where the settings keep them.
        by_reason: Objects by reason.
        by_age: Objects by age group.
        by_slice: The slices with most bytes.
        by_class: Objects by storage class; None where the listing says no classes.
        slices_with_expired: Slices that have any.
        other_slices: Objects in those that `by_slice` does not name; None for no such slices.
        largest: Bytes, address, instant of writing and reason of the largest.
        largest_committed: Path and last commit of those that a commit is known to have had, by
            address.
    """

    expired_objects: int = 0
    expired_bytes: int = 0
    not_collectable: int = 0
    too_young: int = 0
    not_of_lakefs: int = 0
    by_reason: Groups = ()
    by_age: Groups = ()
    by_slice: Groups = ()
    by_class: Groups | None = field(default=None, metadata=LEFT_OUT)
    slices_with_expired: int = 0
    other_slices: AmountFigures | None = field(default=None, metadata=LEFT_OUT)
    largest: tuple[tuple[int, str, str, str], ...] = ()
    largest_committed: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def bytes_by_class(self) -> dict[str, int]:
        """Bytes by storage class, as far as classes are known."""
        return {name: size_bytes for name, _, size_bytes in self.by_class or ()}


@dataclass(frozen=True, kw_only=True)
class PolicyFigures(Figures):
    """What goes by the retention policy.

    Attributes:
        manifest: sha256 of the manifest of the table of what the policy names.
        version: Number of the policy's version.
        digest: Digest of its document.
        rules: Numbers of the rules whose objects go.
        objects: Objects that go ...
        bytes: ... and their bytes.
        set_by: Account and machine that set the version.
        confirmed_by: Account and machine that confirmed the document ...
        confirmed_at: ... and when.
        by_reason: The objects by rule, in words.
    """

    manifest: str
    version: int
    digest: str
    rules: tuple[int, ...]
    objects: int
    bytes: int
    set_by: str
    confirmed_by: str
    confirmed_at: str
    by_reason: Groups


@dataclass(frozen=True, kw_only=True)
class AuditFigures(Figures):
    """The optimized runs since the last clean one, by what this clean run finds.

    Attributes:
        runs: Keys of those that deleted something.
        deleted_objects: Objects that they deleted ...
        alive_objects: ... those of them that something refers to, except those brought back ...
        alive_named: ... and some of their addresses.
        brought_back_objects: Those that only expired commits had then, and retained ones now ...
        brought_back_named: ... and some of their addresses.
        missed_objects: Objects that may go now, and that the last of them did not name although
            they were old enough; None if what it named cannot be read ...
        missed_bytes: ... and their bytes.
    """

    runs: tuple[str, ...]
    deleted_objects: int = 0
    alive_objects: int = 0
    alive_named: tuple[str, ...] = ()
    brought_back_objects: int = 0
    brought_back_named: tuple[str, ...] = ()
    missed_objects: int | None = field(default=None, metadata=LEFT_OUT)
    missed_bytes: int | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class ExpiredFigures(SumFigures):
    """Figures of `expired_addresses`.

    Attributes:
        by_fate: Objects and bytes of each fate (a value of `fates.Fate`) that any listed object
            has; with `vanished` they add up to the listed objects.
        vanished: Objects taken from the index that could have gone and were not in the store any
            more; None for none.
        seen: Which of those that may go were looked at again; None for a clean run.
        holds: Holds of the namespace.
        reasons_complete: Whether the reasons tell apart what was never committed.
        live_objects: Objects below `data/` that heads and staged entries reach.
        missing_objects: Those of them that were not listed.
        missing_named: Some of their addresses.
        missing_table: Where the table of all of them lies; None for none.
        missing_manifest: sha256 of its manifest; None for none.
        explained_objects: Objects that the table of explanations is about; None for no such table.
        explanations_manifest: sha256 of that table's manifest; None for none.
        explained_by_prefix: Its objects by folder at the top, most bytes first, with a last row for
            the others; None for no such table.
        explained_by_branch: The same by branch.
        unexplained: Objects that a commit had, by their reason, and that the table has not; None
            for no such table.
        other_sizes: Entries that give another size than the store.
        twins: The search for hidden entries.
        reference: The mark of lakeFS's own job that the run stayed within; None for none.
        policy: What goes by the retention policy; None for nothing.
        policy_only: Whether the run leaves everything that nothing reaches to another run.
        missing_by_policy: Objects that heads reach and that an earlier sweep took by a policy: they
            do not count as missing.
        since_inventory: Objects that heads and staged entries reach, that an inventory lacks and
            the store has: they were written since, and do not count as missing.
        saved: Digest of what the run saved for optimized runs; None if it saved nothing.
        audit: How the optimized runs before a clean one compare with it; None if there were none.
        compared: How the index before a clean run compares with its listing; None if there was
            none.
        deleted_before: Objects that may go and that an earlier sweep reported deleted; None for
            none, and in an optimized run, which does not look for them.
    """

    by_fate: Mapping[str, tuple[int, int]]
    vanished: AmountFigures | None = field(default=None, metadata=LEFT_OUT)
    seen: SeenFigures | None = field(default=None, metadata=LEFT_OUT)
    holds: tuple[HoldFigures, ...] = ()
    reasons_complete: bool = False
    live_objects: int
    missing_objects: int
    missing_named: tuple[str, ...]
    missing_table: str | None = field(default=None, metadata=LEFT_OUT)
    missing_manifest: str | None = field(default=None, metadata=LEFT_OUT)
    explained_objects: int | None = field(default=None, metadata=LEFT_OUT)
    explanations_manifest: str | None = field(default=None, metadata=LEFT_OUT)
    explained_by_prefix: Groups | None = field(default=None, metadata=LEFT_OUT)
    explained_by_branch: Groups | None = field(default=None, metadata=LEFT_OUT)
    unexplained: AmountFigures | None = field(default=None, metadata=LEFT_OUT)
    other_sizes: int
    twins: TwinFigures = field(default_factory=TwinFigures)
    reference: ReferenceFigures | None = field(default=None, metadata=LEFT_OUT)
    policy: PolicyFigures | None = field(default=None, metadata=LEFT_OUT)
    missing_by_policy: int | None = field(default=None, metadata=LEFT_OUT)
    since_inventory: int | None = field(default=None, metadata=LEFT_OUT)
    policy_only: bool | None = field(default=None, metadata=LEFT_OUT)
    saved: str | None = field(default=None, metadata=LEFT_OUT)
    audit: AuditFigures | None = field(default=None, metadata=LEFT_OUT)
    compared: ComparedFigures | None = field(default=None, metadata=LEFT_OUT)
    deleted_before: AmountFigures | None = field(default=None, metadata=LEFT_OUT)

    @property
    def collects(self) -> Collects:
        """The kind of run by what it lets go; runs of one kind are no measure of another."""
        if self.policy_only:
            return "policies"
        return "all" if self.reference is None else "reference mark"
