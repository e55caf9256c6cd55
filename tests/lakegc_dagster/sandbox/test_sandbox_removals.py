"""What a removal asks of a server: many deletions, differences, main lines, protection, hooks."""

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import ApiException, BadRequestException, ForbiddenException

from tests.support.sandbox_users import add_user


@pytest.fixture
def repository(sdk):
    sdk.create("demo")
    return "demo"


def _commit(sdk, branch, *paths):
    for path in paths:
        sdk.upload("demo", branch, path, path.encode())
    return sdk.commit("demo", branch, ",".join(paths))


def _delete(sdk, branch, *paths):
    return sdk.objects.delete_objects("demo", branch, lakefs_sdk.PathList(paths=list(paths)))


def _branch(sdk, name):
    creation = lakefs_sdk.BranchCreation(name=name, source="main")
    sdk.branches.create_branch("demo", creation)


def _paths(listing):
    return [row.path for row in listing.results]


def test_many_paths_are_deleted_at_once_and_a_path_that_is_not_there_is_no_error(sdk, repository):
    _commit(sdk, "main", "a", "b", "c")
    assert _delete(sdk, "main", "a", "c", "nothing").errors == []
    assert _paths(sdk.objects.list_objects(repository, "main")) == ["b"]
    diff = sdk.branches.diff_branch(repository, "main").results
    assert [(row.type, row.path) for row in diff] == [("removed", "a"), ("removed", "c")]


def test_more_than_a_thousand_paths_are_refused(sdk, repository):
    with pytest.raises(BadRequestException, match="max paths is set to 1000"):
        _delete(sdk, "main", *[str(number) for number in range(1_001)])


def test_paths_of_a_branch_that_is_not_there_are_deleted_without_an_error(sdk, repository):
    assert _delete(sdk, "nobody", "a").errors == []


def test_a_protected_branch_takes_no_write_and_no_commit_and_takes_a_merge(
    sdk, sandbox, repository
):
    _commit(sdk, "main", "a")
    _branch(sdk, "side")
    _commit(sdk, "side", "b")
    sandbox.behaviour.protected = ("ma*",)
    (error,) = _delete(sdk, "main", "a").errors
    assert (error.path, error.status_code) == ("a", 403)
    assert error.message == "cannot write to protected branch"
    reset = lakefs_sdk.ResetCreation(type="object", path="a")
    with pytest.raises(ForbiddenException, match="cannot write to protected branch"):
        sdk.branches.reset_branch(repository, "main", reset)
    with pytest.raises(ApiException, match="cannot write to protected branch"):
        sdk.upload(repository, "main", "x", b"")
    with pytest.raises(ForbiddenException, match="cannot commit to protected branch"):
        sdk.commit(repository, "main")
    merged = sdk.refs.merge_into_branch(
        repository, "side", "main", merge=lakefs_sdk.Merge(metadata={"k": "v"})
    ).reference
    assert sdk.head(repository, "main").metadata["k"] == "v"
    overrides = lakefs_sdk.CommitOverrides(message="undone", metadata={"of": merged})
    revert = lakefs_sdk.RevertCreation(ref=merged, parent_number=1, commit_overrides=overrides)
    sdk.branches.revert_branch(repository, "main", revert)
    head = sdk.head(repository, "main")
    assert (head.message, head.metadata) == ("undone", {"of": merged})
    assert _paths(sdk.objects.list_objects(repository, "main")) == ["a"]


def test_patterns_of_protection_are_those_of_the_real_server(sdk, sandbox, repository):
    """As `tests/live/test_live_branches.py` sees it there."""
    for name in ("dev-1", "prod-2", "dev-3"):
        _branch(sdk, name)
    sandbox.behaviour.protected = ("{dev,prod}-{1,2}",)
    for name in ("dev-1", "prod-2"):
        with pytest.raises(ForbiddenException, match="cannot commit to protected branch"):
            sdk.commit(repository, name)
    with pytest.raises(BadRequestException, match="no changes"):
        sdk.commit(repository, "dev-3")


