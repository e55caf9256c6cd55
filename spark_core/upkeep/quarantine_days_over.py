"""List the objects whose quarantine days are over: those are due to be purged.

Executors list the quarantine; the driver holds the names of slices. The driver itself lists few
objects, with the same code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa

from spark_core import lakegc_keys
from spark_core.addresses.collectable import is_collectable
from spark_core.model import RunKey
from spark_core.records import reading, tables, writing
from spark_core.records.figures import DeletionFigures
from spark_core.records.manifest import Part
from spark_core.records.writing import Target
from spark_core.run import Run
from spark_core.spark.tasks import deal_out, interleaved, run_tasks
from spark_core.storage import ObjectStore
from spark_core.sweep.quarantine import ends_at, runs

# The objects whose quarantine days are over: the run that moved them, address, key, size.
OVER = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
    ]
)


def runs_due(run: Run) -> tuple[RunKey, ...]:
    """Return the runs with objects that have been in quarantine for longer than `quarantine_days`.

    A run's days begin when its report was stored. A run without a report was not swept to its end,
    and its quarantine may be the only trace of it. The days that a report promises hold, even if
    the options say fewer days by now.

    Args:
        run: Any run of the repository; its options say how long.

    Raises:
        LakegcError: If the folder cannot be listed or a report cannot be read.
    """
    # A file system keeps the folders of gone objects.
    return tuple(
        key
        for key in runs(run.store)
        if _is_due(run, key)
        and any(batch.num_rows for batch in run.store.list(lakegc_keys.in_quarantine(key)))
    )


def _is_due(run: Run, key: RunKey) -> bool:
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, key)):
        return False
    report = reading.load_table(run.store, tables.DELETION_REPORT, key).manifest
    by_options = report.reading_ended + timedelta(days=run.options.quarantine_days)
    return run.now() >= max(by_options, ends_at(report) or by_options)


@dataclass(frozen=True)
class _QuarantinePart:
    """A part of a run's folder.

    Attributes:
        run: Key of the run.
        reported: When its report was stored, in whole seconds.
        prefix: What is listed: to its end ...
        is_level: ... or only what lies directly there, and in folders that no sweep makes.
    """

    run: str
    reported: datetime
    prefix: str
    is_level: bool = False


def list_due(run: Run, planned: str) -> tuple[tuple[Part, ...], int]:
    """List the objects whose days are over, and write them down: gone ones cannot be listed again.

    Args:
        run: The run.
        planned: Folder for what is written. Few objects that the driver lists lie in no file, but
            in their part itself.

    Returns:
        Parts with columns of `OVER`, and how many keys in the folders are no address of an object.
    """
    due = runs_due(run)
    places = _places(run, due)
    tasks = run.reading_tasks(-(-len(places) // run.options.read_threads))
    target = Target(run.store, planned, writing.new_attempt(), OVER, holds=writing.HELD_BYTES)
    read = partial(_list_many, run.store, run.options.read_threads)
    receipts = writing.removed_on_failure(
        target,
        lambda: run_tasks(
            lambda: run.spark,
            deal_out(places, tasks),
            partial(writing.write_read, target, read),
            rows=sum(_moved(run, key) for key in due),
        ),
    )
    return writing.parts_of(receipts), writing.summed(receipts)[1]["strangers"]


def _moved(run: Run, key: RunKey) -> int:
    """Return how many objects a run says that it moved."""
    report = reading.load_table(run.store, tables.DELETION_REPORT, key).manifest
    moved = DeletionFigures.of(report).deleted_objects
    return report.rows if moved is None else moved


def _places(run: Run, due: Sequence[RunKey]) -> list[_QuarantinePart]:
    """Name the quarantine folders whose days are over: slices of each run, and what is beside."""
    places: list[_QuarantinePart] = []
    for key in due:
        where, text = lakegc_keys.in_quarantine(key), str(key)
        reported = _second(
            run.store.head(tables.manifest_key(tables.DELETION_REPORT, key)).last_modified
        )
        places += [
            _QuarantinePart(text, reported, prefix)
            for prefix in run.store.children(f"{where}data/")[0]
        ]
        places += [
            _QuarantinePart(text, reported, level, is_level=True)
            for level in (where, f"{where}data/")
        ]
    return places


def _list_many(
    store: ObjectStore, threads: int, places: Sequence[_QuarantinePart], figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    # A list, because threads add to it at once.
    strangers: list[int] = []
    yield from interleaved(places, partial(_list, store, strangers.append), threads=threads)
    figures["strangers"] += sum(strangers)


def _list(
    store: ObjectStore, count_strangers: Callable[[int], object], place: _QuarantinePart
) -> Iterator[pa.RecordBatch]:
    where = lakegc_keys.in_quarantine(place.run)
    for batch in _level(store, where, place) if place.is_level else store.list(place.prefix):
        keys = batch.column("key").to_pylist()
        addresses = [key.removeprefix(where) for key in keys]
        ours = [
            key.startswith(where) and is_collectable(key[len(where) :], flat=True) for key in keys
        ]
        count_strangers(ours.count(False))
        # Objects that a later sweep of the run moved have days of their own.
        in_time = [
            _second(at) <= place.reported for at in batch.column("last_modified").to_pylist()
        ]
        columns = [
            pa.array([place.run] * len(keys)),
            pa.array(addresses),
            batch.column("key"),
            batch.column("size_bytes"),
        ]
        listed = pa.record_batch(columns, schema=OVER)
        yield listed.filter(
            pa.array(
                [is_ours and is_in_time for is_ours, is_in_time in zip(ours, in_time, strict=True)]
            )
        )


def _level(store: ObjectStore, where: str, place: _QuarantinePart) -> Iterator[pa.RecordBatch]:
    folders, direct = store.children(place.prefix)
    yield from direct.to_batches()
    if place.prefix == where:
        for other in folders:
            if other != f"{where}data/":
                yield from store.list(other)


def _second(instant: datetime) -> datetime:
    """Cut a time of the store to seconds: a listing gives it more finely than a single answer."""
    return instant.replace(microsecond=0)
