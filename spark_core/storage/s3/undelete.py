"""Deleted objects of a bucket with versions.

They are found among the versions. Removing a marker or copying a version brings them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from spark_core.errors import IncompleteReadError, NotFoundError, PermissionDeniedError
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.objects import Description, ObjectInfo
from spark_core.storage.s3.copies import Bucket
from spark_core.storage.s3.errors import CLIENT_ERRORS
from spark_core.storage.s3.listing_pages import checksum_of
from spark_core.storage.undelete import BringBack, Lost, choose_version

T = TypeVar("T")

# The id of an object written while versions are suspended. The next object written gets the same
# one.
_NO_VERSION = "null"
_MOST_PAGES = 1_000


@dataclass(frozen=True)
class _Marker:
    version_id: str
    last_modified: datetime


def find_deleted(bucket: Bucket, lost: Lost) -> BringBack:
    """Find the version that a deletion has hidden.

    Args:
        bucket: The bucket, and how to ask.
        lost: The object.

    Raises:
        NotFoundError: If the bucket keeps no version, or only others.
    """
    versions, markers = _versions_and_markers(bucket, lost.key)
    infos = {
        entry["VersionId"]: ObjectInfo(
            lost.key, entry["Size"], entry["LastModified"], checksum_of(entry.get("ETag"))
        )
        for entry in versions
    }
    # A tag is an MD5 only for objects without encryption keys of their own, which a listing does
    # not show.
    version_id = choose_version(replace(lost, checksum=None), infos)
    if version_id is None:
        raise NotFoundError(
            f"bucket {bucket.name} keeps {len(versions) or 'no'} "
            f"version{'' if len(versions) == 1 else 's'} of it"
            f"{', none of this size and time' if versions else ''}. Bucket versioning, or "
            "quarantine, must be on before a sweep."
        )
    entry = next(entry for entry in versions if entry["VersionId"] == version_id)
    above = [marker for marker in markers if marker.last_modified >= entry["LastModified"]]

    def copy_version() -> None:
        source = Description(lost.key, entry["Size"], str(entry.get("ETag", "")))
        bucket.transfer(source, lost.key, version=version_id)

    def remove_markers() -> None:
        try:
            for marker in above:
                _remove(bucket, lost.key, marker)
        except PermissionDeniedError:
            # s3:DeleteObjectVersion is a right that few have. A copy of the version needs only
            # reading and writing.
            copy_version()

    newest = entry is versions[0] and bool(above)
    # By the id `_NO_VERSION`, an object that was written meanwhile would be deleted for good.
    removable = newest and all(marker.version_id != _NO_VERSION for marker in above)
    return remove_markers if removable else copy_version


def _versions_and_markers(
    bucket: Bucket, key: str
) -> tuple[list[Mapping[str, Any]], list[_Marker]]:
    """Return the versions and the delete markers of a key, each newest first."""
    name = bucket.before + key
    versions: list[Mapping[str, Any]] = []
    markers: list[_Marker] = []
    for answer in _pages(bucket, key):
        found = answer.get("Versions", [])
        hidden = answer.get("DeleteMarkers", [])
        versions += [entry for entry in found if entry["Key"] == name]
        markers += [
            _Marker(entry["VersionId"], entry["LastModified"])
            for entry in hidden
            if entry["Key"] == name
        ]
        # Names come in order, so after another name no more of this one follow.
        if any(entry["Key"] != name for entry in (*found, *hidden)):
            break
    versions.sort(key=lambda entry: entry["LastModified"], reverse=True)
    return versions, markers


def _pages(bucket: Bucket, key: str) -> Iterator[Mapping[str, Any]]:
    asked = {"Bucket": bucket.name, "Prefix": bucket.before + key}
    for _ in range(_MOST_PAGES):
        answer = bucket.ask("versions", key, _question(bucket, dict(asked)))
        yield answer
        if not answer.get("IsTruncated"):
            return
        asked["KeyMarker"] = answer.get("NextKeyMarker", "")
        if answer.get("NextVersionIdMarker"):
            asked["VersionIdMarker"] = answer["NextVersionIdMarker"]
    raise IncompleteReadError(
        f"the versions of {bucket.root}{key} do not come to an end ({_MOST_PAGES} pages came), so "
        "it is unknown which one was deleted",
        "Bring it back with the store's own tools.",
    )


def _question(bucket: Bucket, asked: Mapping[str, str]) -> Callable[[], Any]:
    return lambda: bucket.boto.list_object_versions(**asked)


def _remove(bucket: Bucket, key: str, marker: _Marker) -> None:
    where = {"Bucket": bucket.name, "Key": bucket.before + key, "VersionId": marker.version_id}
    bucket.ask("undelete", key, lambda: bucket.boto.delete_object(**where))


def undelete_hint(boto: Any, bucket: str) -> str | None:
    """Say whether a deletion is a marker here, and how long the versions under it stay.

    Args:
        boto: The bucket's client.
        bucket: Its name.

    Returns:
        A sentence for people; None if the bucket keeps no versions or does not say.

    References:
        Amazon S3 user guide, "Working with delete markers".
    """
    try:
        status = boto.get_bucket_versioning(Bucket=bucket).get("Status")
    except CLIENT_ERRORS:
        # Without s3:GetBucketVersioning, or where the store does not know the call, nobody can
        # tell.
        return None
    if status == "Enabled":
        return (
            f"Bucket {bucket} keeps versions: a deleted object comes back when its delete marker "
            f"is removed, and {_until(boto, bucket)}; "
            "until then it still takes its space."
        )
    if status == "Suspended":
        return (
            f"Bucket {bucket} kept versions once: an object written in that time comes back when "
            "its delete marker is removed, "
            "one written later is gone for good."
        )
    return None


def after_deletion(boto: Any, bucket: str) -> AfterDeletion:
    """Read whether a bucket keeps versions, or kept them once.

    Args:
        boto: The bucket's client.
        bucket: Its name.

    References:
        Amazon S3 API, GetBucketVersioning: a bucket that never had versions answers no status.
    """
    try:
        status = boto.get_bucket_versioning(Bucket=bucket).get("Status")
    except CLIENT_ERRORS as problem:
        return AfterDeletion(
            None,
            f"whether bucket {bucket} keeps versions could not be read ({type(problem).__name__}); "
            "allow s3:GetBucketVersioning",
        )
    if status in {"Enabled", "Suspended"}:
        return AfterDeletion(True, f"bucket {bucket} has versioning {status}, and keeps versions")
    if status is None:
        return AfterDeletion(False, f"versioning of bucket {bucket} is off and never was on")
    return AfterDeletion(None, f"bucket {bucket} answers versioning {status!r}, which is unknown")


def _until(boto: Any, bucket: str) -> str:
    unknown = "how long it can depends on the bucket's lifecycle rules"
    try:
        rules = boto.get_bucket_lifecycle_configuration(Bucket=bucket).get("Rules", [])
    except CLIENT_ERRORS:
        return unknown
    days = [
        rule["NoncurrentVersionExpiration"]["NoncurrentDays"]
        for rule in rules
        if rule.get("Status") == "Enabled"
        and "NoncurrentDays" in rule.get("NoncurrentVersionExpiration", {})
    ]
    return f"a lifecycle rule may end that {min(days)} days after the deletion" if days else unknown
