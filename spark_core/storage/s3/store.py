"""S3, and stores that speak like it: obstore reads and writes, boto3 lists and deletes.

boto3 lists because it names every key (see `pages`). It deletes because it gives an answer for each
key, where obstore gives one for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, BinaryIO

import obstore

from spark_core.addresses.namespace import Namespace
from spark_core.errors import IncompleteReadError, NotFoundError
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.endpoint_urls import bare_url
from spark_core.storage.failures import ClientWords, Explanation
from spark_core.storage.listing_pages import Listed, Page
from spark_core.storage.objects import Description, ObjectInfo
from spark_core.storage.options import StoreOptions
from spark_core.storage.outcomes import DeleteOutcome, Pace
from spark_core.storage.remote import OrderedRemoteStore, RemoteStore
from spark_core.storage.s3.clients import (
    S3Clients,
    bucket_region,
    check_options,
    open_clients,
    signed_link,
)
from spark_core.storage.s3.copies import Bucket, description_of
from spark_core.storage.s3.credentials import credentials_to_carry
from spark_core.storage.s3.deletion import send_bulk
from spark_core.storage.s3.errors import (
    CLIENT_ERRORS,
    explain,
    failure_of,
)
from spark_core.storage.s3.listing_pages import checksum_of, page_batch, page_prefixes
from spark_core.storage.s3.probe import probe_delete
from spark_core.storage.s3.undelete import after_deletion, find_deleted, undelete_hint
from spark_core.storage.undelete import BringBack, Lost

_CHUNK_BYTES = 8 << 20

_MOVED, _BAD_REQUEST = 301, 400


class Requests(RemoteStore[S3Clients]):
    """What is asked of a bucket of either kind."""

    kind = "S3"
    words = ClientWords(CLIENT_ERRORS, failure_of, explain)
    delete_permission = "s3:DeleteObject"
    delete_request = "DeleteObjects (POST ?delete); Content-MD5 and a CRC32 checksum go along"

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        check_options(options, namespace.root)
        super().__init__(namespace, options)

    def _forget(self) -> None:
        super()._forget()
        self._bucket_seen = False
        self._region: str | None = None
        # Set once an answer showed that the store takes keys for other ones: it might also
        # delete those.
        self._distrust: str | None = None

    def _carried(self) -> dict[str, Any]:
        return credentials_to_carry(self.options)

    def __getstate__(self) -> dict[str, Any]:
        """Take the region along, so that an executor need not ask for it again."""
        return {**super().__getstate__(), "region": self._region}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._region = state["region"]

    def _open(self) -> S3Clients:
        clients = open_clients(self.namespace.bucket, self.options, self._region)
        self._region = clients.region
        return clients

    def _explain(self, error: Exception, action: str) -> Explanation:
        failure = failure_of(error)
        if failure.status == _MOVED and not failure.region:
            # obstore drops the content of a redirect.
            failure = replace(
                failure, region=bucket_region(self._clients.boto, self.namespace.bucket)
            )
        return explain(error, failure, action)

    def _page(self, listed: Listed, token: str, *, deep: bool, after: str) -> Page:
        asked = {
            "Bucket": self.namespace.bucket,
            "Prefix": self._before + listed.prefix,
            "EncodingType": "url",
        }
        more = {
            "Delimiter": "" if deep else "/",
            "StartAfter": after and self._before + after,
            "ContinuationToken": token,
        }
        asked |= {name: value for name, value in more.items() if value}
        answer = self._ask(
            "list", "list", listed.prefix, lambda: self._clients.boto.list_objects_v2(**asked)
        )
        if "IsTruncated" not in answer:
            raise listed.no_listing()
        following = answer.get("NextContinuationToken")
        if following and not answer["IsTruncated"]:
            raise IncompleteReadError(
                f"the listing of {self.root}{listed.prefix} says that it ends and where it goes "
                "on; "
                "it cannot be known to be whole",
                "The store does not list as S3 does.",
            )
        prefixes = page_prefixes(answer, listed)
        return Page(
            page_batch(answer, listed),
            prefixes,
            (following or "") if answer["IsTruncated"] else None,
        )

    def head(self, key: str) -> ObjectInfo:
        """Describe one object; ask the bucket for what the answer, having no body, cannot say."""
        name = self._name(key)

        def described() -> Any:
            try:
                return obstore.head(self._clients.objects, name)
            except CLIENT_ERRORS as error:
                if isinstance(error, FileNotFoundError):
                    self._confirm_bucket()
                elif failure_of(error).status == _BAD_REQUEST:
                    self._ask_bucket()
                raise

        meta = self._ask("head", "head", key, described)
        return ObjectInfo(key, meta["size"], meta["last_modified"], checksum_of(meta["e_tag"]))

    def link(self, key: str, life: timedelta) -> str | None:
        """Sign a URL by the fourth version of the signature, as all regions take it."""
        name, bucket = self._name(key), self.namespace.bucket
        return self._ask(
            "link", "sign a link to", key,
            lambda: signed_link(bucket, name, self.options, self._clients.region, life),
        )  # fmt: skip

    def _confirm_bucket(self) -> None:
        """Check once that the bucket exists: the 404 of an object does not say it."""
        if not self._bucket_seen:
            self._ask_bucket()
            self._bucket_seen = True

    def _ask_bucket(self) -> None:
        """Send a request whose refusal says why: no bucket, an expired token, another region."""
        # With the namespace's prefix, as a policy may limit the listing to it.
        asked = {"Bucket": self.namespace.bucket, "Prefix": self._before, "MaxKeys": 1}
        self._ask("list", "list", "", lambda: self._clients.boto.list_objects_v2(**asked))

    def _whole(self, name: str) -> bytes:
        return obstore.get(self._clients.objects, name).bytes().to_bytes()

    def written_at(self, key: str) -> datetime:
        """Tell when an object was last written, and remember a small one."""
        name = self._name(key)

        def ask() -> datetime:
            found = obstore.get(self._clients.objects, name)
            if self.small_files.takes(found.meta["size"]):
                self.small_files.keep(key, found.bytes().to_bytes())
            return found.meta["last_modified"]

        return self._ask_about("read", "read", key, ask)

    def _part(self, name: str, start: int, length: int) -> bytes:
        return obstore.get_range(self._clients.objects, name, start=start, length=length).to_bytes()

    def _bring(self, name: str, file: BinaryIO) -> None:
        # Not by `writelines`: a spooled file goes to the disk only after all of them.
        for chunk in obstore.get(  # noqa: FURB122 - as said
            self._clients.objects, name
        ).stream(_CHUNK_BYTES):
            file.write(chunk)

    def _send(
        self,
        name: str,
        content: bytes | BinaryIO,
        size: int,  # noqa: ARG002 - see base
        *,
        is_new: bool,
    ) -> None:
        # With `create` the condition is `If-None-Match: *`.
        obstore.put(self._clients.objects, name, content, mode="create" if is_new else "overwrite")

    def describe(self, key: str) -> Description:
        """Describe one object, with the checksums that S3 keeps of it."""
        return description_of(key, self._head_of(key))

    def content(self, key: str) -> ObjectInfo:
        """Describe one object; the tag of one encrypted with its own key is no checksum."""
        answer = self._head_of(key)
        seen = description_of(key, answer)
        return ObjectInfo(key, seen.size_bytes, answer["LastModified"], seen.digests.get("md5"))

    def _head_of(self, key: str) -> Any:
        self._name(key)
        try:
            return self._copies.head(key)
        except NotFoundError:
            # As for `head`: the 404 does not say that the bucket exists.
            self._confirm_bucket()
            raise

    @property
    def endpoint_url(self) -> str:
        """Return what the client knows, from settings or the AWS environment."""
        return bare_url(self._clients.boto.meta.endpoint_url)

    @property
    def _copies(self) -> Bucket:
        return Bucket(
            self.root, self._ask_of_copies, self._clients.boto, self.namespace.bucket, self._before
        )

    def find_deleted(self, lost: Lost) -> BringBack:
        """Find the version that a deletion has hidden, on a bucket with versions."""
        self._name(lost.key)
        return find_deleted(self._copies, lost)

    def undelete_hint(self) -> str | None:
        """Ask the bucket whether it keeps versions."""
        self.requests["head"] += 1
        return undelete_hint(self._clients.boto, self.namespace.bucket)

    def after_deletion(self) -> AfterDeletion:
        """Ask the bucket for its versioning."""
        self.requests["head"] += 1
        return after_deletion(self._clients.boto, self.namespace.bucket)

    def probe_delete(self, key: str) -> DeleteOutcome:
        """Ask by the request of a sweep, on the condition that the object exists."""

        def send(deletion: Mapping[str, Any]) -> Mapping[str, Any]:
            self.requests["delete"] += 1
            answer: Mapping[str, Any] = self._clients.boto.delete_objects(
                Bucket=self.namespace.bucket, Delete=deletion
            )
            return answer

        return probe_delete(send, self._name(key), key)

    def _send_deletion(
        self,
        keys: Sequence[str],
        pace: Pace,  # noqa: ARG002 - one request
    ) -> dict[str, KeyAnswer]:
        """Send one request, once; none after an answer for keys that it did not name."""
        if self._distrust:
            return dict.fromkeys(keys, KeyAnswer("refused", self._distrust))
        names = {self._before + key: key for key in keys}
        self.requests["delete"] += 1
        outcome_of = send_bulk(self._clients.deleting, self.namespace.bucket, [*names])
        stranger = next((name for name in outcome_of if name not in names), None)
        if stranger is not None:
            self._distrust = (
                f"the store answered for {stranger!r}, which was not in the request, so no "
                "further request is sent"
            )
        return {names[name]: outcome for name, outcome in outcome_of.items() if name in names}


class S3Store(Requests, OrderedRemoteStore[S3Clients]):
    """A namespace in a bucket that lists in order, and tells the MD5 of many contents."""

    tells_content = True
