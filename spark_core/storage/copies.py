"""Copies inside a store that are proved first, and what stores say of objects for the proof.

A store moves the bytes itself (`ObjectStore.transfer`). Its word is not believed. Source and copy
are described anew and compared: by checksums of the content if the store keeps the same kind for
both, else byte by byte.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from spark_core.errors import NotFoundError, ObjectExistsError, TransientError
from spark_core.storage.objects import Description
from spark_core.storage.outcomes import Outcomes, Pace, unpaced

T = TypeVar("T")

# How much of each of two objects is in memory while they are compared byte by byte.
_PIECE_BYTES = 16 << 20


class Ask(Protocol):
    """Sends a request about a key, counts it, and raises the project's errors."""

    def __call__(self, action: str, key: str, question: Callable[[], T]) -> T:
        """Send it."""


@dataclass(frozen=True)
class SecondName:
    """Where an object lies as well, whose first name is to go.

    Attributes:
        key: The second name.
        is_link: Whether both are names of one file; else the second one is that of a proved copy.
        seen: Size and time of the object when it was looked at; None: nobody did.
    """

    key: str
    is_link: bool = False
    seen: tuple[int, datetime] | None = None


class CopyingStore(ABC):
    """The part of a store that copies, and what it needs of the rest."""

    @property
    @abstractmethod
    def root(self) -> str:
        """Absolute URI of the namespace, to be shown."""

    @abstractmethod
    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""

    @abstractmethod
    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See `ObjectStore.read_range`."""

    @abstractmethod
    def delete(self, keys: Sequence[str], *, pace: Pace = unpaced) -> Outcomes:
        """See `ObjectStore.delete`."""

    @abstractmethod
    def describe(self, key: str) -> Description:
        """Describe one object with what is needed to compare and recognize it."""

    @abstractmethod
    def transfer(self, source: Description, target: str) -> None:
        """Let the store copy an object to a free key, without a proof; `copy` gives one.

        Args:
            source: The object as seen. A store that can be given this condition copies only that.
            target: A free key. A store that can be given this condition overwrites nothing there.

        Raises:
            ObjectExistsError: If there is an object at the target.
            TransientError: Also if the source was written again.
        """

    def copy(self, source: str, target: str) -> Description:
        """Copy an object inside the store, and prove that the copy has the same content.

        Args:
            source: Key of an object.
            target: A free key.

        Returns:
            The copy.

        Raises:
            ObjectExistsError: If there is an object at the target; it is left as it is.
            TransientError: Also if the source changed meanwhile, or the copy is not equal to the
                source; an unequal copy is deleted.
        """
        return copied(self, source, target)

    def link_to(self, key: str, target: str, *, young: bool = False) -> bool:  # noqa: ARG002 - for files
        """Give an object a second name, which takes no room; False where it must be copied.

        It goes on from a try that was killed: a target that is a name of the object stands.

        Args:
            key: Key of an object.
            target: A free key.
            young: Whether the object is as young as one written now, under both names.

        Raises:
            ObjectExistsError: If there is another object at the target; it is left as it is.
        """
        return False

    def delete_first_names(
        self, second: Mapping[str, SecondName], *, pace: Pace = unpaced
    ) -> Outcomes:
        """Delete objects that have a second name, by their first ones; see `ObjectStore.delete`.

        Files go only as they were seen: just before each, the first name is still that of the file
        under the second one, with its size and time. Else it is `changed`, and stays.

        Args:
            second: The second name, by the first.
            pace: As for `ObjectStore.delete`.
        """
        return self.delete(list(second), pace=pace)


@dataclass(frozen=True)
class Copies(ABC):
    """Copies that a remote store makes in one bucket or container.

    Attributes:
        root: The root of the namespace, for an error.
        ask: Sends a request.
    """

    root: str
    ask: Ask

    @abstractmethod
    def describe(self, key: str) -> Description:
        """Describe an object; see `ObjectStore.describe`."""

    @abstractmethod
    def transfer(self, source: Description, target: str) -> None:
        """Copy an object; see `ObjectStore.transfer`."""

    def unless_there(self, source: str, target: str, copy: Callable[[], T]) -> T:
        """Copy on two conditions: nothing is at the target, and the source is what was seen.

        Raises:
            ObjectExistsError: If there is an object at the target.
            TransientError: If the source was written again: stores give one answer whichever of the
                two fails.
        """
        try:
            return copy()
        except ObjectExistsError:
            if self._is_there(target):
                raise
        raise TransientError(
            f"{self.root}{source} was written again while it was copied, so the copy was not made",
            "Look who writes there, and run again.",
        )

    def _is_there(self, key: str) -> bool:
        try:
            self.describe(key)
        except NotFoundError:
            return False
        return True


def copied(store: CopyingStore, source: str, target: str) -> Description:
    """Copy an object inside its store and prove the copy; see `ObjectStore.copy`.

    A copy that turns out wrong is deleted again. So it neither passes for the object nor blocks the
    next try.
    """
    before = store.describe(source)
    if store.exists(target):
        raise ObjectExistsError(
            f"copy {source!r} to {target!r}: {store.root} has such an object already, and it was "
            "left as it is",
            "Compare the two.",
        )
    store.transfer(before, target)
    made = store.describe(target)
    if not same_content(store, before, made):
        _take_away(store, made)
        raise TransientError(
            f"copy {source!r} to {target!r} of {store.root}: the copy is not what was to be copied "
            f"({made.size_bytes} bytes came "
            f"of {before.size_bytes}), so it was taken away again and the original stays",
            "Run again; if it goes on, the store does not copy reliably.",
        )
    require_unchanged(store, before)
    return made


def same_content(store: CopyingStore, one: Description, other: Description) -> bool:
    """Say whether two objects have the same content; in doubt by reading both.

    Checksums that differ prove nothing if a store encrypts or splits its objects. So only equal
    ones are an answer.
    """
    if one.size_bytes != other.size_bytes:
        return False
    if described_same(one, other):
        return True
    for start in range(0, one.size_bytes, _PIECE_BYTES):
        length = min(_PIECE_BYTES, one.size_bytes - start)
        if store.read_range(one.key, start, length) != store.read_range(other.key, start, length):
            return False
    return True


def described_same(one: Description, other: Description) -> bool:
    """Say whether the store's facts prove two objects equal; if not, they may still be equal."""
    common = one.digests.keys() & other.digests.keys()
    return (
        one.size_bytes == other.size_bytes
        and bool(common)
        and all(one.digests[name] == other.digests[name] for name in common)
    )


def require_unchanged(store: CopyingStore, before: Description) -> None:
    """Refuse to go on with an object that is not the one that was described.

    Raises:
        TransientError: If it was written again since, or is gone.
    """
    try:
        now = store.describe(before.key).version
    except NotFoundError:
        now = None
    if now != before.version:
        what = "vanished" if now is None else "was written again"
        raise TransientError(
            f"{store.root}{before.key} {what} while it was copied, so the copy proves nothing",
            "Look who writes there, and run again.",
        )


def _take_away(store: CopyingStore, made: Description) -> None:
    """Delete a copy that is wrong, if it is still the one that was compared."""
    try:
        unchanged = store.describe(made.key).version == made.version
    except NotFoundError:
        return
    if unchanged:
        store.delete([made.key])
