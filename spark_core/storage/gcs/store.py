"""Google Cloud Storage, through its own client (`lakegc[gcs]`); obstore reads plain names.

Single requests to the JSON API, in the session of Google's client, list, describe and delete: they
name every key exactly and answer for each. Files go through that client's transfers, which check
them on the way. `obstore_reads.is_plain` and `gcs.reads` tell which objects obstore reads and when
its answer counts.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, BinaryIO, TypeVar

from spark_core.addresses.namespace import Namespace
from spark_core.errors import IncompleteReadError, LakegcError, PermissionDeniedError
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.endpoint_urls import bare_url
from spark_core.storage.failures import ClientWords
from spark_core.storage.gcs.clients import GCSClients, check_options, open_clients, patience
from spark_core.storage.gcs.copies import Bucket
from spark_core.storage.gcs.credentials import credentials_to_carry
from spark_core.storage.gcs.deletion import MAX_PARTS, send_bulk
from spark_core.storage.gcs.errors import (
    CLIENT_ERRORS,
    PERMISSIONS,
    explain,
    failure_of,
    unconfirmed,
    unsure_of_gone,
)
from spark_core.storage.gcs.json_api import JsonApi
from spark_core.storage.gcs.listing_pages import (
    KIND,
    OBJECT_FIELDS,
    PAGE_FIELDS,
    object_info,
    page_batch,
    page_prefixes,
)
from spark_core.storage.gcs.reads import is_for_the_other_client
from spark_core.storage.gcs.undelete import after_deletion, find_deleted, undelete_hint
from spark_core.storage.listing_pages import Listed, Page
from spark_core.storage.objects import ObjectInfo
from spark_core.storage.options import StoreOptions
from spark_core.storage.outcomes import Pace
from spark_core.storage.remote import OrderedRemoteStore
from spark_core.storage.undelete import BringBack, Lost

T = TypeVar("T")

# How much of a large file one request sends; a multiple of 256 KiB.
_CHUNK_BYTES = 32 << 20


class GcsStore(OrderedRemoteStore[GCSClients]):
    """A namespace in a GCS bucket."""

    kind, endpoint = "GCS", "gcs_endpoint"
    words = ClientWords(CLIENT_ERRORS, failure_of, explain)
    delete_batch_size = MAX_PARTS
    tells_content = True
    lists_content = True
    delete_permission = PERMISSIONS["delete"]

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        check_options(options, namespace.root)
        super().__init__(namespace, options)

    def _forget(self) -> None:
        super()._forget()
        self._bucket_seen = False
        # Unset once the ETag of an object did not prove it: the bucket's other objects would
        # also be read twice.
        self._proving = True

    def _carried(self) -> dict[str, Any]:
        return credentials_to_carry(self.options, os.environ)

    def _open(self) -> GCSClients:
        return open_clients(self.options, os.getpid())

    @property
    def endpoint_url(self) -> str:
        """Return what the client knows."""
        return bare_url(self._clients.endpoint)

    @property
    def _api(self) -> JsonApi:
        return JsonApi(self._clients.session, self._timeout)

    @property
    def _timeout(self) -> tuple[float, float]:
        return (
            self.options.connect_timeout.total_seconds(),
            self.options.read_timeout.total_seconds(),
        )

    def _blob(self, name: str, chunk_bytes: int | None = None) -> Any:
        """Return the client's handle of an object, without a request."""
        return self._clients.client.bucket(self.namespace.bucket).blob(name, chunk_size=chunk_bytes)

    def link(self, key: str, life: timedelta) -> str | None:
        """Sign a URL with the key of a service account; other credentials have none here."""
        if not self._clients.has_private_key:
            return None
        url: str = self._blob(self._name(key)).generate_signed_url(
            version="v4",
            expiration=life,
            response_type="text/html",
            api_access_endpoint=self._clients.endpoint,
        )
        return url

    def _url(self, name: str) -> str:
        return self._clients.object_url(self.namespace.bucket, name)

    def _persistently(self, question: Callable[[], T]) -> T:
        return patience(self.options)(question)()

    def _page(self, listed: Listed, token: str, *, deep: bool, after: str, **more: str) -> Page:
        beginning = {
            "delimiter": "" if deep else "/",
            # It includes the name itself.
            "startOffset": after and self._before + after,
            "pageToken": token,
        }
        asked = {"prefix": self._before + listed.prefix, "fields": PAGE_FIELDS, **more}
        asked |= {name: value for name, value in beginning.items() if value}
        url = self._clients.objects_url(self.namespace.bucket)
        answer = self._ask("list", "list", listed.prefix, lambda: self._api.json(url, asked))
        if not isinstance(answer, dict) or answer.get("kind") != KIND:
            raise listed.no_listing()
        self._bucket_seen = True
        following = answer.get("nextPageToken", "")
        rows, prefixes = page_batch(answer, listed), page_prefixes(answer, listed)
        if "nextPageToken" not in answer:
            return Page(rows, prefixes, None)
        return Page(rows, prefixes, following if isinstance(following, str) else "")

    def head(self, key: str) -> ObjectInfo:
        """Describe one object."""
        url = self._url(self._name(key))
        answer = self._ask_about(
            "head", "head", key, lambda: self._api.json(url, {"fields": OBJECT_FIELDS})
        )
        return object_info(answer, key, self.root)

    def _ask_about(self, kind: str, action: str, key: str, question: Callable[[], T]) -> T:
        """Ask about one object; check once that the bucket exists, as a 404 does not say it."""

        def asked() -> T:
            try:
                return question()
            except CLIENT_ERRORS as error:
                if failure_of(error).status != 404:
                    raise
                absent = error
            self._confirm_bucket()
            raise absent

        return self._ask(kind, action, key, asked)

    def _confirm_bucket(self) -> None:
        if not self._bucket_seen:
            self._page(self._listed(""), "", deep=True, after="", maxResults="1")

    def _whole(self, name: str) -> bytes:
        """Read a whole object, checked against a checksum of the store's own."""
        data = self._proved(name)
        return self._checked(name) if data is None else data

    def _proved(self, name: str) -> bytes | None:
        """Read by obstore; None if Google's client has to read, and only its answer counts.

        That client has to read an object without a proof; a missing object, since an endpoint need
        not know the XML API; after a refused token, which that client renews; and an object that
        did not come in the time that one request has.
        """
        reader = self._clients.readers.of(self.namespace.bucket, name) if self._proving else None
        if reader is None:
            return None
        try:
            data = reader.read(name)
        except CLIENT_ERRORS as error:
            if is_for_the_other_client(error):
                return None
            raise
        if data is None:
            self._proving = False
        return data

    def _checked(self, name: str) -> bytes:
        with io.BytesIO() as file:
            self._bring(name, file)
            return file.getvalue()

    def _bring(self, name: str, file: BinaryIO) -> None:
        """Download an object; the client checks only objects that came in one piece."""
        file.seek(0)
        file.truncate()
        # Raw: the bytes as they are stored, whatever encoding the object claims to have.
        self._blob(name).download_to_file(
            file, raw_download=True, retry=None, timeout=self._timeout
        )

    def _part(self, name: str, start: int, length: int) -> bytes:
        asked = {"Range": f"bytes={start}-{start + length - 1}"}
        with self._api.get(self._url(name), {"alt": "media"}, headers=asked, stream=True) as answer:
            if answer.status_code != 206:
                raise IncompleteReadError(
                    f"{self.root}{name.removeprefix(self._before)} was asked for bytes {start} to "
                    f"{start + length} "
                    f"and the store sent something else (HTTP {answer.status_code})",
                    "Look at gcs_endpoint.",
                )
            # Raw: a part of a compressed object cannot be decompressed, and need not be.
            return bytes(answer.raw.read(decode_content=False))

    def _send(self, name: str, content: bytes | BinaryIO, size: int, *, is_new: bool) -> None:
        """Upload an object; the client resumes a broken transfer, and the store checks the sum."""
        self._blob(name, _CHUNK_BYTES).upload_from_file(
            io.BytesIO(content) if isinstance(content, bytes) else content,
            size=size,
            content_type="application/octet-stream",
            timeout=self._timeout,
            retry=patience(self.options),
            # An object that does not exist has no generation.
            **({"if_generation_match": 0} if is_new else {}),
        )

    @property
    def _copies(self) -> Bucket:
        def url(key: str) -> str:
            return self._url(self._name(key))

        def send(method: str, url: str, params: Mapping[str, str]) -> Any:
            # Clients are opened by the question, so that their errors are explained like its own.
            return self._api.send(method, url, params)

        return Bucket(self.root, self._ask_of_copies, url, send)

    def _send_deletion(
        self,
        keys: Sequence[str],
        pace: Pace,  # noqa: ARG002 - one request
    ) -> dict[str, KeyAnswer]:
        """Send one batch; a 404 means that the object is gone only if the bucket exists.

        A key that was deleted by a request whose answer was lost is `already_gone` when asked for
        again. On a bucket with versions the object stays as a noncurrent one; with soft delete it
        stays as long as that says.
        """
        self.requests["delete"] += 1
        try:
            answers = send_bulk(
                self._api,
                self._clients.endpoint,
                {key: self._url(self._before + key) for key in keys},
            )
        except CLIENT_ERRORS as error:
            return dict.fromkeys(keys, unconfirmed(error))
        if any(answer.outcome == "already_gone" for answer in answers.values()):
            try:
                self._confirm_bucket()
            except LakegcError:
                answers = {key: unsure_of_gone(answer) for key, answer in answers.items()}
        return answers

    def find_deleted(self, lost: Lost) -> BringBack:
        """Find a generation that versions or soft delete keep."""
        name = self._name(lost.key)
        return find_deleted(
            self._copies, lost, name, self._clients.objects_url(self.namespace.bucket)
        )

    def after_deletion(self) -> AfterDeletion:
        """Read the bucket's soft delete and versioning; storage.buckets.get must be allowed."""
        try:
            return after_deletion(self._description(), self.root)
        except LakegcError as problem:
            return AfterDeletion(None, problem.found)

    def undelete_hint(self) -> str | None:
        """Say whether the bucket keeps deleted objects, if storage.buckets.get may be called."""
        try:
            answer = self._description()
        except PermissionDeniedError:
            return None
        return undelete_hint(answer, self.root)

    def _description(self) -> Any:
        url = self._clients.bucket_url(self.namespace.bucket)
        return self._ask(
            "head",
            "describe",
            "",
            lambda: self._api.json(url, {"fields": "softDeletePolicy,versioning"}),
        )
