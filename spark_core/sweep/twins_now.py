"""Search for twins again, among the entries of the mark's heads and of those that came since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import are_among
from spark_core.optimized.listing import Listing, of_mark
from spark_core.records import reading, tables
from spark_core.records.figures import CommittedFigures, ExpiredFigures, ListedFigures, TwinFigures
from spark_core.records.reading import StoredTable
from spark_core.references import policy_rows, twins
from spark_core.references.expired_entries import said_of
from spark_core.references.heads import Heads
from spark_core.references.ranges import TableReader, entries_of_heads
from spark_core.references.sizes import (
    ENTRIES,
    NONE_ABSENT,
    SIZES,
    HeadEntries,
    absent,
    are_sizes_stated,
    named_since,
    of_heads,
    sizes_of_later,
)
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, JoinedSource, source_of
from spark_core.sweep.committed_now import TablesRead
from spark_core.sweep.why_kept import KEPT

UNCHECKED_TWIN = "may be the twin of an entry: the calls for asking the branches did not suffice"


def search(
    run: Run,
    candidates: AnySource,
    mark: Mapping[str, StoredTable],
    known: TablesRead,
    since: Heads,
    *,
    commits: pa.Table,
    is_news: bool,
    staged: AnySource | None,
    any_own: bool,
) -> tuple[TablesRead, pa.Table, TwinFigures]:
    """Search for twins as the mark does, among the entries of the mark's heads and today's.

    The sizes that entries give are compared with the store, also for objects written after the
    mark's listing. `commits` are those that keep their objects now: columns of
    `schemas.RETAINED_COMMITS`; `candidates` have those of `twins.OBJECTS`, and `staged` those of
    `policy_rows.STAGED_NAMES`. `any_own` says whether a policy names any of them, of whatever mark.

    Returns:
        What is known now; the twins and those that may be, in columns of `KEPT`; and figures.
    """
    expired = ExpiredFigures.of(mark[tables.EXPIRED_ADDRESSES.name].manifest)
    asked = ListedFigures.of(mark[tables.NAMESPACE_SLICES.name].manifest)
    slices, committed = mark[tables.NAMESPACE_SLICES.name], mark[tables.COMMITTED_ADDRESSES.name]
    listed = of_mark(run, slices, committed)
    change = CommittedFigures.of(committed.manifest).change
    least = 0 if change is None else change.head_entries
    reached = known.addresses(run)
    any_new = reached.rows > 0
    later = reached.through(ENTRIES, _of_entries)
    marked = reading.source_of_parts(run.store, ENTRIES, committed.manifest.parts)
    heads: AnySource = JoinedSource([marked, later]).through(ENTRIES, of_heads)
    listing: AnySource = reading.source_of_parts(run.store, SIZES, listed.parts)
    if known.later is not None:
        listing = JoinedSource([listing, known.later])
    unlisted = expired.missing_objects + (expired.since_inventory or 0)
    if is_news or (known.later is None and unlisted):
        unlisted_entries = _not_listed(run, slices, listed, heads)
        more = source_of(sizes_of_later(run, unlisted_entries, listing), SIZES)
        listing = JoinedSource([listing, more])
        before = [] if known.later is None else [known.later]
        known = replace(known, later=JoinedSource([*before, more]))
    # A mark of an earlier version did not compare the sizes of all entries.
    are_sizes_said = expired.other_sizes > 0 or expired.twins.are_sizes_said is not False
    lost = NONE_ABSENT
    if any_new and not are_sizes_said:
        are_sizes_said = are_sizes_stated(lambda: run.spark, listing, later)
    if known.later is not None:
        if not are_sizes_said:
            are_sizes_said = are_sizes_stated(lambda: run.spark, known.later, heads)
        lost = _not_taken(run, absent(lambda: run.spark, listed.comparable_of(heads), listing))
    found = twins.find(
        run,
        candidates,
        HeadEntries(
            lambda: run.spark,
            lambda: heads,
            lost,
            are_sizes_said,
            lambda: listing,
            # What the mark knew of checksums it did not know of entries that came since.
            are_compared=listed.comparable is None
            or (expired.checksums_agree is True and not any_new),
            least=least,
        ),
        since,
        objects=asked.all_objects,
        grace=timedelta(seconds=asked.grace_period_seconds),
        entries_of=partial(entries_of_heads, TableReader.of(run, asked.table_prefix), commits),
        staged=mark[tables.UNCOMMITTED_ADDRESSES.name].manifest.rows,
        staged_names=staged,
        # As in the mark: entries of heads need not say the same of what a policy names.
        said=None if any_own or expired.policy is not None else said_of(run, committed),
    )
    read = found.read_by_branch
    at = pc.binary_join_element_wise("twin of an entry at ", read["path"], "")
    shown = pa.table([read["address_hash"], at], schema=KEPT)
    unchecked = pa.repeat(pa.scalar(UNCHECKED_TWIN), len(found.may_hide))
    undecided = pa.table([found.may_hide, unchecked], schema=KEPT)
    return known, pa.concat_tables([shown, undecided]), found.figures


def _of_entries(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(ENTRIES.names).cast(ENTRIES)


def _not_taken(run: Run, lost: Any) -> Any:
    """Leave out the entries (hashes, sorted) whose objects sweeps by a policy took."""
    taken = policy_rows.taken(run)
    if taken is None:
        return lost
    found = taken.each(lambda: run.spark, partial(_among, lost))
    return np.setdiff1d(lost, np.concatenate([np.empty(0, np.int64), *found]))


def _among(hashes: Any, batches: Batches) -> Any:
    found = [np.empty(0, np.int64)]
    for batch in batches:
        numbers = batch.column("address_hash").to_numpy()
        found.append(numbers[are_among(numbers, hashes)])
    return np.concatenate(found)


def _not_listed(run: Run, slices: StoredTable, listed: Listing, heads: AnySource) -> AnySource:
    """Return the entries whose objects may have been written since the listing.

    An optimized run did not list the slices of older ones, which its base compared.
    """
    if listed.comparable is None:
        return heads
    options = run.options
    since = slices.manifest.reading_began - options.longest_upload - options.max_clock_skew
    return named_since(since, heads)
