"""The form in which rows travel through Spark: one row for each bucket, its rows as Arrow bytes.

Beside them travel what is in no bucket: receipts of kernels, and counts of what was made and what
came.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

_PACKED = pa.schema(
    [
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("kind", pa.int32(), nullable=False),
        pa.field("packed", pa.binary(), nullable=False),
    ]
)
PACKED_IN_SPARK = "bucket int not null, kind int not null, packed binary not null"
# Kinds of what kernels send on: a receipt, which is in no bucket, or rows. And what is in no bucket
# and only counted: how many there were of what is named by the keys below.
RECEIPT, ROWS, TALLY = 0, 1, 2
NO_BUCKET = -1
# Of a source, with its number: its tasks, the rows that they packed, and those that kernels got.
TASKS, WAS_PACKED, CAME = "tasks", "packed", "came"
# Of what kernels made: their receipts, and the rows that they sent on.
RECEIPTS, SENT = "receipts", "sent"
Tally: TypeAlias = "Counter[str | tuple[str, int]]"


def rows_by_number(rows: pa.Table, numbers: Any) -> Iterator[tuple[int, pa.Table]]:
    """Put rows of one number together.

    Args:
        rows: The rows.
        numbers: An array, with a number for each row.
    """
    if not rows.num_rows:
        return
    order = np.argsort(numbers, kind="stable")
    # `take` of a table in several chunks looks for the chunk of each row.
    whole, numbers = rows.combine_chunks().take(pa.array(order)), numbers[order]
    cuts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    for begin, end in zip(cuts, [*cuts[1:], len(numbers)], strict=True):
        yield int(numbers[begin]), whole.slice(begin, end - begin)


def bucket_of(hashes: Any, buckets: int) -> Any:
    """Give each hash the number of its range, of so many ranges of one width."""
    upper = hashes.view(np.uint64) >> np.uint64(32)
    # Short numbers are sorted by their digits.
    return ((upper * np.uint64(buckets)) >> np.uint64(32)).astype(np.min_scalar_type(buckets))


def hashes_of(rows: pa.Table) -> Any:
    """Return the hashes of rows, which are their first column."""
    return rows.column(0).combine_chunks().to_numpy()


def bytes_of(rows: pa.Table) -> bytes:
    """Return the rows as Arrow writes them, without their schema."""
    batch = rows.combine_chunks().to_batches()[0]
    return bytes(memoryview(batch.serialize()))


def rows_of(packed: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """Return the rows of one bucket and kind, of which several tasks packed some."""
    return pa.Table.from_batches(
        [pa.ipc.read_record_batch(pa.py_buffer(each), schema) for each in packed], schema
    )


def packed_row(bucket: int, kind: int, packed: bytes) -> pa.RecordBatch:
    """Return what is packed as the one row that Spark moves."""
    return pa.record_batch([[bucket], [kind], [packed]], schema=_PACKED)


def tally_row(tally: Tally) -> pa.RecordBatch:
    """Return counts as the row of a task."""
    return packed_row(NO_BUCKET, TALLY, pickle.dumps(tally))


def gathered_from(batches: Iterator[pa.RecordBatch]) -> dict[int, dict[int, list[bytes]]]:
    """Return what is packed, by bucket and by kind."""
    found: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        for row in batch.to_pylist():
            found[row["bucket"]][row["kind"]].append(row["packed"])
    return found


def receipts_and_tallies(gathered: dict[int, dict[int, list[bytes]]]) -> Iterator[pa.RecordBatch]:
    """Pass on what is in no bucket: receipts and tallies."""
    for kind, some in gathered.pop(NO_BUCKET, {}).items():
        for packed in some:
            yield packed_row(NO_BUCKET, kind, packed)
