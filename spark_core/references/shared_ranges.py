"""The ranges that commits share: each once, and dealt out to tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from spark_core.spark.tasks import ReadingTasks

# Columns of ranges that no task needs.
_OF_THE_DRIVER = {"times"}

# A range, and what its readers need to know of the metaranges that have it.
RANGES = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("is_head", pa.bool_(), nullable=False),
        pa.field("is_retained", pa.bool_(), nullable=False),
        # Row of the expired commit that has it and was kept last; null where a retained one has it.
        pa.field("newest", pa.int32()),
        # One of the commits that have it, in words; null where nobody asks.
        pa.field("why", pa.string()),
        # Number of metaranges that were read and have it.
        pa.field("times", pa.int64(), nullable=False),
    ]
)

# Ranges and entries that are worth a task of their own, so that take as long.
_RANGES_OF_A_TASK = 256
ENTRIES_OF_A_TASK = 200_000

# Rows that a task holds before it makes them distinct.
ROWS_HELD = 500_000


def in_order(ranges: pa.Table) -> pa.Table:
    """Sort ranges, columns of `RANGES`: versions of one stretch of paths become neighbours."""
    return ranges.sort_by([("min_key", "ascending"), ("range_id", "ascending")])


def merged(some: Sequence[pa.Table]) -> pa.Table:
    """Merge the rows of each range; columns of `RANGES`."""
    found = (
        pa.concat_tables([RANGES.empty_table(), *some])
        .group_by(["range_id", "count"])
        .aggregate(
            [
                ("min_key", "min"),
                ("is_head", "max"),
                ("is_retained", "max"),
                ("newest", "min"),
                ("why", "min"),
                ("times", "sum"),
            ]
        )
    )
    return (
        found.rename_columns(
            {
                "min_key_min": "min_key",
                "is_head_max": "is_head",
                "is_retained_max": "is_retained",
                "newest_min": "newest",
                "why_min": "why",
                "times_sum": "times",
            }
        )
        .select(RANGES.names)
        .cast(RANGES)
    )


def work_of_ranges(ranges: pa.Table) -> int:
    """Return how many entries of large ranges take as long to read as ranges, which may be small.

    Args:
        ranges: A column count.
    """
    return int(_tasks_worth(ranges).sum() * ENTRIES_OF_A_TASK)


def _tasks_worth(ranges: pa.Table) -> Any:
    """Return the part of a task that each range is worth."""
    return np.maximum(ranges["count"].to_numpy() / ENTRIES_OF_A_TASK, 1 / _RANGES_OF_A_TASK)


def tasks_of(ranges: pa.Table, reading_tasks: ReadingTasks) -> list[pa.Table]:
    """Deal ranges out to tasks by their files and entries.

    Versions of one stretch of paths have most addresses in common. They go to one task, where each
    address counts once.

    Args:
        ranges: Columns range_id, count, min_key and whatever the tasks need; see `RANGES`.
        reading_tasks: How many tasks are made of so many as have enough to do; `Run.reading_tasks`.
    """
    ordered = (
        ranges.sort_by("min_key")
        .select([name for name in ranges.column_names if name not in _OF_THE_DRIVER])
        .combine_chunks()
    )
    weights = _tasks_worth(ordered)
    if not len(weights):
        return []
    count = reading_tasks(int(np.ceil(weights.sum())))
    ends = np.searchsorted(
        np.cumsum(weights), np.linspace(0, weights.sum(), count + 1)[1:-1], side="right"
    )
    bounds = sorted({0, *ends.tolist(), len(weights)})
    # The rows are copied, because a slice would travel with the whole table.
    return [ordered.take(pa.array(range(begin, end))) for begin, end in pairwise(bounds)]
