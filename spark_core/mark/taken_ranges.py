"""What table 4 takes from the index in the place of the server's tables, and what it keeps there.

A few metaranges and ranges are read again in each run, and compared. If one differs, the mark does
not end, and the next run reads everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.errors import CorruptTableError
from spark_core.index import choosing
from spark_core.index.entry_numbers import Kept
from spark_core.index.indexed_ranges import IndexedRanges
from spark_core.records import tables, writing
from spark_core.records.figures import TakenFigures
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.references.metaranges import Metarange
from spark_core.references.range_entries import read_whole, resolve_entries
from spark_core.references.shared_ranges import RANGES
from spark_core.references.table_reader import TableReader
from spark_core.run import Run

# Metaranges and ranges of the index that each run reads again, to compare them.
TREES_AGAIN, RANGES_AGAIN = 1, 2


def ranges_of(known: IndexedRanges, metaranges: Sequence[Metarange]) -> pa.Table:
    """Return the ranges of metaranges that the index has: columns of `RANGES`, each once."""
    is_head, is_retained, is_there = np.zeros((3, known.ranges.num_rows), np.bool_)
    nobody = np.iinfo(np.int32).max
    newest = np.full(known.ranges.num_rows, nobody, np.int32)
    for metarange in metaranges:
        rows = known.trees[metarange.id]
        is_there[rows] = True
        is_head[rows] |= metarange.is_head
        is_retained[rows] |= metarange.is_retained
        if metarange.newest is not None:
            newest[rows] = np.minimum(newest[rows], metarange.newest)
    found = known.ranges.filter(pa.array(is_there))
    columns = {name: found[name] for name in ("range_id", "count", "min_key")}
    return pa.table(
        {
            **columns,
            "is_head": is_head[is_there],
            "is_retained": is_retained[is_there],
            "newest": pa.array(newest[is_there], mask=newest[is_there] == nobody),
            "why": pa.nulls(found.num_rows, pa.string()),
            "times": np.zeros(found.num_rows, np.int64),
        },
        schema=RANGES,
    )


def ranges_to_read_and_taken(known: IndexedRanges, ranges: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Tell ranges that must be read from those that the index has.

    A range of which a metarange gives another number of entries than the index is read: then either
    of them is wrong, and reading it tells.

    Args:
        known: The index.
        ranges: Columns of `RANGES`.

    Returns:
        Columns of `RANGES`, and columns of `schemas.TAKEN_RANGES`.
    """
    places = known.places(ranges["range_id"])
    counts = np.append(known.ranges["count"].to_numpy(), -1)[places]
    is_known = (places >= 0) & (counts == ranges["count"].to_numpy())
    some = ranges.filter(pa.array(is_known))
    there = known.ranges.take(pa.array(places[is_known]))
    of_commits = {name: some[name] for name in ("is_head", "is_retained", "newest")}
    columns = {**{name: there[name] for name in there.column_names}, **of_commits}
    return ranges.filter(pa.array(~is_known)), pa.table(columns).cast(schemas.TAKEN_RANGES)


def compare(
    run: Run, reader: TableReader, known: IndexedRanges, trees: Sequence[Metarange], taken: pa.Table
) -> int:
    """Read a few metaranges and ranges of the index again, others in each run, and compare them.

    Args:
        run: The run; its key chooses.
        reader: What reads them.
        known: The index.
        trees: The metaranges that were taken.
        taken: Columns of `schemas.TAKEN_RANGES`.

    Returns:
        How many ranges were compared.

    Raises:
        CorruptTableError: If one is not as the index has it.
    """
    again = replace(reader, remembers=True)
    _compare_trees(run, again, known, trees)
    return _compare_ranges(run, again, taken)


def _compare_trees(
    run: Run, reader: TableReader, known: IndexedRanges, metaranges: Sequence[Metarange]
) -> None:
    retained = [metarange.id for metarange in metaranges if metarange.is_retained]
    for id_ in _chosen(run, retained, TREES_AGAIN).to_pylist():
        found = graveler.read_metarange(reader.read(id_), name=reader.name(id_), expected_id=id_)
        then = known.ranges["range_id"].take(pa.array(known.trees[id_])).to_pylist()
        if found.column("range_id").to_pylist() != then:
            raise _differs(reader.name(id_), "ranges")


def _compare_ranges(run: Run, reader: TableReader, taken: pa.Table) -> int:
    retained = taken.filter(taken["is_retained"])
    chosen = _chosen(run, retained["range_id"].to_pylist(), RANGES_AGAIN)
    for row in retained.filter(pc.is_in(retained["range_id"], value_set=chosen)).to_pylist():
        found = Kept()
        found.add([row], resolve_entries(reader.namespace, read_whole(reader, row)))
        if found.ranges[0]["digest"] != row["digest"]:
            raise _differs(reader.name(row["range_id"]), "entries")
    return len(chosen)


def _chosen(run: Run, ids: Sequence[str], count: int) -> pa.StringArray:
    """Choose some ids by the key of a run."""
    every = pa.array(ids, pa.string())
    mixed = hashed(pc.binary_join_element_wise(every, str(run.key), "")).to_numpy()
    return every.take(pa.array(np.argsort(mixed)[:count]))


def _differs(name: str, what: str) -> CorruptTableError:
    """Say so; as the mark does not end, the next run reads everything."""
    return CorruptTableError(
        name,
        None,
        f"the index has other {what} of it",
        "Mark again under a new run key: that run reads everything and takes nothing from the "
        "index.",
    )


def index_files(index: choosing.Index | None, written: Sequence[Receipt]) -> tuple[Part, ...]:
    """Return the files of the index for the next run: those that were taken, and the new ones."""
    saved = () if index is None else (*index.saved.trees, *index.saved.ranges, *index.saved.entries)
    return (*saved, *writing.parts_of(written))


def keep(
    run: Run, commits: StoredTable, taken: pa.Table, files: Sequence[Part], began: datetime
) -> Manifest | None:
    """Store which ranges were taken, and beside them the files of the index.

    Returns:
        The manifest, to be enclosed; None if nothing was taken, and nothing kept.
    """
    if not files:
        return None
    target = Target(
        run.store,
        tables.folder(tables.TAKEN_RANGES, run.key),
        writing.new_attempt(),
        schemas.TAKEN_RANGES,
        holds=writing.HELD_BYTES,
    )
    draft = Draft(
        tables.TAKEN_RANGES,
        Written(
            target.attempt,
            [writing.write_parts(target, 0, iter(taken.combine_chunks().to_batches()))],
            [Receipt(tuple(files), {})],
            is_all=True,
        ),
        began,
        parents=(commits.manifest,),
        is_enclosed=True,
    )
    return run.keep(draft).manifest


def figures_of(
    known: IndexedRanges, trees: Sequence[Metarange], taken: pa.Table, compared: int
) -> TakenFigures:
    """Count what was taken: metaranges, and ranges in columns of `schemas.TAKEN_RANGES`."""
    retained = taken.filter(taken["is_retained"])
    return TakenFigures(
        metaranges=len(trees),
        head_metaranges=sum(one.is_head for one in trees),
        retained_metaranges=sum(one.is_retained for one in trees),
        empty_metaranges=sum(one.is_retained and not len(known.trees[one.id]) for one in trees),
        ranges=retained.num_rows,
        head_ranges=pc.sum(retained["is_head"]).as_py() or 0,
        entries=pc.sum(retained["count"]).as_py() or 0,
        expired_ranges=taken.num_rows - retained.num_rows,
        compared_ranges=compared,
    )
