"""What meets in the decision: listed objects, and what refers to them, read with their hashes.

Optimized runs first leave out the references that meet no listed object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import are_among, sorted_once
from spark_core.fates.deciding import OF_STANDING
from spark_core.holds import Holds
from spark_core.optimized.listing import Comparable, Listing
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.exchange import AnySource, Source, numbers_of
from spark_core.spark.tasks import run_tasks
from spark_core.storage import ObjectStore

# Bits for what references say of a hash: a commit or a staged entry refers to it, a branch or a
# staged entry reads from it below `data/`, an expired commit has it.
BY_COMMIT, BY_STAGED, LIVE, EXPIRED = 1, 2, 4, 8
# Bits for what else is known of an object.
HELD, DUE, UNNAMED = 16, 32, 64
# What references say of a hash: the bits of all of them together, the least and the largest size
# that an entry gives (the least is larger where none gives one), and their number.
REFERENCES = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("bits", pa.int32(), nullable=False),
        pa.field("least_bytes", pa.int64(), nullable=False),
        pa.field("most_bytes", pa.int64(), nullable=False),
        pa.field("references", pa.int64(), nullable=False),
    ]
)
_SIZES = np.iinfo(np.int64)
# Where a listed object is: the task that reads its row again, the part, and the row in it.
PLACE = (
    pa.field("task", pa.int32(), nullable=False),
    pa.field("part", pa.int32(), nullable=False),
    pa.field("row", pa.int32(), nullable=False),
)
# `alone` is the number of the fate by name and age alone.
ALONE = pa.field("alone", pa.int8(), nullable=False)
LISTED = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        *PLACE,
        pa.field("size_bytes", pa.int64(), nullable=False),
        ALONE,
        pa.field("is_held", pa.bool_(), nullable=False),
    ]
)
# Who names an object, by which address, and why it may go by that; both are null if nobody does.
NAMING = (pa.field("named_as", pa.string()), pa.field("why", pa.string()))
NAMED = pa.schema([pa.field("address_hash", pa.int64(), nullable=False), *NAMING])
"""Columns of what names objects by their addresses: a policy, or a mark of lakeFS's own job."""
# Rows that are worth a task of their own.
_ROWS_OF_A_TASK = 250_000


def listed_of(run: Run, listing: Listing, held: Holds) -> AnySource:
    """Return the listed objects: columns of `LISTED`."""
    tasks = list(enumerate(_together(list(enumerate(listing.parts)))))
    return Source(LISTED, tasks, listing.rows, partial(_read_listed, run.store, held))


def references_of(
    run: Run, listing: Listing, staged: StoredTable, committed: StoredTable
) -> tuple[AnySource, int, int]:
    """Return what refers to objects: columns of `REFERENCES`.

    Args:
        run: The run.
        listing: The listed objects.
        staged: Table 2.
        committed: Table 4.

    Returns:
        The references, their number, and how many of them were left out.
    """
    parts = [
        *[("staged", part) for part in staged.manifest.parts],
        *[("committed", part) for part in committed.manifest.parts],
        *[("expired", part) for part in committed.manifest.beside],
    ]
    rows = sum(part.rows for _, part in parts)
    read = partial(_read_references, run.store, listing.comparable)
    known = Source(REFERENCES, _together(parts), rows, read, combined)
    is_much = not placement.driver_works(listing.rows + rows)
    if is_much and listing.comparable is not None and _are_held(listing, parts):
        # Most of what is staged lies in slices that were not listed.
        meeting, left_out = _meeting(run, known, listing.parts)
        return meeting, rows, left_out
    return known, rows, 0


def _are_held(listing: Listing, references: Sequence[tuple[str, Part]]) -> bool:
    """Say whether the driver may hold the hashes of a listing, and of what may meet them."""
    unstaged = sum(part.rows for kind, part in references if kind != "staged")
    return placement.driver_works(listing.rows + unstaged)


def _meeting(run: Run, references: Source[Any], parts: Sequence[Part]) -> tuple[Source[Any], int]:
    """Read the references that have the hash of a listed object, or that count as live.

    The others decide nothing, and are only counted.

    Args:
        run: The run.
        references: How they are read.
        parts: Files of the listed objects; their hashes travel with each task.

    Returns:
        Those references, and how many others were left out.
    """
    wanted = columns_of(schemas.NAMESPACE_SLICES, "address_hash")
    hashes = [
        batch.column("address_hash").to_numpy()
        for part in parts
        for batch in reading.read_part(run.store, wanted, part)
    ]
    listed = sorted_once(np.concatenate([np.empty(0, np.int64), *hashes]))
    found = run_tasks(
        lambda: run.spark,
        references.tasks,
        partial(_meet, references.read, listed),
        rows=references.rows,
    )
    tables = [table for table, _ in found]
    rows = sum(table.num_rows for table in tables)
    meeting = Source(REFERENCES, tables, rows, _batches_of, combined)
    return meeting, sum(count for _, count in found)


