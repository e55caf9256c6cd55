"""Purge: delete objects for good once their quarantine days are over.

Each object is looked at once more before that, to find whether something needs it. Executors list
the quarantine and delete from it; the driver holds the tally of each task. The driver itself
deletes few objects, with the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from spark_core import holds, lakegc_keys, recorded_work, schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, with_address_hash
from spark_core.errors import IncompleteReadError, LakegcError
from spark_core.lock.held_lease import Lease
from spark_core.recorded_work import Objects, RecordedTask, Tally, TaskOrders
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.references.parts_of_look import GOOD_FOR
from spark_core.run import Run
from spark_core.spark.exchange import Batches, Source
from spark_core.spark.failures import spark_failures
from spark_core.upkeep.purge_quarantine_batches import Purging, rows_of
from spark_core.upkeep.quarantine_days_over import OVER, list_due
from spark_core.upkeep.quarantine_still_needed import needed_finder

# Names with less than this share of their time left are looked for again before a new round.
_WORTH_A_ROUND = 0.2


@dataclass
class Purged:
    """What a purge did.

    Attributes:
        objects: Objects deleted for good ...
        size_bytes: ... and their bytes.
        left: Objects that the store did not delete, or that there was no time for; the next purge
            takes them again.
        unknown: Objects that may be gone: they were sent, or given to Spark or to work that was
            interrupted or could not write down what it did, and their outcome is not known.
        strangers: Keys in a run's folder that its journal does not name. No sweep put them there,
            and they stay.
        in_use: Objects that stay because a hold keeps them, or because something refers or may
            refer to them and they are not shown to be back in their place.
        record: Folder of the tables of outcomes, columns of `schemas.PURGED`; None if nothing was
            written down.
    """

    objects: int = 0
    size_bytes: int = 0
    left: int = 0
    unknown: int = 0
    strangers: int = 0
    in_use: int = 0
    record: str | None = None

    def add(self, tally: Tally) -> None:
        """Add what tasks did; objects that they had no time for stay in `left`."""
        self.objects += tally.objects["purged"]
        self.size_bytes += tally.size_bytes["purged"]
        self.in_use += tally.objects["in_use"]
        self.unknown += tally.objects["unknown"]
        self.left -= tally.done - tally.objects["left"]


def purge(run: Run, held: Lease, done: Purged) -> None:
    """Delete for good what is in quarantine longer than its days; call it under the lease.

    An object stays if a hold keeps it, by its key or by its old address. It stays if the journal of
    its run does not name it. An object that something refers to also stays, unless it
    is back in its place and nothing refers to the copy. A look is good for as long as before a
    deletion by a sweep (`GOOD_FOR`). Another look follows if objects are left when it is over.

    Args:
        run: A run that is marked; its options say how long.
        held: The lease. It is beaten before each request that deletes, also when a client sends one
            again. Tasks of Spark send no request shortly before it may run out. An error of the
            lease, such as its loss, ends the purge.
        done: Counts what is done, also when an error ends the purge. A refusal of the store is
            counted in `left`, not raised: the objects are as dead the next time.

    Raises:
        LakegcError: If the folder cannot be listed, a report or a journal cannot be read, or nobody
            can tell what is needed; what another run moved was purged.
    """
    where = lakegc_keys.record(lakegc_keys.PURGES, run.key, run.now())
    planned, strangers, problem = list_due(run, f"{where}planned/")
    done.strangers += strangers
    if planned:
        work = _Purge(run, held, where, reading.source_of_parts(run.store, OVER, planned), done)
        try:
            work.go()
        finally:
            work.note_left()
    if problem is not None:
        raise problem


@dataclass
class _Purge:
    """One purge: rounds over what is left, each under a look and a lease that are still good.

    Attributes:
        run: A run that is marked.
        held: The lease.
        where: Folder of the record.
        over: What is to be purged, columns of `quarantine_days_over.OVER`.
        done: Counts what is done.
    """

    run: Run
    held: Lease
    where: str
    over: Source[Any]
    done: Purged
    _outcomes: int = 0
    _parts: list[Part] = field(default_factory=list)
    # The outcome that the rest gets if this ends early; None: nothing was asked of the store yet.
    _rest: Literal["left", "unknown"] | None = None

    @property
    def count(self) -> int:
        """Objects that have no outcome yet."""
        return self.over.rows - self._outcomes

    def go(self) -> None:
        """Work in rounds until each object has an outcome, or a round does nothing any more."""
        run, find = self.run, needed_finder(self.run)
        needed, kept, until = None, holds.NONE, run.now()
        while self.count:
            if needed is None or until - run.now() < GOOD_FOR * _WORTH_A_ROUND:
                kept = holds.load(run.store)
                needed = find(self.over)
                # They must also cover a request that is under way.
                until = needed.began + GOOD_FOR - min(run.store.options.retry_timeout, GOOD_FOR / 2)
            if self._rest is None:
                self.done.left = self.count
            limit = run.options.max_deletes_per_second
            purging = Purging(kept, run.options.read_threads, limit, needed.hashes)
            self._rest = "unknown"
            try:
                tally = self._recorded(purging, until)
            except LakegcError:
                # Before anything was done.
                self._rest = "left"
                raise
            self.done.add(tally)
            # What was purged and could not be written down must not be written down as left.
            if not tally.lost and sum(part.rows for part in tally.parts) == tally.done:
                self._rest = "left"
            if tally.problem is not None:
                raise tally.problem
            if self.count and not tally.cut:
                raise IncompleteReadError(
                    f"repository {run.repository.id}: Spark lost {self.count} objects in "
                    "quarantine that were to be purged. Run again; if it stays, report it with "
                    "this text and Spark's version."
                )
            if not tally.done:
                return

    def _recorded(self, work: recorded_work.Work, until: datetime | None) -> Tally:
        held = None if until is None else self.held
        orders = TaskOrders(self.run.store, work, schemas.PURGED, self.where)
        schema = pa.schema([ADDRESS_HASH, *OVER])
        over = self.over.through(schema, with_address_hash)
        objects = Objects({"over": over}, {}, _over, OVER, ("run", "address"))
        tally = recorded_work.work_on(
            self.run, objects, self._parts, orders, held=held, until=until
        )
        self._outcomes += tally.done
        self._parts += tally.parts
        if tally.parts or tally.lost:
            self.done.record = self.where
        return tally

    def note_left(self) -> None:
        """Write down the objects without an outcome, however this ended.

        If the store does not take it, only the tally has them.
        """
        if self._rest is None or not self.count:
            return
        if self._rest == "unknown":
            self.done.left, self.done.unknown = (
                self.done.left - self.count,
                self.done.unknown + self.count,
            )
        try:
            noted = self._recorded(_Noting(self._rest), None)
            if noted.problem is not None:
                raise noted.problem
        except spark_failures(LakegcError):
            return


def _over(bucket: Mapping[str, pa.Table]) -> pa.Table:
    return bucket["over"].select(OVER.names)


@dataclass(frozen=True)
class _Noting:
    """Gives each object the same outcome, and asks for nothing."""

    outcome: str

    def __call__(self, task: RecordedTask, batches: Batches) -> Batches:
        for batch in batches:
            yield rows_of([(row, self.outcome) for row in batch.to_pylist()], task.gate.now())
