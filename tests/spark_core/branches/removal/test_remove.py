"""Rules that remove by a commit, on the sandbox: what they name, and what their commits change."""

from datetime import timedelta

import pytest

from lakegc_dagster.sandbox import Sandbox, objects, refs
from spark_core import holds, lakegc_keys
from spark_core.branches import removal
from spark_core.errors import NotFoundError, SettingsError, VerdictError
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Period, Policy, Rule
from tests.support.removals import BEGIN, DAY, World, rule


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("removals") / "sandbox") as sandbox:
        yield sandbox


@pytest.fixture
def world(running):
    running.observe(None)
    running.behaviour.protected, running.behaviour.hook = (), None
    return World(running)


def test_old_entries_go_by_one_commit_and_nothing_leaves_the_store(world):
    world.committed("main", "logs/a", "logs/b", "logstash/a", "data/a")
    world.at(5)
    world.committed("main", "logs/young")
    before, head = world.repository.data(), world.log()[0]["id"]
    world.at(6)
    world.policy(rule("main/logs/", 3))
    outcome = world.outcome()
    assert (outcome.state, outcome.entries, outcome.size_bytes) == ("removed", 2, 12)
    assert world.paths() == {"logs/young", "logstash/a", "data/a"}
    assert world.repository.data() == before
    merge = world.log()[0]
    assert (merge["id"], merge["parents"]) == (outcome.commit, [head, outcome.work_commit])
    assert merge["message"] == (
        "lakegc: remove 2 entries under main/logs/ by policy rule 1 (run 2026-11-07T02-00-00Z)"
    )
    told = {key: merge["metadata"][key] for key in ("lakegc.run", "lakegc.rule", "lakegc.entries")}
    assert told == {
        "lakegc.run": "2026-11-07T02-00-00Z",
        "lakegc.rule": "1",
        "lakegc.entries": "2",
    }
    assert world.work_branches() == set()


def test_what_was_removed_comes_back_by_undo_as_it_was(world):
    world.committed("main", "logs/a", "data/a")
    was = world.repository.entries("main")
    world.at(6)
    world.policy(rule("main/logs/", 3))
    world.outcome()
    world.at(7)
    (undone,) = world.undo()
    assert (undone.state, undone.until) == ("reverted", None)
    assert world.repository.entries("main") == was
    assert world.repository.get("main", "logs/a") == b"logs/a"
    assert world.log()[0]["metadata"] == {"lakegc.undoes": undone.commit}


def test_a_dry_run_names_the_same_and_changes_nothing(world):
    world.committed("main", "logs/a", "logs/b")
    world.at(6)
    world.policy(rule("main/logs/", 3), confirm=False)
    before = world.repository.branches(), world.repository.entries("main")
    (named,) = world.remove(dry_run=True, policies="off").named
    assert (named.outcome.state, named.outcome.entries) == ("named", 2)
    assert [path for _, path, _ in named.found.largest] == ["logs/b", "logs/a"]
    assert (world.repository.branches(), world.repository.entries("main")) == before
    assert removal.list_removals(world.run().store) == []


def test_without_a_confirmation_of_this_very_document_nothing_is_removed(world):
    world.committed("main", "logs/a")
    world.at(6)
    world.policy(rule("main/data/", 3))
    world.policy(rule("main/logs/", 3), confirm=False)
    with pytest.raises(VerdictError, match=r"version 2 .* was not confirmed \(digest [0-9a-f]{64}"):
        world.remove()
    assert world.paths() == {"logs/a"}
    run = world.run()
    confirmed.confirm(run, versions.newest(run), "ann@host")
    assert world.outcome().state == "removed"


@pytest.mark.parametrize("policies", ["off", "mark"])
def test_only_the_settings_sweep_and_only_let_a_policy_change_anything(world, policies):
    world.committed("main", "logs/a")
    world.at(6)
    world.policy(rule("main/logs/", 3))
    with pytest.raises(SettingsError, match=f"policies is '{policies}'"):
        world.remove(policies=policies)
    assert world.outcome(policies="only").state == "removed"


def test_a_policy_without_such_a_rule_is_told(world):
    with pytest.raises(NotFoundError, match="has no retention policy"):
        world.remove()
    world.policy(
        Rule("main", "", {"all": Period(days=1)}),
        Rule("main", "", {"all": Period(days=1)}, is_enabled=False, effect="remove"),
    )
    with pytest.raises(NotFoundError, match="no enabled rule with `effect: remove`"):
        world.remove()


def test_an_entry_is_old_an_hour_and_the_skew_of_clocks_later_than_its_period_says(world):
    world.committed("main", "logs/a")
    world.policy(rule("main/logs/", 3))
    margin = timedelta(hours=1, minutes=5, seconds=1) / DAY
    second = timedelta(seconds=1) / DAY
    for day in (3, 3 + margin - second):
        world.at(day)
        assert world.outcome(dry_run=True).state == "nothing"
    world.at(3 + margin)
    assert world.outcome().state == "removed"


