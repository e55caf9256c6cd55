"""Read from the metaranges of all commits what each commit did to ranges.

Commits that are not retained are read as well: an object's name is the commit that introduced it.
What a metarange has that no parent's has was introduced there, as far as ranges tell: the entries
of a range may have been in other ranges before, and `due` puts together what all ranges of an entry
tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from spark_core import graveler
from spark_core.errors import CorruptTableError, NotFoundError
from spark_core.references.metaranges import work_of_metaranges
from spark_core.references.policies.canonical_names import Graph
from spark_core.references.policies.due import AT_HEAD, COMPACTED, KEPT, RETAINED, Changes
from spark_core.references.policies.sightings import Gone
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.tasks import run_tasks

# A distinct range that a task met: its id and count, and its first key.
_RANGE = tuple[str, int, bytes]
Ranges = Mapping[str, _RANGE]

_COMMITS_OF_A_TASK = 64
# Metaranges that a task holds, as the next commit's parents are among them.
_METARANGES_HELD = 256


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
