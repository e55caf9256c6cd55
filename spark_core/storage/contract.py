"""What every object store can do here, and the values that go in and out.

A store is rooted at one storage namespace: keys are relative to it, without a leading slash. It
travels to executors by pickle and opens its clients there, on first use. It never turns an error
into an empty answer: it raises for what it cannot name or cannot read to the end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from spark_core.addresses.collectable import FOLDED_SEGMENT_PATTERN, NOT_NAMEABLE
from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError, NotFoundError
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.copies import CopyingStore
from spark_core.storage.listing_rows import ListedPage
from spark_core.storage.objects import ObjectInfo
from spark_core.storage.options import StoreOptions
from spark_core.storage.outcomes import DeleteOutcome, Outcomes, Pace, unpaced
from spark_core.storage.small_files import SmallFiles
from spark_core.storage.unchanging_files import UnchangingFiles
from spark_core.storage.undelete import BringBack, Lost

# Inside the stores `list` is a method.
Names: TypeAlias = list[str]


class ObjectStore(UnchangingFiles, CopyingStore):
    """An object store rooted at a storage namespace.

    Every method that takes a key raises AddressError if it is no key (see `checked_key`),
    NotFoundError if there is no such object, PermissionDeniedError if the store refuses, and
    TransientError if it does not answer, after retries. The methods list only their further errors.

    Attributes:
        namespace: The root of the store.
        options: How it is reached.
        requests: Requests by kind (list, read, head, put, copy, delete) that this process sent;
            they do not travel with the store, nor do the small files.
        small_files: Small files that `read_unchanging` need not ask for again.

    Examples:
        >>> [len(page) for page in run.store.list("data/")]
        [2]
        >>> run.store.read(live)
        b'three'
    """

    # How many keys one request of the store's bulk delete takes.
    delete_batch_size: ClassVar[int] = 1000
    # Pattern (as `collectable.arrow_pattern` takes it) of keys that some client, server or file
    # system would take for other ones. Such keys are counted and shown; they are never candidates
    # and never asked to be deleted. A store that folds more names has a longer pattern.
    unsafe_names: ClassVar[str] = NOT_NAMEABLE
    # Whether `content` returns a checksum that the store made of the content, not one a client
    # gave.
    tells_content: ClassVar[bool] = False
    # Whether a listing's checksums are those that `content` returns.
    lists_content: ClassVar[bool] = False
    # What a policy must allow for `delete`, in the store's own words.
    delete_permission: ClassVar[str] = "the deletion of objects"
    # Which request `delete` sends, in the store's own words.
    delete_request: ClassVar[str] = "the store's own deletions"

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        self.namespace = namespace
        self.options = options
        self.requests: Counter[str] = Counter()
        self.small_files = SmallFiles()

    @property
    def root(self) -> str:
        """Absolute URI of the namespace, to be shown."""
        return self.namespace.root

    @property
    def endpoint_url(self) -> str:
        """Where requests go, without user and query; empty for files of this machine."""
        return ""

    @property
    def longest_request(self) -> timedelta | None:
        """How long a request may be under way whose process has ended; None if nobody can tell.

        As long as the process itself would have waited for an answer, before it went on with the
        same object. Nobody repeats the request.
        """
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Keep only what another process can use: no clients, no counts, the credentials of now.

        Executors of a cluster have neither the driver's environment nor its files, so the
        credentials found there go along. They never become a Spark property, which Spark shows in
        its UI and writes to its event log.
        """
        options = self.options
        if options.carry_credentials != "never":
            options = replace(options, **self._carried(), carry_credentials="never")
        return {"namespace": self.namespace, "options": options}

    def _carried(self) -> dict[str, Any]:
        """Find the credentials that another machine needs, by the names of `StoreOptions`."""
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ObjectStore.__init__(self, state["namespace"], state["options"])

    @abstractmethod
    def children(self, prefix: str) -> tuple[Names, pa.Table]:
        """List one level.

        Args:
            prefix: Directory-like prefix; a slash at its end is added when missing, empty means the
                root.

        Returns:
            The prefixes directly below (whole, ending in a slash, sorted), and the
            objects directly there (columns of `schemas.OBJECT_LISTING`, no order).

        Raises:
            IncompleteReadError: If anything there cannot be listed or named.
        """

    @abstractmethod
    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        """List everything below a prefix, in batches, however deep.

        Args:
            prefix: As for `children`.

        Yields:
            Columns of `schemas.OBJECT_LISTING`, each key once, no order; nothing when there is no
            such prefix.

        Raises:
            IncompleteReadError: If the listing cannot be read to its end or holds a key that cannot
                be named exactly. The caller must then drop what was yielded before.
        """

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Describe one object."""

    def written_at(self, key: str) -> datetime:
        """Tell when an object that nobody changes was last written.

        Where the answer brings the bytes as well, those of a small one are remembered as
        `read_unchanging` does, for whoever reads it next.
        """
        return self.head(key).last_modified

    def content(self, key: str) -> ObjectInfo:
        """Describe one object, with a checksum only if it depends on nothing but the content."""
        return self.head(key)

    def exists(self, key: str) -> bool:
        """Say whether there is such an object."""
        try:
            self.head(key)
        except NotFoundError:
            return False
        return True

    @abstractmethod
    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from offset `start`.

        Raises:
            IncompleteReadError: If the object ends before.
        """

    def link(self, key: str, life: timedelta) -> str | None:  # noqa: ARG002 - for other stores
        """Return a URL by which a browser reads a page until its life ends; None if none is signed.

        Whoever has it needs no credentials.

        Args:
            key: A page of HTML.
            life: How long it is to be good; credentials that end before end it, too.
        """
        return None

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write a whole object, replacing any; readers see the old one or the new one."""

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object that must not exist yet; of several writers one wins.

        Raises:
            ObjectExistsError: If it exists. A request that the client sent twice, because the first
                answer was lost, ends so too: read the object to see whose it is.
        """

    @abstractmethod
    def delete(self, keys: Sequence[str], *, pace: Pace = unpaced) -> Outcomes:
        """Delete objects and say of each what the store answered.

        Never raises for what the store says: a sweep needs the outcome of every key.

        Args:
            keys: Any number; sent in requests of `delete_batch_size`.
            pace: Called before each such request, repeated ones too (see
                `deletion.delete_in_batches`).

        Returns:
            One outcome per key, in the order given.
        """

    def probe_delete(self, key: str) -> DeleteOutcome:
        """Ask to delete a name that no object has, to learn whether the store allows deletions.

        Args:
            key: Names no object, and is made so that it never will.
        """
        return self.delete([key])[0]

    def undelete_hint(self) -> str | None:
        """Say in a sentence how deleted objects come back here; None if they do not, or unknown."""
        return None

    def after_deletion(self) -> AfterDeletion:
        """Read whether versions or soft delete keep what is deleted here; no error, but `None`.

        An `undelete_hint` takes silence for no; this does not.
        """
        return AfterDeletion(None, f"{self.root} does not say whether it keeps deleted objects")

    def find_deleted(self, lost: Lost) -> BringBack:
        """Find a deleted object that the store still keeps.

        Returns:
            A function that brings the object back, and never over an existing object.

        Raises:
            NotFoundError: If the store keeps nothing of it; the text says why and what would have
                helped.
        """
        raise NotFoundError(
            f"{self.root}{lost.key} is gone: this kind of store keeps nothing that was deleted. "
            "With quarantine = true a sweep "
            "moves objects aside instead."
        )

    def checked_key(self, key: str) -> str:
        """Return the key when it names exactly one object.

        Raises:
            AddressError: If it is empty, holds a NUL, or has segments that a client would fold or
                trim.
        """
        if "\0" in key or FOLDED_SEGMENT_PATTERN.search(key):
            raise AddressError(
                f"key {key!r} of {self.root} is empty or has an empty, `.` or `..` segment or a "
                "NUL, so not every client "
                "would take it for the same object; it was neither read nor changed",
                "Look at such an object with the store's own tools.",
            )
        return key


class OrderedStore(ObjectStore):
    """A store that lists by the bytes of the names, and from any name on."""

    @abstractmethod
    def pages(self, prefix: str, *, after: str = "") -> Iterator[ListedPage]:
        """List everything below a prefix in the order of names, page by page.

        Args:
            prefix: As for `children`.
            after: A key, which need not exist; only keys greater than it, byte by byte, are listed.

        Yields:
            A page for each request, at least one. Without `after` the pages hold what `list`
            yields.

        Raises:
            IncompleteReadError: As `list` does.
        """
