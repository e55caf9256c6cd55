"""Read from lakeFS's tables what every commit did to ranges, and every entry of every range.

The tables of all commits are read, retained or not: an object's name is the commit that introduced
it. Commits share ranges, so each range is read once, and the cost follows the distinct ranges. What
a metarange has that no parent's has was introduced there, as far as ranges tell: the entries of a
range may have been in other ranges before, and `due` puts together what all ranges of an entry
tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler
from spark_core.addresses.collectable import may_be_own
from spark_core.errors import CorruptTableError, NotFoundError
from spark_core.references.kept_objects import alive_hashes
from spark_core.references.policies.due import AT_HEAD, COMPACTED, KEPT, RETAINED, Changes
from spark_core.references.policies.names import Graph
from spark_core.references.policies.sightings import Gone
from spark_core.references.ranges import TableReader, work_of_metaranges
from spark_core.run import Run
from spark_core.spark.exchange import Batches, Source
from spark_core.spark.tasks import interleaved, run_tasks

# An entry of a range, or a range of which all entries are there.
ENTRIES = pa.schema(
    [
        # Hash of the object that the entry keeps: see `mark.kept_objects`.
        pa.field("address_hash", pa.int64(), nullable=False),
        # Null in the row of a range.
        pa.field("path", pa.binary()),
        # Its date in microseconds since 1970.
        pa.field("modified", pa.int64(), nullable=False),
        # Number of the range in `History.changes`.
        pa.field("range", pa.int32(), nullable=False),
        # Only in the row of a range: how many of its entries lie inside; `UNREAD` if nobody knows.
        pa.field("inside", pa.int32()),
    ]
)
UNREAD = -1

# A distinct range that a task met: its id and count, and its first key.
_RANGE = tuple[str, int, bytes]
Ranges = Mapping[str, _RANGE]
# A range for a task to read: its number, id and count, and whether a retained commit has it.
_Row = tuple[int, str, int, bool]

_COMMITS_OF_A_TASK = 64
_RANGES_OF_A_TASK = 256
_ENTRIES_OF_A_TASK = 200_000
# Metaranges that a task holds, as the next commit's parents are among them.
_METARANGES_HELD = 256
_MICROS = 1_000_000


@dataclass(frozen=True)
class CommitTables:
    """A commit and the tables that it is compared with.

    Attributes:
        number: Its number in the graph.
        metarange_id: Its metarange; empty for none.
        parents: Metaranges of its parents.
        main: Metarange of its main parent; empty for none.
        bits: What is known of the commit; see `due`.
        having: As in `sightings.Gone`.
        dropping: As in `sightings.Gone`.
    """

    number: int
    metarange_id: str
    parents: tuple[str, ...]
    main: str
    bits: int
    having: int
    dropping: int


@dataclass(frozen=True)
class Compared:
    """What a task found: ranges, changes by range, and commits whose table cannot be read."""

    ranges: Mapping[_RANGE, int]
    introduced: Mapping[str, tuple[int, ...]]
    gone: Mapping[str, int]
    unread: tuple[int, ...]
    metaranges: int = 0


@dataclass(frozen=True)
class History:
    """What commits did to ranges.

    Attributes:
        ranges: Id, count and first key of each range, in order of first keys.
        changes: What commits did to each of them.
        unread: Commits whose metarange cannot be read.
        metaranges: Number of metaranges that tasks read.
    """

    ranges: Sequence[_RANGE]
    changes: Sequence[Changes]
    unread: tuple[int, ...]
    metaranges: int

    def unread_commits(self, ranges: AbstractSet[int]) -> tuple[int, ...]:
        """Return the commits that nobody knows whole, if some ranges cannot be read, in order."""
        introduced = (commit for number in ranges for commit in self.changes[number].introduced)
        return tuple(sorted({*self.unread, *introduced}))

    def entries(self, unread: AbstractSet[int]) -> int:
        """Return how many entries the ranges have, but those that cannot be read."""
        return sum(
            count for number, (_, count, _) in enumerate(self.ranges) if number not in unread
        )


def read_history(
    run: Run,
    reader: TableReader,
    graph: Graph,
    metaranges: Sequence[str],
    *,
    bits: Sequence[int],
    gone: Gone,
    compacted: Sequence[str] = (),
) -> History:
    """Compare the metarange of every commit with those of its parents.

    What was compacted is staged on a branch, so no name that a commit gives lets it go: its ranges
    are kept, but for those that a head has as well.

    Args:
        run: The run.
        reader: What executors read with.
        graph: All commits.
        metaranges: Metarange of each commit, by number.
        bits: What is known of each commit, by number; see `due`.
        gone: Since when no branch shows what each commit has.
        compacted: Metaranges that no retained commit names.

    Raises:
        CorruptTableError: If the metarange of a retained commit cannot be read whole.
        NotFoundError: If it is missing.
    """
    commits = [
        CommitTables(
            number,
            metaranges[number],
            tuple(metaranges[parent] for parent in graph.parents_of(number)),
            metaranges[int(graph.main[number])] if graph.main[number] >= 0 else "",
            bits[number],
            int(gone.having[number]),
            int(gone.dropping[number]),
        )
        for number in range(len(graph.ids))
    ]
    # Each is compared with itself, so it introduces nothing.
    commits += [
        CommitTables(number, id_, (id_,), "", RETAINED | COMPACTED, 0, 0)
        for number, id_ in enumerate(compacted, start=-len(compacted))
    ]
    tasks = [
        tuple(commits[begin : begin + _COMMITS_OF_A_TASK])
        for begin in range(0, len(commits), _COMMITS_OF_A_TASK)
    ]
    found = run_tasks(
        lambda: run.spark,
        tasks,
        partial(_compare, reader),
        rows=work_of_metaranges(len(commits)),
    )
    return merged(found)


def merged(found: Sequence[Compared]) -> History:
    """Put together what tasks found."""
    bits: dict[_RANGE, int] = {}
    introduced: dict[str, list[int]] = defaultdict(list)
    gone: dict[str, int] = defaultdict(int)
    for each in found:
        for range_, some in each.ranges.items():
            bits[range_] = bits.get(range_, 0) | some
        for range_id, commits in each.introduced.items():
            introduced[range_id] += commits
        for range_id, since in each.gone.items():
            gone[range_id] = max(gone[range_id], since)
    ranges = sorted(bits, key=lambda range_: (range_[2], range_[0], range_[1]))
    return History(
        ranges,
        [
            Changes(
                _with_kept(bits[range_]),
                tuple(sorted(introduced.get(range_[0], ()))),
                gone[range_[0]],
            )
            for range_ in ranges
        ],
        tuple(sorted(commit for each in found for commit in each.unread)),
        sum(each.metaranges for each in found),
    )


def _with_kept(bits: int) -> int:
    return bits | KEPT if bits & COMPACTED and not bits & AT_HEAD else bits


def _compare(reader: TableReader, _number: int, commits: Sequence[CommitTables]) -> Compared:
    """Compare a task's commits with their parents; runs on an executor."""
    held: dict[str, Ranges | None] = {}
    read = 0

    def ranges_of(metarange_id: str) -> Ranges | None:
        nonlocal read
        if metarange_id not in held:
            if len(held) >= _METARANGES_HELD:
                del held[next(iter(held))]
            read += 1
            held[metarange_id] = _ranges(reader, metarange_id)
        return held[metarange_id]

    found = compare(commits, ranges_of)
    retained = {commit.number: commit for commit in commits if commit.bits & RETAINED}
    for number in found.unread:
        if number in retained:
            # The error says what is wrong with it.
            _read_metarange(reader, retained[number].metarange_id)
    return replace(found, metaranges=read)


