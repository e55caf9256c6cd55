"""The figures of what commits reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_core.records.figures.base import LEFT_OUT, Figures


@dataclass(frozen=True, kw_only=True)
class TakenFigures(Figures):
    """What was taken from the index in the place of the server's tables.

    Attributes:
        metaranges: Metaranges of retained and expired commits ...
        head_metaranges: ... those of branch heads ...
        retained_metaranges: ... those of retained commits ...
        empty_metaranges: ... and those of these that hold no range.
        ranges: Ranges of retained commits ...
        head_ranges: ... and those of branch heads.
        entries: Entries that these ranges have.
        expired_ranges: Ranges that only expired commits have.
        compared_ranges: Ranges that were read again, and are as the index has them.
    """

    metaranges: int = 0
    head_metaranges: int = 0
    retained_metaranges: int = 0
    empty_metaranges: int = 0
    ranges: int = 0
    head_ranges: int = 0
    entries: int = 0
    expired_ranges: int = 0
    compared_ranges: int = 0


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
        metarange_rows_read: Rows that the tasks read.
        addresses_read: Addresses that the tasks read.
        addresses_left_out: Those that the same task had already.
        empty_metaranges: Metaranges of retained commits that hold no range.
        expired_ranges: Ranges of expired commits that were read for the words of the report.
        expired_ranges_all: Whether these are all of them, and each could be read.
        requests: Requests to the store, by kind.
        addresses: Rows stored.
        in_data: Rows whose address lies below `data/`.
        heads_outside: Entries of heads that lie elsewhere.
        taken_manifest: sha256 of the manifest of the ranges taken from the index, beside which the
            index's files are; None if none is kept.
        taken: What was taken from the index: it was not read, and is not counted above as read. All
            zero in a clean run.
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
    metarange_rows_read: int = 0
    addresses_read: int
    addresses_left_out: int = 0
    empty_metaranges: int
    expired_ranges: int = 0
    expired_ranges_all: bool = False
    requests: Mapping[str, int] = field(default_factory=dict)
    addresses: int = 0
    in_data: int = 0
    heads_outside: int = 0
    taken_manifest: str | None = field(default=None, metadata=LEFT_OUT)
    taken: TakenFigures = field(default_factory=TakenFigures)


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
