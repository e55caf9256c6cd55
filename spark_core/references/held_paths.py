"""Objects that have or had a path which people hold, in any commit of the repository.

A hold by path keeps what any commit had there, retained or expired. lakeFS never deletes the tables
of its commits, so they say so of every object that was ever committed. What was never committed has
no path that anybody knows, once it is staged no more. What cannot be read refuses: nobody knows
what it would have kept.

Tables never change, so a later look of the same sweep reads only those that came since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler
from spark_core.addresses.address_hashes import ADDRESS_HASH
from spark_core.errors import CorruptTableError, IncompleteReadError, NotFoundError
from spark_core.holds import Hold, Holds
from spark_core.holds.path_patterns import beginning
from spark_core.records import rows_aside
from spark_core.records.figures import WALK, CommitsFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Receipt, Target, summed, write_read
from spark_core.references import expired_entries
from spark_core.references.commits import ReadCommits, tables_prefix
from spark_core.references.metaranges import work_of_metaranges
from spark_core.references.range_entries import read_whole, resolve_entries
from spark_core.references.shared_ranges import RANGES, tasks_of, work_of_ranges
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.exchange import AnySource
from spark_core.spark.tasks import interleaved, run_tasks

# An object that a hold keeps by a path, and that hold in words. A hash may repeat.
HELD = pa.schema([ADDRESS_HASH, pa.field("held_by", pa.string(), nullable=False)])

_RANGES = pa.schema([RANGES.field(name) for name in ("range_id", "count", "min_key")])
_METARANGES_OF_A_TASK = 256


@dataclass(frozen=True)
class HeldPaths:
    """What holds by path keep, as far as it was read.

    Attributes:
        holds: The holds by path that were looked for.
        metaranges: The metaranges that were read for them.
        target: Where the rows lie; None if nothing was read.
        receipts: These, as tasks put them aside.
    """

    holds: tuple[Hold, ...] = ()
    metaranges: frozenset[str] = frozenset()
    target: Target | None = None
    receipts: tuple[Receipt, ...] = ()

    def source(self, run: Run) -> AnySource:
        """Return the objects that are kept: columns of `HELD`."""
        return rows_aside.source_of(run.store, HELD, self.receipts)

    def release(self) -> None:
        """Remove what was put aside."""
        if self.target is not None:
            rows_aside.remove(self.target, self.receipts)


NOTHING = HeldPaths()


def of_mark(run: Run, commits: StoredTable, holds: Holds) -> HeldPaths:
    """Find what holds by path keep, by the commits of a mark.

    Args:
        run: The run.
        commits: Its table 3; beside it lie the expired commits.
        holds: All holds.

    Raises:
        IncompleteReadError: If not every commit is known, or a table of one cannot be read.
    """
    if not holds.of_paths:
        return NOTHING
    figures = CommitsFigures.of(commits.manifest)
    _require_dump(run, holds.of_paths, is_walked=figures.refs_read_by == WALK)
    expired = expired_entries.commits_of(run, commits)
    if expired is None or not figures.expired_metaranges.all:
        raise IncompleteReadError(
            f"{holds.of_paths[0].words} was made while run {run.key} of {run.repository.id} read "
            "the commits, and not all expired ones were noted",
            "Mark again under a new run key.",
        )
    column = ["metarange_id"]
    retained = (batch.column(0).to_pylist() for batch in commits.batches(column))
    ids = {id_ for some in retained for id_ in some} | set(expired["metarange_id"].to_pylist())
    return _read(run, tables_prefix(run), holds.of_paths, ids, NOTHING)


def of_now(run: Run, prefix: str, commits: ReadCommits, known: HeldPaths) -> HeldPaths:
    """Find what holds by path keep, by the commits of now; what was found before stays found.

    Args:
        run: The run.
        prefix: Where the server keeps its tables.
        commits: The commits and the holds.
        known: What an earlier look found.

    Returns:
        `known` itself if there is nothing new.

    Raises:
        IncompleteReadError: As for `of_mark`.
    """
    holds = commits.holds.of_paths
    if not holds:
        return known
    _require_dump(run, holds, is_walked=commits.dump is None)
    ids = {commit.metarange_id for commit in commits.refs.commits.values()}
    ids |= set(commits.table["metarange_id"].to_pylist())
    return _read(run, prefix, holds, ids, known)


def _require_dump(run: Run, holds: Sequence[Hold], *, is_walked: bool) -> None:
    if is_walked:
        raise IncompleteReadError(
            f"{holds[0].words}: the commits of {run.repository.id} could only be walked, and a "
            "commit that no branch or tag leads to any more may have had something there",
            "Give the user fs:ListTags, fs:ListBranches and fs:ListCommits, which a dump needs; or "
            f"take the hold away (`lakegc hold remove {run.repository.id} {holds[0].name}`).",
        )


def _read(
    run: Run, prefix: str, holds: tuple[Hold, ...], metaranges: Collection[str], known: HeldPaths
) -> HeldPaths:
    """Read the ranges that may have such paths; those of metaranges that were not read before."""
    before = known.metaranges if holds == known.holds else frozenset[str]()
    new = sorted(set(metaranges) - before - {""})
    if not new:
        return known
    reader = TableReader.of(run, prefix)
    target = known.target or rows_aside.target_of(run.store, run.key, HELD)
    try:
        ranges = _ranges(run, reader, holds, new)
        found = run_tasks(
            lambda: run.spark,
            tasks_of(ranges, run.reading_tasks),
            partial(write_read, target, partial(_read_held, reader, Holds(holds))),
            rows=work_of_ranges(ranges),
        )
    except (CorruptTableError, NotFoundError) as problem:
        raise IncompleteReadError(
            f"{holds[0].words}: a table of a commit cannot be read ({problem.found}), and what the "
            "commit had there is unknown",
            "Bring back a version of the file in the store; or take the hold away (`lakegc hold "
            f"remove {run.repository.id} {holds[0].name}`).",
        ) from problem
    read = summed(found)[1]["ranges"]
    if read != ranges.num_rows:
        raise IncompleteReadError(
            f"{holds[0].words}: {read} of {ranges.num_rows} ranges of {run.repository.id} that may "
            "have such paths were read",
            "Run again; if it stays, report it with this text.",
        )
    return HeldPaths(holds, before | set(new), target, (*known.receipts, *found))


def _ranges(run: Run, reader: TableReader, holds: Sequence[Hold], ids: Sequence[str]) -> pa.Table:
    """Return each range that may have such paths once: columns of `_RANGES`."""
    each = _METARANGES_OF_A_TASK
    tasks = [ids[begin : begin + each] for begin in range(0, len(ids), each)]
    beginnings = [beginning(hold.value) for hold in holds]
    found = run_tasks(
        lambda: run.spark,
        tasks,
        partial(_overlapping, reader, beginnings),
        rows=work_of_metaranges(len(ids)),
    )
    if sum(one for one, _ in found) != len(ids):
        raise IncompleteReadError(
            f"{holds[0].words}: {sum(one for one, _ in found)} of {len(ids)} metaranges of "
            f"{run.repository.id} were read",
            "Run again; if it stays, report it with this text.",
        )
    rows = pa.concat_tables([_RANGES.empty_table(), *(ranges for _, ranges in found)])
    distinct = rows.group_by(["range_id", "count"]).aggregate([("min_key", "min")])
    return distinct.rename_columns(_RANGES.names).cast(_RANGES)


def _overlapping(
    reader: TableReader, beginnings: Sequence[bytes], _number: int, ids: Sequence[str]
) -> tuple[int, pa.Table]:
    """Read metaranges: their number, and the ranges that may have paths with some beginnings."""

    def read(id_: str) -> Iterator[pa.RecordBatch]:
        found = graveler.read_metarange(reader.read(id_), name=reader.name(id_), expected_id=id_)
        yield found.filter(may_have(found, beginnings)).select(_RANGES.names)

    some = list(interleaved(ids, read, threads=reader.threads))
    return len(some), pa.Table.from_batches(some, _RANGES)


def may_have(ranges: pa.RecordBatch, beginnings: Sequence[bytes]) -> pa.BooleanArray:
    """Say which ranges may have a path with one of some beginnings.

    Args:
        ranges: Columns min_key and max_key.
        beginnings: The beginnings; an empty one is that of every path.
    """
    least, most = ranges.column("min_key"), ranges.column("max_key")
    may = pa.repeat(pa.scalar(False), ranges.num_rows)
    for first in beginnings:
        begins = pc.or_(pc.less_equal(least, first), pc.starts_with(least, first))
        may = pc.or_(may, pc.and_(begins, pc.greater_equal(most, first)))
    return may


def _read_held(
    reader: TableReader, holds: Holds, ranges: pa.Table, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Read ranges, and keep what has a held path: columns of `HELD`."""

    def read(row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        found = read_whole(reader, row)
        why = holds.reasons_of_paths(found.column("path"))
        kept = resolve_entries(reader.namespace, found.filter(why.is_valid()))
        columns = [kept.column(ADDRESS_HASH.name), why.drop_null()]
        yield pa.record_batch(columns, schema=HELD)

    for batch in interleaved(ranges.to_pylist(), read, threads=reader.threads):
        figures["ranges"] += 1
        distinct = pa.Table.from_batches([batch]).group_by(HELD.names).aggregate([])
        yield from distinct.select(HELD.names).cast(HELD).to_batches()
