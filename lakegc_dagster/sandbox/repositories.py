"""Repositories: create and delete."""

from __future__ import annotations

import re
from http import HTTPStatus

from lakegc_dagster.sandbox.blockstore import SCHEME
from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.errors import ApiError, bad_request, conflict
from lakegc_dagster.sandbox.records import BranchRecord, RepositoryRecord
from lakegc_dagster.sandbox.trees import META_PREFIX
from spark_core.graveler import CommitRecord, Timestamp

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_DUMMY = b"this is dummy data - created by the sandbox to check access\n\n"


def check_name(repository_id: str) -> None:
    """Refuse an invalid name of a repository.

    Raises:
        ApiError: 400.
    """
    if not _NAME.fullmatch(repository_id):
        raise bad_request("argument repository: repository id: invalid value: validation error")


def _require_local(storage_namespace: str) -> None:
    if not storage_namespace.startswith(SCHEME) or not storage_namespace.removeprefix(SCHEME).strip(
        "/"
    ):
        raise bad_request(
            f"failed to create repository: {storage_namespace}: invalid address, must match: local"
        )
    segments = storage_namespace.removeprefix(SCHEME).strip("/").split("/")
    if any(segment in {"", ".", ".."} for segment in segments):
        raise ApiError(HTTPStatus.FORBIDDEN, f"{storage_namespace}: forbidden")


def _require_unused(core: Core, storage_namespace: str) -> None:
    for key in (f"{META_PREFIX}/dummy", "dummy"):
        if core.blockstore.has(storage_namespace, key):
            raise bad_request(
                "failed to create repository: found lakeFS objects in the storage "
                f"(:{storage_namespace}) "
                f"key({key}): storage namespace already in use"
            )


def create(
    core: Core,
    repository_id: str,
    storage_namespace: str,
    *,
    default_branch: str = "main",
    bare: bool = False,
    read_only: bool = False,
) -> RepositoryRecord:
    """Create a repository with a default branch and its empty commit, or a bare one with neither.

    Only a repository that is not bare refuses a namespace that is in use and writes its marker
    (`lakefs-facts` 11.4, 11.38).

    Raises:
        ApiError: 409 if the name is taken, 400 if the namespace is in use or is not a local one.
    """
    check_name(repository_id)
    if core.state.repository(repository_id):
        raise conflict("error creating repository: not unique")
    _require_local(storage_namespace)
    if not bare and not read_only:
        _require_unused(core, storage_namespace)
        core.blockstore.write(storage_namespace, f"{META_PREFIX}/dummy", _DUMMY)
    now = core.now()
    with core.state.transaction():
        repository = core.state.add_repository(
            repository_id,
            storage_namespace,
            default_branch,
            int(now.timestamp()),
            read_only=read_only,
        )
        if not bare:
            first = CommitRecord(
                committer="",
                message="Repository created",
                creation_date=Timestamp.of(now),
                metarange_id="",
            ).with_id()
            core.state.add_commits(repository.number, [first])
            core.state.put_branch(
                repository.number, BranchRecord(default_branch, first.id, hidden=False)
            )
    return repository


def delete(core: Core, repository_id: str) -> None:
    """Delete a repository; its namespace stays.

    The real server still answers for it for some seconds; this one forgets it at once.

    Raises:
        ApiError: 404 if there is none, 403 if it is read-only.
    """
    core.state.delete_repository(core.writable(repository_id).number)
