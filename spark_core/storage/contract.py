"""What every object store can do here, and the values that go in and out.

A store is rooted at one storage namespace: keys are relative to it, without a
leading slash. It travels to executors by pickle and opens its clients there,
on first use. It never answers an error with emptiness: what it cannot read to
the end, or cannot name, it raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, BinaryIO, ClassVar, Literal, TypeAlias

import pyarrow as pa

from spark_core.addresses.collectable import FOLDED_SEGMENT_PATTERN, NOT_NAMEABLE
from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError, IncompleteReadError, NotFoundError
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage import parquet
from spark_core.storage.copies import Sight, copied
from spark_core.storage.undo import BringBack, Lost, UndeleteOutcome, undeleted

# Rows of one batch of a listing: big enough for Arrow to pay, a few megabytes at most.
LISTING_BATCH_ROWS = 10_000

Outcome = Literal["deleted", "already_gone", "refused", "failed"]
Carry = Literal["never", "auto", "always"]
# Called before each request of a deletion; it may wait, so that a limit is kept.
Pace: TypeAlias = Callable[[], None]
# Inside the stores `list` is a method.
Names: TypeAlias = list[str]


@dataclass(frozen=True)
class StoreOptions:
    """How this machine reaches the stores; credentials never show in `repr`.

    Attributes:
        local_path: Where this machine sees the server's local blockstore, the
            root of all `local://` namespaces.
        s3_endpoint: URL of an S3-compatible store; None means AWS or what the
            AWS environment and configuration files say.
        s3_own_endpoint_only: Whether what the AWS environment and configuration files say of endpoints is passed over: on
            another machine they may say something else than where these options come from.
        s3_region: Region of the bucket; found by asking the bucket when None.
        s3_access_key_id: Explicit credentials; without them the usual AWS chain is used
            (environment, profile, instance role).
        s3_secret_access_key: Belongs to the key id.
        s3_session_token: Belongs to temporary credentials.
        s3_profile: Profile of the AWS configuration files.
        s3_path_style: Whether the bucket stands in the path of the URL rather than in the host.
        s3_role_arn: Role to assume with those credentials.
        s3_sts_endpoint: URL of the token service that knows the role; None means AWS's, or what the AWS environment says.
        azure_endpoint: URL of an account that is reached elsewhere than its namespaces say, such as an emulator's
            `http://127.0.0.1:10000/ACCOUNT`.
        azure_account_key: Explicit credentials; without any of these the usual Azure chain is used
            (environment, workload or managed identity, `az login`).
        azure_sas_token: A shared access signature instead.
        azure_tenant_id: A service principal instead: its tenant ...
        azure_client_id: ... its id; alone, which managed identity is meant ...
        azure_client_secret: ... and its secret.
        gcs_endpoint: URL of a GCS emulator or private endpoint; None means Google's.
        gcs_service_account_file: Key file of a service account; without it the usual Google chain is used.
        gcs_service_account_key: What such a file holds; how it reaches machines that do not have the file.
        carry_credentials: What of this machine's own credentials goes along when a store is sent to another one (see
            `spark_core.storage.credentials`): nothing, all but machine identities, or everything.
        allow_http: Whether an endpoint without TLS is accepted.
        connect_timeout: For one connection.
        read_timeout: For one request, its body included.
        max_retries: How often a request that failed for a passing reason is sent again.
        retry_timeout: After which a request is not sent again.
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
class ObjectInfo:
    """One object as the store describes it.

    Attributes:
        key: Relative to the namespace.
        size_bytes: Length of the content.
        last_modified: Aware instant in UTC.
        checksum: MD5 of the content in hex where the store gives it, else None.
    """

    key: str
    size_bytes: int
    last_modified: datetime
    checksum: str | None = None


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
        outcome: What the store answered: `deleted`; `already_gone` where the store tells that apart; `refused`
            when it may not be (a permission, a lock, expired credentials), or when lakegc did not ask because the key
            cannot be named safely; `failed` when the store could not or did not confirm, also when asked again.
        error: Why, for the last two.
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
        is_last: Whether nothing comes behind them.
    """

    rows: pa.RecordBatch
    is_last: bool


def unpaced() -> None:
    """Do not wait."""


class ObjectStore(ABC):
    """An object store rooted at a storage namespace.

    Attributes:
        namespace: What it is rooted at.
        options: How it is reached.
        requests: Requests by kind (list, read, head, put, copy, delete) that this
            process sent; it does not travel with the store.
    """

    # How many keys one request of the store's own bulk delete takes.
    delete_batch_size: ClassVar[int] = 1000
    # Pattern (as `collectable.arrow_pattern` takes it) of keys that some client, server or file system would take for other
    # ones: counted and shown, never candidates, never asked to be deleted. A store that folds more names has a longer one.
    unsafe_names: ClassVar[str] = NOT_NAMEABLE
    # Whether `content` tells a checksum that the store itself made of the content, and no client said.
    tells_content: ClassVar[bool] = False
    # What a policy must allow for `delete`, in the store's own words.
    delete_permission: ClassVar[str] = "the deletion of objects"
    # Which request `delete` sends, in the store's own words.
    delete_request: ClassVar[str] = "the store's own deletions"

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        self.namespace = namespace
        self.options = options
        self.requests: Counter[str] = Counter()

    @property
    def root(self) -> str:
        """Absolute URI of the namespace, for people."""
        return self.namespace.root

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what belongs to one process: open clients and the counts; take along the credentials of this moment."""
        from spark_core.storage.credentials import travelling

        return {"namespace": self.namespace, "options": travelling(self.options, self.namespace)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ObjectStore.__init__(self, state["namespace"], state["options"])

    @abstractmethod
    def children(self, prefix: str) -> tuple[Names, pa.Table]:
        """List one level.

        Args:
            prefix: Directory-like prefix; a slash at its end is added when missing, empty means the root.

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
            Columns of `schemas.OBJECT_LISTING`, each key once, no order; nothing when there is no such prefix.

        Raises:
            IncompleteReadError: If the listing cannot be read to its end or holds
                a key that cannot be told exactly; what was yielded before must be dropped then.
        """

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Describe one object.

        Raises:
            NotFoundError: If there is no such object.
        """

    def content(self, key: str) -> ObjectInfo:
        """Describe one object, with a checksum only where it depends on nothing but the content.

        Raises:
            NotFoundError: If there is no such object.
        """
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
        """Read a whole object.

        Raises:
            NotFoundError: If there is no such object.
            PermissionDeniedError: If the store refuses.
            TransientError: If the store does not answer, after retries.
        """

    @abstractmethod
    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from offset `start`.

        Raises:
            IncompleteReadError: If the object ends before.
            NotFoundError: If there is no such object.
        """

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write a whole object, replacing what was there; readers see the old or the new one, nothing between."""

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object that must not exist yet; of several writers one wins.

        Raises:
            ObjectExistsError: If it exists. A request that the client sent twice
                because the first answer was lost ends so too: read the object to see whose it is.
        """

    @abstractmethod
    def sight(self, key: str) -> Sight:
        """Describe one object so that it can be compared and recognized.

        Raises:
            NotFoundError: If there is no such object.
        """

    @abstractmethod
    def transfer(self, source: Sight, target: str) -> None:
        """Let the store copy an object to a key where none is, without a proof: `copy` gives that.

        Args:
            source: Only what was seen is copied, where the store can be told so.
            target: Key where nothing may be overwritten, as far as the store can be told so.

        Raises:
            ObjectExistsError: If there is an object at the target.
            NotFoundError: If the source is gone.
            TransientError: If the source was written again, or the store could not.
        """

    def copy(self, source: str, target: str) -> Sight:
        """Copy an object inside the store, and prove that the copy has the same content.

        Args:
            source: Key of an object.
            target: Key of none.

        Returns:
            The copy.

        Raises:
            ObjectExistsError: If there is an object at the target; it is left as it is.
            NotFoundError: If there is no such source.
            TransientError: If the copy is not equal to the source, or the source changed meanwhile; a wrong copy is
                taken away again.
        """
        return copied(self, source, target)

    @abstractmethod
    def delete(self, keys: Sequence[str], *, pace: Pace = unpaced) -> Outcomes:
        """Delete objects and say of each what the store answered.

        Never raises for what the store says: a sweep needs the outcome of every
        key. What the store could not do at that moment is asked for again, in bounds
        (see `deletion.delete_in_batches`, which does all that is not the store's own).

        Args:
            keys: Any number; sent in requests of `delete_batch_size`.
            pace: Called before each such request, repeated ones too.

        Returns:
            One outcome per key, in the order given.
        """

    def probe_delete(self, key: str) -> DeleteOutcome:
        """Ask to delete a name that nobody has: what the store says tells whether it would let go of one that exists.

        Args:
            key: Of no object, and made so that it never will be.
        """
        return self.delete([key])[0]

    def undelete_hint(self) -> str | None:
        """Tell people how deleted objects come back here, where the store keeps them for a while.

        Returns:
            One sentence (versioning, soft delete and for how long); None if the store cannot bring anything back or
            does not tell, for lack of a permission for instance.
        """
        return None

    def find_deleted(self, lost: Lost) -> BringBack:
        """Find a deleted object that the store still keeps.

        Args:
            lost: What is known of it.

        Returns:
            Brings it back when it is called, and never over an object that exists.

        Raises:
            NotFoundError: If the store keeps nothing of it; the text says why and what would have helped.
        """
        raise NotFoundError(
            f"{self.root}{lost.key} is gone: this kind of store keeps nothing that was deleted. With quarantine = true a sweep "
            "moves objects aside instead."
        )

    def undelete(self, lost: Sequence[Lost], *, dry_run: bool = False) -> Sequence[UndeleteOutcome]:
        """Bring deleted objects back where the store keeps them, and prove that each is there again.

        Never raises for what the store says, and never replaces an object.

        Args:
            lost: What was deleted.
            dry_run: Only say which could come back.

        Returns:
            One outcome per object, in the order given.
        """
        return [undeleted(self, one, dry_run=dry_run) for one in lost]

    @abstractmethod
    def open_sink(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Open an object for writing in one pass; it appears whole when the block ends well, else not at all."""

    @abstractmethod
    def open_source(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Open an object for reading with seeks, without holding a large one in memory."""

    def write_parquet(self, key: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> WrittenFile:
        """Write batches as one Parquet file (zstd), one row group in memory at a time.

        Args:
            key: Where; replaced when it exists.
            batches: Each with exactly the columns of `schema`.
            schema: Columns of the file; written even when there are no batches.

        Returns:
            What was written, with the sha256 of the bytes sent.
        """
        with self.open_sink(key) as sink:
            rows, size_bytes, sha256 = parquet.write(sink, batches, schema)
        return WrittenFile(key, rows, size_bytes, sha256)

    def read_parquet(self, key: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read a Parquet file in batches.

        Args:
            key: Which file.
            columns: Names to read, all when None.

        Yields:
            Batches of at most `parquet.BATCH_ROWS` rows.

        Raises:
            CorruptTableError: If it is no sound Parquet file or lacks a column.
            NotFoundError: If there is no such object.
        """
        with self.open_source(key) as source:
            yield from parquet.read(source, f"{self.root}{key}", columns)

    def parquet_footer(self, key: str) -> tuple[pa.Schema, int]:
        """Read the columns of a Parquet file, and the number of its rows, from its end.

        Raises:
            CorruptTableError: If it is no sound Parquet file.
            NotFoundError: If there is no such object.
        """
        with self.open_source(key) as source:
            return parquet.footer(source, f"{self.root}{key}")

    def checked_key(self, key: str) -> str:
        """Return the key when it names exactly one object.

        Raises:
            AddressError: If it is empty, holds a NUL, or has segments that a client would fold or trim.
        """
        if "\0" in key or FOLDED_SEGMENT_PATTERN.search(key):
            raise AddressError(
                f"key {key!r} of {self.root} is empty or has an empty, `.` or `..` segment or a NUL, so not every client "
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
            after: A key, whether there is such an object or not; only keys greater than it, byte by byte, are told.

        Yields:
            A page for each request, at least one; what `list` yields when nothing is left out.

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
) -> pa.RecordBatch:
    """Put columns of a listing together as `schemas.OBJECT_LISTING`.

    Raises:
        UnicodeEncodeError: If a key cannot be written as UTF-8.
    """
    absent = pa.nulls(len(keys), pa.string()) if checksums is None else checksums
    return pa.record_batch([pa.array(keys, pa.string()), pa.array(sizes, pa.int64()), modified, absent], OBJECT_LISTING)


def exact_range(data: bytes, store: ObjectStore, key: str, start: int, length: int) -> bytes:
    """Return what a ranged read brought when it is as long as asked for.

    Raises:
        IncompleteReadError: If it is shorter: a part must never pass for the whole.
    """
    if len(data) != length:
        raise IncompleteReadError(
            f"{store.root}{key} ends before byte {start + length}: {len(data)} of the {length} bytes from {start} came",
            "The object was cut off or replaced: compare its size with what refers to it, and run again.",
        )
    return data
