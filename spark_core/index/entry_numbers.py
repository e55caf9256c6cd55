"""Entries of ranges in numbers: how they are made, written, read back, and compared.

The rows of each range follow one another in a file of `schemas.INDEXED_ENTRIES`. A row of
`schemas.INDEXED_RANGES` says where. The digest of a range binds what that row says of it to its own
entries: those of another range, too few of them, the same ones under another id, or another number
of those outside `data/` have another one. Where they lie, whoever reads them there finds out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys, schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.errors import OF_A_RUN, CorruptTableError
from spark_core.records import reading, writing
from spark_core.records.manifest import Part
from spark_core.records.writing import Receipt, Target
from spark_core.storage import ObjectStore

IN_DATA, MD5 = 1, 2
"""Bits of the column `flags`."""

# Rows of a file of entries at most.
_ROWS_OF_A_FILE = writing.MAX_PART_ROWS
_CHARACTERS_OF_AN_MD5 = 32
# What the row of a range says, but where its entries lie.
_SAID = pa.schema(
    [schemas.INDEXED_RANGES.field(name) for name in ("range_id", "count", "min_key", "outside")]
)
_IS_HEX = np.isin(np.arange(256), np.frombuffer(b"0123456789abcdef", np.uint8))
_PRIMES = [
    np.uint64(number)
    for number in (
        0x9E3779B97F4A7C15,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x27D4EB2F165667C5,
    )
]


def in_numbers(entries: pa.RecordBatch) -> pa.RecordBatch:
    """Bring entries of ranges into numbers.

    Args:
        entries: Columns address, address_hash, size_bytes and checksum, as of branch heads.

    Returns:
        Columns of `schemas.INDEXED_ENTRIES`.

    Example:
        >>> rows = {"address": ["data/a/b"], "address_hash": [7], "size_bytes": [1]}
        >>> found = in_numbers(pa.RecordBatch.from_pydict({**rows, "checksum": ["0" * 32]}))
        >>> found.column("flags").to_pylist()
        [3]
    """
    checksum = entries.column("checksum")
    in_data = pc.starts_with(entries.column("address"), "data/").to_numpy(zero_copy_only=False)
    flags = in_data * np.uint8(IN_DATA) | are_md5s(checksum) * np.uint8(MD5)
    return pa.record_batch(
        [entries.column("address_hash"), entries.column("size_bytes"), hashed(checksum), flags],
        schema=schemas.INDEXED_ENTRIES,
    )


def are_md5s(checksums: pa.StringArray) -> Any:
    """Say of each checksum whether it is an MD5 in small letters.

    Example:
        >>> are_md5s(pa.array(["0" * 32, "0" * 31 + "-", "0", None])).tolist()
        [True, False, False, False]
    """
    is_long = pc.equal(pc.binary_length(checksums), _CHARACTERS_OF_AN_MD5).fill_null(False)
    # A copy, so that its bytes lie one after the other from the first on.
    some = pa.concat_arrays([checksums.filter(is_long)])
    found = is_long.to_numpy(zero_copy_only=False).copy()
    if len(some):
        _, offsets, content = some.buffers()
        begin = int(np.frombuffer(offsets, np.int32)[some.offset])
        letters = np.frombuffer(content, np.uint8)[begin:][: _CHARACTERS_OF_AN_MD5 * len(some)]
        found[found] = _IS_HEX[letters.reshape(len(some), -1)].all(axis=1)
    return found


def digests(entries: pa.RecordBatch, ranges: pa.Table) -> Any:
    """Return the digest of each range whose rows follow one another.

    Args:
        entries: Columns of `schemas.INDEXED_ENTRIES`.
        ranges: The ranges: columns of `schemas.INDEXED_RANGES` but `digest`, `file` and
            `first_row`.
    """
    return of_entries(entries, ranges["count"].to_numpy()) + of_rows(ranges)


def of_entries(entries: pa.RecordBatch, counts: Any) -> Any:
    """Return the part of digests that entries add up to, where `counts` says how many each has."""
    columns = [column.to_numpy().astype(np.int64, copy=False) for column in entries.columns]
    return _sums(_mixed(columns), counts)


def of_rows(ranges: pa.Table) -> Any:
    """Return the part of digests that comes of the rows of ranges; as for `digests`."""
    names = (hashed(ranges[name].combine_chunks()).to_numpy() for name in ("range_id", "min_key"))
    return _mixed([*names, *(ranges[name].to_numpy() for name in ("count", "outside"))])


def _mixed(columns: Sequence[Any]) -> Any:
    """Make a number of each row of some columns of int64."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    with np.errstate(over="ignore"):
        for column, prime in zip(columns, _PRIMES, strict=True):
            mixed = (mixed ^ column.view(np.uint64)) * prime
            mixed ^= mixed >> np.uint64(29)
    return mixed.view(np.int64)


