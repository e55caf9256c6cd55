"""What the client makes of answers about branches, and which it refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    PermissionDeniedError,
    RepositoryStateError,
)
from spark_core.lakefs import (
    ActionFile,
    LakeFSServer,
    NoSuchCallError,
    Pull,
    StagedEntry,
)
from tests.support.scripted_server import Reply, ScriptedServer, page

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
HEAD, OTHER = "a" * 64, "b" * 64
BRANCHES = "/repositories/docs/branches"
BRANCH = f"{BRANCHES}/dev"
PROTECTION = "/repositories/docs/settings/branch_protection"
PULLS = "/repositories/docs/pulls"
OBJECTS = "/repositories/docs/refs/dev/objects"
NO_BRANCH = (404, {"message": "branch not found"})
NO_REPOSITORY = (404, {"message": "repository not found"})


def reads(client: Client, **answers: Any) -> Any:
    server, _ = client({("GET", path): answer for path, answer in answers.items()})
    return server.branch_reads


def test_the_head_of_a_branch_is_read_and_a_missing_branch_has_none(client: Client) -> None:
    assert (
        reads(client, **{BRANCH: (200, {"id": "dev", "commit_id": HEAD})}).head("docs", "dev")
        == HEAD
    )
    assert reads(client, **{BRANCH: NO_BRANCH}).head("docs", "dev") is None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (NO_REPOSITORY, NotFoundError),
        ((404, {"message": "invalid API endpoint"}), NoSuchCallError),
        ((200, {"id": "other", "commit_id": HEAD}), IncompleteReadError),
        ((200, {"id": "dev", "commit_id": "short"}), IncompleteReadError),
        ((401, {"message": "insufficient permissions: not allowed"}), PermissionDeniedError),
    ],
)
def test_no_other_answer_is_a_missing_branch(client: Client, answer: Any, error: type) -> None:
    with pytest.raises(error):
        reads(client, **{BRANCH: answer}).head("docs", "dev")


def test_hidden_branches_are_those_that_are_not_visible(client: Client) -> None:
    server, scripted = client(
        {("GET", BRANCHES): lambda asked: (200, page([{"id": "dev"}], asked.query))}
    )
    assert server.branch_reads.visible("docs") == {"dev"}
    assert scripted.calls[0].query["show_hidden"] == "False"


def test_protection_rules_are_a_list_of_patterns(client: Client) -> None:
    rules = [{"pattern": "rel-*"}, {"pattern": "main"}]
    found = reads(client, **{PROTECTION: (200, rules)}).protection_patterns("docs")
    assert found == ("main", "rel-*")
    assert reads(client, **{PROTECTION: (200, [])}).protection_patterns("docs") == ()


@pytest.mark.parametrize("body", [{}, None, [{"name": "x"}], ["main"], b"<html>"])
def test_protection_that_cannot_be_read_is_not_taken_for_none(client: Client, body: Any) -> None:
    with pytest.raises(IncompleteReadError):
        reads(client, **{PROTECTION: Reply(200, body)}).protection_patterns("docs")


def test_a_server_that_does_not_tell_its_protection_rules_is_refused(client: Client) -> None:
    with pytest.raises(NoSuchCallError):
        reads(client).protection_patterns("docs")


def pull(number: int, status: str = "open") -> dict[str, str]:
    return {
        "id": f"{number:06d}",
        "source_branch": "dev",
        "destination_branch": "main",
        "status": status,
    }


def test_open_pull_requests_are_read_over_all_pages(client: Client) -> None:
    many = [pull(number) for number in range(1_500)]
    server, scripted = client({("GET", PULLS): lambda asked: (200, page(many, asked.query))})
    found = server.branch_reads.open_pulls("docs")
    assert len(found) == 1_500
    assert found[0] == Pull("000000", "dev", "main")
    assert scripted.calls[0].query["status"] == "open"


def test_a_closed_pull_request_does_not_count_and_a_server_without_them_has_none(
    client: Client,
) -> None:
    closed = {("GET", PULLS): lambda asked: (200, page([pull(1, "closed")], asked.query))}
    assert client(closed)[0].branch_reads.open_pulls("docs") == []
    assert reads(client).open_pulls("docs") == []
    with pytest.raises(NotFoundError):
        reads(client, **{PULLS: NO_REPOSITORY}).open_pulls("docs")


def test_hook_files_are_listed_and_read(client: Client) -> None:
    row = {"path": "_lakefs_actions/a.yml", "checksum": "c", "size_bytes": 3}
    server, scripted = client(
        {
            ("GET", f"{OBJECTS}/ls"): lambda asked: (200, page([row], asked.query, "path")),
            ("GET", OBJECTS): Reply(200, b"on:", {"Content-Type": "application/octet-stream"}),
        }
    )
    found = server.branch_reads.action_files("docs", "dev")
    assert found == [ActionFile("_lakefs_actions/a.yml", "c", 3)]
    assert scripted.calls[0].query["prefix"] == "_lakefs_actions/"
    assert server.branch_reads.content("docs", "dev", found[0].path) == b"on:"


def test_a_listing_that_ignores_the_prefix_is_refused(client: Client) -> None:
    row = {"path": "data/a", "checksum": "c", "size_bytes": 3}
    answer = {f"{OBJECTS}/ls": lambda asked: (200, page([row], asked.query, "path"))}
    with pytest.raises(IncompleteReadError, match="do not begin with"):
        reads(client, **answer).action_files("docs", "dev")


def test_a_hook_file_whose_object_is_gone_is_named(client: Client) -> None:
    with pytest.raises(RepositoryStateError, match="its object is gone"):
        reads(client, **{OBJECTS: (410, {"message": "No data"})}).content("docs", "dev", "a")


def test_a_staged_entry_is_dated_and_a_deletion_is_not(client: Client) -> None:
    stat = (200, {"path": "a", "mtime": 1_700_000_000, "checksum": "c", "size_bytes": 1})
    found = reads(client, **{f"{OBJECTS}/stat": stat})
    when = datetime.fromtimestamp(1_700_000_000, UTC)
    assert found.staged("docs", "dev", "a", "added") == StagedEntry("a", "added", when, "c")
    assert found.staged("docs", "dev", "a", "removed") == StagedEntry("a", "removed", None, "")
    gone = reads(client, **{f"{OBJECTS}/stat": (404, {"message": "not found"})})
    assert gone.staged("docs", "dev", "a", "changed") is None
