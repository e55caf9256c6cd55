"""Whole runs with just the lakeFS policy of docs/security.md, and without each of its actions."""

from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import Sandbox, history
from spark_core.errors import PermissionDeniedError, RepositoryStateError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.run import Environment, RunOptions, open_run, preflight
from spark_core.storage import StoreOptions
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.policy_page import policy
from tests.support.sandbox_runs import SMALL
from tests.support.sandbox_users import add_user

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
COLLECT = policy("lakefs", my_repo="repo")
WALK = policy("lakefs-walk", my_repo="repo")


def _actions(document):
    return [action for statement in document["statement"] for action in statement["action"]]


def _without(document, action):
    kept = [
        {**statement, "action": [each for each in statement["action"] if each != action]}
        for statement in document["statement"]
    ]
    return {**document, "statement": [statement for statement in kept if statement["action"]]}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A repository with rules, old commits, deleted branches and staged entries."""
    with Sandbox(tmp_path_factory.mktemp("policies") / "sandbox") as sandbox:
        story = history.documents_history(sandbox, "repo", now=NOW)
        sandbox.clock.set(NOW + timedelta(seconds=1))
        yield sandbox, story


def _run(sandbox, document, spark, minutes=0):
    user = add_user(sandbox, "lakegc", document)
    clock = FakeClock(NOW + timedelta(minutes=minutes, seconds=1))
    keys = user.credentials
    environment = Environment(
        server=LakeFSServer(
            ServerOptions(sandbox.endpoint, keys.access_key_id, keys.secret_access_key), clock=clock
        ),
        store_options=StoreOptions(local_path=str(sandbox.blockstore)),
        spark=lambda: spark,
        clock=clock,
    )
    options = RunOptions(may_sweep=True, **SMALL)
    return user, open_run(environment, "repo", RunKey.at(NOW + timedelta(minutes=minutes)), options)


def _stored(sandbox):
    return {path for path in sandbox.blockstore.rglob("data/**/*") if path.is_file()}


def _refused(sandbox, document, spark, minutes):
    """Mark until it is refused; nothing may be gone then."""
    before = _stored(sandbox)
    try:
        _, run = _run(sandbox, document, spark, minutes)
        mark_only(run)
    finally:
        assert _stored(sandbox) == before


@pytest.mark.slow
@pytest.mark.parametrize(("number", "action"), enumerate(_actions(COLLECT)))
def test_without_any_action_of_the_policy_a_mark_is_refused_by_its_name(
    number, action, told, spark
):
    with pytest.raises(PermissionDeniedError) as refusal:
        _refused(told[0], _without(COLLECT, action), spark, 1 + number)
    assert action in str(refusal.value)


def test_without_the_reading_of_branches_a_walk_is_refused_by_its_name(told, spark):
    with pytest.raises(PermissionDeniedError, match="fs:ReadBranch") as refusal:
        _refused(told[0], _without(WALK, "fs:ReadBranch"), spark, 30)
    # Either of the two would do.
    assert "fs:ListCommits" in str(refusal.value)


def test_a_list_of_repositories_that_leaves_out_the_own_one_is_refused(told, spark):
    blind = _without(COLLECT, "fs:ListRepositories")
    blind["statement"].append(
        {
            "effect": "allow",
            "action": ["fs:ListRepositories"],
            "resource": "arn:lakefs:fs:::repository/other",
        }
    )
    _, run = _run(told[0], blind, spark, 31)
    with pytest.raises(
        RepositoryStateError, match=r"leaves out repo itself.*fs:ListRepositories on \*"
    ):
        preflight(run)


@pytest.mark.slow
def test_the_policy_suffices_for_a_whole_run_and_no_action_of_it_is_left_over(told, spark):
    sandbox, story = told
    user, run = _run(sandbox, WALK, spark, 40)
    mark_only(run)
    assert user.used == set(_actions(WALK))
    user, run = _run(sandbox, COLLECT, spark)
    _, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    assert sweep_only(run) == {file.address: "deleted" for file in story.deleted}
    assert user.used == set(_actions(COLLECT))
    for file in story.kept:
        assert run.store.read(file.address) == file.data
