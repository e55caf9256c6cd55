"""The calls that change a repository: why the server refuses, and what is sent twice."""

import pytest

from spark_core.branches.removal.refused import WriteRefusedError
from spark_core.branches.removal.writes import MOST_PATHS, Writes
from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    PermissionDeniedError,
    RepositoryStateError,
    SettingsError,
    TransientError,
)
from tests.support.scripted_server import in_turn

COMMIT = "a" * 64
BRANCHES = ("POST", "/repositories/repo/branches$")
BRANCH = ("DELETE", "/repositories/repo/branches/work$")
PATHS = ("POST", "/repositories/repo/branches/work/objects/delete")
RESET = ("PUT", "/repositories/repo/branches/work$")
COMMITS = ("POST", "/repositories/repo/branches/work/commits")
MERGE = ("POST", "/repositories/repo/refs/work/merge/main")
REVERT = ("POST", "/repositories/repo/branches/main/revert")

CALLS = {
    BRANCHES: lambda writes: writes.create_branch("repo", "work", COMMIT),
    BRANCH: lambda writes: writes.delete_branch("repo", "work"),
    PATHS: lambda writes: writes.delete_entries("repo", "work", ["a"]),
    RESET: lambda writes: writes.reset_entry("repo", "work", "a"),
    COMMITS: lambda writes: writes.commit("repo", "work", "message", {"k": "v"}),
    MERGE: lambda writes: writes.merge("repo", "work", "main", "message", {"k": "v"}),
    REVERT: lambda writes: writes.revert_merge("repo", "main", COMMIT, "message", {"k": "v"}),
}


def say(message):
    return {"message": message}


def test_what_is_sent_is_what_the_api_documents(client):
    done = {
        BRANCHES: (201, COMMIT.encode()),
        BRANCH: (204, None),
        PATHS: (200, {"errors": []}),
        RESET: (204, None),
        COMMITS: (201, {"id": COMMIT}),
        MERGE: (200, {"reference": COMMIT}),
        REVERT: (204, None),
    }
    server, scripted = client(done)
    answers = [call(Writes(server)) for call in CALLS.values()]
    assert answers == [COMMIT, True, None, None, COMMIT, COMMIT, None]
    # What is false is left out, unless somebody has imported the SDK with its checks before.
    assert [
        asked.body and {name: value for name, value in asked.body.items() if value is not False}
        for asked in scripted.calls
    ] == [
        {"name": "work", "source": COMMIT},
        None,
        {"paths": ["a"]},
        {"type": "object", "path": "a"},
        {"message": "message", "metadata": {"k": "v"}},
        {"message": "message", "metadata": {"k": "v"}},
        {
            "ref": COMMIT,
            "parent_number": 1,
            "commit_overrides": {"message": "message", "metadata": {"k": "v"}},
        },
    ]


@pytest.mark.parametrize(
    ("where", "status", "message", "reason"),
    [
        (BRANCHES, 409, "branch already exists: not unique", "exists"),
        (BRANCH, 403, "cannot delete repository default branch", "default_branch"),
        (BRANCH, 400, "cannot delete repository default branch", "default_branch"),
        (BRANCH, 412, "pre-delete-branch hook aborted", "hook"),
        (RESET, 403, "cannot write to protected branch", "protected"),
        (COMMITS, 403, "cannot commit to protected branch", "protected"),
        (COMMITS, 400, "commit: no changes", "nothing"),
        (COMMITS, 412, "pre-commit hook aborted, run id 'x': no", "hook"),
        (MERGE, 400, "update branch main: uncommitted changes (dirty branch)", "staged"),
        (MERGE, 409, "", "conflict"),
        (MERGE, 412, "pre-merge hook aborted", "hook"),
        (REVERT, 409, "conflict found", "conflict"),
        (REVERT, 400, "update branch: no changes", "nothing"),
    ],
)
def test_a_refusal_says_why(client, where, status, message, reason):
    server, scripted = client({where: (status, say(message))})
    with pytest.raises(WriteRefusedError) as refused:
        CALLS[where](Writes(server))
    assert refused.value.reason == reason
    assert message in str(refused.value)
    assert len(scripted.calls) == 1


@pytest.mark.parametrize(
    ("where", "status", "message", "error"),
    [
        (BRANCHES, 400, "branch id: invalid value", SettingsError),
        (MERGE, 401, "insufficient permissions: not allowed to", PermissionDeniedError),
        (MERGE, 403, "forbidden", PermissionDeniedError),
        (MERGE, 403, "read-only repository", RepositoryStateError),
        (MERGE, 404, "branch not found", NotFoundError),
    ],
)
def test_other_answers_are_errors_as_of_any_call(client, where, status, message, error):
    server, _ = client({where: (status, say(message))})
    with pytest.raises(error) as raised:
        CALLS[where](Writes(server))
    assert not isinstance(raised.value, WriteRefusedError)


@pytest.mark.parametrize("where", [BRANCHES, RESET, COMMITS, MERGE, REVERT])
def test_what_may_have_taken_effect_is_not_sent_again(client, where):
    server, scripted = client({where: (503, say("slow down"))})
    with pytest.raises(TransientError):
        CALLS[where](Writes(server))
    assert len(scripted.calls) == 1


@pytest.mark.parametrize(("where", "done"), [(BRANCH, (204, None)), (PATHS, (200, {"errors": []}))])
def test_a_deletion_is_sent_again(client, where, done):
    server, scripted = client({where: in_turn((503, say("slow down")), done)})
    CALLS[where](Writes(server))
    assert len(scripted.calls) == 2


def test_a_branch_that_is_gone_is_deleted(client):
    server, _ = client({BRANCH: (404, say("branch not found"))})
    assert Writes(server).delete_branch("repo", "work") is False


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (403, "cannot write to protected branch", WriteRefusedError),
        (401, "Unauthorized", PermissionDeniedError),
        (500, "some fault", RepositoryStateError),
    ],
)
def test_a_path_that_was_not_deleted_is_an_error(client, status, message, error):
    wrong = [{"path": "a", "status_code": status, "message": message}] * 2
    server, _ = client({PATHS: (200, {"errors": wrong})})
    with pytest.raises(error, match=r"2 in all, for instance 'a'"):
        Writes(server).delete_entries("repo", "work", ["a", "b"])


def test_a_call_has_a_thousand_paths_at_most(client):
    server, scripted = client({})
    for count in (0, MOST_PATHS + 1):
        with pytest.raises(ValueError, match="wanted 1 to 1000"):
            Writes(server).delete_entries("repo", "work", ["a"] * count)
    assert scripted.calls == []


def test_an_answer_without_a_commit_id_is_refused(client):
    server, _ = client({MERGE: (200, {"reference": "main"})})
    with pytest.raises(IncompleteReadError, match="not the id of a commit"):
        CALLS[MERGE](Writes(server))
