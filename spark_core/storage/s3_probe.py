"""Ask S3 whether it would delete, without leaving so much as a delete marker where that can be avoided."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from botocore.exceptions import ClientError

from spark_core.storage.s3_errors import CLIENT_ERRORS, failure_of

_NOT_THERE = {"NoSuchKey", "NotFound", "PreconditionFailed", "404", "412"}
# What stores say to a condition that they do not know.
_UNKNOWN_CONDITION = {"NotImplemented", "InvalidArgument", "InvalidRequest", "MalformedXML", "400", "501"}


def probe_delete(boto: Any, bucket: str, name: str) -> str | None:
    """Ask to delete a name that nobody has, first on the condition that there is such an object.

    S3 answers a condition that cannot hold only after it has looked at the
    permission, and then does nothing. Stores that do not know the condition
    delete nothing either, but on a versioned bucket they leave a delete marker:
    it is taken away by the version that the answer names.

    Returns:
        Why it is refused or cannot be told; None if it is allowed.

    References:
        Amazon S3 user guide, "How to perform conditional deletes" (`If-Match: *`, September 2025).
    """
    try:
        answer = boto.delete_object(Bucket=bucket, Key=name, IfMatch="*")
    except ClientError as error:
        failure = failure_of(error)
        if failure.code in _NOT_THERE:
            return None
        if failure.code in _UNKNOWN_CONDITION:
            return _probe_unconditionally(boto, bucket, name)
        return str(failure)
    except CLIENT_ERRORS as error:
        return str(failure_of(error))
    _take_away(boto, bucket, name, answer.get("VersionId") if answer.get("DeleteMarker") else None)
    return None


def _probe_unconditionally(boto: Any, bucket: str, name: str) -> str | None:
    try:
        answer = boto.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name}], "Quiet": False})
    except CLIENT_ERRORS as error:
        return str(failure_of(error))
    for entry in answer.get("Errors", []):
        if entry.get("Code") not in _NOT_THERE:
            return str(entry.get("Code"))
    for entry in answer.get("Deleted", []):
        _take_away(boto, bucket, name, entry.get("DeleteMarkerVersionId"))
    if not answer.get("Errors") and not answer.get("Deleted"):
        return "the store's answer does not mention the key"
    return None


def _take_away(boto: Any, bucket: str, name: str, marker: str | None) -> None:
    """Remove the delete marker that the probe left, by its version."""
    if marker is None or marker == "null":
        return
    # Without s3:DeleteObjectVersion it stays: a marker without an object, which a lifecycle rule takes and no listing shows.
    with suppress(*CLIENT_ERRORS):
        boto.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name, "VersionId": marker}], "Quiet": True})
