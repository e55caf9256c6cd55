"""The conditions on a repository before any of it is read; each function refuses by name.

`require_...` judges what is known, `ask_...` asks the server or the store and judges the answer.
A mark and the doctor ask by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from spark_core.addresses.namespace import Namespace
from spark_core.addresses.namespace_uri import quoted
from spark_core.addresses.readings import overlap
from spark_core.clocks import ClockReading, require_near
from spark_core.errors import RepositoryStateError, SettingsError
from spark_core.model import Branch, Repository
from spark_core.plain_text import span_text
from spark_core.run.options_and_defaults import RunOptions
from spark_core.storage import ObjectStore
from spark_core.storage.probes import read_clock
from spark_core.storage.s3_endpoints import may_be_one_store

if TYPE_CHECKING:
    # Code that only shows what a run is need not import how the server is asked.
    from spark_core.lakefs import LakeFSServer
    from spark_core.lakefs.answer_types import StorageConfig

# Tells the S3 endpoint of a repository's storage; None where the settings give none.
EndpointOf: TypeAlias = Callable[[Repository], str | None]

# Whose clock it is, in a message.
SERVER_CLOCK = "the lakeFS server"


def require_writable(repository: Repository) -> None:
    """Refuse a read-only repository.

    Raises:
        RepositoryStateError: If the server prepares no collection for it.
    """
    if repository.read_only:
        raise RepositoryStateError(
            f"repository {repository.id} is read-only: the server does not prepare garbage "
            "collection for it",
            "Make it writable, or leave it out of lakegc.",
        )


def require_kind_of_store(
    repository: Repository, namespace: Namespace, blockstore_type: str
) -> None:
    """Refuse a repository that the server keeps in another kind of store than the one to be opened.

    Raises:
        RepositoryStateError: Naming both.
    """
    if blockstore_type != namespace.kind:
        raise RepositoryStateError(
            f"repository {repository.id} lies in {repository.storage_namespace}, a namespace of a "
            f"store of kind {namespace.kind!r}, and the server says that its store is of kind "
            f"{blockstore_type!r}; it is unknown where its objects are",
            "Ask the server's operator whether `blockstore` was changed in its configuration.",
        )


def require_old_enough(
    repository: Repository, min_age: timedelta, grace: timedelta, *, allow_unsafe: bool
) -> None:
    """Refuse a minimum age that an upload under way could have.

    Raises:
        SettingsError: If it is below the server's grace period and that was not allowed.
    """
    if min_age < grace and not allow_unsafe:
        raise SettingsError(
            f"min_age_hours of {repository.id} is {span_text(min_age)}, the server lets an upload "
            f"wait {span_text(grace)} for its reference",
            "Set min_age_hours to at least that (allow_unsafe_min_age = true is for throw-away "
            "repositories).",
        )


def require_branches(repository: Repository, branches: Sized) -> None:
    """Refuse a repository that shows no branch (safety 17, 21).

    Raises:
        RepositoryStateError: If there is none.
    """
    if not len(branches):
        raise RepositoryStateError(
            f"repository {repository.id} has no branch: it is bare, or it was deleted a moment "
            "ago and the server still answers from its cache; every object would look unreachable",
            "Look at it with `lakectl repo list`, wait ten seconds and run again; a bare "
            "repository cannot be collected.",
        )


def require_tables_apart(repository: Repository, prefix: str) -> None:
    """Refuse a repository whose server keeps its own tables among the data (safety 32).

    Raises:
        RepositoryStateError: If the prefix is below `data/`, or there is none.
    """
    if prefix.startswith("data/") or prefix in {"", "data"}:
        raise RepositoryStateError(
            f"the server keeps its own tables of {repository.id} under {prefix!r}, among the data "
            "that lakegc may collect",
            "Such a repository cannot be collected.",
        )


def require_in_list(repository: Repository, listed: Iterable[Repository]) -> None:
    """Refuse a list of repositories that the server has shortened to what the user may list.

    A list without the repository in question is certainly shortened. Another repository in the same
    namespace would be missing from it as well.

    Raises:
        RepositoryStateError: If the repository itself is not in the list.

    References:
        lakeFS v1.84 pkg/catalog/list_repository_options.go.
    """
    if all(other.id != repository.id for other in listed):
        raise RepositoryStateError(
            f"the server's list of repositories leaves out {repository.id} itself: it shows only "
            "what this user may list, so whether another repository shares the namespace is "
            "unknown",
            "Give the user fs:ListRepositories on *.",
        )


def require_own_namespace(
    repository: Repository,
    namespace: Namespace,
    others: Iterable[Repository],
    *,
    endpoint_of: EndpointOf = lambda _: None,
) -> None:
    """Refuse a namespace that another repository shares, or that overlaps with one (safety 11).

    See `overlap` for what is compared. One name in two S3 storages is two places only if the
    settings give the storages endpoints that cannot be one store's. Accounts of Azure and buckets
    of GCS have one name everywhere, so an endpoint there is only another way to them.

    Args:
        repository: The repository in question.
        namespace: Its own.
        others: Every repository of the server.
        endpoint_of: Tells the S3 endpoint of a repository's storage.

    Raises:
        RepositoryStateError: Naming both.
    """
    for other in others:
        if other.id == repository.id or _in_another_store(
            repository, other, namespace, endpoint_of
        ):
            continue
        known = overlap(namespace, other.storage_namespace)
        if known is not None:
            raise RepositoryStateError(
                f"repositories {repository.id} ({repository.storage_namespace}) and {other.id} "
                f"({quoted(other.storage_namespace)[1:-1]}) {known}: neither knows what the other "
                "still needs",
                "Move one of them to a namespace of its own, or delete it in lakeFS."
                f"{_way_out(repository, other, namespace)}",
            )


def _in_another_store(
    one: Repository, other: Repository, namespace: Namespace, endpoint_of: EndpointOf
) -> bool:
    if namespace.kind != "s3" or one.storage_id == other.storage_id:
        return False
    return not may_be_one_store(endpoint_of(one), endpoint_of(other))


def _way_out(one: Repository, other: Repository, namespace: Namespace) -> str:
    if namespace.kind != "s3" or one.storage_id == other.storage_id:
        return ""
    tables = (
        f"[storages.{each.storage_id}]" if each.storage_id else "[storage]" for each in (one, other)
    )
    return f" If they lie in different stores: set s3_endpoint in {' and '.join(tables)}."


def ask_kind_of_store(
    server: LakeFSServer, repository: Repository, namespace: Namespace
) -> StorageConfig:
    """Ask in which kind of store the server keeps a repository; see `require_kind_of_store`."""
    config = server.storage_config(repository)
    require_kind_of_store(repository, namespace, config.blockstore_type)
    return config


def ask_grace_period(
    server: LakeFSServer, repository: Repository, options: RunOptions
) -> timedelta:
    """Ask how long an upload may wait for its reference; see `require_old_enough`."""
    grace = server.grace_period()
    require_old_enough(
        repository, options.min_age, grace, allow_unsafe=options.allow_unsafe_min_age
    )
    return grace


def ask_branches(server: LakeFSServer, repository: Repository) -> Sequence[Branch]:
    """Ask for all branches of a repository; see `require_branches`."""
    branches = server.branches(repository.id)
    require_branches(repository, branches)
    return branches


def ask_neighbours(
    server: LakeFSServer, repository: Repository, namespace: Namespace, endpoint_of: EndpointOf
) -> int:
    """Ask for all repositories, and compare their namespaces with one of them (safety 11).

    Returns:
        With how many repositories it was compared, its own included.

    Raises:
        RepositoryStateError: As `require_in_list` and `require_own_namespace` do.
    """
    repositories = server.repositories()
    require_in_list(repository, repositories)
    require_own_namespace(repository, namespace, repositories, endpoint_of=endpoint_of)
    return len(repositories)


def ask_table_prefix(server: LakeFSServer, repository: Repository) -> str:
    """Ask where the server keeps its own tables; see `require_tables_apart`."""
    prefix = server.table_prefix(repository.id)
    require_tables_apart(repository, prefix)
    return prefix


def ask_store_clock(store: ObjectStore) -> ClockReading | None:
    """Read the clock of a store; see `read_clock` and `require_near`."""
    reading = read_clock(store)
    require_near(reading, store_clock(store))
    return reading


def store_clock(store: ObjectStore) -> str:
    """Name the clock of a store in a message."""
    return f"the store of {store.root}"
