"""Who could hide: which candidates may be twins on a branch, and behind which entries of heads.

Branches are sorted by the earliest time at which something could hide on them. So a candidate may
hide on exactly the first branches, as many as `CANDIDATES.branches` says.

A candidate may be the twin of an entry of its own size. A candidate is **dishonest** if its size
may differ from the size in its entry. A client that uploads past the server gives a size when it
links the object, and copies carry that size on.

Where an object's own entries in expired commits all give one checksum, it is no twin of an entry
with another one. For the server makes checksums when it takes an upload, and all entries of that
object carry on what it made. To be the twin, the object would have an entry with the checksum of
the other. A client can give a checksum, too:

- when it links an upload past the server: the name is signed, so the object is dishonest;
- of the content of such an object, in a copy: then what entries of heads give differs from what
  the store tells, in size or in checksum, and nothing is believed;
- when it stages an object by hand. If it gives the object's own checksum, that changes nothing. If
  it gives another one, the store may show that. If nobody can see it, the entry of the head has its
  own object all the same, with the content that it names.

So such evidence counts only against an entry whose own object was listed, below `data/`; and only
with the size that the object has, and a checksum that the store does not deny.

All of it is one exchange. Candidates, and what is known of their contents, meet by the hashes of
their addresses, and so do entries and objects that are lost. Then candidates and entries meet by a
key: the hash of what both must share. Hashes decide about nothing but whom to ask: where two are
equal by accident, more is asked, or more is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed, place_among
from spark_core.addresses.namespace import xid_time_batch
from spark_core.errors import NotFoundError
from spark_core.records import reading
from spark_core.records.reading import StoredTable
from spark_core.references import explanations
from spark_core.references.sizes import MD5, HeadEntries, of_heads, stated_by_the_store
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.exchange import (
    AnySource,
    Batches,
    Exchange,
    Sent,
    numbers_of,
    source_of,
)
from spark_core.spark.tasks import dealt, interleaved, run_tasks
from spark_core.storage import ObjectStore

# What a path may hide: a candidate with the path's key, any candidate, or any dishonest candidate.
SIZED, ANY, DISHONEST = 0, 1, 2

# Questions that the driver holds at most.
MOST_QUESTIONS = 200_000

# Columns of candidates as callers have them.
OBJECTS = pa.schema(
    [schemas.NAMESPACE_SLICES.field(name) for name in ("address", "size_bytes", "last_modified")]
)
CANDIDATES = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        # Number of branches that it may hide on, counted from the first.
        pa.field("branches", pa.int32(), nullable=False),
        pa.field("is_dishonest", pa.bool_(), nullable=False),
    ]
)
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
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("head_path", pa.binary(), nullable=False),
        pa.field("checksum", pa.int64(), nullable=False),
        pa.field("is_md5", pa.bool_(), nullable=False),
        pa.field("is_outside", pa.bool_(), nullable=False),
    ]
)
_HASHES = pa.schema([pa.field("address_hash", pa.int64(), nullable=False)])
# Hashes of the checksums of objects, or of those that their entries give.
_CHECKSUMS = _HASHES.append(pa.field("checksum", pa.int64(), nullable=False))
# What the entries of an object say of it: ends, which are equal where all agree.
_SAID = pa.schema(
    [
        *_HASHES,
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in ("least_bytes", "most_bytes", "least_checksum", "most_checksum")
        ),
    ]
)
_LISTED = _HASHES.append(pa.field("checksum", pa.int64()))
_SAYING = pa.schema(
    [explanations.ENTRIES.field(name) for name in ("address_hash", "size_bytes", "checksum")]
)
_CONTENTS = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("md5", pa.string())]
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

# The signature in a name that lakeFS gives out for an upload past it.
_SIGNED = r",[^/]*$"

# What a key is made of: a size, a size and a content, or a size and no content that is believed.
_OF_SIZE, _OF_CONTENT, _OF_ODD, _OF_SAID, _OF_UNSAID = 1, 2, 3, 4, 5

# Entries of one key whose paths a kernel sends on; of more, only their number.
_PATHS_OF_A_KEY = 20_000
# Rows that are worth a place of their own where keys meet.
_ROWS_OF_A_NUMBER = 500_000
# Objects whose contents are worth a task, and those that the driver asks about by itself.
_ASKED_BY_A_TASK, _ASKED_HERE = 1_000, 20_000


@dataclass(frozen=True)
class Candidates:
    """The objects that are left to go.

    Attributes:
        spark: Gives the session; called where there is more than the driver brings together.
        threads: Tasks that the driver reads at once.
        objects: Columns of `OBJECTS`, key address.
        hashes: The same objects: columns of `CANDIDATES`.
        branches: Largest number of branches that one of them may hide on.
        dishonest: The same for candidates that may be dishonest.
        any_dishonest: Whether any candidate may be dishonest.
        contents: MD5s that the store told: columns of `_CHECKSUMS`.
        said: What entries of expired commits say: columns of `_SAID`. None where that is not
            believed.
        listed: The store's objects, with the MD5s that it tells: columns of `_LISTED`.
    """

    spark: Callable[[], SparkSession]
    threads: int
    objects: AnySource
    hashes: AnySource
    branches: int
    dishonest: int
    any_dishonest: bool
    contents: pa.Table = field(default_factory=_CHECKSUMS.empty_table)
    said: AnySource | None = None
    listed: AnySource | None = None

    def believing(self, said: AnySource, heads: HeadEntries) -> Candidates:
        """Take for true what entries say of the candidates.

        Args:
            said: Columns address_hash, size_bytes and checksum of `explanations.ENTRIES`.
            heads: The entries of branch heads, with the listing.
        """
        listed = heads.listing().through(_LISTED, stated_by_the_store)
        return replace(self, said=said.through(_SAID, _ends, _agreed), listed=listed)

    def named(self, hashes: Any) -> pa.Table:
        """Return the objects with one of some hashes; columns of `OBJECTS`.

        Args:
            hashes: Hashes of addresses, sorted; few, because the driver holds the result.
        """
        return chosen(self.objects, "address", hashes, self.spark)

    def first_named(self, hashes: Any, count: int) -> tuple[str, ...]:
        """Return the first addresses of those that have one of some hashes, in order."""
        if not len(hashes):
            return ()
        found = self.objects.each(self.spark, partial(_first_addresses, hashes, count))
        return tuple(sorted(address for some in found for address in some)[:count])

    def halves(self) -> Any:
        """Return the upper half of each hash, sorted and once: 4 bytes for each candidate."""
        found = self.hashes.each(self.spark, _halves)
        return np.unique(np.concatenate([np.empty(0, np.uint32), *found]))


def _first_addresses(hashes: Any, count: int, batches: Batches) -> list[str]:
    found: list[str] = []
    for batch in batches:
        addresses = batch.column("address")
        some = addresses.filter(pa.array(are_among(hashed(addresses).to_numpy(), hashes)))
        found = sorted([*found, *some.to_pylist()])[:count]
    return found


def _halves(batches: Batches) -> Any:
    found = [halves_of(numbers_of(batch.column("address_hash"))) for batch in batches]
    return np.unique(np.concatenate([np.empty(0, np.uint32), *found]))


def halves_of(hashes: Any) -> Any:
    """Return the upper half of each hash."""
    return (hashes.view(np.uint64) >> np.uint64(32)).astype(np.uint32)


def chosen(
    rows: AnySource, column: str, hashes: Any, spark: Callable[[], SparkSession]
) -> pa.Table:
    """Bring the rows to the driver of which a column has one of some hashes.

    Args:
        rows: The rows.
        column: A column of text or bytes.
        hashes: Hashes of it, sorted; few.
        spark: As for `Candidates`.
    """
    found = rows.each(spark, partial(_chosen, column, hashes)) if len(hashes) else []
    return pa.Table.from_batches([batch for some in found for batch in some], rows.schema)


def _chosen(column: str, hashes: Any, batches: Batches) -> list[pa.RecordBatch]:
    return [
        batch.filter(pa.array(are_among(hashed(batch.column(column)).to_numpy(), hashes)))
        for batch in batches
    ]


def candidates_of(
    spark: Callable[[], SparkSession],
    rows: AnySource,
    moments: Sequence[int],
    *,
    all_dishonest: bool,
    threads: int,
) -> Candidates:
    """Find for each candidate the number of branches that it may hide on.

    A candidate's time is the later one of its name's time and its last modification.

    Args:
        spark: Gives the session.
        rows: Columns of `OBJECTS`.
        moments: For each branch the moment from which something can hide there, in microseconds,
            sorted.
        all_dishonest: Whether every candidate may be dishonest.
        threads: Tasks that the driver reads at once.
    """
    levelled = partial(_levelled, np.array(moments, dtype=np.int64), all_dishonest)
    hashes = rows.through(CANDIDATES, levelled)
    if placement.driver_works(hashes.rows):
        hashes = source_of(hashes.here(threads), CANDIDATES)
    sums = hashes.each(spark, _sums)
    return Candidates(
        spark,
        threads,
        rows,
        hashes,
        max((branches for branches, _, _ in sums), default=0),
        max((dishonest for _, dishonest, _ in sums), default=0),
        any(is_any for _, _, is_any in sums),
    )


def _sums(batches: Batches) -> tuple[int, int, bool]:
    branches = dishonest = 0
    is_any = False
    for batch in batches:
        of_dishonest = batch.column("branches").filter(batch.column("is_dishonest"))
        branches = max(branches, pc.max(batch.column("branches")).as_py() or 0)
        dishonest = max(dishonest, pc.max(of_dishonest).as_py() or 0)
        is_any = is_any or len(of_dishonest) > 0
    return branches, dishonest, is_any


def _levelled(moments: Any, all_dishonest: bool, batches: Batches) -> Batches:  # noqa: FBT001 - of a partial function
    for batch in batches:
        addresses = batch.column("address").cast(pa.string())
        modified = batch.column("last_modified").cast(schemas.INSTANT)
        named = xid_time_batch(addresses).cast(pa.int64())
        # As numbers, because the engine compares instants only with each other.
        times = pc.max_element_wise(named, modified.cast(pa.int64()), skip_nulls=True)
        branches = np.searchsorted(moments, times.to_numpy(zero_copy_only=False), side="right")
        signed = pc.match_substring_regex(addresses, _SIGNED)
        dishonest = pc.or_(signed, pa.scalar(all_dishonest)) if batch.num_rows else signed
        yield pa.record_batch(
            [
                hashed(addresses),
                batch.column("size_bytes"),
                pa.array(branches.astype(np.int32)),
                dishonest,
            ],
            schema=CANDIDATES,
        )


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
class _Orders:
    """What every kernel is told.

    Attributes:
        branches: Number of branches.
        numbers: Number of places where keys meet.
        any_dishonest: Whether a candidate may be dishonest.
        with_contents: Whether the content of any candidate is known.
        with_said: Whether entries of candidates are believed.
    """

    branches: int
    numbers: int
    any_dishonest: bool
    with_contents: bool
    with_said: bool


@dataclass(frozen=True)
class _Found:
    """Questions that a kernel found; as of `Suspects`, with the number of paths of each key."""

    questions: pa.Table
    keys: pa.Table
    paths: Any
    reach: Counter[int]
    entries: int = 0


def suspects_of(candidates: Candidates, heads: HeadEntries, *, branches: int) -> Suspects:
    """Find the paths under which a candidate may hide.

    Dishonest candidates under entries inside the namespace are left out.

    Dishonest candidates may hide under any path of a branch, which is then listed as a whole. An
    entry whose own object lies outside or is missing may be older than any known moment, so every
    branch is asked about it. An entry of a candidate's own object, which a retention policy may
    name, hides nothing else by itself.

    Each entry and each candidate moves twice, some 30 bytes and the entry's path.

    Args:
        candidates: The candidates.
        heads: The entries of branch heads.
        branches: Number of branches.
    """
    sources = {
        **_sources_of(candidates),
        "entries": heads.rows().through(_ENTRIES, _entries),
        "absent": source_of(
            _HASHES.empty_table() if heads.absent is None else heads.absent, _HASHES
        ),
    }
    rows = sum(source.rows for source in sources.values())
    orders = _Orders(
        branches,
        max(1, rows // _ROWS_OF_A_NUMBER),
        candidates.any_dishonest,
        candidates.contents.num_rows > 0,
        candidates.said is not None,
    )
    receipts, met = Exchange(
        sources, partial(_keyed, orders), _KEYED, partial(_questions, orders)
    ).run(candidates.spark, threads=candidates.threads)
    return _together(receipts, met)


def _sources_of(candidates: Candidates) -> dict[str, AnySource]:
    return {
        "candidates": candidates.hashes,
        "contents": source_of(candidates.contents, _CHECKSUMS),
        "said": candidates.said or source_of(_SAID.empty_table(), _SAID),
        "listed": candidates.listed or source_of(_LISTED.empty_table(), _LISTED),
    }


def _ends(batches: Batches) -> Batches:
    for batch in batches:
        hashes, sizes, checksums = batch.columns
        yield pa.record_batch([hashes, sizes, sizes, checksums, checksums], schema=_SAID)


def _agreed(said: pa.Table) -> pa.Table:
    """Make one row of those of each object."""
    hashes, *ends = (numbers_of(said[name]) for name in _SAID.names)
    how = (np.minimum, np.maximum) * 2
    return pa.table(list(_grouped(hashes, *zip(how, ends, strict=True))), schema=_SAID)


def said_of(run: Run, committed: StoredTable) -> AnySource | None:
    """Return what entries of expired commits say of their objects; None for none.

    Every exchange reads them anew, and all must read the same. So what cannot be read is an error.

    Args:
        run: The run.
        committed: Table 4, beside which those entries lie.
    """
    parts = committed.manifest.beside
    if not parts:
        return None
    return reading.source_of_parts(run.store, _SAYING, parts)


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


def _together(of_entries: Sequence[_Found], of_keys: Sequence[_Found]) -> Suspects:
    """Sum up what kernels found, and keep the questions of the keys that cost least."""
    every = [*of_entries, *of_keys]
    reach: Counter[int] = Counter()
    for found in every:
        reach.update(found.reach)
    questions = pa.concat_tables([QUESTIONS.empty_table(), *(one.questions for one in every)])
    for_all = sum(sum(one.reach.values()) for one in of_entries)
    keys = pa.concat_tables([KEYS.empty_table(), *(one.keys for one in every)])
    paths = np.concatenate([np.empty(0, np.int64), *(one.paths for one in every)])
    held = _cheapest(questions)
    return Suspects(
        held,
        keys,
        _unheld(held, keys, paths),
        reach,
        for_all,
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


def _keyed(orders: _Orders, bucket: Mapping[str, pa.Table]) -> Sent[_Found]:
    """Give candidates and entries their keys; in each bucket is all that is known of an object.

    Returns:
        The paths that hide anything, or anything dishonest; and for the numbers where keys meet,
        columns of `_KEYED`.
    """
    rows = pa.concat_tables([_keys_of_candidates(bucket), _keys_of_entries(orders, bucket)])
    number = numbers_of(rows["key"]).view(np.uint64) % np.uint64(orders.numbers)
    sent = {
        int(each): rows.filter(pa.array(number == each)) if orders.numbers > 1 else rows
        for each in np.unique(number)
    }
    return Sent(_whatever(orders, bucket), sent)


def _keys_of_candidates(bucket: Mapping[str, pa.Table]) -> pa.Table:
    candidates = bucket["candidates"]
    at, keys = _candidate_keys(bucket)
    hashes, reach = (numbers_of(candidates[name])[at] for name in ("address_hash", "branches"))
    keys, reach, first, last = _grouped(
        keys, (np.maximum, reach), (np.minimum, hashes), (np.maximum, hashes)
    )
    return _keyed_rows(keys, reach, first, last)


def _candidate_keys(bucket: Mapping[str, pa.Table]) -> tuple[Any, Any]:
    """Return the rows of honest candidates, and keys of which an entry must have one to hide it."""
    hashes, sizes, is_dishonest = (
        numbers_of(bucket["candidates"][name])
        for name in ("address_hash", "size_bytes", "is_dishonest")
    )
    is_known, content = _told(hashes, bucket["contents"])
    is_said, checksum = _said(hashes, sizes, bucket)
    is_said &= ~is_known
    known, said, unknown = (
        np.flatnonzero(~is_dishonest & one) for one in (is_known, is_said, ~is_known & ~is_said)
    )
    return np.concatenate([unknown, known, known, said, said]), np.concatenate(
        [
            _keys(_OF_SIZE, sizes[unknown]),
            _keys(_OF_CONTENT, sizes[known], content[known]),
            _keys(_OF_ODD, sizes[known]),
            _keys(_OF_SAID, sizes[said], checksum[said]),
            _keys(_OF_UNSAID, sizes[said]),
        ]
    )


def _said(hashes: Any, sizes: Any, bucket: Mapping[str, pa.Table]) -> tuple[Any, Any]:
    """Say of each object whether its own entries give one checksum, and which.

    Two checksums of one hash may look as one. An entry with either of them then looks like an
    object's own, and is asked about.
    """
    of, least_bytes, most_bytes, least, most = (
        numbers_of(_agreed(bucket["said"])[name]) for name in _SAID.names
    )
    listed = bucket["listed"].filter(bucket["listed"]["checksum"].is_valid())
    at = place_among(hashes, of)
    checksum = np.append(least, 0)[at]
    is_one = np.append((least == most) & (least_bytes == most_bytes), False)[at]
    is_said = is_one & (np.append(least_bytes, -1)[at] == sizes)
    is_said &= _is_checksum(checksum)
    stated = numbers_of(listed["checksum"])
    by_store, first, last = _grouped(
        numbers_of(listed["address_hash"]), (np.minimum, stated), (np.maximum, stated)
    )
    seen = place_among(hashes, by_store)
    is_denied = (seen < len(by_store)) & (
        (np.append(first, 0)[seen] != checksum) | (np.append(last, 0)[seen] != checksum)
    )
    return is_said & ~is_denied, checksum


def _told(hashes: Any, contents: pa.Table) -> tuple[Any, Any]:
    """Say of each object whether its content is known, and which it is.

    Two objects of one hash may have two contents. Then neither is known.
    """
    told = numbers_of(contents["checksum"])
    of, least, most = _grouped(
        numbers_of(contents["address_hash"]), (np.minimum, told), (np.maximum, told)
    )
    at = place_among(hashes, of)
    is_known = np.append(least == most, False)[at]
    return is_known, np.append(least, 0)[at]


def _is_checksum(checksum: Any) -> Any:
    """Say of the hash of each checksum whether there is one."""
    return ~np.isin(checksum, hashed(pa.array([None, ""], pa.string())).to_numpy())


def _keys_of_entries(orders: _Orders, bucket: Mapping[str, pa.Table]) -> pa.Table:
    """Give an entry its keys; nobody compared the checksum of an object that lies outside."""
    entries = bucket["entries"]
    own, sizes, checksum, is_md5, is_outside = (
        numbers_of(entries[name])
        for name in ("address_hash", "size_bytes", "checksum", "is_md5", "is_outside")
    )
    keys = [_keys(_OF_SIZE, sizes)]
    if orders.with_contents:
        is_believed = is_md5 & ~is_outside
        keys.append(
            np.where(is_believed, _keys(_OF_CONTENT, sizes, checksum), _keys(_OF_ODD, sizes))
        )
    if orders.with_said:
        listed = np.unique(numbers_of(bucket["listed"]["address_hash"]))
        is_seen = are_among(own, listed) & ~is_outside & _is_checksum(checksum)
        keys.append(np.where(is_seen, _keys(_OF_SAID, sizes, checksum), _keys(_OF_UNSAID, sizes)))
    times = len(keys)
    rows = _keyed_rows(
        np.concatenate(keys),
        np.zeros(len(own) * times, np.int32),
        np.tile(own, times),
        np.tile(own, times),
        is_outside=np.tile(is_outside, times),
        paths=pa.concat_tables([entries.select(["head_path"])] * times)["head_path"],
    )
    return _without_paths(rows)


def _keyed_rows(
    keys: Any,
    branches: Any,
    first: Any,
    last: Any,
    *,
    is_outside: Any = None,
    paths: pa.ChunkedArray | None = None,
    entries: Any = None,
) -> pa.Table:
    """Make rows of `_KEYED`; those are of entries that say whether they lie outside."""
    rows = len(keys)
    is_entry = is_outside is not None
    return pa.table(
        [
            keys,
            np.full(rows, is_entry),
            branches,
            first,
            last,
            is_outside if is_entry else np.zeros(rows, np.bool_),
            pa.nulls(rows, pa.binary()) if paths is None else paths,
            np.ones(rows, np.int64) if entries is None else entries,
        ],
        schema=_KEYED,
    )


def _without_paths(rows: pa.Table) -> pa.Table:
    """Of a key of very many entries, leave only the number of most of them."""
    if rows.num_rows <= _PATHS_OF_A_KEY:
        return rows
    keys = numbers_of(rows["key"])
    order = np.argsort(keys, kind="stable")
    begins = _begins(keys[order])
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - np.repeat(begins, np.diff(np.append(begins, len(keys))))
    is_many = rank >= _PATHS_OF_A_KEY
    if not is_many.any():
        return rows
    tables, is_outside = [rows.filter(pa.array(~is_many))], numbers_of(rows["is_outside"])
    for side in (False, True):
        some = keys[is_many & (is_outside == side)]
        of, number = _grouped(some, (np.add, np.ones(len(some), np.int64)))
        # Not even a hash: as if each entry's object were none of the candidates.
        tables.append(
            _keyed_rows(
                of,
                np.zeros(len(of), np.int32),
                np.zeros(len(of), np.int64),
                np.ones(len(of), np.int64),
                is_outside=np.full(len(of), side),
                entries=number,
            )
        )
    return pa.concat_tables(tables)


def _whatever(orders: _Orders, bucket: Mapping[str, pa.Table]) -> _Found:
    """Find the paths that hide anything, or anything dishonest."""
    entries = bucket["entries"]
    absent = np.unique(numbers_of(bucket["absent"]["address_hash"]))
    is_absent = are_among(numbers_of(entries["address_hash"]), absent)
    is_outside = numbers_of(entries["is_outside"])
    asked = [(ANY, is_absent), (DISHONEST, is_outside & orders.any_dishonest)]
    tables = []
    for hides, is_asked in asked:
        some = entries.filter(pa.array(is_asked)).select(["head_path", "is_outside"])
        rows = some.num_rows
        columns = {
            "head_path": some["head_path"],
            "hides": pa.array(np.full(rows, hides, np.int32)),
            "key": pa.array(np.zeros(rows, np.int64)),
            "branches": pa.array(np.full(rows, orders.branches, np.int32)),
            "is_outside": some["is_outside"],
            "cost": pa.array(np.zeros(rows, np.int64)),
        }
        tables.append(_once(pa.table(columns, QUESTIONS)))
    questions = pa.concat_tables(tables)
    paths = np.array([table.num_rows for table in tables], np.int64)
    keys = pa.table(
        [
            pa.array([ANY, DISHONEST], pa.int32()),
            pa.array([0, 0], pa.int64()),
            pa.array([orders.branches] * 2, pa.int32()),
            pa.array([True, True]),
        ],
        schema=KEYS,
    )
    return _Found(
        questions.slice(0, MOST_QUESTIONS),
        keys.filter(pa.array(paths > 0)),
        paths[paths > 0],
        Counter({orders.branches: int(paths.sum())} if paths.any() else {}),
        entries.num_rows,
    )


def _once(questions: pa.Table) -> pa.Table:
    """Let each path count once for its key; the paths themselves are compared."""
    if questions.num_rows > MOST_QUESTIONS:
        return questions
    names = ["head_path", "hides", "key"]
    return (
        questions.group_by(names)
        .aggregate([("branches", "max"), ("is_outside", "max"), ("cost", "max")])
        .rename_columns(QUESTIONS.names)
        .cast(QUESTIONS)
    )


def _questions(orders: _Orders, _number: int, rows: pa.Table) -> _Found:
    """Find the entries that share a key with a candidate; all rows of each key are here."""
    is_entry = rows["is_entry"]
    of_candidates, entries = rows.filter(pc.invert(is_entry)), rows.filter(is_entry)
    keys, reach, first, last = (
        numbers_of(of_candidates[name]) for name in ("key", "branches", "first", "last")
    )
    keys, reach, first, last = _grouped(
        keys, (np.maximum, reach), (np.minimum, first), (np.maximum, last)
    )
    key, own, is_outside = (numbers_of(entries[name]) for name in ("key", "first", "is_outside"))
    at = place_among(key, keys)
    first, last = np.append(first, 0)[at], np.append(last, 0)[at]
    is_own = (first == last) & (first == own) & (own == numbers_of(entries["last"]))
    branches = np.where(is_outside, orders.branches, np.append(reach, 0)[at]).astype(np.int32)
    is_asked = (at < len(keys)) & (branches > 0) & ~is_own
    met = (
        entries.select(["head_path", "key", "is_outside", "entries"])
        .append_column("branches", pa.array(branches))
        .filter(pa.array(is_asked))
    )
    several = met.filter(pc.is_null(met["head_path"]))
    single = met.filter(pc.is_valid(met["head_path"]))
    questions = _once(
        pa.table(
            [
                single["head_path"],
                pa.array(np.full(single.num_rows, SIZED, np.int32)),
                single["key"],
                single["branches"],
                single["is_outside"],
                pa.array(np.zeros(single.num_rows, np.int64)),
            ],
            schema=QUESTIONS,
        )
    )
    key, branches, is_outside = (
        np.concatenate([numbers_of(questions[name]), numbers_of(several[name])])
        for name in ("key", "branches", "is_outside")
    )
    counts = np.append(np.ones(questions.num_rows, np.int64), numbers_of(several["entries"]))
    of, most, is_any, paths, cost = _grouped(
        key,
        (np.maximum, branches),
        (np.maximum, is_outside),
        (np.add, counts),
        (np.add, counts * branches),
    )
    costs = cost[place_among(numbers_of(questions["key"]), of)] if len(of) else cost
    by_reach, number = _grouped(branches, (np.add, counts))
    return _Found(
        _cheapest(questions.set_column(5, QUESTIONS.field("cost"), pa.array(costs))),
        pa.table([np.full(len(of), SIZED, np.int32), of, most, is_any], schema=KEYS),
        paths,
        Counter(dict(zip(by_reach.tolist(), number.tolist(), strict=True))),
    )


def _keys(made_of: int, sizes: Any, contents: Any = None) -> Any:
    """Hash what a candidate and an entry share."""
    mixed = (sizes.view(np.uint64) + np.uint64(made_of)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(made_of)
    if contents is not None:
        mixed = (mixed ^ contents.view(np.uint64)) * np.uint64(0x165667B19E3779F9)
    return (mixed ^ (mixed >> np.uint64(29))).view(np.int64)


def _begins(ordered: Any) -> Any:
    """Return where each run of equal numbers begins."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))[: ordered.size]


