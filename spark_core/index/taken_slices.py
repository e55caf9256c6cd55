"""The rows of closed slices that an optimized run takes from the index, and those that it leaves.

It leaves the rows of slices that it lists again, or that the store does not show any more, and the
objects that sweeps have deleted. One pass over the files finds them, by two or three columns. It
compares the bytes of each file, so that a damaged one is a miss before anything relies on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys, schemas
from spark_core.addresses.address_hashes import are_among
from spark_core.errors import LakegcError
from spark_core.index.choosing import Clean, Index
from spark_core.index.deletions import deleted_since, unanswered_since
from spark_core.records import reading, writing
from spark_core.records.manifest import Part
from spark_core.records.writing import Target
from spark_core.run import Run
from spark_core.spark.tasks import run_tasks
from spark_core.storage.classes import bytes_by_class


@dataclass(frozen=True)
class Taken:
    """What is taken of closed slices.

    Attributes:
        slices: The slices that are not listed.
        parts: The files, without the rows that are left.
        size_bytes: Bytes of the objects in them.
        gone_objects: Objects that are left this time because sweeps deleted them.
        by_class: Those bytes by storage class, as it was when they were listed.
    """

    slices: frozenset[str] = frozenset()
    parts: tuple[Part, ...] = ()
    size_bytes: int = 0
    gone_objects: int = 0
    by_class: Mapping[str, int] = field(default_factory=dict)

    @property
    def objects(self) -> int:
        """Objects in them."""
        return sum(part.rows for part in self.parts)


def take(run: Run, index: Index, slices: Sequence[str]) -> Taken | Clean:
    """Take the closed slices of an index.

    Args:
        run: The run.
        index: What it takes from.
        slices: Names of all slices that the store shows.

    Returns:
        What is taken; or why the run must be a clean one, if a file is damaged, more was deleted
        than the driver holds, or a sweep did not write down what it deleted.
    """
    taken = frozenset(name for name in slices if not index.lists(name))
    attempt = writing.new_attempt()
    target = Target(
        run.store,
        lakegc_keys.INDEX,
        attempt,
        schemas.LEFT_OUT_ROWS,
        name="gone",
        holds=writing.HELD_BYTES,
    )
    parts = index.saved.slices
    try:
        if why := unanswered_since(run, index.saved):
            return Clean(why)
        deleted = deleted_since(run, index.saved)
        work = partial(_take, target, pa.array(sorted(taken), pa.string()), deleted)
        rows = sum(part.whole.rows for part in parts)
        found = writing.removed_on_failure(
            target, lambda: run_tasks(lambda: run.spark, list(parts), work, rows=rows)
        )
    except LakegcError as problem:
        return Clean(f"the index of run {index.saved.run} cannot be used: {problem.found}")
    return Taken(
        taken,
        tuple(sorted((one.part for one in found if one.part.rows), key=lambda part: part.key)),
        sum(one.size_bytes for one in found),
        sum(one.gone_objects for one in found),
        sum((one.by_class for one in found), Counter[str]()),
    )


@dataclass(frozen=True)
class _OfAFile:
    """What is taken of a file; as in `Taken`."""

    part: Part
    size_bytes: int
    gone_objects: int
    by_class: Counter[str]


def _take(
    target: Target, slices: pa.StringArray, deleted: Any, number: int, part: Part
) -> _OfAFile:
    """Find the rows of a file that are left; runs on an executor."""
    before = reading.rows_left_out(target.store, part)
    is_left = np.zeros(part.whole.rows, np.bool_)
    is_left[before] = True
    names = ["slice", "size_bytes", "storage_class"]
    names += ["address_hash"] if len(deleted) else []
    wanted = pa.schema([schemas.NAMESPACE_SLICES.field(name) for name in names])
    begin = size_bytes = gone = 0
    classes = Counter[str]()
    for batch in reading.read_part(target.store, wanted, part.whole, again=True):
        of_batch = is_left[begin : begin + batch.num_rows]
        begin += batch.num_rows
        is_taken = pc.is_in(batch.column("slice"), value_set=slices)
        if len(deleted):
            is_gone = are_among(batch.column("address_hash").to_numpy(), deleted)
            gone += int((is_gone & ~of_batch).sum())
            of_batch |= is_gone
        of_batch |= ~is_taken.to_numpy(zero_copy_only=False)
        size_bytes += int(batch.column("size_bytes").to_numpy()[~of_batch].sum())
        classes += bytes_by_class(batch.filter(pa.array(~of_batch)))
    part = _without(target, number, part, np.flatnonzero(is_left))
    return _OfAFile(part, size_bytes, gone, classes)


def _without(target: Target, number: int, part: Part, left: Any) -> Part:
    """Return a file without some of its rows."""
    if len(left) == part.whole.rows - part.rows:
        return part  # there were no others before
    rows = pa.record_batch([pa.array(left.astype(np.int32))], schema=target.schema)
    # All of them are one batch, and so one file.
    (without,) = writing.write_parts(target, number, iter([rows])).parts
    return replace(part, rows=part.whole.rows - len(left), without=without)
