"""What the stores on other machines share: names, requests, pages, transfers, deletions, copies.

A store adds its protocol (how to ask for one page, one read, one write, one deletion), its
credentials, and which of these travel to executors.
"""

from __future__ import annotations

import os
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, BinaryIO, ClassVar, Generic, TypeVar, cast

import pyarrow as pa

from spark_core.addresses.collectable import NOT_NAMEABLE_PATTERN
from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage.contract import Names, ObjectStore, OrderedStore
from spark_core.storage.copies import Copies
from spark_core.storage.deletion import KeyAnswer, delete_in_batches, unsafe_name
from spark_core.storage.failures import ClientWords, Explanation
from spark_core.storage.listing_order import behind, gathered, require_in_order
from spark_core.storage.listing_pages import Listed, Page, all_pages
from spark_core.storage.listing_rows import LISTING_BATCH_ROWS, ListedPage, as_prefix
from spark_core.storage.objects import Description
from spark_core.storage.options import StoreOptions
from spark_core.storage.outcomes import Outcomes, Pace, unpaced
from spark_core.storage.ranged_reads import exact_range

T = TypeVar("T")
Clients = TypeVar("Clients")

# How much of a file in transfer stays in memory. The rest goes to the temporary directory.
_SPOOLED_BYTES = 32 << 20

_RANGE_BEHIND_THE_END = 416

_opening = threading.Lock()


