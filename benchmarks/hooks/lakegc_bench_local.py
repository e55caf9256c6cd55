"""A store whose objects below `data/` follow from a plan; all other files are on disk.

So the measured command uses its own store contract, and millions of files need not be written. A
thousand keys count as one request, as on S3. Importing this module replaces `LocalStore` by the
planned store.
"""

# ruff: noqa: INP001 - measured processes find this folder on PYTHONPATH

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lakegc_bench_plan import Layers

from spark_core.errors import NotFoundError
from spark_core.storage import local
from spark_core.storage.listing_rows import listing_batch
from spark_core.storage.objects import Description, ObjectInfo
from spark_core.storage.outcomes import DeleteOutcome

_PAGE = 1_000
_BATCH = 10 * _PAGE
_INSTANT = pa.timestamp("us", tz="UTC")


@cache
def _plan() -> Layers:
    return Layers.read(Path(os.environ["LAKEGC_BENCH_PLAN"]))


def _tell(kind: str, began: float) -> None:
    """Write down the CPU that making an answer up took since an instant of this thread's clock."""
    spent = round((time.thread_time() - began) * 1e6)
    note = getattr(sys.modules.get("sitecustomize"), "note", None)
    if spent and note is not None:
        note(f"feigned {kind} {spent}\n")


def _is_planned(key: str) -> bool:
    return key.split("/", 1)[0] == "data"


class PlannedStore(local.LocalStore):
    """Answers for `data/` from the plan that `LAKEGC_BENCH_PLAN` names."""

    def list(self, prefix: str, *more: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """List the objects of one slice, or of all.

        Raises:
            NotImplementedError: For options that the plan does not know.
        """
        if not _is_planned(prefix):
            return super().list(prefix, *more, **options)
        if more or options:
            raise NotImplementedError(
                f"list({prefix!r}) with {more} and {options}: teach it to the synthetic store"
            )
        name = prefix.strip("/").partition("/")[2]
        return self._slices(_plan().slice_names if not name else [name])

    def _slices(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        layers = _plan()
        for plan, number in [found for name in names if (found := layers.slice_of(name))]:
            first = number * plan.slice_objects
            for start in range(first, first + plan.slice_objects, _BATCH):
                began = time.thread_time()
                end = min(start + _BATCH, first + plan.slice_objects)
                objects = plan.there(np.arange(start, end, dtype=np.int64))
                modified = pa.array(plan.times(objects) * 1_000_000, pa.int64()).cast(_INSTANT)
                batch = listing_batch(
                    plan.addresses(objects), pa.array(plan.sizes(objects)), modified
                )
                _tell("list", began)
                for _ in range(0, len(objects), _PAGE):
                    self.requests["list"] += 1
                yield batch

    def children(self, prefix: str) -> tuple[Any, pa.Table]:
        """List one level; neither the slices nor their folder are on disk."""
        if not _is_planned(prefix):
            folders, objects = super().children(prefix)
            return (folders if prefix.strip("/") else sorted({*folders, "data/"})), objects
        names = _plan().slice_names
        for _ in range(0, len(names), _PAGE):
            self.requests["list"] += 1
        none = listing_batch([], [], pa.array([], _INSTANT))
        return sorted(f"data/{name}/" for name in names), pa.Table.from_batches([none])

    def head(self, key: str) -> ObjectInfo:
        """Describe one object."""
        if not _is_planned(key):
            return super().head(key)
        self.requests["head"] += 1
        found = _plan().object_of(key)
        if found is None:
            raise NotFoundError(f"{key} is not in {self.root}")
        plan, number = found
        one = np.array([number], np.int64)
        return ObjectInfo(
            key, int(plan.sizes(one)[0]), datetime.fromtimestamp(int(plan.times(one)[0]), UTC)
        )

    def describe(self, key: str) -> Description:
        """Describe one object so that it can be recognized."""
        if not _is_planned(key):
            return super().describe(key)
        found = self.head(key)
        return Description(key, found.size_bytes, found.last_modified.isoformat())

    def delete(self, keys: Sequence[str], **options: Any) -> Any:
        """Report each object as deleted, without any work."""
        if not all(map(_is_planned, keys)):
            return super().delete(keys, **options)
        pace = options.get("pace")
        for _ in range(0, len(keys), _PAGE):
            if pace is not None:
                pace()
            self.requests["delete"] += 1
        return [DeleteOutcome(key, "deleted") for key in keys]

    def probe_delete(self, key: str) -> DeleteOutcome:
        """Report that deletion is permitted."""
        return DeleteOutcome(key, "already_gone")


local.LocalStore = PlannedStore  # type: ignore[misc]
