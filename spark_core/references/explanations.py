"""What an object that may go was: its path, the last commit that had it, and the rule.

The words come from ranges that only expired commits have. They never decide: damage of such a range
costs words, and what is not read is not explained. What the same entries say of sizes and checksums
may spare questions to branches (`suspects`); damage costs these questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.errors import ChainError, CorruptTableError, NotFoundError
from spark_core.plain_text import counted
from spark_core.records import reading, tables, writing
from spark_core.records.figures import CommitsFigures, Groups
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.run import Run
from spark_core.spark.tasks import run_over

# Metaranges and ranges that are read for words, by the setting `explain`.
METARANGES: Mapping[str, int] = {"full": 20_000, "short": 1_000, "off": 0}
RANGES = METARANGES
# Entries of those ranges at most: some 100 bytes each pass through Spark.
ENTRIES_READ = 20_000_000

# An entry that an expired commit has and no retained one. Key: address_hash and path.
ENTRIES = pa.schema(
    [
        schemas.COMMITTED_ADDRESSES.field("address_hash"),
        # Null where only short words are wanted, and so is the next column.
        pa.field("path", pa.binary()),
        # Row of the newest commit in the table of expired commits.
        pa.field("newest", pa.int32()),
        # What it says of its object: evidence of what cannot hide (`suspects`). Of the checksum it
        # is the hash.
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("checksum", pa.int64(), nullable=False),
    ]
)

# Failures to read what only words need.
UNREADABLE = (ChainError, CorruptTableError, NotFoundError)

# Names of groups of objects without a folder and without a branch; one for what is left over.
AT_THE_TOP, NO_BRANCH, OTHERS = "(no folder)", "(no branch)", "(others)"
# Groups of each kind that are told, and those that a task tells the driver of. Rows come to tasks
# by a hash, so a group that is among the first of all is among the first of each.
TOP, NAMES_OF_A_TASK = 10, 200

_LET_GO = pa.schema([schemas.EXPIRED_ADDRESSES.field(name) for name in ("address", "size_bytes")])
_WORDS = pa.schema([ENTRIES.field(name) for name in ("address_hash", "path", "newest")])
_FOUND = ["address", "size_bytes", "path", "newest"]
_OBJECTS_OF_A_TASK = 100_000
# Characters of a commit's id that tell it from the others for a reader.
_ID_SHOWN = 12


def commits_of(run: Run, commits: StoredTable) -> pa.Table | None:
    """Return the expired commits that a mark stored beside its retained ones.

    Args:
        run: The run.
        commits: Table 3.

    Returns:
        Columns of `schemas.EXPIRED_COMMITS`, newest first; None if they are not those that the
        mark stored, as when somebody else made the table again.
    """
    told = CommitsFigures.of(commits.manifest).expired_metaranges
    if told.manifest is None:
        # An earlier lakegc recorded ids, and this one reads none of those metaranges.
        return None if told.ids else schemas.EXPIRED_COMMITS.empty_table()
    try:
        stored = run.load(tables.EXPIRED_COMMITS)
        if stored.manifest.sha256 != told.manifest:
            return None
        return pa.Table.from_batches(stored.batches(), schemas.EXPIRED_COMMITS)
    except UNREADABLE:
        return None


def within_limits(ranges: pa.Table, words: str) -> pa.Table:
    """Return the first ranges of expired commits, as many as are read for words.

    Args:
        ranges: Columns of `RANGES`.
        words: The setting `explain`.
    """
    some = ranges.slice(0, RANGES[words])
    within = np.cumsum(some["count"].to_numpy()) <= ENTRIES_READ
    return some.slice(0, int(within.sum()))


def entries(batch: pa.RecordBatch, *, with_paths: bool) -> pa.RecordBatch:
    """Bring the entries of ranges into the columns of `ENTRIES`.

    Args:
        batch: Columns of `schemas.COMMITTED_ADDRESSES`, and newest.
        with_paths: Whether to fill path and newest.
    """
    words = [batch.column("head_path"), batch.column("newest")]
    if not with_paths:
        words = [pa.nulls(batch.num_rows, column.type) for column in words]
    said = [batch.column("size_bytes"), hashed(batch.column("checksum"))]
    return pa.record_batch([batch.column("address_hash"), *words, *said], schema=ENTRIES)


def newest(some: Sequence[pa.Table]) -> pa.Table:
    """Keep the newest commit of entries that differ in nothing else; columns of `ENTRIES`."""
    keys = ["address_hash", "path", "size_bytes", "checksum"]
    return (
        pa.concat_tables(some)
        .group_by(keys)
        .aggregate([("newest", "min")])
        .rename_columns([*keys, "newest"])
        .select(ENTRIES.names)
        .cast(ENTRIES)
    )


@dataclass(frozen=True)
class Explained:
    """What was explained.

    Attributes:
        figures: Figures for the manifest of the expired addresses.
        named: Explanation, path and id of the last commit of the addresses that were named.
        manifest: Manifest of the explanations, to be enclosed; None if there are none.
    """

    figures: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    manifest: Manifest | None = None


@dataclass
class GroupSums:
    """Objects and bytes by name."""

    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, names: pa.ChunkedArray, sizes: pa.ChunkedArray) -> GroupSums:
        """Sum up the rows of a task."""
        summed = (
            pa.table({"name": names, "size": sizes})
            .group_by("name")
            .aggregate([("size", "sum"), ([], "count_all")])
        )
        found = cls()
        for row in summed.to_pylist():
            found.objects[row["name"]] = row["count_all"]
            found.size_bytes[row["name"]] = row["size_sum"]
        return found.first(NAMES_OF_A_TASK)

    def merge(self, other: GroupSums) -> None:
        """Add the sums of another task."""
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)

    def first(self, count: int) -> GroupSums:
        """Keep the names with most bytes; the others become one."""
        by_size = sorted(
            self.objects, key=lambda name: (name == OTHERS, -self.size_bytes[name], name)
        )
        kept = GroupSums()
        for at, name in enumerate(by_size):
            told = name if at < count else OTHERS
            kept.objects[told] += self.objects[name]
            kept.size_bytes[told] += self.size_bytes[name]
        return kept

    @property
    def groups(self) -> Groups:
        """Name, objects and bytes, in the order of the names."""
        return tuple((name, self.objects[name], self.size_bytes[name]) for name in self.objects)


@dataclass(frozen=True)
class _Told:
    """What a task tells the driver: its receipt, what it was asked for by name, and its sums."""

    receipt: Receipt
    named: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    by_prefix: GroupSums = field(default_factory=GroupSums)
    by_branch: GroupSums = field(default_factory=GroupSums)


def store(
    run: Run,
    expired: Sequence[Part],
    mark: Sequence[StoredTable],
    named: Sequence[str],
    *,
    at_most: int,
) -> Explained:
    """Explain the objects that may go, and store the explanations as a table of their own.

    It costs one pass over the entries that only expired commits have, and none without such.

    Args:
        run: The run.
        expired: Parts of table 5.
        mark: Tables 1 to 4; beside the last one lie the entries of expired commits.
        named: Addresses whose explanation is wanted here.
        at_most: Rows of a table that the driver may hold.
    """
    *_, commits, committed = mark
    entries = committed.manifest.beside
    known = commits_of(run, commits)
    if run.options.explain != "full" or not entries or not expired or known is None:
        return Explained()
    is_small = all(reading.are_small(parts, at_most) for parts in (expired, entries))
    try:
        return _stored(run, expired, mark, known, frozenset(named), is_small=is_small)
    except UNREADABLE:
        # An earlier lakegc read no paths, or somebody took the files away: nothing is explained.
        return Explained()


def _stored(
    run: Run,
    expired: Sequence[Part],
    mark: Sequence[StoredTable],
    commits: pa.Table,
    named: frozenset[str],
    *,
    is_small: bool,
) -> Explained:
    entries = mark[-1].manifest.beside
    began = run.now()
    where = tables.folder(tables.EXPLANATIONS, run.key)
    target = Target(
        run.store,
        where,
        writing.new_attempt(),
        schemas.EXPLANATIONS,
        holds=writing.HELD_BYTES,
    )
    orders = _Orders(target, commits, run.key.instant, named)

    def write() -> list[_Told]:
        if is_small:
            joined = _joined(_held(run, _LET_GO, expired), _held(run, _WORDS, entries))
            return [_explain(orders, 0, iter(joined.to_batches()))]
        addresses = reading.frame_of_parts(run.spark, run.store, _LET_GO, expired)
        known = reading.frame_of_parts(run.spark, run.store, _WORDS, entries)
        tasks = -(-sum(part.rows for part in expired) // _OBJECTS_OF_A_TASK)
        joined = (
            addresses.withColumn("address_hash", sf.xxhash64("address"))
            .join(known, on="address_hash")
            .repartition(tasks, "address_hash")
            .select(*_FOUND)
        )
        return run_over(joined, partial(_explain, orders))

    told = writing.removed_on_failure(target, write)
    stored = run.keep(
        Draft(
            tables.EXPLANATIONS,
            Written(target.attempt, [one.receipt for one in told], is_all=True),
            began,
            parents=[table.manifest for table in mark],
            is_enclosed=True,
        )
    )
    by_prefix, by_branch = GroupSums(), GroupSums()
    for one in told:
        by_prefix.merge(one.by_prefix)
        by_branch.merge(one.by_branch)
    return Explained(
        {
            "explained_objects": stored.manifest.rows,
            "explanations_manifest": stored.manifest.sha256,
            "explained_by_prefix": by_prefix.first(TOP).groups,
            "explained_by_branch": by_branch.first(TOP).groups,
        },
        {address: words for one in told for address, words in one.named.items()},
        stored.manifest,
    )


def _held(run: Run, schema: pa.Schema, parts: Sequence[Part]) -> pa.Table:
    batches = [batch for part in parts for batch in reading.read_part(run.store, schema, part)]
    return pa.Table.from_batches(batches, schema)


def _joined(addresses: pa.Table, entries: pa.Table) -> pa.Table:
    """Join few addresses with few entries: columns address, size_bytes, path and newest."""
    hashes = hashed(addresses.combine_chunks()["address"].combine_chunks())
    return (
        addresses.append_column("address_hash", hashes)
        .join(entries, "address_hash", join_type="inner")
        .select(_FOUND)
    )


@dataclass(frozen=True)
class _Orders:
    """The driver's orders for every task: `commits` has the columns of `EXPIRED_COMMITS`."""

    target: Target
    commits: pa.Table
    instant: datetime
    named: frozenset[str]


