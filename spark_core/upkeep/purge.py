"""Purge: what was in quarantine for its days is deleted for good, after one more look at what may need it.

Executors list what lies there and delete it; the driver holds the names of
slices and the tally of each task. A few objects are listed and deleted by the
driver itself, with the same code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_core import layout, schemas
from spark_core.addresses.collectable import is_collectable
from spark_core.checks import verdict
from spark_core.errors import IncompleteReadError, LakegcError, NotFoundError
from spark_core.lock.lease import Lease
from spark_core.mark import holds
from spark_core.mark.holds import Holds
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.tables import Part
from spark_core.run import Run
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import dealt, frame_of, interleaved, run_tasks, tasks_for
from spark_core.storage import ObjectStore
from spark_core.storage.copies import Sight, same_content, told_same
from spark_core.sweep import revival
from spark_core.sweep.deadline import DeadlinePassedError
from spark_core.sweep.pacing import Pacer
from spark_core.sweep.quarantine import ends_at, runs
from spark_core.undo import recorded
from spark_core.undo.recorded import Gate, Orders, Rows, Tally

# A look that has less than this share of its time left is taken again before a new round.
_WORTH_A_ROUND = 0.2
# Objects that a task keeps in mind because only their bytes tell whether they are back in their place.
_UNSURE = 10_000
_GONE = ("deleted", "already_gone")
_NO_COPY: Literal["no copy"] = "no copy"

# What lies in quarantine and is over: whose sweep moved it, its address, where it lies, how large it is.
_OVER = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
    ]
)
_NAMES = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("size_bytes", pa.int64())])

_Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Needed:
    """What of the quarantine something refers to.

    Attributes:
        began: Before the first byte of what is moving was read, by the run's clock.
        names: Addresses of objects, and keys of copies, that something refers to: a set where few were asked about, else a
            frame of one column, address.
    """

    began: datetime
    names: frozenset[str] | DataFrame


# Finds which of these objects are needed, and is told how many they are.
Look: TypeAlias = Callable[[Rows, int], Needed]


@dataclass
class Purged:
    """What a purge did.

    Attributes:
        objects: Objects deleted for good ...
        size_bytes: ... and their bytes.
        left: Objects that the store did not delete, or that there was no time for; the next purge takes them again.
        unknown: Objects that may be gone: they were sent, or given to Spark, and nobody said what became of them.
        strangers: Keys in a run's folder that are no address of an object, so they were not put there by a sweep; left alone.
        in_use: Objects that a hold keeps, or that something refers to or may refer to and that are not shown to be back in
            their place; left alone.
        record: Folder of the tables of what became of each, columns of `schemas.PURGED`; None where nothing was written down.
    """

    objects: int = 0
    size_bytes: int = 0
    left: int = 0
    unknown: int = 0
    strangers: int = 0
    in_use: int = 0
    record: str | None = None

    def add(self, told: Tally) -> None:
        """Add what tasks did; what they had no time for is left."""
        self.objects += told.objects["purged"]
        self.size_bytes += told.size_bytes["purged"]
        self.in_use += told.objects["in_use"]
        self.unknown += told.objects["unknown"]
        self.left -= told.done - told.objects["left"]


def due(run: Run) -> tuple[RunKey, ...]:
    """Return the runs with objects that have been in quarantine for longer than `quarantine_days`.

    A run's days begin when its report was stored. Without a report it was not
    swept to its end, and what lies in its quarantine may be the only trace of it.
    What a report promises holds, also when the options say fewer days by now.

    Args:
        run: Any run of the repository; its options say how long.

    Raises:
        LakegcError: If the folder cannot be listed or a report cannot be read.
    """
    # A file system keeps the folders of what is gone.
    return tuple(
        key
        for key in runs(run.store)
        if _is_due(run, key) and any(batch.num_rows for batch in run.store.list(layout.in_quarantine(key)))
    )


def _is_due(run: Run, key: RunKey) -> bool:
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, key)):
        return False
    report = tables.load_table(run.store, tables.DELETION_REPORT, key).manifest
    by_options = report.reading_ended + timedelta(days=run.options.quarantine_days)
    return run.now() >= max(by_options, ends_at(report) or by_options)


def looking(run: Run) -> Look:
    """Return what finds which objects are needed: reached by the mark, or by what is read again now as before a sweep.

    Asked for are both names of each, as somebody may refer to the copy where it
    lies. It has a memory, for one purge: what the mark reached never changes, so
    its tables are read once.

    Args:
        run: A run that is marked.
    """
    again = revival.look_again()
    reached: list[DataFrame] = []

    @surfacing_errors()
    def look(some: Rows, count: int) -> Needed:
        """Find which of these objects are needed.

        Raises:
            ChainError: If the run has no mark.
            LakegcError: If anything could not be read to its end; then nothing is known, and nothing may be purged.
        """
        mark = verdict.load_mark(run)
        # Counted and compared, so the rows that were counted must be those that are compared.
        names = _names(run, some).persist()
        try:
            # Of what is not in this frame nobody would find that it is needed.
            if (held := names.count()) != 2 * count:
                raise IncompleteReadError(
                    f"repository {run.repository.id}: of {2 * count} names of objects in quarantine, about which was to be asked, "
                    f"Spark holds {held}",
                    "Run again; if it stays, report it with this text and Spark's version.",
                )
            # Of one address, copies of several runs.
            plan = names.distinct()
            if not reached:
                of_mark = (tables.COMMITTED_ADDRESSES.name, tables.UNCOMMITTED_ADDRESSES.name)
                reached.append(_reached(plan, [mark[name].frame(run.spark, ["address_hash"]) for name in of_mark]))
            found = again(run, plan, mark)
            needed = reached[0].unionByName(found.frame.select("address")).distinct()
            # To the end, while what it is made of is held.
            if isinstance(some, pa.Table):
                held_names = frozenset(needed.toArrow()["address"].to_pylist())
                return Needed(found.began, held_names)
            return Needed(found.began, needed.localCheckpoint())
        finally:
            names.unpersist()

    return look


def _names(run: Run, some: Rows) -> DataFrame:
    """Return columns address and size_bytes: two rows for each object, its address and where it lies."""
    if isinstance(some, pa.Table):
        both = [some.select([name, "size_bytes"]).rename_columns(_NAMES.names) for name in ("address", "key")]
        return frame_of(run.spark, pa.concat_tables(both).cast(_NAMES))
    return some.select(sf.explode(sf.array("address", "key")).alias("address"), "size_bytes")


def _reached(plan: DataFrame, alive: Sequence[DataFrame]) -> DataFrame:
    hashed = plan.select("address", sf.xxhash64("address").alias("address_hash"))
    # Read to its end now: the plan of the next look is a smaller one.
    return (
        hashed.join(alive[0].unionByName(alive[1]), on="address_hash", how="left_semi")
        .select("address")
        .localCheckpoint()
    )


def purge(run: Run, held: Lease, done: Purged) -> None:
    """Delete for good what is in quarantine for longer than its days; call it under the lease.

    What a hold keeps, where it lies or by its old address, stays; so does what a
    later sweep of a run moved that left no report. What something refers to stays
    unless the object is back in its place, and nothing refers to the copy. A look
    is good for as long as before a deletion by a sweep (`reread_every`); when it is
    over and something is left, another one is taken.

    Args:
        run: A run that is marked; its options say how long.
        held: The lease. It is beaten before each request that deletes, also by a client that sends one again; tasks of Spark
            send none shortly before it may run out. What it raises, as when it is lost, ends the purge.
        done: Counts what is done, also where it ends by an error. A store that refuses is told by `left`, not raised: the
            objects are as dead the next time.

    Raises:
        LakegcError: If the folder cannot be listed, a report not be read, or nobody can tell what is needed.
    """
    where = layout.record(layout.PURGES, run.key, run.now())
    rows, count = _over(run, f"{where}planned/", done)
    if not count:
        return
    work = _Purge(run=run, held=held, where=where, rows=rows, count=count, done=done)
    try:
        work.go()
    finally:
        work.note_left()


@dataclass
class _Purge:
    """One purge: rounds over what is left, each under a look and a lease that are still good.

    Attributes:
        run: A run that is marked.
        held: The lease.
        where: Folder of the record.
        rows: What is to be purged, columns of `_OVER`.
        count: How many of them have no outcome yet.
        done: Counts what is done.
    """

    _: KW_ONLY
    run: Run
    held: Lease
    where: str
    rows: Rows
    count: int
    done: Purged
    _parts: list[Part] = field(default_factory=list)
    # What the rest is noted as where this ends early; None: nothing was asked of the store yet.
    _rest: Literal["left", "unknown"] | None = None

    def go(self) -> None:
        """Work in rounds until each object has an outcome, or a round does nothing any more."""
        run, every, look = self.run, self.run.options.reread_every, looking(self.run)
        needed, kept, until = None, holds.NONE, run.now()
        while self.count:
            rows = self._left()
            if needed is None or until - run.now() < every * _WORTH_A_ROUND:
                kept = holds.load(run.store)
                needed = look(rows, self.count)
                # A request that is under way falls under the look, too.
                until = needed.began + every - min(run.store.options.retry_timeout, every / 2)
            if self._rest is None:
                self._rest, self.done.left = "left", self.count
            told = self._round(_flagged(rows, needed), kept, until)
            if self.count and not told.cut:
                raise IncompleteReadError(
                    f"repository {run.repository.id}: Spark lost {self.count} objects in quarantine that were to be purged. Run "
                    "again; if it stays, report it with this text and Spark's version."
                )
            if not told.done:
                return

    def _left(self) -> Rows:
        return recorded.without(self.run, self.rows, self._parts, schemas.PURGED, ["run", "address"])

    def _round(self, flagged: Rows, kept: Holds, until: datetime) -> Tally:
        """Delete what nothing refers to, then what is back in its place: what takes long must not keep the others for ever."""
        total = Tally()
        parts, release = _in_turn(flagged)
        try:
            for some, count in parts:
                total.add(self._work_on(some, count, kept, until))
        finally:
            release()
        return total

    def _work_on(self, some: Rows, count: int, kept: Holds, until: datetime) -> Tally:
        run, limit = self.run, self.run.options.max_deletes_per_second
        tasks = 1 if isinstance(some, pa.Table) else tasks_for(run.spark, count)
        share = None if limit is None else limit / tasks
        told = self._told(some, count, _Purging(kept, run.options.read_threads, share), until)
        self.done.add(told)
        self.count -= told.done
        if told.problem is not None:
            if told.lost:
                self._rest = "unknown"
            raise told.problem
        return told

    def _told(self, some: Rows, count: int, work: recorded.Work, until: datetime | None) -> Tally:
        held = None if until is None else self.held
        orders = Orders(self.run.store, work, schemas.PURGED, self.where)
        told = recorded.work_on(self.run, some, count, orders, held=held, until=until)
        self._parts += told.parts
        if told.parts or told.lost:
            self.done.record = self.where
        return told

    def note_left(self) -> None:
        """Write down what has no outcome, however this ended; a store that does not take it has the tally alone."""
        if self._rest is None or not self.count:
            return
        if self._rest == "unknown":
            self.done.left, self.done.unknown = self.done.left - self.count, self.done.unknown + self.count
        with suppress(LakegcError, PySparkException, Py4JJavaError):
            self._told(self._left(), self.count, _Noting(self._rest), None)


def _flagged(rows: Any, needed: Needed) -> Rows:
    """Add key_needed and address_needed: whether something refers to a copy, and to its object."""
    if isinstance(needed.names, frozenset):
        names = pa.array(sorted(needed.names), pa.string())
        for name in ("key", "address"):
            rows = rows.append_column(f"{name}_needed", pc.is_in(rows[name], value_set=names))
        return rows
    for name in ("key", "address"):
        found = needed.names.select(sf.col("address").alias(name), sf.lit(True).alias(f"{name}_needed"))
        rows = rows.join(found, on=name, how="left").fillna(False, [f"{name}_needed"])
    return rows


def _in_turn(flagged: Rows) -> tuple[list[tuple[Rows, int]], Callable[[], object]]:
    """Part what is only kept or deleted from what has to be compared, and count both; also what lets go of them."""
    if isinstance(flagged, pa.Table):
        compared = pc.and_(flagged["address_needed"], pc.invert(flagged["key_needed"]))
        halves = [flagged.filter(pc.invert(compared)), flagged.filter(compared)]
        return [(half, half.num_rows) for half in halves if half.num_rows], lambda: None
    is_compared = sf.col("address_needed") & ~sf.col("key_needed")
    held = flagged.withColumn("is_compared", is_compared).persist()
    counts = {row["is_compared"]: row["count"] for row in held.groupBy("is_compared").count().collect()}
    return [
        (held.where(sf.col("is_compared") == sf.lit(half)), counts[half]) for half in sorted(counts)
    ], held.unpersist


@dataclass(frozen=True)
class _Noting:
    """Gives each object the same outcome, and asks for nothing."""

    outcome: str

    def __call__(
        self,
        store: ObjectStore,  # noqa: ARG002 - the signature of all work
        gate: Gate,
        batches: Iterator[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _told([(row, self.outcome) for row in batch.to_pylist()], gate.now())


@dataclass(frozen=True)
class _Purging:
    """The work of a task.

    Attributes:
        held: What is kept by its name.
        threads: Objects that a task looks at at once.
        deletes_per_second: How fast each task may delete; None: no limit.
    """

    held: Holds
    threads: int
    deletes_per_second: float | None

    def __call__(self, store: ObjectStore, gate: Gate, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pacer = None
        if self.deletes_per_second is not None:
            pacer = Pacer(self.deletes_per_second, store.delete_batch_size)
            context = TaskContext.get()
            if context is not None and context.attemptNumber():
                pacer.hold_back()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakegc-purge") as pool:
            yield from _Task(self.held, store, gate, pacer, pool, self.threads).do(batches)


@dataclass
class _Pace:
    """Called before each request that deletes, those too that a store's client sends again: minutes later if it likes.

    Attributes:
        gate: Closes when the look is over, and when the lease may be lost.
        pacer: Keeps the limit, if there is one.
        sent: A request was.
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
class _Task:
    """Deletes copies as long as the look is good; yields what became of each that there was time for, as `schemas.PURGED` calls it."""

    held: Holds
    store: ObjectStore
    gate: Gate
    pacer: Pacer | None
    pool: ThreadPoolExecutor
    threads: int

    def do(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Delete what is not needed, and of what is needed only that which is back in its place.

        That of which only the bytes tell it comes last, one by one.
        """
        size = self.store.delete_batch_size if self.pacer is None else self.pacer.batch_size
        unsure: list[_Row] = []
        for batch in batches:
            for begin in range(0, batch.num_rows, size):
                if self.gate.passed:
                    return
                some = batch.slice(begin, size)
                stays = pc.or_(some.column("key_needed"), self._is_held(some))
                yield from self._in_use(some.filter(stays).to_pylist())
                rest = some.filter(pc.invert(stays)).to_pylist()
                yield from self._deleted([row for row in rest if not row["address_needed"]])
                yield from self._told_same([row for row in rest if row["address_needed"]], unsure)
                if len(unsure) >= _UNSURE:
                    yield from self._same_bytes(unsure)
                    unsure = []
        yield from self._same_bytes(unsure)

    def _is_held(self, some: pa.RecordBatch) -> pa.BooleanArray:
        return pc.or_(*(self.held.protecting(some.column(name)) for name in ("key", "address")))

    def _in_use(self, rows: Sequence[_Row]) -> Iterator[pa.RecordBatch]:
        if rows:
            yield _told([(row, "in_use") for row in rows], self.gate.now())

    def _told_same(self, rows: Sequence[_Row], unsure: list[_Row]) -> Iterator[pa.RecordBatch]:
        """Delete what the store tells to be back in its place; add to `unsure` what only its bytes can tell of."""
        back: list[_Row] = []
        other: list[_Row] = []
        gone: list[_Row] = []
        for row, pair in zip(rows, self.pool.map(partial(_sights, self.store), rows), strict=True):
            if pair == _NO_COPY:
                gone.append(row)
            elif pair is None or pair[0].size_bytes != pair[1].size_bytes:
                other.append(row)
            else:
                (back if told_same(*pair) else unsure).append(row)
        if gone:
            yield _told([(row, "purged") for row in gone], self.gate.now())
        yield from self._in_use(other)
        yield from self._deleted(back)

    def _same_bytes(self, unsure: Sequence[_Row]) -> Iterator[pa.RecordBatch]:
        for row in unsure:
            if self.gate.passed:
                return
            # What was seen of them before may be minutes old.
            pair = _sights(self.store, row)
            if pair == _NO_COPY:
                yield _told([(row, "purged")], self.gate.now())
            elif pair is not None and _has_same_bytes(self.store, *pair):
                yield from self._deleted([row])
            else:
                yield from self._in_use([row])

    def _deleted(self, rows: Sequence[_Row]) -> Iterator[pa.RecordBatch]:
        """Delete copies with one request; yields nothing of those for which none was sent."""
        if self.gate.passed or not rows:
            return
        keys, told, problem, pace = [row["key"] for row in rows], dict[str, str](), None, _Pace(self.gate, self.pacer)
        try:
            told = {answer.key: answer.outcome for answer in self.store.delete(keys, pace=pace)}
        except DeadlinePassedError:
            pass
        except LakegcError as ended:
            problem = ended
        if pace.sent:
            # What the store did not confirm may be gone all the same: an answer was lost, and only the second one refused.
            told |= self._looked_at([key for key in keys if told.get(key) not in _GONE])
        if told:
            words = {"deleted": "purged", "already_gone": "purged", "unknown": "unknown"}
            yield _told([(row, words.get(told[row["key"]], "left")) for row in rows], self.gate.now())
        if problem is not None:
            raise problem

    def _looked_at(self, keys: Sequence[str]) -> dict[str, str]:
        """Say which keys are `already_gone` and which are `left`; from the first on of which the store does not say it, `unknown`."""
        told: dict[str, str] = {}
        rest = iter(keys)
        with suppress(LakegcError):
            while some := list(islice(rest, self.threads)):
                there = list(self.pool.map(self.store.exists, some))
                told |= {key: "left" if is_there else "already_gone" for key, is_there in zip(some, there, strict=True)}
        return dict.fromkeys(keys, "unknown") | told


def _told(outcomes: Sequence[tuple[_Row, str]], at: datetime) -> pa.RecordBatch:
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


def _sights(store: ObjectStore, row: _Row) -> tuple[Sight, Sight] | Literal["no copy"] | None:
    """Return what the store tells of what lies in an object's place, and of its copy; None where it does not.

    A copy may be gone: Spark begins a task again whose executor it lost after its deletions.
    """
    try:
        copy = store.sight(row["key"])
    except NotFoundError:
        return _NO_COPY
    except LakegcError:
        return None
    try:
        return store.sight(row["address"]), copy
    except LakegcError:
        return None


def _has_same_bytes(store: ObjectStore, original: Sight, copy: Sight) -> bool:
    try:
        return same_content(store, original, copy)
    except LakegcError:
        # In an archive, or gone by now.
        return False


@dataclass(frozen=True)
class _Place:
    """A part of a run's folder.

    Attributes:
        run: Key of the run.
        reported: When its report was stored, in whole seconds.
        prefix: What is listed: to its end ...
        is_level: ... or only what lies directly there, and in folders that no sweep makes.
    """

    run: str
    reported: datetime
    prefix: str
    is_level: bool = False


def _over(run: Run, planned: str, done: Purged) -> tuple[Rows, int]:
    """List the objects whose days are over: here as long as they are few, else by executors, as parts of a table.

    Args:
        run: The run.
        planned: Folder for such a table.
        done: Counts strangers.

    Returns:
        Columns of `_OVER`, and how many rows.
    """
    places = _places(run)
    found, strangers = list[pa.RecordBatch](), list[int]()
    read = partial(_list, run.store, strangers.append)
    count = 0
    for batch in interleaved(places, read, threads=run.options.read_threads) if places else ():
        found.append(batch)
        count += batch.num_rows
        if count > tables.DRIVER_ROWS:
            break
    else:
        done.strangers += sum(strangers)
        return pa.Table.from_batches(found, _OVER).sort_by([("run", "ascending"), ("address", "ascending")]), count
    return _listed_by_tasks(run, places, planned, done)


def _listed_by_tasks(run: Run, places: Sequence[_Place], planned: str, done: Purged) -> tuple[DataFrame, int]:
    """List by executors, and write down what is to be purged: what is deleted cannot be listed once more."""
    tasks = min(-(-len(places) // run.options.read_threads), run.options.range_partitions)
    target = tables.Target(run.store, planned, tables.new_attempt(), _OVER)
    receipts = tables.removed_on_failure(
        target,
        lambda: run_tasks(
            lambda: run.spark,
            dealt(places, tasks),
            partial(tables.write_read, target, partial(_list_many, run.store, run.options.read_threads)),
        ),
    )
    parts = tables.parts_of(receipts)
    done.strangers += tables.summed(receipts)[1]["strangers"]
    return tables.frame_of_parts(run.spark, run.store, _OVER, parts), sum(part.rows for part in parts)


def _places(run: Run) -> list[_Place]:
    """Name the folders of quarantine whose days are over: the slices of each run, and what lies beside them."""
    places: list[_Place] = []
    for key in due(run):
        where, text = layout.in_quarantine(key), str(key)
        reported = _second(run.store.head(tables.manifest_key(tables.DELETION_REPORT, key)).last_modified)
        places += [_Place(text, reported, prefix) for prefix in run.store.children(f"{where}data/")[0]]
        places += [_Place(text, reported, level, is_level=True) for level in (where, f"{where}data/")]
    return places


def _list_many(
    store: ObjectStore, threads: int, places: Sequence[_Place], figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    # A list, because threads add to it at once.
    strangers: list[int] = []
    yield from interleaved(places, partial(_list, store, strangers.append), threads=threads)
    figures["strangers"] += sum(strangers)


def _list(store: ObjectStore, count_strangers: Callable[[int], object], place: _Place) -> Iterator[pa.RecordBatch]:
    where = layout.in_quarantine(place.run)
    for batch in _level(store, where, place) if place.is_level else store.list(place.prefix):
        keys = batch.column("key").to_pylist()
        addresses = [key.removeprefix(where) for key in keys]
        ours = [key.startswith(where) and is_collectable(key[len(where) :], flat=True) for key in keys]
        count_strangers(ours.count(False))
        # What a later sweep of the run moved has days of its own.
        in_time = [_second(at) <= place.reported for at in batch.column("last_modified").to_pylist()]
        columns = [
            pa.array([place.run] * len(keys)),
            pa.array(addresses),
            batch.column("key"),
            batch.column("size_bytes"),
        ]
        listed = pa.record_batch(columns, schema=_OVER)
        yield listed.filter(
            pa.array([is_ours and is_in_time for is_ours, is_in_time in zip(ours, in_time, strict=True)])
        )


def _level(store: ObjectStore, where: str, place: _Place) -> Iterator[pa.RecordBatch]:
    folders, direct = store.children(place.prefix)
    yield from direct.to_batches()
    if place.prefix == where:
        for other in folders:
            if other != f"{where}data/":
                yield from store.list(other)


def _second(instant: datetime) -> datetime:
    """Cut a time of the store: a listing tells it finer than a single answer does."""
    return instant.replace(microsecond=0)
