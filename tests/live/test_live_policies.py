"""The policies of docs/security.md on a lakeFS server that enforces them.

Each call of a run, removals and stale branches, with and without each action.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import lakefs_sdk
import pytest

from spark_core.branches import removal
from spark_core.branches.stale import delete_branches, make_again, marked
from spark_core.errors import LakegcError, PermissionDeniedError
from spark_core.lakefs import LakeFSServer, walk_refs
from spark_core.lakefs.permissions import Permissions
from spark_core.model import RetentionRules, RunKey
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.parsing import parse
from spark_core.run import RunOptions, open_run
from tests.support.clock import LaterClock
from tests.support.live_repository import LiveRepository
from tests.support.live_server import SMALL, LiveServer
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


REMOVING = policy("lakefs-remove")
MARKING, DELETING = policy("lakefs-branches-mark"), policy("lakefs-branches-delete")
REMOVAL = b"""\
rules:
  - filter: {prefix: main/logs/}
    effect: remove
    expiration: {all: {days: 3}, uncommitted: {days: 3}}
"""
LIFECYCLE = (
    b'{"branch_lifecycle": {"policies": [{"branches": ["dev-*"], "max_inactivity_days": 30}]}}'
)


def actions(*documents):
    return [
        action
        for document in documents
        for statement in document["statement"]
        for action in statement["action"]
    ]


def together(*documents, without=None):
    """Put policies together, less one action, by its place among all of them."""
    left = iter(range(len(actions(*documents))))
    statements = [
        {**each, "action": [action for action in each["action"] if next(left) != without]}
        for document in documents
        for each in document["statement"]
    ]
    return {"statement": [each for each in statements if each["action"]]}


@pytest.fixture
def admin(enforcing):
    """A repository of somebody who may do everything."""
    keys = enforcing.keys("admin")
    repository = LiveRepository(
        LiveServer(enforcing.endpoint, *keys, "local://live", enforcing.blocks)
    )
    yield repository
    repository.remove()


def opened(enforcing, repository, user, *, clock=None, seconds=0):
    """Open a run as a user; one with a clock stands for the clock's time."""
    environment = repository.server.environment(None)
    environment = replace(environment, server=LakeFSServer(enforcing.options(user)))
    instant = datetime.now(UTC)
    if clock is not None:
        environment = replace(environment, clock=clock)
        instant = clock.now() - timedelta(hours=1, seconds=-seconds)
    options = RunOptions(policies="sweep", **SMALL)
    return open_run(environment, repository.name, RunKey.at(instant), options)


def removed_and_undone(enforcing, repository, document):
    """Remove, undo what is there and all of it, as a user with a policy; return what went wrong."""
    lost, *_ = (
        repository.upload_dated("main", path, path.encode(), days_ago=10)
        for path in ("logs/lost", "logs/a", "data/b")
    )
    repository.commit("main", days_ago=10)
    repository.upload_dated("main", "logs/draft", b"draft", days_ago=10)
    run = opened(enforcing, repository, "admin")
    version = versions.store_version(run, parse(REMOVAL, name="policy"), who="live")
    confirmed.confirm(run, version, "live")
    confirmed.confirm_resets(run, version, "live")
    enforcing.policies["remover"] = document
    try:
        run = opened(enforcing, repository, "remover")
        (named,) = removal.remove(run, who="live").named
        wrong = [named.outcome.found] if not named.outcome.is_as_wanted else []
        run.store.delete([lost])
        for what_is_there in (True, False):
            undone = removal.undo(run, run.key, who="live", what_is_there=what_is_there)
            wrong += [each.found for each in undone if not each.is_as_wanted]
            run.store.put(lost, b"logs/lost")
    except LakegcError as refused:
        return str(refused)
    return " ".join(wrong)


@pytest.mark.parametrize("missing", [None, *range(len(actions(REMOVING)))])
def test_the_policy_for_removals_suffices_and_each_action_of_it_is_needed(
    missing, enforcing, admin
):
    document = policy("lakefs-remove", my_repo=admin.name, my_branch="main", my_path="logs")
    wrong = removed_and_undone(enforcing, admin, together(document, without=missing))
    if missing is None:
        assert wrong == ""
        assert set(admin.entries("main")) == {"logs/a", "logs/lost", "data/b"}
    else:
        assert actions(document)[missing] in wrong
    assert admin.get("main", "data/b") == b"data/b"


def branches_went_and_came_back(enforcing, repository, document):
    """Mark, confirm, delete and undo; return what was refused, in words."""
    hook = b"name: check it\non: {pre-merge: {branches: [other]}}\nhooks: []\n"
    repository.upload("main", "_lakefs_actions/check.yaml", hook)
    repository.commit("main")
    repository.branch("dev-1")
    clock = LaterClock(timedelta(days=40))
    run = opened(enforcing, repository, "admin", clock=clock)
    versions.store_version(run, parse(LIFECYCLE, name="policy"), who="live")
    before = repository.branches()
    enforcing.policies["gardener"] = document
    try:
        run = opened(enforcing, repository, "gardener", clock=clock, seconds=9)
        key = marked.mark(run, who="live").key
        marked.confirm(run, key, who="live")
        assert [each.outcome for each in delete_branches.delete(run, key, who="live")] == [
            "deleted"
        ]
        assert set(repository.branches()) == {"main"}
        assert [each.outcome for each in make_again.undo(run, key, who="live")] == ["made again"]
    except PermissionDeniedError as refused:
        return str(refused)
    assert repository.branches() == before
    return ""


@pytest.mark.parametrize("missing", [None, *range(len(actions(MARKING, DELETING)))])
def test_the_policies_for_stale_branches_suffice_and_each_action_of_them_is_needed(
    missing, enforcing, admin
):
    collect, *documents = (
        policy(name, my_repo=admin.name)
        for name in ("lakefs", "lakefs-branches-mark", "lakefs-branches-delete")
    )
    some = together(*documents, without=missing)["statement"]
    document = {"statement": [*collect["statement"], *some]}
    refused = branches_went_and_came_back(enforcing, admin, document)
    if missing is None:
        assert refused == ""
    else:
        assert actions(*documents)[missing] in refused
