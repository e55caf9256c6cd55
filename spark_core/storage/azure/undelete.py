"""Deleted blobs of an account with soft delete or versions.

A listing of hidden blobs finds them. They are undeleted, or copied from a version.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spark_core.errors import NotFoundError
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.azure.copies import Container
from spark_core.storage.listing_pages import md5_in_hex
from spark_core.storage.objects import Description, ObjectInfo
from spark_core.storage.undelete import BringBack, Lost, choose_version

_PAGE_BLOBS = 100


def find_deleted(copies: Container, lost: Lost) -> BringBack:
    """Find what the account keeps of a deleted blob.

    Args:
        copies: The container, and how to ask.
        lost: The blob.

    Raises:
        NotFoundError: If it keeps nothing of the blob, or only other ones.
    """
    hidden = copies.ask("versions", lost.key, lambda: _hidden(copies, lost.key))
    blob = copies.client.get_blob_client(copies.before + lost.key)

    def undelete() -> None:
        # If somebody has written a blob meanwhile, the service leaves that as it is.
        copies.ask("undelete", lost.key, blob.undelete_blob)

    softly = {
        str(found.etag): _info(lost.key, found)
        for found in hidden
        if found.deleted and not found.version_id
    }
    # There is never more than one. So its time, which not every deletion keeps, need not tell it
    # from others.
    if choose_version(replace(lost, last_modified=None), softly) is not None:
        return undelete
    versions = {found.version_id: found for found in hidden if found.version_id}
    version_id = choose_version(
        lost, {name: _info(lost.key, versions[name]) for name in sorted(versions, reverse=True)}
    )
    if version_id is None:
        raise _keeps_nothing(len(hidden))
    version = versions[version_id]

    def copy_version() -> None:
        if version.deleted:
            undelete()
        copies.transfer(
            Description(lost.key, version.size, str(version.etag)), lost.key, version=version_id
        )

    return copy_version


def after_deletion(policy: Any, version: Any) -> AfterDeletion:
    """Say whether the account keeps deleted blobs.

    Args:
        policy: Its soft delete; None if it does not say.
        version: Version of a blob that was just written, if it has one.
    """
    if policy is None:
        return AfterDeletion(None, "the account does not say whether it has soft delete")
    if policy.enabled or version:
        return AfterDeletion(
            True,
            f"the account has {'soft delete' if policy.enabled else 'versions'}, which keeps "
            "deleted blobs",
        )
    return AfterDeletion(False, "soft delete and versions of the account are off")


def undelete_hint(policy: Any, version: Any) -> str | None:
    """Say how deleted blobs come back; None if they do not, or nobody knows.

    Args:
        policy: As for `after_deletion`; None also if nobody knows.
        version: Likewise.
    """
    found: list[str] = []
    if policy is not None and policy.enabled:
        found.append(
            f"has soft delete, so that for {policy.days} days a deleted blob can be undeleted"
        )
    if version:
        found.append(
            "keeps versions, so that a deleted blob stays as a previous version until a rule ends "
            "it"
        )
    if not found:
        return None
    return f"The account {' and '.join(found)}; what is kept takes up its space."


def _keeps_nothing(hidden: int) -> NotFoundError:
    """Make the error for a blob of which nothing can be brought back.

    Args:
        hidden: How many deleted blobs and versions of that name the account keeps.
    """
    kept = f"{hidden} deleted blobs or versions" if hidden else "no deleted blob and no version"
    return NotFoundError(
        f"the account keeps {kept} of it"
        f"{', none of this size and time' if hidden else ''}. Soft delete for blobs, or "
        "quarantine, must be on before a sweep; "
        "accounts with a hierarchical namespace bring paths back with Azure's own tools."
    )


def _hidden(copies: Container, key: str) -> list[Any]:
    name = copies.before + key
    found = []
    listing = copies.client.list_blobs(
        name_starts_with=name, include=["deleted", "versions"], results_per_page=_PAGE_BLOBS
    )
    for blob in listing:
        # Names come in order, the shortest first.
        if blob.name != name:
            break
        if not blob.snapshot:
            found.append(blob)
    return found


def _info(key: str, found: Any) -> ObjectInfo:
    return ObjectInfo(
        key, found.size, found.last_modified, md5_in_hex(found.content_settings.content_md5)
    )
