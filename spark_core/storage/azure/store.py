"""Azure Blob Storage: its own client lists, writes, and deletes with an answer for each key; obstore reads whole objects.

Not all of them: see `obstores.is_plain` for the names that obstore is given, and
`azure.reads` for the credentials that it is not.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO, ClassVar, TypeVar, cast

import pyarrow as pa
from azure.core.exceptions import AzureError
from azure.storage.blob import ContainerClient

from spark_core import layout
from spark_core.addresses.collectable import NOT_NAMEABLE, arrow_pattern
from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError, IncompleteReadError, LakegcError, NotFoundError
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage.azure.clients import Clients, check_options, open_clients, place_of
from spark_core.storage.azure.copies import Copies
from spark_core.storage.azure.errors import CLIENT_ERRORS, Failure, deletion_answer, explained, failure_of
from spark_core.storage.azure.pages import FOLDER, Page, batch_answers, checksum_of, page_of
from spark_core.storage.azure.undelete import find_deleted
from spark_core.storage.contract import (
    LISTING_BATCH_ROWS,
    Names,
    ObjectInfo,
    ObjectStore,
    Outcomes,
    Pace,
    StoreOptions,
    as_prefix,
    exact_range,
    unpaced,
)
from spark_core.storage.copies import Sight
from spark_core.storage.deletion import Answer, delete_in_batches, one_by_one
from spark_core.storage.obstores import OBSTORE_ERRORS, is_plain, obstore_failure
from spark_core.storage.order import gathered
from spark_core.storage.undo import BringBack, Lost

T = TypeVar("T")

# Of a file on its way in or out, what stays in memory; the rest goes to the temporary directory.
_SPOOLED_BYTES = 32 << 20

# The service takes `\` for `/` and drops dots at the end of a segment, so such a name means another object; of the
# other signs it says itself that they may not pass.
_NOT_OF_AZURE = rf"{NOT_NAMEABLE}|\\|\.(?:/|$)|[\x80-\x9f]"
_NOT_OF_AZURE_PATTERN = arrow_pattern(_NOT_OF_AZURE)
_LONGEST_NAME = 1024

# Answers to a bulk deletion as a whole that mean: not here, or not so. Then keys are deleted one by one.
_NO_BULK = {400, 404, 405, 409, 411, 415, 501}

# How a bulk deletion is answered, and each key of it that is gone.
_ANSWERED_BY_KEY = 202

_opening = threading.Lock()


class _Taken(Exception):  # noqa: N818 - no error, but the way out of the client with an answer
    """The answer to a listing."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body


