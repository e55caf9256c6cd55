"""Questions about a store that are answered by trying, on objects that lakegc itself makes or on names that nobody has."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from spark_core import layout
from spark_core.clocks import ClockReading
from spark_core.errors import LakegcError, ObjectExistsError, PermissionDeniedError, SettingsError, TransientError
from spark_core.storage.contract import DeleteOutcome, ObjectStore

# How stores say that they do not take who asks at all, whatever they may.
_UNKNOWN = re.compile(r"\b401\b|Expired|Invalid|Signature|Unauthenticated|Authentication")

# How stores say that they do not take the request, whatever it is about and whenever it comes.
_NOT_TAKEN = re.compile(r"\bHTTP (400(?! RequestTimeout)|405|411|415|501)\b|\bNotImplemented\b")


def read_clock(store: ObjectStore) -> ClockReading | None:
    """Read the store's clock off an object that is written for it, always the same one.

    Ages of objects are the store's time compared with this machine's, so a skew
    makes young objects look old. This machine's own clock is what counts,
    whatever clock a run is given.

    Returns:
        None if the store took so long that its answer says nothing.

    Raises:
        PermissionDeniedError: If lakegc's own folder cannot be written or read.
    """
    sent = datetime.now(UTC)
    store.put(layout.CLOCK, b"lakegc reads the store's clock off this object's date\n")
    told = store.head(layout.CLOCK).last_modified
    return ClockReading.of(told, sent=sent, received=datetime.now(UTC))


def unused_name() -> str:
    """Make a name below data/ that no server gives and nobody has: no slice of lakeFS begins like it."""
    return f"data/lakegc-probe-{secrets.token_hex(8)}/{secrets.token_hex(8)}"


def require_deletable(store: ObjectStore) -> None:
    """Refuse where the store would refuse to delete; nothing of anybody's is touched.

    Asked before a sweep: else a missing permission would be found object by object.

    Raises:
        PermissionDeniedError: If the credentials may not delete under data/.
        SettingsError: If the store does not take the request that a sweep deletes with.
        TransientError: If the store does not answer, or not what can be told.
    """
    outcome = store.probe_delete(unused_name())
    if outcome.outcome in ("deleted", "already_gone"):
        return
    what = f"{store.root}: deleting under data/ was tried on a name that nobody has, and"
    if outcome.outcome == "refused":
        who = (
            "it does not take these credentials (any more)"
            if _UNKNOWN.search(outcome.error or "")
            else "these credentials may list but not delete"
        )
        raise PermissionDeniedError(
            f"{what} the store refuses ({outcome.error}): {who}",
            f"Allow {store.delete_permission} for them on {store.root}data/, and look at whether they have expired "
            "(a mark needs no such permission).",
        )
    raise _not_taken(store, what, outcome) or TransientError(
        f"{what} the store could not say whether it may be ({outcome.error})",
        "Look at the endpoint and the network, and run again.",
    )


def _not_taken(store: ObjectStore, what: str, outcome: DeleteOutcome) -> SettingsError | None:
    """Return the error of a store that does not take the request at all; None where it is about this deletion."""
    if outcome.outcome != "failed" or not _NOT_TAKEN.search(outcome.error or ""):
        return None
    return SettingsError(
        f"{what} the store does not take the request that deletes ({outcome.error}), and would not for any object",
        f"Look at the endpoint, at the store's version and at what stands before it: a sweep needs {store.delete_request}.",
    )


def honours_conditional_put(store: ObjectStore, key: str) -> bool:
    """Prove whether the store keeps the condition of a put: one that must be the first must fail when it is the second.

    A store that ignores the condition answers 200 to both, and then two collectors
    would both believe that they hold a lease (safety 33).

    Args:
        store: Rooted at the namespace.
        key: Of lakegc's own, below `layout.PROBE`, new for each probe; the object is taken away again.

    Returns:
        Whether the second writer was told so and what the first one wrote is still there.

    Raises:
        PermissionDeniedError: If lakegc's own folder cannot be written or read.
        SettingsError: If the store does not take the request that deletes.
        TransientError: If the store does not answer, or does not take the probe away again.
    """
    mine, later = secrets.token_bytes(32), secrets.token_bytes(32)
    try:
        store.put_if_absent(key, mine)
    except ObjectExistsError:
        # An object of somebody else, unless the client sent the request twice: then it is ours.
        if store.read(key) != mine:
            return True
    try:
        store.put_if_absent(key, later)
    except ObjectExistsError:
        kept = store.read(key) == mine
    else:
        kept = False
    (outcome,) = store.delete([key])
    if outcome.outcome not in ("deleted", "already_gone"):
        what = f"{store.root}{key}, a probe of lakegc's own, cannot be taken away again:"
        raise _not_taken(store, what, outcome) or TransientError(
            f"{store.root}{key}, a probe of lakegc's own, cannot be taken away again ({outcome.error}); nothing of the "
            f"repository's was touched. Allow {store.delete_permission} on {store.root}_lakefs/retention/gc/ and delete it."
        )
    return kept


def write_read_delete(store: ObjectStore) -> None:
    """Write an object of lakegc's own, read it back and delete it again.

    Raises:
        PermissionDeniedError: If the store refuses one of the three; the text names which.
        SettingsError: If the store does not take the request that deletes.
        TransientError: If another object came back, or the deletion is not confirmed.
    """
    key, content = f"{layout.PROBE}{secrets.token_hex(8)}", secrets.token_bytes(32)
    store.put(key, content)
    if store.read(key) != content:
        raise TransientError(
            f"{store.root}{key} was written, and reading it gave something else",
            "The store, or a cache "
            "before it, does not show what was written: lakegc needs one that reads its own writes.",
        )
    (outcome,) = store.delete([key])
    if outcome.outcome not in ("deleted", "already_gone"):
        what = f"{store.root}{key} was written and read, and cannot be deleted again:"
        kind: type[LakegcError] = PermissionDeniedError if outcome.outcome == "refused" else TransientError
        raise _not_taken(store, what, outcome) or kind(
            f"{store.root}{key} was written and read, and the store does not delete it ({outcome.error}); nothing of the "
            f"repository's was touched. Allow {store.delete_permission} on {store.root}_lakefs/retention/gc/."
        )
