"""Removing entries by commits on a real server: merges, refusals by its own words, and undo."""

import pytest

from spark_core.branches import removal
from spark_core.branches.removal.writes import Writes
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Period, Policy, Rule

LOGS = Rule("main", "logs/", {"all": Period(days=3)}, effect="remove")
REFUSING = """\
name: refuse removals
on:
  {event}:
hooks:
  - id: refuse
    type: lua
    properties:
      script: error("nobody reviewed it")
"""


@pytest.fixture
def old(repository):
    """A repository with entries of ten days under logs/, and a younger one."""
    _write_old(repository, "logs/a", "logs/b", "data/c")
    repository.upload("main", "logs/young", b"young")
    repository.commit("main", days_ago=1)
    return repository


def _write_old(repository, *paths, days_ago=10, commit=True):
    """Stage entries with a date of some days ago."""
    for path in paths:
        repository.upload("main", path, path.encode())
        repository.date_entry("main", path, days_ago=days_ago)
    if commit:
        repository.commit("main", days_ago=days_ago)


def _open(repository):
    return repository.server.open_run(None, repository.name, policies="sweep")


def _remove(repository, *rules):
    run = _open(repository)
    version = versions.store_version(run, Policy(rules or (LOGS,)), who="live")
    confirmed.confirm(run, version, "live")
    (named,) = removal.remove(run, who="live").named
    return run, named


def _require_left_alone(repository, outcome, state):
    assert outcome.state == state, outcome
    assert outcome.commit is None
    assert {"logs/a", "logs/b", "data/c", "logs/young"} <= set(repository.entries("main"))
    assert not [name for name in repository.branches() if name.startswith("lakegc-")]


def test_old_entries_go_by_one_merge_and_come_back_with_their_bytes(old):
    before, data = old.entries("main"), old.data()
    run, named = _remove(old)
    assert (named.outcome.state, named.outcome.entries) == ("removed", 2), named
    assert set(old.entries("main")) == {"data/c", "logs/young"}
    assert old.data() == data
    assert [name for name in old.branches() if name.startswith("lakegc-")] == []
    (head,) = old.call("GET", "/refs/main/commits", query={"amount": 1})["results"]
    assert head["id"] == named.outcome.commit
    assert head["metadata"]["lakegc.run"] == str(run.key)
    (undone,) = removal.undo(_open(old), run.key, who="live")
    assert undone.state == "reverted", undone
    assert old.entries("main") == before
    assert old.get("main", "logs/a") == b"logs/a"
    (again,) = removal.undo(_open(old), run.key, who="live")
    assert again.state == "before"


def test_an_old_entry_that_was_committed_today_stays(repository):
    _write_old(repository, "logs/a", days_ago=10, commit=False)
    repository.commit("main")
    _, named = _remove(repository)
    assert (named.outcome.state, named.found.kept["introduced"]) == ("nothing", 1)


def test_the_same_content_staged_again_stays(old):
    data = old.get("main", "data/c")
    _write_old(old, "logs/again")
    old.upload("main", "logs/again", b"logs/again")
    _, named = _remove(old)
    assert named.outcome.state in ("removed", "staged"), named
    assert "logs/again" in old.entries("main")
    assert old.get("main", "data/c") == data


def test_a_branch_with_something_staged_is_left_alone(old):
    old.upload("main", "data/draft", b"draft")
    _, named = _remove(old)
    _require_left_alone(old, named.outcome, "staged")


def test_an_entry_that_changes_before_the_merge_is_not_removed(old, monkeypatch):
    run = _open(old)
    version = versions.store_version(run, Policy((LOGS,)), who="live")
    confirmed.confirm(run, version, "live")
    real = Writes.merge

    def merge(*arguments):
        old.upload("main", "logs/a", b"written meanwhile")
        old.commit("main")
        return real(*arguments)

    monkeypatch.setattr(Writes, "merge", merge)
    (named,) = removal.remove(run, who="live").named
    _require_left_alone(old, named.outcome, "conflict")
    assert old.get("main", "logs/a") == b"written meanwhile"


def test_undo_does_not_replace_what_was_written_since(old):
    run, _ = _remove(old)
    old.upload("main", "logs/a", b"new")
    old.commit("main")
    (undone,) = removal.undo(_open(old), run.key, who="live")
    assert undone.state == "refused", undone
    assert old.get("main", "logs/a") == b"new"


def test_a_protected_branch_takes_the_merge_and_a_protected_work_branch_is_named(old):
    old.protect("lakegc-*")
    _, named = _remove(old)
    _require_left_alone(old, named.outcome, "protected")
    # The work branch is free again, or the second removal would not get that far.
    old.protect("main")
    run = _open(old)
    while str(run.key) == named.outcome.run:
        run = _open(old)
    (named,) = removal.remove(run, who="live").named
    assert named.outcome.state == "removed", named


@pytest.mark.parametrize("event", ["pre-commit", "pre-merge"])
def test_a_hook_that_refuses_is_named(old, event):
    # What is in force is read from the branch that is committed or merged.
    action = REFUSING.format(event=event).encode()
    old.upload("main", "_lakefs_actions/refuse.yaml", action)
    old.commit("main", days_ago=1)
    _, named = _remove(old)
    if named.outcome.state == "removed":
        pytest.skip("this server runs no actions")
    _require_left_alone(old, named.outcome, "hook")


def test_staged_entries_are_reset_after_their_own_confirmation(repository):
    _write_old(repository, "inbox/old", days_ago=10, commit=False)
    repository.upload("main", "inbox/young", b"young")
    run = _open(repository)
    rule = Rule("main", "inbox/", {"uncommitted": Period(days=3)}, effect="remove")
    version = versions.store_version(run, Policy((rule,)), who="live")
    confirmed.confirm(run, version, "live")
    confirmed.confirm_resets(run, version, "live")
    (named,) = removal.remove(run, who="live").named
    # The store says that the object is of today.
    assert (named.outcome.state, named.staged.kept["young"]) == ("nothing", 2), named
    assert set(repository.entries("main")) == {"inbox/old", "inbox/young"}
    Writes(run.server).reset_entry(repository.name, "main", "inbox/old")
    assert set(repository.entries("main")) == {"inbox/young"}
