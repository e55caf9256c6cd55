"""The parts of a report: plain values, the same after JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from spark_core.plain_text import bytes_text as bytes_text
from spark_core.plain_text import counted

# Objects that a report names of a kind, and branches; the others are counted.
NAMED = 100

# Groups of `by_prefix` and `by_branch` that have neither path nor branch.
NO_COMMIT, NOT_KNOWN = "(never committed)", "(not known)"


@dataclass(frozen=True)
class Group:
    """Objects that have something in common.

    Attributes:
        name: What they have in common, in words for people.
        objects: How many.
        size_bytes: Their bytes.
    """

    name: str
    objects: int
    size_bytes: int

    def __str__(self) -> str:
        return f"{counted(self.objects, 'object')}, {bytes_text(self.size_bytes)}"


def most_bytes_first(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return groups by their bytes, then by their objects and names."""
    return tuple(sorted(groups, key=lambda group: (-group.size_bytes, -group.objects, group.name)))


@dataclass(frozen=True)
class Named:
    """One object that may go.

    Attributes:
        address: Relative address.
        size_bytes: Its bytes.
        last_modified: When the store says it was written.
        reason: Why it may go.
        path: A path under which its last commit had it; empty if no commit is known.
        commit: Id of that commit; empty if none is known.
    """

    address: str
    size_bytes: int
    last_modified: datetime
    reason: str
    path: str = ""
    commit: str = ""


@dataclass(frozen=True)
class Kind:
    """What a mark read.

    Attributes:
        name: `clean`: everything. `optimized`: what may have changed; what never changes was taken
            from the index.
        started: Before the first page of the listing was read.
        last_slice: The newest slice that was there, by its name; empty for none.
        why_full: Why a run that might be optimized was a clean one; empty where nobody asked for an
            optimized one.
        index: Run key of the run that saved the index of an optimized one; empty for a clean run.
        spared_slices: Slices that were not listed ...
        taken_objects: ... and the objects that were taken from the index instead.
        spared_ranges: Ranges that were not read: their entries were taken from the index.
    """

    name: str
    started: datetime
    last_slice: str = ""
    why_full: str = ""
    index: str = ""
    spared_slices: int = 0
    taken_objects: int = 0
    spared_ranges: int = 0

    @property
    def is_optimized(self) -> bool:
        """Whether something was taken from the index."""
        return self.name == "optimized"

    def __str__(self) -> str:
        if not self.is_optimized:
            return f"{self.name}: {self.why_full}" if self.why_full else self.name
        return (
            f"optimized, with the index of run {self.index}: "
            f"{counted(self.spared_slices, 'slice')} ({counted(self.taken_objects, 'object')}) and "
            f"{counted(self.spared_ranges, 'range')} were taken from it"
        )


@dataclass(frozen=True)
class Rules:
    """The rules that a mark was made under.

    Attributes:
        default_days: Days that a branch keeps without a rule of its own; None in a repository
            without rules, which keeps every commit.
        branches: Days by branch, of as many branches as objects are named.
        more_branches: Branches with a rule that are not among them.
        settings: The settings that decide what may go, by their names in the settings file.
    """

    default_days: int | None
    branches: Mapping[str, int] = field(default_factory=dict)
    more_branches: int = 0
    settings: Mapping[str, bool | float | str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyTaken:
    """The retention policy by which objects go although entries lead to them.

    Attributes:
        name: Key of its version; a repository has one policy.
        version: Number of the version.
        digest: Digest of what its document says.
        set_by: Account and machine that set the version.
        confirmed_by: Account and machine that confirmed what it says.
        confirmed_at: When.
        by_rule: Objects that may go, by rule.
    """

    name: str
    version: int
    digest: str
    set_by: str
    confirmed_by: str
    confirmed_at: str
    by_rule: tuple[Group, ...]

    def __str__(self) -> str:
        return (
            f"version {self.version} of the retention policy ({self.name}, digest {self.digest}), "
            f"set by {self.set_by}, confirmed by {self.confirmed_by} at {self.confirmed_at}"
        )


@dataclass(frozen=True)
class FailedObject:
    """One object that a sweep did not delete.

    Attributes:
        address: Relative address.
        outcome: `refused`, `failed` or `kept`.
        error: What the store said, or why it is kept.
    """

    address: str
    outcome: str
    error: str


@dataclass(frozen=True)
class Standing:
    """One address of a mark of lakeFS's own job that is kept.

    Attributes:
        address: As the mark has it; empty where it has none.
        standing: Why it stays.
    """

    address: str
    standing: str


@dataclass(frozen=True)
class Check:
    """One check of the verdict.

    Attributes:
        name: Its name.
        passed: Whether the mark passed it.
        summary: What was found; for a failed check also the way on.
        limit: Up to where it passes.
        lifted_by: Which setting or command lifts it.
        confirmed: Who confirmed its finding, and when; empty if nobody did.
        blocks: Whether a mark that fails it cannot be swept.
    """

    name: str
    passed: bool
    summary: str
    limit: str
    lifted_by: str
    confirmed: str = ""
    blocks: bool = True

    @property
    def standing(self) -> str:
        """The result in a word or two."""
        if self.passed:
            return "passed"
        if not self.blocks:
            return "noticed"
        return f"confirmed by {self.confirmed}" if self.confirmed else "refused"


@dataclass(frozen=True)
class ReferenceReport:
    """The outcome of a verified mark of lakeFS's own job.

    Attributes:
        mark_id: Its id.
        addresses: How many it names.
        eligible: What lakegc would let go without regard to that mark.
        standings: Its different addresses, by how they stand today; what may go comes first.
        kept: Some of the kept addresses, live ones first.
    """

    mark_id: str
    addresses: int
    eligible: Group
    standings: tuple[Group, ...]
    kept: tuple[Standing, ...]


@dataclass(frozen=True)
class PastRun:
    """What an earlier run came to.

    Attributes:
        run: Its key.
        listed_bytes: Everything in the namespace.
        live_bytes: What a retained commit or a staged entry reached.
        expired_bytes: What could go.
        deleted_bytes: What its sweep deleted.
        swept: Whether there was a sweep.
    """

    run: str
    listed_bytes: int
    live_bytes: int
    expired_bytes: int
    deleted_bytes: int
    swept: bool