class RemoteStore(ObjectStore, Generic[Clients]):
    """A namespace in a bucket or container."""

    # The kind of store and the name of its endpoint's setting, for errors.
    kind: ClassVar[str]
    endpoint: ClassVar[str] = "the endpoint"
    words: ClassVar[ClientWords]

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        super().__init__(namespace, options)
        self._forget()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._forget()

    def _forget(self) -> None:
        """Start afresh in a process: nothing is open, and nothing was seen."""
        self._opened: tuple[int, Clients] | None = None

    @property
    def longest_request(self) -> timedelta | None:
        """Add up what the clients wait for a connection and for an answer."""
        return self.options.connect_timeout + self.options.read_timeout

    @property
    def _clients(self) -> Clients:
        """The clients of this process; a forked process must not share its parent's connections."""
        with _opening:
            if self._opened is None or self._opened[0] != os.getpid():
                self._opened = (os.getpid(), self._open())
            return self._opened[1]

    @property
    @abstractmethod
    def endpoint_url(self) -> str:
        """Where requests go, without user and query."""

    @abstractmethod
    def _open(self) -> Clients:
        """Open the clients."""

    @property
    def _before(self) -> str:
        """What stands before every key: empty, or ending in a slash."""
        return f"{self.namespace.path}/" if self.namespace.path else ""

    def _name(self, key: str) -> str:
        """Return the key in the bucket, if every client and the store take it for the same key.

        Raises:
            AddressError: If they may not.
        """
        if problem := self._unnameable(self.checked_key(key)):
            raise AddressError(
                f"key {key!r} of {self.root} {problem}; it was neither read nor changed",
                "Look at it with the store's own tools.",
            )
        return self._before + key

    def _unnameable(self, key: str) -> str | None:
        """Say why a key cannot be named safely; None if it can."""
        if NOT_NAMEABLE_PATTERN.search(key):
            return "holds a control character, which not every client sends as it is"
        return None

    def _ask(
        self, kind: str, action: str, key: str, question: Callable[[], T], *, again: bool = True
    ) -> T:
        """Ask the store, again if that may help and its client does not do so by itself.

        The project's error is raised outside the handler. Chained to the client's error, it would
        carry URLs, signatures and bodies into logs.

        Args:
            kind: The kind by which the request is counted.
            action: The action, for the error.
            key: Its object, for the error.
            question: Sends the request.
            again: Whether it may be repeated here.
        """
        self.requests[kind] += 1
        try:
            return self._persistently(question) if again else question()
        except self.words.errors as error:
            what, found, step = self._explain(error, action)
            explained = what(f"{action} {key!r} of {self.root}: {found}", step)
        raise explained

    def _persistently(self, question: Callable[[], T]) -> T:
        return question()

    def _ask_about(self, kind: str, action: str, key: str, question: Callable[[], T]) -> T:
        """Ask about one object."""
        return self._ask(kind, action, key, question)

    def _ask_of_copies(self, action: str, key: str, question: Callable[[], T]) -> T:
        return self._ask_about(action, action, key, question)

    def _explain(self, error: Exception, action: str) -> Explanation:
        """Choose the project's error for what a client raised."""
        return self.words.explain(error, self.words.failure_of(error), action)

    @abstractmethod
    def _page(self, listed: Listed, token: str, *, deep: bool, after: str) -> Page:
        """Ask for one page of a listing.

        Args:
            listed: What is listed.
            token: Where the page begins, as the page before said; empty for the first.
            deep: Everything below the prefix, else one level.
            after: A key; the store may leave out what comes before it.
        """

    def _watch(self, listed: Listed) -> Callable[[Page], None]:
        """Return a function that refuses a page that cannot follow those before it."""
        return require_in_order(listed.root + listed.prefix)

    def _listed(self, prefix: str) -> Listed:
        return Listed(self.root, self._before, prefix, self.kind, self.endpoint)

    def _pages(self, prefix: str, *, deep: bool = True, after: str = "") -> Iterator[Page]:
        """Ask for the pages of a listing, one after the other."""
        listed = self._listed(as_prefix(prefix))
        return all_pages(
            listed, partial(self._page, listed, deep=deep, after=after), self._watch(listed)
        )

    def children(self, prefix: str) -> tuple[Names, pa.Table]:
        """List one level."""
        pages = [*self._pages(prefix, deep=False)]
        prefixes = {name for page in pages for name in page.prefixes}
        return sorted(prefixes), pa.Table.from_batches(
            [page.rows for page in pages], OBJECT_LISTING
        )

    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        """List everything below a prefix, page by page."""
        return gathered((page.rows for page in self._pages(prefix)), LISTING_BATCH_ROWS)

    @abstractmethod
    def _whole(self, name: str) -> bytes:
        """Read a whole object by its name in the bucket, as it is stored."""

    @abstractmethod
    def _part(self, name: str, start: int, length: int) -> bytes:
        """Read a part of an object; the result may be shorter, and its length is checked."""

    @abstractmethod
    def _bring(self, name: str, file: BinaryIO) -> None:
        """Download an object into a file, from the file's beginning."""

    @abstractmethod
    def _send(self, name: str, content: bytes | BinaryIO, size: int, *, is_new: bool) -> None:
        """Write an object whole; `is_new` is the condition that none exists."""

    def read(self, key: str) -> bytes:
        """Read a whole object."""
        name = self._name(key)
        return self._ask_about("read", "read", key, lambda: self._whole(name))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object."""
        name = self._name(key)

        def part() -> bytes:
            try:
                return self._part(name, start, length)
            except self.words.errors as error:
                if self.words.failure_of(error).status == _RANGE_BEHIND_THE_END:
                    return b""
                raise

        return exact_range(
            self._ask_about("read", "read", key, part), self.root, key, start, length
        )

    @contextmanager
    def open_source(self, key: str) -> Iterator[BinaryIO]:
        """Download the object; a large one goes to a temporary file."""
        name = self._name(key)
        with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as spooled:
            file = cast(BinaryIO, spooled)
            self._ask_about("read", "read", key, lambda: self._bring(name, file))
            file.seek(0)
            yield file

    def put(self, key: str, data: bytes) -> None:
        """Write a whole object."""
        self._put(key, data, len(data))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object on the condition that none exists."""
        self._put(key, data, len(data), is_new=True)

    @contextmanager
    def open_sink(self, key: str) -> Iterator[BinaryIO]:
        """Gather the object here, and send it when the block ends well."""
        self._name(key)
        with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as spooled:
            file = cast(BinaryIO, spooled)
            yield file
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            self._put(key, file, size)

    def _put(self, key: str, content: bytes | BinaryIO, size: int, *, is_new: bool = False) -> None:
        name = self._name(key)
        # The clients themselves know whether they can send a partly sent content again.
        self._ask(
            "put", "write", key, lambda: self._send(name, content, size, is_new=is_new), again=False
        )

    @property
    @abstractmethod
    def _copies(self) -> Copies:
        """What makes copies in the bucket."""

    def describe(self, key: str) -> Description:
        """Describe one object, with what the store knows of its content."""
        self._name(key)
        return self._copies.describe(key)

    def transfer(self, source: Description, target: str) -> None:
        """Let the store copy by itself."""
        self._name(source.key), self._name(target)
        self._copies.transfer(source, target)

    def delete(self, keys: Sequence[str], *, pace: Pace = unpaced) -> Outcomes:
        """Delete with the store's bulk request."""
        return delete_in_batches(
            keys,
            lambda some: self._send_deletion(some, pace),
            self.options,
            size=self.delete_batch_size,
            pace=pace,
            unsafe=self._unsafe_name,
        )

    def _unsafe_name(self, key: str) -> str | None:
        return unsafe_name(key)

    @abstractmethod
    def _send_deletion(self, keys: Sequence[str], pace: Pace) -> Mapping[str, KeyAnswer]:
        """Send one request, paced before; see `deletion.Send`."""


class OrderedRemoteStore(RemoteStore[Clients], OrderedStore):
    """A remote store that lists from any name on."""

    def pages(self, prefix: str, *, after: str = "") -> Iterator[ListedPage]:
        """List everything below a prefix in the order of names."""
        for page in self._pages(prefix, after=after):
            yield ListedPage(behind(page.rows, after), is_last=page.next is None)
