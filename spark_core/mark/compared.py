"""What meets in the decision: listed objects, and what refers to them, read with their hashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import Numbered
from spark_core.fates.deciding import OF_STANDING, Known
from spark_core.holds import Holds
from spark_core.index.entry_numbers import IN_DATA
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.records.reading import StoredTable
from spark_core.references.known_ranges import EXPIRED, HEAD, RETAINED, TakenRanges
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, JoinedSource, Source, numbers_of
from spark_core.storage import ObjectStore

# Bits for what references say of a hash: a commit or a staged entry refers to it, a branch or a
# staged entry reads from it below `data/`, an expired commit has it.
BY_COMMIT, BY_STAGED, LIVE, BY_EXPIRED_COMMIT = 1, 2, 4, 8
# Bits for what else is known of an object.
HELD, DUE, UNNAMED = 16, 32, 64
# More of what references say: an entry of a retained commit gives a size; two give two.
SIZED, SIZES_DIFFER = 128, 256
# What references say of a hash: the bits of all of them together, the size that an entry gives (0
# where none does), and their number.
REFERENCES = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("bits", pa.int16(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("references", pa.int32(), nullable=False),
    ]
)
# Where a listed object is: the part, and the row in it.
PLACE = (
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


def listed_objects(run: Run, slices: StoredTable, held: Holds) -> AnySource:
    """Return the listed objects, those of table 1: columns of `LISTED`."""
    tasks = _join_small(list(enumerate(slices.manifest.parts)))
    return Source(LISTED, tasks, slices.manifest.rows, partial(_read_listed, run.store, held))


def tasks_of(parts: Sequence[Part]) -> Any:
    """Return for each part of the listing the number of the task that reads its rows again."""
    tasks = enumerate(_join_small(list(enumerate(parts))))
    return np.array([number for number, task in tasks for _ in task], np.int32)


def references_to_objects(run: Run, staged: StoredTable, committed: StoredTable) -> AnySource:
    """Return what refers to objects: columns of `REFERENCES`.

    Args:
        run: The run.
        staged: Table 2.
        committed: Table 4; what it took from the index is among them.
    """
    parts = [
        *[("staged", part) for part in staged.manifest.parts],
        *[("committed", part) for part in committed.manifest.parts],
        *[("expired", part) for part in committed.manifest.beside],
    ]
    rows = sum(part.rows for _, part in parts)
    read = partial(_read_references, run.store)
    known = Source(REFERENCES, _join_small(parts), rows, read, combine_references)
    taken = TakenRanges.of(run, committed)
    if taken.is_empty:
        return known
    entries = taken.entries(HEAD, RETAINED, EXPIRED, compares=True)
    return JoinedSource([known, entries.through(REFERENCES, _of_taken, combine_references)])


# What an entry that was taken from the index says, by the commits of its range.
_BITS_OF_KINDS = {HEAD: BY_COMMIT | LIVE, RETAINED: BY_COMMIT, EXPIRED: BY_EXPIRED_COMMIT}


def _of_taken(batches: Batches) -> Batches:
    """Return what entries of the index say: columns of `REFERENCES`, a row for each."""
    for batch in batches:
        kinds, flags, sizes = (
            numbers_of(batch.column(name)) for name in ("kind", "flags", "size_bytes")
        )
        bits = np.zeros(batch.num_rows, np.int16)
        for kind, says in _BITS_OF_KINDS.items():
            bits[kinds == kind] = says
        bits[flags & IN_DATA == 0] &= ~LIVE
        # Expired commits have no say in sizes.
        yield _saying(batch, bits, pa.array(sizes, mask=bits & BY_COMMIT == 0))


def _saying(batch: pa.RecordBatch, bits: Any, sizes: pa.Int64Array) -> pa.RecordBatch:
    """Return a row for each reference, columns of `REFERENCES`; a size is null if none is given."""
    sized = np.where(sizes.is_valid(), np.int16(SIZED), np.int16(0))
    return pa.record_batch(
        [
            batch.column("address_hash"),
            bits | sized,
            sizes.fill_null(0),
            np.ones(batch.num_rows, np.int32),
        ],
        schema=REFERENCES,
    )


def _join_small(parts: Sequence[Any]) -> list[tuple[Any, ...]]:
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
    store: ObjectStore, held: Holds, task: Sequence[tuple[int, Part]]
) -> Iterator[pa.RecordBatch]:
    """Read listed objects: columns of `LISTED`."""
    standings, alone = pa.array(rule.STANDINGS), pa.array(OF_STANDING)
    address = ("address",) if held.of_addresses else ()
    wanted = columns_of(
        schemas.NAMESPACE_SLICES, *address, "address_hash", "size_bytes", "standing"
    )
    for number, part in task:
        row = 0
        for batch in reading.read_part(store, wanted, part):
            rows = pa.array(np.arange(row, row + batch.num_rows, dtype=np.int32))
            row += batch.num_rows
            yield pa.record_batch(
                [
                    batch.column("address_hash"),
                    pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows),
                    rows,
                    batch.column("size_bytes"),
                    alone.take(pc.index_in(batch.column("standing"), standings)),
                    held.protecting(batch.column("address"))
                    if address
                    else pa.repeat(False, batch.num_rows),
                ],
                schema=LISTED,
            )


def _read_references(store: ObjectStore, parts: Sequence[tuple[str, Part]]) -> Batches:
    """Read references: columns of `REFERENCES`, a row for each."""
    wanted: Mapping[str, pa.Schema] = {
        "staged": columns_of(schemas.UNCOMMITTED_ADDRESSES, "address", "address_hash"),
        "committed": columns_of(
            schemas.COMMITTED_ADDRESSES, "address_hash", "size_bytes", "is_live"
        ),
        "expired": columns_of(schemas.COMMITTED_ADDRESSES, "address_hash"),
    }
    for kind, part in parts:
        for batch in reading.read_part(store, wanted[kind], part):
            bits = np.full(batch.num_rows, BY_EXPIRED_COMMIT, np.int16)
            sizes = pa.nulls(batch.num_rows, pa.int64())
            if kind == "committed":
                is_live = numbers_of(batch.column("is_live"))
                bits = np.where(is_live, BY_COMMIT | LIVE, BY_COMMIT).astype(np.int16)
                sizes = batch.column("size_bytes")
            elif kind == "staged":
                in_data = numbers_of(pc.starts_with(batch.column("address"), "data/"))
                bits = np.where(in_data, BY_STAGED | LIVE, BY_STAGED).astype(np.int16)
            yield _saying(batch, bits, sizes)


def columns_of(schema: pa.Schema, *names: str) -> pa.Schema:
    """Return some columns of a schema."""
    return pa.schema([schema.field(name) for name in names])


def combine_references(references: pa.Table) -> pa.Table:
    """Make one row of the references of each hash; columns of `REFERENCES`."""
    return numbered_references(references)[1]


def numbered_references(references: pa.Table) -> tuple[Numbered, pa.Table]:
    """Make one row of the references of each hash, in the order of the hashes' numbers.

    Args:
        references: Columns of `REFERENCES`.

    Returns:
        What finds the row of a hash, and the rows: columns of `REFERENCES`.
    """
    from spark_core.addresses.hash_loops import join_sayings

    hashes, bits, sizes, counts = (numbers_of(references[name]) for name in REFERENCES.names)
    numbers = Numbered(hashes)
    count = numbers.hashes.size
    all_bits, all_sizes = np.zeros(count, np.int16), np.zeros(count, np.int64)
    join_sayings(numbers.of_rows, bits, sizes, SIZED, SIZES_DIFFER, all_bits, all_sizes)
    # Numbers below 2**53 are exact, and a task has fewer rows.
    in_all = np.bincount(numbers.of_rows, counts, count).astype(np.int32)
    return numbers, pa.table([numbers.hashes, all_bits, all_sizes, in_all], schema=REFERENCES)


def known_by(alone: Any, bits: Any, *, is_left: bool) -> Known:
    """Bring what is known of objects into the form that decides.

    Args:
        alone: Numbers of the fates by name and age alone.
        bits: Bits for what references and others say.
        is_left: Whether what nothing reaches is left to another run.
    """
    return Known(
        alone,
        is_committed=bits & BY_COMMIT != 0,
        is_staged=bits & BY_STAGED != 0,
        is_held=bits & HELD != 0,
        is_due=bits & DUE != 0,
        is_left=is_left,
        is_unnamed=bits & UNNAMED != 0,
    )
