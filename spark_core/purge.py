"""Purge: what was in quarantine for its days is deleted for good, after one more look at what may need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core import holds, revival, schemas, tables, verdict
from spark_core.collectable import is_collectable
from spark_core.datasources import frame_of
from spark_core.errors import IncompleteReadError, LakegcError
from spark_core.mark.expired import alive_hash
from spark_core.model import RunKey
from spark_core.quarantine import ends_at, folder, runs
from spark_core.run import Run
from spark_core.session import surfacing_errors
from spark_core.storage import ObjectStore
from spark_core.storage.copies import Sight, same_content, told_same

RECORDS = f"{tables.ROOT}purges/"

# Objects that one look is for; the driver holds their names.
_LOT = 200_000
_THREADS = 16
_GONE = ("deleted", "already_gone")
_PLAN = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("size_bytes", pa.int64())])


_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Over:
    """An object whose days are over.

    Attributes:
        run: Whose sweep moved it.
        address: Where it was.
        key: Where it lies.
        size_bytes: Its size.
    """

    run: str
    address: str
    key: str
    size_bytes: int


@dataclass(frozen=True)
class Needed:
    """What of the quarantine something refers to.

    Attributes:
        began: Before the first byte of what is moving was read, by the run's clock.
        addresses: Addresses of objects, and keys of copies, that something refers to.
    """

    began: datetime
    addresses: frozenset[str]


@dataclass
class Purged:
    """What a purge did.

    Attributes:
        objects: Objects deleted for good ...
        size_bytes: ... and their bytes.
        left: Objects that the store did not delete, or that there was no time for; the next purge takes them again.
        unknown: Objects that may be gone: they were sent, and the store said neither what became of them nor whether they are there.
        strangers: Keys in a run's folder that are no address of an object, so they were not put there by a sweep; left alone.
        in_use: Objects that a hold keeps, or that something refers to or may refer to and that are not shown to be back in
            their place; left alone.
        records: Keys of the tables of what became of each, columns of `schemas.PURGED`.
    """

    objects: int = 0
    size_bytes: int = 0
    left: int = 0
    unknown: int = 0
    strangers: int = 0
    in_use: int = 0
    records: list[str] = field(default_factory=list)


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
        if _is_due(run, key) and any(batch.num_rows for batch in run.store.list(folder(key)))
    )


def _is_due(run: Run, key: RunKey) -> bool:
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, key)):
        return False
    report = tables.load_table(run.store, tables.DELETION_REPORT, key).manifest
    by_options = report.reading_ended + timedelta(days=run.options.quarantine_days)
    return run.now() >= max(by_options, ends_at(report) or by_options)


@surfacing_errors()
def look(run: Run, some: Sequence[Over]) -> Needed:
    """Find which of these objects are needed: reached by the mark, or by what is read again now as before a sweep.

    Asked for are both names of each, as somebody may refer to the copy where it lies.

    Args:
        run: A run that is marked.
        some: Objects in quarantine.

    Raises:
        ChainError: If the run has no mark.
        LakegcError: If anything could not be read to its end; then nothing is known, and nothing may be purged.
    """
    mark = verdict.load_mark(run)
    # Of one address, copies of several runs.
    sizes = {(name, one.size_bytes) for one in some for name in (one.address, one.key)}
    rows = [{"address": name, "size_bytes": size} for name, size in sorted(sizes)]
    plan = frame_of(run.spark, pa.Table.from_pylist(rows, schema=_PLAN))
    # Of what is not in this frame nobody would find that it is needed.
    if (held := plan.count()) != len(rows):
        raise IncompleteReadError(
            f"repository {run.repository.id}: of {len(rows)} names of objects in quarantine, about which was to be asked, Spark "
            f"holds {held}",
            "Run again; if it stays, report it with this text and Spark's version.",
        )
    reached = _reached(plan, mark[tables.COMMITTED_ADDRESSES.name].frame(run.spark, ["address"])) | _reached(
        plan, mark[tables.UNCOMMITTED_ADDRESSES.name].frame(run.spark, ["address"])
    )
    again = revival.read_again(run, plan, mark=mark)
    return Needed(again.began, reached | _names(again.frame))


def _reached(plan: DataFrame, alive: DataFrame) -> frozenset[str]:
    hashed = plan.select("address", sf.xxhash64("address").alias("address_hash"))
    return _names(hashed.join(alive.select(alive_hash()), on="address_hash", how="left_semi"))


def _names(frame: DataFrame) -> frozenset[str]:
    return frozenset(frame.select("address").toArrow()["address"].to_pylist())


def purge(run: Run, beat: Callable[[], Any], done: Purged) -> None:
    """Delete for good what is in quarantine for longer than its days; call it under the lease.

    What a hold keeps, where it lies or by its old address, stays; so does what a
    later sweep of a run moved that left no report. What something refers to stays
    unless the object is back in its place, and nothing refers to the copy. A look
    is good for as long as before a deletion by a sweep (`reread_every`).

    Args:
        run: A run that is marked; its options say how long.
        beat: Called before each request that deletes, also by a client that sends one again; what it raises, as for a lease
            that is lost, ends the purge.
        done: Counts what is done, also where it ends by an error. A store that refuses is told by `left`, not raised: the
            objects are as dead the next time.

    Raises:
        LakegcError: If the folder cannot be listed, a report not be read, or nobody can tell what is needed.
    """
    held = holds.load(run.store)
    for some in _lots(_over(run, done), _LOT):
        needed = look(run, some)
        # A request that is under way falls under the look, too.
        until = needed.began + run.options.reread_every
        until -= min(run.store.options.retry_timeout, run.options.reread_every / 2)
        in_use = needed.addresses | _held_keys(held, some)
        outcomes = {one.key: "in_use" for one in some if one.key in in_use}
        done.in_use += len(outcomes)
        rest = [one for one in some if one.key not in in_use]
        done.left += len(rest)
        try:
            for one, outcome in _settled(run, rest, needed, _Pace(run, beat, until)):
                outcomes[one.key] = outcome
                if outcome == "left":
                    continue
                done.left -= 1
                if outcome == "in_use":
                    done.in_use += 1
                elif outcome == "unknown":
                    done.unknown += 1
                else:
                    done.objects, done.size_bytes = done.objects + 1, done.size_bytes + one.size_bytes
        finally:
            if rest:
                done.records.append(_record(run, some, outcomes, number=len(done.records)))


class _LookIsOverError(Exception):
    """A request was about to be sent when the look was not good any more. Never leaves this room."""


@dataclass
class _Pace:
    """Called before each request that deletes, those too that a store's client sends again: minutes later if it likes.

    Attributes:
        run: Tells the time.
        beat: Proves that the lease is held.
        until: When the look is over.
        allowed: A request was, since somebody said that none was.
    """

    run: Run
    beat: Callable[[], Any]
    until: datetime
    allowed: bool = False

    @property
    def is_over(self) -> bool:
        return self.run.now() >= self.until

    def __call__(self) -> None:
        self.beat()
        # Only now: the beat may have taken long.
        if self.is_over:
            raise _LookIsOverError
        self.allowed = True


def _lots(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    rest = iter(items)
    while lot := list(islice(rest, size)):
        yield lot


def _over(run: Run, done: Purged) -> Iterator[Over]:
    """Yield the objects whose days are over."""
    for key in due(run):
        where = folder(key)
        reported = _second(run.store.head(tables.manifest_key(tables.DELETION_REPORT, key)).last_modified)
        for batch in run.store.list(where):
            for row in batch.to_pylist():
                name = row["key"]
                if not name.startswith(where) or not is_collectable(name[len(where) :], flat=True):
                    done.strangers += 1
                elif _second(row["last_modified"]) <= reported:
                    yield Over(str(key), name[len(where) :], name, row["size_bytes"])


def _held_keys(held: holds.Holds, some: Sequence[Over]) -> frozenset[str]:
    """Return the copies that a hold keeps, where they lie or by their objects' addresses."""
    if not held.of_addresses:
        return frozenset()
    names = (pa.array([getattr(one, name) for one in some], pa.string()) for name in ("key", "address"))
    kept = pc.or_(*map(held.protecting, names)).to_pylist()
    return frozenset(one.key for one, is_kept in zip(some, kept, strict=True) if is_kept)


