"""The repository under examination: what was asked for, and what the questions so far have found out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from spark_core.addresses.namespace import Namespace
from spark_core.doctor.probe import UnknownError
from spark_core.lakefs import Clock, LakeFSServer, ServerOptions, SystemClock
from spark_core.lakefs.permissions import Permissions
from spark_core.model import Branch, Repository
from spark_core.run import RunOptions, Storage, known_endpoint
from spark_core.storage import ObjectStore

T = TypeVar("T")

# Somebody waits for the answer: what does not come at once is a finding.
_PATIENCE = timedelta(seconds=5)
_LONGEST_ANSWER = timedelta(seconds=30)


class Known(Generic[T]):
    """Something that a question finds out; whoever reads it before is not asked.

    Args:
        words: Why it is not known, for people.
    """

    def __init__(self, words: str) -> None:
        self._words = words

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_known_{name}"

    def __get__(self, patient: Any, owner: type) -> T:
        """Read it.

        Raises:
            UnknownError: If no question has found it out.
        """
        if self._name not in vars(patient):
            raise UnknownError(self._words)
        value: T = vars(patient)[self._name]
        return value

    def __set__(self, patient: Any, value: T) -> None:
        vars(patient)[self._name] = value


class Patient:
    """One repository, and what is known of it.

    Args:
        repository_id: Its name.
        server_options: Gives how to reach the server; raises `SettingsError` without keys.
        storage: How its store is reached ...
        storages: ... and those of a server with several that are reached otherwise, by storage id.
        options: What a run over it may do.
        clock: What waiting goes by.
        spark: Gives the session; None leaves Spark out.

    Attributes:
        server: Asks it, once there are keys.
        permissions: As `server`.
        lakefs: Set once a lakeFS server has answered ...
        user: ... and once it took the keys.
        repository: As the server describes it.
        branches: All of them.
        namespace: Its address algebra.
        store: Opened, and not asked anything.
        listing: Set once the store has listed.
        right_place: Set once it is known, or cannot be known, that the server writes there too.
        wants_spark: Whether Spark is to be looked at.
    """

    server = Known[LakeFSServer]("there are no keys for the server")
    permissions = Known[Permissions]("there are no keys for the server")
    lakefs = Known[bool]("no lakeFS server answers")
    user = Known[bool]("the server does not take the keys")
    repository = Known[Repository]("the server does not describe the repository")
    branches = Known[Sequence[Branch]]("the branches could not be listed")
    namespace = Known[Namespace]("the storage namespace is not known or cannot be read")
    store = Known[ObjectStore]("the store could not be opened")
    listing = Known[bool]("the store does not list")
    right_place = Known[bool]("what the server wrote is not there, and nothing is written into a wrong place")
    spark = Known[Callable[[], SparkSession]]("Spark is left out")

    def __init__(
        self,
        repository_id: str,
        server_options: Callable[[], ServerOptions],
        storage: Storage,
        options: RunOptions,
        *,
        storages: Mapping[str, Storage] | None = None,
        clock: Clock | None = None,
        spark: Callable[[], SparkSession] | None = None,
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
        """Return how to reach the server, for somebody who waits.

        Raises:
            SettingsError: If there are no keys.
        """
        options = self._server_options()
        return replace(
            options,
            connect_timeout=min(options.connect_timeout, _PATIENCE),
            read_timeout=min(options.read_timeout, _LONGEST_ANSWER),
            tries=min(options.tries, 2),
        )

    def endpoint_of(self, repository: Repository) -> str | None:
        """Tell the S3 endpoint that the settings give for the storage of a repository."""
        return known_endpoint(repository, self._storage.store_options, self._storages)

    def storage(self) -> Storage:
        """Return how the repository's store is reached, by somebody who waits."""
        chosen = self._storages.get(self.repository.storage_id, self._storage)
        options = chosen.store_options
        impatient = replace(
            options,
            connect_timeout=min(options.connect_timeout, _PATIENCE),
            read_timeout=min(options.read_timeout, _LONGEST_ANSWER),
            max_retries=min(options.max_retries, 1),
            retry_timeout=min(options.retry_timeout, _LONGEST_ANSWER),
        )
        return replace(chosen, store_options=impatient)
