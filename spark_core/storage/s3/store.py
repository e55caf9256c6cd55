"""S3, and stores that speak like it: obstore reads and writes, boto3 lists and deletes.

boto3 lists because it names every key (see `pages`), and deletes because it
gives an answer for each key, where obstore gives one for all.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeVar, cast

import obstore
import pyarrow as pa

from spark_core.addresses.collectable import NOT_NAMEABLE_PATTERN
from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError, IncompleteReadError, NotFoundError
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage.contract import (
    LISTING_BATCH_ROWS,
    DeleteOutcome,
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
from spark_core.storage.order import InOrder, behind, gathered
from spark_core.storage.s3.clients import Clients, bucket_region, check_options, open_clients
from spark_core.storage.s3.copies import Bucket, sight_of
from spark_core.storage.s3.errors import CLIENT_ERRORS, deletion_answer, explained, failure_of
from spark_core.storage.s3.pace import paced
from spark_core.storage.s3.pages import checksum_of, page_batch, page_prefixes
from spark_core.storage.s3.probe import probe_delete
from spark_core.storage.s3.undelete import find_deleted
from spark_core.storage.s3.versions import undelete_hint
from spark_core.storage.undo import BringBack, Lost

T = TypeVar("T")

# Of a file on its way in or out, what stays in memory; the rest goes to the temporary directory.
_SPOOLED_BYTES = 32 << 20
_CHUNK_BYTES = 8 << 20

_MOVED, _BAD_REQUEST = 301, 400

_opening = threading.Lock()


class S3Store(OrderedStore):
    """A namespace in an S3 bucket."""

    tells_content = True
    delete_permission = "s3:DeleteObject"
    delete_request = "DeleteObjects (POST ?delete); Content-MD5 and a CRC32 checksum go along"

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        check_options(options, namespace.root)
        super().__init__(namespace, options)
        self._forget()

    def _forget(self) -> None:
        self._opened: tuple[int, Clients] | None = None
        self._bucket_seen = False
        self._region: str | None = None
        # Set once an answer showed that the store takes keys for other ones: it might delete them, too.
        self._distrust: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Take the region along, so that an executor need not ask for it again."""
        return {**super().__getstate__(), "region": self._region}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._forget()
        self._region = state["region"]

    @property
    def _clients(self) -> Clients:
        """The clients of this process; a forked one must not share connections with its parent."""
        with _opening:
            if self._opened is None or self._opened[0] != os.getpid():
                self._opened = (os.getpid(), open_clients(self.namespace.bucket, self.options, self._region))
                self._region = self._opened[1].region
            return self._opened[1]

    @property
    def _before(self) -> str:
        return f"{self.namespace.path}/" if self.namespace.path else ""

    def _name(self, key: str) -> str:
        """Return the key in the bucket, when both clients take it for the same."""
        if NOT_NAMEABLE_PATTERN.search(self.checked_key(key)):
            raise AddressError(
                f"key {key!r} of {self.root} holds a control character, which not every client sends as it is; "
                "it was neither read nor changed",
                "Look at it with the store's own tools.",
            )
        return self._before + key

    def _ask(self, kind: str, action: str, key: str, question: Callable[[], T]) -> T:
        """Send one request.

        The project's error is raised outside the handler: chained to the
        client's, it would carry the answer's body into logs.
        """
        self.requests[kind] += 1
        try:
            return question()
        except CLIENT_ERRORS as error:
            # obstore drops what a redirect says.
            elsewhere = failure_of(error).status == _MOVED
            region = bucket_region(self._clients.boto, self.namespace.bucket) if elsewhere else None
            told = explained(error, action, key, self.root, region=region)
        raise told

    def _pages(self, prefix: str, **more: str) -> Iterator[dict[str, Any]]:
        """Ask for the pages of a listing, one after the other."""
        asked = {"Bucket": self.namespace.bucket, "Prefix": self._before + prefix, "EncodingType": "url", **more}
        tokens: set[str] = set()
        while True:
            answer = self._ask("list", "list", prefix, lambda: self._clients.boto.list_objects_v2(**asked))
            if "IsTruncated" not in answer:
                raise IncompleteReadError(
                    f"the listing of {self.root}{prefix} got an answer that is no listing (an empty page or one of a proxy); "
                    "it was not taken for an empty directory",
                    "Look at the endpoint.",
                )
            token = answer.get("NextContinuationToken")
            if token and not answer["IsTruncated"]:
                raise IncompleteReadError(
                    f"the listing of {self.root}{prefix} says that it ends and where it goes on; it cannot be known to be whole",
                    "The store does not list as S3 does.",
                )
            yield answer
            if not answer["IsTruncated"]:
                return
            if not token or token in tokens:
                raise IncompleteReadError(
                    f"the listing of {self.root}{prefix} says that there is more but not where ({len(tokens) + 1} pages came)",
                    "The store does not list as S3 does.",
                )
            tokens.add(token)
            asked["ContinuationToken"] = token

    def children(self, prefix: str) -> tuple[Names, pa.Table]:
        """List one level."""
        prefix = as_prefix(prefix)
        prefixes: list[str] = []
        batches = []
        objects_order, prefixes_order = InOrder(self.root + prefix), InOrder(self.root + prefix)
        for answer in self._pages(prefix, Delimiter="/"):
            found = page_prefixes(answer, self._before, prefix, self.root)
            batch = page_batch(answer, self._before, prefix, self.root)
            prefixes_order.require(found)
            objects_order.require(batch.column("key"))
            prefixes.extend(found)
            batches.append(batch)
        return sorted(prefixes), pa.Table.from_batches(batches, OBJECT_LISTING)

    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        """List everything below a prefix, page by page."""
        return gathered((page.rows for page in self.pages(prefix)), LISTING_BATCH_ROWS)

    def pages(self, prefix: str, *, after: str = "") -> Iterator[ListedPage]:
        """List everything below a prefix in the order of names (`StartAfter`)."""
        prefix = as_prefix(prefix)
        order = InOrder(self.root + prefix)
        for answer in self._pages(prefix, **({"StartAfter": self._before + after} if after else {})):
            batch = page_batch(answer, self._before, prefix, self.root)
            order.require(batch.column("key"))
            yield ListedPage(behind(batch, after), is_last=not answer["IsTruncated"])

    def head(self, key: str) -> ObjectInfo:
        """Describe one object; what its answer cannot say, as it has no body, is asked of the bucket."""
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

    def _confirm_bucket(self) -> None:
        """Make sure, once, that the bucket is there: the 404 of an object does not say it."""
        if not self._bucket_seen:
            self._ask_bucket()
            self._bucket_seen = True

    def _ask_bucket(self) -> None:
        """Send a request that answers with words: no such bucket, a token that has expired, another region."""
        # With the namespace's prefix, to which a policy may limit the listing.
        asked = {"Bucket": self.namespace.bucket, "Prefix": self._before, "MaxKeys": 1}
        self._ask("list", "list", "", lambda: self._clients.boto.list_objects_v2(**asked))

    def read(self, key: str) -> bytes:
        """Read a whole object."""
        name = self._name(key)
        return self._ask("read", "read", key, lambda: obstore.get(self._clients.objects, name).bytes().to_bytes())

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object."""
        name = self._name(key)

        def part() -> bytes:
            try:
                return obstore.get_range(self._clients.objects, name, start=start, length=length).to_bytes()
            except CLIENT_ERRORS as error:
                if failure_of(error).status == 416:
                    return b""
                raise

        return exact_range(self._ask("read", "read", key, part), self, key, start, length)

    @contextmanager
    def open_source(self, key: str) -> Iterator[BinaryIO]:
        """Bring the object here with one request; what is large goes to a temporary file."""
        name = self._name(key)
        with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as file:

            def bring() -> None:
                for chunk in obstore.get(self._clients.objects, name).stream(_CHUNK_BYTES):
                    file.write(chunk)

            self._ask("read", "read", key, bring)
            file.seek(0)
            yield cast(BinaryIO, file)

    def put(self, key: str, data: bytes) -> None:
        """Write a whole object."""
        name = self._name(key)
        self._ask("put", "write", key, lambda: obstore.put(self._clients.objects, name, data))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object on the condition that there is none (`If-None-Match: *`)."""
        name = self._name(key)
        self._ask("put", "write", key, lambda: obstore.put(self._clients.objects, name, data, mode="create"))

    @contextmanager
    def open_sink(self, key: str) -> Iterator[BinaryIO]:
        """Gather the object here and send it when the block ends well."""
        name = self._name(key)
        with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as file:
            yield cast(BinaryIO, file)
            file.seek(0)
            self._ask("put", "write", key, lambda: obstore.put(self._clients.objects, name, cast(BinaryIO, file)))

    def sight(self, key: str) -> Sight:
        """Describe one object, with the checksums that S3 keeps of it."""
        return sight_of(key, self._told_of(key))

    def content(self, key: str) -> ObjectInfo:
        """Describe one object; the tag of one that is encrypted with a key of its own looks like a checksum and is none."""
        told = self._told_of(key)
        seen = sight_of(key, told)
        return ObjectInfo(key, seen.size_bytes, told["LastModified"], seen.digests.get("md5"))

    def _told_of(self, key: str) -> Any:
        asked = {"Bucket": self.namespace.bucket, "Key": self._name(key), "ChecksumMode": "ENABLED"}
        try:
            return self._ask("head", "head", key, lambda: self._clients.boto.head_object(**asked))
        except NotFoundError:
            # As for `head`: the 404 does not say that the bucket is there.
            self._confirm_bucket()
            raise

    def transfer(self, source: Sight, target: str) -> None:
        """Copy by S3 itself, in parts what is above 5 GB."""
        self._name(source.key), self._name(target)
        self._bucket.transfer(source, target)

    @property
    def _bucket(self) -> Bucket:
        def ask(action: str, key: str, question: Callable[[], T]) -> T:
            return self._ask(action, action, key, question)

        return Bucket(self._clients.boto, self.namespace.bucket, self.root, self._before, ask)

    def delete(self, keys: Sequence[str], *, pace: Pace = unpaced) -> Outcomes:
        """Delete with the store's bulk request.

        S3 confirms a key that was not there like one that was, so `already_gone`
        comes only from stores that tell it. On a versioned bucket a deletion is a marker.
        """

        def send(some: Sequence[str]) -> dict[str, Answer]:
            with paced(pace):
                return self._send_deletion(some)

        return delete_in_batches(keys, send, self.options, size=self.delete_batch_size, pace=pace)

    def find_deleted(self, lost: Lost) -> BringBack:
        """Find the version that a deletion has hidden, on a bucket with versions."""
        self._name(lost.key)
        return find_deleted(self._bucket, lost)

    def undelete_hint(self) -> str | None:
        """Ask the bucket whether it keeps versions."""
        self.requests["head"] += 1
        return undelete_hint(self._clients.boto, self.namespace.bucket)

    def probe_delete(self, key: str) -> DeleteOutcome:
        """Ask by the request of a sweep, on the condition that there is such an object."""

        def send(deletion: Mapping[str, Any]) -> Mapping[str, Any]:
            self.requests["delete"] += 1
            answer: Mapping[str, Any] = self._clients.boto.delete_objects(Bucket=self.namespace.bucket, Delete=deletion)
            return answer

        return probe_delete(send, self._name(key), key)

    def _send_deletion(self, keys: Sequence[str]) -> dict[str, Answer]:
        """Send one request; the client itself repeats one that was throttled as a whole, at the same pace."""
        if self._distrust:
            return dict.fromkeys(keys, Answer("refused", self._distrust))
        names = {self._before + key: key for key in keys}
        self.requests["delete"] += 1
        try:
            answer = self._clients.boto.delete_objects(
                Bucket=self.namespace.bucket, Delete={"Objects": [{"Key": name} for name in names], "Quiet": False}
            )
        except CLIENT_ERRORS as error:
            failure = failure_of(error)
            return dict.fromkeys(keys, Answer("refused" if failure.refuses else "failed", str(failure)))
        told = {entry["Key"]: Answer("deleted") for entry in answer.get("Deleted", []) if "Key" in entry}
        of_none: Answer | None = None
        for entry in answer.get("Errors", []):
            said = deletion_answer(str(entry.get("Code")))
            if entry.get("Key"):
                told[entry["Key"]] = said
            elif said.outcome != "already_gone":
                # Some stores refuse the whole request so. That an object is gone can only be said of one.
                of_none = of_none or said
        if of_none is not None:
            told = {**dict.fromkeys(names, of_none), **told}
        stranger = next((name for name in told if name not in names), None)
        if stranger is not None:
            self._distrust = f"the store answered for {stranger!r}, which nobody asked for, so no more is asked of it"
        return {names[name]: said for name, said in told.items() if name in names}
