"""Table 1: list the objects of a namespace, slice by slice; after a base, of newer slices alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.candidates import Limits
from spark_core.addresses.collectable import NOT_NAMEABLE
from spark_core.addresses.namespace import collectable_batch, nested_repository, slice_batch
from spark_core.mark import inventory
from spark_core.optimized.base import MOST_OPEN, WAITING, Base, Full, choose, tells_time
from spark_core.records import tables, writing
from spark_core.records.figures import ListedFigures, PreflightFigures
from spark_core.records.writing import Draft, Receipt, Source, Target, Written
from spark_core.run import Run, preflight
from spark_core.spark import placement
from spark_core.spark.tasks import counting, dealt, run_tasks
from spark_core.storage import ObjectStore
from spark_core.storage.inventory import InventoryFile
from spark_core.storage.listings import listed

DATA = "data/"

# Begins the names of what is counted of single slices: objects that are too young.
_OPEN = "open:"


@dataclass(frozen=True)
class _Listing:
    """What a task lists.

    It has whole prefixes, objects that were already seen one level up, or the namespace's root.
    """

    prefixes: Iterable[str] = ()
    found: pa.Table | None = None
    root: bool = False


def namespace_slices(run: Run) -> Draft:
    """List every object under `data/` with its size and age.

    Every object is kept, old or young, because later steps compare the live addresses with the
    whole listing. The cutoff is fixed, so each object's standing by name and age is recorded at
    once. A slice is one direct child of `data/`. It bounds a unit of parallelism without assuming
    how deep sharded names go.

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
    base = choose(run)
    if run.options.listing == "inventory":
        return _of_inventory(run, began, answers, base)
    there, direct = run.store.children(DATA)
    slices = [name for name in there if not isinstance(base, Base) or base.lists(_name(name))]
    asked = Counter(run.store.requests)
    target = Target(
        run.store,
        tables.folder(tables.NAMESPACE_SLICES, run.key),
        writing.new_attempt(),
        schemas.NAMESPACE_SLICES,
        partial(
            _measure,
            run.cutoff,
            answers.table_prefix,
            run.store.unsafe_names,
            base.saved.started if isinstance(base, Base) else None,
        ),
    )
    receipts = writing.removed_on_failure(target, lambda: _write(run, target, slices, direct))

    def figures(measured: Mapping[str, Any], counted: Counter[str]) -> ListedFigures:
        requests = dict(counted + asked)
        found = {name: count for name, count in measured.items() if not name.startswith(_OPEN)}
        since = {name: found.pop(name, 0) for name in ("new_objects", "new_bytes")}
        opened = sorted(name.removeprefix(_OPEN) for name in measured if name.startswith(_OPEN))
        return ListedFigures(
            **vars(answers),
            slices=len(there),
            last_slice=min(filter(tells_time, map(_name, there)), default=None),
            requests=requests,
            open_slices=tuple(opened) if len(opened) <= MOST_OPEN else None,
            **_of_base(base, spared=len(there) - len(slices), **since),
            **found,
        )

    return Draft(
        tables.NAMESPACE_SLICES,
        Written(target.attempt, receipts, is_all=True),
        began,
        parents=(),
        figures=figures,
    )


def _of_inventory(run: Run, began: datetime, answers: PreflightFigures, base: Base | Full) -> Draft:
    """Take the listing from an S3 Inventory; no prefix of the store is listed.

    Such a run is a full one, and none begins from it: it saw no slice whole.
    """
    found = inventory.find(run, began)

    def figures(measured: Mapping[str, Any], counted: Counter[str]) -> ListedFigures:
        said = found.figures(counted)
        since = {name: measured.get(name, 0) for name in ("new_objects", "new_bytes")}
        named = {name: count for name, count in measured.items() if not name.startswith(_OPEN)}
        return ListedFigures(
            **vars(answers),
            requests=dict(counted + found.requests),
            inventory=said,
            **_of_base(base, spared=0, **since),
            **{name: count for name, count in named.items() if name not in since},
        )

    return Draft(
        tables.NAMESPACE_SLICES,
        Source(
            lambda: run.spark,
            found.tasks,
            partial(_read_inventory, run.store, found.limits, found),
            found.rows,
        ),
        began,
        parents=(),
        figures=figures,
        measure=partial(
            _measure, found.limits.cutoff, answers.table_prefix, run.store.unsafe_names, None
        ),
    )


def _read_inventory(
    store: ObjectStore,
    limits: Limits,
    found: inventory.Found,
    task: Sequence[InventoryFile],
    figures: Counter[str],
) -> Iterator[pa.RecordBatch]:
    for batch in found.read(task, figures):
        yield judged(batch, store, limits)


