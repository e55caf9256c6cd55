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
from spark_core.optimized.listing import CHANGED_ROWS
from spark_core.records import reading, tables
from spark_core.records.figures import ListedFigures, PreflightFigures
from spark_core.records.writing import Draft, Source
from spark_core.run import Run, preflight
from spark_core.spark.tasks import counting, dealt
from spark_core.storage import ObjectStore
from spark_core.storage.contract import OrderedStore
from spark_core.storage.inventory import InventoryFile
from spark_core.storage.listings import listed

DATA = "data/"
# Pages that the driver lists. They are listed once more if more pages follow.
_PAGES_TRIED = 4
# Slices, named by their time, that the driver of an optimized mark tries to list.
_DRIVER_SLICES = 500

# Begins the names of what is counted of single slices: objects that are too young.
_OPEN = "open:"


@dataclass(frozen=True)
class _Listing:
    """The listing of one Spark task.

    It has whole prefixes, objects that were already seen one level up, or the namespace's root.
    """

    prefixes: tuple[str, ...] = ()
    found: pa.Table | None = None
    root: bool = False


def namespace_slices(run: Run) -> Draft:
    """List every object under `data/` with its size and age.

    `data/` is listed once, except for some pages of few slices, which are listed twice.

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
    # No executor would list the slices of one task sooner, and few objects changed since a base.
    is_one_task = (
        isinstance(base, Base) and len(slices) <= run.options.read_threads and not run.options.flat
    )
    few = None
    if not is_one_task:
        few = _few(run, slices, direct, is_optimized=isinstance(base, Base))
    if few is None and not is_one_task:
        run.environment.start_spark()
    tasks = _tasks(slices, direct, run.options.range_partitions, run.options.read_threads)
    if run.options.flat:
        # Old servers put every object there, so the driver does not list it.
        tasks.append(_Listing(root=True))
    by_tasks = Source(
        lambda: run.spark,
        tasks,
        partial(_read, run.store, run.limits, run.options.read_threads),
        is_small=is_one_task,
    )
    listed_by_driver = Counter(run.store.requests)

    def figures(measured: Mapping[str, Any], counted: Counter[str]) -> ListedFigures:
        requests = dict(counted + listed_by_driver)
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
        by_tasks if few is None else few,
        began,
        parents=(),
        figures=figures,
        measure=partial(
            _measure,
            run.cutoff,
            answers.table_prefix,
            run.store.unsafe_names,
            base.saved.started if isinstance(base, Base) else None,
        ),
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
            lambda: run.spark, found.tasks, partial(_read_inventory, run.store, found.limits, found)
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


def _few(run: Run, slices: list[str], direct: pa.Table, *, is_optimized: bool) -> pa.Table | None:
    """List few slices on the driver; None if they have too many rows or pages for it.

    Slices of an optimized run that are named by their time hold what changed since its base. Others
    are listed in full, and may be large.
    """
    threads, most = run.options.read_threads, reading.DRIVER_ROWS
    pages: Iterable[tuple[pa.RecordBatch, bool]]
    if run.options.flat:
        return None
    if is_optimized and len(slices) <= _DRIVER_SLICES and all(map(tells_time, map(_name, slices))):
        most *= CHANGED_ROWS
        pages = ((batch, True) for batch in listed(run.store, slices, threads=threads))
    elif len(slices) <= threads:
        pages = chain.from_iterable(_pages(run.store, slice_) for slice_ in slices)
    else:
        return None
    found, count, more = direct.to_batches(), direct.num_rows, 0
    for batch, is_last in pages:
        found.append(batch)
        count += batch.num_rows
        more += not is_last
        if count > most or more > _PAGES_TRIED:
            return None
    return pa.Table.from_batches(
        [judged(batch, run.store, run.limits) for batch in found], schemas.NAMESPACE_SLICES
    )


def _pages(store: ObjectStore, prefix: str) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Yield pages, and whether each is the last one, as far as the store says so."""
    if isinstance(store, OrderedStore):
        yield from ((page.rows, page.is_last) for page in store.pages(prefix))
    else:
        yield from ((batch, True) for batch in store.list(prefix))


def _tasks(slices: list[str], direct: pa.Table, partitions: int, threads: int) -> list[_Listing]:
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
        batches = (
            listed(store, task.prefixes, threads=threads) if found is None else found.to_batches()
        )
        for batch in batches:
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