def _batches_of(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.to_batches()


def _meet(
    read: Callable[[Sequence[tuple[str, Part]]], Iterator[pa.RecordBatch]],
    hashes: Any,
    _number: int,
    parts: Sequence[tuple[str, Part]],
) -> tuple[pa.Table, int]:
    found, left_out = list[pa.RecordBatch](), 0
    for batch in read(parts):
        is_live = batch.column("bits").to_numpy() & LIVE != 0
        meets = is_live | are_among(batch.column("address_hash").to_numpy(), hashes)
        found.append(batch.filter(pa.array(meets)))
        left_out += batch.num_rows - found[-1].num_rows
    return pa.Table.from_batches(found, REFERENCES), left_out


def _together(parts: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Put small parts into one task."""
    tasks: list[list[Any]] = []
    held = _ROWS_OF_A_TASK
    for part in parts:
        if held >= _ROWS_OF_A_TASK:
            tasks.append([])
            held = 0
        tasks[-1].append(part)
        held += part[1].rows
    return [tuple(task) for task in tasks]


def _read_listed(
    store: ObjectStore, held: Holds, task: tuple[int, Sequence[tuple[int, Part]]]
) -> Iterator[pa.RecordBatch]:
    """Read listed objects: columns of `LISTED`."""
    standings, alone = pa.array(rule.STANDINGS), pa.array(OF_STANDING)
    address = ("address",) if held.of_addresses else ()
    wanted = columns_of(
        schemas.NAMESPACE_SLICES, *address, "address_hash", "size_bytes", "standing"
    )
    for number, part in task[1]:
        row = 0
        for batch in reading.read_part(store, wanted, part):
            rows = pa.array(np.arange(row, row + batch.num_rows, dtype=np.int32))
            row += batch.num_rows
            yield pa.record_batch(
                [
                    batch.column("address_hash"),
                    _same(task[0], batch),
                    _same(number, batch),
                    rows,
                    batch.column("size_bytes"),
                    alone.take(pc.index_in(batch.column("standing"), standings)),
                    held.protecting(batch.column("address"))
                    if address
                    else pa.repeat(False, batch.num_rows),
                ],
                schema=LISTED,
            )


def _read_references(
    store: ObjectStore, comparable: Comparable | None, parts: Sequence[tuple[str, Part]]
) -> Iterator[pa.RecordBatch]:
    """Read references: columns of `REFERENCES`, a row for each."""
    wanted = {
        "staged": columns_of(schemas.UNCOMMITTED_ADDRESSES, "address", "address_hash"),
        "committed": columns_of(
            schemas.COMMITTED_ADDRESSES,
            *(() if comparable is None else ("address",)),
            "address_hash",
            "size_bytes",
            "is_live",
        ),
        "expired": columns_of(schemas.COMMITTED_ADDRESSES, "address_hash"),
    }
    for kind, part in parts:
        for batch in reading.read_part(store, wanted[kind], part):
            sizes = pa.nulls(batch.num_rows, pa.int64())
            if kind == "committed":
                is_live = _compared(comparable, batch, batch.column("is_live"))
                bits = pc.if_else(is_live, BY_COMMIT | LIVE, BY_COMMIT).cast(pa.int32())
                sizes = batch.column("size_bytes")
            elif kind == "staged":
                in_data = pc.starts_with(batch.column("address"), "data/")
                in_data = _compared(comparable, batch, in_data)
                bits = pc.if_else(in_data, BY_STAGED | LIVE, BY_STAGED).cast(pa.int32())
            else:
                bits = _same(EXPIRED, batch)
            yield pa.record_batch(
                [
                    batch.column("address_hash"),
                    bits,
                    sizes.fill_null(_SIZES.max),
                    sizes.fill_null(_SIZES.min),
                    pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows),
                ],
                schema=REFERENCES,
            )


def _same(number: int, batch: pa.RecordBatch) -> pa.Int32Array:
    return pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)


def _compared(
    comparable: Comparable | None, batch: pa.RecordBatch, is_live: pa.BooleanArray
) -> pa.BooleanArray:
    """Leave out the references whose objects the listing need not have."""
    if comparable is None:
        return is_live
    return pc.and_(is_live, comparable.mask(batch.column("address"), batch.column("address_hash")))


def columns_of(schema: pa.Schema, *names: str) -> pa.Schema:
    """Return some columns of a schema."""
    return pa.schema([schema.field(name) for name in names])


def combined(references: pa.Table) -> pa.Table:
    """Make one row of the references of each hash, sorted by it; columns of `REFERENCES`."""
    hashes, bits, least, most, counts = (numbers_of(references[name]) for name in REFERENCES.names)
    order = np.argsort(hashes)
    hashes = hashes[order]
    begins = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))[: hashes.size]
    if not begins.size:
        return REFERENCES.empty_table()
    return pa.table(
        [
            hashes[begins],
            *(
                how.reduceat(column[order], begins)
                for how, column in (
                    (np.bitwise_or, bits),
                    (np.minimum, least),
                    (np.maximum, most),
                    (np.add, counts),
                )
            ),
        ],
        schema=REFERENCES,
    )
