"""The figures of each stored table, as its manifest keeps them under `facts`.

Each table has one class, which names every figure, its type and its unit. `of` reads a manifest and
`facts` gives the JSON values to be written. A figure with a default was absent in some manifests,
and the default says what its absence meant. A manifest without another figure is refused by name,
and so is a figure of another type. Figures that only a later lakegc knows are passed over.

Objects, rows, calls and the like are numbers of them; what is in bytes or seconds ends in the unit.
Instants are text in ISO 8601. Figures that add up what tasks counted are built once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from spark_core.records.documents import read_values
from spark_core.records.manifest import Manifest

# Metadata of a figure that is not written where it is None.
_LEFT_OUT = {"left_out": True}

# How refs were read: from a dump, or by walking from branches and tags.
DUMP, WALK = "dump", "walk"

# Name, objects and bytes of each group of objects.
Groups = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Figures:
    """Figures that one manifest holds; those of a table without any of its own."""

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Read them from a manifest.

        Raises:
            CorruptTableError: If one is missing or has another type.
        """
        return read_values(
            cls, manifest.facts, name=f"the manifest of {manifest.table} of run {manifest.run}"
        )

    def facts(self) -> dict[str, Any]:
        """Return them as JSON values."""
        found = ((each, getattr(self, each.name)) for each in fields(self))
        return {
            each.name: _plain(value)
            for each, value in found
            if value is not None or each.metadata != _LEFT_OUT
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Figures):
        return value.facts()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


@dataclass(frozen=True, kw_only=True)
class PreflightFigures(Figures):
    """What held before anything was read.

    Attributes:
        repository: The repository as the server described it.
        instance: Which instance of it (name, creation date, namespace).
        cutoff: Instant before which an object must have been written to be considered.
        options: Options that decide what may go; durations in `..._seconds`.
        min_age_seconds: Least age of what is considered.
        unsafe_min_age: Whether it is below the server's grace period.
        grace_period_seconds: How long the server lets an upload wait for its reference.
        branches: Branches of the repository.
        repositories: Repositories that the namespace was compared with.
        overlapping_repositories: Those of them that share it.
        table_prefix: Prefix of the server's tables.
        blockstore_type: Kind of store, as the server names it.
        clock_skew_seconds: How far the clocks of `server` and `store` are ahead of this machine's;
            None where one told no time.
        reference_mark: Id of the mark of lakeFS's own job that the run stays within; None for none.
    """

    repository: Mapping[str, Any] = field(default_factory=dict)
    instance: str = ""
    cutoff: str
    options: Mapping[str, Any] = field(default_factory=dict)
    min_age_seconds: int = 0
    unsafe_min_age: bool = False
    grace_period_seconds: int = 0
    branches: int = 0
    repositories: int
    overlapping_repositories: tuple[str, ...]
    table_prefix: str
    blockstore_type: str = ""
    clock_skew_seconds: Mapping[str, float | None]
    reference_mark: str | None = None


@dataclass(frozen=True, kw_only=True)
class InventoryFigures(Figures):
    """The inventory that a listing was read from.

    Attributes:
        manifest: Place of its manifest.
        created_at: When S3 began to look at the bucket.
        age_seconds: How long before the run that was.
        files: Its data files, all of them read.
        file_bytes: Their bytes.
        rows: Rows read from them.
        rows_passed_over: Those of other places, old versions and delete markers.
    """

    manifest: str
    created_at: str
    age_seconds: float
    files: int
    file_bytes: int
    rows: int
    rows_passed_over: int

    @property
    def old_words(self) -> str:
        """Say that the inventory is older than the run by more than a day; else empty."""
        days = self.age_seconds / 86_400
        return (
            f"the inventory is {days:.1f} days older than the run: garbage since then is not seen"
            if days > 1
            else ""
        )


@dataclass(frozen=True, kw_only=True)
class BaseFigures(Figures):
    """The run that an optimized one begins from, and what that spares.

    Attributes:
        run: Its key.
        verdict: Digest of its verdict.
        saved: Digest of what it saved.
        listed_since: Slices named at or after this instant are listed, in unix seconds.
        open_slices: Older slices that are listed, too, as they had objects that were too young.
        spared_slices: Slices that are not listed.
        objects: Objects of the namespace, as far as listings and deletions tell ...
        bytes: ... and their bytes.
        live_objects: Objects below `data/` that heads and staged entries reached then.
    """

    run: str
    verdict: str
    saved: str
    listed_since: int
    open_slices: tuple[str, ...]
    spared_slices: int
    objects: int
    bytes: int
    live_objects: int


