"""Ask S3 whether it would delete, without leaving so much as a delete marker where that can be avoided."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from botocore.exceptions import ClientError

from spark_core.storage.contract import DeleteOutcome
from spark_core.storage.s3.errors import CLIENT_ERRORS, deletion_answer, failure_of

_NOT_THERE = {"NoSuchKey", "NotFound", "PreconditionFailed", "404", "412"}
# What stores say to a condition that they do not know.
_UNKNOWN_CONDITION = {"NotImplemented", "InvalidArgument", "InvalidRequest", "MalformedXML", "400", "501"}


def probe_delete(boto: Any, bucket: str, name: str, key: str) -> DeleteOutcome:
    """Ask to delete a name that nobody has, first on the condition that there is such an object.

    S3 answers a condition that cannot hold only after it has looked at the
    permission, and then does nothing. Stores that do not know the condition
    delete nothing either, but on a versioned bucket they leave a delete marker:
    it is taken away by the version that the answer names.

    Args:
        boto: The client.
        bucket: Its name.
        name: The name in the bucket.
        key: The same, relative to the namespace.

    Returns:
        `already_gone` if it is allowed, else `refused` or `failed`, and why.

    References:
        Amazon S3 user guide, "How to perform conditional deletes" (`If-Match: *`, September 2025).
    """
    try:
        answer = boto.delete_object(Bucket=bucket, Key=name, IfMatch="*")
    except ClientError as error:
        failure = failure_of(error)
        if failure.code in _NOT_THERE:
            return DeleteOutcome(key, "already_gone")
        if failure.code in _UNKNOWN_CONDITION:
            return _probe_unconditionally(boto, bucket, name, key)
        return _no(key, error)
    except CLIENT_ERRORS as error:
        return _no(key, error)
    _take_away(boto, bucket, name, answer.get("VersionId") if answer.get("DeleteMarker") else None)
    return DeleteOutcome(key, "already_gone")


def _probe_unconditionally(boto: Any, bucket: str, name: str, key: str) -> DeleteOutcome:
    try:
        answer = boto.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name}], "Quiet": False})
    except CLIENT_ERRORS as error:
        return _no(key, error)
    for entry in answer.get("Errors", []):
        code = str(entry.get("Code"))
        if code not in _NOT_THERE:
            return DeleteOutcome(key, deletion_answer(code).outcome, code)
    for entry in answer.get("Deleted", []):
        _take_away(boto, bucket, name, entry.get("DeleteMarkerVersionId"))
    if not answer.get("Errors") and not answer.get("Deleted"):
        return DeleteOutcome(key, "failed", "the store's answer does not mention the key")
    return DeleteOutcome(key, "already_gone")


def _no(key: str, error: Exception) -> DeleteOutcome:
    failure = failure_of(error)
    return DeleteOutcome(key, "refused" if failure.refuses else "failed", str(failure))


def _take_away(boto: Any, bucket: str, name: str, marker: str | None) -> None:
    """Remove the delete marker that the probe left, by its version."""
    if marker is None or marker == "null":
        return
    # Without s3:DeleteObjectVersion it stays: a marker without an object, which a lifecycle rule takes and no listing shows.
    with suppress(*CLIENT_ERRORS):
        boto.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name, "VersionId": marker}], "Quiet": True})
