"""Small JSON documents that carry the digest of themselves: what was edited or damaged no longer opens.

Each kind of document says its format, and its module names two things: the
format that is written (`LEASE_FORMAT`) and those that are read
(`LEASE_FORMATS`). Whatever a release has written stays among the second, for
ever, and a field that a later format adds has a default that says what its
absence meant: an update must neither block a namespace by the lease that the
last run left, nor end a hold. A format from the future is refused by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from spark_core.errors import OF_A_RUN, CorruptTableError, VerdictError

_DIGEST = "sha256"


def seal(document: Mapping[str, Any]) -> bytes:
    """Write a document with its digest; equal documents give equal bytes.

    Args:
        document: JSON values only, without a key `sha256`.
    """
    return _bytes({**document, _DIGEST: digest(document)})


def digest(document: Mapping[str, Any]) -> str:
    """Return the hex digest of a document, by which others name it."""
    return hashlib.sha256(_bytes(document)).hexdigest()


def unseal(data: bytes, *, name: str, formats: int | Sequence[int], next_step: str = OF_A_RUN) -> dict[str, Any]:
    """Read a document back, if it is byte for byte what was written.

    The digest is no signature: who can write to the store can also seal a
    document anew. It finds accidents and editors; what a document says is
    compared with other things besides.

    Args:
        data: The bytes as stored.
        name: Key, for the message.
        formats: The format that is read, under the key `format`, or several.
        next_step: What to do about a damaged one.

    Returns:
        The document without its digest, `format` included.

    Raises:
        VerdictError: If it was written in another format, by a later lakegc or one that was never released.
        CorruptTableError: If a byte of it is another than was written.
    """
    known = [formats] if isinstance(formats, int) else list(formats)
    try:
        document = json.loads(data)
        written = document["format"]
    except (ValueError, KeyError, TypeError) as problem:
        raise CorruptTableError(name, None, f"not a sealed document of lakegc ({problem!r})", next_step) from problem
    sealed = document.pop(_DIGEST, None)
    if sealed is None or sealed != digest(document) or data != _bytes({**document, _DIGEST: sealed}):
        if sealed is None and written not in known:
            raise _other_format(name, written, known)
        raise CorruptTableError(
            name,
            None,
            f"its bytes are not those that were written (digest {digest(document)[:12]}, it says {str(sealed)[:12]}): it "
            "was edited or damaged",
            next_step,
        )
    if written not in known:
        raise _other_format(name, written, known)
    return dict(document)


def _other_format(name: str, written: object, known: Sequence[int]) -> VerdictError:
    read = " and ".join(str(each) for each in known)
    return VerdictError(
        f"{name} was written in format {written!r} by another version of lakegc, this one reads format {read}",
        "Mark again under a new run key (`lakegc mark`).",
    )


def _bytes(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode()
