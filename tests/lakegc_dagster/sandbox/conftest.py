"""A running sandbox and the SDK that talks to it."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import lakefs_sdk
import pytest
import urllib3
from lakefs_sdk.exceptions import ApiException

from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.core import Behaviour


class Sdk:
    """lakefs-sdk on one sandbox, with uploads from bytes."""

    def __init__(self, sandbox: Sandbox) -> None:
        configuration = lakefs_sdk.Configuration(
            host=f"{sandbox.endpoint}/api/v1",
            username=sandbox.access_key_id,
            password=sandbox.secret_access_key,
        )
        client = lakefs_sdk.ApiClient(configuration)
        self.repositories = lakefs_sdk.RepositoriesApi(client)
        self.branches = lakefs_sdk.BranchesApi(client)
        self.tags = lakefs_sdk.TagsApi(client)
        self.commits = lakefs_sdk.CommitsApi(client)
        self.refs = lakefs_sdk.RefsApi(client)
        self.objects = lakefs_sdk.ObjectsApi(client)
        self.staging = lakefs_sdk.StagingApi(client)
        self.internal = lakefs_sdk.InternalApi(client)
        self.experimental = lakefs_sdk.ExperimentalApi(client)
        self.config = lakefs_sdk.ConfigApi(client)
        self._http = urllib3.PoolManager()
        self._sandbox = sandbox

    def create(self, repository: str, **creation: Any) -> Any:
        """Create a repository in the namespace of its name."""
        bare = creation.pop("bare", False)
        body = {"name": repository, "storage_namespace": f"local://{repository}", **creation}
        return self.repositories.create_repository(lakefs_sdk.RepositoryCreation(**body), bare=bare)

    def upload(self, repository: str, branch: str, path: str, data: bytes) -> Any:
        """Upload bytes as a raw body, which is the only way that the sandbox knows."""
        where = f"/repositories/{repository}/branches/{branch}/objects?path={quote(path, safe='')}"
        answer = self.raw("POST", where, body=data)
        if answer.status != 201:
            raise ApiException(status=answer.status, reason=answer.data.decode())
        return lakefs_sdk.ObjectStats.from_dict(answer.json())

    def head(self, repository: str, ref: str) -> Any:
        """Return the commit that a ref leads to."""
        return self.refs.log_commits(repository, ref, amount=1).results[0]

    def commit(self, repository: str, branch: str, message: str = "change", **body: Any) -> Any:
        """Commit a branch."""
        return self.commits.commit(
            repository, branch, lakefs_sdk.CommitCreation(message=message, **body)
        )

    def raw(self, method: str, path: str, **request: Any) -> urllib3.BaseHTTPResponse:
        """Send a request below /api/v1 unchanged, with the owner's credentials by default."""
        pair = f"{self._sandbox.access_key_id}:{self._sandbox.secret_access_key}"
        given = {name.lower(): value for name, value in request.pop("headers", {}).items()}
        headers = {**urllib3.make_headers(basic_auth=pair), **given}
        url = f"{self._sandbox.endpoint}/api/v1{path}"
        return self._http.request(
            method, url, headers=headers, retries=False, redirect=False, **request
        )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("running") / "sandbox") as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    """A sandbox as if just started on an empty directory. It is shared, because starting a server
    for every test takes longer than the tests.
    """
    core = running.core
    for repository in core.state.repositories():
        core.state.delete_repository(repository.number)
    shutil.rmtree(running.blockstore)
    running.blockstore.mkdir()
    running.clock.release()
    running.requests.clear()
    running.observe(None)
    for field in dataclasses.fields(Behaviour):
        setattr(running.behaviour, field.name, field.default)
    return running


@pytest.fixture
def sdk(sandbox: Sandbox) -> Sdk:
    return Sdk(sandbox)


def files_under_data(sandbox, repository_id):
    """Each file under data/ of a repository, with what the system says of it."""
    root = sandbox.blockstore / repository_id
    return {
        str(path.relative_to(root)): path.stat()
        for path in (root / "data").rglob("*")
        if path.is_file()
    }
