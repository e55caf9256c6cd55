"""What is committed now, or held by name, and what it reaches beyond the commits of the mark.

Tables of the server never change, so a later look reads only those that came since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH
from spark_core.errors import IncompleteReadError, RepositoryStateError
from spark_core.records import tables
from spark_core.records.figures import ReachedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Receipt, Target, parts_of, summed, write_read
from spark_core.references import held_paths, rows_aside
from spark_core.references.commits import ReadCommits, and_compacted, heads_now, read_commits
from spark_core.references.earlier_dump import Earlier
from spark_core.references.heads import Heads
from spark_core.references.held_paths import HeldPaths
from spark_core.references.metaranges import Metarange, distinct_ranges
from spark_core.references.needed_tables import telling_who_needs
from spark_core.references.range_entries import read_ranges
from spark_core.references.ranges import tasks_of
from spark_core.references.table_reader import TableReader
from spark_core.retention import COMPACTED
from spark_core.run import Run
from spark_core.spark.exchange import AnySource
from spark_core.spark.tasks import run_tasks

_OF_ENTRIES = ("address", "size_bytes", "head_path", "checksum")
_REACHED = pa.schema(
    [
        ADDRESS_HASH,
        *(schemas.COMMITTED_ADDRESSES.field(name) for name in _OF_ENTRIES),
        pa.field("why", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class TablesRead:
    """Tables of the server that were read before; they never change, as their content names them.

    Attributes:
        metaranges: Id -> whether its entries were read with their paths, as for a branch head.
        head_ranges: Ids of ranges whose entries the mark or `addresses` has in full, with their
            paths; None: not read yet.
        later: Objects (columns of `sizes.SIZES`) that heads reach and that are not in the mark's
            listing, and their neighbours.
        target: Where the addresses are that they reach.
        reached: These, as tasks put them aside.
        held: What holds by path keep.
    """

    metaranges: Mapping[str, bool] = field(default_factory=dict)
    head_ranges: pa.Array | None = None
    later: AnySource | None = None
    target: Target | None = None
    reached: tuple[Receipt, ...] = ()
    held: HeldPaths = held_paths.NOTHING

    def addresses(self, run: Run) -> AnySource:
        """Return the addresses that the tables reach: columns of `_REACHED`."""
        return rows_aside.source_of(run, _REACHED, self.reached)

    def release(self) -> None:
        """Remove what was put aside."""
        if self.target is not None:
            rows_aside.remove(self.target, self.reached)
        self.held.release()


@dataclass(frozen=True)
class Committed:
    """What is committed now, or held by name.

    Attributes:
        began: Before the first byte of it was read.
        commits: The commits that keep their objects.
        known: Tables that the commits reach and that the mark's commits did not.
        figures: What was read of them.
    """

    began: datetime
    commits: ReadCommits
    known: TablesRead
    figures: ReachedFigures

    @classmethod
    def read(
        cls,
        run: Run,
        prefix: str,
        mark: Mapping[str, StoredTable],
        known: TablesRead,
        *,
        all_names: bool,
    ) -> Committed:
        """Read holds, rules, refs, the server's list, and the tables they name that are unknown.

        Args:
            run: The run.
            prefix: Where the server keeps its tables.
            mark: The mark's tables by name.
            known: Tables that were read before.
            all_names: Whether every commit of now must be known, because a retention policy decides
                by all names of an object. Else the mark's dump of refs may do.
        """
        began = run.now()
        manifest = mark[tables.RETAINED_COMMITS.name].manifest
        commits = read_commits(run, prefix, None if all_names else Earlier.of(manifest))
        marked = Heads.of(manifest)
        noted = partial(heads_now, run, commits, marked, read_at=began)
        commits = and_compacted(run, prefix, commits, noted)
        _require_commits(run, commits)
        with telling_who_needs(run, lambda: commits.table):
            reached = _ReachedNow.read(run, prefix, mark, _retained(commits), known)
        held = held_paths.of_now(run, prefix, commits, known.held)
        known = reached.known if held is known.held else replace(reached.known, held=held)
        return cls(began, commits, known, reached.figures)


def _require_commits(run: Run, commits: ReadCommits) -> None:
    retained = commits.table.num_rows - commits.compacted
    if not commits.refs.branches or not retained:
        raise RepositoryStateError(
            f"repository {run.repository.id} shows {len(commits.refs.branches)} branches and "
            f"{retained} commits that keep their objects, read again just before "
            "deleting: it was deleted, or emptied, since the mark",
            "Look at it with `lakectl repo list`; if it lives, mark again under a new run key.",
        )


def _retained(commits: ReadCommits) -> dict[str, Metarange]:
    """Return the metaranges whose objects are kept, each with one commit that has it.

    The key is the metarange's id. The commit is a head, if a head has the metarange.
    """
    found: dict[str, Metarange] = {}
    for row in commits.table.select(["commit_id", "metarange_id", "reason", "is_head"]).to_pylist():
        id_, known = row["metarange_id"], found.get(row["metarange_id"])
        if id_ and (known is None or (row["is_head"] and not known.is_head)):
            reason = row["reason"]
            why = (
                reason
                if reason.startswith("hold ") or reason == COMPACTED
                else f"commit {row['commit_id'][:12]} ({reason})"
            )
            found[id_] = Metarange(id_, is_head=row["is_head"], is_retained=True, why=why)
    return found


@dataclass(frozen=True)
class _ReachedNow:
    """What the present commits reach that the mark's commits did not."""

    known: TablesRead
    figures: ReachedFigures

    @classmethod
    def read(
        cls,
        run: Run,
        prefix: str,
        mark: Mapping[str, StoredTable],
        now: Mapping[str, Metarange],
        known: TablesRead,
    ) -> _ReachedNow:
        """Read the new metaranges, and those of their ranges that no head of the mark had.

        A metarange that became a head's is read again, because the paths of its entries tell where
        to look for twins.
        """
        marked = _marked(mark[tables.RETAINED_COMMITS.name])
        new = _new_metaranges(marked, now, known)
        if not new:
            return cls(known, ReachedFigures())
        reader = TableReader.of(run, prefix)
        old_ranges = known.head_ranges
        if old_ranges is None:
            old_ranges = _head_ranges(run, reader, marked)
        named, read = distinct_ranges(run, reader, new)
        ranges = named.filter(pc.invert(pc.is_in(named["range_id"], old_ranges)))
        entries = pc.sum(ranges["count"]).as_py() or 0
        tasks = tasks_of(ranges, run.options.range_partitions)
        target = known.target or rows_aside.target_of(run, _REACHED)
        reached = run_tasks(
            lambda: run.spark,
            tasks,
            partial(write_read, target, partial(_read_saying_why, reader)),
            rows=entries,
        )
        read.update(summed(reached)[1])
        rows = sum(part.rows for part in parts_of(reached))
        _require_all(
            run,
            {"metaranges": len(new)},
            "metarange_rows",
            pc.sum(named["times"]).as_py() or 0,
            read,
        )
        _require_all(
            run,
            {"ranges": ranges.num_rows, "entries": entries},
            "addresses",
            rows + read["left_out"],
            read,
        )
        figures = ReachedFigures(
            new_metaranges=len(new),
            metaranges_read=read["metaranges"],
            ranges_read=read["ranges"],
            entries_read=read["entries"],
        )
        heads_of_new = ranges.filter(ranges["is_head"])["range_id"]
        new_known = replace(
            known,
            metaranges={
                **known.metaranges,
                **{metarange.id: metarange.is_head for metarange in new},
            },
            head_ranges=pa.chunked_array([*_chunks(old_ranges), *_chunks(heads_of_new)]),
            target=target,
            reached=(*known.reached, *reached),
        )
        return cls(new_known, figures)