@dataclass(frozen=True, kw_only=True)
class ListedFigures(PreflightFigures):
    """Figures of `namespace_slices`.

    Attributes:
        slices: Direct children of `data/`; 0 where an inventory was read.
        requests: Requests to the store, by kind.
        objects: Objects listed.
        object_bytes: Their bytes.
        old_objects: Objects written before the cutoff.
        old_bytes: Their bytes.
        unsafe_name_objects: Objects whose names some client would take for another object's.
        unsafe_name_bytes: Their bytes.
        nested_objects: Objects of a repository that was made inside `data/`.
        inventory: The inventory that was read instead of the store; None for none.
        base: The run that this one begins from; None for a full run.
        last_slice: The newest slice whose name tells a time; None for none.
        why_full: Why a run that might be optimized is a full one; None where nobody asked for one.
        blocked_by: Full runs whose audit nobody has confirmed; None for none.
        open_slices: Slices with objects that are too young; None if they are too many to note.
    """

    slices: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    objects: int = 0
    object_bytes: int = 0
    old_objects: int = 0
    old_bytes: int = 0
    unsafe_name_objects: int = 0
    unsafe_name_bytes: int = 0
    nested_objects: int = 0
    inventory: InventoryFigures | None = field(default=None, metadata=_LEFT_OUT)
    base: BaseFigures | None = field(default=None, metadata=_LEFT_OUT)
    last_slice: str | None = field(default=None, metadata=_LEFT_OUT)
    why_full: str | None = field(default=None, metadata=_LEFT_OUT)
    blocked_by: tuple[str, ...] | None = field(default=None, metadata=_LEFT_OUT)
    open_slices: tuple[str, ...] | None = field(default=None, metadata=_LEFT_OUT)

    @property
    def all_objects(self) -> int:
        """Objects of the namespace, listed by this run or by the one that it begins from."""
        return self.objects if self.base is None else self.base.objects

    @property
    def all_bytes(self) -> int:
        """Their bytes."""
        return self.object_bytes if self.base is None else self.base.bytes

    @property
    def since(self) -> datetime | None:
        """The instant of an inventory that was read; None where the store was listed."""
        if self.inventory is None:
            return None
        return datetime.fromisoformat(self.inventory.created_at)


@dataclass(frozen=True, kw_only=True)
class StagedReadFigures(Figures):
    """How the staged entries were read.

    Attributes:
        server_runs: Ids of the server's scans.
        pages: Pages of the scans.
        pages_with_data: Pages that claimed rows.
        files: Files that the scans named.
        files_read: Files that were read to their ends.
        file_rows: Rows read from them.
        from_diffs: Rows of the branches' diffs.
        branches_read: Branches whose diff was read; None: an earlier lakegc did not count them.
        branches_gone: Branches that were deleted before their diff was read to its end.
        branches_appeared: Branches that appeared in the last round and were not read.
    """

    server_runs: tuple[str, ...]
    pages: int
    pages_with_data: int
    files: int
    files_read: int
    file_rows: int
    from_diffs: int
    branches_read: int | None = field(default=None, metadata=_LEFT_OUT)
    branches_gone: int = 0
    branches_appeared: int = 0


@dataclass(frozen=True, kw_only=True)
class StagedFigures(StagedReadFigures):
    """Figures of `uncommitted_addresses`.

    Attributes:
        staged: Rows stored.
        staged_in_data: Rows whose address lies below `data/`.
    """

    staged: int = 0
    staged_in_data: int = 0


@dataclass(frozen=True, kw_only=True)
class RulesFigures(Figures):
    """The repository's retention rules.

    Attributes:
        default_retention_days: Days for branches without a rule.
        branches: Days by branch.
    """

    default_retention_days: int
    branches: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class HeadsFigures(Figures):
    """Since when each branch stands on its head, for later runs.

    Attributes:
        read_at: An instant before the branches were read.
        branches: Branch, commit, instant (None if nothing is known), and why that instant must not
            be relied on (empty if it may be).
    """

    read_at: str
    branches: tuple[tuple[str, str, str | None, str], ...]


@dataclass(frozen=True, kw_only=True)
class HoldFigures(Figures):
    """A hold, without who made it and when.

    Attributes:
        name: Its name.
        kind: What it names.
        value: The name of what is held.
        commit_id: The commit that a branch or tag stood on.
    """

    name: str
    kind: str
    value: str
    commit_id: str | None


