"""Table 1: list the objects of a namespace slice by slice, and take closed ones from the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys, schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.candidates import Limits
from spark_core.addresses.collectable import (
    NOT_NAMEABLE,
    TABLE_FILES,
    files_of_tables,
    fill_others,
    usual_seconds,
)
from spark_core.addresses.namespace import collectable_batch, nested_repository, slice_batch
from spark_core.index.choosing import (
    MOST_OPEN,
    Clean,
    Index,
    choose,
    closed_before,
    is_before,
    saves,
    tells_time,
)
from spark_core.index.saved import holds
from spark_core.index.slices import Taken, take
from spark_core.mark import inventory
from spark_core.records import tables, writing
from spark_core.records.figures import IndexFigures, ListedFigures, PreflightFigures
from spark_core.records.writing import Draft, Receipt, StreamedRows, Target, Written
from spark_core.run import Run, preflight
from spark_core.spark import placement
from spark_core.spark.tasks import counting, dealt, run_tasks
from spark_core.storage import ObjectStore
from spark_core.storage.classes import as_measured, bytes_by_class, taken_apart
from spark_core.storage.inventory import InventoryFile
from spark_core.storage.listings import listed

DATA = "data/"

# Begins the names of what is counted of single slices: objects for which one is listed again.
_OPEN = "open:"

# The standings that end as time passes.
_WAITING = pa.array([rule.YOUNG, rule.UPLOAD])


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
class _ListingTargets:
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
    ) -> _ListingTargets:
        """Begin an attempt."""
        attempt, schema = writing.new_attempt(), schemas.NAMESPACE_SLICES
        limits = (run.cutoff, answers.table_prefix, run.store.unsafe_names)
        where = tables.folder(tables.NAMESPACE_SLICES, run.key)
        return cls(
            Target(run.store, where, attempt, schema, partial(_measure, *limits)),
            Target(
                run.store,
                lakegc_keys.INDEX,
                attempt,
                schema,
                partial(_measure_closed, *limits),
                name="slices",
                holds=holds(chosen.saved if isinstance(chosen, Index) else None),
            ),
            closed_before(run, began) if saves(run) else 0,
        )

    def removed_on_failure(self, write: Callable[[], list[Receipt]]) -> list[Receipt]:
        """Call a function that writes; if it fails, delete what it has written."""
        return writing.removed_on_failure(
            self.index, lambda: writing.removed_on_failure(self.table, write)
        )

    def closed(self, prefix: str) -> bool:
        """Say whether a slice goes into the index."""
        return is_before(_name(prefix), self.closed_before)


def namespace_slices(run: Run) -> Draft:
    """List every object under `data/` with its size and age, or take it from the index.

    Every object is kept, old or young, because later steps compare the live addresses with the
    whole listing. The cutoff is fixed, so each object's standing by name and age is recorded at
    once. A slice is one direct child of `data/`. It bounds a unit of parallelism without assuming
    how deep sharded names go.

    Slices that are old by their names are written into the index, as files of the table.

    Args:
        run: The run.

    Returns:
        Columns of `schemas.NAMESPACE_SLICES`, key address.

    Raises:
        RepositoryStateError: If the repository's state forbids collecting it.
        IncompleteReadError: If the listing cannot be trusted to be whole.
    """
    began = run.begin(tables.NAMESPACE_SLICES)
    answers = preflight(run)
    chosen = choose(run)
    if run.options.listing == "inventory":
        return _of_inventory(run, began, answers, chosen)
    there, direct = run.store.children(DATA)
    chosen, taken = _from_index(run, chosen, there)
    slices = [name for name in there if _name(name) not in taken.slices]
    asked = Counter(run.store.requests)
    targets = _ListingTargets.of(run, answers, began, chosen)
    receipts = targets.removed_on_failure(lambda: _write(run, targets, slices, direct))

    def figures(measured: Mapping[str, Any], counted: Counter[str]) -> ListedFigures:
        requests = dict(counted + asked)
        classes, measured = taken_apart(measured)
        found = {name: count for name, count in measured.items() if not name.startswith(_OPEN)}
        opened = sorted(name.removeprefix(_OPEN) for name in measured if name.startswith(_OPEN))
        are_few = len(opened) <= MOST_OPEN
        return ListedFigures(
            **vars(answers),
            slices=len(there),
            last_slice=min(filter(tells_time, map(_name, there)), default=None),
            requests=requests,
            open_slices=tuple(opened) if are_few else None,
            closed_before=(targets.closed_before or None) if are_few else None,
            by_class=classes or None,
            **_of_index(chosen, taken),
            **found,
        )

    return Draft(
        tables.NAMESPACE_SLICES,
        Written(targets.table.attempt, [*receipts, _receipt(taken)], is_all=True),
        began,
        parents=(),
        figures=figures,
    )


def _from_index(
    run: Run, chosen: Index | Clean, there: Sequence[str]
) -> tuple[Index | Clean, Taken]:
    """Take closed slices from the index; if that fails, the run is a clean one."""
    if isinstance(chosen, Clean):
        return chosen, Taken()
    taken = take(run, chosen, [_name(prefix) for prefix in there])
    return (taken, Taken()) if isinstance(taken, Clean) else (chosen, taken)


def _receipt(taken: Taken) -> Receipt:
    """Count what was taken as what was listed is counted.

    A slice in which an object was too young, or had a name that is never collected, is not taken.
    """
    objects, size_bytes = taken.objects, taken.size_bytes
    measured = {
        "objects": objects,
        "object_bytes": size_bytes,
        "old_objects": objects,
        "old_bytes": size_bytes,
        **as_measured(taken.by_class),
    }
    return Receipt(taken.parts, measured)


def _of_inventory(
    run: Run, began: datetime, answers: PreflightFigures, chosen: Index | Clean
) -> Draft:
    """Take the listing from an S3 Inventory; no prefix of the store is listed.

    It saw no slice whole, so slices are neither taken from the index nor written there.
    """
    found = inventory.find(run, began)
    of_index = _of_index(
        replace(chosen, listed_since=0) if isinstance(chosen, Index) else chosen, Taken()
    )

    def figures(measured: Mapping[str, Any], counted: Counter[str]) -> ListedFigures:
        said = found.figures(counted)
        classes, measured = taken_apart(measured)
        return ListedFigures(
            **vars(answers),
            requests=dict(counted + found.requests),
            inventory=said,
            by_class=classes or None,
            **of_index,
            **measured,
        )

    return Draft(
        tables.NAMESPACE_SLICES,
        StreamedRows(
            lambda: run.spark,
            found.tasks,
            partial(_read_inventory, run.store, found.limits, found),
            found.rows,
        ),
        began,
        parents=(),
        figures=figures,
        measure=partial(
            _measure, found.limits.cutoff, answers.table_prefix, run.store.unsafe_names
        ),
    )


def _read_inventory(
    store: ObjectStore,
    limits: Limits,
    found: inventory.FitInventory,
    task: Sequence[InventoryFile],
    figures: Counter[str],
) -> Iterator[pa.RecordBatch]:
    for batch in found.read(task, figures):
        yield judged(batch, store, limits)


def _of_index(chosen: Index | Clean, taken: Taken) -> dict[str, Any]:
    """Say what was taken from which index, or why nothing was."""
    if isinstance(chosen, Clean):
        return {"why_full": chosen.why or None, "blocked_by": chosen.blocked_by or None}
    return {
        "index": IndexFigures(
            run=chosen.saved.run,
            saved=chosen.saved.digest,
            listed_since=chosen.listed_since,
            open_slices=chosen.saved.open_slices,
            slices=len(taken.slices),
            objects=taken.objects,
            bytes=taken.size_bytes,
            gone_objects=taken.gone_objects,
        )
    }


def _name(prefix: str) -> str:
    return prefix.removeprefix(DATA).removesuffix("/")


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


def _write(
    run: Run, targets: _ListingTargets, slices: Sequence[str], direct: pa.Table
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
    partitions, threads = run.options.range_partitions, run.options.read_threads
    tasks = [
        *_tasks(targets.table, others[len(others) - max(0, left) :], partitions, threads),
        *_tasks(targets.index, closed[max(0, -left) :], partitions, threads),
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


def _tasks(target: Target, slices: Sequence[str], partitions: int, threads: int) -> list[_Listing]:
    """Deal slices out to at most `partitions` tasks.

    Neighbouring slices have one age, and go to different tasks.

    A task lists `threads` slices at once. With no more slices than that in each task, all slices
    are listed side by side. With fewer, a task lists a long slice from several names on. More tasks
    would only make more parts.
    """
    count = min(-(-len(slices) // threads), partitions)
    return [_Listing(target, some) for some in dealt(slices, count)]


def _read(
    store: ObjectStore, limits: Limits, threads: int, task: _Listing, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    with counting(figures, store.requests):
        found = _flat_objects(store) if task.root else task.found
        seen = () if found is None else found.to_batches()
        for batch in chain(listed(store, task.prefixes, threads=threads), seen):
            yield judged(batch, store, limits)


def _flat_objects(store: ObjectStore) -> pa.Table:
    """List the root, and keep the names that old servers gave."""
    _, at_root = store.children("")
    return at_root.filter(collectable_batch(at_root.column("key").combine_chunks(), flat=True))


def judged(batch: pa.RecordBatch, store: ObjectStore, limits: Limits) -> pa.RecordBatch:
    """Add slice, standing by name and age, and address hash to a store's listing."""
    keys = batch.column("key")
    standing = rule.standings(keys, batch.column("last_modified"), limits)
    if store.unsafe_names != NOT_NAMEABLE:
        # This kind of store would not delete these objects under exactly their own names. The
        # common cases of such names are part of the rule.
        is_unsafe = fill_others(
            usual_seconds(keys) >= 0,
            pa.scalar(False),
            partial(pc.match_substring_regex, pattern=store.unsafe_names),
            keys,
        )
        standing = pc.if_else(is_unsafe, rule.PROTECTED, standing)
    return pa.record_batch(
        [
            slice_batch(keys),
            keys,
            batch.column("size_bytes"),
            batch.column("last_modified"),
            batch.column("checksum"),
            standing,
            hashed(keys),
            batch.column("storage_class"),
        ],
        schema=schemas.NAMESPACE_SLICES,
    )


