"""The objects that may have become garbage since the base, before anything alive is taken out.

They are objects of newer slices, entries of ranges that left, what was staged at the base and is
not, and what the base named, kept, missed, or found too young.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.addresses.namespace import slice_batch
from spark_core.errors import ChainError, UnsafePlanError
from spark_core.fates import Fate
from spark_core.optimized.base import MARK_FULL, Base, went_whole
from spark_core.records import reading, tables
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.exchange import (
    AnySource,
    Batches,
    Exchange,
    Sent,
    no_work,
    numbers_of,
    source_of,
)
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore

# Most candidates of an optimized run, which the driver holds: a hash of each, and the address where
# it must be looked up. With more, a full run costs little more.
MOST = 2_000_000

# A candidate whose slice is not listed. The hash is that of the address.
# Fates of what may go as soon as its only keeper is gone, and outcomes of what is left of a plan.
_CARRIED = pa.array([Fate.HELD.value, Fate.READ_BY_BRANCH.value, Fate.MAY_HIDE.value])
_STILL_THERE = pa.array(["kept", "refused", "failed"])

CANDIDATES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("address_hash", pa.int64(), nullable=False),
    ]
)
_HASHES = pa.schema([CANDIDATES.field("address_hash")])


@dataclass
class Candidates:
    """Candidates by where they come from.

    Attributes:
        listed: Hashes of objects of newer slices, sorted.
        sizes: Their sizes, in the same order.
        others: Columns of `CANDIDATES`; their slices are not listed.
        counts: Number by source.
    """

    listed: Any
    sizes: Any
    others: pa.Table
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def hashes(self) -> Any:
        """Hashes of all, sorted, each once."""
        return sorted_once(np.concatenate([self.listed, _numbers(self.others["address_hash"])]))

    def without(self, alive: Any) -> Candidates:
        """Leave out those with one of some hashes."""
        others = ~np.isin(_numbers(self.others["address_hash"]), alive)
        listed = ~np.isin(self.listed, alive)
        return Candidates(
            self.listed[listed],
            self.sizes[listed],
            self.others.filter(pa.array(others)),
            self.counts,
        )


def candidates_of(run: Run, base: Base, left: pa.Table) -> Candidates:
    """Collect the candidates; what is staged now is none.

    Args:
        run: The run.
        base: Its base.
        left: Columns of `CANDIDATES`: entries of ranges that left.

    Raises:
        UnsafePlanError: If so many objects changed that a full run is due.
    """
    slices, staged = run.load(tables.NAMESPACE_SLICES), run.load(tables.UNCOMMITTED_ADDRESSES)
    listed, sizes = _listed(slices)
    carried = _carried(run, base)
    lost = pa.array(lost_at(base), pa.string())
    missing = pa.table([lost, hashed(lost)], schema=CANDIDATES)
    known = pa.concat_tables([left, carried, missing])
    compared = _unstaged(
        run, base, staged, np.concatenate([listed, numbers_of(known["address_hash"])])
    )
    unstaged = compared.left
    others = pa.concat_tables([known, unstaged])
    # What lies in a slice that is listed is a candidate by its listing, if it is still there.
    names = others["address"].combine_chunks()
    is_listed = _listed_by(base, names)
    inside = pc.starts_with(names, "data/")
    others = _once(others.filter(pc.and_(inside, pc.invert(is_listed))))
    # What is not staged any more is read up to this number, so more of it is not whole.
    count = max(unstaged.num_rows, others.num_rows + len(listed))
    if count > MOST:
        raise UnsafePlanError(
            f"repository {run.repository.id}: more objects may have become garbage since run "
            f"{base.key} than an optimized run takes ({MOST:,})",
            MARK_FULL,
        )
    found = Candidates(
        listed,
        sizes,
        others,
        {
            "candidates": len(listed) + others.num_rows,
            "of_left_ranges": left.num_rows,
            "of_staging": unstaged.num_rows,
            "carried": carried.num_rows,
        },
    )
    return found.without(compared.staged)


@dataclass(frozen=True)
class _Unstaged:
    """How what was staged at the base, and what may have become garbage, meets what is staged now.

    Attributes:
        left: What was staged at the base and is not now: columns of `CANDIDATES`, each once.
        staged: Hashes of what may have become garbage and is staged now.
    """

    left: pa.Table
    staged: Any


def _unstaged(run: Run, base: Base, staged: StoredTable, hashes: Any) -> _Unstaged:
    """Compare what is staged now with what was staged at the base, and with hashes."""
    before = base.table(tables.UNCOMMITTED_ADDRESSES)
    others = pa.table([hashes], schema=_HASHES)
    sources: dict[str, AnySource] = {
        "before": before.source(["address_hash", "address"]),
        "now": staged.source(_HASHES.names),
        "others": source_of(others, _HASHES),
    }
    work = Exchange(sources, _left, _HASHES, no_work)
    found, _ = work.run(lambda: run.spark, threads=run.options.read_threads)
    return _Unstaged(
        pa.concat_tables([one.left for one in found]),
        sorted_once(np.concatenate([one.staged for one in found])),
    )


def _left(bucket: Mapping[str, pa.Table]) -> Sent[_Unstaged]:
    before, others = bucket["before"], numbers_of(bucket["others"]["address_hash"])
    now = sorted_once(numbers_of(bucket["now"]["address_hash"]))
    left = before.filter(pa.array(~are_among(numbers_of(before["address_hash"]), now)))
    # With more than that a full run is due, however many there are.
    return Sent(_Unstaged(_once(left).slice(0, MOST + 1), others[are_among(others, now)]), {})


def lost_at(base: Base) -> list[str]:
    """Return the addresses whose objects were missing at the base, each once."""
    if not base.has(tables.MISSING_ADDRESSES):
        return []
    batches = base.table(tables.MISSING_ADDRESSES).batches()
    return sorted({name for batch in batches for name in batch.column("address").to_pylist()})


def among(run: Run, parts: Sequence[tuple[Part, pa.Schema]], hashes: Any) -> Any:
    """Return which of some hashes a table has in its column address_hash.

    Args:
        run: The run.
        parts: Files, and the schema of each.
        hashes: Hashes, sorted, each once; they travel with each task.
    """
    if not len(hashes) or not parts:
        return hashes[:0]
    found = run_tasks(
        lambda: run.spark,
        list(parts),
        partial(_among, run.store, hashes),
        rows=sum(part.rows for part, _ in parts),
    )
    return sorted_once(np.concatenate([hashes[:0], *found]))


def _among(store: ObjectStore, hashes: Any, _number: int, part: tuple[Part, pa.Schema]) -> Any:
    found = [hashes[:0]]
    file, schema = part
    for batch in reading.read_part(store, pa.schema([schema.field("address_hash")]), file):
        some = sorted_once(_numbers(batch.column(0)))
        found.append(some[are_among(some, hashes)])
    return sorted_once(np.concatenate(found))


def _listed(slices: StoredTable) -> tuple[Any, Any]:
    """Return the hashes of the candidates of a listing, sorted, and their sizes."""
    hashes, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for batch in slices.batches(["standing", "address_hash", "size_bytes"]):
        chosen = batch.filter(pc.equal(batch.column("standing"), rule.CANDIDATE))
        hashes.append(_numbers(chosen.column("address_hash")))
        sizes.append(_numbers(chosen.column("size_bytes")))
    found = np.concatenate(hashes)
    order = np.argsort(found, kind="stable")
    return found[order], np.concatenate(sizes)[order]


def _carried(run: Run, base: Base) -> pa.Table:
    """Return what the base named and nobody deleted, and what it kept for another cause."""
    kept = _addresses(run, base.saved.fates, schemas.FATES, "fate", _CARRIED)
    try:
        report = base.deletions()
    except ChainError:
        named = _addresses(run, base.saved.expired, schemas.EXPIRED_ADDRESSES)
    else:
        if went_whole(report):
            return kept
        parts = report.manifest.parts
        named = _addresses(run, parts, schemas.DELETION_REPORT, "outcome", _STILL_THERE)
    return pa.concat_tables([kept, named])


def _addresses(
    run: Run,
    parts: Sequence[Part],
    schema: pa.Schema,
    column: str | None = None,
    values: pa.Array | None = None,
) -> pa.Table:
    """Read addresses: of the rows of which a column has one of some values, or of all."""
    columns = ["address", *(() if column is None else (column,))]
    wanted = pa.schema([schema.field(name) for name in columns])
    rows = reading.source_of_parts(run.store, wanted, parts)
    found = rows.each(lambda: run.spark, partial(_chosen, column, values))
    return pa.Table.from_batches([batch for some in found for batch in some], CANDIDATES)


def _chosen(column: str | None, values: pa.Array | None, batches: Batches) -> list[pa.RecordBatch]:
    found = []
    for batch in batches:
        some = batch
        if column is not None:
            some = batch.filter(pc.is_in(batch.column(column), values))
        names = some.column("address").cast(pa.string())
        found.append(pa.record_batch([names, hashed(names)], schema=CANDIDATES))
    return found


def _listed_by(base: Base, names: pa.StringArray) -> pa.BooleanArray:
    return base.listed(slice_batch(names))


def _once(table: pa.Table) -> pa.Table:
    return table.group_by(CANDIDATES.names).aggregate([]).select(CANDIDATES.names).cast(CANDIDATES)


def _numbers(column: Any) -> Any:
    return column.to_numpy()