def _of_base(base: Base | Full, *, spared: int, new_objects: int, new_bytes: int) -> dict[str, Any]:
    """Say from which run this one begins, or why it is a full one."""
    if isinstance(base, Full):
        return {"why_full": base.why or None, "blocked_by": base.blocked_by or None}
    known = base.figures
    return {
        "base": replace(
            known,
            spared_slices=spared,
            objects=known.objects + new_objects,
            bytes=known.bytes + new_bytes,
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


def _write(run: Run, target: Target, slices: Sequence[str], direct: pa.Table) -> list[Receipt]:
    """List slices and write what they hold; the driver begins where it may.

    Nobody knows beforehand how much there is. As soon as it looks like too much for the driver,
    Spark starts, and executors list what the driver has not begun.
    """
    by_driver, receipts = _ForDriver(slices), list[Receipt]()
    if placement.driver_works(direct.num_rows):
        begun = _Listing(prefixes=by_driver, found=direct)
        read = partial(_read_by_driver, run, by_driver)
        receipts.append(writing.write_read(target, read, 0, begun))
        direct = direct.slice(0, 0)
    else:
        run.environment.start_spark()
    tasks = _tasks(by_driver.left, direct, run.options.range_partitions, run.options.read_threads)
    if run.options.flat:
        # Old servers put every object there.
        tasks.append(_Listing(root=True))
    read = partial(_read, run.store, run.limits, run.options.read_threads)
    work = partial(writing.write_read, target, read)
    return receipts + run_tasks(lambda: run.spark, tasks, work, rows=by_driver.expected)


def _read_by_driver(
    run: Run, slices: _ForDriver, task: _Listing, figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    for batch in _read(run.store, run.limits, run.options.read_threads, task, figures):
        slices.rows += batch.num_rows
        if not placement.driver_works(slices.expected):
            run.environment.start_spark()
        yield batch


def _tasks(
    slices: Sequence[str], direct: pa.Table, partitions: int, threads: int
) -> list[_Listing]:
    """Deal the slices out to at most `partitions` tasks.

    Neighbouring slices have one age, and go to different tasks.

    A task lists `threads` slices at once. With no more slices than that in each task, all slices
    are listed side by side. With fewer, a task lists a long slice from several names on. More tasks
    would only make more parts.
    """
    tasks = [
        _Listing(prefixes=some)
        for some in dealt(slices, min(-(-len(slices) // threads), partitions))
    ]
    if direct.num_rows:
        tasks.append(_Listing(found=direct))
    return tasks


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
        standing = pc.if_else(
            pc.match_substring_regex(keys, store.unsafe_names), rule.PROTECTED, standing
        )
    return pa.record_batch(
        [
            slice_batch(keys),
            keys,
            batch.column("size_bytes"),
            batch.column("last_modified"),
            batch.column("checksum"),
            standing,
            hashed(keys),
        ],
        schema=schemas.NAMESPACE_SLICES,
    )


def _measure(
    cutoff: datetime,
    prefix: str,
    unsafe_names: str,
    since: datetime | None,
    batch: pa.RecordBatch,
) -> Mapping[str, int]:
    """Count what the checks, the report and the optimized run after it need of a listing."""
    keys = batch.column("address")
    old = pc.less(batch.column("last_modified"), pa.scalar(cutoff, schemas.INSTANT))
    unsafe = pc.match_substring_regex(keys, unsafe_names)
    sizes = batch.column("size_bytes")
    young = batch.filter(pc.is_in(batch.column("standing"), WAITING)).column("slice")
    new = (
        None
        if since is None
        else pc.greater_equal(batch.column("last_modified"), pa.scalar(since, schemas.INSTANT))
    )
    return {
        **{f"{_OPEN}{name}": 1 for name in young.unique().to_pylist() if name},
        "new_objects": 0 if new is None else pc.sum(new).as_py() or 0,
        "new_bytes": 0 if new is None else pc.sum(pc.if_else(new, sizes, 0)).as_py() or 0,
        "objects": batch.num_rows,
        "object_bytes": pc.sum(sizes).as_py() or 0,
        "old_objects": pc.sum(old).as_py() or 0,
        "old_bytes": pc.sum(pc.if_else(old, sizes, 0)).as_py() or 0,
        "unsafe_name_objects": pc.sum(unsafe).as_py() or 0,
        "unsafe_name_bytes": pc.sum(pc.if_else(unsafe, sizes, 0)).as_py() or 0,
        "nested_objects": sum(_is_nested(key, prefix) for key in _suspects(keys, prefix)),
    }


def _suspects(keys: pa.StringArray, prefix: str) -> list[str]:
    """Return the few keys that could belong to a repository made inside this one's `data/`."""
    found = pc.or_(pc.match_substring(keys, "/_lakefs/"), pc.match_substring(keys, f"/{prefix}/"))
    suspects: list[str] = keys.filter(found).to_pylist()
    return suspects


def _is_nested(key: str, prefix: str) -> bool:
    """Say whether a key lies in a repository's tables.

    The tables have this server's prefix or the usual one.
    """
    return nested_repository(key) or nested_repository(key, protected_prefix=prefix)