def compare(commits: Sequence[CommitTables], ranges_of: Callable[[str], Ranges | None]) -> Compared:
    """Compare commits with their parents.

    Args:
        commits: The commits.
        ranges_of: Gives the ranges of a metarange by id; None if it cannot be read.
    """
    found: dict[_RANGE, int] = {}
    introduced: dict[str, list[int]] = defaultdict(list)
    gone: dict[str, int] = defaultdict(int)
    unread: list[int] = []
    for commit in commits:
        own, main, *parents = (
            ranges_of(id_) if id_ else {}
            for id_ in (commit.metarange_id, commit.main, *commit.parents)
        )
        if own is None:
            unread.append(commit.number)
            continue
        for range_id, range_ in own.items():
            found[range_] = found.get(range_, 0) | commit.bits
            gone[range_id] = max(gone[range_id], commit.having)
            if not any(range_id in parent for parent in parents if parent):
                introduced[range_id].append(commit.number)
        for range_id in main or ():
            if range_id not in own:
                gone[range_id] = max(gone[range_id], commit.dropping)
    return Compared(
        found,
        {range_id: tuple(numbers) for range_id, numbers in introduced.items()},
        gone,
        tuple(unread),
    )


def _read_metarange(reader: TableReader, metarange_id: str) -> pa.RecordBatch:
    return graveler.read_metarange(
        reader.read(metarange_id), name=reader.name(metarange_id), expected_id=metarange_id
    )