def _measure(
    cutoff: datetime, prefix: str, unsafe_names: str, batch: pa.RecordBatch
) -> Mapping[str, int]:
    """Count what the checks and the report need of a listing."""
    old = _is_old(cutoff, batch)
    sizes = batch.column("size_bytes")
    other = batch.filter(pa.array(usual_seconds(batch.column("address")) < 0))
    keys, sizes_of_other = other.column("address"), other.column("size_bytes")
    unsafe = pc.match_substring_regex(keys, unsafe_names)
    return {
        "objects": batch.num_rows,
        "object_bytes": pc.sum(sizes).as_py() or 0,
        "old_objects": pc.sum(old).as_py() or 0,
        "old_bytes": pc.sum(pc.if_else(old, sizes, 0)).as_py() or 0,
        "unsafe_name_objects": pc.sum(unsafe).as_py() or 0,
        "unsafe_name_bytes": pc.sum(pc.if_else(unsafe, sizes_of_other, 0)).as_py() or 0,
        "nested_objects": sum(_is_nested(key, prefix) for key in _suspects(keys, prefix)),
        **_tables_past_lakefs(keys, sizes_of_other),
        **as_measured(bytes_by_class(batch)),
    }


def _tables_past_lakefs(keys: pa.StringArray, sizes: pa.Int64Array) -> dict[str, int]:
    """Count the metadata of tables that were written without lakeFS, where there is any."""
    found = {}
    for kind in TABLE_FILES:
        is_one = files_of_tables(keys, kind)
        if objects := pc.sum(is_one).as_py():
            found[f"{kind}_objects"] = objects
            found[f"{kind}_bytes"] = pc.sum(pc.if_else(is_one, sizes, 0)).as_py()
    return found


