"""The policies of docs/security.md on a lakeFS server that enforces them.

Each call of a run, with and without each action.
"""

import lakefs_sdk
import pytest

from spark_core.errors import PermissionDeniedError
from spark_core.lakefs import LakeFSServer, walk_refs
from spark_core.lakefs.permissions import Permissions
from spark_core.model import RetentionRules
from tests.support.policy_authority import authority, why_not
from tests.support.policy_page import policy

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

COLLECT, WALK = policy("lakefs", my_repo="repo"), policy("lakefs-walk", my_repo="repo")
CALLS = {
    "repository": lambda server: server.repository("repo"),
    "storage_config": lambda server: server.storage_config(server.repository("repo")),
    "repositories": lambda server: server.repositories(),
    "branches": lambda server: server.branches("repo"),
    "tags": lambda server: server.tags("repo"),
    "rules": lambda server: server.retention_rules("repo"),
    "table_prefix": lambda server: server.table_prefix("repo"),
    "prepare_commits": lambda server: server.prepare_commits("repo"),
    "prepare_uncommitted": lambda server: server.prepare_uncommitted("repo"),
    "entries": lambda server: server.list_entries("repo", "main", after=""),
    "diff": lambda server: list(server.diff_branch("repo", "main")),
    "grace_period": lambda server: server.grace_period(),
    "version": lambda server: server.version(),
}
WITH_A_DUMP = {**CALLS, "dump": lambda server: server.dump_refs("repo")}
BY_WALKING = {**CALLS, "walk": lambda server: walk_refs(server, "repo")}


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory):
    with authority(tmp_path_factory.mktemp("lakefs")) as running:
        key, secret = running.keys("admin")
        client = lakefs_sdk.ApiClient(
            lakefs_sdk.Configuration(
                host=f"{running.endpoint}/api/v1", username=key, password=secret
            )
        )
        for name in ("repo", "other"):
            creation = lakefs_sdk.RepositoryCreation(name=name, storage_namespace=f"local://{name}")
            lakefs_sdk.RepositoriesApi(client).create_repository(creation)
        LakeFSServer(running.options("admin")).set_retention_rules(
            "repo", RetentionRules(7, {"main": 7})
        )
        yield running


def _refusals(running, document, calls):
    """What the server refuses to a user with a policy: call -> the error's text."""
    running.policies["somebody"] = document
    found = {}
    for name, call in calls.items():
        try:
            call(LakeFSServer(running.options("somebody")))
        except PermissionDeniedError as refusal:
            found[name] = str(refusal)
    return found


@pytest.mark.parametrize(
    ("document", "calls"), [(COLLECT, WITH_A_DUMP), (WALK, BY_WALKING)], ids=["dump", "walk"]
)
def test_each_policy_allows_every_call_of_a_run_and_each_action_of_it_is_needed(
    document, calls, enforcing
):
    assert _refusals(enforcing, document, calls) == {}
    for action in (each for statement in document["statement"] for each in statement["action"]):
        less = [
            {**statement, "action": [each for each in statement["action"] if each != action]}
            for statement in document["statement"]
        ]
        refused = _refusals(
            enforcing, {"statement": [each for each in less if each["action"]]}, calls
        )
        assert refused, action
        assert all(action in said for said in refused.values()), (action, refused)


def test_a_user_who_may_list_one_repository_sees_no_other(enforcing):
    assert {found.id for found in LakeFSServer(enforcing.options("admin")).repositories()} == {
        "repo",
        "other",
    }
    own = {
        "effect": "allow",
        "action": ["fs:ListRepositories"],
        "resource": "arn:lakefs:fs:::repository/repo",
    }
    enforcing.policies["narrow"] = {"statement": [COLLECT["statement"][0], own]}
    assert [found.id for found in LakeFSServer(enforcing.options("narrow")).repositories()] == [
        "repo"
    ]


def test_the_doctors_questions_are_answered_under_the_policy(enforcing):
    enforcing.policies["doctor"] = COLLECT
    asked = Permissions(enforcing.options("doctor"))
    assert asked.prepare_commits("repo")
    assert asked.prepare_uncommitted("repo")
    assert asked.dump_refs("repo")
