"""Google Cloud Storage, through its own client (`lakegc[gcs]`), and whole objects of plain names through obstore.

Listing, describing and deleting are single requests to the JSON API in the
session of Google's client, because those name every key exactly and answer for
each. Files go through its transfers, which check them on the way. What obstore
may be given and when its answer counts: `obstores.is_plain` and `gcs.reads`.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeVar, cast

import pyarrow as pa

from spark_core.addresses.collectable import NOT_NAMEABLE_PATTERN
from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError, IncompleteReadError, LakegcError, PermissionDeniedError, SettingsError
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage.contract import (
    LISTING_BATCH_ROWS,
    ListedPage,
    Names,
    ObjectInfo,
    OrderedStore,
    Outcomes,
    Pace,
    StoreOptions,
    as_prefix,
    exact_range,
    unpaced,
)
from spark_core.storage.copies import Sight
from spark_core.storage.deletion import Answer, delete_in_batches
from spark_core.storage.obstores import OBSTORE_ERRORS, is_plain, obstore_failure
from spark_core.storage.order import InOrder, behind, gathered
from spark_core.storage.undo import BringBack, Lost

try:
    from google.api_core.exceptions import from_http_response

    from spark_core.storage.gcs.batch import MAX_PARTS, batch_answers, batch_request
    from spark_core.storage.gcs.clients import Clients, check_options, open_clients, patience
    from spark_core.storage.gcs.copies import Copies
    from spark_core.storage.gcs.errors import (
        CLIENT_ERRORS,
        PERMISSIONS,
        Failure,
        deletion_answer,
        explained,
        failure_of,
        unconfirmed,
    )
    from spark_core.storage.gcs.pages import (
        KIND,
        OBJECT_FIELDS,
        PAGE_FIELDS,
        object_info,
        page_batch,
        page_prefixes,
        undelete_hint,
    )
    from spark_core.storage.gcs.undelete import find_deleted
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "google":
        raise
    raise SettingsError(
        f"namespaces gs:// need Google's client, and {error.name} is not installed here",
        'Install it, on every machine that runs lakegc: pip install "lakegc[gcs]".',
    ) from None

T = TypeVar("T")

# Of a file on its way in or out, what stays in memory; the rest goes to the temporary directory.
_SPOOLED_BYTES = 32 << 20
# Of a large file, what one request sends; a multiple of 256 KiB.
_CHUNK_BYTES = 32 << 20

# Answers that may be of the API by which obstore reads, or of its token, and not of the object.
_ASKED_OF_THE_OTHER = (401, 404, 405, 501)


class GcsStore(OrderedStore):
    """A namespace in a GCS bucket."""

    delete_batch_size = MAX_PARTS
    tells_content = True
    delete_permission = PERMISSIONS["delete"]

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        check_options(options, namespace.root)
        super().__init__(namespace, options)
        self._forget()

    def _forget(self) -> None:
        self._bucket_seen = False
        # Unset once the ETag of an object did not prove it: others of the bucket would be read twice, too.
        self._proving = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._forget()

    @property
    def _clients(self) -> Clients:
        return open_clients(self.options, os.getpid())

    @property
    def _timeout(self) -> tuple[float, float]:
        return (self.options.connect_timeout.total_seconds(), self.options.read_timeout.total_seconds())

    @property
    def _before(self) -> str:
        return f"{self.namespace.path}/" if self.namespace.path else ""

    def _name(self, key: str) -> str:
        """Return the key in the bucket, when every client takes it for the same."""
        if NOT_NAMEABLE_PATTERN.search(self.checked_key(key)):
            raise AddressError(
                f"key {key!r} of {self.root} holds a control character, which not every client sends as it is; "
                "it was neither read nor changed",
                "Look at it with the store's own tools.",
            )
        return self._before + key

    def _blob(self, key: str, chunk_bytes: int | None = None) -> Any:
        """Return the client's handle of an object, without asking for it."""
        return self._clients.client.bucket(self.namespace.bucket).blob(self._name(key), chunk_size=chunk_bytes)

    def _ask(self, kind: str, action: str, key: str, question: Callable[[], T]) -> T:
        """Ask, again where that may help.

        The project's error is raised outside the handler: chained to the
        client's, it would carry the answer's body into logs.
        """
        self.requests[kind] += 1
        try:
            return patience(self.options)(question)()
        except CLIENT_ERRORS as error:
            told = explained(error, action, key, self.root)
        raise told

    def _get(
        self, url: str, params: Mapping[str, str], headers: Mapping[str, str] | None = None, *, stream: bool = False
    ) -> Any:
        """Send one GET; the answer is a success."""
        answer = self._clients.session.get(url, params=params, headers=headers, timeout=self._timeout, stream=stream)
        if not 200 <= answer.status_code < 300:
            raise from_http_response(answer)  # type: ignore[no-untyped-call]
        return answer

    def _pages(self, prefix: str, **more: str) -> Iterator[tuple[ListedPage, Names]]:
        """Ask for the pages of a listing, one after the other; gives the objects and the prefixes of each."""
        asked = {"prefix": self._before + prefix, "fields": PAGE_FIELDS, **more}
        tokens: set[str] = set()
        objects_order, prefixes_order = InOrder(self.root + prefix), InOrder(self.root + prefix)
        while True:
            answer = self._ask(
                "list",
                "list",
                prefix,
                lambda: _json(self._get(self._clients.objects_url(self.namespace.bucket), asked)),
            )
            if not isinstance(answer, dict) or answer.get("kind") != KIND:
                raise IncompleteReadError(
                    f"the listing of {self.root}{prefix} got an answer that is no listing (an empty page or one of a proxy); "
                    "it was not taken for an empty directory",
                    "Look at gcs_endpoint.",
                )
            self._bucket_seen = True
            batch = page_batch(answer, self._before, prefix, self.root)
            prefixes = page_prefixes(answer, self._before, prefix, self.root)
            objects_order.require(batch.column("key"))
            prefixes_order.require(prefixes)
            is_last = "nextPageToken" not in answer
            yield ListedPage(batch, is_last), prefixes
            if is_last:
                return
            token = answer["nextPageToken"]
            if not token or not isinstance(token, str) or token in tokens:
                raise IncompleteReadError(
                    f"the listing of {self.root}{prefix} says that there is more but not where ({len(tokens) + 1} pages came)",
                    "The store does not list as GCS does.",
                )
            tokens.add(token)
            asked["pageToken"] = token

    def children(self, prefix: str) -> tuple[Names, pa.Table]:
        """List one level."""
        prefix = as_prefix(prefix)
        pages = list(self._pages(prefix, delimiter="/"))
        prefixes = sorted(name for _, below in pages for name in below)
        return prefixes, pa.Table.from_batches([page.rows for page, _ in pages], OBJECT_LISTING)

    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        """List everything below a prefix, page by page."""
        return gathered((page.rows for page in self.pages(prefix)), LISTING_BATCH_ROWS)

    def pages(self, prefix: str, *, after: str = "") -> Iterator[ListedPage]:
        """List everything below a prefix in the order of names (`startOffset`, which takes in the name itself)."""
        beginning = {"startOffset": self._before + after} if after else {}
        for page, _ in self._pages(as_prefix(prefix), **beginning):
            yield ListedPage(behind(page.rows, after), page.is_last)

    def head(self, key: str) -> ObjectInfo:
        """Describe one object."""
        url = self._clients.object_url(self.namespace.bucket, self._name(key))
        answer = self._look("head", "head", key, lambda: _json(self._get(url, {"fields": OBJECT_FIELDS})))
        return object_info(answer, key, self.root)

    def _look(self, kind: str, action: str, key: str, question: Callable[[], T]) -> T:
        """Ask about one object; that the bucket is there is made sure once, as the store's 404 does not say it."""

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
            next(self._pages("", maxResults="1"))

    def read(self, key: str) -> bytes:
        """Read a whole object, checked against a checksum of the store's own."""
        name = self._name(key)

        def whole() -> bytes:
            data = self._proved(name)
            return self._checked(key) if data is None else data

        return self._look("read", "read", key, whole)

    def _proved(self, name: str) -> bytes | None:
        """Read by obstore; None where Google's client has to, and where only its answer counts.

        That is an object without a proof; one that is not there, since an endpoint need not know the XML API; a
        token that was refused, which Google's client renews; and what did not come in the time that one request has.
        """
        plain = self._proving and is_plain(f"{self.namespace.bucket}/{name}")
        reader = self._clients.reader(self.namespace.bucket) if plain else None
        if reader is None:
            return None
        try:
            data = reader.read(name)
        except CLIENT_ERRORS as error:
            if failure_of(error).status in _ASKED_OF_THE_OTHER or (
                isinstance(error, OBSTORE_ERRORS) and obstore_failure(error).is_for_the_other_client
            ):
                return None
            raise
        if data is None:
            self._proving = False
        return data

    def _checked(self, key: str) -> bytes:
        with io.BytesIO() as file:
            self._bring_once(key, file)
            return file.getvalue()

    def _bring(self, key: str, file: Any) -> None:
        """Bring an object here."""
        self._look("read", "read", key, lambda: self._bring_once(key, file))

    def _bring_once(self, key: str, file: Any) -> None:
        """Bring an object here from its beginning; the client checks only what came in one piece."""
        file.seek(0)
        file.truncate()
        # Raw: the bytes as they are stored, whatever encoding the object claims to have.
        self._blob(key).download_to_file(file, raw_download=True, retry=None, timeout=self._timeout)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object."""
        url = self._clients.object_url(self.namespace.bucket, self._name(key))

        def part() -> bytes:
            asked = {"Range": f"bytes={start}-{start + length - 1}"}
            try:
                answer = self._get(url, {"alt": "media"}, asked, stream=True)
            except CLIENT_ERRORS as error:
                if failure_of(error).status == 416:
                    return b""
                raise
            with answer:
                if answer.status_code != 206:
                    raise IncompleteReadError(
                        f"{self.root}{key} was asked for bytes {start} to {start + length} and the store sent something else "
                        f"(HTTP {answer.status_code})",
                        "Look at gcs_endpoint.",
                    )
                # Raw: a part of something compressed cannot be unpacked, and is not meant to be.
                return bytes(answer.raw.read(decode_content=False))

        return exact_range(self._look("read", "read", key, part), self, key, start, length)

    @contextmanager
    def open_source(self, key: str) -> Iterator[BinaryIO]:
        """Bring the object here with one request; what is large goes to a temporary file."""
        with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as file:
            self._bring(key, file)
            file.seek(0)
            yield cast(BinaryIO, file)

    def put(self, key: str, data: bytes) -> None:
        """Write a whole object."""
        self._send(key, io.BytesIO(data), len(data))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object on the condition that there is none (generation 0)."""
        self._send(key, io.BytesIO(data), len(data), if_generation_match=0)

    def _send(self, key: str, file: Any, size: int, **conditions: int) -> None:
        """Send an object; the client goes on with a broken transfer by itself, and the store checks the sum."""
        blob = self._blob(key, _CHUNK_BYTES)
        self.requests["put"] += 1
        try:
            blob.upload_from_file(
                file,
                size=size,
                content_type="application/octet-stream",
                timeout=self._timeout,
                retry=patience(self.options),
                **conditions,
            )
        except CLIENT_ERRORS as error:
            told = explained(error, "write", key, self.root)
        else:
            return
        raise told

    @contextmanager
    def open_sink(self, key: str) -> Iterator[BinaryIO]:
        """Gather the object here and send it when the block ends well."""
        self._name(key)
        with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as file:
            yield cast(BinaryIO, file)
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            self._send(key, file, size)

    def sight(self, key: str) -> Sight:
        """Describe one object, with the checksums that Google keeps of it."""
        return self._copies.sight(key)

    def transfer(self, source: Sight, target: str) -> None:
        """Copy by rewriting, which moves no bytes as long as place and storage class stay."""
        self._copies.transfer(source, target)

    @property
    def _copies(self) -> Copies:
        def ask(action: str, key: str, question: Callable[[], T]) -> T:
            return self._look(action, action, key, question)

        def url(key: str) -> str:
            return self._clients.object_url(self.namespace.bucket, self._name(key))

        return Copies(self.root, url, ask, self._send_json)

    def _send_json(self, method: str, url: str, params: Mapping[str, str]) -> Any:
        if method == "GET":
            return _json(self._get(url, params))
        answer = self._clients.session.post(url, params=params, timeout=self._timeout)
        if not 200 <= answer.status_code < 300:
            raise from_http_response(answer)  # type: ignore[no-untyped-call]
        return _json(answer)

    def delete(self, keys: Sequence[str], *, pace: Pace = unpaced) -> Outcomes:
        """Delete with batch requests.

        A key that was deleted by a request whose answer was lost is
        `already_gone` when asked for again. On a bucket with versions the object
        stays as a noncurrent one, with soft delete for as long as that says.
        """
        return delete_in_batches(keys, self._send_deletion, self.options, size=self.delete_batch_size, pace=pace)

    def _send_deletion(self, keys: Sequence[str]) -> dict[str, Answer]:
        """Send one batch; a 404 means that the object is gone only when the bucket is there."""
        self.requests["delete"] += 1
        try:
            parts = self._deletion_answers(keys)
        except CLIENT_ERRORS as error:
            return dict.fromkeys(keys, unconfirmed(error))
        answers = {key: deletion_answer(failure) for key, failure in parts.items()}
        if any(answer.outcome == "already_gone" for answer in answers.values()):
            try:
                self._confirm_bucket()
            except LakegcError:
                unsure = Answer("failed", "HTTP 404, and whether the bucket is there could not be told")
                answers = {
                    key: unsure if answer.outcome == "already_gone" else answer for key, answer in answers.items()
                }
        return answers

    def _deletion_answers(self, keys: Sequence[str]) -> dict[str, Failure]:
        urls = [self._clients.object_url(self.namespace.bucket, self._before + key) for key in keys]
        content_type, body = batch_request(urls)
        answer = self._clients.session.post(
            f"{self._clients.endpoint}/batch/storage/v1",
            data=body,
            headers={"Content-Type": content_type},
            timeout=self._timeout,
        )
        if not 200 <= answer.status_code < 300:
            raise from_http_response(answer)  # type: ignore[no-untyped-call]
        parts = batch_answers(answer.headers.get("Content-Type", ""), answer.content)
        return {keys[number]: told for number, told in parts.items() if number < len(keys)}

    def find_deleted(self, lost: Lost) -> BringBack:
        """Find a generation that versions or soft delete keep."""
        name = self._name(lost.key)
        return find_deleted(self._copies, lost, name, self._clients.objects_url(self.namespace.bucket))

    def undelete_hint(self) -> str | None:
        """Say whether the bucket keeps what is deleted, where storage.buckets.get allows to ask."""
        url = self._clients.bucket_url(self.namespace.bucket)
        try:
            answer = self._ask(
                "head", "describe", "", lambda: _json(self._get(url, {"fields": "softDeletePolicy,versioning"}))
            )
        except PermissionDeniedError:
            return None
        return undelete_hint(answer, self.root)


def _json(answer: Any) -> Any:
    """Read a body as JSON; None when it is none, which is no answer of GCS."""
    try:
        return json.loads(answer.content)
    except ValueError:
        return None