def _sums(numbers: Any, counts: Sequence[int]) -> Any:
    """Add up numbers of ranges, as many of each as `counts` says."""
    sums = np.concatenate([np.zeros(1, numbers.dtype), np.cumsum(numbers, dtype=numbers.dtype)])
    ends = np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))])
    return sums[ends[1:]] - sums[ends[:-1]]


@dataclass
class Kept:
    """What a task keeps of the ranges that it reads, until it writes that into the index.

    Attributes:
        ranges: range_id, count, min_key, digest and outside of each.
        entries: Their entries: columns of `schemas.INDEXED_ENTRIES`, range after range.
    """

    ranges: list[dict[str, Any]] = field(default_factory=list)
    entries: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, rows: Sequence[Mapping[str, Any]], entries: pa.RecordBatch) -> None:
        """Add some ranges.

        Args:
            rows: range_id, count and min_key of each.
            entries: Their entries, range after range: as for `in_numbers`.
        """
        numbers = in_numbers(entries)
        is_outside = numbers.column("flags").to_numpy() & IN_DATA == 0
        outside = _sums(is_outside.astype(np.int64), [row["count"] for row in rows]).tolist()
        said = [
            {**{name: row[name] for name in ("range_id", "count", "min_key")}, "outside": number}
            for row, number in zip(rows, outside, strict=True)
        ]
        of_ranges = digests(numbers, pa.Table.from_pylist(said, _SAID)).tolist()
        for row, digest in zip(said, of_ranges, strict=True):
            self.ranges.append({**row, "digest": digest})
        self.entries.append(numbers)


@dataclass(frozen=True)
class IndexTargets:
    """Where tasks write what the index gets.

    Attributes:
        trees: Metaranges.
        ranges: Ranges.
        entries: Entries of ranges.
    """

    trees: Target
    ranges: Target
    entries: Target

    @classmethod
    def of(cls, store: ObjectStore, attempt: str, *, holds: int = 0) -> IndexTargets:
        """Make them of one attempt; `holds` as in `Target`."""
        return cls(
            *(
                Target(store, lakegc_keys.INDEX, attempt, schema, name=name, holds=holds)
                for name, schema in (
                    ("trees", schemas.INDEXED_TREES),
                    ("ranges", schemas.INDEXED_RANGES),
                    ("entries", schemas.INDEXED_ENTRIES),
                )
            )
        )


def write(targets: IndexTargets, number: int, kept: Kept) -> Receipt:
    """Write what a task kept: files of entries, and one of the ranges in them."""
    rows, parts = list[dict[str, Any]](), list[Part]()
    for ranges, entries in _files(kept):
        written = writing.write_parts(targets.entries, number, iter(entries.to_batches()))
        # A range without entries needs no file.
        (part,) = written.parts or (None,)
        parts += written.parts
        first = 0
        for row in ranges:
            name = "" if part is None else part.key
            rows.append({**row, "file": name, "first_row": first})
            first += row["count"]
    batch = pa.RecordBatch.from_pylist(rows, schema=schemas.INDEXED_RANGES)
    told = writing.write_parts(targets.ranges, number, iter((batch,)))
    return replace(told, parts=(*told.parts, *parts))


def _files(kept: Kept) -> Iterator[tuple[list[dict[str, Any]], pa.Table]]:
    """Divide ranges into files of so many rows; a range lies in one file."""
    whole = pa.Table.from_batches(kept.entries, schemas.INDEXED_ENTRIES)
    ends = np.cumsum([0, *(row["count"] for row in kept.ranges)])
    begins = [0]
    for number, end in enumerate(ends[1:].tolist()):
        if end - ends[begins[-1]] > _ROWS_OF_A_FILE and number > begins[-1]:
            begins.append(number)
    for begin, end in pairwise([*begins, len(kept.ranges)]):
        rows = int(ends[end] - ends[begin])
        # One batch, so that it is written as one file.
        yield kept.ranges[begin:end], whole.slice(int(ends[begin]), rows).combine_chunks()


