"""Many small files of an index become few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys, schemas
from spark_core.records import reading, writing
from spark_core.records.manifest import Part
from spark_core.records.writing import Target
from spark_core.spark.tasks import join_small
from spark_core.storage import ObjectStore

# Files of one kind that are merged if there are more of them, and rows from which one is not small.
_MANY = 32
_ROWS = 100_000


@dataclass(frozen=True)
class Files:
    """The files of an index; as in `saved.Saved`."""

    slices: tuple[Part, ...] = ()
    trees: tuple[Part, ...] = ()
    ranges: tuple[Part, ...] = ()
    entries: tuple[Part, ...] = ()


def merged(store: ObjectStore, files: Files) -> Files:
    """Write the rows of small files into few new ones, where the small ones are many.

    The old files stay where they are: other documents may name them.

    Args:
        store: Rooted at the namespace.
        files: The files.

    Raises:
        CorruptTableError: If a file is not as it was written.
    """
    slices = _few(store, "slices", schemas.NAMESPACE_SLICES, files.slices)
    trees = _few(store, "trees", schemas.INDEXED_TREES, files.trees)
    if not _are_many(files.entries):
        ranges = _few(store, "ranges", schemas.INDEXED_RANGES, files.ranges)
        return Files(slices, trees, ranges, files.entries)
    return Files(slices, trees, *_moved(store, files))


def _are_many(parts: Sequence[Part]) -> bool:
    return len(_small(parts)) > _MANY


def _small(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.rows < _ROWS]


def _few(
    store: ObjectStore, name: str, schema: pa.Schema, parts: tuple[Part, ...]
) -> tuple[Part, ...]:
    if not _are_many(parts):
        return parts
    rest = tuple(part for part in parts if part.rows >= _ROWS)
    rows = (batch for part in _small(parts) for batch in reading.read_part(store, schema, part))
    return rest + _written(store, name, schema, rows)


def _written(
    store: ObjectStore, name: str, schema: pa.Schema, rows: Iterator[pa.RecordBatch]
) -> tuple[Part, ...]:
    target = Target(store, lakegc_keys.INDEX, writing.new_attempt(), schema, name=name)
    return writing.removed_on_failure(target, lambda: writing.write_parts(target, 0, rows)).parts


def _moved(store: ObjectStore, files: Files) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Merge files of entries, and say in the ranges where their entries lie now.

    Returns:
        The files of ranges, and those of entries.
    """
    schema = schemas.INDEXED_ENTRIES
    entries = [part for part in files.entries if part.rows >= _ROWS]
    moved: dict[str, tuple[str, int]] = {}
    for group in join_small(_small(files.entries), lambda part: part.rows, writing.MAX_PART_ROWS):
        batches = [batch for part in group for batch in reading.read_part(store, schema, part)]
        whole = pa.Table.from_batches(batches, schema).combine_chunks()
        # One batch, and so one file.
        (into,) = _written(store, "entries", schema, iter(whole.to_batches()))
        begins = np.cumsum([0, *(part.rows for part in group)]).tolist()
        moved |= {part.key: (into.key, begin) for part, begin in zip(group, begins, strict=False)}
        entries.append(into)
    rows = (
        _with_places(batch, moved)
        for part in files.ranges
        for batch in reading.read_part(store, schemas.INDEXED_RANGES, part)
    )
    return _written(store, "ranges", schemas.INDEXED_RANGES, rows), tuple(entries)


def _with_places(ranges: pa.RecordBatch, moved: dict[str, tuple[str, int]]) -> pa.RecordBatch:
    names = ranges.column("file").to_pylist()
    places = [moved.get(name, (name, 0)) for name in names]
    columns = dict(zip(ranges.schema.names, ranges.columns, strict=True))
    columns["file"] = pa.array([name for name, _ in places], pa.string())
    begins = pa.array([begin for _, begin in places], pa.int64())
    columns["first_row"] = pc.add(columns["first_row"], begins)
    return pa.record_batch(list(columns.values()), schema=ranges.schema)