def test_an_old_entry_that_was_merged_lately_counts_from_the_merge(world):
    world.repository.branch("dev")
    world.committed("dev", "logs/a")
    world.at(10)
    world.repository.merge("dev", "main")
    world.policy(rule("main/logs/", 3))
    world.at(12)
    (named,) = world.remove().named
    assert (named.outcome.state, named.found.kept["introduced"]) == ("nothing", 1)
    world.at(14)
    assert world.outcome().entries == 1
    # On its own branch it stands since it was committed there.
    assert world.paths("dev") == {"logs/a"}


def test_an_entry_that_was_brought_back_counts_from_then(world):
    world.committed("main", "logs/a")
    world.at(6)
    world.policy(rule("main/logs/", 3))
    world.outcome()
    world.at(7)
    world.undo()
    world.at(8)
    assert world.outcome().state == "nothing"
    world.at(11)
    assert world.outcome().entries == 1


def test_a_commit_without_a_credible_date_keeps_what_it_touched(world):
    world.write("main", "logs/a")
    core = world.sandbox.core
    with core.lock:
        refs.commit(core, world.name, "main", message="dated before any calendar", date=-(10**14))
    world.at(6)
    world.policy(rule("main/logs/", 3))
    (named,) = world.remove().named
    assert (named.outcome.state, named.found.kept["introduced"]) == ("nothing", 1)


def test_a_path_that_may_be_no_utf_8_stays(world):
    world.committed("main", "logs/\ufffd", "logs/a")
    world.at(6)
    world.policy(rule("main/logs/", 3))
    (named,) = world.remove().named
    assert (named.outcome.entries, named.found.kept["unnamed"]) == (1, 1)
    assert world.paths() == {"logs/\ufffd"}


def test_the_same_content_staged_again_keeps_the_entry(world):
    world.committed("main", "logs/a", "logs/b")
    world.at(6)
    world.write("main", "logs/a")
    world.policy(rule("main/logs/", 3))
    (named,) = world.remove().named
    assert (named.outcome.entries, named.found.kept["restaged"]) == (1, 1)
    assert world.paths() == {"logs/a"}


def test_what_a_hold_keeps_stays_and_a_held_branch_is_left_alone(world):
    (address, _), _ = world.committed("main", "logs/a", "logs/b"), world.at(6)
    world.policy(rule("main/logs/", 3))
    holds.add(world.run(), "one", "address", address, who="ann", why="")
    holds.add(world.run(), "all", "branch", "main", who="ann", why="")
    outcome = world.outcome()
    assert (outcome.state, outcome.entries) == ("held", 0)
    assert "hold all: branch main keeps branch main as it is" in outcome.found
    holds.remove(world.run(), "all")
    world.at(6.1)
    (named,) = world.remove().named
    assert (named.outcome.entries, named.found.kept["held"]) == (1, 1)
    assert world.paths() == {"logs/a"}


def test_what_a_hold_keeps_by_its_path_stays(world):
    world.committed("main", "logs/a", "logs/b")
    world.at(6)
    world.policy(rule("main/logs/", 3))
    holds.add(world.run(), "one", "path", "logs/*a", who="ann", why="")
    (named,) = world.remove().named
    assert (named.outcome.entries, named.found.kept["held"]) == (1, 1)
    assert world.paths() == {"logs/a"}


def test_a_tag_and_a_held_commit_stay_as_they_are_and_keep_no_entry_of_a_branch(world):
    world.committed("main", "logs/a")
    world.repository.tag("v1", "main")
    holds.add(world.run(), "v1", "tag", "v1", who="ann", why="")
    world.at(6)
    world.policy(rule("main/logs/", 3))
    assert world.outcome().state == "removed"
    assert world.paths("v1") == {"logs/a"}


def test_rules_of_one_branch_follow_each_other_and_each_has_its_commit(world):
    world.committed("main", "logs/a", "tmp/b", "data/c")
    world.repository.branch("dev")
    world.at(6)
    world.policy(rule("main/logs/", 3), rule("gone/", 1), rule("main/", 3), rule("dev/tmp/", 3))
    done = world.remove()
    states = [(each.outcome.rule, each.outcome.state, each.outcome.entries) for each in done.named]
    assert states == [(1, "removed", 1), (2, "no_branch", 0), (3, "removed", 2), (4, "removed", 1)]
    assert not done.is_as_wanted
    assert world.paths() == set()
    assert world.paths("dev") == {"logs/a", "data/c"}
    assert [each["metadata"].get("lakegc.rule") for each in world.log()[:2]] == ["3", "1"]
    undone = [(each.rule, each.state) for each in world.undo()]
    assert undone == [(4, "reverted"), (3, "reverted"), (2, "nothing"), (1, "reverted")]
    assert world.paths() == world.paths("dev") == {"logs/a", "tmp/b", "data/c"}


def test_an_expiring_rule_removes_nothing_by_a_commit(world):
    world.committed("main", "logs/a")
    world.at(6)
    world.policy(Rule("main", "", {"all": Period(days=1)}), rule("main/data/", 1))
    assert world.outcome().state == "nothing"
    assert world.paths() == {"logs/a"}