@dataclass(frozen=True)
class Spans:
    """The ranges of a file of entries that are wanted, one after the other.

    Attributes:
        range_ids: The ranges.
        first_rows: Number of the first row of each.
        counts: How many rows each has.
        sums: What their entries must add up to (`of_entries`); None where that was compared before.
        kinds: What its commits are: a number for each range that is given to each of its rows.
    """

    range_ids: Sequence[str]
    first_rows: Any
    counts: Any
    sums: Any
    kinds: Any

    @classmethod
    def of(cls, ranges: pa.Table, kinds: Any) -> Spans:
        """Make them of ranges of one file: columns of `schemas.INDEXED_RANGES`."""
        order = np.argsort(ranges["first_row"].to_numpy(), kind="stable")
        ordered = ranges.take(pa.array(order))
        first_rows, counts, of_ranges = (
            ordered[name].to_numpy() for name in ("first_row", "count", "digest")
        )
        ids = ordered["range_id"].to_pylist()
        sums = of_ranges - of_rows(ordered)
        return cls(ids, first_rows, counts, sums, np.asarray(kinds)[order])

    @property
    def rows(self) -> int:
        """Rows of all of them."""
        return int(self.counts.sum())


def read_ranges(
    store: ObjectStore, part: Part, spans: Spans
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """Read some ranges of a file of entries; the bytes of the file are compared in any case.

    Yields:
        Columns of `schemas.INDEXED_ENTRIES` of some wanted ranges, and the number of the range of
        each row, as in `spans`.

    Raises:
        CorruptTableError: If the file is not as it was written, or a range is not as the index
            says.
    """
    batches = list(reading.read_part(store, schemas.INDEXED_ENTRIES, part, again=True))
    whole = pa.Table.from_batches(batches, schemas.INDEXED_ENTRIES).combine_chunks()
    ends = spans.first_rows + spans.counts
    # Of ranges that overlap, or that end behind the file, the digests would not tell which.
    if np.any(ends[:-1] > spans.first_rows[1:]) or np.any(ends > whole.num_rows):
        raise _not_as_said(part.key, f"the entries of range {spans.range_ids[0]}")
    owners = np.repeat(np.arange(len(spans.counts)), spans.counts)
    begins = np.cumsum(spans.counts) - spans.counts
    rows = np.arange(len(owners)) + (spans.first_rows - begins)[owners]
    if len(rows) != whole.num_rows:
        whole = whole.take(pa.array(rows)).combine_chunks()
    for entries in whole.to_batches():
        if spans.sums is not None:
            found = of_entries(entries, spans.counts)
            require_same(found, spans.sums, part.key, spans.range_ids, "the entries of range")
        yield entries, owners


def require_empty(ranges: pa.Table) -> None:
    """Refuse a range that is said to have no entries, and had some: nobody reads them.

    Args:
        ranges: Columns of `schemas.INDEXED_RANGES`.

    Raises:
        CorruptTableError: With the name of the first one.
    """
    none = ranges.filter(pc.less(ranges["count"], 1))
    ids = none["range_id"].to_pylist()
    require_same(
        of_rows(none), none["digest"].to_numpy(), lakegc_keys.INDEX, ids, "the entries of range"
    )


def require_same(found: Any, said: Any, file: str, ids: Sequence[str], what: str) -> None:
    """Compare what is there with the digests that were made when the server's tables were read.

    Args:
        found: A digest, or a part of it, of each range or metarange as it is there.
        said: The same as the index says.
        file: Where it is there.
        ids: Their ids.
        what: What is compared, in words.

    Raises:
        CorruptTableError: With the name of the first one that differs.
    """
    is_wrong = found != said
    if is_wrong.any():
        raise _not_as_said(file, f"{what} {ids[int(np.flatnonzero(is_wrong)[0])]}")


def _not_as_said(file: str, what: str) -> CorruptTableError:
    return CorruptTableError(file, None, f"{what} are not those that it had", OF_A_RUN)
