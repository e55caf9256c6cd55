"""Entries of ranges in numbers: how they are made, written, read back, and compared.

The rows of each range follow one another in a file of `schemas.INDEXED_ENTRIES`. A row of
`schemas.INDEXED_RANGES` says where. The digest of a range binds its id to its own rows: rows of
another range, too few of them, or the same ones under another id have another one.
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


def digests(entries: pa.RecordBatch, range_ids: Sequence[str], counts: Sequence[int]) -> Any:
    """Return the digest of each range whose rows follow one another.

    Args:
        entries: Columns of `schemas.INDEXED_ENTRIES`.
        range_ids: The ranges.
        counts: Rows of each.
    """
    ids = hashed(pa.array(range_ids, pa.string())).to_numpy()
    mixed = np.zeros(entries.num_rows, np.uint64)
    with np.errstate(over="ignore"):
        for column, prime in zip(entries.columns, _PRIMES, strict=True):
            numbers = column.to_numpy().astype(np.int64, copy=False).view(np.uint64)
            mixed = (mixed ^ numbers) * prime
            mixed ^= mixed >> np.uint64(29)
        return _sums(mixed, counts).view(np.int64) + ids


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
        range_ids, counts = ([row[name] for row in rows] for name in ("range_id", "count"))
        numbers = in_numbers(entries)
        is_outside = numbers.column("flags").to_numpy() & IN_DATA == 0
        outside = _sums(is_outside.astype(np.int64), counts).tolist()
        of_ranges = digests(numbers, range_ids, counts).tolist()
        for row, digest, number in zip(rows, of_ranges, outside, strict=True):
            said = {name: row[name] for name in ("range_id", "count", "min_key")}
            self.ranges.append({**said, "digest": digest, "outside": number})
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
        digests: What they must add up to; None where that was compared before.
        kinds: What its commits are: a number for each range that is given to each of its rows.
    """

    range_ids: Sequence[str]
    first_rows: Any
    counts: Any
    digests: Any
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
        return cls(ids, first_rows, counts, of_ranges, np.asarray(kinds)[order])

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
        raise _not_as_said(part, spans.range_ids[0])
    owners = np.repeat(np.arange(len(spans.counts)), spans.counts)
    begins = np.cumsum(spans.counts) - spans.counts
    rows = np.arange(len(owners)) + (spans.first_rows - begins)[owners]
    if len(rows) != whole.num_rows:
        whole = whole.take(pa.array(rows)).combine_chunks()
    for entries in whole.to_batches():
        if spans.digests is not None:
            is_wrong = digests(entries, spans.range_ids, spans.counts) != spans.digests
            if is_wrong.any():
                raise _not_as_said(part, spans.range_ids[int(np.flatnonzero(is_wrong)[0])])
        yield entries, owners


def _not_as_said(part: Part, range_id: str) -> CorruptTableError:
    return CorruptTableError(
        part.key, None, f"the entries of range {range_id} are not those that it had", OF_A_RUN
    )
