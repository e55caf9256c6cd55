"""What a repository is refused for before anything of it is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from spark_core.errors import RepositoryStateError, SettingsError
from spark_core.model import Branch, Repository
from spark_core.namespace import Namespace
from spark_core.preconditions import (
    require_branches,
    require_in_list,
    require_kind_of_store,
    require_old_enough,
    require_own_namespace,
    require_tables_apart,
    require_writable,
)

DAY = timedelta(days=1)


def repository(namespace: str = "s3://bucket/docs", name: str = "docs", *, read_only: bool = False) -> Repository:
    return Repository(name, namespace, "main", datetime(2026, 1, 1, tzinfo=UTC), read_only=read_only)


@pytest.mark.parametrize(
    ("namespace", "kind"),
    [
        ("s3://bucket", "s3"),
        ("gs://bucket/docs/", "gs"),
        ("https://account.blob.core.windows.net/container/docs", "azure"),
        ("local://docs", "local"),
    ],
)
def test_a_namespace_must_be_of_the_kind_that_the_server_keeps_it_in(namespace: str, kind: str) -> None:
    parsed, stored = Namespace.parse(namespace, server_path="/srv/bs"), repository(namespace)
    require_kind_of_store(stored, parsed, kind)
    for other in {"s3", "gs", "azure", "local", "mem", ""} - {kind}:
        with pytest.raises(
            RepositoryStateError, match=rf"docs lies in {namespace}.*kind '{kind}'.*kind '{other}'.*nothing was deleted"
        ):
            require_kind_of_store(stored, parsed, other)


def test_a_read_only_repository_is_refused() -> None:
    require_writable(repository())
    with pytest.raises(RepositoryStateError, match=r"docs is read-only.*nothing was deleted.*Make it writable"):
        require_writable(repository(read_only=True))


@pytest.mark.parametrize("step", [-timedelta(microseconds=1), timedelta(0), timedelta(microseconds=1)])
def test_the_minimum_age_is_at_least_the_grace_period_unless_that_is_waived(step: timedelta) -> None:
    require_old_enough(repository(), DAY + step, DAY, allow_unsafe=True)
    if step >= timedelta(0):
        require_old_enough(repository(), DAY + step, DAY, allow_unsafe=False)
        return
    with pytest.raises(SettingsError, match=r"min_age of docs is 23:59:59.999999, the server lets .* 1 day, 0:00:00"):
        require_old_enough(repository(), DAY + step, DAY, allow_unsafe=False)


def test_a_repository_without_branches_is_refused() -> None:
    require_branches(repository(), [Branch("main", "c")])
    with pytest.raises(RepositoryStateError, match="docs has no branch: it is bare, or it was deleted a moment ago"):
        require_branches(repository(), [])


@pytest.mark.parametrize("prefix", ["", "data", "data/_lakefs"])
def test_tables_among_the_data_are_refused(prefix: str) -> None:
    require_tables_apart(repository(), "_lakefs")
    require_tables_apart(repository(), "database")
    with pytest.raises(RepositoryStateError, match=r"among the data that lakegc may collect; nothing was deleted"):
        require_tables_apart(repository(), prefix)


@pytest.mark.parametrize(
    ("own", "other", "shared"),
    [
        ("s3://bucket/docs", "s3://bucket/docs", True),
        ("s3://bucket/docs", "s3://bucket/docs/", True),
        ("s3://bucket/docs/", "s3://bucket/docs/inner", True),
        ("s3://bucket/docs/inner", "s3://bucket/docs", True),
        ("s3://bucket", "s3://bucket/docs", True),
        ("s3://bucket/", "s3://bucket", True),
        ("s3://bucket/docs", "s3://bucket/docs-2", False),
        ("s3://bucket/docs", "s3://bucket-2/docs", False),
        ("s3://bucket", "s3://bucket-2", False),
        ("s3://bucket/docs", "gs://bucket/docs", False),
        ("s3://bucket/docs", "mem://bucket/docs", False),
        ("s3://bucket/docs", "s3://", True),
        ("local://docs", "local://docs/inner", True),
        ("local://docs/", "local://docs2", False),
    ],
)
def test_a_namespace_that_is_shared_nested_or_not_told_apart_is_refused_naming_both(
    own: str, other: str, *, shared: bool
) -> None:
    stored, namespace = repository(own), Namespace.parse(own, server_path="/srv/bs")
    everybody = [stored, repository(other, "other")]
    if not shared:
        require_own_namespace(stored, namespace, everybody)
        return
    with pytest.raises(RepositoryStateError, match=r"docs \(.*\) and other \(.*\) share a storage namespace"):
        require_own_namespace(stored, namespace, everybody)


def test_a_list_of_repositories_that_leaves_out_the_repository_itself_is_refused() -> None:
    others = [repository("s3://bucket/other", "other")]
    require_in_list(repository(), [*others, repository()])
    with pytest.raises(RepositoryStateError, match=r"leaves out docs itself.*fs:ListRepositories on \*"):
        require_in_list(repository(), others)