def _settled(run: Run, rest: Sequence[Over], needed: Needed, pace: _Pace) -> Iterator[tuple[Over, str]]:
    """Delete copies as long as the look is good; yield what became of each that there was time for, as `schemas.PURGED` calls it.

    Of objects that something refers to only those go that are back in their place. They come last, and those of which
    only their bytes tell that they are one by one: what takes long must not keep the others for ever.
    """
    for some in _lots([one for one in rest if one.address not in needed.addresses], run.store.delete_batch_size):
        yield from _deleted(run, some, pace)
    unsure: list[Over] = []
    for some in _lots([one for one in rest if one.address in needed.addresses], run.store.delete_batch_size):
        if pace.is_over:
            return
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakegc-purge") as pool:
            sights = list(pool.map(partial(_sights, run.store), some))
        back: list[Over] = []
        for one, pair in zip(some, sights, strict=True):
            if pair is None or pair[0].size_bytes != pair[1].size_bytes:
                yield one, "in_use"
            elif told_same(*pair):
                back.append(one)
            else:
                unsure.append(one)
        yield from _deleted(run, back, pace)
    for one in unsure:
        if pace.is_over:
            return
        # What was seen of them above may be minutes old.
        pair = _sights(run.store, one)
        if pair is not None and _has_same_bytes(run.store, *pair):
            yield from _deleted(run, [one], pace)
        else:
            yield one, "in_use"


