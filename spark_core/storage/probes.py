"""Questions about a store that are answered by trying.

The trials use objects that lakegc itself makes, or names that no object has.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from spark_core import lakegc_keys
from spark_core.clocks import ClockReading
from spark_core.errors import (
    LakegcError,
    ObjectExistsError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
)
from spark_core.storage.contract import ObjectStore
from spark_core.storage.outcomes import DeleteOutcome

# How stores report that they refuse the requester, whatever its permissions.
_UNKNOWN = re.compile(r"\b401\b|Expired|Invalid|Signature|Unauthenticated|Authentication")

# How stores report that they do not take the request, whatever it is about and whenever it comes.
_NOT_TAKEN = re.compile(r"\bHTTP (400(?! RequestTimeout)|405|411|415|501)\b|\bNotImplemented\b")


def read_clock(store: ObjectStore) -> ClockReading | None:
    """Read the store's clock off an object that is written for it, always the same one.

    Ages of objects compare the store's time with this machine's, so a skew makes young objects look
    old. The skew is against this machine's own clock, whatever clock a run is given.

    Returns:
        None if the store took so long that its answer says nothing.

    Raises:
        PermissionDeniedError: If lakegc's own folder cannot be written or read.
    """
    sent = datetime.now(UTC)
    store.put(lakegc_keys.CLOCK, b"lakegc reads the store's clock off this object's date\n")
    shown = store.head(lakegc_keys.CLOCK).last_modified
    return ClockReading.of(shown, sent=sent, received=datetime.now(UTC))


def unused_name() -> str:
    """Make a name below data/ that no object has and no server gives: no lakeFS slice begins so."""
    return f"data/lakegc-probe-{secrets.token_hex(8)}/{secrets.token_hex(8)}"


def require_deletable(store: ObjectStore) -> None:
    """Refuse if the store would refuse to delete; no object is touched.

    This is asked before a sweep. Otherwise a missing permission would show object by object.

    Raises:
        PermissionDeniedError: If the credentials may not delete under data/.
        SettingsError: If the store does not take the request that a sweep deletes with.
        TransientError: If the store does not answer, or its answer is not conclusive.
    """
    outcome = store.probe_delete(unused_name())
    if outcome.is_gone:
        return
    what = f"{store.root}: deleting under data/ was tried on a name that no object has, and"
    if outcome.outcome == "refused":
        who = (
            "it does not take these credentials (any more)"
            if _UNKNOWN.search(outcome.error or "")
            else "these credentials may list but not delete"
        )
        raise PermissionDeniedError(
            f"{what} the store refuses ({outcome.error}): {who}",
            f"Allow {store.delete_permission} for them on {store.root}data/, and look at whether "
            "they have expired "
            "(a mark needs no such permission).",
        )
    raise _not_taken(store, what, outcome) or TransientError(
        f"{what} the store did not say whether it is allowed ({outcome.error})",
        "Look at the endpoint and the network, and run again.",
    )


def _not_taken(store: ObjectStore, what: str, outcome: DeleteOutcome) -> SettingsError | None:
    """Return the error of a store that takes no such request; None if only this one failed."""
    if outcome.outcome != "failed" or not _NOT_TAKEN.search(outcome.error or ""):
        return None
    return SettingsError(
        f"{what} the store does not take the request that deletes ({outcome.error}); it would "
        "not for any object",
        "Look at the endpoint, at the store's version and at what stands before it: a sweep "
        f"needs {store.delete_request}.",
    )


def honours_conditional_put(store: ObjectStore, key: str) -> bool:
    """Prove whether the store keeps the condition of a put: of two equal ones the second must fail.

    A store that ignores the condition answers 200 to both. Then two collectors would both believe
    that they hold a lease (safety 33).

    Args:
        store: Rooted at the namespace.
        key: A key below `lakegc_keys.PROBE`, new for each probe. Its object is deleted again.

    Returns:
        Whether the second writer was refused and the first one's content is still there.

    Raises:
        PermissionDeniedError: If lakegc's own folder cannot be written or read.
        SettingsError: If the store does not take the request that deletes.
        TransientError: If the store does not answer, or does not delete the probe again.
    """
    mine, later = secrets.token_bytes(32), secrets.token_bytes(32)
    try:
        store.put_if_absent(key, mine)
    except ObjectExistsError:
        # Another writer's object, unless the client sent the request twice: then it is ours.
        if store.read(key) != mine:
            return True
    try:
        store.put_if_absent(key, later)
    except ObjectExistsError:
        kept = store.read(key) == mine
    else:
        kept = False
    (outcome,) = store.delete([key])
    if not outcome.is_gone:
        what = f"{store.root}{key}, a probe of lakegc's own, cannot be taken away again:"
        raise _not_taken(store, what, outcome) or TransientError(
            f"{store.root}{key}, a probe of lakegc's own, cannot be taken away again "
            f"({outcome.error}); no object of the "
            f"repository was touched. Allow {store.delete_permission} on "
            f"{store.root}_lakefs/retention/gc/ and delete it."
        )
    return kept


def write_read_delete(store: ObjectStore) -> None:
    """Write an object of lakegc's own, read it back and delete it again.

    Raises:
        PermissionDeniedError: If the store refuses one of the three; the text names which.
        SettingsError: If the store does not take the request that deletes.
        TransientError: If another object came back, or the deletion is not confirmed.
    """
    key, content = f"{lakegc_keys.PROBE}{secrets.token_hex(8)}", secrets.token_bytes(32)
    store.put(key, content)
    if store.read(key) != content:
        raise TransientError(
            f"{store.root}{key} was written, and reading it gave something else",
            "The store, or a cache "
            "before it, does not show what was written: lakegc needs one that reads its own "
            "writes.",
        )
    (outcome,) = store.delete([key])
    if not outcome.is_gone:
        what = f"{store.root}{key} was written and read, and cannot be deleted again:"
        kind: type[LakegcError] = (
            PermissionDeniedError if outcome.outcome == "refused" else TransientError
        )
        raise _not_taken(store, what, outcome) or kind(
            f"{store.root}{key} was written and read, and the store does not delete it "
            f"({outcome.error}); no object of the "
            f"repository was touched. Allow {store.delete_permission} on "
            f"{store.root}_lakefs/retention/gc/."
        )
