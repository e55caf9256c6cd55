"""What stops a removal, by name: the branch stays as it was, and the work branch is gone."""

from dataclasses import replace

import pytest

from lakegc_dagster.sandbox import Sandbox, objects, refs
from spark_core import lakegc_keys
from spark_core.branches import removal
from spark_core.branches.removal import record
from spark_core.branches.removal.writes import Writes
from spark_core.errors import ChainError, NotFoundError, TransientError
from tests.support.removals import World, rule


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("removals") / "sandbox") as sandbox:
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


class Meddler:
    """Does something once, right before the sandbox serves a request of a name."""

    def __init__(self, world, endpoint, act):
        self.world, self.endpoint, self.act = world, endpoint, act
        self.core = world.sandbox.core
        world.sandbox.observe(self)

    def __call__(self, endpoint):
        if endpoint == self.endpoint and self.act is not None:
            act, self.act = self.act, None
            with self.core.lock:
                act(self.core, self.world.name)


def overwrite(path):
    def act(core, name):
        objects.upload(core, name, "main", path, b"written meanwhile")
        refs.commit(core, name, "main", message="meanwhile")

    return act


def require_untouched(world, outcome, state, *paths, left=()):
    assert outcome.state == state, outcome
    assert not outcome.is_as_wanted
    assert outcome.commit is None
    assert world.paths() == {"logs/a", "logs/b", "data/c", *paths}
    assert world.work_branches() == set(left)


def test_a_branch_with_something_staged_is_named_and_tried_again(world):
    world.write("main", "data/draft")
    world.sandbox.requests.clear()
    outcome = world.outcome()
    require_untouched(world, outcome, "staged", "data/draft")
    assert "something is staged on branch main, for instance at 'data/draft'" in outcome.found
    assert world.sandbox.requests["create_branch"] == 0
    world.at(6.1)
    assert "takes no merge" in world.outcome(dry_run=True).found
    world.repository.commit("main")
    assert world.outcome().state == "removed"


def test_what_is_staged_in_the_last_moment_stops_the_merge(world):
    def stage(core, name):
        objects.upload(core, name, "main", "data/draft", b"draft")

    Meddler(world, "merge_into_branch", stage)
    outcome = world.outcome()
    require_untouched(world, outcome, "staged", "data/draft")
    assert "uncommitted changes" in outcome.found


def test_an_entry_that_changed_before_the_comparison_is_not_removed(world):
    Meddler(world, "commit", overwrite("logs/a"))
    outcome = world.outcome()
    require_untouched(world, outcome, "changed")
    assert "1 entries of branch main were written again" in outcome.found
    assert world.repository.get("main", "logs/a") == b"written meanwhile"


def test_an_entry_that_changed_after_the_comparison_is_a_conflict_and_not_removed(world):
    Meddler(world, "merge_into_branch", overwrite("logs/a"))
    require_untouched(world, world.outcome(), "conflict")
    assert world.repository.get("main", "logs/a") == b"written meanwhile"
    world.at(6.1)
    assert world.outcome().entries == 1
    assert world.paths() == {"logs/a", "data/c"}


def test_the_same_content_staged_after_the_look_stops_the_rule(world):
    def stage(core, name):
        objects.upload(core, name, "main", "logs/a", b"logs/a")

    Meddler(world, "commit", stage)
    require_untouched(world, world.outcome(), "changed")


def test_a_branch_that_went_on_elsewhere_takes_the_merge_and_keeps_what_came(world):
    Meddler(world, "merge_into_branch", overwrite("logs/new"))
    assert world.outcome().state == "removed"
    assert world.paths() == {"logs/new", "data/c"}


def test_what_somebody_else_removed_meanwhile_is_removed(world):
    def delete(core, name):
        objects.delete(core, name, "main", ["logs/a"])
        refs.commit(core, name, "main", message="meanwhile")

    Meddler(world, "commit", delete)
    assert world.outcome().state == "removed"
    assert world.paths() == {"data/c"}


def _rewound(core, name):
    refs.hard_reset(core, name, "main", "main~1")


def test_a_branch_that_was_reset_meanwhile_does_not_get_back_what_it_left(world):
    Meddler(world, "commit", _rewound)
    outcome = world.outcome()
    assert (outcome.state, outcome.commit) == ("moved", None)
    assert "which is not on its main line any more" in outcome.found
    assert world.paths() == set()
    assert world.work_branches() == set()
    assert len(world.log()) == 1


