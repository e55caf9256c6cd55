"""The ranges that commits share: metaranges read once each, and ranges dealt out to tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler
from spark_core.addresses.namespace import Namespace
from spark_core.errors import LakegcError
from spark_core.index.known import tree
from spark_core.records import writing
from spark_core.records.writing import Receipt, Target
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.tasks import counting, interleaved, run_tasks
from spark_core.storage import ObjectStore

# Columns of ranges that no task needs.
_OF_THE_DRIVER = {"times"}

# A range, and what its readers need to know of the metaranges that have it.
RANGES = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("is_head", pa.bool_(), nullable=False),
        pa.field("is_retained", pa.bool_(), nullable=False),
        # Row of the newest expired commit that has it; null where a retained commit has it, too.
        pa.field("newest", pa.int32()),
        # One of the commits that have it, in words; null where nobody asks.
        pa.field("why", pa.string()),
        # Number of metaranges that were read and have it.
        pa.field("times", pa.int64(), nullable=False),
    ]
)


# Metaranges, ranges and entries that are worth a task of their own, so that take as long.
_METARANGES_OF_A_TASK = 32
_RANGES_OF_A_TASK = 256
_ENTRIES_OF_A_TASK = 200_000
# Rows that a task holds before it makes them distinct.
ROWS_HELD = 500_000


@dataclass(frozen=True)
class Metarange:
    """A metarange to read, and its commits.

    The fields say whether a branch points at it and whether a retained commit has it, and give one
    commit in words, or the row of its newest expired commit.
    """

    id: str
    is_head: bool
    is_retained: bool
    why: str | None = None
    newest: int | None = None


@dataclass(frozen=True)
class TableReader:
    """What an executor needs to read the server's tables.

    Attributes:
        store: Rooted at the namespace.
        namespace: Resolves addresses.
        prefix: Where the server keeps its tables.
        threads: Files that are read at once.
        with_paths: Whether paths of expired commits are wanted.
        remembers: Whether small tables are remembered, as they are few and read several times.
    """

    store: ObjectStore
    namespace: Namespace
    prefix: str
    threads: int
    with_paths: bool
    remembers: bool = False

    @classmethod
    def of(cls, run: Run, prefix: str, *, remembers: bool = False) -> TableReader:
        """Make the part of a run that travels to the executors."""
        options = run.options
        return cls(
            run.store,
            run.namespace,
            prefix,
            options.read_threads,
            options.explain == "full",
            remembers,
        )

    def name(self, table_id: str) -> str:
        """Return the key of a content-addressed table."""
        return f"{self.prefix}/{table_id}"

    def read(self, table_id: str) -> bytes:
        """Read a table file whole."""
        name = self.name(table_id)
        if self.remembers:
            # Its name is a hash of its content, and whoever reads it compares that.
            return self.store.read_unchanging(name)
        known = self.store.small_files.get(name)
        return self.store.read(name) if known is None else known


def entries_of_heads(reader: TableReader, commits: pa.Table) -> Mapping[str, int]:
    """Count the entries of each branch head, by commit id; each metarange is read once.

    Args:
        reader: The store, and where its tables lie.
        commits: Columns of `schemas.RETAINED_COMMITS`.
    """
    heads = commits.filter(commits["is_head"])

    def read(id_: str) -> Iterator[pa.RecordBatch]:
        found = graveler.read_metarange(reader.read(id_), name=reader.name(id_), expected_id=id_)
        entries = pc.sum(found.column("count")).cast(pa.int64())
        yield pa.record_batch([[id_], pa.array([entries.as_py() or 0])], ["id", "entries"])

    ids = sorted(set(heads["metarange_id"].to_pylist()) - {""})
    counts = {
        row["id"]: row["entries"]
        for batch in interleaved(ids, read, threads=reader.threads)
        for row in batch.to_pylist()
    }
    pairs = zip(heads["commit_id"].to_pylist(), heads["metarange_id"].to_pylist(), strict=True)
    return {commit_id: counts.get(metarange, 0) for commit_id, metarange in pairs}


def distinct_ranges(
    run: Run, reader: TableReader, metaranges: Sequence[Metarange]
) -> tuple[pa.Table, Counter[str]]:
    """Read metaranges, and return each of their ranges once.

    Args:
        run: The run.
        reader: What executors read with.
        metaranges: Metaranges in an order that puts those beside each other that share most ranges.

    Returns:
        Columns of `RANGES`, key range_id and count, by min_key; and figures of what was read.

    Raises:
        CorruptTableError: If a metarange of a retained commit cannot be read whole.
    """
    found, receipts = read_metaranges(run, reader, metaranges)
    return found, writing.summed(receipts)[1]


def read_metaranges(
    run: Run,
    reader: TableReader,
    metaranges: Sequence[Metarange],
    *,
    trees: Target | None = None,
) -> tuple[pa.Table, list[Receipt]]:
    """Do what `distinct_ranges` does, and write the metaranges for the index.

    Args:
        run: The run.
        reader: As for `distinct_ranges`, like the following.
        metaranges: The metaranges.
        trees: Where their ranges are written: columns of `schemas.INDEXED_TREES`; None for nowhere.

    Returns:
        The ranges; and what each task wrote and counted.
    """
    count, rows = len(metaranges), work_of_metaranges(len(metaranges))
    wanted = min(-(-count // _METARANGES_OF_A_TASK), run.options.range_partitions)
    each = max(1, count if placement.driver_works(rows) else -(-count // max(1, wanted)))
    tasks = [tuple(metaranges[begin : begin + each]) for begin in range(0, count, each)]
    work = partial(_read_metaranges, reader, trees)
    told = run_tasks(lambda: run.spark, tasks, work, rows=rows)
    return in_order(merged([table for table, _ in told])), [receipt for _, receipt in told]


def in_order(ranges: pa.Table) -> pa.Table:
    """Sort ranges, columns of `RANGES`: versions of one stretch of paths become neighbours."""
    return ranges.sort_by([("min_key", "ascending"), ("range_id", "ascending")])


def merged(some: Sequence[pa.Table]) -> pa.Table:
    """Merge the rows of each range; columns of `RANGES`."""
    found = (
        pa.concat_tables([RANGES.empty_table(), *some])
        .group_by(["range_id", "count"])
        .aggregate(
            [
                ("min_key", "min"),
                ("is_head", "max"),
                ("is_retained", "max"),
                ("newest", "min"),
                ("why", "min"),
                ("times", "sum"),
            ]
        )
    )
    return (
        found.rename_columns(
            {
                "min_key_min": "min_key",
                "is_head_max": "is_head",
                "is_retained_max": "is_retained",
                "newest_min": "newest",
                "why_min": "why",
                "times_sum": "times",
            }
        )
        .select(RANGES.names)
        .cast(RANGES)
    )


def _read_metaranges(
    reader: TableReader, trees: Target | None, number: int, metaranges: Sequence[Metarange]
) -> tuple[pa.Table, Receipt]:
    # Lists, because several threads add to them at once.
    seen: list[tuple[Metarange, int]] = []
    kept: list[pa.RecordBatch] = []
    unread: list[str] = []

    def read(metarange: Metarange) -> Iterator[pa.RecordBatch]:
        try:
            found = graveler.read_metarange(
                reader.read(metarange.id), name=reader.name(metarange.id), expected_id=metarange.id
            )
        except LakegcError:
            if metarange.is_retained:
                raise
            # Words and evidence come of an expired commit, and the report says when something
            # could not be read.
            unread.append(metarange.id)
            return
        seen.append((metarange, found.num_rows))
        if trees is not None:
            kept.append(tree(metarange.id, found.column("range_id")))
        rest = [
            pa.repeat(pa.scalar(value, RANGES.field(name).type), found.num_rows)
            for name, value in (
                ("is_head", metarange.is_head),
                ("is_retained", metarange.is_retained),
                ("newest", metarange.newest),
                ("why", metarange.why),
                ("times", 1),
            )
        ]
        columns = [found.column(name) for name in ("range_id", "count", "min_key")]
        yield pa.record_batch([*columns, *rest], schema=RANGES)

    figures = Counter[str]()
    ranges, waiting, rows = RANGES.empty_table(), list[pa.RecordBatch](), 0
    with counting(figures, reader.store.requests):
        for batch in interleaved(metaranges, read, threads=reader.threads):
            waiting.append(batch)
            rows += batch.num_rows
            if rows > ROWS_HELD:
                ranges, waiting, rows = merged([ranges, pa.Table.from_batches(waiting)]), [], 0
    ranges = merged([ranges, pa.Table.from_batches(waiting, RANGES)])
    retained = [(metarange, count) for metarange, count in seen if metarange.is_retained]
    figures.update(
        metaranges=len(seen),
        metarange_rows=sum(count for _, count in seen),
        unread=len(unread),
        unread_metaranges=len(unread),
        retained_metaranges=len(retained),
        head_metaranges=sum(metarange.is_head for metarange, _ in retained),
        empty_metaranges=sum(not count for _, count in retained),
    )
    written = Receipt((), {})
    if trees is not None and kept:
        # One batch, so that it is written as one file.
        written = writing.write_parts(trees, number, iter((pa.concat_batches(kept),)))
    return ranges, replace(written, figures=dict(figures))


def work_of_metaranges(count: int) -> int:
    """Return how many entries take as long to read as so many metaranges."""
    return count * _ENTRIES_OF_A_TASK // _METARANGES_OF_A_TASK


def work_of_ranges(ranges: pa.Table) -> int:
    """Return how many entries of large ranges take as long to read as ranges, which may be small.

    Args:
        ranges: A column count.
    """
    return int(_tasks_worth(ranges).sum() * _ENTRIES_OF_A_TASK)


def _tasks_worth(ranges: pa.Table) -> Any:
    """Return the part of a task that each range is worth."""
    return np.maximum(ranges["count"].to_numpy() / _ENTRIES_OF_A_TASK, 1 / _RANGES_OF_A_TASK)


def tasks_of(ranges: pa.Table, at_most: int) -> list[pa.Table]:
    """Deal ranges out to tasks by their files and entries.

    Versions of one stretch of paths have most addresses in common. They go to one task, where each
    address counts once.

    Args:
        ranges: Columns range_id, count, min_key and whatever the tasks need; see `RANGES`.
        at_most: Largest number of tasks.
    """
    ordered = (
        ranges.sort_by("min_key")
        .select([name for name in ranges.column_names if name not in _OF_THE_DRIVER])
        .combine_chunks()
    )
    weights = _tasks_worth(ordered)
    if not len(weights):
        return []
    count = min(int(np.ceil(weights.sum())), at_most)
    ends = np.searchsorted(
        np.cumsum(weights), np.linspace(0, weights.sum(), count + 1)[1:-1], side="right"
    )
    bounds = sorted({0, *ends.tolist(), len(weights)})
    # The rows are copied, because a slice would travel with the whole table.
    return [ordered.take(pa.array(range(begin, end))) for begin, end in pairwise(bounds)]
