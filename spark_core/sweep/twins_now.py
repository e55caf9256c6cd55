"""Search for twins again, among the entries of the mark's heads and of those that came since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core.optimized.listing import Listing, of_mark
from spark_core.records import reading, tables
from spark_core.records.figures import CommittedFigures, ExpiredFigures, ListedFigures, TwinFigures
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.references import policy_rows, twins
from spark_core.references.heads import Heads
from spark_core.references.ranges import TableReader, entries_of_heads
from spark_core.references.sizes import (
    ENTRIES,
    SIZES,
    HeadEntries,
    absent,
    are_sizes_stated,
    named_since,
    of_heads,
    sizes_of_later,
)
from spark_core.references.suspects import OBJECTS, said_of
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.exchange import AnySource, JoinedSource, source_of
from spark_core.spark.rows import Rows, as_frame, without
from spark_core.sweep.committed_now import TablesRead

UNCHECKED_TWIN = "may be the twin of an entry: the calls for asking the branches did not suffice"


@dataclass(frozen=True)
class Search:
    """The twins (address, why; an address may come twice; None for none), and figures."""

    found: DataFrame | None
    figures: TwinFigures


def search(
    run: Run,
    plan: DataFrame,
    mark: Mapping[str, StoredTable],
    known: TablesRead,
    since: Heads,
    *,
    commits: pa.Table,
    is_news: bool,
    staged: DataFrame | None,
) -> tuple[TablesRead, Search]:
    """Search for twins as the mark does, among the entries of the mark's heads and today's.

    The sizes that entries give are compared with the store, also for objects written after the
    mark's listing. `commits` are those that keep their objects now: columns of
    `schemas.RETAINED_COMMITS`.
    """
    expired = ExpiredFigures.of(mark[tables.EXPIRED_ADDRESSES.name].manifest)
    asked = ListedFigures.of(mark[tables.NAMESPACE_SLICES.name].manifest)
    slices, committed = mark[tables.NAMESPACE_SLICES.name], mark[tables.COMMITTED_ADDRESSES.name]
    listed = of_mark(run, slices, committed)
    change = CommittedFigures.of(committed.manifest).change
    least = 0 if change is None else change.head_entries
    heads = _source(run, committed.manifest.parts, known.addresses, ENTRIES)
    heads = heads.through(ENTRIES, of_heads)
    listing = _source(run, listed.parts, known.later, SIZES)
    unlisted = expired.missing_objects + (expired.since_inventory or 0)
    if is_news or (known.later is None and unlisted):
        unlisted_entries = _not_listed(run, slices, listed, heads)
        rows = sizes_of_later(run, unlisted_entries, listing)
        listing = JoinedSource([listing, source_of(rows, SIZES)])
        later = as_frame(run.spark, rows)
        known = replace(
            known, later=later if known.later is None else known.later.unionByName(later)
        )
    # A mark of an earlier version did not compare the sizes of all entries.
    are_sizes_said = expired.other_sizes > 0 or expired.twins.are_sizes_said is not False
    lost: Rows | None = None
    if known.addresses is not None and not are_sizes_said:
        are_sizes_said = are_sizes_stated(
            lambda: run.spark, listing, source_of(known.addresses, ENTRIES)
        )
    if known.later is not None:
        if not are_sizes_said:
            are_sizes_said = are_sizes_stated(
                lambda: run.spark, source_of(known.later, SIZES), heads
            )
        lost = absent(lambda: run.spark, listed.comparable_of(heads), listing)
        taken = policy_rows.taken(run)
        if taken is not None:
            lost = without(lost, taken.here(run.options.read_threads), "address_hash")
    found = twins.find(
        run,
        source_of(plan, OBJECTS),
        HeadEntries(
            lambda: run.spark,
            lambda: heads,
            lost,
            are_sizes_said,
            lambda: listing,
            # What the mark knew of checksums it did not know of entries that came since.
            are_compared=listed.comparable is None
            or (expired.checksums_agree is True and known.addresses is None),
            least=least,
        ),
        since,
        objects=asked.all_objects,
        grace=timedelta(seconds=asked.grace_period_seconds),
        entries_of=partial(entries_of_heads, TableReader.of(run, asked.table_prefix), commits),
        staged=mark[tables.UNCOMMITTED_ADDRESSES.name].manifest.rows,
        staged_names=None if staged is None else source_of(staged, policy_rows.STAGED_NAMES),
        # As in the mark: entries of heads need not say the same of what a policy names.
        said=said_of(run, committed) if expired.policy is None else None,
    )
    if not found.keeps_any:
        return known, Search(None, found.figures)
    live = as_frame(run.spark, found.live, spark_type(found.live.schema))
    at = sf.concat(sf.lit("twin of an entry at "), "head_path").alias("why")
    left = as_frame(run.spark, found.only_undecided(plan))
    undecided = left.select("address", sf.lit(UNCHECKED_TWIN).alias("why"))
    return known, Search(live.select("address", at).unionByName(undecided), found.figures)


def _source(
    run: Run, parts: Sequence[Part], more: DataFrame | None, schema: pa.Schema
) -> AnySource:
    """Return the rows of a table of the mark, and those that came since."""
    stored = reading.source_of_parts(run.store, schema, parts)
    return stored if more is None else JoinedSource([stored, source_of(more, schema)])


def _not_listed(run: Run, slices: StoredTable, listed: Listing, heads: AnySource) -> AnySource:
    """Return the entries whose objects may have been written since the listing.

    An optimized run did not list the slices of older ones, which its base compared.
    """
    if listed.comparable is None:
        return heads
    options = run.options
    since = slices.manifest.reading_began - options.longest_upload - options.max_clock_skew
    return named_since(since, heads)
