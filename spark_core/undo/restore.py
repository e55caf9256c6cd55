"""Undo: bring back the objects of a sweep, and prove that they are there.

The objects come out of quarantine, or from what the store itself keeps. Nothing is deleted here and
no object is ever replaced. The report of a sweep tells what it deleted. Its journal tells it where
the sweep was killed before it had a report, or after it had taken up what an earlier sweep left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core import lakegc_keys, recorded_work
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    IncompleteReadError,
    LakegcError,
    NotFoundError,
    TransientError,
)
from spark_core.lock import lease
from spark_core.phases import phase, restoring
from spark_core.recorded_work import Gate, Orders, Rows, Tally
from spark_core.records import reading, tables
from spark_core.records.figures import DeletionFigures
from spark_core.records.journal import Journal, JournalPart
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.tables import (
    DELETION_REPORT,
    EXPIRED_ADDRESSES,
    LOOKED_UP_OBJECTS,
    NAMESPACE_SLICES,
    TableSpec,
)
from spark_core.run import Run
from spark_core.schemas import RESTORATIONS
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import frame_of, read_partitions
from spark_core.storage import ObjectStore
from spark_core.storage.undelete import BringBack, Lost, UndeleteOutcome, brought_back
from spark_core.sweep import quarantine
from spark_core.sweep.deadline import DeadlinePassedError

BACK = ("restored", "already_there")

# Objects between two checks of the time and the lease.
_AT_ONCE = 500
# Rounds that bring nothing back before the restore gives up.
_IDLE_ROUNDS = 3
# Addresses that travel with a plan of Spark and with each task; more of them are a frame.
_FEW = 2_000
# The result names at most this many objects that are not back.
_NAMED = 1_000

_DELETED = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("size_bytes", pa.int64())]
)


@dataclass
class Restored:
    """What a restore did.

    Attributes:
        objects: By outcome of `UndeleteOutcome`.
        size_bytes: By outcome.
        left: Some of the objects that are not back.
        record: Folder of the tables of all outcomes, ending in a slash; None if nothing was written
            down.
    """

    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)
    left: list[UndeleteOutcome] = field(default_factory=list)
    record: str | None = None

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for is back or, in a dry run, could come back."""
        return not self.objects["failed"] and not self.objects["not_restorable"]

    def add(self, tally: Tally) -> None:
        """Add what tasks did."""
        self.objects.update(tally.objects)
        self.size_bytes.update(tally.size_bytes)
        named = tally.named[: _NAMED - len(self.left)]
        self.left += [UndeleteOutcome(key, outcome, error) for key, outcome, error in named]  # type: ignore[arg-type]


def restore(run: Run, addresses: Sequence[str] | None = None, *, dry_run: bool = False) -> Restored:
    """Bring back what the sweep of a run deleted.

    The deleted objects are joined once with what the mark saw of them. Tasks of Spark bring back
    many objects, in rounds that each end before the lease may run out; this process brings back a
    few.

    Args:
        run: The run whose sweep is undone.
        addresses: Only these, relative or in full; all that the sweep deleted when None.
        dry_run: Only say what could come back; writes nothing.

    Returns:
        The outcome of each object; the tables of all outcomes are stored under
        `lakegc_keys.RESTORES`.

    Raises:
        ChainError: If the run was never swept.
        LeaseHeldError: If a collector is at work in the namespace.
        IncompleteReadError: If Spark lost objects on the way.
    """
    wanted = (
        None
        if addresses is None
        else list(dict.fromkeys(_relative(run, address) for address in addresses))
    )
    done = Restored()
    with phase(lambda: restoring(done.objects["restored"])):
        deleted = _Deleted.read(run)
        if dry_run:
            _bring_back_all(run, deleted, wanted, done, None)
            return done
        with lease.held(run, work="restore") as held:
            # Found again: a sweep that ended in between has written down more.
            _bring_back_all(run, _Deleted.read(run), wanted, done, held)
    return done


