"""Branch protection, pull requests, hooks, and what deleting a branch looks at."""

from __future__ import annotations

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import ApiException, ForbiddenException, NotFoundException


@pytest.fixture
def repository(sdk):
    sdk.create("demo")
    sdk.branches.create_branch("demo", lakefs_sdk.BranchCreation(name="side", source="main"))
    return "demo"


def test_a_branch_is_shown_with_its_head(sdk, repository):
    shown = sdk.branches.get_branch(repository, "side")
    assert (shown.id, shown.commit_id) == ("side", sdk.head(repository, "main").id)
    with pytest.raises(NotFoundException, match="branch not found"):
        sdk.branches.get_branch(repository, "nobody")


def test_protection_rules_are_set_and_shown(sdk, repository):
    rules = [lakefs_sdk.BranchProtectionRule(pattern=pattern) for pattern in ("main", "rel-*")]
    sdk.repositories.set_branch_protection_rules(repository, rules)
    shown = sdk.repositories.get_branch_protection_rules(repository)
    assert [rule.pattern for rule in shown] == ["main", "rel-*"]


def test_a_protected_branch_is_deleted_like_any_other_and_the_default_branch_is_not(
    sdk, repository
):
    rules = [lakefs_sdk.BranchProtectionRule(pattern="side")]
    sdk.repositories.set_branch_protection_rules(repository, rules)
    sdk.branches.delete_branch(repository, "side")
    with pytest.raises(ForbiddenException, match="cannot delete repository default branch"):
        sdk.branches.delete_branch(repository, "main")


def test_a_hook_aborts_the_making_and_the_deletion_of_a_branch(sdk, sandbox, repository):
    asked = []

    def refuse(event, branch):
        asked.append((event, branch))
        return "not on Fridays"

    sandbox.behaviour.hook = refuse
    for call in (
        lambda: sdk.branches.delete_branch(repository, "side"),
        lambda: sdk.branches.create_branch(
            repository, lakefs_sdk.BranchCreation(name="new", source="main")
        ),
    ):
        with pytest.raises(ApiException, match="not on Fridays") as refused:
            call()
        assert refused.value.status == 412
    assert asked == [("pre-delete-branch", "side"), ("pre-create-branch", "new")]
    assert sdk.branches.get_branch(repository, "side").id == "side"


def _pull(sdk, repository, source, destination):
    where = f"/repositories/{repository}/pulls"
    body = {"title": "please", "source_branch": source, "destination_branch": destination}
    return sdk.raw("POST", where, json=body)


def test_pull_requests_are_opened_listed_and_closed(sdk, repository):
    number = _pull(sdk, repository, "side", "main").json()["id"]
    where = f"/repositories/{repository}/pulls"
    (shown,) = sdk.raw("GET", f"{where}?status=open").json()["results"]
    assert (shown["source_branch"], shown["destination_branch"], shown["status"]) == (
        "side",
        "main",
        "open",
    )
    assert sdk.raw("PATCH", f"{where}/{number}", json={"status": "closed"}).status == 204
    assert sdk.raw("GET", f"{where}?status=open").json()["results"] == []
    assert [row["id"] for row in sdk.raw("GET", where).json()["results"]] == [number]


def test_pull_requests_that_cannot_be_are_refused(sdk, repository):
    assert _pull(sdk, repository, "nobody", "main").status == 404
    assert _pull(sdk, repository, "main", "main").status == 400
    assert sdk.raw("GET", f"/repositories/{repository}/pulls?status=old").status == 400
    where = f"/repositories/{repository}/pulls/000009"
    assert sdk.raw("PATCH", where, json={"status": "closed"}).status == 404


def test_a_listing_below_a_prefix_shows_nothing_else(sdk, repository):
    for path in ("a", "dir/a", "dir/b", "dirt"):
        sdk.upload(repository, "main", path, b"x")
    shown = sdk.objects.list_objects(repository, "main", prefix="dir/")
    assert [row.path for row in shown.results] == ["dir/a", "dir/b"]
    behind = sdk.objects.list_objects(repository, "main", prefix="dir/", after="dir/a")
    assert [row.path for row in behind.results] == ["dir/b"]
