"""Deleted branches come back at their commits, as long as a hold keeps their objects."""

from dataclasses import replace

import pytest

from lakegc_dagster.sandbox import objects, refs
from lakegc_dagster.sandbox.records import BranchRecord
from spark_core import holds
from spark_core.branches.stale import make_again
from spark_core.errors import NotFoundError
from tests.spark_core.branches.stale.conftest import outcomes
from tests.support.killing import Killed, KillingStore


def test_branches_come_back_at_their_commits_as_hidden_as_they_were(world, stale):
    number = world.sandbox.core.repository("repo").number
    world.sandbox.core.state.put_branch(number, BranchRecord("dev-1", stale["dev-1"], hidden=True))
    key = world.confirmed()
    world.delete(key)
    assert outcomes(world.undo(key)) == {"dev-1": "made again", "dev-2": "made again"}
    assert stale.items() <= world.heads().items()
    shown = world.run().server.branch_reads.visible("repo")
    assert shown == {"main", "dev-2"}
    core, _ = world.place
    repository, entry = objects.stat(*world.place, "dev-1", "a")
    kept = core.blockstore.read(repository.storage_namespace, entry.address, entry.address_type)
    assert kept == b"dev-1/a"


def test_one_branch_can_come_back_alone_and_only_once(world, stale):
    key = world.confirmed()
    world.delete(key)
    assert outcomes(world.undo(key, "dev-2")) == {"dev-2": "made again"}
    assert set(world.heads()) == {"main", "dev-2"}
    assert outcomes(world.undo(key)) == {"dev-1": "made again", "dev-2": "there before"}


def test_only_what_was_deleted_can_come_back(world, stale):
    key = world.confirmed("dev-1")
    with pytest.raises(NotFoundError, match="did not delete any branch; it deleted: none"):
        world.undo(key)
    world.delete(key)
    with pytest.raises(NotFoundError, match="did not delete dev-2; it deleted: dev-1"):
        world.undo(key, "dev-2")


def test_a_name_that_is_taken_is_told_and_the_others_come_back(world, stale):
    key = world.confirmed()
    world.delete(key)
    with world.sandbox.core.lock:
        refs.create_branch(*world.place, "dev-1", "main")
    found = world.undo(key)
    assert outcomes(found) == {"dev-1": "refused", "dev-2": "made again"}
    assert found["dev-1"].why == f"there is another one, at {world.head('main')[:12]}"
    assert found["dev-1"].until is not None


def test_a_tag_of_that_name_is_told(world, stale):
    key = world.confirmed("dev-1")
    world.delete(key)
    with world.sandbox.core.lock:
        refs.create_tag(*world.place, "dev-1", "main")
    assert world.undo(key)["dev-1"].why == "a tag has its name"


def test_a_hook_that_refuses_the_making_is_told(world, stale):
    key = world.confirmed("dev-1")
    world.delete(key)
    world.sandbox.behaviour.hook = lambda *_: "no new branches"
    found = world.undo(key)["dev-1"]
    assert (found.outcome, "no new branches" in found.why) == ("refused", True)


def test_without_its_hold_a_branch_does_not_come_back(world, stale):
    key = world.confirmed("dev-1")
    world.delete(key)
    (name,) = world.holds()
    holds.remove(world.run(), name)
    found = world.undo(key)["dev-1"]
    assert found.outcome == "refused"
    assert f"the hold {name} on its objects has ended" in found.why
    assert "it could be made again until 2026-12-20 02:0" in found.why


def test_killed_while_it_comes_back_the_same_call_goes_on(world, stale, monkeypatch):
    key = world.confirmed("dev-1")
    world.delete(key)
    run = world.run()
    store = KillingStore(run.namespace, run.store.options).arm(1, after=False)
    with pytest.raises(Killed):
        make_again.undo(replace(run, store=store), key, who="bob")
    assert world.head("dev-1") == stale["dev-1"]
    assert outcomes(world.undo(key)) == {"dev-1": "there before"}
    assert outcomes(world.delete(key)) == {"dev-1": "there before"}
