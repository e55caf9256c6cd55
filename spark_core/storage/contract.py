"""What every object store can do here, and the values that go in and out.

A store is rooted at one storage namespace: keys are relative to it, without a leading slash. It
travels to executors by pickle and opens its clients there, on first use. It never turns an error
into an empty answer: it raises for what it cannot name or cannot read to the end.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, BinaryIO, ClassVar, Literal, TypeAlias

import pyarrow as pa

from spark_core.addresses.collectable import FOLDED_SEGMENT_PATTERN, NOT_NAMEABLE
from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError, IncompleteReadError, NotFoundError
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage import parquet
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.copies import copied
from spark_core.storage.objects import Description, ObjectInfo
from spark_core.storage.small_files import SmallFiles
from spark_core.storage.undelete import BringBack, Lost

# Rows of one batch of a listing: big enough for Arrow to pay, a few megabytes at most.
LISTING_BATCH_ROWS = 10_000
# How the name of every directory bucket of S3 ends (user guide, "Directory bucket naming rules").
DIRECTORY_BUCKET = "--x-s3"

Outcome = Literal["deleted", "already_gone", "refused", "failed"]
Carry = Literal["never", "auto", "always"]
# Inside the stores `list` is a method.
Names: TypeAlias = list[str]


@dataclass(frozen=True)
class StoreOptions:
    """How this machine reaches the stores; credentials never show in `repr`.

    Attributes:
        local_path: Where this machine sees the server's local blockstore, the root of all
            `local://` namespaces.
        s3_endpoint: URL of an S3-compatible store; None means AWS, or what the AWS environment and
            configuration files say.
        s3_own_endpoint_only: Whether to ignore the endpoints of the AWS environment and
            configuration files. Another machine's may differ from those of the machine these
            options come from.
        s3_region: Region of the bucket; found by asking the bucket when None.
        s3_access_key_id: Explicit credentials; without them the usual AWS chain is used
            (environment, profile, instance role).
        s3_secret_access_key: Belongs to the key id.
        s3_session_token: Belongs to temporary credentials.
        s3_profile: Profile of the AWS configuration files.
        s3_path_style: Whether the bucket stands in the path of the URL rather than in the host.
        s3_role_arn: Role to assume with those credentials.
        s3_sts_endpoint: URL of the token service that knows the role; None means AWS's, or what the
            AWS environment says.
        azure_endpoint: URL of an account that is reached elsewhere than its namespaces say, such as
            an emulator's `http://127.0.0.1:10000/ACCOUNT`.
        azure_account_key: Explicit credentials; without any of these the usual Azure chain is used
            (environment, workload or managed identity, `az login`).
        azure_sas_token: A shared access signature instead.
        azure_tenant_id: Tenant of a service principal, used instead.
        azure_client_id: Id of the service principal; alone, it names the managed identity to use.
        azure_client_secret: Secret of the service principal.
        gcs_endpoint: URL of a GCS emulator or private endpoint; None means Google's.
        gcs_service_account_file: Key file of a service account; without it the usual Google chain
            is used.
        gcs_service_account_key: Content of such a file; it reaches machines that do not have the
            file.
        carry_credentials: Which of this machine's own credentials go along when a store is sent to
            another machine: none; all but the identities that a machine has by itself (roles,
            managed identity, metadata server) and renews; or all.
        allow_http: Whether an endpoint without TLS is accepted.
        connect_timeout: Limit of one connection attempt.
        read_timeout: Limit of one request, its body included.
        max_retries: How often a request that failed for a passing reason is sent again.
        retry_timeout: Time after which a request is not sent again.

    Examples:
        >>> options = StoreOptions(s3_access_key_id="key", s3_secret_access_key="secret-key")
        >>> "secret-key" in repr(options)
        False
    """

    local_path: str | None = None
    s3_endpoint: str | None = None
    s3_own_endpoint_only: bool = False
    s3_region: str | None = None
    s3_access_key_id: str | None = field(default=None, repr=False)
    s3_secret_access_key: str | None = field(default=None, repr=False)
    s3_session_token: str | None = field(default=None, repr=False)
    s3_profile: str | None = None
    s3_path_style: bool = True
    s3_role_arn: str | None = None
    s3_sts_endpoint: str | None = None
    azure_endpoint: str | None = None
    azure_account_key: str | None = field(default=None, repr=False)
    azure_sas_token: str | None = field(default=None, repr=False)
    azure_tenant_id: str | None = None
    azure_client_id: str | None = None
    azure_client_secret: str | None = field(default=None, repr=False)
    gcs_endpoint: str | None = None
    gcs_service_account_file: str | None = None
    gcs_service_account_key: str | None = field(default=None, repr=False)
    carry_credentials: Carry = "never"
    allow_http: bool = False
    connect_timeout: timedelta = timedelta(seconds=10)
    read_timeout: timedelta = timedelta(minutes=2)
    max_retries: int = 8
    retry_timeout: timedelta = timedelta(minutes=3)


@dataclass(frozen=True)
class WrittenFile:
    """A Parquet file that was written.

    Attributes:
        key: Relative to the namespace.
        rows: Number of rows in it.
        size_bytes: Length of the file.
        sha256: Of the bytes that were sent, in hex.
    """

    key: str
    rows: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class DeleteOutcome:
    """What happened to one key of a deletion.

    Attributes:
        key: As it was given.
        outcome: What the store answered. `deleted`; `already_gone` if the store tells that apart;
            `refused` if the deletion is not allowed (a permission, a lock, expired credentials), or
            if lakegc did not ask because the key cannot be named safely; `failed` if the store
            could not or did not confirm, also when asked again.
        error: The reason, for `refused` and `failed`.
    """

    key: str
    outcome: Outcome
    error: str | None = None


Outcomes: TypeAlias = list[DeleteOutcome]


@dataclass(frozen=True)
class ListedPage:
    """One answer to a listing.

    Attributes:
        rows: Columns of `schemas.OBJECT_LISTING`; there may be none.
        is_last: Whether nothing comes after them.
    """

    rows: pa.RecordBatch
    is_last: bool


class Pace:
    """What a store asks before each request of a deletion; here, one that never waits."""

    def __call__(self) -> None:
        """Wait until the request may be sent; an error of it ends the deletion."""

    def busy(self, keys: int | None = None) -> None:
        """Learn that the store could not take some keys of the last request; None: all of them."""


unpaced = Pace()


class ObjectStore(ABC):
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
    def read(self, key: str) -> bytes:
        """Read a whole object."""

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
    def describe(self, key: str) -> Description:
        """Describe one object with what is needed to compare and recognize it."""

    @abstractmethod
    def transfer(self, source: Description, target: str) -> None:
        """Let the store copy an object to a free key, without a proof; `copy` gives one.

        Args:
            source: The object as seen. A store that can be given this condition copies only that.
            target: A free key. A store that can be given this condition overwrites nothing there.

        Raises:
            ObjectExistsError: If there is an object at the target.
            TransientError: Also if the source was written again.
        """

    def copy(self, source: str, target: str) -> Description:
        """Copy an object inside the store, and prove that the copy has the same content.

        Args:
            source: Key of an object.
            target: A free key.

        Returns:
            The copy.

        Raises:
            ObjectExistsError: If there is an object at the target; it is left as it is.
            TransientError: Also if the source changed meanwhile, or the copy is not equal to the
                source; an unequal copy is deleted.
        """
        return copied(self, source, target)

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

    @abstractmethod
    def open_sink(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Open an object for writing in one pass; it appears whole, if the block ends well."""

    @abstractmethod
    def open_source(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Open an object for reading with seeks, without holding a large one in memory."""

    def write_parquet(
        self, key: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> WrittenFile:
        """Write batches as one Parquet file (zstd), one row group in memory at a time.

        Args:
            key: Where; replaced when it exists.
            batches: Each with exactly the columns of `schema`.
            schema: Columns of the file; written even when there are no batches.

        Returns:
            What was written, with the sha256 of the bytes sent.
        """
        with self.open_sink(key) as sink:
            rows, size_bytes, sha256, data = parquet.write(sink, batches, schema)
        if data is not None:
            self.small_files.keep(key, data)
        return WrittenFile(key, rows, size_bytes, sha256)

    def read_unchanging(self, key: str, *, again: bool = False) -> bytes:
        """Read a file that nobody changes under its name; a small one once while a run is marked.

        The caller compares the bytes with a hash that was stored elsewhere.

        Args:
            key: A name that no other file ever gets.
            again: It will be read again soon, so a larger one is remembered, too.
        """
        data = self.small_files.get(key)
        if data is None:
            data = self.read(key)
            self.small_files.keep(key, data, again=again)
        return data

    def read_parquet(self, key: str) -> Iterator[pa.RecordBatch]:
        """Read a Parquet file in batches.

        Args:
            key: Which file.

        Yields:
            Batches of at most `parquet.BATCH_ROWS` rows.

        Raises:
            CorruptTableError: If it is no sound Parquet file.
        """
        with self._unchanging(key) as source:
            yield from parquet.read(source, f"{self.root}{key}")

    def parquet_footer(self, key: str) -> tuple[pa.Schema, int]:
        """Read the columns of a Parquet file, and the number of its rows, from its end.

        Raises:
            CorruptTableError: If it is no sound Parquet file.
        """
        with self._unchanging(key) as source:
            return parquet.footer(source, f"{self.root}{key}")

    @contextmanager
    def _unchanging(self, key: str) -> Iterator[BinaryIO]:
        """Open a Parquet file, whose name no other file ever gets; see `read_unchanging`."""
        data = self.small_files.get(key)
        if data is not None:
            yield io.BytesIO(data)
            return
        with self.open_source(key) as source:
            if self.small_files.takes(source.seek(0, io.SEEK_END)):
                source.seek(0)
                self.small_files.keep(key, source.read())
            source.seek(0)
            yield source

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


def as_prefix(prefix: str) -> str:
    """Return the prefix with a slash at its end, empty for the root."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def listing_batch(
    keys: Sequence[str] | pa.Array,
    sizes: Sequence[int] | pa.Array,
    modified: pa.Array,
    checksums: pa.Array | None = None,
    classes: pa.Array | None = None,
) -> pa.RecordBatch:
    """Put columns of a listing together as `schemas.OBJECT_LISTING`.

    Raises:
        UnicodeEncodeError: If a key cannot be written as UTF-8.
    """
    absent = pa.nulls(len(keys), pa.string())
    return pa.record_batch(
        [
            pa.array(keys, pa.string()),
            pa.array(sizes, pa.int64()),
            modified,
            absent if checksums is None else checksums,
            absent if classes is None else classes,
        ],
        OBJECT_LISTING,
    )


def exact_range(data: bytes, store: ObjectStore, key: str, start: int, length: int) -> bytes:
    """Return the result of a ranged read if it has the length asked for.

    Raises:
        IncompleteReadError: If it is shorter: a part must never pass for the whole.
    """
    if len(data) != length:
        raise IncompleteReadError(
            f"{store.root}{key} ends before byte {start + length}: {len(data)} of the {length} "
            f"bytes from {start} came",
            "The object was cut off or replaced: compare its size with what refers to it, and run "
            "again.",
        )
    return data
