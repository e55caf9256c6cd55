"""Deleted objects of a bucket with versions or soft delete.

A listing of hidden objects finds them. They are rewritten or restored.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_core.errors import IncompleteReadError, NotFoundError, SettingsError
from spark_core.schemas import INSTANT
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.gcs.copies import Bucket
from spark_core.storage.gcs.listing_pages import KIND
from spark_core.storage.listing_pages import md5_in_hex
from spark_core.storage.objects import Description, ObjectInfo
from spark_core.storage.undelete import BringBack, Lost, choose_version

_FIELDS = "kind,nextPageToken,items(name,generation,size,updated,timeCreated,md5Hash)"
_MOST_PAGES = 100


def find_deleted(copies: Bucket, lost: Lost, name: str, objects_url: str) -> BringBack:
    """Find what the bucket keeps of a deleted object.

    Args:
        copies: The bucket, and how to ask.
        lost: The object.
        name: Its name in the bucket.
        objects_url: URL of the bucket's listing.

    Raises:
        NotFoundError: If it keeps nothing of the object, or only other ones.
    """
    versions = _hidden(copies, lost, name, objects_url, {"versions": "true"})
    generation = _generation(lost, versions)
    if generation is not None:
        # A noncurrent generation is copied like any other; the bytes stay where they are.
        source = Description(lost.key, lost.size_bytes, generation)
        return lambda: copies.transfer(source, lost.key)
    try:
        soft = _hidden(copies, lost, name, objects_url, {"softDeleted": "true"})
    except SettingsError:
        # Without the policy Google calls the request a bad one.
        soft = []
    generation = _generation(lost, soft)
    if generation is not None:
        params = {"generation": generation, "ifGenerationMatch": "0", "fields": "generation"}
        return lambda: _restore(copies, lost.key, params)
    kept = len(versions) + len(soft)
    raise NotFoundError(
        f"the bucket keeps {f'{kept} deleted generations' if kept else 'no deleted generation'} of "
        "it"
        f"{', none of this size and time' if kept else ''}. Soft delete, versioning or quarantine "
        "must be on before a sweep."
    )


def _restore(copies: Bucket, key: str, params: dict[str, str]) -> None:
    copies.ask("undelete", key, lambda: copies.send("POST", f"{copies.url(key)}/restore", params))


def _hidden(
    copies: Bucket, lost: Lost, name: str, url: str, which: dict[str, str]
) -> list[dict[str, Any]]:
    """List what is hidden under exactly this name."""
    asked = {"prefix": name, "fields": _FIELDS, **which}
    found: list[dict[str, Any]] = []
    for _ in range(_MOST_PAGES):
        answer = copies.ask("versions", lost.key, lambda: copies.send("GET", url, dict(asked)))
        if not isinstance(answer, dict) or answer.get("kind") != KIND:
            break
        items = answer.get("items", [])
        found += [item for item in items if item.get("name") == name]
        # Names come in order, the shortest first.
        if "nextPageToken" not in answer or any(item.get("name") != name for item in items):
            return found
        asked["pageToken"] = answer["nextPageToken"]
    raise IncompleteReadError(
        f"the generations of {copies.root}{lost.key} could not be listed to their end, so it is "
        "unknown which one was deleted",
        "Look at gcs_endpoint, or bring it back with gcloud.",
    )


def _generation(lost: Lost, hidden: list[dict[str, Any]]) -> str | None:
    """Choose a generation; both of its times count, as it is unknown which a deletion keeps."""
    by_generation = sorted(hidden, key=lambda item: int(item["generation"]), reverse=True)
    for time in ("updated", "timeCreated"):
        infos = {
            str(item["generation"]): _info(lost.key, item, time)
            for item in by_generation
            if item.get(time)
        }
        found = choose_version(lost, infos)
        if found is not None:
            return found
    return None


def _info(key: str, item: dict[str, Any], time: str) -> ObjectInfo:
    at = pa.array([item[time]], pa.string()).cast(INSTANT)[0].as_py()
    return ObjectInfo(key, int(item["size"]), at, md5_in_hex(item.get("md5Hash")))


def undelete_hint(answer: Any, root: str) -> str | None:
    """Say how deleted objects come back, from a bucket's description; None if they do not.

    Raises:
        IncompleteReadError: If it is no such description.
    """
    try:
        seconds = int(answer.get("softDeletePolicy", {}).get("retentionDurationSeconds", 0))
        versioned = bool(answer.get("versioning", {}).get("enabled"))
    except (AttributeError, TypeError, ValueError):
        raise IncompleteReadError(
            f"the bucket of {root} was described by something that is no answer of GCS",
            "Look at gcs_endpoint.",
        ) from None
    hints = []
    if seconds:
        hints.append(f"Soft delete: deleted objects can be restored for {seconds / 86_400:g} days.")
    if versioned:
        hints.append(
            "Versioning: deleted objects stay as noncurrent versions until a lifecycle rule "
            "removes them."
        )
    return " ".join([*hints, "Until then they are paid for."]) if hints else None


def after_deletion(answer: Any, root: str) -> AfterDeletion:
    """Say whether a bucket keeps deleted objects, from its description; see `undelete_hint`."""
    hint = undelete_hint(answer, root)
    if hint is not None:
        return AfterDeletion(True, hint)
    if "softDeletePolicy" not in answer:
        return AfterDeletion(None, f"the bucket of {root} does not show its soft delete")
    return AfterDeletion(False, f"soft delete and versioning of the bucket of {root} are off")
