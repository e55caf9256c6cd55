"""Behind which entries of heads a candidate could hide.

It is one exchange. First candidates and entries get keys (`evidence`), each where all that is known
of its object is. Then candidates and entries with the same key meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import are_among, hashed, place_among, sorted_once
from spark_core.references.head_entries import HASHES, MD5, HeadEntries, of_heads
from spark_core.references.twins.candidates import Candidates
from spark_core.references.twins.evidence import (
    Evidence,
    Used,
    begins_of,
    grouped,
    keys_of_candidates,
    keys_of_entries,
)
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, numbers_of, source_of

# What a path may hide: a candidate with the path's key, any candidate, or any dishonest candidate.
SIZED, ANY, DISHONEST = 0, 1, 2

# Questions that the driver holds at most.
MOST_QUESTIONS = 200_000

QUESTIONS = pa.schema(
    [
        pa.field("head_path", pa.binary(), nullable=False),
        pa.field("hides", pa.int32(), nullable=False),
        # What a candidate and an entry must share; 0 if anything will do.
        pa.field("key", pa.int64(), nullable=False),
        # Number of branches to ask, counted from the first.
        pa.field("branches", pa.int32(), nullable=False),
        # The entry's own object lies outside. Time then says nothing about what hides there.
        pa.field("is_outside", pa.bool_(), nullable=False),
        # Branches of all questions of the key.
        pa.field("cost", pa.int64(), nullable=False),
    ]
)
# What all questions of a key have in common.
KEYS = pa.schema([QUESTIONS.field(name) for name in ("hides", "key", "branches", "is_outside")])

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
# A row of a candidate's key, or of an entry's. The hashes are those of all candidates with the key,
# or of the entry's own object. A row without a path is for several entries.
_KEYED = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("is_entry", pa.bool_(), nullable=False),
        pa.field("branches", pa.int32(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("last", pa.int64(), nullable=False),
        pa.field("is_outside", pa.bool_(), nullable=False),
        pa.field("head_path", pa.binary()),
        pa.field("entries", pa.int64(), nullable=False),
    ]
)

# Entries of one key whose paths a kernel sends on; of more, only their number.
_PATHS_OF_A_KEY = 20_000
# Rows that are worth a place of their own where keys meet.
_ROWS_OF_A_NUMBER = 500_000


@dataclass(frozen=True)
class Suspects:
    """The paths under which a candidate may hide.

    Attributes:
        questions: Columns of `QUESTIONS`, key head_path, hides and key: those of the keys that cost
            least, up to `MOST_QUESTIONS`.
        keys: All keys of them and of others: columns of `KEYS`.
        unheld: The rows of `keys` of which not all questions are held.
        reach: Number of paths by the number of branches that they concern. Where there are very
            many, a path may count several times.
        for_all: Number of paths that hide anything, or anything dishonest.
        entries: Number of entries of heads.
    """

    questions: pa.Table = field(default_factory=QUESTIONS.empty_table)
    keys: pa.Table = field(default_factory=KEYS.empty_table)
    unheld: pa.Table = field(default_factory=KEYS.empty_table)
    reach: Mapping[int, int] = field(default_factory=Counter)
    for_all: int = 0
    entries: int = 0

    @property
    def count(self) -> int:
        """Number of all paths."""
        return sum(self.reach.values())


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


@dataclass(frozen=True)
class _FoundQuestions:
    """Questions that a kernel found; as of `Suspects`, with the number of paths of each key."""

    questions: pa.Table
    keys: pa.Table
    paths: Any
    reach: Counter[int]
    entries: int = 0


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
        sources, partial(_keyed, orders), _KEYED, partial(_questions, orders)
    ).run(candidates.spark, threads=candidates.threads)
    return _together(receipts, met)


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


def _together(
    of_entries: Sequence[_FoundQuestions], of_keys: Sequence[_FoundQuestions]
) -> Suspects:
    """Sum up what kernels found, and keep the questions of the keys that cost least."""
    every = [*of_entries, *of_keys]
    reach: Counter[int] = Counter()
    for found in every:
        reach.update(found.reach)
    questions = pa.concat_tables([QUESTIONS.empty_table(), *(one.questions for one in every)])
    keys = pa.concat_tables([KEYS.empty_table(), *(one.keys for one in every)])
    paths = np.concatenate([np.empty(0, np.int64), *(one.paths for one in every)])
    held = _cheapest(questions)
    return Suspects(
        held,
        keys,
        _unheld(held, keys, paths),
        reach,
        sum(sum(one.reach.values()) for one in of_entries),
        sum(one.entries for one in of_entries),
    )


def _unheld(questions: pa.Table, keys: pa.Table, paths: Any) -> pa.Table:
    """Return the keys of which the driver does not hold all questions."""
    if questions.num_rows == paths.sum():
        return keys.slice(0, 0)
    held, names = (
        list(zip(some["hides"].to_pylist(), some["key"].to_pylist(), strict=True))
        for some in (questions, keys)
    )
    wanted: Counter[tuple[int, int]] = Counter()
    for name, number in zip(names, paths.tolist(), strict=True):
        wanted[name] += number
    wanted.subtract(held)
    return keys.filter(pa.array([wanted[name] > 0 for name in names], pa.bool_()))


def _cheapest(questions: pa.Table) -> pa.Table:
    """Keep the questions about anything, and those of the keys that cost least."""
    if questions.num_rows <= MOST_QUESTIONS:
        return questions
    is_sized = pc.equal(questions["hides"], SIZED)
    order = [("is_sized", "ascending"), ("cost", "ascending"), ("key", "ascending")]
    ranked = questions.append_column("is_sized", is_sized.cast(pa.int8())).sort_by(order)
    return ranked.slice(0, MOST_QUESTIONS).select(QUESTIONS.names)


def _keyed(orders: _SuspectOrders, bucket: Mapping[str, pa.Table]) -> Sent[_FoundQuestions]:
    """Give candidates and entries their keys; in each bucket is all that is known of an object.

    Returns:
        The paths that hide anything, or anything dishonest; and for the numbers where keys meet,
        columns of `_KEYED`.
    """
    rows = pa.concat_tables([_of_candidates(orders.used, bucket), _of_entries(orders.used, bucket)])
    sent = {0: rows}
    if orders.numbers > 1:
        number = numbers_of(rows["key"]).view(np.uint64) % np.uint64(orders.numbers)
        sent = {each: rows.filter(pa.array(number == each)) for each in range(orders.numbers)}
    return Sent(_whatever(orders, bucket), sent)


def _of_candidates(used: Used, bucket: Mapping[str, pa.Table]) -> pa.Table:
    at, keys = keys_of_candidates(used, bucket)
    hashes, reach = (
        numbers_of(bucket["candidates"][name])[at] for name in ("address_hash", "branches")
    )
    keys, reach, first, last = grouped(
        keys, (np.maximum, reach), (np.minimum, hashes), (np.maximum, hashes)
    )
    return _rows(key=keys, branches=reach, first=first, last=last)


def _of_entries(used: Used, bucket: Mapping[str, pa.Table]) -> pa.Table:
    entries = bucket["entries"]
    own, is_outside = (numbers_of(entries[name]) for name in ("address_hash", "is_outside"))
    tables = [
        _rows(
            key=keys,
            is_entry=True,
            first=own,
            last=own,
            is_outside=is_outside,
            head_path=entries["head_path"],
        )
        for keys in keys_of_entries(used, bucket)
    ]
    return _without_paths(pa.concat_tables(tables))


def _rows(**columns: Any) -> pa.Table:
    """Make rows of `_KEYED`; a column that is a single value has it in every row."""
    rows = len(columns["key"])
    usual = {"is_entry": False, "branches": 0, "is_outside": False, "entries": 1}
    return pa.table(
        [
            pa.repeat(pa.scalar(value, kind.type), rows)
            if value is None or isinstance(value, bool | int)
            else value
            for kind in _KEYED
            for value in [{**usual, **columns}.get(kind.name)]
        ],
        schema=_KEYED,
    )


def _without_paths(rows: pa.Table) -> pa.Table:
    """Of a key of very many entries, leave only the number of most of them."""
    if rows.num_rows <= _PATHS_OF_A_KEY:
        return rows
    keys, is_outside = numbers_of(rows["key"]), numbers_of(rows["is_outside"])
    order = np.argsort(keys, kind="stable")
    begins = begins_of(keys[order])
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - np.repeat(begins, np.diff(np.append(begins, len(keys))))
    is_many = rank >= _PATHS_OF_A_KEY
    if not is_many.any():
        return rows
    tables = [rows.filter(pa.array(~is_many))]
    for side in (False, True):
        some = keys[is_many & (is_outside == side)]
        of, number = grouped(some, (np.add, np.ones(len(some), np.int64)))
        # Not even a hash: as if each entry's object were none of the candidates.
        tables.append(
            _rows(key=of, is_entry=True, first=0, last=1, is_outside=side, entries=number)
        )
    return pa.concat_tables(tables)


def _whatever(orders: _SuspectOrders, bucket: Mapping[str, pa.Table]) -> _FoundQuestions:
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
        tables.append(_asked(some["head_path"], hides, 0 * rows, rows, some["is_outside"]))
    questions = pa.concat_tables(tables)
    paths = np.array([table.num_rows for table in tables], np.int64)
    keys = pa.table([[ANY, DISHONEST], [0, 0], [orders.branches] * 2, [True, True]], schema=KEYS)
    return _FoundQuestions(
        questions.slice(0, MOST_QUESTIONS),
        keys.filter(pa.array(paths > 0)),
        paths[paths > 0],
        Counter({orders.branches: int(paths.sum())} if paths.any() else {}),
        entries.num_rows,
    )


def _asked(
    paths: pa.ChunkedArray, hides: int, keys: Any, branches: Any, is_outside: pa.ChunkedArray
) -> pa.Table:
    """Make questions whose cost is not known yet: columns of `QUESTIONS`.

    Each path counts once for its key; the paths themselves are compared.
    """
    rows = len(paths)
    columns = [
        paths,
        np.full(rows, hides, np.int32),
        keys.astype(np.int64),
        branches,
        is_outside,
        np.zeros(rows, np.int64),
    ]
    questions = pa.table(columns, schema=QUESTIONS)
    if rows > MOST_QUESTIONS:
        return questions
    return (
        questions.group_by(["head_path", "hides", "key"])
        .aggregate([("branches", "max"), ("is_outside", "max"), ("cost", "max")])
        .rename_columns(QUESTIONS.names)
        .cast(QUESTIONS)
    )


def _questions(orders: _SuspectOrders, _number: int, rows: pa.Table) -> _FoundQuestions:
    """Find the entries that share a key with a candidate; all rows of each key are here."""
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
    met = entries.set_column(2, _KEYED.field("branches"), pa.array(branches)).filter(
        pa.array(is_asked)
    )
    several = met.filter(pc.is_null(met["head_path"]))
    single = met.filter(pc.is_valid(met["head_path"]))
    questions = _asked(
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
    return _FoundQuestions(
        _cheapest(questions.set_column(5, QUESTIONS.field("cost"), pa.array(costs))),
        pa.table([np.full(len(of), SIZED, np.int32), of, most, is_any], schema=KEYS),
        paths,
        Counter(dict(zip(by_reach.tolist(), number.tolist(), strict=True))),
    )
