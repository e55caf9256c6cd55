"""Which deleted objects were only in commits that had expired by then, and were brought back since.

A branch or a tag on an expired commit, or longer rules, make it a retained one. Its objects went
rightly all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler, retention, schemas
from spark_core.addresses.address_hashes import are_among, sorted_once
from spark_core.errors import IncompleteReadError, NotFoundError, RefusedError
from spark_core.holds import Holds
from spark_core.lakefs import RefsDump, read_refs_dump, read_retained
from spark_core.mark.hashes_of_table import hashes_in_table
from spark_core.model import Refs, RetentionRules, RunKey
from spark_core.records import reading, tables
from spark_core.records.figures import EARLIER_DUMP, CommitsFigures, ListedFigures
from spark_core.records.reading import StoredTable
from spark_core.references.commits import tables_prefix
from spark_core.references.metaranges import Metarange, distinct_ranges, work_of_metaranges
from spark_core.references.range_entries import read_ranges
from spark_core.references.shared_ranges import tasks_of, work_of_ranges
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.tasks import run_tasks

# A commit made since: its metarange, and those of its parents.
_Made = tuple[str, tuple[str, ...]]


def only_in_expired_commits(run: Run, commits: StoredTable, key: RunKey, hashes: Any) -> Any:
    """Return which of some objects only expired commits had at the instant of an earlier run.

    Commits reach these objects now. Each such commit was retained then, was expired then, or was
    made since. The dump, the rules, the holds and the server's list of that run are read again to
    tell which. An object speaks against the run if a commit had it that was retained then, even if
    that commit is not retained now; if it was staged then; or if a commit made since has it and no
    parent of that commit does. The last is how an entry looks that was staged unseen, and also one
    that a revert, a cherry-pick or a squashed merge brought: nothing tells them apart. A commit on
    a branch made on an expired one, and its merge, have their objects from a parent.

    What somebody referred to after that mark and before its sweep looks the same as what came after
    the sweep. The sweep itself looks for that.

    Reading costs as much as a clean mark reads of commits, and more for each commit made since.

    Args:
        run: A clean run.
        commits: Its table 3.
        key: The earlier run.
        hashes: Objects that its sweep deleted and that are not staged now: sorted, each once.

    Returns:
        Some of `hashes`; none if the dump or the figures of that run were pruned, or anything else
        cannot be read.
    """
    try:
        return hashes[~are_among(hashes, _referenced_then(run, commits, key, hashes))]
    except (RefusedError, NotFoundError):
        return hashes[:0]


def _referenced_then(run: Run, commits: StoredTable, key: RunKey, hashes: Any) -> Any:
    """Return which of some objects speak against a run; see `only_in_expired_commits`."""
    reader = TableReader.of(run, tables_prefix(run))
    then, retained = _retained_then(run, key, reader.prefix)
    staged = reading.load_table(run.store, tables.UNCOMMITTED_ADDRESSES, key)
    known = [Metarange(id_, is_head=False, is_retained=True) for id_ in sorted(retained)]
    ranges = distinct_ranges(run, reader, known)[0]
    made = _made_since(run, commits, then, reader.prefix)
    found = [
        hashes_in_table(run, staged, hashes),
        *run_tasks(
            lambda: run.spark,
            tasks_of(ranges, run.reading_tasks),
            partial(_reached, reader, hashes),
            rows=work_of_ranges(ranges),
        ),
        *run_tasks(
            lambda: run.spark,
            made,
            partial(_added, reader, hashes),
            rows=work_of_metaranges(len(made)),
        ),
    ]
    return sorted_once(np.concatenate(found))


def _retained_then(run: Run, key: RunKey, prefix: str) -> tuple[Refs, set[str]]:
    """Decide again which commits an earlier run had to keep.

    Returns:
        Its commit graph, and the metaranges of the commits that either reading or a hold retained.

    Raises:
        RefusedError: If the graph was only walked, or cannot be read whole.
        NotFoundError: If a file was pruned.
    """
    listed = reading.load_table(run.store, tables.NAMESPACE_SLICES, key).manifest
    figures = CommitsFigures.of(
        reading.load_table(run.store, tables.RETAINED_COMMITS, key).manifest
    )
    options = run.options.as_decided(ListedFigures.of(listed).options)
    refs = _dumped(run, figures, prefix)
    rules = figures.rules
    ours = retention.retained_commits(
        refs,
        None if rules is None else RetentionRules(**vars(rules)),
        key.instant,
        clock_margin=options.clock_margin,
        tags_protect=options.tags_protect,
        keep_last=options.keep_last,
    )
    held = Holds.of_figures(figures.holds).commits(refs)
    listed_by_server = (
        None if figures.server_run is None else read_retained(run.store, figures.server_run, prefix)
    )
    table = retention.merge(retention.with_holds(ours, held), listed_by_server, refs)
    return refs, set(table["metarange_id"].to_pylist()) - {""}


def _dumped(run: Run, figures: CommitsFigures, prefix: str) -> Refs:
    if figures.dump is None:
        raise IncompleteReadError("refs were walked, and no dump tells which commits there were")
    return read_refs_dump(run.store, RefsDump(**figures.dump), prefix)


def _made_since(run: Run, commits: StoredTable, then: Refs, prefix: str) -> list[_Made]:
    """Return the commits that a clean run knows and an earlier one did not.

    Of a commit that landed while the dump was made no parent is known; all of it counts as new.
    """
    figures = CommitsFigures.of(commits.manifest)
    if figures.refs_read_by == EARLIER_DUMP:
        # Parents of the commits since matter here, and such a question is rare.
        figures = replace(figures, dump=vars(run.server.dump_refs(run.repository.id)))
    now = _dumped(run, figures, prefix).commits
    metaranges = {id_: commit.metarange_id for id_, commit in {**then.commits, **now}.items()}
    made = {
        (commit.metarange_id, tuple(metaranges.get(id_, "") for id_ in commit.parents))
        for commit in now.values()
        if commit.id not in then.commits
    }
    for batch in commits.batches(["commit_id", "metarange_id"]):
        pairs = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        made |= {(metarange, ()) for id_, metarange in pairs if id_ not in metaranges}
    return sorted((metarange, parents) for metarange, parents in made if metarange)


def _added(reader: TableReader, hashes: Any, number: int, made: _Made) -> Any:
    """Return which of some objects a commit has, and none of its parents in another range."""
    own, before = _ranges_of(reader, made[:1]), _ranges_of(reader, made[1])
    added = _reached(reader, hashes, number, _without(own, before))
    if not len(added):
        return added
    return added[~are_among(added, _reached(reader, added, number, _without(before, own)))]


def _ranges_of(reader: TableReader, metaranges: Iterable[str]) -> pa.Table:
    """Return the ranges (range_id, count, is_head) of metaranges."""
    found = [
        graveler.read_metarange(reader.read(id_), name=reader.name(id_), expected_id=id_)
        for id_ in metaranges
        if id_
    ]
    table = pa.Table.from_batches(found, schemas.METARANGE_RANGES).select(["range_id", "count"])
    return table.append_column("is_head", pa.repeat(pa.scalar(False), table.num_rows))


def _without(ranges: pa.Table, others: pa.Table) -> pa.Table:
    return ranges.filter(pc.invert(pc.is_in(ranges["range_id"], others["range_id"])))


def _reached(reader: TableReader, hashes: Any, _number: int, ranges: pa.Table) -> Any:
    """Return which of some objects ranges have."""
    found = [hashes[:0]]
    for batch in read_ranges(reader, ranges, Counter()):
        some = sorted_once(batch.column("address_hash").to_numpy())
        found.append(hashes[are_among(hashes, some)])
    return sorted_once(np.concatenate(found))
