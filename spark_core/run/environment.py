"""The outside world of a run: server, storages, Spark and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from spark_core.addresses.namespace import Namespace
from spark_core.clocks import Clock, SystemClock
from spark_core.model import Repository
from spark_core.spark.session import Session
from spark_core.storage import StoreOptions

if TYPE_CHECKING:
    # Code that only shows what a run is need not import how the server is asked.
    from spark_core.lakefs import LakeFSServer


@dataclass(frozen=True)
class Storage:
    """One of a server's storages, as this machine reaches it.

    Attributes:
        store_options: How to reach it.
        server_path: As in `Environment`.
    """

    store_options: StoreOptions
    server_path: str | None = None

    def namespace_of(self, repository: Repository) -> Namespace:
        """Read the storage namespace of a repository that lies in this storage.

        Raises:
            AddressError: If its form is not known.
        """
        return Namespace.parse(
            repository.storage_namespace,
            server_path=self.server_path or self.store_options.local_path,
        )


@dataclass(frozen=True)
class Environment:
    """The outside world of a run: server, store, Spark and time.

    Attributes:
        server: The lakeFS server.
        store_options: How to reach the object store.
        spark: Gives the session; called when it is first needed.
        start_spark: Begins to start the session in the background.
        clock: Tells the time; injected so that tests can move it.
        server_path: The local blockstore's path as the server names it, when this machine sees it
            elsewhere.
        storages: The storages of a server with several that are not reached by `store_options`, by
            storage id.
        pages_url: What answers with the pages of runs; None if nothing does.
        signed_links_live: How long a link to a page is good that the store signs; zero for none.
        origin: What started the work, for the record: `command line`, `Dagster`, `spark-submit`.

    Examples:
        >>> from spark_core.lakefs import LakeFSServer, ServerOptions
        >>> from spark_core.storage import StoreOptions
        >>> server = LakeFSServer(ServerOptions("http://127.0.0.1:8000", "key", "secret"))
        >>> Environment(server, StoreOptions(local_path="/blocks"), spark=lambda: None).server.url
        'http://127.0.0.1:8000'
    """

    server: LakeFSServer
    store_options: StoreOptions
    spark: Callable[[], Session]
    clock: Clock = field(default_factory=SystemClock)
    server_path: str | None = None
    storages: Mapping[str, Storage] = field(default_factory=dict)
    start_spark: Callable[[], None] = lambda: None
    pages_url: str | None = None
    signed_links_live: timedelta = timedelta(0)
    origin: str = "Python"

    def storage_of(self, repository: Repository) -> Storage:
        """Return how the storage of a repository is reached."""
        return self.storages.get(repository.storage_id) or Storage(
            self.store_options, self.server_path
        )

    def endpoint_of(self, repository: Repository) -> str | None:
        """Return the S3 endpoint of a repository's storage; see `known_endpoint`."""
        return known_endpoint(repository, self.store_options, self.storages)


def known_endpoint(
    repository: Repository, usual: StoreOptions, storages: Mapping[str, Storage]
) -> str | None:
    """Return the S3 endpoint that the settings give for a repository's storage.

    Args:
        repository: As the server describes it.
        usual: How the store of a server with a single storage is reached.
        storages: How each of several is reached.

    Returns:
        None if the settings give none: AWS, the endpoint of the AWS environment, or a storage that
        the settings do not know.
    """
    own = storages.get(repository.storage_id)
    if own is not None:
        return own.store_options.s3_endpoint
    return None if repository.storage_id else usual.s3_endpoint
