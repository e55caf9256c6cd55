"""What heads and staged entries reach below `data/` without a listed object (safety 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.records import reading, tables, writing
from spark_core.records.figures import ListedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.references import policy_rows
from spark_core.references.head_entries import ADDRESSES
from spark_core.references.known_ranges import rows_with
from spark_core.references.unlisted import named_since, sizes_of_later
from spark_core.run import Run
from spark_core.run.chain import Mark
from spark_core.spark.exchange import AnySource, Batches, Exchange, JoinedSource, Sent, source_of

NAMED_MISSING = 20

_HASHES = pa.schema([schemas.COMMITTED_ADDRESSES.field("address_hash")])
_LIVE = pa.schema([schemas.COMMITTED_ADDRESSES.field(name) for name in ("address_hash", "address")])


@dataclass(frozen=True)
class Missing:
    """What heads and staged entries reach below `data/` without a listed object.

    Attributes:
        stored: The table of it; None if there is none.
        later: Objects in the slices of those that were written since an inventory, as
            `sizes_of_later` gives them; None if the store was listed.
        figures: Figures by name.
    """

    stored: StoredTable | None
    later: pa.Table | None
    figures: Mapping[str, Any]


def missing_of(run: Run, mark: Mark, absent: Sequence[Any]) -> Missing:
    """Name the addresses that heads and staged entries reach below `data/` without a listed object.

    Some are missing for good reasons, such as staged keys that never existed. If many are missing,
    the listing is of another place or broke off (safety 5). The missing addresses are stored as a
    small table of their own. What a sweep took by a retention policy is not missing.

    An inventory lacks what was written after it. Such an object is not missing if the store has it
    now. Only names that the server gave since then are looked for: if the inventory does not cover
    `data/`, the older ones show it.

    The references are read once more, for the names of what is missing.

    Args:
        run: The run.
        mark: Tables 1 to 4.
        absent: Hashes of the addresses that were not listed.
    """
    left = sorted_once(np.concatenate([np.empty(0, np.int64), *absent]))
    figures = dict[str, Any](missing_named=(), missing_objects=len(left))
    later, taken = None, policy_rows.taken_by_sweeps(run) if len(left) else None
    if taken is not None:
        is_taken = are_among(left, sorted_once(_hashes_in(run, taken)))
        figures["missing_by_policy"] = int(is_taken.sum())
        left = left[~is_taken]
    since = ListedFigures.of(mark.slices.manifest).since
    if since is not None and len(left):
        later = written_since(run, mark.slices, since, _live(run, mark, left))
        there = source_of(later, ADDRESSES).through(_HASHES, _with_hashes)
        is_there = are_among(left, sorted_once(_hashes_in(run, there)))
        figures["since_inventory"] = int(is_there.sum())
        left = left[~is_there]
    figures["missing_objects"] = len(left)
    if not len(left):
        return Missing(None, later, figures)
    stored = _store_missing(run, mark, left)
    names = reading.source_of_parts(run.store, ADDRESSES, stored.manifest.parts)
    first = names.each(lambda: run.spark, _first)
    figures["missing_named"] = tuple(
        sorted(name for some in first for name in some)[:NAMED_MISSING]
    )
    # Shown to people, and part of the manifest, so that the verdict names it.
    where = tables.folder(tables.MISSING_ADDRESSES, run.key)
    figures["missing_table"] = f"{run.store.root}{where}"
    figures["missing_manifest"] = stored.manifest.sha256
    return Missing(stored, later, figures)


def _store_missing(run: Run, mark: Mark, hashes: Any) -> StoredTable:
    """Store the addresses below `data/` that have one of some hashes, each once."""
    where = tables.folder(tables.MISSING_ADDRESSES, run.key)
    target = Target(run.store, where, writing.new_attempt(), schemas.MISSING_ADDRESSES)
    entries = {"entries": _live(run, mark, hashes)}
    _, written = writing.removed_on_failure(
        target,
        lambda: Exchange(entries, _once, ADDRESSES, partial(_write_addresses, target)).run(
            lambda: run.spark, threads=run.options.read_threads
        ),
    )
    return run.keep(
        Draft(
            tables.MISSING_ADDRESSES,
            Written(target.attempt, written, is_all=True),
            run.now(),
            parents=[table.manifest for table in mark.all],
        )
    )


def _live(run: Run, mark: Mark, hashes: Any) -> AnySource:
    """Return what heads and staged entries reach and has one of some hashes: columns of `_LIVE`."""
    uncommitted = mark.uncommitted.source([*_LIVE.names])
    return JoinedSource(
        [
            rows_with(run, mark.committed, hashes).through(_LIVE, partial(_live_among, hashes)),
            uncommitted.through(_LIVE, partial(_live_among, hashes)),
        ]
    )


def _live_among(hashes: Any, batches: Batches) -> Batches:
    for batch in batches:
        is_wanted = pa.array(are_among(batch.column("address_hash").to_numpy(), hashes))
        address = batch.column("address")
        is_live = (
            batch.column("is_live")
            if "is_live" in batch.schema.names
            else pc.starts_with(address, "data/")
        )
        columns = [batch.column("address_hash"), address]
        yield pa.record_batch(columns, schema=_LIVE).filter(pc.and_(is_wanted, is_live))


def _once(bucket: Mapping[str, pa.Table]) -> Sent[None]:
    names = bucket["entries"].select(["address"]).group_by("address").aggregate([])
    return Sent(None, {0: names.cast(ADDRESSES)} if names.num_rows else {})


def _write_addresses(target: Target, number: int, rows: pa.Table) -> Receipt:
    return writing.write_parts(target, number, iter(rows.to_batches()))


def _first(batches: Batches) -> list[str]:
    found: list[str] = []
    for batch in batches:
        found = sorted([*found, *batch.column("address").to_pylist()])[:NAMED_MISSING]
    return found


def _with_hashes(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.record_batch([hashed(batch.column("address"))], schema=_HASHES)


def _hashes_in(run: Run, rows: AnySource) -> Any:
    """Bring hashes to the driver: 8 bytes for each."""
    found = rows.each(lambda: run.spark, _numbers)
    return np.concatenate([np.empty(0, np.int64), *found])


def _numbers(batches: Batches) -> Any:
    return np.concatenate(
        [np.empty(0, np.int64), *(batch.column("address_hash").to_numpy() for batch in batches)]
    )


def written_since(run: Run, slices: StoredTable, instant: datetime, missing: AnySource) -> pa.Table:
    """List the slices of missing addresses (address) that may have got their object since then."""
    since = instant - run.options.longest_upload - MAX_CLOCK_SKEW
    objects = slices.source(ADDRESSES.names)
    return sizes_of_later(run, named_since(since, missing), objects)
