"""One round of deletion as tasks: what is left of a plan is divided, each task deletes a part."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, hashed, with_address_hash
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Exchange, Sent, numbers_of
from spark_core.sweep.delete_batches import run_task
from spark_core.sweep.deletion_orders import DeletionOrders, Tally
from spark_core.sweep.spread import cores_here
from spark_core.sweep.stop_sign import StopSign
from spark_core.sweep.why_kept import Kept

PLANNED = pa.schema(
    [
        ADDRESS_HASH,
        *(
            schemas.EXPIRED_ADDRESSES.field(name)
            for name in ("address", "size_bytes", "last_modified", "slice")
        ),
    ]
)
_OF_A_TASK = ["address", "size_bytes", "last_modified", "why"]
# Objects directly below data/, or at the root, have no slice. This many groups of them are spread
# over tasks.
_GROUPS_WITHOUT_SLICE = 64


def objects_of_plan(expired: StoredTable) -> AnySource:
    """Return the objects of a plan: columns of `PLANNED`."""
    return expired.source(PLANNED.names[1:]).through(PLANNED, with_address_hash)


def delete_as_tasks(
    run: Run,
    sources: Mapping[str, AnySource],
    kept: Kept,
    orders: DeletionOrders,
    tasks: int,
    *,
    is_here: bool,
) -> Tally:
    """Delete what is left of a plan, as tasks; the objects of a slice are in one of them.

    Args:
        run: The run.
        sources: The objects of the plan, `planned`, and those that are `concluded`.
        kept: What something refers to now; it travels with the orders, so that none gets lost.
        orders: What to do.
        tasks: How many tasks at most.
        is_here: Whether threads of this process are the tasks.
    """
    divide = partial(_left, tasks)
    if is_here:
        sent = divide({name: each.here(orders.threads) for name, each in sources.items()})
        tallies = _side_by_side(sent.rows, orders, kept)
    else:
        delete = partial(_delete, orders, kept)
        met = Exchange(sources, divide, PLANNED, delete)
        _, tallies = met.run(lambda: run.spark, threads=orders.threads)
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _left(tasks: int, bucket: Mapping[str, pa.Table]) -> Sent[None]:
    """Divide what is left of a plan: a task must have a slice whole, since it lists the slice.

    Objects without a slice are asked for one by one.
    """
    rows, concluded = bucket["planned"], bucket["concluded"]["address"].combine_chunks()
    left = rows.filter(pc.invert(pc.is_in(rows["address"], value_set=concluded)))
    alone = numbers_of(left["address_hash"]) % _GROUPS_WITHOUT_SLICE
    together = hashed(left["slice"].combine_chunks()).to_numpy()
    is_alone = numbers_of(pc.equal(left["slice"], ""))
    numbers = np.where(is_alone, alone, together).view(np.uint64) % np.uint64(tasks)
    return Sent(
        None,
        {int(number): left.filter(pa.array(numbers == number)) for number in np.unique(numbers)},
    )


def _delete(orders: DeletionOrders, kept: Kept, number: int, rows: pa.Table) -> Tally:
    rows = rows.sort_by([("slice", "ascending"), ("address", "ascending")])
    rows = rows.append_column("why", kept.why(numbers_of(rows["address_hash"])))
    return run_task(orders, number, rows.select(_OF_A_TASK))


def _side_by_side(tasks: Mapping[int, pa.Table], orders: DeletionOrders, kept: Kept) -> list[Tally]:
    """Delete the objects of all tasks on threads; if one fails, the others send nothing more."""
    ended = orders.is_ended or StopSign()
    stoppable = replace(orders, is_ended=ended)

    def delete(number: int, rows: pa.Table) -> Tally:
        try:
            return _delete(stoppable, kept, number, rows)
        except BaseException:
            ended.put_up()
            raise

    with ThreadPoolExecutor(cores_here(), thread_name_prefix="lakegc-task") as pool:
        try:
            return list(pool.map(delete, tasks, tasks.values()))
        finally:
            # Who ends the sweep at once need not wait for the end of the round.
            ended.put_up()
