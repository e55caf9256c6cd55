"""The repository under examination, and what is known of it so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, TypeVar

from spark_core.addresses.namespace import Namespace
from spark_core.doctor.questions import UnknownError
from spark_core.lakefs import Clock, LakeFSServer, ServerOptions, SystemClock
from spark_core.lakefs.permissions import Permissions
from spark_core.model import Branch, Repository
from spark_core.run import RunOptions, Storage, known_endpoint
from spark_core.spark.session import Session
from spark_core.storage import ObjectStore
from spark_core.storage.inventory import Inventory

T = TypeVar("T")

# Somebody waits for the answers, so a slow answer is a finding itself.
_LONGEST_CONNECT = timedelta(seconds=5)
_LONGEST_ANSWER = timedelta(seconds=30)


class Fact(Generic[T]):
    """A value that one question finds out, and that other questions need.

    Args:
        words: Why it is not known, for people.
    """

    def __init__(self, words: str) -> None:
        self._words = words

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_fact_{name}"

    def __get__(self, examination: Any, owner: type) -> T:
        """Read the value.

        Raises:
            UnknownError: If no question has found it out.
        """
        if self._name not in vars(examination):
            raise UnknownError(self._words)
        value: T = vars(examination)[self._name]
        return value

    def __set__(self, examination: Any, value: T) -> None:
        vars(examination)[self._name] = value


class Examination:
    """One repository, and what is known of it.

    Args:
        repository_id: Repository name.
        server_options: Returns how to reach the server; raises `SettingsError` without keys.
        storage: How the store is reached.
        storages: By storage id, stores of the same server that are reached in another way.
        options: What a run over the repository may do.
        clock: The clock for pauses and time limits.
        spark: Returns the session; None leaves Spark out.

    Attributes:
        server: Calls the server; set once there are keys.
        permissions: Checks permissions on the server; set once there are keys.
        lakefs: Set once a lakeFS server has answered.
        user: Set once the server has accepted the keys.
        repository: The repository as the server describes it.
        branches: All branches.
        namespace: The storage namespace.
        store: The store, opened but not yet called.
        listing: Set once the store could be listed.
        right_place: Set once the server is known to write there too, or once nothing can show it.
        inventory: What the manifest of the inventory says, and the store of its files.
        wants_spark: Whether Spark is examined.

    Examples:
        >>> Examination("lake", lambda: server_options, storage, options).repository_id
        'lake'
    """

    server = Fact[LakeFSServer]("there are no keys for the server")
    permissions = Fact[Permissions]("there are no keys for the server")
    lakefs = Fact[bool]("no lakeFS server answers")
    user = Fact[bool]("the server does not take the keys")
    repository = Fact[Repository]("the server does not describe the repository")
    branches = Fact[Sequence[Branch]]("the branches could not be listed")
    namespace = Fact[Namespace]("the storage namespace is not known or cannot be read")
    store = Fact[ObjectStore]("the store could not be opened")
    listing = Fact[bool]("the store does not list")
    right_place = Fact[bool](
        "the server's files are not in this store, so it may be the wrong one; nothing was written "
        "to it"
    )
    inventory = Fact[tuple[Inventory, ObjectStore]]("there is no inventory to look at")
    spark = Fact[Callable[[], Session]]("Spark is left out")

    def __init__(
        self,
        repository_id: str,
        server_options: Callable[[], ServerOptions],
        storage: Storage,
        options: RunOptions,
        *,
        storages: Mapping[str, Storage] | None = None,
        clock: Clock | None = None,
        spark: Callable[[], Session] | None = None,
    ) -> None:
        self.repository_id = repository_id
        self.options = options
        self.clock = clock or SystemClock()
        self.wants_spark = spark is not None
        if spark is not None:
            self.spark = spark
        self._server_options = server_options
        self._storage = storage
        self._storages = storages or {}

    def server_options(self) -> ServerOptions:
        """Return how to reach the server, with short time limits.

        Raises:
            SettingsError: If there are no keys.
        """
        options = self._server_options()
        return replace(
            options,
            connect_timeout=min(options.connect_timeout, _LONGEST_CONNECT),
            read_timeout=min(options.read_timeout, _LONGEST_ANSWER),
            tries=min(options.tries, 2),
        )

    def endpoint_of(self, repository: Repository) -> str | None:
        """Return the S3 endpoint that the settings name for the storage of a repository."""
        return known_endpoint(repository, self._storage.store_options, self._storages)

    def storage(self) -> Storage:
        """Return how the repository's store is reached, with short time limits."""
        chosen = self._storages.get(self.repository.storage_id, self._storage)
        options = chosen.store_options
        limited = replace(
            options,
            connect_timeout=min(options.connect_timeout, _LONGEST_CONNECT),
            read_timeout=min(options.read_timeout, _LONGEST_ANSWER),
            max_retries=min(options.max_retries, 1),
            retry_timeout=min(options.retry_timeout, _LONGEST_ANSWER),
        )
        return replace(chosen, store_options=limited)