def test_a_hook_refuses_an_event_on_a_branch(sdk, sandbox, repository):
    asked = []

    def hook(event, branch):
        asked.append((event, branch))
        return "not today" if event == "pre-commit" else None

    sandbox.behaviour.hook = hook
    with pytest.raises(ApiException, match=r"pre-commit hook aborted, run id .*: not today") as no:
        _commit(sdk, "main", "a")
    assert no.value.status == 412
    _branch(sdk, "side")
    sdk.branches.delete_branch(repository, "side")
    assert asked == [
        ("pre-commit", "main"),
        ("pre-create-branch", "side"),
        ("pre-delete-branch", "side"),
    ]


def test_the_differences_of_two_commits_are_shown_under_a_prefix_and_in_pages(sdk, repository):
    first = _commit(sdk, "main", "logs/a", "logs/b", "data/c")
    _delete(sdk, "main", "logs/a", "data/c")
    second = _commit(sdk, "main", "logs/d")

    def shown(**query):
        found = sdk.refs.diff_refs(repository, first.id, second.id, type="two_dot", **query)
        return [(row.type, row.path) for row in found.results], found.pagination.next_offset

    assert shown(prefix="logs/") == ([("removed", "logs/a"), ("added", "logs/d")], "")
    assert shown(amount=1) == ([("removed", "data/c")], "data/c")
    assert shown(amount=1, after="data/c")[0] == [("removed", "logs/a")]
    with pytest.raises(BadRequestException, match="two_dot"):
        sdk.refs.diff_refs(repository, first.id, second.id)


def test_a_listing_and_the_staged_changes_are_shown_under_a_prefix(sdk, repository):
    _commit(sdk, "main", "logs", "logs/a", "logs/b", "logt")
    sdk.upload(repository, "main", "logs/c", b"")
    sdk.upload(repository, "main", "other", b"")
    assert _paths(sdk.objects.list_objects(repository, "main", prefix="logs/")) == [
        "logs/a",
        "logs/b",
        "logs/c",
    ]
    listed = sdk.objects.list_objects(repository, "main", prefix="logs/", after="logs/a")
    assert _paths(listed) == ["logs/b", "logs/c"]
    assert _paths(sdk.branches.diff_branch(repository, "main", prefix="logs/")) == ["logs/c"]


def test_the_log_of_first_parents_leaves_out_what_was_merged(sdk, repository):
    _branch(sdk, "side")
    _commit(sdk, "side", "b")
    second = _commit(sdk, "main", "c")
    merged = sdk.refs.merge_into_branch(repository, "side", "main").reference
    log = sdk.refs.log_commits(repository, "main", first_parent=True).results
    assert [commit.id for commit in log[:2]] == [merged, second.id]
    assert len(log) == 3


def test_each_path_of_many_needs_the_permission(sdk, sandbox, repository):
    _commit(sdk, "main", "logs/a", "data/b")
    resource = "arn:lakefs:fs:::repository/demo/object/logs/*"
    statement = {"effect": "allow", "action": ["fs:DeleteObject"], "resource": resource}
    user = add_user(sandbox, "somebody", {"statement": [statement]})
    headers = {
        "authorization": lakefs_sdk.Configuration(
            username=user.credentials.access_key_id, password=user.credentials.secret_access_key
        ).get_basic_auth_token(),
        "content-type": "application/json",
    }
    where = "/repositories/demo/branches/main/objects/delete"
    asked = {"headers": headers, "body": b'{"paths": ["logs/a", "data/b"]}'}
    answer = sdk.raw("POST", where, **asked)
    assert answer.status == 401
    assert [error["path"] for error in answer.json()["errors"]] == ["data/b"]
    assert _paths(sdk.objects.list_objects(repository, "main")) == ["data/b"]
    assert user.used == {"fs:DeleteObject"}