class AzureStore(ObjectStore):
    """A namespace in a container of an Azure storage account."""

    # More than 256 the service does not take.
    delete_batch_size = 256
    unsafe_names = _NOT_OF_AZURE
    delete_permission: ClassVar[str] = "Storage Blob Data Contributor (of a SAS: d)"

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        check_options(options, namespace.root)
        super().__init__(namespace, options)
        self._forget()

    def _forget(self) -> None:
        self._place = place_of(self.namespace, self.options)
        self._before = self._place.before
        self._opened: tuple[int, Clients, ContainerClient] | None = None
        self._bulk = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._forget()

    def _clients(self) -> tuple[int, Clients, ContainerClient]:
        """The clients of this process; a forked one must not share connections with its parent."""
        with _opening:
            if self._opened is None or self._opened[0] != os.getpid():
                clients = open_clients(self._place.account, self.options, os.getpid())
                self._opened = (os.getpid(), clients, clients.service.get_container_client(self._place.container))
            return self._opened

    @property
    def _container(self) -> ContainerClient:
        return self._clients()[2]

    def _unnameable(self, key: str) -> str | None:
        """Say why a key cannot be named safely; None if it can."""
        if _NOT_OF_AZURE_PATTERN.search(key):
            return "holds a control character, a backslash, or a segment that is empty or ends in a dot"
        if len(self._before + key) > _LONGEST_NAME:
            return f"is longer than the {_LONGEST_NAME} characters that the service takes"
        return None

    def _name(self, key: str) -> str:
        """Return the key in the container, when the service takes it for the same."""
        if problem := self._unnameable(self.checked_key(key)):
            raise AddressError(
                f"key {key!r} of {self.root} {problem}, and Azure would take it for another name; "
                "it was neither read nor changed",
                "Look at it with the store's own tools.",
            )
        return self._before + key

    def _ask(self, kind: str, action: str, key: str, question: Callable[[], T]) -> T:
        """Send one request.

        The project's error is raised outside the handler: chained to the
        client's, it would carry the URL with its signature into logs.
        """
        self.requests[kind] += 1
        try:
            return question()
        except CLIENT_ERRORS as error:
            told = explained(error, action, key, self.root)
        raise told

    def _pages(self, prefix: str, *, deep: bool) -> Iterator[Page]:
        """Ask for the pages of a listing, one after the other."""
        markers = {""}
        last: Page | None = None
        marker = ""
        while True:
            body = self._ask("list", "list", prefix, partial(self._page_body, prefix, marker, deep=deep))
            page = page_of(body, self._before, prefix, self.root)
            if page.repeats(last):
                raise IncompleteReadError(
                    f"the listing of {self.root}{prefix} answered the same objects on two pages in a row, so others may be "
                    "missing",
                    "The store does not list as Azure does.",
                )
            yield page
            last, marker = page, page.next_marker
            if not marker:
                return
            if marker in markers:
                raise IncompleteReadError(
                    f"the listing of {self.root}{prefix} says that there is more but not where ({len(markers)} pages came)",
                    "The store does not list as Azure does.",
                )
            markers.add(marker)

    def _page_body(self, prefix: str, marker: str, *, deep: bool) -> bytes:
        """Ask for one page, and take the answer before the client reads it into its own objects."""

        def take(answer: Any) -> None:
            if answer.http_response.status_code == 200:
                raise _Taken(answer.http_response.body())

        container = self._container
        listing = (container.list_blobs if deep else container.walk_blobs)(
            name_starts_with=self._before + prefix, include=["metadata"], raw_response_hook=take
        )
        try:
            next(listing.by_page(marker or None))
        except _Taken as taken:
            return taken.body
        raise ValueError("neither a page nor an error")

    def children(self, prefix: str) -> tuple[Names, pa.Table]:
        """List one level."""
        pages = list(self._pages(as_prefix(prefix), deep=False))
        prefixes = {name for page in pages for name in page.prefixes}
        return sorted(prefixes), pa.Table.from_batches([page.batch for page in pages], OBJECT_LISTING)

    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        """List everything below a prefix, page by page."""
        return gathered((page.batch for page in self._pages(as_prefix(prefix), deep=True)), LISTING_BATCH_ROWS)

    def head(self, key: str) -> ObjectInfo:
        """Describe one object; a directory of a hierarchical namespace is none."""
        name = self._name(key)
        told = self._ask("head", "head", key, lambda: self._container.get_blob_client(name).get_blob_properties())
        self._refuse_folder("head", key, told.metadata)
        return ObjectInfo(key, told.size, told.last_modified, checksum_of(told.content_settings.content_md5))

    def _refuse_folder(self, action: str, key: str, metadata: Any) -> None:
        if (metadata or {}).get(FOLDER) == "true":
            raise NotFoundError(
                f"{action} {key!r} of {self.root}: it is a directory, and the store has no such object",
                "Look whether it was moved or deleted.",
            )

    def read(self, key: str) -> bytes:
        """Read a whole object, as it is stored, also one that says it is compressed."""
        name = self._name(key)
        data, metadata = self._ask("read", "read", key, lambda: self._whole(name))
        self._refuse_folder("read", key, metadata)
        return data

    def _whole(self, name: str) -> tuple[bytes, Any]:
        """Read by obstore where it may; a token that was refused is shown again by the client, which can renew it."""
        _, clients, container = self._clients()
        reader = clients.reader(self._place.container) if is_plain(f"{self._place.container}/{name}") else None
        was_refused = False
        if reader is not None:
            try:
                return clients.patience.ask(lambda: reader.read(name))
            except OBSTORE_ERRORS as error:
                was_refused = reader.identity is not None and failure_of(error).status == 401
                if not was_refused and not obstore_failure(error).is_for_the_other_client:
                    raise
        stream = container.download_blob(name, decompress=False)
        found = stream.readall(), stream.properties.metadata
        if was_refused and reader is not None and reader.identity is not None:
            # The object is here; a token that cannot be had now is asked for again by the next read.
            with suppress(AzureError):
                reader.identity.renew(refused=True)
        return found

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object."""
        name = self._name(key)

        def part() -> bytes:
            try:
                return self._container.download_blob(name, offset=start, length=length, decompress=False).readall()
            except CLIENT_ERRORS as error:
                if failure_of(error).status == 416:
                    return b""
                raise

        return exact_range(self._ask("read", "read", key, part), self, key, start, length)

    @contextmanager
    def open_source(self, key: str) -> Iterator[BinaryIO]:
        """Bring the object here; what is large goes to a temporary file."""
        name = self._name(key)
        with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as file:
            self._ask("read", "read", key, lambda: self._container.download_blob(name, decompress=False).readinto(file))
            file.seek(0)
            yield cast(BinaryIO, file)

    def put(self, key: str, data: bytes) -> None:
        """Write a whole object."""
        name = self._name(key)
        self._ask("put", "write", key, lambda: self._container.upload_blob(name, data, overwrite=True))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object on the condition that there is none (`If-None-Match: *`)."""
        name = self._name(key)
        self._ask("put", "write", key, lambda: self._container.upload_blob(name, data, overwrite=False))

    @contextmanager
    def open_sink(self, key: str) -> Iterator[BinaryIO]:
        """Gather the object here and send it when the block ends well."""
        name = self._name(key)
        with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as file:
            yield cast(BinaryIO, file)
            length = file.tell()
            file.seek(0)
            self._ask(
                "put", "write", key, lambda: self._container.upload_blob(name, file, length=length, overwrite=True)
            )

    def sight(self, key: str) -> Sight:
        """Describe one object; what Azure tells of its content proves nothing."""
        self._name(key)
        return self._copies.sight(key)

    def transfer(self, source: Sight, target: str) -> None:
        """Copy by the service itself, which may take its time."""
        self._name(source.key), self._name(target)
        self._copies.transfer(source, target)

    def copy(self, source: str, target: str) -> Sight:
        """Copy an object and prove the copy, after an earlier copy to the same place has ended."""
        self._name(target)
        self._copies.settle(target)
        return super().copy(source, target)

    @property
    def _copies(self) -> Copies:
        def ask(action: str, key: str, question: Callable[[], T]) -> T:
            return self._ask(action, action, key, question)

        return Copies(self._container, self.root, self._before, self.options.retry_timeout, ask)

    def delete(self, keys: Sequence[str], *, pace: Pace = unpaced) -> Outcomes:
        """Delete with the store's bulk request, snapshots included; one by one where the store knows none.

        A request that the client sent twice, because the first answer was lost, ends in `already_gone`.
        """
        return delete_in_batches(
            keys,
            lambda some: self._send_deletion(some, pace),
            self.options,
            size=self.delete_batch_size,
            pace=pace,
            unsafe=lambda key: (problem := self._unnameable(key)) and f"the key cannot be named safely: it {problem}",
        )

    def _send_deletion(self, keys: Sequence[str], pace: Pace) -> Mapping[str, Answer]:
        """Send one bulk request, or one for each key; the client itself repeats one that was throttled as a whole."""
        if not self._bulk:
            return one_by_one(keys, self._delete_one, pace)
        container, account = self._container, self._place.account
        answers: list[Any] = []
        more: dict[str, Any] = {"url_prepend": account.name} if account.path_style else {}
        self.requests["delete"] += 1
        failure: Failure | None = None
        try:
            container.delete_blobs(
                *(self._before + key for key in keys),
                delete_snapshots="include",
                raise_on_any_failure=False,
                raw_response_hook=lambda answer: answers.append(answer.http_response),
                **more,
            )
        except CLIENT_ERRORS as error:
            failure = failure_of(error)
        if answers and answers[-1].status_code == _ANSWERED_BY_KEY:
            # Whatever the client made of it, which knows the keys only by position.
            return self._answers_by_key(keys, answers[-1])
        if failure is None:
            return {}
        if failure.status not in _NO_BULK or failure.code == "ContainerNotFound":
            return dict.fromkeys(keys, deletion_answer(failure, again=False))
        self._bulk = False
        pace()
        return one_by_one(keys, self._delete_one, pace)

    @staticmethod
    def _answers_by_key(keys: Sequence[str], answer: Any) -> Mapping[str, Answer]:
        """Read what the store says of each key; a refusal of none in particular holds for those that it does not name.

        That a blob is gone can only be said of one blob: said of none in particular, it confirms nothing.
        """
        found, whole = batch_answers(answer.body(), answer.headers.get("Content-Type", ""), len(keys))
        told: dict[str, Answer] = {}
        for number, key in enumerate(keys):
            said = found.get(number)
            if said is not None and said.status == _ANSWERED_BY_KEY:
                told[key] = Answer("deleted")
            elif said is not None:
                told[key] = deletion_answer(said, again=True)
            elif whole is not None and not whole.absent:
                told[key] = deletion_answer(whole, again=True)
        return told

    def _delete_one(self, key: str) -> Answer:
        container = self._container
        self.requests["delete"] += 1
        try:
            container.delete_blob(self._before + key, delete_snapshots="include")
        except CLIENT_ERRORS as error:
            return deletion_answer(failure_of(error), again=False)
        return Answer("deleted")

    def find_deleted(self, lost: Lost) -> BringBack:
        """Find a blob that soft delete or versions keep."""
        self._name(lost.key)
        return find_deleted(self._copies, lost)

    def undelete_hint(self) -> str | None:
        """Tell for how long soft delete keeps what is deleted, and whether versions do; a sweep needs neither answer."""
        _, clients, container = self._clients()
        found: list[str] = []
        try:
            told = self._ask("head", "ask the properties of", "", clients.service.get_service_properties)
            policy = told.get("delete_retention_policy")
            if policy is not None and policy.enabled:
                found.append(f"has soft delete, so that for {policy.days} days a deleted blob can be undeleted")
        except LakegcError:
            pass  # a hint only, and it takes a right that a sweep does not need: the documentation tells where to look
        try:
            # lakegc's own, written anew by each mark: what was written before versions were on shows none.
            clock = container.get_blob_client(self._before + layout.CLOCK)
            if self._ask("head", "head", layout.CLOCK, clock.get_blob_properties).version_id:
                found.append("keeps versions, so that a deleted blob stays as a previous version until a rule ends it")
        except LakegcError:
            pass  # no mark was made yet, or it may not be asked; as above
        if not found:
            return None
        return f"The account {' and '.join(found)}; what is kept takes up its space."
