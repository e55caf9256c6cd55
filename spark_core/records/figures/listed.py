"""The figures of a listing, and of what held before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from spark_core.records.figures.base import LEFT_OUT, Figures


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
        may_compact: Whether the server may compact what is staged; None: it does not.
        blockstore_type: Kind of store, as the server names it.
        clock_skew_seconds: How far the clocks of `server` and `store` are ahead of this machine's;
            None where one told no time.
        reference_mark: Id of the mark of lakeFS's own job that the run stays within; None for none.
        lakegc: Version of lakegc that began the mark; None for one that did not say so yet.
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
    may_compact: bool | None = field(default=None, metadata=LEFT_OUT)
    blockstore_type: str = ""
    clock_skew_seconds: Mapping[str, float | None]
    reference_mark: str | None = None
    lakegc: str | None = field(default=None, metadata=LEFT_OUT)


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
class IndexFigures(Figures):
    """What an optimized run took from the index in the place of a listing.

    Attributes:
        run: The run that saved the index ...
        saved: ... and the digest of the document that names its files.
        listed_since: Slices named at or after this instant are listed, in unix seconds.
        open_slices: Older slices that are listed, too, as they had objects that were too young.
        slices: Slices that were not listed.
        objects: Objects that were taken from the index ...
        bytes: ... and their bytes.
        gone_objects: Objects of the index that are left out, as sweeps since reported them gone.
    """

    run: str
    saved: str
    listed_since: int
    open_slices: tuple[str, ...]
    slices: int
    objects: int
    bytes: int
    gone_objects: int = 0


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
        iceberg_objects: Metadata files of Iceberg tables that were written past lakeFS; None for
            none, like the following.
        iceberg_bytes: Their bytes.
        delta_objects: Those of Delta tables.
        delta_bytes: Their bytes.
        inventory: The inventory that was read instead of the store; None for none.
        index: What was taken from the index; None for a clean run. The objects taken are among
            those counted here.
        last_slice: The newest slice whose name tells a time; None for none.
        why_full: Why a run that might be optimized is a clean one; None where nobody asked for one.
        blocked_by: Clean runs whose audit nobody has confirmed; None for none.
        open_slices: Slices that are old by their names and must be listed again all the same: an
            object in them is as young as no slice that is closed, or has a name that is never
            collected. None if they are too many to note.
        by_class: Bytes by storage class; None where the listing says no classes.
        closed_before: Slices whose names tell an earlier instant, in unix seconds, were written to
            the index; None if it gets no slices.
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
    iceberg_objects: int | None = field(default=None, metadata=LEFT_OUT)
    iceberg_bytes: int | None = field(default=None, metadata=LEFT_OUT)
    delta_objects: int | None = field(default=None, metadata=LEFT_OUT)
    delta_bytes: int | None = field(default=None, metadata=LEFT_OUT)
    inventory: InventoryFigures | None = field(default=None, metadata=LEFT_OUT)
    index: IndexFigures | None = field(default=None, metadata=LEFT_OUT)
    last_slice: str | None = field(default=None, metadata=LEFT_OUT)
    why_full: str | None = field(default=None, metadata=LEFT_OUT)
    blocked_by: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    open_slices: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    by_class: Mapping[str, int] | None = field(default=None, metadata=LEFT_OUT)
    closed_before: int | None = field(default=None, metadata=LEFT_OUT)

    @property
    def is_optimized(self) -> bool:
        """Whether the run took anything from an index."""
        return self.index is not None

    @property
    def since(self) -> datetime | None:
        """The instant of an inventory that was read; None where the store was listed."""
        if self.inventory is None:
            return None
        return datetime.fromisoformat(self.inventory.created_at)