def test_a_branch_that_was_reset_in_the_last_moment_is_put_right_at_once(world):
    Meddler(world, "merge_into_branch", _rewound)
    outcome = world.outcome()
    assert (outcome.state, outcome.commit) == ("moved", None)
    assert "reverted at once" in outcome.found
    assert world.paths() == set()
    (undone,) = world.undo()
    assert undone.state == "nothing"


def test_a_branch_that_was_deleted_meanwhile_is_not_made_anew(world):
    world.repository.branch("dev")
    world.policy(rule("dev/logs/", 3))
    Meddler(world, "merge_into_branch", lambda core, name: refs.delete_branch(core, name, "dev"))
    outcome = world.outcome()
    assert outcome.state == "failed"
    assert "branch not found" in outcome.found
    assert set(world.repository.branches()) == {"main"}


def test_a_protected_branch_takes_the_merge_and_a_protected_work_branch_is_named(world):
    world.sandbox.behaviour.protected = ("lakegc-*",)
    outcome = world.outcome()
    require_untouched(world, outcome, "protected")
    assert "cannot write to protected branch" in outcome.found
    world.sandbox.behaviour.protected = ("main",)
    world.at(6.1)
    assert world.outcome().state == "removed"


def test_what_is_staged_on_a_protected_branch_is_not_reset(world):
    world.write("main", "inbox/a")
    world.at(12)
    world.policy(rule("main/inbox/", None, staged=3), resets=True)
    world.sandbox.behaviour.protected = ("main",)
    outcome = world.outcome()
    assert outcome.state == "protected"
    assert "inbox/a" in world.paths()


@pytest.mark.parametrize("event", ["pre-commit", "pre-merge"])
def test_a_hook_that_refuses_is_named(world, event):
    world.sandbox.behaviour.hook = lambda asked, _: "no reviewer" if asked == event else None
    outcome = world.outcome()
    require_untouched(world, outcome, "hook")
    assert f"{event} hook aborted" in outcome.found
    assert "no reviewer" in outcome.found


def test_a_work_branch_that_cannot_be_deleted_is_named(world):
    world.sandbox.behaviour.hook = lambda event, _: "no" if event == "pre-delete-branch" else None
    outcome = world.outcome()
    assert outcome.state == "removed"
    assert not outcome.is_as_wanted
    assert world.work_branches() == {outcome.left}
    assert f"Branch {outcome.left} could not be deleted" in outcome.found


def test_a_branch_of_the_work_branchs_name_is_not_ours_and_stays(world):
    name = "lakegc-remove-2026-11-07T02-00-00Z-1"
    world.repository.branch(name)
    outcome = world.outcome()
    assert outcome.state == "failed"
    assert "branch already exists" in outcome.found
    assert world.work_branches() == {name}


def test_the_lost_answer_of_a_merge_is_looked_up(world, monkeypatch):
    run = world.run()
    real = Writes.merge

    def lost(*arguments):
        real(*arguments)
        raise TransientError("the connection broke off")

    monkeypatch.setattr(Writes, "merge", lost)
    (named,) = removal.remove(run, who="ann").named
    assert (named.outcome.state, named.outcome.commit) == ("removed", world.log()[0]["id"])


def test_a_merge_that_is_not_seen_after_a_lost_answer_is_unknown_and_undo_finds_it(
    world, monkeypatch
):
    run = world.run()
    late = []

    def lost(*arguments):
        late.append(arguments)
        raise TransientError("the connection broke off")

    real = Writes.merge
    monkeypatch.setattr(Writes, "merge", lost)
    (named,) = removal.remove(run, who="ann").named
    assert (named.outcome.state, named.outcome.commit) == ("unknown", None)
    assert "which may still come" in named.outcome.found
    real(*late[0])
    assert world.paths() == {"data/c"}
    (undone,) = removal.undo(run, run.key, who="ann")
    assert undone.state == "reverted"
    assert world.paths() == {"logs/a", "logs/b", "data/c"}


def test_a_foreign_write_to_the_work_branch_ends_the_rule(world):
    def meddle(core, name):
        objects.delete(core, name, "lakegc-remove-2026-11-07T02-00-00Z-1", ["data/c"])

    Meddler(world, "commit", meddle)
    outcome = world.outcome()
    require_untouched(world, outcome, "failed", left={outcome.left})
    assert "changes 'data/c', which the rule does not name" in outcome.found