@pytest.mark.slow
def test_many_entries_take_a_call_for_each_thousand(world):
    core = world.sandbox.core
    with core.lock:
        for number in range(2_050):
            objects.upload(core, world.name, "main", f"logs/{number:04}", b"x")
        refs.commit(core, world.name, "main", message="many")
    world.at(6)
    world.policy(rule("main/logs/", 3))
    world.sandbox.requests.clear()
    assert world.outcome().entries == 2_050
    asked = world.sandbox.requests
    assert asked["delete_objects"] == 3
    # The look, what the branch shows, and what both show when they are compared.
    assert asked["list_objects"] <= 4 * 3 + 2
    assert asked["diff_refs"] == 3
    assert world.paths() == set()


def test_staged_entries_are_reset_only_if_that_was_confirmed_apart(world):
    world.committed("main", "data/a")
    world.write("main", "inbox/old")
    world.at(5)
    world.write("main", "inbox/young", "data/other")
    world.at(6)
    world.policy(rule("main/inbox/", None, staged=3))
    kept = world.outcome()
    assert (kept.state, kept.reset_entries) == ("nothing", 0)
    assert "1 staged entries were not reset" in kept.found
    run = world.run()
    confirmed.confirm_resets(run, versions.newest(run), "ann@host")
    assert confirmed.may_reset(run, versions.newest(run))
    world.at(6.1)
    outcome = world.outcome()
    assert (outcome.state, outcome.reset_entries, outcome.commit) == ("removed", 1, None)
    assert world.paths() == {"data/a", "data/other", "inbox/young"}
    (undone,) = world.undo()
    assert (undone.state, undone.reset_entries) == ("nothing", 1)


def test_a_staged_deletion_and_what_has_no_object_or_a_hold_are_not_reset(world):
    world.committed("main", "inbox/committed")
    world.repository.delete("main", "inbox/committed")
    held, gone = world.write("main", "inbox/held", "inbox/gone")
    world.at(6)
    world.policy(rule("main/inbox/", None, staged=3), resets=True)
    holds.add(world.run(), "one", "address", held, who="ann", why="")
    world.run().store.delete([gone])
    (named,) = world.remove().named
    assert named.outcome.state == "nothing"
    assert dict(named.staged.kept) == {"held": 1, "missing": 1}
    assert world.paths() == {"inbox/held", "inbox/gone"}


def test_the_stores_date_of_a_staged_object_counts_as_well(world):
    world.at(5)
    world.write("main", "upload")
    found = world.repository.stat("main", "upload")
    then = int((BEGIN - DAY).timestamp())
    core = world.sandbox.core
    with core.lock:
        entry = objects.stage(
            core,
            world.name,
            "main",
            "inbox/a",
            physical_address=found["physical_address"],
            checksum=found["checksum"],
            size_bytes=found["size_bytes"],
            link=False,
            mtime=then,
        )
    assert entry.last_modified == BEGIN - DAY
    world.at(6)
    world.policy(rule("main/inbox/", None, staged=3), resets=True)
    assert world.outcome().state == "nothing"
    world.at(9)
    assert world.outcome().reset_entries == 1


def test_a_changed_entry_that_is_reset_shows_the_committed_one_again(world):
    world.committed("main", "inbox/a")
    world.write("main", "inbox/a", data=b"other")
    world.at(6)
    world.policy(rule("main/inbox/", 100, staged=3), resets=True)
    assert world.outcome().reset_entries == 1
    assert world.repository.get("main", "inbox/a") == b"inbox/a"


def test_the_record_names_commits_counts_and_until_when(world):
    world.repository.rules(30, main=7)
    world.committed("main", "logs/a")
    world.at(6)
    policy = world.policy(rule("main/logs/", 3))
    outcome = world.outcome()
    assert outcome.undo_until == BEGIN + 13 * DAY
    store = world.last.store
    folder = lakegc_keys.removal(world.last.key)
    assert removal.Outcome.from_json(store.read(f"{folder}rule-0001.json"), name="x") == outcome
    (key,) = removal.list_removals(store)
    begun = removal.record.load(world.last, key).begun
    assert (begun.policy_digest, begun.policy_version, begun.who) == (policy.digest, 1, "ann@host")
    assert begun.rules[0].work_branch == "lakegc-remove-2026-11-07T02-00-00Z-1"


def test_one_second_has_one_removal(world):
    world.committed("main", "logs/a")
    world.at(6)
    world.policy(rule("main/logs/", 3))
    world.remove()
    with pytest.raises(SettingsError, match="there is a removal 2026-11-07T02-00-00Z"):
        world.remove()


def test_confirmations_are_no_versions_of_the_policy(world):
    world.policy(rule("main/logs/", 3), resets=True)
    assert [version.number for version in versions.history(world.run().store)] == [1]


def test_a_document_that_is_not_set_is_looked_at_as_well(world):
    world.committed("main", "logs/a")
    world.at(6)
    policy = Policy((rule("main/logs/", 3), Rule(None, "", {"all": Period(days=1)})))
    (named,) = removal.look_at(world.run(policies="off"), policy)
    assert (named.outcome.rule, named.outcome.entries) == (1, 1)
