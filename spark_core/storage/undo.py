"""Deleted objects brought back by the store that keeps them: asked for one by one, proved, never over an object that exists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from spark_core.errors import LakegcError, NotFoundError, ObjectExistsError

if TYPE_CHECKING:
    from spark_core.storage.contract import ObjectInfo, ObjectStore

Return = Literal["restored", "restorable", "already_there", "not_restorable", "failed"]

# Brings back one deleted object that was found.
BringBack: TypeAlias = Callable[[], None]


@dataclass(frozen=True)
class Lost:
    """An object that was deleted, as it is known from before.

    Attributes:
        key: Relative to the namespace.
        size_bytes: Length of its content.
        last_modified: When it was written, by the store; None where nobody remembers.
        checksum: MD5 of its content in hex where it is known.
    """

    key: str
    size_bytes: int
    last_modified: datetime | None = None
    checksum: str | None = None

    def is_like(self, found: ObjectInfo) -> bool:
        """Say whether an object that is there can be this one."""
        unknown = self.checksum is None or found.checksum is None
        return found.size_bytes == self.size_bytes and (unknown or found.checksum == self.checksum)


@dataclass(frozen=True)
class UndeleteOutcome:
    """What became of one deleted object.

    Attributes:
        key: As it was given.
        outcome: `restored` and proved; `restorable` when only that was asked; `already_there`; `not_restorable` when nothing
            keeps it; `failed` when the store could not or another object is in its place.
        error: Why, for the last two.
    """

    key: str
    outcome: Return
    error: str | None = None


def undeleted(store: ObjectStore, lost: Lost, *, dry_run: bool) -> UndeleteOutcome:
    """Bring one object back; see `ObjectStore.undelete`."""
    return brought_back(store, lost, lambda: store.find_deleted(lost), dry_run=dry_run)


def brought_back(store: ObjectStore, lost: Lost, find: Callable[[], BringBack], *, dry_run: bool) -> UndeleteOutcome:
    """Bring one object back from wherever it is found, and look whether it is there.

    Args:
        store: Rooted at the namespace.
        lost: The object.
        find: Finds it and gives the way to bring it back; raises NotFoundError when nothing keeps it.
        dry_run: Whether finding it is enough.
    """
    try:
        there = _standing(store, lost)
        if there is not None:
            return there
        bring_back = _found(find)
        if isinstance(bring_back, str):
            return UndeleteOutcome(lost.key, "not_restorable", bring_back)
        return UndeleteOutcome(lost.key, "restorable") if dry_run else _brought(store, lost, bring_back)
    except LakegcError as error:
        return UndeleteOutcome(lost.key, "failed", error.message)


def _brought(store: ObjectStore, lost: Lost, bring_back: BringBack) -> UndeleteOutcome:
    try:
        bring_back()
    except ObjectExistsError:
        # Somebody wrote there meanwhile, unless the client sent the request twice: then it is ours.
        there = _standing(store, lost)
        return there or UndeleteOutcome(lost.key, "failed", "an object appeared in its place and vanished: run again")
    if lost.is_like(store.content(lost.key)):
        return UndeleteOutcome(lost.key, "restored")
    return UndeleteOutcome(
        lost.key, "failed", "what came back is not the object that was deleted: look at it before it is used"
    )


def _standing(store: ObjectStore, lost: Lost) -> UndeleteOutcome | None:
    try:
        found = store.content(lost.key)
    except NotFoundError:
        return None
    if lost.is_like(found):
        return UndeleteOutcome(lost.key, "already_there")
    return UndeleteOutcome(
        lost.key,
        "failed",
        f"another object is in its place ({found.size_bytes} bytes, deleted was one of {lost.size_bytes}); it was left as it is",
    )


def _found(find: Callable[[], BringBack]) -> BringBack | str:
    try:
        return find()
    except NotFoundError as nothing:
        return str(nothing)


def chosen(lost: Lost, kept: Iterable[ObjectInfo]) -> ObjectInfo | None:
    """Choose among what a store keeps of a key the one that was deleted.

    Args:
        lost: The object.
        kept: What the store keeps of it, newest first.

    Returns:
        The one written when the deleted one was, or with its checksum; where neither is known the newest, if it has
        its size. None if the store keeps only others.
    """
    found = [one for one in kept if lost.is_like(one)]
    if lost.checksum is not None:
        found = [one for one in found if one.checksum is not None] or found
    if lost.last_modified is None or (found and lost.checksum is not None and found[0].checksum == lost.checksum):
        return found[0] if found else None
    at = lost.last_modified.replace(microsecond=0)
    return next((one for one in found if one.last_modified.replace(microsecond=0) == at), None)
