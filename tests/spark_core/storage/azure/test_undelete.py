"""Deleted blobs of Azure: the emulator keeps none, so the service's answers are scripted."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.undelete import Lost, brought_back
from tests.support.azure_faults import error
from tests.support.azurite import ACCOUNT_KEY
from tests.support.scripted_s3 import Answer, scripted_s3

WRITTEN = datetime(2026, 11, 20, 2, tzinfo=UTC)
LOST = Lost("data/s/a", 7, WRITTEN)
NAME = "a/ns/data/s/a"


def date(at):
    return format_datetime(at, usegmt=True)


def blob(name=NAME, size=7, at=WRITTEN, *, deleted=True, version=None, snapshot=None, content=None):
    """One entry of a listing that shows what is hidden."""
    md5 = ""
    if content is not None:
        digest = base64.b64encode(hashlib.md5(content).digest()).decode()
        md5 = f"<Content-MD5>{digest}</Content-MD5>"
    return (
        f"<Blob><Name>{name}</Name>"
        + (f"<Snapshot>{snapshot}</Snapshot>" if snapshot else "")
        + (f"<VersionId>{version}</VersionId>" if version else "")
        + ("<Deleted>true</Deleted>" if deleted else "")
        + f"<Properties><Last-Modified>{date(at)}</Last-Modified><Etag>0x8D{size}</Etag>"
        f"<Content-Length>{size}</Content-Length>{md5}<BlobType>BlockBlob</BlobType></Properties></Blob>"
    )


class Account:
    """An account with soft delete, as far as one blob needs it.

    `changes` are answers by the word in the request.
    """

    def __init__(self, *hidden, **changes):
        self.hidden, self.changes, self.asked, self.live = hidden, changes, [], False

    def __call__(self, request):
        self.asked.append(request)
        what = request.query.get(
            "comp", "copy" if "x-ms-copy-source" in request.headers else request.method
        )
        if what in self.changes:
            return self.changes[what]
        if what == "list":
            blobs = "".join(self.hidden)
            body = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>"
            return Answer(
                200, f'<?xml version="1.0"?>{body}'.encode(), {"Content-Type": "application/xml"}
            )
        if what in ("undelete", "copy"):
            self.live = (
                self.live or what == "copy" or not any("<VersionId>" in one for one in self.hidden)
            )
            return Answer(
                202 if what == "copy" else 200,
                b"",
                {"x-ms-copy-status": "success", "x-ms-copy-id": "1"},
            )
        if not self.live:
            return error(404, "BlobNotFound")
        told = {
            "Content-Length": "7",
            "Last-Modified": date(WRITTEN),
            "ETag": '"0x8D7"',
            "x-ms-blob-type": "BlockBlob",
        }
        return Answer(200, b"content", told)

    def sent(self, word):
        return [
            one
            for one in self.asked
            if word in one.target or word in {name.lower() for name in one.headers}
        ]


KEY = {"azure_account_key": ACCOUNT_KEY}


def undelete(account, lost=LOST, credential=KEY, *, dry_run=False):
    with scripted_s3(account) as endpoint:
        options = StoreOptions(
            azure_endpoint=f"{endpoint}/acc", allow_http=True, max_retries=0, **credential
        )
        store = open_store(Namespace.parse("https://acc.blob.core.windows.net/box/a/ns"), options)
        return brought_back(store, lost, partial(store.find_deleted, lost), dry_run=dry_run)


def test_a_soft_deleted_blob_is_undeleted():
    account = Account(blob(snapshot="2026-11-01T00:00:00.0000000Z"), blob(), blob(f"{NAME}b"))
    assert undelete(account, dry_run=True).outcome == "restorable"
    assert account.sent("comp=undelete") == []
    assert undelete(account).outcome == "restored"
    (request,) = account.sent("comp=undelete")
    assert request.path == f"/acc/box/{NAME}"
    assert undelete(account).outcome == "already_there"


def test_the_version_that_was_deleted_is_copied_to_its_place_and_only_where_nothing_is():
    older, wanted = "2026-11-01T00:00:00.0000000Z", "2026-11-20T02:00:00.0000000Z"
    account = Account(
        blob(deleted=False, version=older, at=WRITTEN - timedelta(days=19)),
        blob(deleted=False, version=wanted),
    )
    assert undelete(account).outcome == "restored"
    (request,) = account.sent("x-ms-copy-source")
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["x-ms-copy-source"].endswith(
        f"/acc/box/{NAME}?versionid={wanted.replace(':', '%3A')}"
    )
    assert headers["if-none-match"] == "*"
    assert account.sent("comp=undelete") == []


def test_a_signature_signs_the_source_of_a_copy_as_well_and_is_told_to_nobody():
    sas = {"azure_sas_token": "?sv=2024-01-01&sig=s3cr3t%2F"}
    account = Account(blob(deleted=False, version="v1"))
    assert undelete(account, credential=sas).outcome == "restored"
    (request,) = account.sent("x-ms-copy-source")
    source = {name.lower(): value for name, value in request.headers.items()}["x-ms-copy-source"]
    assert source.endswith(f"/acc/box/{NAME}?versionid=v1&sv=2024-01-01&sig=s3cr3t%2F")
    refused = undelete(
        Account(blob(deleted=False, version="v1"), copy=error(403, "AuthorizationFailure")),
        credential=sas,
    )
    assert refused.outcome == "failed"
    assert "s3cr3t" not in refused.error


def test_a_version_that_is_soft_deleted_itself_is_undeleted_before_it_is_copied():
    account = Account(blob(version="2026-11-20T02:00:00.0000000Z"))
    assert undelete(account).outcome == "restored"
    assert len(account.sent("comp=undelete")) == len(account.sent("x-ms-copy-source")) == 1


@pytest.mark.parametrize(
    ("hidden", "kept"),
    [
        ((), "no deleted blob and no version"),
        ((blob(size=8),), "none of this size and time"),
        ((blob(version="v", at=WRITTEN + timedelta(seconds=1)),), "none of this size and time"),
        ((blob(f"{NAME}b"),), "no deleted blob and no version"),
        ((blob(snapshot="s"),), "no deleted blob and no version"),
        ((blob(content=b"CONTENT"),), "none of this size and time"),
    ],
    ids=["none", "size", "time", "name", "snapshot", "content"],
)
def test_what_was_not_deleted_is_not_brought_back(hidden, kept):
    account = Account(*hidden)
    outcome = undelete(account, replace(LOST, checksum=hashlib.md5(b"content").hexdigest()))
    assert (outcome.outcome, kept in outcome.error) == ("not_restorable", True), outcome
    assert account.sent("comp=undelete") == account.sent("x-ms-copy-source") == []


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"list": error(403, "AuthorizationPermissionMismatch")}, "Storage Blob Data Reader"),
        (
            {"undelete": error(403, "AuthorizationPermissionMismatch")},
            "Storage Blob Data Contributor",
        ),
        ({"undelete": error(404, "BlobNotFound")}, "no such object"),
        ({"list": error(409, "FeatureNotSupportedForAccount")}, "FeatureNotSupportedForAccount"),
    ],
    ids=["listing", "undeleting", "vanished", "account"],
)
def test_what_the_account_does_not_do_is_told_as_a_failure(changes, cause):
    outcome = undelete(Account(blob(), **changes))
    assert (outcome.outcome, cause in outcome.error) == ("failed", True), outcome