def _explain(orders: _Orders, number: int, batches: Iterator[pa.RecordBatch]) -> _Told:
    """Write a row for each address of a task; its rows are all in this task."""
    # A mark that read no paths, under another setting, explains nothing.
    whole = (batch.select(_FOUND).drop_null() for batch in batches)
    rows = [batch for batch in whole if batch.num_rows]
    if not rows:
        return _Told(writing.write_parts(orders.target, number, iter(())))
    found = (
        pa.Table.from_batches(rows)
        .sort_by([("address", "ascending"), ("newest", "ascending"), ("path", "ascending")])
        .group_by("address", use_threads=False)
        .aggregate(
            [(name, "first") for name in ("size_bytes", "path", "newest")]
            + [("path", "count_distinct")]
        )
    )
    of_commit = orders.commits.take(found["newest_first"])
    paths = pa.array([path.decode(errors="replace") for path in found["path_first"].to_pylist()])
    others = pc.subtract(found["path_count_distinct"], 1).cast(pa.int32())
    columns = {
        "address": found["address"],
        "path": paths,
        "other_paths": others,
        "commit_id": of_commit["commit_id"],
        "committed_at": of_commit["created_at"],
        "branch": of_commit["branch"],
        "replaced_at": of_commit["replaced_at"],
        "retention_days": of_commit["retention_days"],
    }
    table = pa.table(columns)
    texts = [in_words(row, orders.instant) for row in table.to_pylist()]
    whole = table.append_column("explanation", pa.array(texts, pa.string()))
    told = zip(texts, whole["path"].to_pylist(), whole["commit_id"].to_pylist(), strict=True)
    explained = dict(zip(whole["address"].to_pylist(), told, strict=True))
    sizes = found["size_bytes_first"]
    return _Told(
        writing.write_parts(orders.target, number, iter(whole.to_batches())),
        {address: explained[address] for address in orders.named & explained.keys()},
        GroupSums.of(folders(whole["path"]), sizes),
        GroupSums.of(pc.fill_null(whole["branch"], NO_BRANCH), sizes),
    )


