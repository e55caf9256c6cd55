"""Work branches of removals: deleted where the record says that they are ours, else named."""

import pytest

from lakegc_dagster.sandbox import Sandbox, objects, refs
from spark_core.branches import removal
from spark_core.branches.removal.writes import Writes
from spark_core.errors import TransientError
from tests.support.removals import World, rule

NAME = "lakegc-remove-2026-11-07T02-00-00Z-1"


class KilledError(BaseException):
    """Ends the process of a removal."""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("branches") / "sandbox") as sandbox:
        yield sandbox


@pytest.fixture
def world(running):
    """Two old entries under logs/, and a policy that removes them."""
    running.observe(None)
    running.behaviour.protected, running.behaviour.hook = (), None
    world = World(running)
    world.committed("main", "logs/a", "logs/b", "data/c")
    world.at(6)
    world.policy(rule("main/logs/", 3))
    return world


def killed_at(world, monkeypatch, call):
    """Begin a removal whose process ends at a call that changes the server."""

    def killed(*_):
        raise KilledError

    run = world.run()
    with monkeypatch.context() as patch:
        patch.setattr(Writes, call, killed)
        patch.setattr(Writes, "delete_branch", killed)
        with pytest.raises(KilledError):
            removal.remove(run, who="ann")
    assert world.work_branches() == {NAME}


def removed_later(world, day=8.0):
    """Remove once more; return what is said of branches that are left."""
    world.at(day)
    return dict(world.remove().left)


def staged(world, branch):
    """The paths that are staged on a branch."""
    return {path for path, _ in world.run().server.diff_branch(world.name, branch)}


@pytest.mark.parametrize("paths", [["data/of the user"], []])
def test_a_users_branch_of_that_name_stays_with_what_is_staged_on_it(world, paths):
    world.repository.branch(NAME)
    world.write(NAME, *paths)
    assert "branch already exists" in world.outcome().found
    assert removed_later(world) == {}
    assert world.work_branches() == {NAME}
    assert staged(world, NAME) == set(paths)


def test_a_users_branch_that_lost_its_answer_stays_with_what_is_staged_on_it(world, monkeypatch):
    world.repository.branch(NAME)
    world.write(NAME, "data/of the user")
    run = world.run()

    def lost(*_):
        raise TransientError("the connection broke off")

    monkeypatch.setattr(Writes, "create_branch", lost)
    (named,) = removal.remove(run, who="ann").named
    assert named.outcome.left == NAME
    assert "something is staged on it, for instance at 'data/of the user'" in named.outcome.found
    assert staged(world, NAME) == {"data/of the user"}


def test_what_a_user_stages_on_a_branch_that_was_left_keeps_it_by_name(world, monkeypatch):
    killed_at(world, monkeypatch, "merge")
    world.write(NAME, "data/of the user")
    left = removed_later(world)
    assert "something is staged on it, for instance at 'data/of the user'" in left[NAME]
    assert f"lakectl branch delete lakefs://{world.name}/{NAME}" in left[NAME]
    assert staged(world, NAME) == {"data/of the user"}


def test_what_a_user_commits_on_a_branch_that_was_left_keeps_it_by_name(world, monkeypatch):
    killed_at(world, monkeypatch, "merge")
    world.committed(NAME, "data/of the user")
    head = world.log(NAME)[0]["id"]
    left = removed_later(world)
    assert f"commit {head[:12]} on it is not of this work" in left[NAME]
    assert world.log(NAME)[0]["id"] == head


def test_a_branch_that_stands_elsewhere_than_the_record_says_stays_by_name(world, monkeypatch):
    killed_at(world, monkeypatch, "delete_entries")
    world.repository.drop_branch(NAME)
    world.repository.branch("dev")
    world.committed("dev", "data/of the user")
    world.repository.branch(NAME, "dev")
    assert "is not of this work" in removed_later(world)[NAME]
    assert world.paths(NAME) == {"logs/a", "logs/b", "data/c", "data/of the user"}


def test_a_branch_without_our_deletions_yet_goes(world, monkeypatch):
    killed_at(world, monkeypatch, "delete_entries")
    assert removed_later(world) == {}
    assert world.work_branches() == set()


def test_deletions_that_were_staged_and_not_committed_keep_a_branch_by_name(world, monkeypatch):
    killed_at(world, monkeypatch, "commit")
    assert "something is staged on it" in removed_later(world)[NAME]
    assert world.work_branches() == {NAME}
    assert staged(world, NAME) == {"logs/a", "logs/b"}


def test_a_branch_with_our_commit_goes_a_day_later_and_not_before(world, monkeypatch):
    killed_at(world, monkeypatch, "merge")
    assert "may be at work" in removed_later(world, 6.9)[NAME]
    assert removed_later(world, 7.1) == {}
    assert world.work_branches() == set()


def test_a_branch_that_somebody_makes_after_ours_went_is_not_ours(world):
    assert world.outcome().state == "removed"
    world.repository.branch(NAME, f"{world.log()[0]['id']}~1")
    assert removed_later(world) == {}
    assert world.work_branches() == {NAME}


def test_what_somebody_stages_on_a_branch_at_work_keeps_it_by_name(world):
    def upload(endpoint):
        if endpoint == "commit":
            core = world.sandbox.core
            with core.lock:
                objects.upload(core, world.name, NAME, "data/of the user", b"x")

    world.sandbox.observe(upload)
    outcome = world.outcome()
    assert (outcome.left, outcome.state) == (NAME, "failed")
    assert "changes 'data/of the user', which the rule does not name" in outcome.found
    assert "data/of the user" in world.paths(NAME)


def test_what_somebody_commits_to_a_branch_at_work_keeps_it_by_name(world):
    def write(endpoint):
        if endpoint == "merge_into_branch":
            core = world.sandbox.core
            with core.lock:
                objects.upload(core, world.name, NAME, "data/of the user", b"x")
                refs.commit(core, world.name, NAME, message="of the user")

    world.sandbox.observe(write)
    outcome = world.outcome()
    assert (outcome.left, outcome.state) == (NAME, "removed")
    assert "is not of this work" in outcome.found
    assert "data/of the user" in world.paths(NAME)
