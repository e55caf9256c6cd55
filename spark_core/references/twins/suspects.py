"""Behind which entries of heads a candidate could hide.

It is one exchange. First candidates and entries get keys (`evidence`), each where all that is known
of its object is. Then candidates and entries with the same key meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import are_among, hashed, place_among, sorted_once
from spark_core.references.head_entries import HASHES, MD5, HeadEntries, of_heads
from spark_core.references.twins.candidates_by_time import Candidates
from spark_core.references.twins.evidence import Evidence, Used, grouped
from spark_core.references.twins.keyed_rows import KEYED, rows_with_keys
from spark_core.references.twins.questions import (
    ANY,
    DISHONEST,
    KEYS,
    MOST_QUESTIONS,
    QUESTIONS,
    SIZED,
    FoundQuestions,
    Suspects,
    cheapest_of,
    questions_about,
    suspects_in,
)
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, numbers_of, source_of

# An entry of a head. Its checksum is a hash.
_ENTRIES = pa.schema(
    [
        *HASHES,
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("head_path", pa.binary(), nullable=False),
        pa.field("checksum", pa.int64(), nullable=False),
        pa.field("is_md5", pa.bool_(), nullable=False),
        pa.field("is_outside", pa.bool_(), nullable=False),
    ]
)

# Rows that are worth a place of their own where keys meet.
_ROWS_OF_A_NUMBER = 500_000


@dataclass(frozen=True)
class _SuspectOrders:
    """What every kernel is told.

    Attributes:
        branches: Number of branches.
        numbers: Number of places where keys meet.
        any_dishonest: Whether a candidate may be dishonest.
        used: What counts of what is known of contents.
    """

    branches: int
    numbers: int
    any_dishonest: bool
    used: Used


def suspects_of(
    candidates: Candidates, evidence: Evidence, heads: HeadEntries, *, branches: int
) -> Suspects:
    """Find the paths under which a candidate may hide.

    Dishonest candidates under entries inside the namespace are left out.

    Dishonest candidates may hide under any path of a branch, which is then listed as a whole. An
    entry whose own object lies outside or is missing may be older than any known moment, so every
    branch is asked about it. An entry of a candidate's own object, which a retention policy may
    name, hides nothing else by itself.

    Each entry and each candidate moves twice, some 30 bytes and the entry's path.

    Args:
        candidates: The candidates.
        evidence: What is known of their contents.
        heads: The entries of branch heads.
        branches: Number of branches.
    """
    sources: dict[str, AnySource] = {
        "candidates": candidates.hashes,
        **evidence.sources,
        "entries": heads.rows().through(_ENTRIES, _entries),
        "absent": source_of(pa.table([heads.absent], schema=HASHES), HASHES),
    }
    rows = sum(source.rows for source in sources.values())
    orders = _SuspectOrders(
        branches,
        max(1, rows // _ROWS_OF_A_NUMBER),
        candidates.any_dishonest,
        evidence.used,
    )
    receipts, met = Exchange(
        sources, partial(_keyed, orders), KEYED, partial(_questions, orders)
    ).run(candidates.spark, threads=candidates.threads)
    return suspects_in(receipts, met)


def _entries(batches: Batches) -> Batches:
    for batch in of_heads(batches):
        checksum = batch.column("checksum")
        yield pa.record_batch(
            [
                hashed(batch.column("address")),
                batch.column("size_bytes"),
                batch.column("head_path"),
                hashed(checksum),
                pc.fill_null(pc.match_substring_regex(checksum, MD5), False),
                pc.invert(pc.starts_with(batch.column("address"), "data/")),
            ],
            schema=_ENTRIES,
        )


def _keyed(orders: _SuspectOrders, bucket: Mapping[str, pa.Table]) -> Sent[FoundQuestions]:
    """Give candidates and entries their keys; in each bucket is all that is known of an object.

    Returns:
        The paths that hide anything, or anything dishonest; and for the numbers where keys meet,
        columns of `KEYED`.
    """
    rows = rows_with_keys(orders.used, bucket)
    sent = {0: rows}
    if orders.numbers > 1:
        number = numbers_of(rows["key"]).view(np.uint64) % np.uint64(orders.numbers)
        sent = {each: rows.filter(pa.array(number == each)) for each in range(orders.numbers)}
    return Sent(_whatever(orders, bucket), sent)


def _whatever(orders: _SuspectOrders, bucket: Mapping[str, pa.Table]) -> FoundQuestions:
    """Find the paths that hide anything, or anything dishonest."""
    entries = bucket["entries"]
    absent = sorted_once(numbers_of(bucket["absent"]["address_hash"]))
    is_absent = are_among(numbers_of(entries["address_hash"]), absent)
    is_outside = numbers_of(entries["is_outside"])
    asked = [(ANY, is_absent), (DISHONEST, is_outside & orders.any_dishonest)]
    tables = []
    for hides, is_asked in asked:
        some = entries.filter(pa.array(is_asked))
        rows = np.full(some.num_rows, orders.branches, np.int32)
        tables.append(questions_about(some["head_path"], hides, 0 * rows, rows, some["is_outside"]))
    questions = pa.concat_tables(tables)
    paths = np.array([table.num_rows for table in tables], np.int64)
    keys = pa.table([[ANY, DISHONEST], [0, 0], [orders.branches] * 2, [True, True]], schema=KEYS)
    return FoundQuestions(
        questions.slice(0, MOST_QUESTIONS),
        keys.filter(pa.array(paths > 0)),
        paths[paths > 0],
        Counter({orders.branches: int(paths.sum())} if paths.any() else {}),
        entries.num_rows,
    )


def _questions(orders: _SuspectOrders, _number: int, rows: pa.Table) -> FoundQuestions:
    """Find the entries that share a key with a candidate; all rows of each key are here."""
    met = _met(orders, rows)
    several = met.filter(pc.is_null(met["head_path"]))
    single = met.filter(pc.is_valid(met["head_path"]))
    questions = questions_about(
        single["head_path"],
        SIZED,
        numbers_of(single["key"]),
        numbers_of(single["branches"]),
        single["is_outside"],
    )
    key, branches, is_outside = (
        np.concatenate([numbers_of(questions[name]), numbers_of(several[name])])
        for name in ("key", "branches", "is_outside")
    )
    counts = np.append(np.ones(questions.num_rows, np.int64), numbers_of(several["entries"]))
    of, most, is_any, paths, cost = grouped(
        key,
        (np.maximum, branches),
        (np.maximum, is_outside),
        (np.add, counts),
        (np.add, counts * branches),
    )
    costs = cost[place_among(numbers_of(questions["key"]), of)] if len(of) else cost
    by_reach, number = grouped(branches, (np.add, counts))
    return FoundQuestions(
        cheapest_of(questions.set_column(5, QUESTIONS.field("cost"), pa.array(costs))),
        pa.table([np.full(len(of), SIZED, np.int32), of, most, is_any], schema=KEYS),
        paths,
        Counter(dict(zip(by_reach.tolist(), number.tolist(), strict=True))),
    )


def _met(orders: _SuspectOrders, rows: pa.Table) -> pa.Table:
    """Return the entries that share a key with a candidate: columns of `KEYED`.

    Their branches are those that are to be asked.
    """
    is_entry = rows["is_entry"]
    of_candidates, entries = rows.filter(pc.invert(is_entry)), rows.filter(is_entry)
    keys, reach, first, last = (
        numbers_of(of_candidates[name]) for name in ("key", "branches", "first", "last")
    )
    keys, reach, first, last = grouped(
        keys, (np.maximum, reach), (np.minimum, first), (np.maximum, last)
    )
    key, own, is_outside = (numbers_of(entries[name]) for name in ("key", "first", "is_outside"))
    at = place_among(key, keys)
    first, last = np.append(first, 0)[at], np.append(last, 0)[at]
    is_own = (first == last) & (first == own) & (own == numbers_of(entries["last"]))
    branches = np.where(is_outside, orders.branches, np.append(reach, 0)[at]).astype(np.int32)
    is_asked = (at < len(keys)) & (branches > 0) & ~is_own
    return entries.set_column(2, KEYED.field("branches"), pa.array(branches)).filter(
        pa.array(is_asked)
    )
