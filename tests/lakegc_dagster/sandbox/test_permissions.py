"""Users with policies: what the sandbox lets them do, in the words of the real server."""

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import UnauthorizedException

from lakegc_dagster.sandbox import server
from lakegc_dagster.sandbox.permissions import NEEDS, NEEDS_OF_EACH_PATH, Policy
from tests.support.sandbox_users import add_user

REPOSITORY = "arn:lakefs:fs:::repository/demo"


def _allow(action, resource=REPOSITORY):
    return {"effect": "allow", "action": [action], "resource": resource}


def _deny(action, resource=REPOSITORY):
    return {"effect": "deny", "action": [action], "resource": resource}


@pytest.fixture
def as_user(sandbox, sdk):
    sdk.create("demo")

    def client(*statements):
        user = add_user(sandbox, "somebody", {"statement": list(statements)})
        pair = user.credentials
        configuration = lakefs_sdk.Configuration(
            host=f"{sandbox.endpoint}/api/v1",
            username=pair.access_key_id,
            password=pair.secret_access_key,
        )
        return user, lakefs_sdk.ApiClient(configuration)

    return client


def test_a_user_may_do_what_the_policy_allows_and_is_told_which_action_is_missing(as_user):
    user, client = as_user(_allow("fs:ReadRepository"))
    assert lakefs_sdk.RepositoriesApi(client).get_repository("demo").id == "demo"
    with pytest.raises(
        UnauthorizedException, match="insufficient permissions: not allowed to fs:ListBranches"
    ):
        lakefs_sdk.BranchesApi(client).list_branches("demo")
    assert user.used == {"fs:ReadRepository"}


def test_a_call_that_needs_several_actions_names_all_that_are_missing(as_user):
    _, client = as_user(_allow("fs:ListTags"))
    with pytest.raises(
        UnauthorizedException, match="not allowed to fs:ListBranches,fs:ListCommits"
    ):
        lakefs_sdk.RepositoriesApi(client).dump_submit("demo")


def test_the_list_of_repositories_shows_only_those_that_may_be_listed(as_user, sdk):
    sdk.create("other")
    _, client = as_user(_allow("fs:ListRepositories"))
    assert [
        found.id for found in lakefs_sdk.RepositoriesApi(client).list_repositories().results
    ] == ["demo"]
    _, client = as_user(_allow("fs:ListRepositories", "*"))
    assert len(lakefs_sdk.RepositoriesApi(client).list_repositories().results) == 2
    _, client = as_user(_allow("fs:ReadRepository", "*"))
    with pytest.raises(UnauthorizedException, match="fs:ListRepositories"):
        lakefs_sdk.RepositoriesApi(client).list_repositories()


def test_the_configuration_is_told_to_everybody_with_a_key(as_user):
    _, client = as_user(_allow("fs:ReadRepository"))
    config = lakefs_sdk.ConfigApi(client)
    assert config.get_config().storage_config.blockstore_type == "local"


def test_a_wrong_secret_of_a_user_is_refused_as_of_the_owner(sandbox, sdk):
    pair = add_user(sandbox, "somebody", {"statement": [_allow("fs:*", "*")]}).credentials
    headers = {
        "authorization": lakefs_sdk.Configuration(
            username=pair.access_key_id, password="x"
        ).get_basic_auth_token()
    }
    answer = sdk.raw("GET", "/repositories", headers=headers)
    assert (answer.status, answer.json()) == (401, {"message": "error authenticating request"})


@pytest.mark.parametrize(
    ("statements", "allowed"),
    [
        ([_allow("fs:ReadRepository")], True),
        ([_allow("fs:Read*")], True),
        ([_allow("fs:ReadRepositor?", "arn:lakefs:fs:::repository/d*")], True),
        ([_allow("*", "*")], True),
        ([_allow("fs:ReadRepository", f'["arn:lakefs:fs:::repository/x", "{REPOSITORY}"]')], True),
        ([_allow("fs:ReadRepository", "arn:lakefs:fs:::repository/dem")], False),
        ([_allow("fs:ReadBranch")], False),
        ([_allow("*", "*"), _deny("fs:ReadRepository")], False),
        ([], False),
    ],
)
def test_a_policy_allows_what_some_statement_allows_and_none_denies(statements, allowed):
    assert (
        Policy.parse({"statement": statements}).allows("fs:ReadRepository", REPOSITORY) is allowed
    )


@pytest.mark.parametrize(
    "change", [{"effect": "Allow"}, {"action": "fs:*"}, {"resource": "repository/demo"}]
)
def test_what_is_no_policy_of_lakefs_is_not_taken_for_one(change):
    with pytest.raises(ValueError, match="not a statement"):
        Policy.parse({"statement": [{**_allow("fs:ReadRepository"), **change}]})


def test_every_call_of_the_api_has_its_needs_told():
    for_any_user = {
        "get_config",
        "get_lake_fs_version",
        "get_garbage_collection_config",
        "list_repositories",
    }
    rooms = [
        server.routes_config,
        server.routes_repositories,
        server.routes_refs,
        server.routes_objects,
        server.routes_reviews,
    ]
    endpoints = [endpoint for room in (*rooms, server.routes_gc) for endpoint in room.ENDPOINTS]
    asked = {endpoint.name for endpoint in endpoints if not endpoint.public}
    assert asked == set(NEEDS) | set(NEEDS_OF_EACH_PATH) | for_any_user
