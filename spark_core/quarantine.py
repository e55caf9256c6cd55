"""Quarantine: a sweep moves objects to lakegc's own folder instead of deleting them, and purges them days later.

An object is copied inside its store and the copy is proved equal before the
original goes (`ObjectStore.copy`), so at each moment there is at least one
whole object. Nothing else is written down: the copy's key tells run and
address, and the store is asked again whenever it matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf

from spark_core import holds, tables
from spark_core.collectable import is_collectable
from spark_core.errors import (
    AddressError,
    ChainError,
    LakegcError,
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    SettingsError,
)
from spark_core.model import RunKey
from spark_core.run import Run
from spark_core.session import surfacing_errors
from spark_core.storage import DeleteOutcome, ObjectStore
from spark_core.storage.contract import Outcomes, Pace, unpaced
from spark_core.storage.copies import require_unchanged, same_content

FOLDER = f"{tables.ROOT}quarantine/"

# Copies that one task keeps under way; each is some five small requests.
_COPIES_AT_ONCE = 8
# Originals go as soon as so many are proved: what is copied and not deleted yet would be work for nothing after a kill.
_MOVED_AT_ONCE = 100

# Names below the folder that the driver holds; a person who uses more of them where they lie keeps all of them.
_MOST_NAMED = 100_000
# What a mark says of references is believed for as long by a purge.
_MARK_IS_FRESH = timedelta(days=1)

_RUN_FOLDER = re.compile(rf"{re.escape(FOLDER)}run_id=([^/]+)/")


@dataclass(frozen=True)
class Purged:
    """What a purge did.

    Attributes:
        runs: Keys of the runs whose quarantine ended.
        objects: Objects deleted for good ...
        size_bytes: ... and their bytes.
        left: Objects that the store did not delete; the next purge takes them again.
        strangers: Keys in a run's folder that are no address of an object, so they were not put there by a sweep; left alone.
        in_use: Objects that a hold keeps, or that a staged entry or a retained commit names where they lie; left alone.
    """

    runs: tuple[str, ...] = ()
    objects: int = 0
    size_bytes: int = 0
    left: int = 0
    strangers: int = 0
    in_use: int = 0


def folder(run: RunKey | str) -> str:
    """Return where the objects of a run lie, ending in a slash."""
    return f"{FOLDER}run_id={run}/"


def key_of(run: RunKey | str, address: str) -> str:
    """Return where an object of a run lies in quarantine."""
    return folder(run) + address


def facts(run: Run, earlier: tables.Manifest | None = None) -> Mapping[str, Any]:
    """Return what the report of a sweep keeps about its quarantine: nothing where it deletes at once.

    Args:
        run: The run.
        earlier: An earlier report of the same run, whose promise this one keeps.
    """
    if not run.options.quarantine:
        return {}
    promised = 0 if earlier is None else earlier.facts.get("quarantine_days", 0)
    return {
        "quarantine_days": max(run.options.quarantine_days, promised),
        "quarantine_folder": folder(run.key),
        "undo": f"lakegc restore {run.repository.id} {run.key}",
    }


def ends_at(report: tables.Manifest) -> datetime | None:
    """Return until when the objects of a stored deletion report are in quarantine; None if they never were."""
    days = report.facts.get("quarantine_days")
    return None if days is None else report.reading_ended + timedelta(days=days)


def move(
    store: ObjectStore,
    run_key: RunKey | str,
    addresses: Sequence[str],
    *,
    pace: Pace = unpaced,
) -> Outcomes:
    """Move objects into the quarantine of a run; what `ObjectStore.delete` is to a sweep that deletes.

    Never raises for what the store says. Repeated after a kill it goes on from
    what it finds: a copy that is equal stands, and an original that is gone
    while its copy is there was moved.

    Args:
        store: Rooted at the namespace.
        run_key: Whose sweep it is.
        addresses: Any number.
        pace: Called before each request that deletes originals; when it raises, those stay.

    Returns:
        One outcome per address, in the order given: `deleted` when the copy is in quarantine and the original is gone;
        `already_gone` when there was no original and no copy; for `refused` and `failed` the original stays, except that
        a deletion which the store did not confirm may have happened.
    """
    told: dict[str, DeleteOutcome] = {}
    asked = list(dict.fromkeys(addresses))
    with ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
        for begin in range(0, len(asked), _MOVED_AT_ONCE):
            some = asked[begin : begin + _MOVED_AT_ONCE]
            settled = dict(zip(some, pool.map(partial(_settle, store, run_key), some), strict=True))
            proved = [address for address, outcome in settled.items() if outcome is None]
            told.update((address, outcome) for address, outcome in settled.items() if outcome is not None)
            if proved:
                told.update((gone.key, _moved(gone)) for gone in store.delete(proved, pace=pace))
    return [told[address] for address in addresses]


def _settle(store: ObjectStore, run_key: RunKey | str, address: str) -> DeleteOutcome | None:
    """Bring a proved copy of an object about; None means that the original may go, anything else is its outcome."""
    if not is_collectable(address, flat=True):
        return DeleteOutcome(address, "refused", "the key is none that a sweep may touch")
    try:
        return _copied_or_known(store, address, key_of(run_key, address))
    except (PermissionDeniedError, SettingsError, AddressError) as error:
        return DeleteOutcome(address, "refused", _cause(error))
    except LakegcError as error:
        return DeleteOutcome(address, "failed", _cause(error))


def _copied_or_known(store: ObjectStore, address: str, target: str) -> DeleteOutcome | None:
    try:
        store.copy(address, target)
    except NotFoundError:
        if store.exists(address):
            raise
        return DeleteOutcome(address, "deleted" if store.exists(target) else "already_gone")
    except ObjectExistsError:
        return _compared(store, address, target)
    return None


def _compared(store: ObjectStore, address: str, target: str) -> DeleteOutcome | None:
    """Go on where an earlier try was killed between the copy and the deletion."""
    try:
        original = store.sight(address)
    except NotFoundError:
        return DeleteOutcome(address, "deleted")
    if not same_content(store, original, store.sight(target)):
        return DeleteOutcome(
            address, "failed", f"another object lies in quarantine under its name ({target}), so it stays where it is"
        )
    require_unchanged(store, original)
    return None


def _moved(gone: DeleteOutcome) -> DeleteOutcome:
    """An original that the store calls gone already was deleted by a request whose answer was lost."""
    return DeleteOutcome(gone.key, "deleted") if gone.outcome == "already_gone" else gone


def _cause(error: LakegcError) -> str:
    return str(error).partition("; nothing was deleted")[0]


def runs(store: ObjectStore) -> Iterator[RunKey]:
    """Yield the runs that have a folder in quarantine; what is named otherwise is none."""
    for prefix in store.children(FOLDER)[0]:
        found = _RUN_FOLDER.fullmatch(prefix)
        try:
            key = RunKey.parse(found[1]) if found else None
        except SettingsError:
            key = None
        if key is not None:
            yield key


def named_by_mark(run: Run) -> frozenset[str]:
    """Return what of the quarantine is used where it lies: keys that staged entries or retained commits name.

    Nobody needs to stage an address in the quarantine, as `lakegc restore` brings the object back; the server allows it.

    Args:
        run: A run that was marked just now.

    Raises:
        ChainError: If it was not, or more is used than the driver holds: then nobody knows what may go.
        CorruptTableError: If a table of the mark cannot be read.
    """
    began = run.load(tables.NAMESPACE_SLICES).manifest.reading_began
    if run.now() - began > _MARK_IS_FRESH:
        raise ChainError(
            f"run {run.key} of {run.repository.id} was marked {run.now() - began} ago, so it is not known who uses objects of the "
            "quarantine by now; nothing of the quarantine was purged. The next mark does it."
        )
    named: set[str] = set()
    for spec in (tables.UNCOMMITTED_ADDRESSES, tables.COMMITTED_ADDRESSES):
        named.update(_below_folder(run, run.load(spec)))
    if len(named) > _MOST_NAMED:
        raise ChainError(
            f"more than {_MOST_NAMED} objects are used where they lie in {run.store.root}{FOLDER}; nothing of the quarantine was "
            "purged. Bring them back with `lakegc restore`."
        )
    return frozenset(named)


def _below_folder(run: Run, table: tables.StoredTable) -> Iterator[str]:
    """Yield the addresses of a table that lie in quarantine, at most one more than the driver holds."""
    if table.is_small:
        for batch in table.batches(["address"]):
            yield from batch.filter(pc.starts_with(batch.column("address"), FOLDER)).column("address").to_pylist()
        return
    found = table.frame(run.spark, ["address"]).where(sf.col("address").startswith(FOLDER)).distinct()
    with surfacing_errors():
        yield from found.limit(_MOST_NAMED + 1).toArrow()["address"].to_pylist()


def purge(run: Run, named: AbstractSet[str] = frozenset(), pace: Pace = unpaced) -> Purged:
    """Delete for good what has been in quarantine for longer than `quarantine_days`; call it under the lease.

    A run's days begin when its report was stored. Without a report it was not
    swept to its end, and what lies in its quarantine may be the only trace of it;
    so it is with what a later sweep of the run moved that left no report.
    What a report promises holds, also when the options say fewer days by now.
    What a hold keeps, where it lies or by its old address, stays.

    Args:
        run: Any run of the repository; its options say how long.
        named: What `named_by_mark` found.
        pace: Called before each request that deletes; what it raises, as for a lease that is lost, ends the purge.

    Returns:
        What was deleted. A store that refuses is told by `left`, not raised: the objects are as dead the next time.

    Raises:
        LakegcError: If the folder cannot be listed or a report cannot be read.
    """
    done, held = Purged(), holds.load(run.store)

    def is_used(key: RunKey, name: str) -> bool:
        return name in named or _is_held(held, key, name)

    for key in runs(run.store):
        if _is_due(run, key):
            done = _purged(run.store, key, done, pace, partial(is_used, key))
    return done


def _is_held(held: holds.Holds, key: RunKey, name: str) -> bool:
    address = name.removeprefix(folder(key))
    return bool(held.of_addresses) and any(held.protecting(pa.array([name, address])).to_pylist())


def _is_due(run: Run, key: RunKey) -> bool:
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, key)):
        return False
    report = tables.load_table(run.store, tables.DELETION_REPORT, key).manifest
    by_options = report.reading_ended + timedelta(days=run.options.quarantine_days)
    return run.now() >= max(by_options, ends_at(report) or by_options)


def _purged(store: ObjectStore, key: RunKey, done: Purged, pace: Pace, is_used: Callable[[str], bool]) -> Purged:
    where = folder(key)
    reported = _second(store.head(tables.manifest_key(tables.DELETION_REPORT, key)).last_modified)
    objects = size_bytes = left = strangers = in_use = 0
    for batch in store.list(where):
        sizes = dict(zip(batch.column("key").to_pylist(), batch.column("size_bytes").to_pylist(), strict=True))
        ours = [name for name in sizes if name.startswith(where) and is_collectable(name[len(where) :], flat=True)]
        strangers += len(sizes) - len(ours)
        moved = dict(zip(sizes, batch.column("last_modified").to_pylist(), strict=True))
        due = [name for name in ours if _second(moved[name]) <= reported]
        free = [name for name in due if not is_used(name)]
        in_use += len(due) - len(free)
        for outcome in store.delete(free, pace=pace):
            if outcome.outcome in ("deleted", "already_gone"):
                objects, size_bytes = objects + 1, size_bytes + sizes[outcome.key]
            else:
                left += 1
    if not objects and not left and not strangers and not in_use:
        return done
    return Purged(
        (*done.runs, str(key)),
        done.objects + objects,
        done.size_bytes + size_bytes,
        done.left + left,
        done.strangers + strangers,
        done.in_use + in_use,
    )


def _second(instant: datetime) -> datetime:
    """Cut a time of the store: a listing tells it finer than a single answer does."""
    return instant.replace(microsecond=0)
