"""Table 4: the addresses that retained commits reach; each metarange and range is read once.

A metarange and a range never change under their ids. So what an earlier run read of them is taken
from the index, and this run reads the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.errors import CorruptTableError
from spark_core.index import choosing
from spark_core.index import entries as indexed
from spark_core.index.entries import Kept
from spark_core.index.known import Known
from spark_core.index.saved import holds
from spark_core.records import tables, writing
from spark_core.records.figures import CommitsFigures, CommittedFigures, TakenFigures
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.references import expired_entries
from spark_core.references.commits import tables_prefix
from spark_core.references.range_entries import (
    read_entries,
    read_hashes,
    read_ranges,
    read_whole,
    resolved,
)
from spark_core.references.ranges import (
    RANGES,
    Metarange,
    TableReader,
    in_order,
    merged,
    read_metaranges,
    tasks_of,
    work_of_ranges,
)
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.tasks import run_tasks

Done = TypeVar("Done")

# Metaranges and ranges of the index that each run reads again, to compare them.
TREES_AGAIN, RANGES_AGAIN = 1, 2


def committed_addresses(run: Run, commits: StoredTable) -> Draft:
    """Read every address inside the namespace that a retained commit reaches.

    Commits share metaranges, and metaranges share ranges, so both are made distinct before they are
    read. The cost follows the data, not the number of commits, and the server is not asked at all.
    An entry of a branch head keeps its path and checksum, which find re-uploaded twins later
    (safety 14). The driver holds one row for each distinct range, some 150 bytes.

    Args:
        run: The run.
        commits: Table 3.

    Returns:
        Columns of `schemas.COMMITTED_ADDRESSES`, of the ranges that were read; an address may
        repeat. The table of those taken from the index is enclosed.

    Raises:
        CorruptTableError: If any table cannot be read whole, or is not as the index has it.
        NotFoundError: If a table is missing from the store.
    """
    began = run.begin(tables.COMMITTED_ADDRESSES)
    run.require_same_instance(commits.manifest)
    index = choosing.of(run)
    targets = Targets.of(run, index)
    return targets.removed_on_failure(lambda: _read_all(run, commits, index, targets, began))


def _read_all(
    run: Run,
    commits: StoredTable,
    index: choosing.Index | None,
    targets: Targets,
    began: datetime,
) -> Draft:
    reader = TableReader.of(run, tables_prefix(run))
    known = Known() if index is None else Known.of(run.store, index.saved)
    words = expired_entries.commits_of(run, commits)
    metaranges = _metaranges(commits, words)
    unread = [metarange for metarange in metaranges if metarange.id not in known.trees]
    found, trees = read_metaranges(run, reader, unread, trees=targets.trees)
    taken_trees = [metarange for metarange in metaranges if metarange.id in known.trees]
    ranges = in_order(merged([found, _ranges_of(known, taken_trees)]))
    retained = ranges.filter(ranges["is_retained"])
    only_expired = ranges.filter(pc.invert(ranges["is_retained"]))
    explained = expired_entries.within_limits(only_expired, run.options.explain)
    wanted = pa.concat_tables([retained, explained])
    new, taken = _divided(known, wanted)
    again = replace(reader, remembers=True)
    _compare_trees(run, again, known, taken_trees)
    compared = _compare_ranges(run, again, taken)
    written = _write_all(run, reader, targets, new)
    counts = writing.summed([*trees, *(receipts.table for receipts in written)])[1]
    stored = _keep_taken(run, commits, taken, _index_files(index, trees, written), began)
    all_explained = (
        counts.pop("unread", 0) == 0
        and CommitsFigures.of(commits.manifest).expired_metaranges.all
        and words is not None
        and only_expired.num_rows == explained.num_rows
    )
    return Draft(
        tables.COMMITTED_ADDRESSES,
        Written(
            targets.table.attempt,
            [receipts.table for receipts in written],
            [receipts.beside for receipts in written],
            is_all=True,
        ),
        began,
        parents=(commits.manifest,),
        figures=partial(
            _figures,
            counts=counts,
            metaranges=metaranges,
            ranges=ranges,
            expired_ranges=explained.num_rows,
            expired_ranges_all=all_explained,
            taken_manifest=None if stored is None else stored.sha256,
            taken=_taken_figures(known, taken_trees, taken, compared),
        ),
        encloses=() if stored is None else (stored,),
    )


def _ranges_of(known: Known, metaranges: Sequence[Metarange]) -> pa.Table:
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


def _divided(known: Known, ranges: pa.Table) -> tuple[pa.Table, pa.Table]:
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


def _compare_trees(
    run: Run, reader: TableReader, known: Known, metaranges: Sequence[Metarange]
) -> None:
    """Read a few metaranges of the index again, others in each run, and compare them.

    Raises:
        CorruptTableError: If one is not as the index has it.
    """
    retained = [metarange.id for metarange in metaranges if metarange.is_retained]
    for id_ in _chosen(run, retained, TREES_AGAIN).to_pylist():
        found = graveler.read_metarange(reader.read(id_), name=reader.name(id_), expected_id=id_)
        then = known.ranges["range_id"].take(pa.array(known.trees[id_])).to_pylist()
        if found.column("range_id").to_pylist() != then:
            raise _differs(reader.name(id_), "ranges")


def _compare_ranges(run: Run, reader: TableReader, taken: pa.Table) -> int:
    """Read a few ranges of the index again, others in each run, and compare them.

    Args:
        run: The run; its key chooses.
        reader: What reads them.
        taken: Columns of `schemas.TAKEN_RANGES`.

    Returns:
        How many were compared.

    Raises:
        CorruptTableError: If one is not as the index has it.
    """
    retained = taken.filter(taken["is_retained"])
    chosen = _chosen(run, retained["range_id"].to_pylist(), RANGES_AGAIN)
    for row in retained.filter(pc.is_in(retained["range_id"], value_set=chosen)).to_pylist():
        entries = indexed.in_numbers(resolved(reader.namespace, read_whole(reader, row)))
        if indexed.digests(entries, [row["count"]])[0] != row["digest"]:
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


@dataclass(frozen=True)
class RangesWritten:
    """What a task wrote: rows of the table, files beside it, and files of the index."""

    table: Receipt
    beside: Receipt
    index: Receipt


@dataclass(frozen=True)
class Targets:
    """Where the tasks write.

    Attributes:
        table: The table.
        beside: The entries of expired commits.
        index: What the index gets; None if it gets nothing.
    """

    table: Target
    beside: Target
    index: indexed.Targets | None

    @classmethod
    def of(cls, run: Run, index: choosing.Index | None) -> Targets:
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
            indexed.Targets.of(run.store, attempt, holds=holds(before))
            if choosing.saves(run)
            else None,
        )

    @property
    def trees(self) -> Target | None:
        """Where metaranges are written for the index."""
        return None if self.index is None else self.index.trees

    def removed_on_failure(self, write: Callable[[], Done]) -> Done:
        """Call a function that writes; if it fails, delete what it has written."""
        of_index = self.index

        def both() -> Done:
            return writing.removed_on_failure(self.table, write)

        # The three of the index lie in one folder, and are of one attempt.
        return both() if of_index is None else writing.removed_on_failure(of_index.trees, both)


def _write_all(
    run: Run, reader: TableReader, targets: Targets, ranges: pa.Table
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
    most = 1 if placement.driver_works(rows) else run.options.range_partitions
    work = partial(_write, reader, targets)
    return run_tasks(lambda: run.spark, tasks_of(ranges, most), work, rows=rows)


def _index_files(
    index: choosing.Index | None, trees: Sequence[Receipt], written: Sequence[RangesWritten]
) -> tuple[Part, ...]:
    """Return the files of the index for the next run: those that were taken, and the new ones."""
    saved = () if index is None else (*index.saved.trees, *index.saved.ranges, *index.saved.entries)
    new = writing.parts_of([*trees, *(receipts.index for receipts in written)])
    return (*saved, *new)


def _keep_taken(
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


def _taken_figures(
    known: Known, trees: Sequence[Metarange], taken: pa.Table, compared: int
) -> TakenFigures:
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


def _figures(
    measured: Mapping[str, Any],
    _: Counter[str],
    *,
    counts: Counter[str],
    metaranges: Sequence[Metarange],
    ranges: pa.Table,
    expired_ranges: int,
    expired_ranges_all: bool,
    taken_manifest: str | None,
    taken: TakenFigures,
) -> CommittedFigures:
    """Compare what had to be read with what was read.

    Args:
        measured: Of the written rows.
        counts: What the readers counted; the store's own counts are among them.
        metaranges: The metaranges to read.
        ranges: Their distinct ranges.
        expired_ranges: How many of those that only expired commits have were to be read.
        expired_ranges_all: Whether these are all of them, and each could be read.
        taken_manifest: sha256 of the manifest of the ranges that were taken from the index.
        taken: What was taken from it.
    """
    retained = ranges.filter(ranges["is_retained"])
    return CommittedFigures(
        ranges=retained.num_rows,
        entries=pc.sum(retained["count"]).as_py() or 0,
        head_ranges=pc.sum(retained["is_head"]).as_py() or 0,
        head_metaranges=sum(metarange.is_head for metarange in metaranges),
        retained_metaranges=sum(metarange.is_retained for metarange in metaranges),
        metaranges=len(metaranges),
        metarange_rows=pc.sum(ranges["times"]).as_py() or 0,
        expired_ranges=expired_ranges,
        expired_ranges_all=expired_ranges_all,
        taken_manifest=taken_manifest,
        taken=taken,
        **_read_figures(Counter(counts)),
        **measured,
    )


def _read_figures(found: Counter[str]) -> dict[str, Any]:
    """Return what the readers counted, by the names of `CommittedFigures`.

    Args:
        found: Their counts; the store's own are among them. It is used up.
    """
    return {
        "metaranges_read": found.pop("metaranges", 0) + found.pop("unread_metaranges", 0),
        "head_ranges_read": found.pop("head_ranges", 0),
        "head_metaranges_read": found.pop("head_metaranges", 0),
        "retained_metaranges_read": found.pop("retained_metaranges", 0),
        "metarange_rows_read": found.pop("metarange_rows", 0),
        "ranges_read": found.pop("ranges", 0),
        "entries_read": found.pop("entries", 0),
        "addresses_read": found.pop("addresses", 0),
        "empty_metaranges": found.pop("empty_metaranges", 0),
        "addresses_left_out": found.pop("left_out", 0),
        # The store's own counts are what is left.
        "requests": dict(found),
    }


def _metaranges(commits: StoredTable, expired: pa.Table | None) -> list[Metarange]:
    """Return each metarange of a retained or an expired commit once, oldest commit first.

    Metaranges that only expired commits have are read for the words of the report, and
    because what they say of an object may spare questions to branches.
    """
    heads: dict[str, bool] = {}
    columns = ["metarange_id", "created_at", "is_head"]
    schema = pa.schema([schemas.RETAINED_COMMITS.field(name) for name in columns])
    found = pa.Table.from_batches(commits.batches(columns), schema)
    for row in found.sort_by("created_at").to_pylist():
        if row["metarange_id"]:
            heads[row["metarange_id"]] = heads.get(row["metarange_id"], False) or row["is_head"]
    return [Metarange(id_, is_head=is_head, is_retained=True) for id_, is_head in heads.items()] + [
        Metarange(id_, is_head=False, is_retained=False, newest=row)
        for row, id_ in enumerate([] if expired is None else expired["metarange_id"].to_pylist())
    ]


def _write(reader: TableReader, targets: Targets, number: int, ranges: pa.Table) -> RangesWritten:
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