def _ranges(reader: TableReader, metarange_id: str) -> Ranges | None:
    """Return the ranges of a metarange by id; None if it is damaged or missing."""
    try:
        rows = _read_metarange(reader, metarange_id)
    except (CorruptTableError, NotFoundError):
        return None
    columns = (rows.column(name).to_pylist() for name in ("range_id", "count", "min_key"))
    return {range_[0]: range_ for range_ in zip(*columns, strict=True)}


def entries_of(
    run: Run, reader: TableReader, history: History, unread: AbstractSet[int] = frozenset()
) -> Source[Any]:
    """Return every entry of every range that lies in the namespace, and a row for each range.

    Args:
        run: The run.
        reader: What executors read with.
        history: Its ranges.
        unread: Numbers of ranges that cannot be read, and are not asked for again.

    Returns:
        Columns of `ENTRIES`.
    """
    rows = [
        (number, range_id, count, bool(changes.bits & RETAINED))
        for number, ((range_id, count, _), changes) in enumerate(
            zip(history.ranges, history.changes, strict=True)
        )
    ]
    tasks = _dealt(rows, run.options.range_partitions)
    count = history.entries(unread) + len(rows)
    return Source(ENTRIES, tasks, count, partial(_read, reader, unread))


def _dealt(rows: Sequence[_Row], at_most: int) -> list[tuple[_Row, ...]]:
    """Deal ranges out to tasks by files and entries; neighbours, often alike, stay together."""
    if not rows:
        return []
    weights = np.maximum(
        np.array([row[2] for row in rows]) / _ENTRIES_OF_A_TASK, 1 / _RANGES_OF_A_TASK
    )
    count = min(int(np.ceil(weights.sum())), at_most)
    ends = np.searchsorted(
        np.cumsum(weights), np.linspace(0, weights.sum(), count + 1)[1:-1], side="right"
    )
    bounds = sorted({0, *ends.tolist(), len(rows)})
    return [tuple(rows[begin:end]) for begin, end in pairwise(bounds)]


def _read(reader: TableReader, unread: AbstractSet[int], rows: Sequence[_Row]) -> Batches:
    def read(row: _Row) -> Batches:
        number = row[0]
        found = None if number in unread else _entries(reader, row)
        if found is not None:
            yield found
        told = UNREAD if found is None else found.num_rows
        yield pa.record_batch([[number], [None], [0], [number], [told]], schema=ENTRIES)

    yield from interleaved(rows, read, threads=reader.threads)


def _entries(reader: TableReader, row: _Row) -> pa.RecordBatch | None:
    """Read the entries of a range; None if it cannot be read."""
    number, range_id, count, is_retained = row
    try:
        found = graveler.read_dated_range(
            reader.read(range_id),
            name=reader.name(range_id),
            expected_count=count,
            expected_id=range_id,
        )
    except (CorruptTableError, NotFoundError):
        if is_retained:
            raise
        return None
    return _inside(reader, number, found)


def _inside(reader: TableReader, number: int, found: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out entries that cannot name an object of the namespace."""
    stored: Any = found.column("address")
    address = reader.namespace.relative_batch(stored, found.column("address_type"))
    if address.null_count:
        address = pc.coalesce(address, pc.if_else(may_be_own(stored), stored, None))
    inside = address.is_valid()
    address, found = address.filter(inside), found.filter(inside)
    seconds = found.column("modified_seconds")
    # A date that no calendar has in microseconds keeps the object, as one in the future does.
    far = np.iinfo(np.int64).max // (4 * _MICROS)
    modified = pc.multiply(pc.min_element_wise(seconds, pa.scalar(far, pa.int64())), _MICROS)
    return pa.record_batch(
        [
            alive_hashes(address),
            found.column("path"),
            pc.max_element_wise(modified, pa.scalar(0, pa.int64())),
            pa.repeat(pa.scalar(number, pa.int32()), found.num_rows),
            pa.nulls(found.num_rows, pa.int32()),
        ],
        schema=ENTRIES,
    )