def _relative(run: Run, address: str) -> str:
    return address.removeprefix(run.store.root)


@surfacing_errors()
def _bring_back_all(
    run: Run,
    deleted: _Deleted,
    wanted: Sequence[str] | None,
    done: Restored,
    held: lease.Lease | None,
) -> None:
    """Bring back in rounds until each object has an outcome; a dry run, without a lease, looks."""
    began = run.now()
    folder = None if held is None else lakegc_keys.record(lakegc_keys.RESTORES, run.key, began)
    if held is not None:
        # Before the first object is back: what a mark knows of them is wrong from then on.
        run.store.put(lakegc_keys.restored_key(began), b"")
    work = _BringingBack(str(run.key), began, run.options.read_threads, dry_run=held is None)
    orders = Orders(run.store, work, RESTORATIONS, folder)
    every, count = deleted.described(run, wanted)
    rows, parts, idle = every, list[Part](), 0
    try:
        while count > 0:
            tally = recorded_work.work_on(run, rows, count, orders, held=held)
            done.add(tally)
            parts += tally.parts
            done.record = folder if parts else None
            if tally.problem is not None:
                raise tally.problem
            count -= tally.done
            idle = 0 if tally.done else idle + 1
            if count > 0 and not tally.cut:
                raise IncompleteReadError(
                    f"run {run.key} of {run.repository.id}: Spark lost {count} of the objects "
                    "that were to be brought back; the others have their outcome. Run the same "
                    "command again; if it stays, report it with this text."
                )
            if idle == _IDLE_ROUNDS:
                raise _without_time(run, count)
            rows = recorded_work.without(run, every, parts, RESTORATIONS, ["address"])
    finally:
        if held is not None:
            # A mark that listed the store meanwhile does not know of what came back after that.
            # Without this note, the next full mark finds it.
            with suppress(LakegcError):
                run.store.put(lakegc_keys.restored_key(run.now()), b"")
        if not isinstance(every, pa.Table):
            every.unpersist()


def _without_time(run: Run, left: int) -> TransientError:
    return TransientError(
        f"run {run.key} of {run.repository.id}: {_IDLE_ROUNDS} rounds passed without a single "
        "object brought back, because the lease was over before (it is good for "
        f"{run.options.lease_ttl}); {left} are left. Raise lease_ttl_seconds, or give Spark more "
        "cores, and run the same command again: it goes on from what it finds."
    )


