"""Look up single objects in the store, where a run does not list their slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.collectable import slice_of
from spark_core.errors import NotFoundError
from spark_core.run import Run
from spark_core.spark.tasks import deal_out, interleaved, run_tasks
from spark_core.storage import ObjectStore
from spark_core.storage.contract import OrderedStore
from spark_core.storage.listing_rows import LISTING_BATCH_ROWS

# Objects that are worth a task of their own.
_OBJECTS_OF_A_TASK = 100_000
# Objects of a slice that are asked for one by one, where the store does not list from a name on.
_ONE_BY_ONE = 32

# The folder of a slice, and the wanted addresses in it, in order.
_Group = tuple[str, tuple[str, ...]]

_DATA = "data/"


def look_up(run: Run, addresses: Sequence[str]) -> pa.Table:
    """Find objects in the store, as a listing shows them.

    Neighbours come with one page, and pages without a wanted name are passed over. So it never
    takes more pages than listing the slices.

    Args:
        run: The run.
        addresses: Relative addresses; each once.

    Returns:
        Columns of `schemas.OBJECT_LISTING`, only of wanted objects that are there.

    Raises:
        LakegcError: If the store cannot be asked.
    """
    groups: list[_Group] = [
        (f"{_DATA}{name}/" if name else "", tuple(some))
        for name, some in groupby(sorted(addresses, key=lambda one: (slice_of(one), one)), slice_of)
    ]
    threads = run.options.read_threads
    count = -(-len(addresses) // _OBJECTS_OF_A_TASK)
    found = run_tasks(
        lambda: run.spark,
        deal_out(groups, run.reading_tasks(count)),
        partial(_look_up, run.store, threads),
        rows=len(addresses),
    )
    return pa.concat_tables([schemas.OBJECT_LISTING.empty_table(), *found])


def _look_up(store: ObjectStore, threads: int, _number: int, groups: Sequence[_Group]) -> pa.Table:
    batches = interleaved(groups, partial(_in_slice, store), threads=threads)
    return pa.Table.from_batches(batches, schemas.OBJECT_LISTING)


def _in_slice(store: ObjectStore, group: _Group) -> Iterator[pa.RecordBatch]:
    prefix, wanted = group
    if prefix and isinstance(store, OrderedStore):
        yield from _by_pages(store, prefix, wanted)
    elif prefix and len(wanted) > _ONE_BY_ONE:
        names = pa.array(wanted, pa.string())
        for batch in store.list(prefix):
            yield batch.filter(pc.is_in(batch.column("key"), names))
    else:
        yield from _one_by_one(store, wanted)


def _by_pages(store: OrderedStore, prefix: str, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    left = list(wanted)
    while left:
        # Hardly a name lies between the beginning of the next name and the next name itself.
        after = left[0][:-1]
        for page in store.pages(prefix, after=after):
            keys = page.rows.column("key")
            # A store that begins at the beginning all the same shows again what was found.
            yield page.rows.filter(pc.is_in(keys, pa.array(left, pa.string())))
            if page.is_last:
                return
            last = keys[-1].as_py() if len(keys) else ""
            left = [name for name in left if name > last]
            # Such a store is read on, and so is one of which nothing can be passed over.
            if not left or (last >= after and left[0][:-1] > last):
                break


def _one_by_one(store: ObjectStore, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    rows = []
    for name in wanted:
        try:
            found = store.head(name)
        except NotFoundError:
            continue
        rows.append(
            {
                "key": name,
                "size_bytes": found.size_bytes,
                "last_modified": found.last_modified,
                "checksum": found.checksum,
            }
        )
    for begin in range(0, len(rows), LISTING_BATCH_ROWS):
        yield pa.RecordBatch.from_pylist(
            rows[begin : begin + LISTING_BATCH_ROWS], schema=schemas.OBJECT_LISTING
        )