def _grouped(keys: Any, *columns: tuple[Any, Any]) -> tuple[Any, ...]:
    """Make one row of those of each key: keys, sorted, and columns, each summed up its own way."""
    order = np.argsort(keys)
    ordered = keys[order]
    begins = _begins(ordered)
    if not begins.size:
        return (ordered, *(column[:0] for _, column in columns))
    return (
        ordered[begins],
        *(how.reduceat(column[order], begins) for how, column in columns),
    )


@dataclass(frozen=True)
class Unasked:
    """What nobody was asked about, and may hide a candidate.

    Attributes:
        keys: Keys, sorted.
        first: For each the first branch that was not asked.
        is_outside: For each whether an entry's object lies outside.
        beyond: Dishonest candidates may hide if they do so on more branches than that; None for
            none of them.
        is_any: Whether anything may hide.
        known: Hashes of candidates that are left out, sorted.
    """

    keys: Any
    first: Any
    is_outside: Any
    beyond: int | None = None
    is_any: bool = False
    known: Any = field(default_factory=partial(np.empty, 0, np.int64))

    @classmethod
    def of(cls, rows: pa.Table, *, first: Any, **others: Any) -> Unasked:
        """Make it of keys (columns of `KEYS`, a key may repeat) and their first branches."""
        keys, first, is_outside = _grouped(
            numbers_of(rows["key"]),
            (np.minimum, first),
            (np.maximum, numbers_of(rows["is_outside"])),
        )
        return cls(keys, first, is_outside, **others)


