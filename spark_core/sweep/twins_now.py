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

from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures, ListedFigures, TwinFigures
from spark_core.records.reading import StoredTable
from spark_core.references import policy_rows, twins
from spark_core.references.choosing_entries import Alike
from spark_core.references.head_entries import ADDRESSES, ENTRIES, NONE_ABSENT, SIZES, HeadEntries
from spark_core.references.heads import Heads
from spark_core.references.heads_of_mark import HeadsOfMark
from spark_core.references.known_ranges import said_of
from spark_core.references.metaranges import entries_of_heads
from spark_core.references.stated import are_sizes_stated
from spark_core.references.table_reader import TableReader
from spark_core.references.unlisted import hashes_without_object, sizes_of_later
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, JoinedSource, source_of
from spark_core.sweep.reached_now import TablesRead
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
    listed = ListedFigures.of(mark[tables.NAMESPACE_SLICES.name].manifest)
    committed = mark[tables.COMMITTED_ADDRESSES.name]
    # Table 1 has what the index says of a candidate that was written over: that clears nobody.
    is_other = expired.seen is not None and expired.seen.changed_objects > 0
    known, heads = _heads(
        run, candidates, mark, known, is_news=is_news, any_own=any_own, are_told=not is_other
    )
    entries = _compared(run, heads, expired)
    if is_other:
        entries = replace(entries, are_checksums_said=lambda: True)
    found = twins.find(
        run,
        candidates,
        entries,
        since,
        objects=listed.objects,
        grace=timedelta(seconds=listed.grace_period_seconds),
        entries_of=partial(entries_of_heads, TableReader.of(run, listed.table_prefix), commits),
        staged=mark[tables.UNCOMMITTED_ADDRESSES.name].manifest.rows,
        staged_names=staged,
        # As in the mark: entries of heads need not say the same of what a policy names.
        said=None if any_own or is_other or expired.policy is not None else said_of(run, committed),
    )
    return known, _twins_to_keep(found), found.figures


def _heads(
    run: Run,
    candidates: AnySource,
    mark: Mapping[str, StoredTable],
    known: TablesRead,
    *,
    is_news: bool,
    any_own: bool,
    are_told: bool,
) -> tuple[TablesRead, HeadsOfMark]:
    """Return the entries of heads, with the sizes of objects that the mark's listing has not.

    Args:
        run: The run, like the following as for `search`.
        candidates: The objects that may hide.
        mark: The mark's tables.
        known: What is known.
        is_news: Whether commits reach more than at the last search.
        any_own: Whether a policy names any candidate. Then all entries of heads are read.
        are_told: Whether the checksums of table 1 are believed.
    """
    slices = mark[tables.NAMESPACE_SLICES.name]
    heads = HeadsOfMark(
        run,
        slices,
        mark[tables.COMMITTED_ADDRESSES.name],
        (lambda: None) if any_own else partial(twins.sizes_of, lambda: run.spark, candidates),
        NONE_ABSENT,
        partial(_alike, run, candidates, slices, are_told=are_told),
        later=known.later,
        reached=known.addresses(run).through(ENTRIES, _of_entries),
    )
    expired = ExpiredFigures.of(mark[tables.EXPIRED_ADDRESSES.name].manifest)
    unlisted = expired.missing_objects + (expired.since_inventory or 0)
    if is_news or (known.later is None and unlisted):
        more = source_of(sizes_of_later(run, heads.unlisted(), heads.listing(SIZES)), SIZES)
        before = [] if known.later is None else [known.later]
        known = replace(known, later=JoinedSource([*before, more]))
        heads = replace(heads, later=known.later)
    return known, heads


def _compared(run: Run, heads: HeadsOfMark, expired: ExpiredFigures) -> HeadEntries:
    """Compare the sizes that the entries of heads give with the store's objects."""
    any_new = heads.reached is not None and heads.reached.rows > 0
    are_sizes_said = expired.other_sizes > 0 or expired.twins.are_sizes_said is not False
    if (any_new or heads.later is not None) and not are_sizes_said:
        listing = heads.listing(SIZES)
        are_sizes_said = are_sizes_stated(lambda: run.spark, listing, heads.sizes_said())
    if heads.later is not None:
        lost = hashes_without_object(lambda: run.spark, heads.unlisted(), heads.listing(ADDRESSES))
        heads = replace(heads, lost=_not_taken(run, lost))
    return heads.entries(are_sizes_said=are_sizes_said, any_outside=True)


def _twins_to_keep(found: twins.Answers) -> pa.Table:
    """Return the twins, and the objects that may be: columns of `KEPT`."""
    read = found.read_by_branch
    at = pc.binary_join_element_wise("twin of an entry at ", read["path"], "")
    shown = pa.table([read["address_hash"], at], schema=KEPT)
    unchecked = pa.repeat(pa.scalar(UNCHECKED_TWIN), len(found.may_hide))
    undecided = pa.table([found.may_hide, unchecked], schema=KEPT)
    return pa.concat_tables([shown, undecided])


def _of_entries(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(ENTRIES.names).cast(ENTRIES)


def _not_taken(run: Run, lost: Any) -> Any:
    """Leave out the entries (hashes, sorted) whose objects sweeps by a policy took."""
    taken = policy_rows.taken_by_sweeps(run)
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


def _alike(run: Run, candidates: AnySource, slices: StoredTable, *, are_told: bool) -> Alike:
    """Return what chooses entries that may have the content of candidates.

    Args:
        run: The run.
        candidates: As for `search`.
        slices: Table 1, which has their checksums.
        are_told: Whether these are believed.
    """
    found = candidates.each(lambda: run.spark, _hashes_of)
    hashes = sorted_once(np.concatenate([np.empty(0, np.int64), *found]))
    listed = slices.source(["address_hash", "size_bytes", "checksum"])
    some = listed.each(lambda: run.spark, partial(_alike_among, hashes, are_told))
    return Alike.any_of(some)


def _hashes_of(batches: Batches) -> Any:
    found = [hashed(batch.column("address").cast(pa.string())).to_numpy() for batch in batches]
    return np.concatenate([np.empty(0, np.int64), *found])


def _alike_among(hashes: Any, are_told: bool, batches: Batches) -> Alike:  # noqa: FBT001 - of a partial function
    return Alike.of(_chosen(hashes, batches, are_told=are_told))


def _chosen(hashes: Any, batches: Batches, *, are_told: bool) -> Batches:
    for batch in batches:
        some = batch.filter(pa.array(are_among(batch.column("address_hash").to_numpy(), hashes)))
        checksum = some.column("checksum")
        told = checksum if are_told else pa.nulls(len(checksum), pa.string())
        yield pa.record_batch([some.column("size_bytes"), told], names=["size_bytes", "checksum"])
