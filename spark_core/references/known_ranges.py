"""The ranges of a mark that were taken from the index: what they refer to, and where it says so.

A mark that takes a range from the index does not read it. Its entries in numbers decide and
compare. Where a path or an address is wanted, the few ranges that have it are read after all: they
are in the store as long as a commit has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.index import entry_numbers as indexed
from spark_core.index.entry_numbers import Spans
from spark_core.records import reading, tables
from spark_core.records.figures import CommittedFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.references import expired_entries
from spark_core.references.choosing_entries import Chooses, with_hashes
from spark_core.references.commits import tables_prefix
from spark_core.references.expired_entries import SAID
from spark_core.references.range_entries import read_entries, read_ranges
from spark_core.references.shared_ranges import RANGES, tasks_of, work_of_ranges
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, JoinedSource, Source, numbers_of
from spark_core.spark.tasks import ReadingTasks, run_tasks
from spark_core.storage import ObjectStore

HEAD, RETAINED, EXPIRED = 1, 2, 3
"""What the commits of a range are: a branch head, other retained ones, or expired ones alone."""

# An entry of a range, in numbers, and what the commits of the range are.
ENTRIES = pa.schema([*schemas.INDEXED_ENTRIES, pa.field("kind", pa.int8(), nullable=False)])
_HASHES = pa.schema([schemas.INDEXED_ENTRIES.field("address_hash")])

_Task: TypeAlias = "tuple[Part, Spans]"


@dataclass(frozen=True)
class TakenRanges:
    """The ranges that a mark took from the index.

    Attributes:
        run: The run of the mark.
        ranges: Columns of `schemas.TAKEN_RANGES`.
        files: The files of their entries, by key.
    """

    run: Run
    ranges: pa.Table
    files: dict[str, Part]

    @classmethod
    def of(cls, run: Run, committed: StoredTable) -> TakenRanges:
        """Read which ranges a mark took; none if its table 4 names none.

        Args:
            run: The run.
            committed: Its table 4.

        Raises:
            CorruptTableError: If what was taken is not what table 4 names.
        """
        named = CommittedFigures.of(committed.manifest).taken_manifest
        if named is None:
            return cls(run, schemas.TAKEN_RANGES.empty_table(), {})
        stored = reading.load_table(run.store, tables.TAKEN_RANGES, run.key, around=committed)
        ranges = pa.Table.from_batches(stored.batches(), schemas.TAKEN_RANGES)
        return cls(run, ranges, {part.key: part for part in stored.manifest.beside})

    @property
    def is_empty(self) -> bool:
        """Whether none was taken."""
        return not self.ranges.num_rows

    @cached_property
    def kinds(self) -> Any:
        """What the commits of each are: `HEAD`, `RETAINED` or `EXPIRED`."""
        is_head, is_retained = (
            numbers_of(self.ranges[name]) for name in ("is_head", "is_retained")
        )
        return np.where(is_head, HEAD, np.where(is_retained, RETAINED, EXPIRED)).astype(np.int8)

    @property
    def head_entries(self) -> int:
        """Entries that heads have in them."""
        return int(self.ranges["count"].to_numpy()[self.kinds == HEAD].sum())

    def entries(self, *kinds: int, compares: bool = False) -> Source[_Task]:
        """Return the entries of ranges of some kinds: columns of `ENTRIES`.

        Args:
            kinds: The kinds.
            compares: Whether each range is compared with its digest. What decides compares them,
                and the other steps of a mark read the same bytes.
        """
        tasks = self._tasks(kinds, compares=compares)
        rows = sum(spans.rows for _, spans in tasks)
        return Source(ENTRIES, tasks, rows, partial(_read, self.run.store))

    def _tasks(self, kinds: Sequence[int], *, compares: bool) -> list[_Task]:
        is_wanted = np.isin(self.kinds, kinds) & (self.ranges["count"].to_numpy() > 0)
        files = self.ranges["file"].combine_chunks().dictionary_encode()
        numbers = files.indices.to_numpy()
        tasks = []
        for number, name in enumerate(files.dictionary.to_pylist()):
            at = np.flatnonzero(is_wanted & (numbers == number))
            if len(at):
                spans = Spans.of(self.ranges.take(pa.array(at)), self.kinds[at])
                told = spans if compares else replace(spans, sums=None)
                tasks.append((self.files[name], told))
        return tasks

    def having(self, chooses: Chooses, *kinds: int) -> pa.Table:
        """Return the ranges of some kinds that have any of the chosen entries.

        It costs one pass over the entries in numbers.

        Args:
            chooses: Chooses entries; travels to the executors.
            kinds: The kinds.

        Returns:
            Columns of `RANGES`.
        """
        tasks = self._tasks(kinds, compares=False)
        rows = sum(spans.rows for _, spans in tasks)
        work = partial(_having, self.run.store, chooses)
        found = run_tasks(lambda: self.run.spark, tasks, work, rows=rows)
        ids = pa.array([name for some in found for name in some], pa.string())
        return self._named(pc.is_in(self.ranges["range_id"], value_set=ids))

    def of_heads(self, *, outside: bool = False) -> pa.Table:
        """Return the ranges of heads, or those that have entries not below `data/`: `RANGES`."""
        is_head = self.ranges["is_head"]
        has_outside = pc.greater(self.ranges["outside"], 0)
        return self._named(pc.and_(is_head, has_outside) if outside else is_head)

    def _named(self, is_named: pa.ChunkedArray) -> pa.Table:
        chosen = self.ranges.filter(is_named)
        times = pa.repeat(pa.scalar(0, pa.int64()), chosen.num_rows)
        nobody = pa.nulls(chosen.num_rows, pa.string())
        whole = chosen.append_column("times", times).append_column("why", nobody)
        return whole.select(RANGES.names).cast(RANGES)


def _read(store: ObjectStore, task: _Task) -> Batches:
    part, spans = task
    for entries, owners in indexed.read_ranges(store, part, spans):
        yield pa.record_batch([*entries.columns, spans.kinds[owners]], schema=ENTRIES)


def _having(store: ObjectStore, chooses: Chooses, _number: int, task: _Task) -> list[str]:
    part, spans = task
    found: set[int] = set()
    for entries, owners in indexed.read_ranges(store, part, spans):
        rows = pa.record_batch([*entries.columns, spans.kinds[owners]], schema=ENTRIES)
        found.update(np.unique(owners[chooses(rows)]).tolist())
    return [spans.range_ids[number] for number in sorted(found)]


def rows_of(reader: TableReader, ranges: pa.Table, reading_tasks: ReadingTasks) -> AnySource:
    """Return the entries of ranges, which are read from the store whenever somebody reads them.

    Args:
        reader: What executors read with.
        ranges: Columns of `RANGES`; what they say of heads holds.
        reading_tasks: How many tasks are made of so many; `Run.reading_tasks`.

    Returns:
        Columns of `schemas.COMMITTED_ADDRESSES`.
    """
    tasks = tasks_of(ranges, reading_tasks)
    read = partial(_read_rows, reader)
    return Source(schemas.COMMITTED_ADDRESSES, tasks, work_of_ranges(ranges), read)


def _read_rows(reader: TableReader, ranges: pa.Table) -> Batches:
    yield from read_ranges(reader, ranges, Counter())


def words_of(reader: TableReader, ranges: pa.Table, reading_tasks: ReadingTasks) -> AnySource:
    """Do so for ranges of expired commits: columns of `expired_entries.ENTRIES`."""
    tasks = tasks_of(ranges, reading_tasks)
    read = partial(_read_words, reader)
    return Source(expired_entries.ENTRIES, tasks, work_of_ranges(ranges), read)


def _read_words(reader: TableReader, ranges: pa.Table) -> Batches:
    yield from read_entries(reader, ranges, Counter())


def retained_hashes(run: Run, committed: StoredTable) -> AnySource:
    """Return the hashes of what retained commits reach, read by the mark or taken: `address_hash`.

    Args:
        run: The run.
        committed: Its table 4.
    """
    own = committed.source(["address_hash"])
    taken = TakenRanges.of(run, committed)
    if taken.is_empty:
        return own
    return JoinedSource(
        [own, taken.entries(HEAD, RETAINED, compares=True).through(_HASHES, _only_hashes)]
    )


def _only_hashes(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(["address_hash"])


def said_of(run: Run, committed: StoredTable) -> AnySource | None:
    """Return what entries of expired commits say of their objects: columns of `SAID`.

    Every exchange reads them anew, and all must read the same. So what cannot be read is an error.

    Args:
        run: The run.
        committed: Table 4, beside which those entries lie that were read.

    Returns:
        The entries; None for none.
    """
    parts = committed.manifest.beside
    own = [reading.source_of_parts(run.store, SAID, parts)] if parts else []
    taken = TakenRanges.of(run, committed).entries(EXPIRED)
    if taken.rows:
        own.append(taken.through(SAID, _only_said))
    return JoinedSource(own) if own else None


def _only_said(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(SAID.names)


def rows_with(run: Run, committed: StoredTable, hashes: Any) -> AnySource:
    """Return the entries of objects with some hashes that retained commits have.

    The ranges that were taken and have any of them are read from the store.

    Args:
        run: The run.
        committed: Its table 4.
        hashes: Hashes of addresses, sorted and once.

    Returns:
        Columns of `schemas.COMMITTED_ADDRESSES`.
    """
    chosen = partial(_rows_with, with_hashes(hashes))
    own = committed.source().through(schemas.COMMITTED_ADDRESSES, chosen)
    ranges = TakenRanges.of(run, committed).having(with_hashes(hashes), HEAD, RETAINED)
    if not ranges.num_rows:
        return own
    read = rows_of(
        TableReader.of(run, tables_prefix(run), remembers=True),
        ranges,
        run.reading_tasks,
    )
    return JoinedSource([own, read.through(schemas.COMMITTED_ADDRESSES, chosen)])


def _rows_with(chooses: Chooses, batches: Batches) -> Batches:
    for batch in batches:
        yield batch.filter(pa.array(chooses(batch)))
