"""Bring back the objects of a task: out of quarantine, or from what the store itself keeps."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from spark_core.errors import NotFoundError
from spark_core.recorded_work import RecordedTask
from spark_core.schemas import RESTORATIONS
from spark_core.spark.exchange import Batches
from spark_core.storage import ObjectStore
from spark_core.storage.undelete import BringBack, Lost, UndeleteOutcome, brought_back
from spark_core.sweep import quarantine
from spark_core.sweep.deadline import DeadlinePassedError

# Objects between two checks of the time and the lease.
_AT_ONCE = 500


@dataclass(frozen=True)
class BringingBack:
    """Brings back the objects of a task; see `recorded_work`.

    Attributes:
        run: The run whose sweep is undone.
        at: When the restore began.
        threads: Objects that a task brings back at once.
        dry_run: Only look.
    """

    run: str
    at: datetime
    threads: int
    dry_run: bool

    def __call__(self, task: RecordedTask, batches: Batches) -> Batches:
        """Yield the outcomes lot by lot, until the time of the task is over."""
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakegc-restore") as pool:
            for batch in batches:
                for begin in range(0, batch.num_rows, _AT_ONCE):
                    try:
                        task.gate.require()
                    except DeadlinePassedError:
                        return
                    lot = batch.slice(begin, _AT_ONCE).to_pylist()
                    answered = list[tuple[dict[str, Any], UndeleteOutcome]]()
                    outcomes = pool.map(partial(self._one, task), lot)
                    try:
                        for row, outcome in zip(lot, outcomes, strict=True):
                            if outcome is not None:
                                answered.append((row, outcome))
                    finally:
                        # Also if an interrupt ends it: what is back is back.
                        if answered:
                            yield self._as_batch(answered)

    def _one(self, task: RecordedTask, row: dict[str, Any]) -> UndeleteOutcome | None:
        if task.gate.passed:
            return None
        address, size_bytes = row["address"], row["size_bytes"]
        if size_bytes is None:
            return UndeleteOutcome(
                address, "not_restorable", f"run {self.run} deleted no object of that address"
            )
        lost = Lost(address, size_bytes, row["last_modified"], row["checksum"])
        return brought_back(
            task.store, lost, partial(_find, task.store, self.run, lost), dry_run=self.dry_run
        )

    def _as_batch(
        self, answered: Sequence[tuple[dict[str, Any], UndeleteOutcome]]
    ) -> pa.RecordBatch:
        return pa.record_batch(
            [
                pa.array([row["address"] for row, _ in answered], pa.string()),
                pa.array([row["size_bytes"] or 0 for row, _ in answered], pa.int64()),
                pa.array([outcome.outcome for _, outcome in answered], pa.string()),
                pa.array([outcome.error for _, outcome in answered], pa.string()),
                pa.array([self.at] * len(answered), RESTORATIONS.field("restored_at").type),
            ],
            schema=RESTORATIONS,
        )


def _find(store: ObjectStore, run: str, lost: Lost) -> BringBack:
    """Find an object in the run's quarantine, else where the store keeps deleted objects."""
    aside = quarantine.key_of(run, lost.key)
    try:
        found = store.content(aside)
    except NotFoundError:
        return store.find_deleted(lost)
    if not lost.is_like(found):
        raise NotFoundError(
            f"in quarantine lies another object of that name ({found.size_bytes} bytes, deleted "
            f"was one of {lost.size_bytes}): look at {aside}"
        )

    def out_of_quarantine() -> None:
        # It keeps its name in quarantine until it is purged, because a restore deletes nothing:
        # somebody may refer to it there.
        if not store.link_to(aside, lost.key, young=True):
            store.copy(aside, lost.key)

    return out_of_quarantine
