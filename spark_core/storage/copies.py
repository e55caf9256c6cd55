"""Copies inside a store that are proved before anybody relies on them, and what the stores tell about objects for that.

A store moves the bytes itself (`ObjectStore.transfer`). That it said it did is
not believed: source and copy are described anew and compared, by checksums of
the content where the store keeps the same kind for both, else byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_core.errors import NotFoundError, ObjectExistsError, TransientError

if TYPE_CHECKING:
    from spark_core.storage.contract import ObjectStore

# Of two objects that are compared byte by byte, so much of each is in memory.
_PIECE_BYTES = 16 << 20


@dataclass(frozen=True)
class Sight:
    """What a store tells of one object at one moment.

    Attributes:
        key: Relative to the namespace.
        size_bytes: Length of the content.
        version: Changes when the object is written again; the store's own words (an ETag, a generation).
        digests: Checksums of the whole content by algorithm, as the store keeps them; empty where it has none that depend
            on the content alone.
    """

    key: str
    size_bytes: int
    version: str
    digests: Mapping[str, str] = field(default_factory=dict)


def copied(store: ObjectStore, source: str, target: str) -> Sight:
    """Copy an object inside its store and prove the copy; see `ObjectStore.copy`.

    A copy that turns out wrong is taken away again, so that it neither passes
    for the object nor stands in the way of the next try.
    """
    before = store.sight(source)
    if store.exists(target):
        raise ObjectExistsError(
            f"copy {source!r} to {target!r}: {store.root} has such an object already, and it was left as it is",
            "Compare the two.",
        )
    store.transfer(before, target)
    made = store.sight(target)
    if not same_content(store, before, made):
        _take_away(store, made)
        raise TransientError(
            f"copy {source!r} to {target!r} of {store.root}: the copy is not what was to be copied ({made.size_bytes} bytes came "
            f"of {before.size_bytes}), so it was taken away again and the original stays",
            "Run again; if it goes on, the store does not copy reliably.",
        )
    require_unchanged(store, before)
    return made


def same_content(store: ObjectStore, one: Sight, other: Sight) -> bool:
    """Say whether two objects have the same content; in doubt by reading both.

    Checksums that differ prove nothing where a store encrypts or splits what it
    keeps, so only equal ones are an answer.
    """
    if one.size_bytes != other.size_bytes:
        return False
    if told_same(one, other):
        return True
    for start in range(0, one.size_bytes, _PIECE_BYTES):
        length = min(_PIECE_BYTES, one.size_bytes - start)
        if store.read_range(one.key, start, length) != store.read_range(other.key, start, length):
            return False
    return True


def told_same(one: Sight, other: Sight) -> bool:
    """Say whether what the store tells of two objects proves that they have the same content; if not, they may all the same."""
    common = one.digests.keys() & other.digests.keys()
    return (
        one.size_bytes == other.size_bytes
        and bool(common)
        and all(one.digests[name] == other.digests[name] for name in common)
    )


def require_unchanged(store: ObjectStore, before: Sight) -> None:
    """Refuse to go on with an object that is not the one that was looked at.

    Raises:
        TransientError: If it was written again since, or is gone.
    """
    try:
        now = store.sight(before.key).version
    except NotFoundError:
        now = None
    if now != before.version:
        what = "vanished" if now is None else "was written again"
        raise TransientError(
            f"{store.root}{before.key} {what} while it was copied, so the copy proves nothing",
            "Look who writes there, and run again.",
        )


def _take_away(store: ObjectStore, made: Sight) -> None:
    """Delete a copy that is wrong, if it is still the one that was compared."""
    try:
        unchanged = store.sight(made.key).version == made.version
    except NotFoundError:
        return
    if unchanged:
        store.delete([made.key])