@dataclass(frozen=True)
class _BringingBack:
    """The work of a task.

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

    def __call__(
        self, store: ObjectStore, gate: Gate, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakegc-restore") as pool:
            for batch in batches:
                for begin in range(0, batch.num_rows, _AT_ONCE):
                    try:
                        gate.require()
                    except DeadlinePassedError:
                        return
                    lot = batch.slice(begin, _AT_ONCE).to_pylist()
                    outcomes = zip(lot, pool.map(partial(self._one, store, gate), lot), strict=True)
                    yield self._as_batch(
                        [(row, outcome) for row, outcome in outcomes if outcome is not None]
                    )

    def _one(self, store: ObjectStore, gate: Gate, row: dict[str, Any]) -> UndeleteOutcome | None:
        if gate.passed:
            return None
        address, size_bytes = row["address"], row["size_bytes"]
        if size_bytes is None:
            return UndeleteOutcome(
                address, "not_restorable", f"run {self.run} deleted no object of that address"
            )
        lost = Lost(address, size_bytes, row["last_modified"], row["checksum"])
        return brought_back(
            store, lost, partial(_find, store, self.run, lost), dry_run=self.dry_run
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
        # The copy stays until it is purged, because a restore deletes nothing.
        store.copy(aside, lost.key)

    return out_of_quarantine


@dataclass(frozen=True)
class _Deleted:
    """The record of what the sweep of a run deleted, or may have deleted.

    Attributes:
        report: Its report, if it left one.
        journal: Its journal; None where the report says all.
        intents: The parts of the journal that say what was about to be deleted.
    """

    report: StoredTable | None
    journal: Journal | None = None
    intents: Sequence[JournalPart] = ()

    @classmethod
    def read(cls, run: Run) -> _Deleted:
        """Find the record.

        Raises:
            ChainError: If the run was never swept.
        """
        report = None
        if run.store.exists(tables.manifest_key(DELETION_REPORT, run.key)):
            report = run.load(DELETION_REPORT)
            if not _may_be_continued(report.manifest):
                return cls(report)
        # The journal is read if there is no report, or if a later sweep may have taken up what the
        # report had left and was killed before it made another one. The store knows better than any
        # record whether an object is gone.
        expired = run.load(EXPIRED_ADDRESSES)
        book = Journal(run.store, str(run.key), expired.manifest.sha256)
        intents = [part for part in book.parts() if part.kind == "intent"]
        if report is None and not intents:
            raise ChainError(
                f"run {run.key} of {run.repository.id} deleted nothing: it has neither a deletion "
                "report nor a journal. `lakegc report` names the runs of a repository."
            )
        return cls(report, book, intents)

    def described(self, run: Run, wanted: Sequence[str] | None) -> tuple[Rows, int]:
        """Join what was deleted with what the mark saw of it, in one pass over the mark's tables.

        Tables that are no longer there are left out.

        Args:
            run: The run.
            wanted: Only these addresses. Each is a row then, with a null for its size if it was not
                deleted.

        Returns:
            Columns address, size_bytes, last_modified, checksum; and how many rows.
        """
        modified, checksums = (
            _Column.of(run, EXPIRED_ADDRESSES, "last_modified"),
            _checksums(run),
        )
        if self._is_small and modified.is_small and checksums.is_small:
            found = self._table(wanted)
            rows = found.join(modified.table(wanted), "address").join(
                checksums.table(wanted), "address"
            )
        else:
            frame = self._frame(run, wanted)
            # The join leaves out what is not wanted; a filter only saves rows on the way to it.
            filtered = None if wanted is None or not _are_few(wanted) else wanted
            for column in (modified, checksums):
                frame = frame.join(column.frame(run, filtered), on="address", how="left")
            if wanted is None:
                return frame.persist(), self._count(run)
            # No more rows than the caller holds.
            rows = frame.toArrow()
        if wanted is not None:
            rows = pa.table({"address": pa.array(wanted, pa.string())}).join(rows, "address")
        return rows.sort_by("address").combine_chunks(), rows.num_rows

    @property
    def _is_small(self) -> bool:
        intended = sum(part.rows for part in self.intents)
        return (self.report is None or self.report.is_small) and intended <= reading.DRIVER_ROWS

    def _table(self, wanted: Sequence[str] | None) -> pa.Table:
        found = (
            []
            if self.report is None
            else list(map(_gone, self.report.batches([*_DELETED.names, "outcome"])))
        )
        if self.journal is not None:
            found += [
                self.journal.read(part).select(_DELETED.names).cast(_DELETED)
                for part in self.intents
            ]
        deleted = _only(pa.Table.from_batches(found, _DELETED), wanted)
        # A later round intended again what an earlier one had not sent.
        return (
            deleted.group_by("address")
            .aggregate([("size_bytes", "max")])
            .rename_columns(_DELETED.names)
        )

    def _frame(self, run: Run, wanted: Sequence[str] | None) -> DataFrame:
        frames = []
        if self.report is not None:
            frames.append(
                self.report.frame(run.spark).where("outcome = 'deleted'").select(*_DELETED.names)
            )
        if self.journal is not None:
            frames.append(self.journal.frame(run.spark, self.intents).select(*_DELETED.names))
        found = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
        if wanted is not None and _are_few(wanted):
            found = found.where(sf.col("address").isin(*wanted))
        elif wanted is not None:
            named = frame_of(run.spark, pa.table({"address": pa.array(wanted, pa.string())}))
            found = found.join(named, on="address", how="left_semi")
        # The address is the key of a report. An address in two batches of a journal, or in both
        # records, is one object.
        return (
            found
            if self.journal is None
            else found.groupBy("address").agg(sf.max("size_bytes").alias("size_bytes"))
        )

    def _count(self, run: Run) -> int:
        """Count the objects apart from the join, which must not lose any object silently."""
        counted = (
            None
            if self.report is None or self.journal is not None
            else DeletionFigures.of(self.report.manifest).deleted_objects
        )
        return self._frame(run, None).count() if counted is None else counted


@dataclass(frozen=True)
class _Column:
    """What a table of the mark tells of objects.

    A part that house-keeping pruned, or that is damaged, tells nothing. Then only the size of its
    objects is known, and the restore goes on.
    """

    store: ObjectStore
    schema: pa.Schema
    parts: Sequence[Part]
    has_twice: bool = False

    @classmethod
    def of(cls, run: Run, spec: TableSpec, name: str) -> _Column:
        schema = pa.schema([spec.schema.field("address"), spec.schema.field(name)])
        try:
            return cls(run.store, schema, run.load(spec).manifest.parts)
        except (NotFoundError, ChainError, CorruptTableError):
            return cls(run.store, schema, ())

    @property
    def is_small(self) -> bool:
        return reading.are_small(self.parts)

    def table(self, wanted: Sequence[str] | None) -> pa.Table:
        found = pa.Table.from_batches(self._read(wanted, self.parts), self.schema)
        if not self.has_twice:
            return found
        once = found.group_by("address").aggregate([(self.schema.names[1], "max")])
        return once.rename_columns(self.schema.names).cast(self.schema)

    def frame(self, run: Run, wanted: Sequence[str] | None) -> DataFrame:
        rows = sum(part.rows for part in self.parts)
        tasks = reading.together(self.parts)
        found = read_partitions(
            run.spark, self.schema, tasks, partial(self._read, wanted), rows=rows
        )
        if not self.has_twice:
            return found
        name = self.schema.names[1]
        return found.groupBy("address").agg(sf.max(name).alias(name))

    def _read(
        self, wanted: Sequence[str] | None, parts: Sequence[Part]
    ) -> Iterator[pa.RecordBatch]:
        for part in parts:
            with suppress(NotFoundError, CorruptTableError):
                for batch in reading.read_part(self.store, self.schema, part):
                    yield _only(batch, wanted)


def _checksums(run: Run) -> _Column:
    """Return the checksums of a mark's objects; an optimized one looked some of them up."""
    listed = _Column.of(run, NAMESPACE_SLICES, "checksum")
    looked_up = _Column.of(run, LOOKED_UP_OBJECTS, "checksum").parts
    # An object may be both listed and looked up.
    return replace(listed, parts=(*listed.parts, *looked_up), has_twice=bool(looked_up))


def _are_few(wanted: Sequence[str]) -> bool:
    return len(wanted) <= _FEW


def _only(rows: Any, wanted: Sequence[str] | None) -> Any:
    """Return the rows of a table or a batch that are wanted."""
    if wanted is None:
        return rows
    return rows.filter(pc.is_in(rows.column("address"), value_set=pa.array(wanted, pa.string())))


def _gone(batch: pa.RecordBatch) -> pa.RecordBatch:
    return (
        batch.filter(pc.equal(batch.column("outcome"), "deleted"))
        .select(_DELETED.names)
        .cast(_DELETED)
    )


def _may_be_continued(report: Manifest) -> bool:
    """Say whether the sweep of a report left objects, so another sweep may have begun since."""
    figures = DeletionFigures.of(report)
    return bool(figures.left_objects) or figures.planned_objects != report.rows
