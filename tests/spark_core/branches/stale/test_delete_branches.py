"""Confirmed branches go; what changed stays; whatever stops it, the next call goes on."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lakegc_dagster.sandbox import refs
from spark_core import holds, lakegc_keys
from spark_core.branches.stale import delete_branches, marked
from spark_core.branches.stale.branch_writes import BranchWrites
from spark_core.errors import (
    ChainError,
    LakegcError,
    NotFoundError,
    SettingsError,
    TransientError,
)
from spark_core.lakefs import BranchReads
from spark_core.model import RunKey
from tests.spark_core.branches.stale.conftest import WITH_STAGED, outcomes
from tests.support.killing import Killed, KillingStore


def test_confirmed_branches_go_and_a_hold_keeps_the_objects_of_each(world, stale):
    key = world.confirmed()
    found = world.delete(key)
    assert outcomes(found) == {"dev-1": "deleted", "dev-2": "deleted"}
    assert set(world.heads()) == {"main"}
    assert {hold.commit_id for hold in world.holds().values()} == set(stale.values())
    now = world.run().now()
    for each in found.values():
        assert timedelta(days=29) < each.until - now <= timedelta(days=30)


def test_what_went_is_not_deleted_again_when_it_is_made_anew(world, stale):
    key = world.confirmed()
    world.delete(key)
    with world.sandbox.core.lock:
        refs.create_branch(*world.place, "dev-1", stale["dev-1"])
    assert outcomes(world.delete(key)) == {"dev-1": "gone before", "dev-2": "gone before"}
    assert world.head("dev-1") == stale["dev-1"]


def test_only_confirmed_branches_go(world, stale):
    key = world.confirmed("dev-2")
    assert outcomes(world.delete(key)) == {"dev-2": "deleted"}
    assert set(world.heads()) == {"main", "dev-1"}


def test_nothing_goes_without_a_confirmation(world, stale):
    key = world.mark().key
    with pytest.raises(
        SettingsError, match=f"was not confirmed.*confirm repo branches --run {key}"
    ):
        world.delete(key)
    assert stale.keys() < world.heads().keys()


def test_a_confirmation_names_what_the_mark_lets_go(world, stale):
    world.branch("dev-new", days=1)
    key = world.mark().key
    for name in ("dev-new", "main", "nobody"):
        with pytest.raises(NotFoundError, match=f"does not let {name} go; it lets go: dev-1, dev"):
            marked.confirm(world.run(), key, who="bob", only=[name])
    marked.confirm(world.run(), key, who="bob")
    with pytest.raises(SettingsError, match=r"already a confirmation of this mark.*by bob"):
        marked.confirm(world.run(), key, who="ann")


def test_a_mark_that_lets_nothing_go_cannot_be_confirmed(world):
    key = world.mark().key
    with pytest.raises(SettingsError, match="lets no branch go"):
        marked.confirm(world.run(), key, who="bob")


def test_a_mark_that_is_not_there_names_those_that_are(world):
    there = world.mark().mark
    with pytest.raises(NotFoundError, match=f"there is no mark 2026-.*there are: {there}"):
        world.delete(RunKey.parse("2026-01-01T00-00-00Z"))


def test_a_mark_of_an_earlier_repository_of_the_name_deletes_nothing(world, stale):
    key = world.confirmed()
    run = world.run()
    earlier = replace(run.repository, creation_date=run.repository.creation_date - timedelta(1))
    with pytest.raises(ChainError, match="was made of the branches of"):
        delete_branches.delete(replace(run, repository=earlier), key, who="bob")


# what changed since the mark


def changed(world, key, name="dev-1"):
    found = world.delete(key)
    assert outcomes(found) == {"dev-1": "left", "dev-2": "deleted"}
    assert name in world.heads()
    return found["dev-1"].why


def test_a_branch_that_moved_since_the_mark_stays(world, stale):
    key = world.confirmed()
    world.upload("dev-1", "b")
    moved = world.commit("dev-1")
    why = changed(world, key)
    assert why == (f"its head moved since the mark, from {stale['dev-1'][:12]} to {moved[:12]}")


def test_a_branch_that_was_reset_to_another_old_commit_stays(world, stale):
    key = world.confirmed()
    with world.sandbox.core.lock:
        refs.hard_reset(*world.place, "dev-1", "main")
    assert "its head moved since the mark" in changed(world, key)


def test_a_branch_on_which_something_was_staged_since_the_mark_stays(world, stale):
    key = world.confirmed()
    world.upload("dev-1", "b")
    assert "it has staged entries (b)" in changed(world, key)


def test_a_branch_that_is_protected_since_the_mark_stays(world, stale):
    key = world.confirmed()
    world.sandbox.behaviour.protected = ("dev-1",)
    assert changed(world, key) == "the server protects it (dev-1)"


def test_a_branch_that_is_held_since_the_mark_stays(world, stale):
    key = world.confirmed()
    holds.add(world.run(), "audit", "branch", "dev-1", who="ann", why="")
    assert changed(world, key) == "hold audit: branch dev-1, made by ann"


def test_a_branch_that_was_deleted_since_the_mark_is_told(world, stale):
    key = world.confirmed()
    with world.sandbox.core.lock:
        refs.delete_branch(*world.place, "dev-1")
    found = world.delete(key)["dev-1"]
    assert (found.outcome, found.why) == ("left", "it is not there any more")


def test_under_another_policy_nothing_goes(world, stale):
    key = world.confirmed()
    world.policy(WITH_STAGED)
    found = world.delete(key)
    assert outcomes(found) == {"dev-1": "left", "dev-2": "left"}
    assert stale.keys() < world.heads().keys()


def test_a_head_that_moves_after_everything_was_read_is_seen_by_the_last_look(
    world, stale, monkeypatch
):
    key = world.confirmed()
    look = BranchReads.head

    def late(self, repository_id, branch):
        if branch == "dev-1":
            world.upload("dev-1", "late")
            world.commit("dev-1")
        return look(self, repository_id, branch)

    monkeypatch.setattr(BranchReads, "head", late)
    assert "its head moved since the mark" in changed(world, key)


def test_an_entry_staged_after_everything_was_read_is_seen_by_the_last_look(
    world, stale, monkeypatch
):
    key = world.confirmed()
    look = BranchReads.head

    def late(self, repository_id, branch):
        if branch == "dev-1":
            world.upload("dev-1", "late")
        return look(self, repository_id, branch)

    monkeypatch.setattr(BranchReads, "head", late)
    assert changed(world, key) == "what is staged on it changed since the mark"


@pytest.mark.parametrize("again", [b"other", b"x"], ids=["another", "the same, later"])
def test_with_staged_entries_a_branch_goes_only_with_those_that_were_marked(world, again):
    world.policy(WITH_STAGED)
    for name in ("dev-1", "dev-2"):
        world.branch(name)
        world.upload(name, "b", days=50)
    key = world.confirmed()
    world.upload("dev-1", "b", again, days=40)
    assert changed(world, key) == "what is staged on it changed since the mark"


# failures by name


def test_a_hook_that_refuses_is_told_and_the_others_go_on(world, stale):
    key = world.confirmed()
    world.sandbox.behaviour.hook = lambda _, branch: "not that" if branch == "dev-1" else None
    found = world.delete(key)
    assert outcomes(found) == {"dev-1": "refused", "dev-2": "deleted"}
    assert "pre-delete-branch hook aborted" in found["dev-1"].why
    assert "not that" in found["dev-1"].why
    world.sandbox.behaviour.hook = None
    assert outcomes(world.delete(key)) == {"dev-1": "deleted", "dev-2": "gone before"}


def test_an_error_says_which_branches_went(world, stale, monkeypatch):
    key = world.confirmed()
    delete = BranchWrites.delete

    def failing(self, repository_id, branch):
        if branch == "dev-2":
            raise TransientError("the connection broke off")
        return delete(self, repository_id, branch)

    monkeypatch.setattr(BranchWrites, "delete", failing)
    with pytest.raises(TransientError) as failed:
        world.delete(key)
    assert "Deleted by this call: dev-1." in str(failed.value)
    command = f"lakegc retention branches delete repo {key}"
    assert f"Whether dev-2 is deleted is not known; `{command}` finds out." in str(failed.value)


def test_a_foreign_hold_of_that_name_stops_it_before_the_branch_goes(world, stale):
    key = world.confirmed("dev-1")
    name = f"undo-branch-{str(key).lower()}-000001"
    holds.add(world.run(), name, "branch", "main", who="ann", why="")
    with pytest.raises(LakegcError, match="keeps branch main, not commit"):
        world.delete(key)
    assert "dev-1" in world.heads()


# killed between two steps


def stopped(world, key, monkeypatch, *, at, after):
    """Kill the deletion at its n-th change of store or server, before or after its effect."""
    run = world.run()
    store = KillingStore(run.namespace, run.store.options).arm(0, after=False)
    count = 0

    def change(act):
        nonlocal count
        count += 1
        if count == at and not after:
            raise Killed
        result = act()
        if count == at:
            raise Killed
        return result

    store._change = change
    delete = BranchWrites.delete
    with monkeypatch.context() as patch:
        patch.setattr(BranchWrites, "delete", lambda *args: change(lambda: delete(*args)))
        with pytest.raises(Killed):
            delete_branches.delete(replace(run, store=store), key, who="bob")


# Of each branch: a record, a hold, the deletion, a record.
STEPS = [*range(1, 5), *(pytest.param(each, marks=pytest.mark.slow) for each in range(5, 9))]


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", STEPS)
def test_killed_between_any_two_steps_the_next_call_goes_on(world, stale, monkeypatch, at, after):
    key = world.confirmed()
    stopped(world, key, monkeypatch, at=at, after=after)
    # What is gone is held, and can be made again, whatever was recorded.
    held = {hold.commit_id for hold in world.holds().values()}
    gone = {name for name in stale if name not in world.heads()}
    assert {stale[name] for name in gone} <= held
    if gone:
        assert outcomes(world.undo(key, *gone)) == dict.fromkeys(gone, "made again")
        assert stale.items() <= world.heads().items()
    found = world.delete(key)
    assert outcomes(found) == {
        name: "there before" if name in gone else "deleted" for name in stale
    }
    assert set(world.heads()) == {"main", *gone}


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", STEPS)
def test_killed_between_any_two_steps_the_same_call_ends_the_work(
    world, stale, monkeypatch, at, after
):
    key = world.confirmed()
    stopped(world, key, monkeypatch, at=at, after=after)
    found = world.delete(key)
    assert set(world.heads()) == {"main"}
    assert all(each.outcome in {"deleted", "gone before"} for each in found.values())
    assert all(each.until is not None for each in found.values())
    assert {hold.commit_id for hold in world.holds().values()} == set(stale.values())
    assert outcomes(world.undo(key)) == dict.fromkeys(stale, "made again")
    assert stale.items() <= world.heads().items()


def test_a_branch_that_is_made_anew_elsewhere_after_a_kill_stays(world, stale, monkeypatch):
    key = world.confirmed()
    stopped(world, key, monkeypatch, at=3, after=True)
    assert "dev-1" not in world.heads()
    with world.sandbox.core.lock:
        refs.create_branch(*world.place, "dev-1", "main")
    assert "its head moved" in changed(world, key)


def test_records_are_written_before_what_they_speak_of(world, stale, monkeypatch):
    """So whoever finds a branch gone finds its record and its hold."""
    key = world.confirmed("dev-1")
    seen = []
    delete = BranchWrites.delete

    def looking(self, repository_id, branch):
        store = world.run().store
        seen.append(store.exists(lakegc_keys.branch_step_key(key, 1, "going")))
        seen.append(len(world.holds()))
        seen.append(store.exists(lakegc_keys.branch_step_key(key, 1, "gone")))
        return delete(self, repository_id, branch)

    monkeypatch.setattr(BranchWrites, "delete", looking)
    world.delete(key)
    assert seen == [True, 1, False]