def _is_old(cutoff: datetime, batch: pa.RecordBatch) -> pa.BooleanArray:
    return pc.less(batch.column("last_modified"), pa.scalar(cutoff, schemas.INSTANT))


def _measure_closed(
    cutoff: datetime, prefix: str, unsafe_names: str, batch: pa.RecordBatch
) -> Mapping[str, int]:
    """Count so for the index, and name the slices that the next run lists again.

    What a later run takes from the index is old, has no unsafe name and lies in no nested
    repository. So it need not look at the addresses to count it.
    """
    counted, keys = _measure(cutoff, prefix, unsafe_names, batch), batch.column("address")
    is_open = pc.or_(
        pc.invert(_is_old(cutoff, batch)), pc.is_in(batch.column("standing"), value_set=_WAITING)
    )
    if counted["unsafe_name_objects"]:
        is_open = pc.or_(is_open, pc.match_substring_regex(keys, unsafe_names))
    if counted["nested_objects"]:
        is_open = pc.or_(is_open, _is_suspect(keys, prefix))
    names = batch.column("slice").filter(is_open).unique().to_pylist()
    return {**counted, **{f"{_OPEN}{name}": 1 for name in names}}


def _suspects(keys: pa.StringArray, prefix: str) -> list[str]:
    """Return the few keys that could belong to a repository made inside this one's `data/`."""
    suspects: list[str] = keys.filter(_is_suspect(keys, prefix)).to_pylist()
    return suspects


def _is_suspect(keys: pa.StringArray, prefix: str) -> pa.BooleanArray:
    return pc.or_(pc.match_substring(keys, "/_lakefs/"), pc.match_substring(keys, f"/{prefix}/"))


def _is_nested(key: str, prefix: str) -> bool:
    """Say whether a key lies in a repository's tables.

    The tables have this server's prefix or the usual one.
    """
    return nested_repository(key) or nested_repository(key, protected_prefix=prefix)