def test_a_deletion_that_somebody_took_back_on_the_work_branch_ends_the_rule(world):
    def meddle(core, name):
        objects.reset(core, name, "lakegc-remove-2026-11-07T02-00-00Z-1", "object", "logs/a")

    Meddler(world, "commit", meddle)
    outcome = world.outcome()
    require_untouched(world, outcome, "failed", left={outcome.left})
    assert "removes 1 entries, and 2 were found" in outcome.found


def test_what_is_staged_no_more_is_not_counted_as_reset(world):
    world.write("main", "inbox/a", "inbox/ab")
    world.at(12)
    world.policy(rule("main/inbox/", None, staged=3), resets=True)
    Meddler(
        world, "list_objects", lambda core, name: objects.delete(core, name, "main", ["inbox/a"])
    )
    assert world.outcome(branches_at_once=1).reset_entries == 1
    assert "inbox/ab" not in world.paths()


def test_a_failure_on_one_branch_holds_up_no_other(world):
    world.repository.branch("dev")
    world.policy(rule("main/logs/", 3), rule("dev/logs/", 3))
    world.write("main", "data/draft")
    states = [each.outcome.state for each in world.remove().named]
    assert states == ["staged", "removed"]


def test_a_removal_that_was_killed_leaves_a_branch_for_a_day_and_a_merge_for_undo(
    world, monkeypatch
):
    run = world.run()

    class KilledError(BaseException):
        pass

    def killed(*_):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Writes, "delete_branch", killed)
        with pytest.raises(KilledError):
            removal.remove(run, who="ann")
    (left,) = world.work_branches()
    assert world.paths() == {"data/c"}
    world.repository.branch("lakegc-remove-2020-01-01T00-00-00Z-1")
    world.at(6.5)
    assert list(world.remove().left) == [left]
    world.at(7.5)
    assert world.remove().left == {}
    assert world.work_branches() == {"lakegc-remove-2020-01-01T00-00-00Z-1"}
    (undone,) = removal.undo(world.run(), run.key, who="ann")
    assert undone.state == "reverted"
    assert world.paths() == {"logs/a", "logs/b", "data/c"}


def test_undo_does_not_replace_what_was_written_since(world):
    world.outcome()
    world.at(7)
    world.committed("main", "logs/a", data=b"new")
    (undone,) = world.undo()
    assert undone.state == "refused"
    assert "conflict found" in undone.found
    assert world.repository.get("main", "logs/a") == b"new"
    world.repository.delete("main", "logs/a")
    world.repository.commit("main")
    (undone,) = world.undo()
    assert undone.state == "reverted"


def test_a_second_undo_and_one_by_hand_are_no_failures(world):
    outcome = world.outcome()
    world.repository.revert("main", outcome.commit, parent_number=1)
    assert [each.state for each in world.undo()] == ["reverted"]
    assert [each.state for each in world.undo()] == ["before"]
    assert len(world.log()) == 4


def test_undo_names_a_branch_and_a_merge_that_are_gone(world):
    world.repository.branch("dev")
    world.policy(rule("dev/logs/", 3))
    world.outcome()
    world.repository.hard_reset("dev", "main")
    (undone,) = world.undo()
    assert (undone.state, undone.found) == (
        "gone",
        "its merge is not on the main line of branch dev any more",
    )
    world.repository.drop_branch("dev")
    (undone,) = world.undo()
    assert (undone.state, undone.found) == ("gone", "there is no branch dev any more")


def test_undo_takes_no_other_commit_for_the_merge_that_is_on_record(world):
    head = world.log()[0]["id"]
    merged = world.outcome().commit
    world.repository.hard_reset("main", head)
    world.repository.cherry_pick("main", merged, parent_number=1)
    (undone,) = world.undo()
    assert undone.state == "gone"
    assert world.paths() == {"data/c"}


def test_undo_needs_a_removal_of_this_very_repository(world):
    world.outcome()
    run = world.run()
    with pytest.raises(NotFoundError, match=r"no removal .* There are: 2026-11-07T02-00-00Z"):
        removal.undo(run, type(run.key).parse("2020-01-01T00-00-00Z"), who="ann")
    key = f"{lakegc_keys.removal(run.key)}begun.json"
    begun = record.Begun.from_json(run.store.read(key), name=key)
    run.store.put(key, replace(begun, instance="another").to_json())
    with pytest.raises(ChainError, match=r"removal .* was of 'another'"):
        removal.undo(run, run.key, who="ann")
