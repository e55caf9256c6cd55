"""Sketches of ranges: what lies in a range, in 12 to 24 bytes an entry; which has what.

A sketch holds the hashes of addresses, and fingerprints: the upper 32 bits of other hashes. A range
whose sketch lacks the hash of an address does not have that address. A range whose sketch has it
most surely does, and is read. A fingerprint of an address would not be enough: 50,000 candidates
would meet a range of 100,000 entries by mistake once or twice, so nearly every range would be read.

Where the store gives checksums, the sketch of a head's range also has a hash for each address
together with the checksum that its entry gives. They tell which entries nobody has compared with
their objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed, sorted_once
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.run import Run
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore
from spark_core.storage.small_files import LARGEST_READ_AGAIN

# Spreads sizes over 64 bits: 2**64 divided by the golden ratio.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HASH = np.dtype("<u8")
_FINGERPRINT = np.dtype("<u4")

# Bytes of sketches that take as long as a row that is compared, and that are worth a task of their
# own.
_BYTES_LIKE_A_ROW = 90
_BYTES_OF_A_TASK = 2**26


def of_hashes(hashes: Any) -> Any:
    """Return hashes (int64) as sketches have them: unsigned, sorted, each once."""
    return sorted_once(np.ascontiguousarray(hashes, dtype=np.int64).view(np.uint64)).astype(_HASH)


def of_sizes(sizes: Any) -> Any:
    """Return the fingerprints of sizes in bytes (int64), sorted, each once."""
    with np.errstate(over="ignore"):
        spread = np.ascontiguousarray(sizes, dtype=np.int64).view(np.uint64) * _SPREAD
    return sorted_once((spread >> np.uint64(32)).astype(_FINGERPRINT))


def of_entries(hashes: Any, sizes: Any) -> Any:
    """Return a fingerprint for each entry, of the hash of its address and the size that it gives.

    Args:
        hashes: Hashes of addresses (int64).
        sizes: Sizes in bytes (int64), as many.
    """
    address, size = (
        np.ascontiguousarray(some, dtype=np.int64).view(np.uint64) for some in (hashes, sizes)
    )
    with np.errstate(over="ignore"):
        return ((address + size * _SPREAD) >> np.uint64(32)).astype(_FINGERPRINT)


def of_contents(hashes: Any, checksums: pa.Array) -> Any:
    """Return a hash for each address together with a checksum.

    It has 64 bits, because two pairs with one hash would let a checksum be believed that nobody
    compared.

    Args:
        hashes: Hashes of addresses (int64).
        checksums: Their checksums, as many; none is null.
    """
    address = np.ascontiguousarray(hashes, dtype=np.int64).view(np.uint64)
    content = hashed(checksums.cast(pa.string())).to_numpy().view(np.uint64)
    with np.errstate(over="ignore"):
        return (address + content * _SPREAD).astype(_HASH)


def sketch(
    range_id: str, entries: int, addresses: pa.RecordBatch, *, with_contents: bool
) -> dict[str, Any]:
    """Make the sketch of a range; a row of `schemas.SKETCHES`.

    Args:
        range_id: The range.
        entries: How many entries it has.
        addresses: Columns of `schemas.COMMITTED_ADDRESSES`: its entries, where those outside the
            namespace may be left out.
        with_contents: Whether anybody will ask for the checksums that entries give; only those of a
            head's range are known.
    """
    is_inside = pc.starts_with(addresses.column("address"), "data/")
    inside = pc.sum(is_inside).as_py() or 0
    stated = addresses.filter(
        pc.and_(pc.and_(is_inside, addresses.column("checksum").is_valid()), with_contents)
    )
    contents = of_contents(stated.column("address_hash").to_numpy(), stated.column("checksum"))
    hashes, sizes = (addresses.column(name).to_numpy() for name in ("address_hash", "size_bytes"))
    return {
        "range_id": range_id,
        "has_outside": inside < entries,
        "addresses": of_hashes(hashes).tobytes(),
        "sizes": of_sizes(sizes).tobytes(),
        "entries": sorted_once(of_entries(hashes, sizes)).tobytes(),
        "contents": sorted_once(contents).tobytes(),
    }


@dataclass(frozen=True)
class Question:
    """What sketches are asked for: sorted hashes or fingerprints, each once.

    Attributes:
        candidates: Hashes of addresses; the ranges that have one are wanted.
        named: Fingerprints of entries; those of them that no range has are wanted.
        sizes: Fingerprints of sizes; the ranges that may have one are wanted, and those with
            entries outside. None if nothing may hide.
        lost: Hashes of addresses without an object; with `sizes`, the ranges that have one are
            wanted.
        contents: Hashes of addresses together with checksums; those of them that no range has are
            wanted.
    """

    candidates: Any = field(default_factory=lambda: np.empty(0, _HASH))
    named: Any = field(default_factory=lambda: np.empty(0, _FINGERPRINT))
    sizes: Any = None
    lost: Any = field(default_factory=lambda: np.empty(0, _HASH))
    contents: Any = field(default_factory=lambda: np.empty(0, _HASH))


@dataclass(frozen=True)
class Answer:
    """What the sketches say.

    Attributes:
        ranges: Ranges that have a candidate.
        hiding: Ranges of which an entry may hide a candidate.
        named: Fingerprints of `Question.named` that some range has.
        seen: Ranges that have a sketch.
        contents: Hashes of `Question.contents` that some range has.
    """

    ranges: frozenset[str]
    hiding: frozenset[str]
    named: Any
    seen: frozenset[str]
    contents: Any


def ask(run: Run, parts: Sequence[Part], question: Question) -> Answer:
    """Read all sketches; the driver remembers those of small repositories for the next question.

    The cost is one pass over 12 to 24 bytes for each entry, of which the columns that the
    question needs are decoded; the question travels with each task.

    Args:
        run: The run.
        parts: Files with columns of `schemas.SKETCHES`.
        question: What is wanted.

    Raises:
        CorruptTableError: If a file is not as it was written.
    """
    tasks = [
        tuple(some) for some in _together([part for part in parts if part.rows], _BYTES_OF_A_TASK)
    ]
    size_bytes = sum(part.size_bytes for part in parts)
    answers = run_tasks(
        lambda: run.spark,
        tasks,
        partial(_ask, run.store, question, again=size_bytes <= LARGEST_READ_AGAIN),
        rows=size_bytes // _BYTES_LIKE_A_ROW,
    )
    return Answer(
        frozenset().union(*(answer.ranges for answer in answers)),
        frozenset().union(*(answer.hiding for answer in answers)),
        sorted_once(np.concatenate([np.empty(0, _FINGERPRINT), *(a.named for a in answers)])),
        frozenset().union(*(answer.seen for answer in answers)),
        sorted_once(np.concatenate([np.empty(0, _HASH), *(a.contents for a in answers)])),
    )


def _together(parts: Sequence[Part], most: int) -> Iterable[list[Part]]:
    some: list[Part] = []
    for part in parts:
        if some and sum(one.size_bytes for one in some) + part.size_bytes > most:
            yield some
            some = []
        some.append(part)
    if some:
        yield some


def _ask(
    store: ObjectStore, question: Question, _number: int, parts: Sequence[Part], *, again: bool
) -> Answer:
    ranges, hiding, seen = set[str](), set[str](), set[str]()
    named, contents = [np.empty(0, _FINGERPRINT)], [np.empty(0, _HASH)]
    columns = _columns(question)
    for part in parts:
        for batch in reading.read_part(store, columns, part, again=again):
            names = np.array(batch.column("range_id").to_pylist(), object)
            seen.update(names)
            ranges.update(names[_has_any(batch, "addresses", question.candidates)])
            if len(question.named):
                known, _ = _numbers(batch, "entries")
                named.append(known[_common(known, question.named)])
            if len(question.contents):
                known, _ = _numbers(batch, "contents")
                contents.append(known[_common(known, question.contents)])
            if question.sizes is not None:
                hides = (
                    batch.column("has_outside").to_numpy(zero_copy_only=False)
                    | _has_any(batch, "addresses", question.lost)
                    | _has_any(batch, "sizes", question.sizes)
                )
                hiding.update(names[hides])
    return Answer(
        frozenset(ranges),
        frozenset(hiding),
        sorted_once(np.concatenate(named)),
        frozenset(seen),
        sorted_once(np.concatenate(contents)),
    )


def _columns(question: Question) -> pa.Schema:
    """Return the columns that a question needs: none for an empty set of numbers."""
    asks_for_hiding = question.sizes is not None
    needed = {
        "range_id": True,
        "has_outside": asks_for_hiding,
        "addresses": len(question.candidates) > 0 or (asks_for_hiding and len(question.lost) > 0),
        "sizes": asks_for_hiding and len(question.sizes) > 0,
        "entries": len(question.named) > 0,
        "contents": len(question.contents) > 0,
    }
    return pa.schema([schemas.SKETCHES.field(name) for name in needed if needed[name]])


def _numbers(batch: pa.RecordBatch, name: str) -> tuple[Any, Any]:
    """Return the hashes or fingerprints of all ranges of a batch, and where each range's end."""
    column = batch.column(name)
    kind = _HASH if name in {"addresses", "contents"} else _FINGERPRINT
    _, offsets, content = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    ends = ends // kind.itemsize
    found = np.frombuffer(b"" if content is None else content, kind, count=ends[-1])
    return found[ends[0] :], ends - ends[0]


def _has_any(batch: pa.RecordBatch, name: str, wanted: Any) -> Any:
    """Say of each range whether its sketch has a wanted number; without any, none is read."""
    if not len(wanted) or not batch.num_rows:
        return np.zeros(batch.num_rows, np.bool_)
    found, ends = _numbers(batch, name)
    before = np.concatenate([[0], np.cumsum(_common(found, wanted))])
    return before[ends[1:]] > before[ends[:-1]]


def _common(some: Any, wanted: Any) -> Any:
    """Say of each of some numbers whether it is among the wanted ones, which are sorted."""
    if not len(wanted):
        return np.zeros(len(some), np.bool_)
    at = np.minimum(np.searchsorted(wanted, some), len(wanted) - 1)
    return wanted[at] == some
