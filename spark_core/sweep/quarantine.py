"""Quarantine: a sweep moves objects to lakegc's own folder instead of deleting them; `purge` ends it days later.

An object is copied inside its store and the copy is proved equal before the
original goes (`ObjectStore.copy`), so at each moment there is at least one
whole object. Nothing else is written down: the copy's key tells run and
address, and the store is asked again whenever it matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from spark_core import layout
from spark_core.addresses.collectable import is_collectable
from spark_core.errors import (
    AddressError,
    LakegcError,
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    SettingsError,
)
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.run import Run
from spark_core.storage import DeleteOutcome, ObjectStore
from spark_core.storage.contract import Outcomes, Pace, unpaced
from spark_core.storage.copies import require_unchanged, same_content

# Copies that one task keeps under way; each is some five small requests.
_COPIES_AT_ONCE = 8
# Originals go as soon as so many are proved: what is copied and not deleted yet would be work for nothing after a kill.
_MOVED_AT_ONCE = 100


def key_of(run: RunKey | str, address: str) -> str:
    """Return where an object of a run lies in quarantine."""
    return layout.in_quarantine(run) + address


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
        "quarantine_folder": layout.in_quarantine(run.key),
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
        return DeleteOutcome(address, "refused", error.found)
    except LakegcError as error:
        return DeleteOutcome(address, "failed", error.found)


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


def runs(store: ObjectStore) -> list[RunKey]:
    """Return the runs that have a folder in quarantine, oldest first."""
    return tables.runs(store, "quarantine")[::-1]
