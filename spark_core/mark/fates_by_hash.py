"""Fates by hashes: a kernel decides about all objects of a bucket of hashes of addresses.

What a retained commit reaches is counted here. Of the others go on the numbers of their rows, and
what is known of their hashes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import place_among
from spark_core.fates import Fate
from spark_core.fates.deciding import CODES, fate
from spark_core.mark.compared import (
    DUE,
    HELD,
    LIVE,
    SIZED,
    SIZES_DIFFER,
    UNNAMED,
    known_by,
    numbered_references,
)
from spark_core.mark.fate_rows import SENT, Decided
from spark_core.spark.exchange import Sent, numbers_of, rows_by_number


def decide_bucket(is_left: bool, tasks: Any, bucket: Mapping[str, pa.Table]) -> Sent[Decided]:  # noqa: FBT001 - of a partial function
    """Decide about the objects of a bucket, in which all references to their hashes are.

    Args:
        is_left: Whether what nothing reaches is left to another run.
        tasks: For each part of the listing, the number of the task that reads its rows again.
        bucket: `listed` with columns of `LISTED`, `references` with those of `REFERENCES`,
            `held_paths` with those of `held_paths.HELD`, and perhaps `due` and `named` with those
            of `NAMED`.

    Returns:
        The figures of what commits reach; and the others, in columns of `SENT`, for the task that
        reads each again.
    """
    listed = bucket["listed"]
    numbers, references = numbered_references(bucket["references"])
    bits, said, counts = (
        numbers_of(references[name]) for name in ("bits", "size_bytes", "references")
    )
    of_object, size, alone = (
        numbers_of(listed[name]) for name in ("address_hash", "size_bytes", "alone")
    )
    at = numbers.place(of_object)
    # A last row says nothing.
    bits, said = np.append(bits, np.int16(0)), np.append(said, 0)
    known = bits[at]
    held_by = _held_by(of_object, bucket["held_paths"])
    is_held = numbers_of(listed["is_held"]) | numbers_of(held_by.is_valid())
    is_other = (known & SIZED != 0) & ((known & SIZES_DIFFER != 0) | (said[at] != size))
    missing = numbers.hashes[_are_unlisted(bits, at)[:-1]]
    naming_bits, naming = _naming(of_object, bucket)
    known |= np.where(is_held, np.int16(HELD), np.int16(0)) | naming_bits
    codes = fate(known_by(alone, known, is_left=is_left))
    decided = Decided(
        live=int((known & LIVE != 0).sum()) + missing.size,
        missing=[missing] if missing.size else [],
        other_sizes=int(is_other.sum()),
        references=int(counts.sum(dtype=np.int64)) + bucket["held_paths"].num_rows,
    )
    is_sent = codes != CODES[Fate.COMMITTED]
    decided.count(codes[~is_sent], size[~is_sent])
    sending = {
        **{name: listed[name] for name in ("address_hash", "part", "row", "size_bytes", "alone")},
        "bits": pa.array(known),
        **dict(zip(("named_as", "why"), naming, strict=True)),
        "held_by": held_by,
    }
    sent = pa.table([sending[name] for name in SENT.names], schema=SENT)
    sent = sent.filter(pa.array(is_sent))
    return Sent(decided, dict(rows_by_number(sent, tasks[numbers_of(sent["part"])])))


def _are_unlisted(bits: Any, at: Any) -> Any:
    """Say of which hashes the objects are live, and not listed.

    Args:
        bits: What references say of each hash.
        at: Places of the hashes of listed objects.
    """
    is_absent = np.ones(bits.size, np.bool_)
    is_absent[at] = False
    return is_absent & (bits & LIVE != 0)


def _held_by(hashes: Any, held: pa.Table) -> pa.StringArray:
    """Return for each object the hold that keeps it by a path; null if none does."""
    if not held.num_rows:
        return pa.nulls(len(hashes), pa.string())
    first = held.group_by("address_hash").aggregate([("held_by", "min")]).sort_by("address_hash")
    at = place_among(hashes, numbers_of(first["address_hash"]))
    words = first["held_by_min"].combine_chunks()
    return words.take(pa.array(at, mask=at == len(words)))


def _naming(hashes: Any, bucket: Mapping[str, pa.Table]) -> tuple[Any, tuple[pa.Array, pa.Array]]:
    """Say of each object who names it: bits, and the columns `NAMING`."""
    bits = np.zeros(len(hashes), np.int16)
    naming = pa.nulls(len(hashes), pa.string()), pa.nulls(len(hashes), pa.string())
    for name, bit, says in (("due", DUE, True), ("named", UNNAMED, False)):
        if name in bucket:
            is_named, columns = _named_among(hashes, bucket[name])
            bits |= np.where(is_named == says, np.int16(bit), np.int16(0))
            naming = tuple(pc.coalesce(*two) for two in zip(naming, columns, strict=True))
    return bits, naming


def _named_among(hashes: Any, names: pa.Table) -> tuple[Any, tuple[pa.Array, pa.Array]]:
    """Say of each object whether its hash is named, by which address, and why."""
    ordered = names.combine_chunks().sort_by("address_hash")
    at = place_among(hashes, numbers_of(ordered["address_hash"]))
    is_named = at < ordered.num_rows
    where = pa.array(at, mask=~is_named)
    return is_named, tuple(
        ordered[name].combine_chunks().take(where) for name in ("named_as", "why")
    )
