"""Table 4: the addresses that retained commits reach; each metarange and range is read once.

A metarange and a range never change under their ids. So what an earlier run read of them is taken
from the index, and this run reads the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.index import choosing
from spark_core.index.indexed_ranges import IndexedRanges
from spark_core.mark import taken_ranges
from spark_core.mark.ranges_written import CommittedTargets, write_ranges
from spark_core.records import tables, writing
from spark_core.records.figures import CommitsFigures, CommittedFigures, TakenFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft
from spark_core.references import expired_entries
from spark_core.references.commits import tables_prefix
from spark_core.references.metaranges import Metarange, read_metaranges
from spark_core.references.shared_ranges import in_order, merged
from spark_core.references.table_reader import TableReader
from spark_core.run import Run


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
    index = choosing.index_of_mark(run)
    targets = CommittedTargets.of(run, index)
    return targets.removed_on_failure(lambda: _read_all(run, commits, index, targets, began))


def _read_all(
    run: Run,
    commits: StoredTable,
    index: choosing.Index | None,
    targets: CommittedTargets,
    began: datetime,
) -> Draft:
    reader = TableReader.of(run, tables_prefix(run))
    known = IndexedRanges() if index is None else IndexedRanges.of(run.store, index.saved)
    words = expired_entries.commits_of(run, commits)
    metaranges = _metaranges(commits, words)
    unread = [metarange for metarange in metaranges if metarange.id not in known.trees]
    found, trees = read_metaranges(run, reader, unread, trees=targets.trees)
    taken_trees = [metarange for metarange in metaranges if metarange.id in known.trees]
    ranges = in_order(merged([found, taken_ranges.ranges_of(known, taken_trees)]))
    explained, are_all = _explained(run, ranges)
    wanted = pa.concat_tables([ranges.filter(ranges["is_retained"]), explained])
    new, taken = taken_ranges.ranges_to_read_and_taken(known, wanted)
    compared = taken_ranges.compare(run, reader, known, taken_trees, taken)
    written = write_ranges(run, reader, targets, new)
    counts = writing.summed([*trees, *(receipts.table for receipts in written)])[1]
    files = taken_ranges.index_files(index, [*trees, *(receipts.index for receipts in written)])
    stored = taken_ranges.keep(run, commits, taken, files, began)
    all_explained = (
        counts.pop("unread", 0) == 0
        and CommitsFigures.of(commits.manifest).expired_metaranges.all
        and words is not None
        and are_all
    )
    return Draft(
        tables.COMMITTED_ADDRESSES,
        targets.written(written),
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
            taken=taken_ranges.figures_of(known, taken_trees, taken, compared),
        ),
        encloses=() if stored is None else (stored,),
    )


def _explained(run: Run, ranges: pa.Table) -> tuple[pa.Table, bool]:
    """Choose the ranges that only expired commits have and that are read, and say if all are."""
    only_expired = ranges.filter(pc.invert(ranges["is_retained"]))
    explained = expired_entries.within_limits(only_expired, run.options.explain)
    return explained, only_expired.num_rows == explained.num_rows


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
