"""Read every entry of every range of a history, with its path and date.

Commits share ranges, so each range is read once, and the cost follows the distinct ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import graveler
from spark_core.addresses.collectable import may_be_own
from spark_core.errors import CorruptTableError, NotFoundError
from spark_core.references.kept_objects import alive_hashes
from spark_core.references.policies.due import RETAINED
from spark_core.references.policies.range_changes import History
from spark_core.references.table_reader import TableReader
from spark_core.run import Run
from spark_core.spark.exchange import Batches, Source
from spark_core.spark.tasks import ReadingTasks, interleaved

# An entry of a range, or a range of which all entries are there.
ENTRIES = pa.schema(
    [
        # Hash of the object that the entry keeps: see `references.kept_objects`.
        pa.field("address_hash", pa.int64(), nullable=False),
        # Null in the row of a range.
        pa.field("path", pa.binary()),
        # Its date in microseconds since 1970.
        pa.field("modified", pa.int64(), nullable=False),
        # Number of the range in `History.changes`.
        pa.field("range", pa.int32(), nullable=False),
        # Only in the row of a range: how many of its entries lie inside; `UNREAD` if nobody knows.
        pa.field("inside", pa.int32()),
    ]
)
UNREAD = -1

# A range for a task to read: its number, id and count, and whether a retained commit has it.
_Row = tuple[int, str, int, bool]

_RANGES_OF_A_TASK = 256
_ENTRIES_OF_A_TASK = 200_000
_MICROS = 1_000_000


def entries_of(
    run: Run, reader: TableReader, history: History, unread: AbstractSet[int] = frozenset()
) -> Source[Any]:
    """Return every entry of every range that lies in the namespace, and a row for each range.

    Args:
        run: The run.
        reader: What executors read with.
        history: Its ranges.
        unread: Numbers of ranges that cannot be read, and are not asked for again.

    Returns:
        Columns of `ENTRIES`.
    """
    rows = [
        (number, range_id, count, bool(changes.bits & RETAINED))
        for number, ((range_id, count, _), changes) in enumerate(
            zip(history.ranges, history.changes, strict=True)
        )
    ]
    tasks = _deal_ranges(rows, run.reading_tasks)
    count = history.entries(unread) + len(rows)
    return Source(ENTRIES, tasks, count, partial(_read, reader, unread))


def _deal_ranges(rows: Sequence[_Row], reading_tasks: ReadingTasks) -> list[tuple[_Row, ...]]:
    """Deal ranges out to tasks by files and entries; neighbours, often alike, stay together."""
    if not rows:
        return []
    weights = np.maximum(
        np.array([row[2] for row in rows]) / _ENTRIES_OF_A_TASK, 1 / _RANGES_OF_A_TASK
    )
    count = reading_tasks(int(np.ceil(weights.sum())))
    ends = np.searchsorted(
        np.cumsum(weights), np.linspace(0, weights.sum(), count + 1)[1:-1], side="right"
    )
    bounds = sorted({0, *ends.tolist(), len(rows)})
    return [tuple(rows[begin:end]) for begin, end in pairwise(bounds)]


def _read(reader: TableReader, unread: AbstractSet[int], rows: Sequence[_Row]) -> Batches:
    def read(row: _Row) -> Batches:
        number = row[0]
        found = None if number in unread else _entries(reader, row)
        if found is not None:
            yield found
        told = UNREAD if found is None else found.num_rows
        yield pa.record_batch([[number], [None], [0], [number], [told]], schema=ENTRIES)

    yield from interleaved(rows, read, threads=reader.threads)


def _entries(reader: TableReader, row: _Row) -> pa.RecordBatch | None:
    """Read the entries of a range; None if it cannot be read."""
    number, range_id, count, is_retained = row
    try:
        found = graveler.read_dated_range(
            reader.read(range_id),
            name=reader.name(range_id),
            expected_count=count,
            expected_id=range_id,
        )
    except (CorruptTableError, NotFoundError):
        if is_retained:
            raise
        return None
    return _inside(reader, number, found)


def _inside(reader: TableReader, number: int, found: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out entries that cannot name an object of the namespace."""
    stored: Any = found.column("address")
    address = reader.namespace.relative_batch(stored, found.column("address_type"))
    if address.null_count:
        address = pc.coalesce(address, pc.if_else(may_be_own(stored), stored, None))
    inside = address.is_valid()
    address, found = address.filter(inside), found.filter(inside)
    seconds = found.column("modified_seconds")
    # A date that no calendar has in microseconds keeps the object, as one in the future does.
    far = np.iinfo(np.int64).max // (4 * _MICROS)
    modified = pc.multiply(pc.min_element_wise(seconds, pa.scalar(far, pa.int64())), _MICROS)
    return pa.record_batch(
        [
            alive_hashes(address),
            found.column("path"),
            pc.max_element_wise(modified, pa.scalar(0, pa.int64())),
            pa.repeat(pa.scalar(number, pa.int32()), found.num_rows),
            pa.nulls(found.num_rows, pa.int32()),
        ],
        schema=ENTRIES,
    )
