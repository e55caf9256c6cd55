"""What an object that may go was: its path, the last commit that had it, and the rule.

The words come from ranges that only expired commits have (`references.expired_entries`). They never
decide: damage of such a range costs words, and what is not read is not explained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed, sorted_once
from spark_core.errors import TABLES_UNREADABLE
from spark_core.fates import WhyMayGo
from spark_core.fates.fate import explanation_in_words
from spark_core.mark.group_sums import NO_BRANCH, TOP, GroupSums, folders
from spark_core.records import reading, tables, writing
from spark_core.records.figures import AmountFigures
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.references.choosing_entries import with_hashes
from spark_core.references.commits import tables_prefix
from spark_core.references.expired_entries import ENTRIES, commits_of
from spark_core.references.known_ranges import EXPIRED, TakenRanges, words_of
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, Exchange, JoinedSource, Sent, numbers_of

# An object that may go.
_LET_GO = pa.schema([schemas.EXPIRED_ADDRESSES.field(name) for name in ("address", "size_bytes")])
_WITH_REASON = pa.schema([*_LET_GO, schemas.EXPIRED_ADDRESSES.field("reason")])
# Whether any commit is known to have had the object.
_HASHED = pa.schema(
    [
        ENTRIES.field("address_hash"),
        *_LET_GO,
        pa.field("was_committed", pa.bool_(), nullable=False),
    ]
)
_WORDS = pa.schema([ENTRIES.field(name) for name in ("address_hash", "path", "newest")])
# An object, and the first of the paths under which its commit has it that was kept last.
_FOUND = pa.schema(
    [
        *_LET_GO,
        pa.field("path", pa.binary(), nullable=False),
        pa.field("newest", pa.int32(), nullable=False),
        pa.field("other_paths", pa.int32(), nullable=False),
    ]
)
_OBJECTS_OF_A_TASK = 100_000


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


@dataclass(frozen=True)
class _ToldByTask:
    """What a task tells the driver: its receipt, what it was asked for by name, and its sums."""

    receipt: Receipt
    named: Mapping[str, tuple[str, str, str]]
    by_prefix: GroupSums
    by_branch: GroupSums


def store(
    run: Run,
    expired: Sequence[Part],
    mark: Sequence[StoredTable],
    named: Sequence[str],
) -> Explained:
    """Explain the objects that may go, and store the explanations as a table of their own.

    It costs one exchange of these objects and the entries that only expired commits have, and
    nothing without such.

    Args:
        run: The run.
        expired: Parts of table 5.
        mark: Tables 1 to 4; beside the last one lie the entries of expired commits.
        named: Addresses whose explanation is wanted here.
    """
    *_, commits, committed = mark
    known = commits_of(run, commits)
    if run.options.explain != "full" or not expired or known is None:
        return Explained()
    try:
        entries = _entries(run, committed, expired)
        if entries is None:
            return Explained()
        target = Target(
            run.store,
            tables.folder(tables.EXPLANATIONS, run.key),
            writing.new_attempt(),
            schemas.EXPLANATIONS,
            holds=writing.HELD_BYTES,
        )
        orders = _ExplanationOrders(target, known, run.key.instant, frozenset(named))
        return _stored(run, expired, mark, entries, orders)
    except TABLES_UNREADABLE:
        # Somebody took the files away: nothing is explained.
        return Explained()


def _stored(
    run: Run,
    expired: Sequence[Part],
    mark: Sequence[StoredTable],
    entries: AnySource,
    orders: _ExplanationOrders,
) -> Explained:
    began, target = run.now(), orders.target
    listed = reading.source_of_parts(run.store, _WITH_REASON, expired)
    objects = listed.through(_HASHED, _hashed)
    meeting = Exchange(
        {"objects": objects, "entries": entries},
        partial(_met, -(-objects.rows // _OBJECTS_OF_A_TASK)),
        _FOUND,
        partial(_explain, orders),
    )
    unexplained, told = writing.removed_on_failure(
        target, lambda: meeting.run(lambda: run.spark, threads=run.options.read_threads)
    )
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
            "unexplained": AmountFigures(
                objects=sum(objects for objects, _ in unexplained),
                bytes=sum(size_bytes for _, size_bytes in unexplained),
            ),
        },
        {address: words for one in told for address, words in one.named.items()},
        stored.manifest,
    )


def _entries(run: Run, committed: StoredTable, expired: Sequence[Part]) -> AnySource | None:
    """Return the entries that only expired commits have, with their paths: columns of `_WORDS`.

    Those that the mark read lie beside its table 4. Of the ranges that it took from the index,
    those are read that have an object which may go.
    """
    parts = committed.manifest.beside
    found: list[AnySource] = [reading.source_of_parts(run.store, _WORDS, parts)] if parts else []
    taken = TakenRanges.of(run, committed)
    if EXPIRED in taken.kinds:
        ranges = taken.having(with_hashes(_hashes_of(run, expired)), EXPIRED)
        reader = TableReader.of(run, tables_prefix(run), remembers=True)
        read = words_of(reader, ranges, run.reading_tasks)
        found.append(read.through(_WORDS, _only_words))
    return JoinedSource(found) if found else None


def _hashes_of(run: Run, expired: Sequence[Part]) -> Any:
    """Return the hashes of the objects that may go, sorted and once: 8 bytes for each."""
    objects = reading.source_of_parts(run.store, _LET_GO, expired)
    found = objects.each(lambda: run.spark, _hashes_in)
    return sorted_once(np.concatenate([np.empty(0, np.int64), *found]))


def _hashes_in(batches: Batches) -> Any:
    hashes = [hashed(batch.column("address")).to_numpy() for batch in batches]
    return np.concatenate([np.empty(0, np.int64), *hashes])


def _only_words(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(_WORDS.names)


def _hashed(batches: Batches) -> Batches:
    for batch in batches:
        addresses = batch.column("address")
        was_committed = pc.not_equal(batch.column("reason"), WhyMayGo.NEVER_COMMITTED.value)
        columns = [hashed(addresses), addresses, batch.column("size_bytes"), was_committed]
        yield pa.record_batch(columns, schema=_HASHED)


def _met(tasks: int, bucket: Mapping[str, pa.Table]) -> Sent[tuple[int, int]]:
    """Find the commit of each object that was kept last.

    Returns:
        Objects and bytes of those that a commit had, and that no entry explains; and columns of
        `_FOUND`, shared out among tasks.
    """
    # A mark that read no paths, under another setting, explains nothing.
    known = bucket["entries"].drop_null()
    met = bucket["objects"].join(known, "address_hash", join_type="inner")
    others = bucket["objects"].join(known, "address_hash", join_type="left anti")
    unexplained = others.filter(others["was_committed"])["size_bytes"]
    found = (
        met.sort_by([("address", "ascending"), ("newest", "ascending"), ("path", "ascending")])
        .group_by(["address_hash", "address"], use_threads=False)
        .aggregate(
            [(name, "first") for name in ("size_bytes", "path", "newest")]
            + [("path", "count_distinct")]
        )
    )
    more_paths = pc.subtract(found["path_count_distinct"], 1)
    columns = [found["address"], *(found[f"{name}_first"] for name in _FOUND.names[1:4])]
    columns.append(more_paths)
    rows = pa.table(columns, names=_FOUND.names).cast(_FOUND)
    number = numbers_of(found["address_hash"]).view(np.uint64) % np.uint64(tasks)
    sent = {int(each): rows.filter(pa.array(number == each)) for each in set(number)}
    return Sent((len(unexplained), pc.sum(unexplained).as_py() or 0), sent)


@dataclass(frozen=True)
class _ExplanationOrders:
    """The driver's orders for every task.

    Attributes:
        target: Where the rows are written.
        commits: Columns of `EXPIRED_COMMITS`.
        instant: The run's instant, from which ages are counted.
        named: Addresses whose explanation is wanted by the driver.
    """

    target: Target
    commits: pa.Table
    instant: datetime
    named: frozenset[str]


def _explain(orders: _ExplanationOrders, number: int, found: pa.Table) -> _ToldByTask:
    """Write a row for each object of a task."""
    found = found.sort_by("address")
    of_commit = orders.commits.take(found["newest"])
    paths = pa.array([path.decode(errors="replace") for path in found["path"].to_pylist()])
    table = pa.table(
        {
            "address": found["address"],
            "path": paths,
            "other_paths": found["other_paths"],
            "commit_id": of_commit["commit_id"],
            "committed_at": of_commit["created_at"],
            "branch": of_commit["branch"],
            "replaced_at": of_commit["replaced_at"],
            "retention_days": of_commit["retention_days"],
        }
    )
    texts = [explanation_in_words(row, orders.instant) for row in table.to_pylist()]
    whole = table.append_column("explanation", pa.array(texts, pa.string()))
    told = zip(texts, whole["path"].to_pylist(), whole["commit_id"].to_pylist(), strict=True)
    explained = dict(zip(whole["address"].to_pylist(), told, strict=True))
    sizes = found["size_bytes"]
    return _ToldByTask(
        writing.write_parts(orders.target, number, iter(whole.to_batches())),
        {address: explained[address] for address in orders.named & explained.keys()},
        GroupSums.of(folders(whole["path"]), sizes),
        GroupSums.of(pc.fill_null(whole["branch"], NO_BRANCH), sizes),
    )