@dataclass(frozen=True)
class Left:
    """Candidates that may hide: hashes of their addresses, sorted, and their bytes."""

    hashes: Any
    size_bytes: int


def hidden_by(candidates: Candidates, unasked: Unasked) -> Left:
    """Find the candidates that may hide where nobody was asked.

    The driver holds 8 bytes for each of them.
    """
    receipts, _ = Exchange(
        _sources_of(candidates), partial(_hidden_by, unasked), _HASHES, _nothing
    ).run(candidates.spark, threads=candidates.threads)
    hashes = np.concatenate([np.empty(0, np.int64), *(one.hashes for one in receipts)])
    return Left(np.sort(hashes), sum(one.size_bytes for one in receipts))


def _hidden_by(unasked: Unasked, bucket: Mapping[str, pa.Table]) -> Sent[Left]:
    hashes, sizes, branches, is_dishonest = (
        numbers_of(bucket["candidates"][name]) for name in CANDIDATES.names
    )
    may_hide = np.full(len(hashes), unasked.is_any)
    if unasked.beyond is not None:
        may_hide |= is_dishonest & (branches > unasked.beyond)
    rows, keys = _candidate_keys(bucket)
    at = place_among(keys, unasked.keys)
    is_met = at < len(unasked.keys)
    rows, at = rows[is_met], at[is_met]
    is_hidden = unasked.is_outside[at] | (branches[rows] > unasked.first[at])
    may_hide[rows[is_hidden]] = True
    may_hide &= ~are_among(hashes, unasked.known)
    return Sent(Left(hashes[may_hide], int(sizes[may_hide].sum())), {})