@dataclass(frozen=True, kw_only=True)
class ExpiredMetarangesFigures(Figures):
    """Metaranges that only expired commits have.

    Attributes:
        all: Whether the table of expired commits has all of them.
        manifest: sha256 of that table's manifest; None if there is none.
        ids: The metaranges, as an earlier lakegc recorded them; nobody reads them.
    """

    all: bool
    ids: tuple[str, ...] | None = field(default=None, metadata=_LEFT_OUT)
    manifest: str | None = field(default=None, metadata=_LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class CommitsFigures(Figures):
    """Figures of `retained_commits`.

    Attributes:
        rules: Retention rules; None for a repository without any.
        server_run: Id of the server's list; None without rules.
        refs_read_by: `dump` or `walk`.
        dump: Ids of the dump's tables; None if the refs were walked.
        dump_files: Files of the dump.
        dump_bytes: Their bytes.
        commits_beside_dump: Commits that landed while the dump was made.
        commits: Commits of the repository.
        branches: Branches.
        heads: Commits that a branch stands on.
        heads_retained: Those of them that keep their objects.
        metaranges: Metaranges of retained commits, without the empty one.
        tags: Tags.
        branch_heads: Since when each branch stands on its head; None: not recorded.
        holds: Holds of the namespace.
        retained_by_server: Rows of the server's list.
        unknown_to_dump: Commits of the server's list that the dump lacks.
        unknown_to_walk: How many of the server's list the walk did not find.
        rules_without_branch: Branches that have a rule and do not exist.
        expired_metaranges: Metaranges that only expired commits have.
        expired_commits: Commits that do not keep their objects.
    """

    rules: RulesFigures | None = None
    server_run: str | None = None
    refs_read_by: str = "dump"
    dump: Mapping[str, str] | None = None
    dump_files: int = 0
    dump_bytes: int = 0
    commits_beside_dump: int = 0
    commits: int
    branches: int
    heads: int
    heads_retained: int
    metaranges: int
    tags: int = 0
    branch_heads: HeadsFigures | None = field(default=None, metadata=_LEFT_OUT)
    holds: tuple[HoldFigures, ...] = ()
    retained_by_server: int
    unknown_to_dump: tuple[str, ...]
    unknown_to_walk: int = 0
    rules_without_branch: tuple[str, ...]
    expired_metaranges: ExpiredMetarangesFigures
    expired_commits: int = 0


@dataclass(frozen=True, kw_only=True)
class ChangeFigures(Figures):
    """What changed since the run that an optimized one begins from, and what was read of it.

    Attributes:
        new_metaranges: Metaranges that retained commits have now and had not.
        left_metaranges: Metaranges that they had and have not.
        new_ranges: Ranges that came ...
        left_ranges: ... and those that left.
        known_ranges: Ranges that stayed.
        head_entries: Entries of the ranges that heads have, or had since the last full run.
        matched_ranges: Those of them that were read, as they may have a candidate ...
        hiding_ranges: ... or an entry that may hide one.
        candidates: Objects that may have become garbage: new ones ...
        of_left_ranges: ... those of ranges that left ...
        of_staging: ... those that were staged and are not ...
        carried: ... and those that the base named or kept.
        looked_up: Objects that the store was asked about.
        looked_up_manifest: sha256 of the manifest of their table; None for none.
    """

    new_metaranges: int
    left_metaranges: int
    new_ranges: int
    left_ranges: int
    known_ranges: int
    head_entries: int = 0
    matched_ranges: int = 0
    hiding_ranges: int = 0
    candidates: int = 0
    of_left_ranges: int = 0
    of_staging: int = 0
    carried: int = 0
    looked_up: int = 0
    looked_up_manifest: str | None = field(default=None, metadata=_LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class CommittedFigures(Figures):
    """Figures of `committed_addresses`: what had to be read, and what was.

    Attributes:
        ranges: Ranges of retained commits.
        ranges_read: Those that were read.
        entries: Entries that those ranges must have.
        entries_read: Entries that were read.
        head_ranges: Ranges of branch heads.
        head_ranges_read: Those that were read.
        head_metaranges: Metaranges of branch heads.
        head_metaranges_read: Those that were read.
        retained_metaranges: Metaranges of retained commits.
        retained_metaranges_read: Those that were read.
        metaranges: Metaranges of retained and expired commits.
        metaranges_read: Those that were read, or could not be and need not.
        metarange_rows: Rows of metaranges that came back from the tasks.
        metarange_rows_read: Rows that the tasks read; None: an earlier lakegc did not count them.
        addresses_read: Addresses that the tasks read.
        addresses_left_out: Those that the same task had already.
        empty_metaranges: Metaranges of retained commits that hold no range.
        expired_ranges: Ranges of expired commits that were read for the words of the report.
        expired_ranges_all: Whether these are all of them, and each could be read.
        requests: Requests to the store, by kind.
        addresses: Rows stored.
        in_data: Rows whose address lies below `data/`.
        heads_outside: Entries of heads that lie elsewhere; None: no row, or not counted.
        ranges_manifest: sha256 of the manifest of the retained ranges; None if none were saved.
        change: What changed since the base; None for a full run.
    """

    ranges: int
    ranges_read: int
    entries: int
    entries_read: int
    head_ranges: int
    head_ranges_read: int
    head_metaranges: int
    head_metaranges_read: int
    retained_metaranges: int
    retained_metaranges_read: int
    metaranges: int = 0
    metaranges_read: int
    metarange_rows: int = 0
    metarange_rows_read: int | None = None
    addresses_read: int
    addresses_left_out: int = 0
    empty_metaranges: int
    expired_ranges: int = 0
    expired_ranges_all: bool = False
    requests: Mapping[str, int] = field(default_factory=dict)
    addresses: int = 0
    in_data: int = 0
    heads_outside: int | None = field(default=None, metadata=_LEFT_OUT)
    ranges_manifest: str | None = field(default=None, metadata=_LEFT_OUT)
    change: ChangeFigures | None = field(default=None, metadata=_LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class TwinFigures(Figures):
    """What the search for hidden entries did and found.

    Attributes:
        candidates: Objects that nothing seems to reach.
        branches: Branches.
        branches_asked: Branches that were asked.
        branches_listed: Branches whose entries were all seen.
        without_bound: Branches on which anything may hide, by why.
        paths: Paths that may have a hidden entry.
        calls: Calls to branches.
        objects_asked: Objects that the store was asked about.
        planned_calls: Calls and questions that would have sufficed.
        twin_calls: Calls and questions that were allowed.
        is_held_up: Whether paths that are no UTF-8 held up a listing.
        are_sizes_said: Whether some entry gives another size than the store; None: not compared.
        kept_objects: Objects that a branch reads from.
        kept_bytes: Their bytes.
        kept_named: Some of their addresses.
        unchecked_objects: Objects for which the calls did not suffice.
        unchecked_bytes: Their bytes.
        unchecked_named: Some of their addresses.
    """

    candidates: int = 0
    branches: int = 0
    branches_asked: int = 0
    branches_listed: int = 0
    without_bound: Mapping[str, int] = field(default_factory=dict)
    paths: int = 0
    calls: int = 0
    objects_asked: int = 0
    planned_calls: int = 0
    twin_calls: int = 0
    is_held_up: bool = False
    are_sizes_said: bool | None = field(default=None, metadata=_LEFT_OUT)
    kept_objects: int = 0
    kept_bytes: int = 0
    kept_named: tuple[str, ...] = ()
    unchecked_objects: int = 0
    unchecked_bytes: int = 0
    unchecked_named: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReferenceFigures(Figures):
    """The mark of lakeFS's own job that a run stayed within.

    Attributes:
        mark_id: Its id.
        cutoff_time: Its cutoff.
        num_deleted_objects: Addresses that it names.
        parts: Hex sha256 of its files, by key.
        eligible_objects: Objects that lakegc's own mark would let go.
        eligible_bytes: Their bytes.
    """

    mark_id: str
    cutoff_time: str = ""
    num_deleted_objects: int
    parts: Mapping[str, str]
    eligible_objects: int
    eligible_bytes: int


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
        slices_with_expired: Slices that have any.
        largest: Bytes, address, instant of writing and reason of the largest.
        largest_committed: Path and last commit of those that a commit is known to have had, by
            address; None: an earlier lakegc did not note them.
    """

    expired_objects: int = 0
    expired_bytes: int = 0
    not_collectable: int = 0
    too_young: int = 0
    not_of_lakefs: int = 0
    by_reason: Groups = ()
    by_age: Groups = ()
    by_slice: Groups = ()
    slices_with_expired: int = 0
    largest: tuple[tuple[int, str, str, str], ...] = ()
    largest_committed: Mapping[str, tuple[str, str]] | None = field(
        default=None, metadata=_LEFT_OUT
    )


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
    """

    manifest: str
    version: int
    digest: str
    rules: tuple[int, ...]
    objects: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class AuditFigures(Figures):
    """The optimized runs since the last full one, by what this full run finds.

    Attributes:
        runs: Their keys.
        deleted_objects: Objects that they deleted ...
        alive_objects: ... those of them that something refers to ...
        alive_named: ... and some of their addresses.
        missed_objects: Objects that may go now, and that the last of them did not name although
            they were old enough ...
        missed_bytes: ... and their bytes.
    """

    runs: tuple[str, ...]
    deleted_objects: int = 0
    alive_objects: int = 0
    alive_named: tuple[str, ...] = ()
    missed_objects: int = 0
    missed_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class ExpiredFigures(SumFigures):
    """Figures of `expired_addresses`.

    Attributes:
        unreachable_objects: Listed objects that nothing reaches and that are old enough.
        unreachable_bytes: Their bytes.
        kept_by_setting: What each setting keeps.
        fates: Objects and bytes of each fate; None: an earlier lakegc did not note them.
        holds: Holds of the namespace.
        held_objects: Objects that a hold keeps.
        held_bytes: Their bytes.
        reasons_complete: Whether the reasons tell apart what was never committed.
        live_objects: Objects below `data/` that heads and staged entries reach.
        missing_objects: Those of them that were not listed.
        missing_named: Some of their addresses.
        missing_table: Where the table of all of them lies; None for none.
        missing_manifest: sha256 of its manifest; None for none.
        explained_objects: Objects that the table of explanations is about; None for no such table.
        explanations_manifest: sha256 of that table's manifest; None for none.
        explained_by_prefix: Its objects by folder at the top, most bytes first, with a last row for
            the others; None: for no such table, and an earlier lakegc did not add them up.
        explained_by_branch: The same by branch.
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
        audit: How the optimized runs before a full one compare with it; None if there were none.
    """

    unreachable_objects: int = 0
    unreachable_bytes: int = 0
    kept_by_setting: Mapping[str, AmountFigures] = field(default_factory=dict)
    fates: Mapping[str, tuple[int, int]] | None = field(default=None, metadata=_LEFT_OUT)
    holds: tuple[HoldFigures, ...] = ()
    held_objects: int = 0
    held_bytes: int = 0
    reasons_complete: bool = False
    live_objects: int
    missing_objects: int
    missing_named: tuple[str, ...]
    missing_table: str | None = field(default=None, metadata=_LEFT_OUT)
    missing_manifest: str | None = field(default=None, metadata=_LEFT_OUT)
    explained_objects: int | None = field(default=None, metadata=_LEFT_OUT)
    explanations_manifest: str | None = field(default=None, metadata=_LEFT_OUT)
    explained_by_prefix: Groups | None = field(default=None, metadata=_LEFT_OUT)
    explained_by_branch: Groups | None = field(default=None, metadata=_LEFT_OUT)
    other_sizes: int
    twins: TwinFigures = TwinFigures()
    reference: ReferenceFigures | None = field(default=None, metadata=_LEFT_OUT)
    policy: PolicyFigures | None = field(default=None, metadata=_LEFT_OUT)
    missing_by_policy: int | None = field(default=None, metadata=_LEFT_OUT)
    since_inventory: int | None = field(default=None, metadata=_LEFT_OUT)
    policy_only: bool | None = field(default=None, metadata=_LEFT_OUT)
    saved: str | None = field(default=None, metadata=_LEFT_OUT)
    audit: AuditFigures | None = field(default=None, metadata=_LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class ReachedFigures(Figures):
    """What commits reach now that the mark's commits did not.

    Attributes:
        new_metaranges: Metaranges that had to be read.
        metaranges_read: Those that were.
        ranges_read: Ranges of them that were read.
        entries_read: Entries of those.
    """

    new_metaranges: int = 0
    metaranges_read: int = 0
    ranges_read: int = 0
    entries_read: int = 0


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

    quarantine_days: float | None = field(default=None, metadata=_LEFT_OUT)
    quarantine_folder: str | None = field(default=None, metadata=_LEFT_OUT)
    undo: str | None = field(default=None, metadata=_LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class DeletionFigures(QuarantineFigures):
    """Figures of `deletion_report`.

    Attributes:
        planned_objects: Objects of the plan.
        rounds: Rounds of the last sweep; None where nothing was to be deleted.
        left_named: Address, outcome and error of some objects that were not deleted.
        second_look: The last look at what is referenced.
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
    rounds: int | None = field(default=None, metadata=_LEFT_OUT)
    left_named: tuple[tuple[str, str, str | None], ...] | None = field(
        default=None, metadata=_LEFT_OUT
    )
    second_look: SecondLookFigures | None = field(default=None, metadata=_LEFT_OUT)
    deleted_objects: int | None = field(default=None, metadata=_LEFT_OUT)
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


@dataclass(frozen=True, kw_only=True)
class VerifiedFigures(Figures):
    """Figures of `reference_addresses`.

    Attributes:
        mark_id: The mark whose addresses it has.
    """

    mark_id: str
