"""Metaranges, read once each: which ranges they have, and how many entries heads have in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler
from spark_core.errors import LakegcError
from spark_core.index.indexed_ranges import tree
from spark_core.records import writing
from spark_core.records.writing import Receipt, Target
from spark_core.references.shared_ranges import (
    ENTRIES_OF_A_TASK,
    RANGES,
    ROWS_HELD,
    in_order,
    merged,
)
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.tasks import counting, interleaved, run_tasks

# Metaranges that are worth a task of their own.
_METARANGES_OF_A_TASK = 32


@dataclass(frozen=True)
class Metarange:
    """A metarange to read, and its commits.

    The fields say whether a branch points at it and whether a retained commit has it, and give one
    commit in words, or the row of its expired commit that was kept last.
    """

    id: str
    is_head: bool
    is_retained: bool
    why: str | None = None
    newest: int | None = None


def work_of_metaranges(count: int) -> int:
    """Return how many entries take as long to read as so many metaranges."""
    return count * ENTRIES_OF_A_TASK // _METARANGES_OF_A_TASK


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
    wanted = run.reading_tasks(-(-count // _METARANGES_OF_A_TASK))
    each = max(1, count if placement.driver_works(rows) else -(-count // max(1, wanted)))
    tasks = [tuple(metaranges[begin : begin + each]) for begin in range(0, count, each)]
    work = partial(_read_metaranges, reader, trees)
    told = run_tasks(lambda: run.spark, tasks, work, rows=rows)
    return in_order(merged([table for table, _ in told])), [receipt for _, receipt in told]


@dataclass
class _MetarangesRead:
    """What a task read of metaranges; several threads add to it at once.

    Attributes:
        seen: Those that were read, and the number of ranges of each.
        unread: Ids of those of expired commits that could not be read.
        trees: Their ranges for the index: columns of `schemas.INDEXED_TREES`.
    """

    seen: list[tuple[Metarange, int]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    trees: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def figures(self) -> Mapping[str, int]:
        """Counts of them."""
        retained = [(metarange, count) for metarange, count in self.seen if metarange.is_retained]
        return {
            "metaranges": len(self.seen),
            "metarange_rows": sum(count for _, count in self.seen),
            "unread": len(self.unread),
            "unread_metaranges": len(self.unread),
            "retained_metaranges": len(retained),
            "head_metaranges": sum(metarange.is_head for metarange, _ in retained),
            "empty_metaranges": sum(not count for _, count in retained),
        }


def _read_metaranges(
    reader: TableReader, trees: Target | None, number: int, metaranges: Sequence[Metarange]
) -> tuple[pa.Table, Receipt]:
    read, figures = _MetarangesRead(), Counter[str]()
    ranges_of = partial(_ranges_of, reader, read, trees is not None)
    with counting(figures, reader.store.requests):
        ranges = _merged_by_and_by(interleaved(metaranges, ranges_of, threads=reader.threads))
    figures.update(read.figures)
    written = Receipt((), {})
    if trees is not None and read.trees:
        # One batch, so that it is written as one file.
        written = writing.write_parts(trees, number, iter((pa.concat_batches(read.trees),)))
    return ranges, replace(written, figures=dict(figures))


def _ranges_of(
    reader: TableReader,
    read: _MetarangesRead,
    keeps_trees: bool,  # noqa: FBT001 - of a partial function
    metarange: Metarange,
) -> Iterator[pa.RecordBatch]:
    """Read the ranges of a metarange: columns of `RANGES`."""
    try:
        found = graveler.read_metarange(
            reader.read(metarange.id), name=reader.name(metarange.id), expected_id=metarange.id
        )
    except LakegcError:
        if metarange.is_retained:
            raise
        # Words and evidence come of an expired commit, and the report says when something
        # could not be read.
        read.unread.append(metarange.id)
        return
    read.seen.append((metarange, found.num_rows))
    if keeps_trees:
        read.trees.append(tree(metarange.id, found.column("range_id")))
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


def _merged_by_and_by(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Merge the rows of each range, and hold few that are not merged yet."""
    ranges, waiting, rows = RANGES.empty_table(), list[pa.RecordBatch](), 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows > ROWS_HELD:
            ranges, waiting, rows = merged([ranges, pa.Table.from_batches(waiting)]), [], 0
    return merged([ranges, pa.Table.from_batches(waiting, RANGES)])
