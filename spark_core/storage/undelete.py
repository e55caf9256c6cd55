"""Deleted objects that the store still keeps, brought back one by one.

Each is proved. An existing object is never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from spark_core.errors import LakegcError, NotFoundError, ObjectExistsError
from spark_core.storage.objects import ObjectInfo

Return = Literal["restored", "restorable", "already_there", "not_restorable", "failed"]

# Brings back one deleted object that was found.
BringBack: TypeAlias = Callable[[], None]


@dataclass(frozen=True)
class Lost:
    """An object that was deleted, as it is known from before.

    Attributes:
        key: Relative to the namespace.
        size_bytes: Length of its content.
        last_modified: When it was written, by the store; None if unknown.
        checksum: MD5 of its content in hex if it is known.
    """

    key: str
    size_bytes: int
    last_modified: datetime | None = None
    checksum: str | None = None

    def is_like(self, found: ObjectInfo) -> bool:
        """Say whether an existing object can be this one."""
        unknown = self.checksum is None or found.checksum is None
        return found.size_bytes == self.size_bytes and (unknown or found.checksum == self.checksum)


@dataclass(frozen=True)
class UndeleteOutcome:
    """What became of one deleted object.

    Attributes:
        key: As it was given.
        outcome: `restored` and proved; `restorable` if only that was asked; `already_there`;
            `not_restorable` if nothing keeps it; `failed` if the store could not or another object
            is in its place.
        error: The reason, for the last two.
    """

    key: str
    outcome: Return
    error: str | None = None


class KeepingStore(Protocol):
    """The part of `ObjectStore` that bringing an object back needs."""

    def content(self, key: str) -> ObjectInfo:
        """See `ObjectStore.content`."""

    def find_deleted(self, lost: Lost) -> BringBack:
        """See `ObjectStore.find_deleted`."""


def brought_back(
    store: KeepingStore, lost: Lost, find: Callable[[], BringBack], *, dry_run: bool
) -> UndeleteOutcome:
    """Bring one object back from wherever it is found, and check that it is there.

    Args:
        store: Rooted at the namespace.
        lost: The object.
        find: Finds it and returns the way to bring it back; raises NotFoundError if nothing keeps
            it.
        dry_run: Whether finding it is enough.
    """
    try:
        there = _in_its_place(store, lost)
        if there is not None:
            return there
        bring_back = _found(find)
        if isinstance(bring_back, str):
            return UndeleteOutcome(lost.key, "not_restorable", bring_back)
        return (
            UndeleteOutcome(lost.key, "restorable")
            if dry_run
            else _brought(store, lost, bring_back)
        )
    except LakegcError as error:
        return UndeleteOutcome(lost.key, "failed", error.message)


def _brought(store: KeepingStore, lost: Lost, bring_back: BringBack) -> UndeleteOutcome:
    try:
        bring_back()
    except ObjectExistsError:
        # Another writer wrote there meanwhile, unless the client sent the request twice: then it is
        # ours.
        there = _in_its_place(store, lost)
        return there or UndeleteOutcome(
            lost.key, "failed", "an object appeared in its place and vanished: run again"
        )
    if lost.is_like(store.content(lost.key)):
        return UndeleteOutcome(lost.key, "restored")
    return UndeleteOutcome(
        lost.key,
        "failed",
        "what came back is not the object that was deleted: look at it before it is used",
    )


def _in_its_place(store: KeepingStore, lost: Lost) -> UndeleteOutcome | None:
    try:
        found = store.content(lost.key)
    except NotFoundError:
        return None
    if lost.is_like(found):
        return UndeleteOutcome(lost.key, "already_there")
    return UndeleteOutcome(
        lost.key,
        "failed",
        f"another object is in its place ({found.size_bytes} bytes, deleted was one of "
        f"{lost.size_bytes}); it was left as it is",
    )


def _found(find: Callable[[], BringBack]) -> BringBack | str:
    try:
        return find()
    except NotFoundError as nothing:
        return str(nothing)


def choose_version(lost: Lost, kept: Mapping[str, ObjectInfo]) -> str | None:
    """Choose the deleted version of a key among those that a store keeps.

    Args:
        lost: The object.
        kept: The versions that the store keeps, by the store's own name for each, newest first.

    Returns:
        The name of the version written when the deleted one was, or with its checksum. If neither
        is known of the newest, the newest if it has the size. None if the store keeps only others.
    """
    found = {name: one for name, one in kept.items() if lost.is_like(one)}
    if lost.checksum is not None:
        found = {name: one for name, one in found.items() if one.checksum is not None} or found
    first = next(iter(found), None)
    if first is None or lost.last_modified is None:
        return first
    if lost.checksum is not None and found[first].checksum == lost.checksum:
        return first
    at = lost.last_modified.replace(microsecond=0)
    return next(
        (name for name, one in found.items() if one.last_modified.replace(microsecond=0) == at),
        None,
    )
