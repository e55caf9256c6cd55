"""Table 1: list the objects of a namespace, slice by slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator

from spark_core import schemas, tables
from spark_core.datasources import counting, interleaved, read_partitions, shared_counts
from spark_core.namespace import collectable_batch, nested_repository, slice_batch
from spark_core.run import Run, preflight
from spark_core.storage import ObjectStore
from spark_core.tables import Draft

DATA = "data/"


@dataclass(frozen=True)
class _Listing:
    """What one Spark task lists: whole prefixes, objects that were already seen one level up, or the namespace's root."""

    prefixes: tuple[str, ...] = ()
    found: pa.Table | None = None
    root: bool = False


def namespace_slices(run: Run) -> Draft:
    """List every object under `data/` with its size and age; `data/` is listed once.

    Every object is kept, old or young: later steps compare the live addresses
    with the whole listing and only then apply the cutoff. A slice is one direct
    child of `data/`, which bounds a unit of parallelism without assuming how
    deep sharded names go.

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
    slices, direct = run.store.children(DATA)
    tasks = _tasks(slices, direct, run.options.range_partitions, run.options.read_threads)
    if run.options.flat:
        # Old servers put every object there, so it is no listing for the driver.
        tasks.append(_Listing(root=True))
    counts = shared_counts(run.spark)
    listed_by_driver = Counter(run.store.requests)
    frame = read_partitions(
        run.spark,
        schemas.NAMESPACE_SLICES,
        tasks,
        partial(_read, run.store, counts, run.options.read_threads),
    )

    def facts() -> Mapping[str, Any]:
        requests = Counter(counts.value) + listed_by_driver
        return {**answers, "slices": len(slices), "requests": dict(requests)}

    return Draft(
        tables.NAMESPACE_SLICES,
        frame,
        began,
        parents=(),
        facts=facts,
        measure=partial(_measure, run.cutoff, answers["table_prefix"], run.store.unsafe_names),
    )


def _tasks(slices: list[str], direct: pa.Table, partitions: int, threads: int) -> list[_Listing]:
    """Deal the slices out to at most `partitions` tasks; neighbours, which are of one age, go to different ones.

    A task lists `threads` slices at once, so with no more of them in each all are listed side by side; more tasks would only
    make more parts.
    """
    count = min(-(-len(slices) // threads), partitions)
    tasks = [_Listing(prefixes=tuple(slices[number::count])) for number in range(count)]
    if direct.num_rows:
        tasks.append(_Listing(found=direct))
    return tasks


def _read(
    store: ObjectStore, counts: Accumulator[Counter[str]], threads: int, task: _Listing
) -> Iterator[pa.RecordBatch]:
    with counting(counts, store.requests):
        found = _flat_objects(store) if task.root else task.found
        if found is not None:
            for batch in found.to_batches():
                yield _with_slice(batch)
            return
        for batch in interleaved(task.prefixes, store.list, threads=threads):
            yield _with_slice(batch)


def _flat_objects(store: ObjectStore) -> pa.Table:
    """List the root, and keep the names that old servers gave."""
    _, at_root = store.children("")
    return at_root.filter(collectable_batch(at_root.column("key").combine_chunks(), flat=True))


def _with_slice(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the slice to a store's listing."""
    keys = batch.column("key")
    return pa.record_batch(
        [slice_batch(keys), keys, batch.column("size_bytes"), batch.column("last_modified"), batch.column("checksum")],
        schema=schemas.NAMESPACE_SLICES,
    )


def _measure(cutoff: datetime, prefix: str, unsafe_names: str, batch: pa.RecordBatch) -> Mapping[str, int]:
    """Count what the checks and the report want to know of a listing."""
    keys = batch.column("address")
    old = pc.less(batch.column("last_modified"), pa.scalar(cutoff, schemas.INSTANT))
    unsafe = pc.match_substring_regex(keys, unsafe_names)
    sizes = batch.column("size_bytes")
    return {
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
    """Say whether a key lies in the tables of a repository, of this server's prefix or of the usual one."""
    return nested_repository(key) or nested_repository(key, protected_prefix=prefix)
