"""Ask S3 whether it would delete, if possible without leaving even a delete marker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from spark_core.storage.outcomes import DeleteOutcome
from spark_core.storage.s3.errors import CLIENT_ERRORS, deletion_answer, failure_of

# Sends a bulk deletion.
Send = Callable[[Mapping[str, Any]], Mapping[str, Any]]

# The answer for a name that no object has, if the store knows the condition.
_NOT_THERE = {"NoSuchKey", "NotFound", "PreconditionFailed", "404", "412"}


def probe_delete(send: Send, name: str, key: str) -> DeleteOutcome:
    """Ask to delete a name that no object has, by the request that a sweep sends.

    The first request has the condition that the object exists. S3 answers a condition that cannot
    hold only after it has checked the permission, and then does nothing. Stores that do not know
    the condition delete nothing either, but on a versioned bucket they leave a delete marker. It is
    deleted by the version that the answer names. If the condition itself is refused, the request
    without it decides.

    Args:
        send: Sends one bulk deletion.
        name: The name in the bucket.
        key: The same, relative to the namespace.

    Returns:
        `already_gone` if it is allowed, else `refused` or `failed`, and why.

    References:
        Amazon S3 user guide, "How to perform conditional deletes" (`ETag` of an object, `*`:
        September 2025).
    """
    conditional = _asked(send, {"Key": name, "ETag": "*"}, key)
    return (
        conditional if conditional.outcome == "already_gone" else _asked(send, {"Key": name}, key)
    )


def _asked(send: Send, which: Mapping[str, str], key: str) -> DeleteOutcome:
    name = which["Key"]
    try:
        answer = send({"Objects": [which], "Quiet": False})
    except CLIENT_ERRORS as error:
        failure = failure_of(error)
        return DeleteOutcome(key, "refused" if failure.refuses else "failed", str(failure))
    deleted, errors = (
        [entry for entry in answer.get(kind, []) if entry.get("Key") == name]
        for kind in ("Deleted", "Errors")
    )
    for entry in deleted:
        _take_away(send, name, entry.get("DeleteMarkerVersionId"))
    for entry in errors:
        code = str(entry.get("Code"))
        if code not in _NOT_THERE:
            return DeleteOutcome(key, deletion_answer(code).outcome, code)
    if not errors and not deleted:
        return DeleteOutcome(key, "failed", "the store's answer does not mention the key")
    return DeleteOutcome(key, "already_gone")


def _take_away(send: Send, name: str, marker: str | None) -> None:
    """Remove the delete marker that the probe left, by its version."""
    if marker is None or marker == "null":
        return
    # Without s3:DeleteObjectVersion it stays: a marker without an object, which a lifecycle rule
    # deletes and no listing shows.
    with suppress(*CLIENT_ERRORS):
        send({"Objects": [{"Key": name, "VersionId": marker}], "Quiet": True})