def _sights(store: ObjectStore, one: Over) -> tuple[Sight, Sight] | None:
    """Return what the store tells of what lies in an object's place, and of its copy; None where it does not, or has it not."""
    try:
        return store.sight(one.address), store.sight(one.key)
    except LakegcError:
        return None


def _has_same_bytes(store: ObjectStore, original: Sight, copy: Sight) -> bool:
    try:
        return same_content(store, original, copy)
    except LakegcError:
        # In an archive, or gone by now.
        return False


def _deleted(run: Run, some: Sequence[Over], pace: _Pace) -> Iterator[tuple[Over, str]]:
    if pace.is_over or not some:
        return
    keys, told, problem = [one.key for one in some], dict[str, str](), None
    pace.allowed = False
    try:
        told = {answer.key: answer.outcome for answer in run.store.delete(keys, pace=pace)}
    except (_LookIsOverError, LakegcError) as ended:
        problem = ended if isinstance(ended, LakegcError) else None
    if pace.allowed:
        # What the store did not confirm may be gone all the same: an answer was lost, and only the second one refused.
        told |= _looked_at(run.store, [key for key in keys if told.get(key) not in _GONE])
    yield from ((one, "purged" if told.get(one.key) in _GONE else told.get(one.key, "left")) for one in some)
    if problem is not None:
        raise problem


def _looked_at(store: ObjectStore, keys: Sequence[str]) -> dict[str, str]:
    """Say which keys are `already_gone` and which are `left`; from the first on of which the store does not say it, `unknown`."""
    told: dict[str, str] = {}
    with suppress(LakegcError), ThreadPoolExecutor(_THREADS, thread_name_prefix="lakegc-purge") as pool:
        for some in _lots(keys, _THREADS):
            told |= dict(
                zip(some, ("left" if there else "already_gone" for there in pool.map(store.exists, some)), strict=True)
            )
    return dict.fromkeys(keys, "unknown") | told


def _record(run: Run, some: Sequence[Over], outcomes: Mapping[str, str], *, number: int) -> str:
    at = run.now()
    key = f"{RECORDS}run_id={run.key}/{at:%Y-%m-%dT%H-%M-%S.%fZ}-{number}.parquet"
    rows = [
        {
            "address": one.address,
            "run": one.run,
            "size_bytes": one.size_bytes,
            "outcome": outcomes.get(one.key, "left"),
            "purged_at": at,
        }
        for one in some
    ]
    run.store.write_parquet(key, [pa.RecordBatch.from_pylist(rows, schema=schemas.PURGED)], schemas.PURGED)
    return key


def _second(instant: datetime) -> datetime:
    """Cut a time of the store: a listing tells it finer than a single answer does."""
    return instant.replace(microsecond=0)
