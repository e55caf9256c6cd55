"""Quarantine: a sweep moves objects to lakegc's own folder, and `purge` deletes them days later.

On files an object gets a second name there, and then loses its first one (`ObjectStore.link_to`).
Where there are no links it is copied inside its store, and the copy is proved equal before the
original is deleted (`ObjectStore.copy`). So at least one whole object exists at each moment.
Nothing else is written down: the key in quarantine gives run and address, and the store is asked
again whenever it matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from spark_core import lakegc_keys
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
from spark_core.records.figures import DeletionFigures, QuarantineFigures
from spark_core.records.manifest import Manifest
from spark_core.run import Run
from spark_core.storage import DeleteOutcome, ObjectStore
from spark_core.storage.copies import SecondName, require_unchanged, same_content
from spark_core.storage.outcomes import Outcomes, Pace, unpaced
from spark_core.sweep.objects_now import Row

# Copies that one task keeps under way. Each is some five small requests.
_COPIES_AT_ONCE = 8
# Originals are deleted as soon as this many copies are proved. After a kill, the copies whose
# originals are still there would be wasted work.
_MOVED_AT_ONCE = 100


def key_of(run: RunKey | str, address: str) -> str:
    """Return where an object of a run lies in quarantine."""
    return lakegc_keys.in_quarantine(run) + address


def figures(run: Run, earlier: Manifest | None = None) -> QuarantineFigures:
    """Return what a sweep's report records about its quarantine; no values if it deletes at once.

    Args:
        run: The run.
        earlier: An earlier report of the same run. Its promise stays in force.
    """
    if not run.options.quarantine:
        return QuarantineFigures()
    promised = None if earlier is None else DeletionFigures.of(earlier).quarantine_days
    return QuarantineFigures(
        quarantine_days=max(run.options.quarantine_days, promised or 0),
        quarantine_folder=lakegc_keys.in_quarantine(run.key),
        undo=f"lakegc restore {run.repository.id} {run.key}",
    )


def move(
    store: ObjectStore,
    run_key: RunKey | str,
    addresses: Sequence[str],
    *,
    seen: Mapping[str, Row] | None = None,
    pace: Pace = unpaced,
) -> Outcomes:
    """Move objects into the quarantine of a run; replaces `ObjectStore.delete` in such a sweep.

    The call never raises for an answer of the store. Repeated after a kill, it goes on from what it
    finds. An equal copy stands. An original that is gone while its copy is there counts as moved.
    "Copy" means a second name as well, where the store gives one.

    Args:
        store: Rooted at the namespace.
        run_key: Key of the run that is swept.
        addresses: Any number.
        seen: Objects as the sweep looked at them, by address.
        pace: Called before each request that deletes originals. If it raises, those originals stay.

    Returns:
        One outcome per address, in the order given. `deleted`: the copy is in quarantine and the
        original is gone. `already_gone`: there was no original and no copy. `changed`: it is not
        the object that was looked at, so it stays and has no link. `refused` and `failed`: the
        original stays, except that a deletion which the store did not confirm may have happened.
    """
    results: dict[str, DeleteOutcome] = {}
    asked = list(dict.fromkeys(addresses))
    with ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
        for begin in range(0, len(asked), _MOVED_AT_ONCE):
            some = asked[begin : begin + _MOVED_AT_ONCE]
            proved = dict[str, SecondName]()
            for address, made in zip(
                some, pool.map(partial(_bring_about_copy, store, run_key), some), strict=True
            ):
                if isinstance(made, DeleteOutcome):
                    results[address] = made
                else:
                    row = None if seen is None else seen[address]
                    proved[address] = replace(made, seen=row and row[1:])
            if proved:
                results |= _without_originals(store, proved, pace)
    return [results[address] for address in addresses]


def _without_originals(
    store: ObjectStore, proved: Mapping[str, SecondName], pace: Pace
) -> dict[str, DeleteOutcome]:
    """Delete the originals of copies, and take back the links to those that changed meanwhile."""
    gone = {one.key: _moved(one) for one in store.delete_first_names(proved, pace=pace)}
    changed = (proved[key] for key, one in gone.items() if one.outcome == "changed")
    stay = [second.key for second in changed if second.is_link]
    if stay:
        store.delete(stay)
    return gone


def _bring_about_copy(
    store: ObjectStore, run_key: RunKey | str, address: str
) -> DeleteOutcome | SecondName:
    """Bring about a second name of an object; its outcome if the original may not go."""
    if not is_collectable(address, flat=True):
        return DeleteOutcome(address, "refused", "the key is none that a sweep may touch")
    try:
        return _copied_or_known(store, address, key_of(run_key, address))
    except (PermissionDeniedError, SettingsError, AddressError) as error:
        return DeleteOutcome(address, "refused", error.found)
    except LakegcError as error:
        return DeleteOutcome(address, "failed", error.found)


def _copied_or_known(store: ObjectStore, address: str, target: str) -> DeleteOutcome | SecondName:
    try:
        if store.link_to(address, target):
            return SecondName(target, is_link=True)
        store.copy(address, target)
    except NotFoundError:
        if store.exists(address):
            raise
        return DeleteOutcome(address, "deleted" if store.exists(target) else "already_gone")
    except ObjectExistsError:
        return _compared(store, address, target)
    return SecondName(target)


def _compared(store: ObjectStore, address: str, target: str) -> DeleteOutcome | SecondName:
    """Go on after a try that was killed between the copy and the deletion."""
    try:
        original = store.describe(address)
    except NotFoundError:
        return DeleteOutcome(address, "deleted")
    if not same_content(store, original, store.describe(target)):
        return DeleteOutcome(
            address,
            "failed",
            f"another object lies in quarantine under its name ({target}), so it stays where it is",
        )
    require_unchanged(store, original)
    return SecondName(target)


def _moved(gone: DeleteOutcome) -> DeleteOutcome:
    """Return the outcome of a moved object; `already_gone` means that an answer was lost.

    A request whose answer was lost had then deleted the original.
    """
    return DeleteOutcome(gone.key, "deleted") if gone.outcome == "already_gone" else gone