def _nothing(_number: int, _rows: pa.Table) -> None:
    """Work on no rows: none are sent on."""


def with_contents(candidates: Candidates, objects: pa.Table, store: ObjectStore) -> Candidates:
    """Ask the store about the content of some candidates, one request each.

    Args:
        candidates: The candidates.
        objects: Those to ask about: column address.
        store: Returns the MD5 of a content, or that it is unknown (`ObjectStore.content`).
    """
    addresses = objects["address"].to_pylist()
    tasks = dealt(addresses, -(-len(addresses) // _ASKED_BY_A_TASK))
    found = run_tasks(
        candidates.spark,
        tasks,
        partial(_contents_of, store, candidates.threads),
        is_small=len(addresses) <= _ASKED_HERE,
    )
    contents = pa.concat_tables([_CONTENTS.empty_table(), *found])
    told = contents.filter(pc.is_valid(contents["md5"])).combine_chunks()
    columns = [
        pa.chunked_array([hashed(chunk) for chunk in told[name].chunks], pa.int64())
        for name in ("address", "md5")
    ]
    return replace(candidates, contents=pa.table(columns, schema=_CHECKSUMS))


def _contents_of(
    store: ObjectStore, threads: int, _number: int, addresses: Sequence[str]
) -> pa.Table:
    parts = dealt(addresses, threads)
    batches = interleaved(parts, partial(_contents, store), threads=threads) if parts else ()
    return pa.Table.from_batches(batches, _CONTENTS)


def _contents(store: ObjectStore, addresses: Sequence[str]) -> Iterator[pa.RecordBatch]:
    found = []
    for address in addresses:
        try:
            found.append(store.content(address).checksum)
        except NotFoundError:
            found.append(None)  # gone since; then nothing is lost either way
    yield pa.record_batch(
        [pa.array(addresses, pa.string()), pa.array(found, pa.string())], schema=_CONTENTS
    )
