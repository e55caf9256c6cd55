"""What the commits of now reach that those of the mark did not.

Tables of the server never change, so a later look reads only those that came since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH
from spark_core.errors import IncompleteReadError
from spark_core.records import rows_aside
from spark_core.records.figures import ReachedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Receipt, Target, parts_of, summed, write_read
from spark_core.references import held_paths
from spark_core.references.held_paths import HeldPaths
from spark_core.references.metaranges import Metarange, distinct_ranges
from spark_core.references.range_entries import read_ranges
from spark_core.references.shared_ranges import tasks_of
from spark_core.references.table_reader import TableReader
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
        later: Objects (columns of `head_entries.SIZES`) that heads reach and that are not in the
            mark's listing, and their neighbours.
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
        return rows_aside.source_of(run.store, _REACHED, self.reached)

    def release(self) -> None:
        """Remove what was put aside."""
        if self.target is not None:
            rows_aside.remove(self.target, self.reached)
        self.held.release()


def read_new_tables(
    run: Run,
    prefix: str,
    marked_commits: StoredTable,
    now: Mapping[str, Metarange],
    known: TablesRead,
) -> tuple[TablesRead, ReachedFigures]:
    """Read the new metaranges, and those of their ranges that no head of the mark had.

    A metarange that became a head's is read again, because the paths of its entries tell where
    to look for twins.

    Args:
        run: The run.
        prefix: Where the server keeps its tables.
        marked_commits: The commits of the mark: table 3.
        now: The metaranges whose objects are kept, by id.
        known: Tables that were read before.

    Returns:
        The tables that are known now, and figures of those that were read.

    Raises:
        IncompleteReadError: If anything was not read to its end.
    """
    marked = _marked(marked_commits)
    new = _new_metaranges(marked, now, known)
    if not new:
        return known, ReachedFigures()
    reader = TableReader.of(run, prefix)
    old_ranges = known.head_ranges
    if old_ranges is None:
        old_ranges = _head_ranges(run, reader, marked)
    named, read = distinct_ranges(run, reader, new)
    ranges = named.filter(pc.invert(pc.is_in(named["range_id"], old_ranges)))
    target = known.target or rows_aside.target_of(run.store, run.key, _REACHED)
    reached = _read_ranges(run, reader, ranges, target)
    read.update(summed(reached)[1])
    named_rows = pc.sum(named["times"]).as_py() or 0
    _require_all(run, {"metaranges": len(new)}, "metarange_rows", named_rows, read)
    wanted = {"ranges": ranges.num_rows, "entries": _entries_of(ranges)}
    rows = sum(part.rows for part in parts_of(reached))
    _require_all(run, wanted, "addresses", rows + read["left_out"], read)
    figures = ReachedFigures(
        new_metaranges=len(new),
        metaranges_read=read["metaranges"],
        ranges_read=read["ranges"],
        entries_read=read["entries"],
    )
    heads_of_new = ranges.filter(ranges["is_head"])["range_id"]
    new_known = replace(
        known,
        metaranges={**known.metaranges, **{metarange.id: metarange.is_head for metarange in new}},
        head_ranges=pa.chunked_array([*_chunks(old_ranges), *_chunks(heads_of_new)]),
        target=target,
        reached=(*known.reached, *reached),
    )
    return new_known, figures


def _read_ranges(
    run: Run, reader: TableReader, ranges: pa.Table, target: Target
) -> Sequence[Receipt]:
    """Put aside the addresses of ranges, each with the commit that has it."""
    return run_tasks(
        lambda: run.spark,
        tasks_of(ranges, run.reading_tasks),
        partial(write_read, target, partial(_read_saying_why, reader)),
        rows=_entries_of(ranges),
    )


def _entries_of(ranges: pa.Table) -> int:
    return pc.sum(ranges["count"]).as_py() or 0


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
