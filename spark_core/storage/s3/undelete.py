"""Deleted objects of a bucket with versions: found among the versions, brought back by removing a marker or copying a version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from spark_core.errors import IncompleteReadError, NotFoundError, PermissionDeniedError
from spark_core.storage.contract import ObjectInfo
from spark_core.storage.copies import Sight
from spark_core.storage.s3.copies import Bucket
from spark_core.storage.s3.pages import checksum_of
from spark_core.storage.undo import BringBack, Lost, chosen

T = TypeVar("T")

# The id of what is written while versions are suspended: the next object written gets the same one.
_NO_VERSION = "null"
_MOST_PAGES = 1_000


@dataclass(frozen=True)
class _Marker:
    version_id: str
    last_modified: datetime


def find_deleted(bucket: Bucket, lost: Lost) -> BringBack:
    """Find the version that a deletion has hidden.

    Args:
        bucket: Where, and how to ask.
        lost: The object.

    Raises:
        NotFoundError: If the bucket keeps no version, or only others.
    """
    versions, markers = _kept(bucket, lost.key)
    infos = {
        entry["VersionId"]: ObjectInfo(lost.key, entry["Size"], entry["LastModified"], checksum_of(entry.get("ETag")))
        for entry in versions
    }
    # A tag is an MD5 only on objects that are not encrypted with keys of their own, which a listing does not tell.
    wanted = replace(lost, checksum=None)
    found = chosen(wanted, infos.values())
    if found is None:
        raise NotFoundError(
            f"bucket {bucket.name} keeps {len(versions) or 'no'} version{'' if len(versions) == 1 else 's'} of it"
            f"{', none of this size and time' if versions else ''}. Bucket versioning, or quarantine, must be on before a sweep."
        )
    version_id = next(name for name, info in infos.items() if info is found)
    entry = next(entry for entry in versions if entry["VersionId"] == version_id)
    above = [marker for marker in markers if marker.last_modified >= entry["LastModified"]]

    def copy_version() -> None:
        source = Sight(lost.key, entry["Size"], str(entry.get("ETag", "")))
        bucket.transfer(source, lost.key, version=version_id)

    def remove_markers() -> None:
        try:
            for marker in above:
                _remove(bucket, lost.key, marker)
        except PermissionDeniedError:
            # s3:DeleteObjectVersion is a right that few have; a copy of the version needs only to read and write.
            copy_version()

    newest = entry is versions[0] and bool(above)
    # By the id of nobody's version an object that was written meanwhile would be deleted for good.
    removable = newest and all(marker.version_id != _NO_VERSION for marker in above)
    return remove_markers if removable else copy_version


def _kept(bucket: Bucket, key: str) -> tuple[list[Mapping[str, Any]], list[_Marker]]:
    """Return the versions and the delete markers of a key, each newest first."""
    name = bucket.before + key
    versions: list[Mapping[str, Any]] = []
    markers: list[_Marker] = []
    for answer in _pages(bucket, key):
        found = answer.get("Versions", [])
        hidden = answer.get("DeleteMarkers", [])
        versions += [entry for entry in found if entry["Key"] == name]
        markers += [_Marker(entry["VersionId"], entry["LastModified"]) for entry in hidden if entry["Key"] == name]
        # Names come in order, so beyond another one there is no more of this.
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
        f"the versions of {bucket.root}{key} do not come to an end ({_MOST_PAGES} pages came), so the one that was deleted "
        "cannot be told",
        "Bring it back with the store's own tools.",
    )


def _question(bucket: Bucket, asked: Mapping[str, str]) -> Callable[[], Any]:
    return lambda: bucket.boto.list_object_versions(**asked)


def _remove(bucket: Bucket, key: str, marker: _Marker) -> None:
    where = {"Bucket": bucket.name, "Key": bucket.before + key, "VersionId": marker.version_id}
    bucket.ask("undelete", key, lambda: bucket.boto.delete_object(**where))
