"""How a plan is dealt out: into how many tasks, with which share of a limit, at which pace."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from spark_core.errors import ChainError, CorruptTableError
from spark_core.records import tables
from spark_core.records.figures import DeletionFigures
from spark_core.records.reading import load_table
from spark_core.run import Run
from spark_core.spark.session import speculates
from spark_core.spark.tasks import cores
from spark_core.sweep.deletion_orders import BATCH_ROWS, LOT_ROWS, REQUESTS_AT_ONCE
from spark_core.sweep.pacing import Rate, first_rate

# The rows of a task wait in memory while they are sorted.
_ROWS_OF_A_TASK = 100_000
# Reports of earlier sweeps that are asked for the store's pace.
_SWEEPS_ASKED = 3


def cores_here() -> int:
    """Return how many cores this machine has."""
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Spread:
    """The shares of tasks.

    Attributes:
        tasks: How many tasks.
        deletes_per_second: Most deletions of each per second; None: no limit.
        lot_rows: Most rows of one lot.
        requests_at_once: Requests of a task that are under way at once.
        processes: How many processes delete at once.
    """

    tasks: int
    deletes_per_second: float | None
    lot_rows: int
    requests_at_once: int
    processes: int


def spread_of(run: Run, rows: int, *, is_here: bool) -> Spread:
    """Deal a plan out to tasks that all have work, and give each its share of any limit.

    With a limit there are no more tasks than can run at once now. Their shares together are the
    limit, so it also holds when the cluster grows meanwhile.
    """
    limit = run.options.max_deletes_per_second
    at_once = cores_here() if is_here else cores(run.spark)
    batches = max(1, -(-rows // BATCH_ROWS))
    processes = 1 if is_here else min(batches, at_once)
    if limit is None:
        tasks = min(batches, max(at_once, -(-rows // _ROWS_OF_A_TASK)))
        if run.options.quarantine:
            # A copy takes time, and the look at an object that waits for its copy becomes old.
            # Copies run side by side anyway.
            return Spread(tasks, None, BATCH_ROWS, 1, processes)
        return Spread(tasks, None, LOT_ROWS, REQUESTS_AT_ONCE, processes)
    tasks = min(batches, at_once)
    copies = 2 if not is_here and speculates(run.spark) else 1
    return Spread(tasks, limit / (tasks * copies), BATCH_ROWS, 1, processes)


def rate_to_begin_with(run: Run, processes: int) -> Rate | None:
    """Return the rate with which the tasks of each process begin; None: a store without a pace."""
    if run.namespace.kind == "local":
        return None
    return first_rate(_last_known_pace(run), processes)


def _last_known_pace(run: Run) -> float | None:
    """Ask the reports of the last sweeps how many keys a second the store took."""
    for key in tables.runs(run.store, tables.DELETION_REPORT.folder)[:_SWEEPS_ASKED]:
        with suppress(ChainError, CorruptTableError):
            report = load_table(run.store, tables.DELETION_REPORT, key).manifest
            known = DeletionFigures.of(report).store_keys_per_second
            if known is not None:
                return known
    return None
