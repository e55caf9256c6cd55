"""Objects that may go and were taken from the index: each is seen in the store before it is named.

An index may keep an object; it never proves that one is there, or is as it was. What is gone leaves
the decision. What was written over is decided anew, by what the store shows of it now.

Neighbours come with one page. Where looking would cost more than a part of a listing of everything,
it is left out: nothing goes by it, as a sweep looks at each object before its request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.candidates import Limits
from spark_core.errors import IncompleteReadError
from spark_core.fates.deciding import MAY_GO, OF_STANDING
from spark_core.index import choosing
from spark_core.index.choosing import Index
from spark_core.index.lookups import look_up
from spark_core.mark.compared import columns_of
from spark_core.mark.fate_rows import WAITING, Decided, FateTargets, rows_of_fates, until_of
from spark_core.mark.fates_by_answers import fates_of_waiting
from spark_core.mark.listed_rows import add_standings
from spark_core.records import reading, tables, writing
from spark_core.records.figures import AmountFigures, ListedFigures, SeenFigures
from spark_core.records.manifest import Part
from spark_core.run import Run
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore

# Requests that are always worth it, and the share of a listing of everything that is.
_REQUESTS = 1_000
_SHARE = 0.05
# Objects that a page shows.
_OF_A_PAGE = 1_000
# Addresses that the driver holds at most.
_MOST = 1_000_000

# What the index says of an object that waits.
_SAID = columns_of(
    WAITING, "address", "address_hash", "size_bytes", "last_modified", "checksum", "alone"
)
_SLICES = columns_of(WAITING, "slice")


@dataclass(frozen=True)
class SeenAgain:
    """What came of it.

    Attributes:
        decided: The decision, of which nothing waits that is gone.
        changed: The objects that were written over, as the store shows them: columns of
            `schemas.NAMESPACE_SLICES`.
        figures: Figures of table 5 by name; none in a clean run.
    """

    decided: Decided
    changed: pa.Table = field(default_factory=schemas.NAMESPACE_SLICES.empty_table)
    figures: Mapping[str, Any] = field(default_factory=dict)


def seen_again(run: Run, decided: Decided, targets: FateTargets) -> SeenAgain:
    """Look at the objects that wait and were taken from the index.

    Args:
        run: The run.
        decided: The decision, before branches are asked.
        targets: Where its rows are written.

    Raises:
        LakegcError: If the store cannot be asked.
    """
    index = choosing.index_of_mark(run)
    if index is None:
        return SeenAgain(decided)
    slices = _of_index(run, index, decided.waiting_parts)
    count = sum(slices.values())
    if count > _MOST or _requests(run, slices) > _limit(run):
        return SeenAgain(decided, figures={"seen": SeenFigures(unseen_objects=count)})
    said = _waiting_in(run, slices, decided.waiting_parts)
    shown = look_up(run, said["address"].to_pylist())
    found = pa.Table.from_batches(
        [
            add_standings(batch, run.store, run.limits)
            for batch in shown.to_batches()
            if batch.num_rows
        ],
        schemas.NAMESPACE_SLICES,
    )
    gone = said.filter(pc.invert(pc.is_in(said["address"], value_set=_names(found))))
    changed = _changed(said, found)
    figures: dict[str, Any] = {"seen": SeenFigures(objects=count, changed_objects=changed.num_rows)}
    if gone.num_rows:
        size_bytes = pc.sum(gone["size_bytes"]).as_py()
        figures["vanished"] = AmountFigures(objects=gone.num_rows, bytes=size_bytes)
    if not (gone.num_rows or changed.num_rows):
        return SeenAgain(decided, figures=figures)
    orders = _WaitingOrders(
        run.store,
        targets,
        _names(gone),
        changed,
        run.key.instant,
        run.limits,
        is_left=not run.options.collects_unreachable,
    )
    return SeenAgain(_without(run, decided, orders), changed, figures)


def _requests(run: Run, slices: Mapping[str, int]) -> int:
    """Estimate the requests that it takes to see some objects of each slice.

    Args:
        run: The run.
        slices: Number of objects, by slice.
    """
    index = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).index
    pages = 1
    if index is not None and index.slices:
        pages += index.objects // index.slices // _OF_A_PAGE
    return sum(min(count, pages) for count in slices.values())


def _limit(run: Run) -> int:
    listed = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    return max(_REQUESTS, int(_SHARE * (listed.slices + listed.objects // _OF_A_PAGE)))


def _of_index(run: Run, index: Index, parts: Sequence[Part]) -> Counter[str]:
    """Count the objects that wait in each slice that was taken from the index."""
    found = run_tasks(
        lambda: run.spark,
        reading.join_small_parts(parts),
        partial(_count, run.store),
        rows=sum(part.rows for part in parts),
    )
    counted = Counter[str]()
    for some in found:
        counted.update(some)
    return Counter({name: count for name, count in counted.items() if not index.lists(name)})


def _count(store: ObjectStore, _number: int, parts: Sequence[Part]) -> Counter[str]:
    found = Counter[str]()
    for part in parts:
        for batch in reading.read_part(store, _SLICES, part):
            for row in batch.column("slice").value_counts().to_pylist():
                found[row["values"]] += row["counts"]
    return found


def _waiting_in(run: Run, slices: Counter[str], parts: Sequence[Part]) -> pa.Table:
    """Return the objects that wait in some slices: columns of `_SAID`."""
    if not slices:
        return _SAID.empty_table()
    wanted = pa.schema([*_SAID, *_SLICES])
    waiting = reading.source_of_parts(run.store, wanted, parts)
    names = pa.array(sorted(slices), pa.string())
    found = waiting.each(lambda: run.spark, partial(_in_slices, names))
    return pa.concat_tables([_SAID.empty_table(), *found])


def _in_slices(names: pa.StringArray, batches: Any) -> pa.Table:
    found = [
        batch.filter(pc.is_in(batch.column("slice"), value_set=names)).select(_SAID.names)
        for batch in batches
    ]
    return pa.Table.from_batches(found, _SAID)


def _names(rows: pa.Table) -> pa.StringArray:
    return rows["address"].combine_chunks()


def _changed(said: pa.Table, found: pa.Table) -> pa.Table:
    """Return the objects of which the store shows something else than the index says.

    A checksum that only one of them has says nothing, and stores cut times differently.
    """
    there = found.combine_chunks()
    before = said.take(pc.index_in(there["address"], value_set=_names(said)))
    alone = pa.chunked_array([_alone(there["standing"].combine_chunks())])
    differs = pc.or_(
        pc.or_(
            pc.not_equal(there["size_bytes"], before["size_bytes"]),
            pc.greater(there["last_modified"], before["last_modified"]),
        ),
        pc.or_(
            pc.not_equal(there["checksum"], before["checksum"]).fill_null(False),
            pc.not_equal(alone, before["alone"]),
        ),
    )
    return there.filter(differs)


def _alone(standings: pa.StringArray) -> pa.Int8Array:
    """Return the numbers of the fates by name and age alone."""
    places = pc.index_in(standings, value_set=pa.array(rule.STANDINGS))
    return pa.array(OF_STANDING).take(places)


@dataclass(frozen=True)
class _WaitingOrders:
    """What tasks are told that write what waits anew.

    Attributes:
        store: Rooted at the namespace.
        targets: Where the rows go.
        gone: Addresses of what is gone.
        changed: As in `SeenAgain`.
        instant: The run's instant.
        limits: Its limits.
        is_left: Whether what nothing reaches is left to another run.
    """

    store: ObjectStore
    targets: FateTargets
    gone: pa.StringArray
    changed: pa.Table
    instant: datetime
    limits: Limits
    is_left: bool


def _without(run: Run, decided: Decided, orders: _WaitingOrders) -> Decided:
    """Write what waits anew, without what is gone, and with what was written over."""
    parts, before = decided.waiting_parts, sum(decided.objects.values())
    rows = sum(part.rows for part in parts)
    after = replace(decided, waiting=[])
    tasks = reading.join_small_parts(parts)
    for receipt in run_tasks(lambda: run.spark, tasks, partial(_write, orders), rows=rows):
        after.merge(receipt)
    came = sum(part.rows for part in after.waiting_parts) + sum(after.objects.values())
    if came != before + rows - len(orders.gone):
        raise IncompleteReadError(
            f"repository {run.repository.id}: objects that wait got lost when they were compared "
            "with the store",
            "Run again; if it stays, report it with this text.",
        )
    run.store.delete([part.key for part in parts if not part.content])
    return after


def _write(orders: _WaitingOrders, number: int, parts: Sequence[Part]) -> Decided:
    """Decide anew about the objects of some files; runs on an executor."""
    decided, waiting, stay = Decided(), list[pa.RecordBatch](), list[pa.RecordBatch]()
    for part in parts:
        for batch in reading.read_part(orders.store, WAITING, part):
            left = batch.filter(pc.invert(pc.is_in(batch.column("address"), value_set=orders.gone)))
            rows = _as_shown(left, orders.changed)
            codes = fates_of_waiting(rows, is_left=orders.is_left)
            may_go = np.isin(codes, MAY_GO)
            waiting.append(rows.filter(pa.array(may_go)))
            stay.append(_kept(orders, rows.filter(pa.array(~may_go)), codes[~may_go]))
            decided.count(codes[~may_go], rows.column("size_bytes").to_numpy()[~may_go])
    decided.waiting.append(writing.write_parts(orders.targets.waiting, number, iter(waiting)))
    decided.fates.append(writing.write_parts(orders.targets.fates, number, iter(stay)))
    return decided


def _as_shown(waiting: pa.RecordBatch, changed: pa.Table) -> pa.RecordBatch:
    """Replace what the index says of objects that were written over."""
    at = pc.index_in(waiting.column("address"), value_set=_names(changed))
    is_other = at.is_valid()
    if not pc.any(is_other).as_py():
        return waiting
    shown = changed.combine_chunks().take(at)
    columns = dict(zip(waiting.schema.names, waiting.columns, strict=True))
    now = {
        name: shown[name].combine_chunks() for name in ("size_bytes", "last_modified", "checksum")
    }
    now["alone"] = _alone(shown["standing"].combine_chunks())
    for name, column in now.items():
        columns[name] = pc.if_else(is_other, column, columns[name])
    return pa.record_batch(list(columns.values()), schema=WAITING)


def _kept(orders: _WaitingOrders, rows: pa.RecordBatch, codes: Any) -> pa.RecordBatch:
    """Return the fates of what stays after all."""
    return rows_of_fates(
        rows.column("address_hash").to_numpy(),
        codes,
        rows.column("size_bytes").to_numpy(),
        until=until_of(codes, rows, orders.limits, orders.instant),
        addresses=rows.column("address"),
    )
