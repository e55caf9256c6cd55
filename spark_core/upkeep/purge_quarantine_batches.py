"""The executors' part of a purge: compare copies with their places, and delete them for good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed
from spark_core.errors import LakegcError, NotFoundError
from spark_core.holds import Holds
from spark_core.recorded_work import Gate, RecordedTask
from spark_core.spark.exchange import Batches
from spark_core.storage import ObjectStore
from spark_core.storage.copies import described_same, same_content
from spark_core.storage.objects import Description
from spark_core.storage.outcomes import GONE, Pace
from spark_core.sweep.deadline import DeadlinePassedError
from spark_core.sweep.pacing import Pacer

# A task remembers at most this many objects whose bytes alone tell whether they are back in place.
_UNSURE = 10_000
# What becomes of a copy.
GOES, COMPARED, IN_USE = "goes", "compared", "in_use"
_NO_COPY: Literal["no copy"] = "no copy"

_Row: TypeAlias = Mapping[str, Any]


def what_becomes(copies: pa.RecordBatch, needed: Any, held: Holds) -> Any:
    """Say what becomes of copies whose days are over.

    A mark let their objects go (`fates`), and a sweep moved them here; this is about the copies.
    Hashes decide, so two names with one hash can only keep a copy, or have it compared.

    Args:
        copies: Columns address and key.
        needed: Hashes of names that something refers to, sorted.
        held: What people keep by its name.

    Returns:
        An array: `IN_USE` where somebody refers to the copy itself, or holds it or its object,
        `COMPARED` where somebody refers to the object, which may be back in its place, else `GOES`.
    """
    is_key, is_address = (
        are_among(hashed(copies.column(name)).to_numpy(), needed) for name in ("key", "address")
    )
    is_held = pc.or_(*(held.protecting(copies.column(name)) for name in ("key", "address")))
    stays = is_key | is_held.to_numpy(zero_copy_only=False)
    return np.where(stays, IN_USE, np.where(is_address, COMPARED, GOES))


@dataclass(frozen=True)
class Purging:
    """The work of a task.

    Attributes:
        held: What is kept by its name.
        threads: Objects that a task looks at side by side.
        deletes_per_second: How fast all tasks may delete; None: no limit.
        needed: Hashes of names that something refers to, sorted.
    """

    held: Holds
    threads: int
    deletes_per_second: float | None
    needed: Any

    def __call__(self, task: RecordedTask, batches: Batches) -> Batches:
        """Delete the objects of one task; yield columns of `schemas.PURGED`."""
        pacer = None
        if self.deletes_per_second is not None:
            pacer = Pacer(self.deletes_per_second / task.tasks, task.store.delete_batch_size)
            if task.is_retry:
                pacer.hold_back()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakegc-purge") as pool:
            yield from _Deleting(self, task.store, task.gate, pacer, pool).do(batches)


@dataclass
class _PurgePace(Pace):
    """Called before each request that deletes.

    A store's client also calls it before it sends a request again, which may be minutes later.

    Attributes:
        gate: Closes when the look is over, and when the lease may be lost.
        pacer: Keeps the limit, if there is one.
        sent: Whether a request was sent.
    """

    gate: Gate
    pacer: Pacer | None
    sent: bool = False

    def __call__(self) -> None:
        if self.pacer is not None:
            self.pacer()
        self.gate.require()
        self.sent = True


@dataclass
class _Deleting:
    """Deletes copies as long as the look is good.

    It yields the outcome of each copy that there was time for, by its name in `schemas.PURGED`.
    """

    orders: Purging
    store: ObjectStore
    gate: Gate
    pacer: Pacer | None
    pool: ThreadPoolExecutor

    def do(self, batches: Batches) -> Batches:
        """Delete objects that are not needed, and needed ones only if they are back in place.

        What nothing refers to goes first, and objects whose bytes must be compared come last, one
        by one: the slow part cannot keep the others for ever.
        """
        size = self.store.delete_batch_size if self.pacer is None else self.pacer.batch_size
        compared: list[pa.RecordBatch] = []
        for batch in batches:
            for begin in range(0, batch.num_rows, size):
                if self.gate.passed:
                    return
                some = batch.slice(begin, size)
                what = what_becomes(some, self.orders.needed, self.orders.held)
                yield from self._in_use(some.filter(pa.array(what == IN_USE)).to_pylist())
                yield from self._deleted(some.filter(pa.array(what == GOES)).to_pylist())
                compared.append(some.filter(pa.array(what == COMPARED)))
        unsure: list[_Row] = []
        for some in compared:
            if self.gate.passed:
                return
            yield from self._told_same(some.to_pylist(), unsure)
            if len(unsure) >= _UNSURE:
                yield from self._same_bytes(unsure)
                unsure = []
        yield from self._same_bytes(unsure)

    def _in_use(self, rows: Sequence[_Row]) -> Iterator[pa.RecordBatch]:
        if rows:
            yield rows_of([(row, "in_use") for row in rows], self.gate.now())

    def _told_same(self, rows: Sequence[_Row], unsure: list[_Row]) -> Iterator[pa.RecordBatch]:
        """Delete what the store shows to be back in place; add to `unsure` what needs its bytes."""
        back: list[_Row] = []
        other: list[_Row] = []
        gone: list[_Row] = []
        for row, pair in zip(rows, self.pool.map(partial(_sights, self.store), rows), strict=True):
            if pair == _NO_COPY:
                gone.append(row)
            elif pair is None or pair[0].size_bytes != pair[1].size_bytes:
                other.append(row)
            else:
                (back if described_same(*pair) else unsure).append(row)
        if gone:
            yield rows_of([(row, "purged") for row in gone], self.gate.now())
        yield from self._in_use(other)
        yield from self._deleted(back)

    def _same_bytes(self, unsure: Sequence[_Row]) -> Iterator[pa.RecordBatch]:
        for row in unsure:
            if self.gate.passed:
                return
            # What was seen of both before may be minutes old.
            pair = _sights(self.store, row)
            if pair == _NO_COPY:
                yield rows_of([(row, "purged")], self.gate.now())
            elif pair is not None and _has_same_bytes(self.store, *pair):
                yield from self._deleted([row])
            else:
                yield from self._in_use([row])

    def _deleted(self, rows: Sequence[_Row]) -> Iterator[pa.RecordBatch]:
        """Delete copies with one request; yield nothing for copies that no request was sent for."""
        if self.gate.passed or not rows:
            return
        keys, outcomes, problem, pace = (
            [row["key"] for row in rows],
            dict[str, str](),
            None,
            _PurgePace(self.gate, self.pacer),
        )
        try:
            outcomes = {answer.key: answer.outcome for answer in self.store.delete(keys, pace=pace)}
        except DeadlinePassedError:
            pass
        except LakegcError as ended:
            problem = ended
        if pace.sent:
            # An object that the store did not confirm may be gone: an answer was lost, and only the
            # second one refused.
            outcomes |= self._examined([key for key in keys if outcomes.get(key) not in GONE])
        if outcomes:
            words = {"deleted": "purged", "already_gone": "purged", "unknown": "unknown"}
            yield rows_of(
                [(row, words.get(outcomes[row["key"]], "left")) for row in rows], self.gate.now()
            )
        if problem is not None:
            raise problem

    def _examined(self, keys: Sequence[str]) -> dict[str, str]:
        """Say which keys are `already_gone` and which are `left`.

        From the first key on that the store does not answer for, the keys are `unknown`.
        """
        outcomes: dict[str, str] = {}
        rest = iter(keys)
        with suppress(LakegcError):
            while some := list(islice(rest, self.orders.threads)):
                there = list(self.pool.map(self.store.exists, some))
                outcomes |= {
                    key: "left" if is_there else "already_gone"
                    for key, is_there in zip(some, there, strict=True)
                }
        return dict.fromkeys(keys, "unknown") | outcomes


def rows_of(outcomes: Sequence[tuple[_Row, str]], at: datetime) -> pa.RecordBatch:
    """Return objects with their outcomes: columns of `schemas.PURGED`."""
    rows = [
        {
            "address": row["address"],
            "run": row["run"],
            "size_bytes": row["size_bytes"],
            "outcome": outcome,
            "purged_at": at,
        }
        for row, outcome in outcomes
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schemas.PURGED)


def _sights(
    store: ObjectStore, row: _Row
) -> tuple[Description, Description] | Literal["no copy"] | None:
    """Return what the store says of an object's place and of its copy; None if it does not answer.

    A copy may be gone: Spark begins a task again if it lost its executor after its deletions.
    """
    try:
        copy = store.describe(row["key"])
    except NotFoundError:
        return _NO_COPY
    except LakegcError:
        return None
    try:
        return store.describe(row["address"]), copy
    except LakegcError:
        return None


def _has_same_bytes(store: ObjectStore, original: Description, copy: Description) -> bool:
    try:
        return same_content(store, original, copy)
    except LakegcError:
        # The object is in an archive, or gone by now.
        return False
