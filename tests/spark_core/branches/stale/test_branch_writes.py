"""What the client makes of answers to made and deleted branches, and which it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_core.branches.stale.branch_writes import BranchRefusedError, BranchWrites
from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    PermissionDeniedError,
    RepositoryStateError,
    TransientError,
)
from spark_core.lakefs import LakeFSServer
from tests.support.scripted_server import Reply, ScriptedServer

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
HEAD, OTHER = "a" * 64, "b" * 64
BRANCHES = "/repositories/docs/branches"
BRANCH = f"{BRANCHES}/dev"
NO_BRANCH = (404, {"message": "branch not found"})
NO_REPOSITORY = (404, {"message": "repository not found"})


def writes(client: Client, method: str, path: str, answer: Any) -> Any:
    server, scripted = client({(method, path): answer})
    return BranchWrites(server), scripted


def test_a_branch_is_made_at_a_commit_as_hidden_as_it_was(client: Client) -> None:
    text = Reply(201, HEAD.encode(), {"Content-Type": "text/plain"})
    made, scripted = writes(client, "POST", BRANCHES, text)
    assert made.create("docs", "dev", HEAD, hidden=True)
    sent = {"name": "dev", "source": HEAD, "hidden": True, "force": False}
    assert scripted.calls[0].body == sent


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ((409, {"message": "branch already exists: not unique"}), False),
        (Reply(201, OTHER.encode(), {"Content-Type": "text/plain"}), IncompleteReadError),
        ((412, {"message": "pre-create-branch hook aborted"}), BranchRefusedError),
        ((404, {"message": "source reference 'x': not found"}), NotFoundError),
        ((403, {"message": "read-only repository"}), RepositoryStateError),
        ((403, {"message": "go away"}), PermissionDeniedError),
    ],
)
def test_a_branch_that_is_not_made_says_why(client: Client, answer: Any, found: Any) -> None:
    made, _ = writes(client, "POST", BRANCHES, answer)
    if found is False:
        assert made.create("docs", "dev", HEAD, hidden=False) is False
        return
    with pytest.raises(found):
        made.create("docs", "dev", HEAD, hidden=False)


def test_a_branch_is_deleted_and_one_that_is_not_there_is_told(client: Client) -> None:
    assert writes(client, "DELETE", BRANCH, Reply(204))[0].delete("docs", "dev") is True
    assert writes(client, "DELETE", BRANCH, NO_BRANCH)[0].delete("docs", "dev") is False


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            (412, {"message": "pre-delete-branch hook aborted, run id 'x': no"}),
            BranchRefusedError,
            "hook aborted",
        ),
        (
            (403, {"message": "cannot delete repository default branch"}),
            BranchRefusedError,
            "default branch",
        ),
        ((403, {"message": "read-only repository"}), RepositoryStateError, "read-only"),
        (NO_REPOSITORY, NotFoundError, "repository not found"),
        (
            (401, {"message": "insufficient permissions: not allowed to fs:DeleteBranch"}),
            PermissionDeniedError,
            "fs:DeleteBranch",
        ),
    ],
)
def test_a_branch_that_is_not_deleted_says_why(
    client: Client, answer: Any, error: type[Exception], words: str
) -> None:
    made, _ = writes(client, "DELETE", BRANCH, answer)
    with pytest.raises(error, match=words):
        made.delete("docs", "dev")


def test_a_deletion_is_never_asked_for_twice(client: Client) -> None:
    made, scripted = writes(client, "DELETE", BRANCH, (500, {"message": "try again"}))
    with pytest.raises(TransientError, match="1 times"):
        made.delete("docs", "dev")
    assert len(scripted.calls) == 1