def folders(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Name the folder at the top of each path.

    Examples:
        >>> folders(pa.chunked_array([["logs/2026/a.csv", "readme", "/b"]])).to_pylist()
        ['logs/', '(no folder)', '/']
    """
    split = pc.extract_regex(paths, r"(?s)^(?P<folder>[^/]*/)")
    return pc.fill_null(pc.struct_field(split, "folder"), AT_THE_TOP)


def in_words(row: Mapping[str, Any], instant: datetime) -> str:
    """Say in one sentence what an object was and which rule let it go.

    Args:
        row: The columns of `schemas.EXPLANATIONS` before the explanation.
        instant: The run's instant, from which ages are counted.

    Examples:
        >>> from datetime import UTC
        >>> row = {"path": "logs/a.csv", "other_paths": 1, "commit_id": "0123456789abcdef",
        ...        "branch": "dev", "retention_days": 7,
        ...        "committed_at": datetime(2026, 11, 1, tzinfo=UTC),
        ...        "replaced_at": datetime(2026, 11, 9, tzinfo=UTC)}
        >>> for part in in_words(row, datetime(2026, 11, 20, tzinfo=UTC)).split(", and "):
        ...     print(part)
        logs/a.csv and 1 other path: replaced or removed on dev 11 days ago
        dev keeps 7 days; last in commit 0123456789ab
    """
    others = row["other_paths"]
    path = row["path"] + (f" and {others} other path{'' if others == 1 else 's'}" if others else "")
    commit = row["commit_id"][:_ID_SHOWN]
    rule = rule_in_words(row, instant)
    if row["branch"] is None:
        return f"{path}: {rule.replace('a commit of', f'commit {commit} of', 1)}"
    return f"{path}: {rule}; last in commit {commit}"


def rule_in_words(row: Mapping[str, Any], instant: datetime) -> str:
    """Say which rule let an object go, without its path and its commit.

    Args:
        row: The columns of `schemas.EXPLANATIONS` before the explanation.
        instant: The run's instant, from which ages are counted.
    """
    keeps = counted(row["retention_days"], "day")
    if row["branch"] is None:
        age = counted((instant - row["committed_at"]).days, "day")
        return (
            f"last in a commit of {age} ago, which no branch leads to; such commits are kept "
            f"{keeps}"
        )
    gone = counted((instant - row["replaced_at"]).days, "day")
    return f"replaced or removed on {row['branch']} {gone} ago, and {row['branch']} keeps {keeps}"
