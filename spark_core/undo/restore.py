"""Undo: bring back the objects of a sweep, and prove that they are there.

The objects come out of quarantine, or from what the store itself keeps. Nothing is deleted here and
no object is ever replaced. The report of a sweep tells what it deleted. Its journal tells it where
the sweep was killed before it had a report, or after it had taken up what an earlier sweep left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys, recorded_work
from spark_core.addresses.address_hashes import (
    ADDRESS_HASH,
    are_among,
    sorted_once,
    with_address_hash,
)
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
from spark_core.recorded_work import Objects, RecordedTask, Tally, TaskOrders
from spark_core.records import reading, tables
from spark_core.records.figures import DeletionFigures
from spark_core.records.journal import Journal, JournalPart
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.tables import (
    DELETION_REPORT,
    EXPIRED_ADDRESSES,
    NAMESPACE_SLICES,
    TableSpec,
)
from spark_core.run import Run
from spark_core.schemas import RESTORATIONS
from spark_core.spark.exchange import (
    AnySource,
    Batches,
    JoinedSource,
    Source,
    numbers_of,
    source_of,
)
from spark_core.spark.tasks import together
from spark_core.storage import ObjectStore
from spark_core.storage.undelete import BringBack, Lost, UndeleteOutcome, brought_back
from spark_core.sweep import quarantine
from spark_core.sweep.deadline import DeadlinePassedError

# Objects between two checks of the time and the lease.
_AT_ONCE = 500
# Rounds that bring nothing back before the restore gives up.
_IDLE_ROUNDS = 3
# The result names at most this many objects that are not back.
_NAMED = 1_000

# Rows of small parts of a journal that one task reads, one part after the other.
_ROWS_READ_TOGETHER = 100_000

# Rows of a report or a journal, by the hash of the address.
_RECORDED = pa.schema(
    [
        ADDRESS_HASH,
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("is_deleted", pa.bool_(), nullable=False),
    ]
)
_WANTED = pa.schema([_RECORDED.field("address")])
_WANTED_BY_HASH = pa.schema([ADDRESS_HASH, *_WANTED])
# What is known of an object that is to be brought back.
_LOST = pa.schema(
    [
        _RECORDED.field("address"),
        _RECORDED.field("size_bytes"),
        pa.field("last_modified", EXPIRED_ADDRESSES.schema.field("last_modified").type),
        pa.field("checksum", NAMESPACE_SLICES.schema.field("checksum").type),
    ]
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

    The deleted objects meet what the mark saw of them. Tasks of Spark bring back many objects, in
    rounds that each end before the lease may run out; this process brings back few.

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
    orders = TaskOrders(run.store, work, RESTORATIONS, folder)
    objects, parts, idle = deleted.objects(run, wanted), list[Part](), 0
    try:
        while True:
            tally = recorded_work.work_on(run, objects, parts, orders, held=held)
            done.add(tally)
            parts += tally.parts
            done.record = folder if parts else None
            if tally.problem is not None:
                raise tally.problem
            if not tally.left:
                return
            if not tally.cut:
                raise IncompleteReadError(
                    f"run {run.key} of {run.repository.id}: Spark lost {tally.left} of the objects "
                    "that were to be brought back; the others have their outcome. Run the same "
                    "command again; if it stays, report it with this text."
                )
            idle = 0 if tally.done else idle + 1
            if idle == _IDLE_ROUNDS:
                raise _without_time(run, tally.left)
    finally:
        if held is not None:
            # A mark that listed the store meanwhile does not know of what came back after that.
            # Without this note, the next clean mark finds it.
            with suppress(LakegcError):
                run.store.put(lakegc_keys.restored_key(run.now()), b"")


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

    def __call__(self, task: RecordedTask, batches: Batches) -> Batches:
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

    def objects(self, run: Run, wanted: Sequence[str] | None) -> Objects:
        """Say how what was deleted meets what the mark saw of it.

        Tables that are no longer there tell nothing.

        Args:
            run: The run.
            wanted: Only these addresses. Each is an object then, with a null for its size if it was
                not deleted.
        """
        records: list[AnySource] = []
        if self.report is not None:
            told = self.report.source(["address", "size_bytes", "outcome"])
            records.append(told.through(_RECORDED, _reported))
        if self.journal is not None:
            rows = sum(part.rows for part in self.intents)
            tasks = together(self.intents, lambda part: part.rows, _ROWS_READ_TOGETHER)
            records.append(Source(_RECORDED, tasks, rows, partial(_intended, self.journal)))
        sources: dict[str, AnySource] = {"deleted": JoinedSource(records)}
        hashes = None
        if wanted is not None:
            names = pa.table([pa.array(wanted, pa.string())], _WANTED)
            named = source_of(names, _WANTED).through(_WANTED_BY_HASH, with_address_hash)
            sources["wanted"] = named
            hashes = sorted_once(numbers_of(named.here(1)["address_hash"]))
        mark = {"last_modified": EXPIRED_ADDRESSES, "checksum": NAMESPACE_SLICES}
        beside = {name: _seen(run, spec, name, hashes) for name, spec in mark.items()}
        return Objects(sources, beside, _described, _LOST, ("address",))


def _reported(batches: Batches) -> Batches:
    for batch in with_address_hash(batches):
        is_deleted = pc.equal(batch.column("outcome"), "deleted")
        yield pa.record_batch([*batch.columns[:-1], is_deleted], schema=_RECORDED)


def _intended(journal: Journal, parts: Sequence[JournalPart]) -> Batches:
    read = (journal.read(part).select(["address", "size_bytes"]) for part in parts)
    for batch in with_address_hash(read):
        are_deleted = pa.repeat(pa.scalar(True), batch.num_rows)
        yield pa.record_batch([*batch.columns, are_deleted], schema=_RECORDED)


def _seen(run: Run, spec: TableSpec, name: str, wanted: Any) -> AnySource:
    """Say how what a table of the mark tells of objects is read: address and a column, by hash.

    A part that house-keeping pruned, or that is damaged, tells nothing. Then only the size of its
    objects is known, and the restore goes on.

    Args:
        run: The run.
        spec: The table.
        name: The column.
        wanted: Hashes of the addresses that are asked about, sorted; None for all.
    """
    parts: Sequence[Part] = ()
    with suppress(NotFoundError, ChainError, CorruptTableError):
        parts = run.load(spec).manifest.parts
    columns = pa.schema([spec.schema.field(column) for column in ("address", name)])
    rows = sum(part.rows for part in parts)
    read = partial(_read, run.store, columns, wanted)
    return Source(pa.schema([ADDRESS_HASH, *columns]), reading.together(parts), rows, read)


def _read(store: ObjectStore, columns: pa.Schema, wanted: Any, parts: Sequence[Part]) -> Batches:
    for part in parts:
        with suppress(NotFoundError, CorruptTableError):
            for batch in with_address_hash(reading.read_part(store, columns, part)):
                if wanted is None:
                    yield batch
                else:
                    hashes = batch.column("address_hash").to_numpy()
                    yield batch.filter(pa.array(are_among(hashes, wanted)))


def _described(bucket: Mapping[str, pa.Table]) -> pa.Table:
    """Return what was deleted, and what the mark saw of it: columns of `_LOST`.

    An address may be in two batches of a journal, and in both records: it is one object.
    """
    deleted = bucket["deleted"]
    rows = _greatest(deleted.filter(deleted["is_deleted"]), "size_bytes")
    if "wanted" in bucket:
        rows = bucket["wanted"].select(["address"]).join(rows, "address")
    for name in ("last_modified", "checksum"):
        rows = rows.join(_greatest(bucket[name], name), "address")
    return rows.select(_LOST.names).cast(_LOST)


def _greatest(rows: pa.Table, name: str) -> pa.Table:
    """Return each address once, with its greatest value."""
    found = rows.group_by("address").aggregate([(name, "max")])
    return found.select(["address", f"{name}_max"]).rename_columns(["address", name])


def _may_be_continued(report: Manifest) -> bool:
    """Say whether the sweep of a report left objects, so another sweep may have begun since."""
    figures = DeletionFigures.of(report)
    return bool(figures.left_objects) or figures.planned_objects != report.rows
