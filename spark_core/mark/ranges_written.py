"""What tasks write of ranges: rows of table 4, entries of expired commits, files of the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.index import choosing
from spark_core.index import entry_numbers as indexed
from spark_core.index.entry_numbers import Kept
from spark_core.index.saved import holds
from spark_core.records import tables, writing
from spark_core.records.writing import Receipt, Target, Written
from spark_core.references import expired_entries
from spark_core.references.range_entries import read_entries, read_hashes, read_ranges
from spark_core.references.shared_ranges import tasks_of, work_of_ranges
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.tasks import one_task, run_tasks

Done = TypeVar("Done")


@dataclass(frozen=True)
class RangesWritten:
    """What a task wrote: rows of the table, files beside it, and files of the index."""

    table: Receipt
    beside: Receipt
    index: Receipt


@dataclass(frozen=True)
class CommittedTargets:
    """Where the tasks write.

    Attributes:
        table: The table.
        beside: The entries of expired commits.
        index: What the index gets; None if it gets nothing.
    """

    table: Target
    beside: Target
    index: indexed.IndexTargets | None

    @classmethod
    def of(cls, run: Run, index: choosing.Index | None) -> CommittedTargets:
        """Begin an attempt."""
        attempt, before = writing.new_attempt(), None if index is None else index.saved
        where = tables.folder(tables.COMMITTED_ADDRESSES, run.key)
        return cls(
            Target(run.store, where, attempt, schemas.COMMITTED_ADDRESSES, _measure),
            Target(
                run.store,
                where,
                attempt,
                expired_entries.ENTRIES,
                name="_expired",
                holds=writing.HELD_BYTES,
            ),
            indexed.IndexTargets.of(run.store, attempt, holds=holds(before))
            if choosing.saves(run)
            else None,
        )

    @property
    def trees(self) -> Target | None:
        """Where metaranges are written for the index."""
        return None if self.index is None else self.index.trees

    def written(self, some: Sequence[RangesWritten]) -> Written:
        """Put together what tasks wrote into the table, and beside it."""
        return Written(
            self.table.attempt,
            [receipts.table for receipts in some],
            [receipts.beside for receipts in some],
            is_all=True,
        )

    def removed_on_failure(self, write: Callable[[], Done]) -> Done:
        """Call a function that writes; if it fails, delete what it has written."""
        of_index = self.index

        def both() -> Done:
            return writing.removed_on_failure(self.table, write)

        # The three of the index lie in one folder, and are of one attempt.
        return both() if of_index is None else writing.removed_on_failure(of_index.trees, both)


def write_ranges(
    run: Run, reader: TableReader, targets: CommittedTargets, ranges: pa.Table
) -> Sequence[RangesWritten]:
    """Write the addresses of ranges, what explains expired ones, and what the index keeps of both.

    Args:
        run: The run.
        reader: What executors read with.
        targets: Where they write.
        ranges: Columns of `RANGES`.
    """
    rows = work_of_ranges(ranges)
    # The driver reads as many files at once in one task as in each of several.
    tasks = tasks_of(ranges, one_task if placement.driver_works(rows) else run.reading_tasks)
    return run_tasks(lambda: run.spark, tasks, partial(_write, reader, targets), rows=rows)


def _write(
    reader: TableReader, targets: CommittedTargets, number: int, ranges: pa.Table
) -> RangesWritten:
    """Read a task's ranges: rows go into the table, entries of expired commits beside it."""
    kept = None if targets.index is None else Kept()
    retained = writing.write_read(
        targets.table,
        partial(read_ranges, reader, kept=kept),
        number,
        ranges.filter(ranges["is_retained"]),
    )
    rest = ranges.filter(pc.invert(ranges["is_retained"]))
    read = read_entries if reader.with_paths else read_hashes
    unneeded = writing.write_read(targets.beside, partial(read, reader, kept=kept), number, rest)
    figures = Counter(retained.figures) + Counter(unneeded.figures)
    in_index = Receipt((), {})
    if targets.index is not None and kept is not None and kept.ranges:
        in_index = indexed.write(targets.index, number, kept)
    return RangesWritten(replace(retained, figures=figures), unneeded, in_index)


def _measure(batch: pa.RecordBatch) -> Mapping[str, int]:
    addresses = batch.column("address")
    in_data = pc.starts_with(addresses, "data/")
    outside = pc.and_(pc.is_valid(batch.column("head_path")), pc.invert(in_data))
    return {
        "addresses": batch.num_rows,
        "in_data": pc.sum(in_data).as_py() or 0,
        "heads_outside": pc.sum(outside).as_py() or 0,
    }
