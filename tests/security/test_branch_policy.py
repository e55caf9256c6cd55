"""Stale branches with just the lakeFS policies of docs/security.md, and without each action."""

from datetime import timedelta

import pytest

from lakegc_dagster.sandbox import Sandbox, objects, refs, repositories
from spark_core.branches.stale import delete_branches, make_again, marked
from spark_core.errors import PermissionDeniedError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.references.policies import versions
from spark_core.references.policies.parsing import parse
from spark_core.run import Environment, RunOptions, open_run
from spark_core.storage import StoreOptions
from tests.support.clock import FakeClock
from tests.support.policy_page import policy
from tests.support.sandbox_users import add_user
from tests.support.written_run import NOW

COLLECT = policy("lakefs", my_repo="repo")
MARK = policy("lakefs-branches-mark", my_repo="repo")
DELETE = policy("lakefs-branches-delete", my_repo="repo")
DOCUMENT = (
    b'{"branch_lifecycle": {"policies": [{"branches": ["dev-*"], "max_inactivity_days": 30}]}}'
)


def _actions(*documents):
    return [
        action
        for document in documents
        for statement in document["statement"]
        for action in statement["action"]
    ]


def _together(*documents, without=None):
    statements = [
        {**statement, "action": kept}
        for document in documents
        for statement in document["statement"]
        if (kept := [each for each in statement["action"] if each != without])
    ]
    return {"id": "Together", "statement": statements}


@pytest.fixture
def sandbox(tmp_path):
    with Sandbox(tmp_path / "sandbox") as running:
        running.clock.set(NOW - timedelta(days=100))
        with running.core.lock:
            repositories.create(running.core, "repo", "local://repo")
            objects.upload(running.core, "repo", "main", "_lakefs_actions/a.yml", b"on: {x: {}}")
            refs.commit(running.core, "repo", "main", message="hooks")
            refs.create_branch(running.core, "repo", "dev-1", "main")
            objects.upload(running.core, "repo", "dev-1", "a", b"x")
            refs.commit(running.core, "repo", "dev-1", message="work")
        running.clock.set(NOW)
        yield running


@pytest.fixture
def open_as(sandbox):
    """Open a run under a policy; each stands for a second of its own."""
    seconds = 0

    def opened(document):
        nonlocal seconds
        seconds += 10
        user = add_user(sandbox, "lakegc", document)
        key = RunKey.at(NOW + timedelta(seconds=seconds))
        clock = FakeClock(key.instant + timedelta(seconds=1))
        keys = user.credentials
        options = ServerOptions(sandbox.endpoint, keys.access_key_id, keys.secret_access_key)
        environment = Environment(
            server=LakeFSServer(options, clock=clock),
            store_options=StoreOptions(local_path=str(sandbox.blockstore)),
            spark=lambda: None,
            clock=clock,
        )
        return user, open_run(environment, "repo", key, RunOptions())

    _, run = opened(COLLECT)
    versions.store_version(run, parse(DOCUMENT, name="policy"), who="ann")
    return opened


def _marked(run):
    made = marked.mark(run, who="ann")
    assert [branch.branch for branch in made.going.values()] == ["dev-1"]
    return made.key


def test_the_policies_suffice_and_no_action_of_them_is_left_over(sandbox, open_as):
    user, run = open_as(_together(COLLECT, MARK))
    key = _marked(run)
    marked.confirm(run, key, who="ann")
    assert set(_actions(MARK)) <= user.used
    user, run = open_as(_together(COLLECT, MARK, DELETE))
    (gone,) = delete_branches.delete(run, key, who="ann")
    (back,) = make_again.undo(run, key, who="ann")
    assert (gone.outcome, back.outcome) == ("deleted", "made again")
    assert set(_actions(MARK, DELETE)) <= user.used


@pytest.mark.parametrize("action", _actions(MARK))
def test_without_any_action_of_the_policy_for_marking_it_is_refused_by_its_name(action, open_as):
    _, run = open_as(_together(COLLECT, MARK, without=action))
    with pytest.raises(PermissionDeniedError, match=action):
        marked.mark(run, who="ann")


def test_whoever_may_only_mark_deletes_nothing(sandbox, open_as):
    _, run = open_as(_together(COLLECT, MARK))
    key = _marked(run)
    marked.confirm(run, key, who="ann")
    with pytest.raises(PermissionDeniedError, match="fs:DeleteBranch") as refused:
        delete_branches.delete(run, key, who="ann")
    assert "No branch is known to be deleted by this call" in str(refused.value)
    assert {branch.id for branch in run.server.branches("repo")} == {"main", "dev-1"}


def test_without_the_making_of_branches_none_is_made_again(open_as):
    _, run = open_as(_together(COLLECT, MARK, DELETE, without="fs:CreateBranch"))
    key = _marked(run)
    marked.confirm(run, key, who="ann")
    delete_branches.delete(run, key, who="ann")
    with pytest.raises(PermissionDeniedError, match="fs:CreateBranch"):
        make_again.undo(run, key, who="ann")
