"""What must hold of a repository before anything of it is read; each function refuses by name where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from datetime import timedelta
from typing import TypeAlias

from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError, RepositoryStateError, SettingsError
from spark_core.model import Repository
from spark_core.storage.s3.endpoints import may_be_one_store

# Tells the S3 endpoint of a repository's storage; None where the settings give none.
EndpointOf: TypeAlias = Callable[[Repository], str | None]

# Where only the storage namespaces of repositories are compared, the blockstore's path does not matter.
_ANY_SERVER_PATH = "/-"


def require_writable(repository: Repository) -> None:
    """Refuse a read-only repository.

    Raises:
        RepositoryStateError: If the server prepares no collection for it.
    """
    if repository.read_only:
        raise RepositoryStateError(
            f"repository {repository.id} is read-only: the server does not prepare garbage collection for it",
            "Make it writable, or leave it out of lakegc.",
        )


def require_kind_of_store(repository: Repository, namespace: Namespace, blockstore_type: str) -> None:
    """Refuse where the server keeps a repository in another kind of store than the one that would be opened.

    Raises:
        RepositoryStateError: Naming both.
    """
    if blockstore_type != namespace.kind:
        raise RepositoryStateError(
            f"repository {repository.id} lies in {repository.storage_namespace}, a namespace of a store of kind "
            f"{namespace.kind!r}, and the server says that its store is of kind {blockstore_type!r}; where its objects are is "
            "unknown",
            "Ask the server's operator what `blockstore` was changed in its configuration.",
        )


def require_old_enough(repository: Repository, min_age: timedelta, grace: timedelta, *, allow_unsafe: bool) -> None:
    """Refuse a minimum age that an upload under way could have.

    Raises:
        SettingsError: If it is below the server's grace period, and that was not allowed.
    """
    if min_age < grace and not allow_unsafe:
        raise SettingsError(
            f"min_age of {repository.id} is {min_age}, the server lets an upload wait {grace} for its reference",
            "Set min_age to at least that (allow_unsafe_min_age = true is for throw-away repositories).",
        )


def require_branches(repository: Repository, branches: Sized) -> None:
    """Refuse a repository of which no branch is shown (safety 17, 21).

    Raises:
        RepositoryStateError: If there is none.
    """
    if not len(branches):
        raise RepositoryStateError(
            f"repository {repository.id} has no branch: it is bare, or it was deleted a moment ago and the server still "
            "answers from its cache; every object would look unreachable",
            "Look at it with `lakectl repo list`, wait ten seconds and run again; a bare repository cannot be collected.",
        )


def require_tables_apart(repository: Repository, prefix: str) -> None:
    """Refuse where the server's own tables lie among the data (safety 32).

    Raises:
        RepositoryStateError: If the prefix is below `data/`, or none.
    """
    if prefix.startswith("data/") or prefix in {"", "data"}:
        raise RepositoryStateError(
            f"the server keeps its own tables of {repository.id} under {prefix!r}, among the data that lakegc may collect",
            "Such a repository cannot be collected.",
        )


def require_in_list(repository: Repository, listed: Iterable[Repository]) -> None:
    """Refuse a list of repositories that the server has shortened to what the user may list.

    One that leaves out even the repository that is asked about is short for
    sure, and another repository in the same namespace would not be in it either.

    Raises:
        RepositoryStateError: If the repository itself is not in the list.

    References:
        lakeFS v1.84 pkg/catalog/list_repository_options.go.
    """
    if all(other.id != repository.id for other in listed):
        raise RepositoryStateError(
            f"the server's list of repositories leaves out {repository.id} itself: it shows only what this user may list, so "
            "whether another repository shares the namespace is unknown",
            "Give the user fs:ListRepositories on *.",
        )


def require_own_namespace(
    repository: Repository,
    namespace: Namespace,
    others: Iterable[Repository],
    *,
    endpoint_of: EndpointOf = lambda _: None,
) -> None:
    """Refuse a namespace that another repository shares, or that lies inside or around one (safety 11).

    One name in two S3 storages is two places only where the settings give the
    storages endpoints that cannot be one store's. Accounts of Azure and buckets
    of GCS have one name for all, so an endpoint there is only another way to them.

    Args:
        repository: The one that is asked about.
        namespace: Its own.
        others: Every repository of the server.
        endpoint_of: Tells the S3 endpoint of a repository's storage.

    Raises:
        RepositoryStateError: Naming both.
    """
    for other in others:
        if other.id == repository.id or _in_another_store(repository, other, namespace, endpoint_of):
            continue
        try:
            overlaps = namespace.overlaps(
                Namespace.parse(other.storage_namespace, server_path=namespace.server_path or _ANY_SERVER_PATH)
            )
        except AddressError:
            # Another kind of store cannot overlap with ours; a form of our own kind that we cannot read might.
            overlaps = _scheme(other) == _scheme(repository)
        if overlaps:
            raise RepositoryStateError(
                f"repositories {repository.id} ({repository.storage_namespace}) and {other.id} "
                f"({other.storage_namespace}) share a storage namespace: neither knows what the other still needs",
                "Move one of them to a namespace of its own, or delete it in lakeFS."
                f"{_way_out(repository, other, namespace)}",
            )


def _in_another_store(one: Repository, other: Repository, namespace: Namespace, endpoint_of: EndpointOf) -> bool:
    if namespace.kind != "s3" or one.storage_id == other.storage_id:
        return False
    return not may_be_one_store(endpoint_of(one), endpoint_of(other))


def _way_out(one: Repository, other: Repository, namespace: Namespace) -> str:
    if namespace.kind != "s3" or one.storage_id == other.storage_id:
        return ""
    tables = (f"[storages.{each.storage_id}]" if each.storage_id else "[storage]" for each in (one, other))
    return f" If they lie in different stores: set s3_endpoint in {' and '.join(tables)}."


def _scheme(repository: Repository) -> str:
    return repository.storage_namespace.partition(":")[0].lower()