def _new_metaranges(
    marked: Mapping[str, bool], now: Mapping[str, Metarange], known: TablesRead
) -> list[Metarange]:
    """Return the metaranges that neither the mark nor an earlier reading read as they are now."""
    before = {
        **marked,
        **{id_: is_head or marked.get(id_, False) for id_, is_head in known.metaranges.items()},
    }
    return [
        metarange
        for id_, metarange in sorted(now.items())
        if before.get(id_) not in (True, metarange.is_head)
    ]


def _head_ranges(run: Run, reader: TableReader, marked: Mapping[str, bool]) -> pa.ChunkedArray:
    """Return the ids of the ranges that the mark's heads had."""
    heads = [
        Metarange(id_, is_head=True, is_retained=True) for id_, is_head in marked.items() if is_head
    ]
    return distinct_ranges(run, reader, heads)[0]["range_id"]


def _read_saying_why(
    reader: TableReader, ranges: pa.Table, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    yield from read_ranges(reader, ranges, figures, saying_why=True)


def _chunks(ids: pa.ChunkedArray) -> list[pa.Array]:
    return [ids.combine_chunks()]


def _require_all(
    run: Run, wanted: Mapping[str, int], what: str, held: int, read: Counter[str]
) -> None:
    """Compare what had to be read with what was read, and with what is held of it.

    Args:
        run: The run.
        wanted: How many of each had to be read, by the name of the figure.
        what: The figure of the tasks' results.
        held: How many of those results are held.
        read: The figures, as the tasks counted them.

    Raises:
        IncompleteReadError: If anything is missing.
    """
    if held != read[what] or any(read[name] != count for name, count in wanted.items()):
        reached = " and ".join(f"{count} {name}" for name, count in wanted.items())
        raise IncompleteReadError(
            f"repository {run.repository.id}: of {reached} that commits reach anew, "
            f"{' and '.join(str(read[name]) for name in wanted)} were read just before deleting; "
            f"they have {read[what]} {what.replace('_', ' ')}, of which {held} are held",
            "Run the same command again; if it stays, report it with this text.",
        )


def _marked(commits: StoredTable) -> dict[str, bool]:
    """Return the metaranges that the mark read, and whether a head had each of them."""
    marked: dict[str, bool] = {}
    for batch in commits.batches(["metarange_id", "is_head"]):
        for row in batch.to_pylist():
            if row["metarange_id"]:
                marked[row["metarange_id"]] = (
                    marked.get(row["metarange_id"], False) or row["is_head"]
                )
    return marked
