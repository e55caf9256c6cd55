"""The figures of what commits reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_core.records.figures.base import LEFT_OUT, Figures


@dataclass(frozen=True, kw_only=True)
class ChangeFigures(Figures):
    """What changed since the run that an optimized one begins from, and what was read of it.

    Attributes:
        new_metaranges: Metaranges that retained commits have now and had not.
        left_metaranges: Metaranges that they had and have not.
        new_ranges: Ranges that came ...
        left_ranges: ... and those that left.
        known_ranges: Ranges that stayed ...
        spared_ranges: ... and those of them that were not read; None: an earlier lakegc did not
            count them.
        head_entries: Entries of the ranges that heads have, or had since the last full run.
        matched_ranges: Those of them that were read, as they may have a candidate ...
        hiding_ranges: ... or an entry that may hide one.
        candidates: Objects that may have become garbage: new ones ...
        of_left_ranges: ... those of ranges that left ...
        of_staging: ... those that were staged and are not ...
        carried: ... and those that the base named or kept.
        looked_up: Objects that the store was asked about.
        looked_up_manifest: sha256 of the manifest of their table; None for none.
        compares_checksums: Whether every entry of a head that the base had not compared with its
            object is in the table, and its object among those listed or looked up.
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
    looked_up_manifest: str | None = field(default=None, metadata=LEFT_OUT)
    compares_checksums: bool = False
    spared_ranges: int | None = field(default=None, metadata=LEFT_OUT)

    @property
    def ranges(self) -> int:
        """Ranges of retained commits, read or not."""
        return self.new_ranges + self.known_ranges

    @property
    def unread_ranges(self) -> int:
        """Ranges of retained commits that were not read."""
        if self.spared_ranges is not None:
            return self.spared_ranges
        return max(0, self.known_ranges - self.matched_ranges - self.hiding_ranges)


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
    heads_outside: int | None = field(default=None, metadata=LEFT_OUT)
    ranges_manifest: str | None = field(default=None, metadata=LEFT_OUT)
    change: ChangeFigures | None = field(default=None, metadata=LEFT_OUT)


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
