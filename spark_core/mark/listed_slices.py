"""List slices and write what they hold, by the driver where there is little, by executors else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice

import pyarrow as pa

from spark_core import lakegc_keys, schemas
from spark_core.addresses.candidates import Limits
from spark_core.addresses.namespace import collectable_batch
from spark_core.index.choosing import Clean, Index, closed_before, is_before, saves
from spark_core.index.saved import holds
from spark_core.mark.listed_rows import add_standings, measure, measure_closed
from spark_core.records import tables, writing
from spark_core.records.figures import PreflightFigures
from spark_core.records.writing import Receipt, Target
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.tasks import counting, deal_out, run_tasks
from spark_core.storage import ObjectStore
from spark_core.storage.listings import list_below

DATA = "data/"


def name_of_slice(prefix: str) -> str:
    """Return the name of the slice that a prefix lists."""
    return prefix.removeprefix(DATA).removesuffix("/")


@dataclass(frozen=True)
class _Listing:
    """What a task lists, and where it writes.

    It has whole prefixes, objects that were already seen one level up, or the namespace's root.
    """

    target: Target
    prefixes: Iterable[str] = ()
    found: pa.Table | None = None
    root: bool = False


@dataclass(frozen=True)
class ListingTargets:
    """Where the rows of an attempt go.

    Attributes:
        table: The table.
        index: The index.
        closed_before: Slices that were named before this instant, in unix seconds, go into the
            index; 0: none do.
    """

    table: Target
    index: Target
    closed_before: int

    @classmethod
    def of(
        cls, run: Run, answers: PreflightFigures, began: datetime, chosen: Index | Clean
    ) -> ListingTargets:
        """Begin an attempt."""
        attempt, schema = writing.new_attempt(), schemas.NAMESPACE_SLICES
        limits = (run.cutoff, answers.table_prefix, run.store.unsafe_names)
        where = tables.folder(tables.NAMESPACE_SLICES, run.key)
        closed = closed_before(run, began) if saves(run) else 0
        measured = partial(measure_closed, datetime.fromtimestamp(closed, UTC), *limits)
        return cls(
            Target(run.store, where, attempt, schema, partial(measure, *limits)),
            Target(
                run.store,
                lakegc_keys.INDEX,
                attempt,
                schema,
                measured,
                name="slices",
                holds=holds(chosen.saved if isinstance(chosen, Index) else None),
            ),
            closed,
        )

    def removed_on_failure(self, write: Callable[[], list[Receipt]]) -> list[Receipt]:
        """Call a function that writes; if it fails, delete what it has written."""
        return writing.removed_on_failure(
            self.index, lambda: writing.removed_on_failure(self.table, write)
        )

    def closed(self, prefix: str) -> bool:
        """Say whether a slice goes into the index."""
        return is_before(name_of_slice(prefix), self.closed_before)


@dataclass
class _ForDriver(Iterator[str]):
    """The slices that the driver lists: all, unless there is too much in them for it.

    Attributes:
        slices: All slices.
        begun: How many of them it has begun to list.
        rows: Objects that it has listed.
    """

    slices: Sequence[str]
    begun: int = 0
    rows: int = 0

    def __next__(self) -> str:
        if self.begun == len(self.slices) or not placement.driver_works(self.expected):
            raise StopIteration
        self.begun += 1
        return self.slices[self.begun - 1]

    @property
    def expected(self) -> int:
        """Objects in all slices, if the others have as many as were found in those begun."""
        return self.rows * len(self.slices) // self.begun if self.begun else self.rows

    @property
    def left(self) -> Sequence[str]:
        """The slices that it has not begun."""
        return self.slices[self.begun :]


def write_slices(
    run: Run, targets: ListingTargets, slices: Sequence[str], direct: pa.Table
) -> list[Receipt]:
    """List slices and write what they hold; the driver begins where it may.

    Nobody knows beforehand how much there is. As soon as it looks like too much for the driver,
    Spark starts, and executors list what the driver has not begun.
    """
    closed = [name for name in slices if targets.closed(name)]
    others = [name for name in slices if not targets.closed(name)]
    by_driver, receipts = _ForDriver([*others, *closed]), list[Receipt]()
    read_here = partial(_read_by_driver, run, by_driver)
    if placement.driver_works(direct.num_rows):
        for number, task in enumerate(
            (
                _Listing(targets.table, islice(by_driver, len(others)), direct),
                _Listing(targets.index, by_driver),
            )
        ):
            receipts.append(writing.write_read(task.target, read_here, number, task))
        direct = direct.slice(0, 0)
    else:
        run.environment.start_spark()
    left = len(others) - by_driver.begun
    threads = run.options.read_threads
    tasks = [
        *_tasks(run, targets.table, others[len(others) - max(0, left) :]),
        *_tasks(run, targets.index, closed[max(0, -left) :]),
    ]
    if direct.num_rows:
        tasks.append(_Listing(targets.table, found=direct))
    if run.options.flat:
        # Old servers put every object there.
        tasks.append(_Listing(targets.table, root=True))
    read = partial(_read, run.store, run.limits, threads)
    work = partial(_write_task, read)
    return receipts + run_tasks(lambda: run.spark, tasks, work, rows=by_driver.expected)


def _write_task(
    read: Callable[[_Listing, Counter[str]], Iterator[pa.RecordBatch]], number: int, task: _Listing
) -> Receipt:
    return writing.write_read(task.target, read, number, task)


def _read_by_driver(
    run: Run, slices: _ForDriver, task: _Listing, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    for batch in _read(run.store, run.limits, run.options.read_threads, task, figures):
        slices.rows += batch.num_rows
        if not placement.driver_works(slices.expected):
            run.environment.start_spark()
        yield batch


def _tasks(run: Run, target: Target, slices: Sequence[str]) -> list[_Listing]:
    """Deal slices out to tasks.

    Neighbouring slices have one age, and go to different tasks.

    A task lists `read_threads` slices at once. With no more slices than that in each task, all of
    them are listed side by side. With fewer, a task lists a long slice from several names on. More
    tasks would only make more parts.
    """
    count = run.reading_tasks(-(-len(slices) // run.options.read_threads))
    return [_Listing(target, some) for some in deal_out(slices, count)]


def _read(
    store: ObjectStore, limits: Limits, threads: int, task: _Listing, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    with counting(figures, store.requests):
        found = _flat_objects(store) if task.root else task.found
        seen = () if found is None else found.to_batches()
        for batch in chain(list_below(store, task.prefixes, threads=threads), seen):
            yield add_standings(batch, store, limits)


def _flat_objects(store: ObjectStore) -> pa.Table:
    """List the root, and keep the names that old servers gave."""
    _, at_root = store.children("")
    return at_root.filter(collectable_batch(at_root.column("key").combine_chunks(), flat=True))
