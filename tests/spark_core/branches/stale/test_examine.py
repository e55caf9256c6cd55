"""What decides about branches, as it is read from a server, and what reading it costs."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import refs
from lakegc_dagster.sandbox.records import BranchRecord, PullRecord
from spark_core import holds
from spark_core.branches.stale import marked, staged_digest
from spark_core.clocks import ClockReading
from spark_core.errors import (
    CorruptTableError,
    IncompleteReadError,
    NotFoundError,
    SettingsError,
    UnsafePlanError,
)
from spark_core.lakefs import LakeFSServer
from spark_core.references.policies import versions

STALE = "last commit 2026-08-12 02:00 UTC, more than 30 days ago"


def whys(world):
    return {row.branch: (row.goes, row.why) for row in world.mark().branches}


def test_every_branch_gets_a_sentence(world):
    for name in ("dev-old", "dev-keep", "other"):
        world.branch(name)
    world.branch("dev-new", days=29)
    assert whys(world) == {
        "main": (False, "it is the default branch"),
        "other": (False, "no policy of branch_lifecycle names it"),
        "dev-keep": (False, "`keep` names it (dev-keep)"),
        "dev-new": (
            False,
            "policy 1 (dev-*): last commit 2026-10-22 02:00 UTC, less than 30 days ago",
        ),
        "dev-old": (True, f"policy 1 (dev-*): {STALE}"),
    }


def test_a_mark_stores_what_it_found_and_deletes_nothing(world):
    commit = world.branch("dev-old")
    before = world.heads()
    made = world.mark()
    assert world.heads() == before
    assert marked.load(world.run(), made.key) == made
    (row,) = made.going.values()
    assert (row.branch, row.commit_id, row.staged, row.is_hidden) == ("dev-old", commit, "", False)
    assert made.policy_digest == versions.newest(world.run()).policy_digest
    assert marked.keys(world.run().store) == [made.key]


def test_what_protects_a_branch_is_read(world):
    for name in ("dev-safe", "dev-source", "dev-held", "dev-old"):
        world.branch(name)
    world.sandbox.behaviour.protected = ("dev-s?fe",)
    repository = world.sandbox.core.repository("repo")
    pull = PullRecord("000001", "x", "dev-source", "main", "open", "2026-01-01T00:00:00Z")
    world.sandbox.core.state.put_pull(repository.number, pull)
    holds.add(world.run(), "audit", "branch", "dev-held", who="ann", why="")
    found = whys(world)
    assert found["dev-safe"] == (False, "the server protects it (dev-s?fe)")
    assert found["dev-source"] == (
        False,
        "pull request 000001 from dev-source into main is open",
    )
    assert found["dev-held"] == (False, "hold audit: branch dev-held, made by ann")
    assert found["dev-old"][0]


def test_hidden_branches_are_marked_as_hidden(world):
    commit = world.branch("dev-old")
    number = world.sandbox.core.repository("repo").number
    world.sandbox.core.state.put_branch(number, BranchRecord("dev-old", commit, hidden=True))
    (row,) = world.mark().going.values()
    assert row.is_hidden


def test_staged_entries_keep_a_branch_and_are_named(world):
    world.branch("dev-old")
    world.upload("dev-old", "new/b")
    goes, why = whys(world)["dev-old"]
    assert not goes
    assert "it has staged entries (new/b); `delete_staged: true` lets it go with them" in why


@pytest.mark.parametrize(
    ("days", "goes", "words"),
    [
        (31, True, f"{STALE}; last staged 2026-10-20 02:00 UTC, more than 30 days ago; 1 staged"),
        (1, False, "policy 1 (dev-*): last staged 2026-11-19 02:00 UTC, less than 30 days ago"),
    ],
)
def test_where_the_document_lets_staged_entries_go_their_dates_count(world, days, goes, words):
    world.policy(f"{POLICY_WITH_STAGED}")
    world.branch("dev-old")
    world.upload("dev-old", "b", days=days)
    found = whys(world)["dev-old"]
    assert found[0] is goes
    assert words in found[1]


POLICY_WITH_STAGED = """branch_lifecycle:
  policies: [{branches: [dev-*], max_inactivity_days: 30}]
  delete_staged: true
"""


def test_a_branch_of_many_staged_entries_is_not_asked_about_each(world, monkeypatch):
    monkeypatch.setattr(staged_digest, "MOST_STAGED", 2)
    world.policy(POLICY_WITH_STAGED)
    world.branch("dev-old")
    for path in "xyz":
        world.upload("dev-old", path, days=50)
    world.sandbox.requests.clear()
    assert "staged entries, whose dates are not asked for" in whys(world)["dev-old"][1]
    assert world.sandbox.requests["stat_object"] == 0


HOOK = b"on: {pre-merge: {branches: [dev-hooked]}}"


def test_hook_files_of_branches_that_stay_keep_what_they_name(world):
    world.branch("dev-hooked")
    world.branch("dev-old")
    world.upload("main", "_lakefs_actions/check.yml", HOOK)
    world.commit("main")
    found = whys(world)
    goes, why = found["dev-hooked"]
    assert not goes
    assert "the hook file _lakefs_actions/check.yml on branch main has its name in it" in why
    assert found["dev-old"][0]


def test_hook_files_of_branches_that_go_keep_nothing(world):
    world.branch("dev-hooked")
    world.branch("dev-old", files=("_lakefs_actions/dev-hooked.yml",))
    world.branch("dev-own", files=("_lakefs_actions/dev-own.yml",))
    world.upload("dev-own", "_lakefs_actions/x.yml", b"on: {pre-merge: {branches: [dev-own]}}")
    with world.sandbox.clock.at(world.sandbox.clock.now() - timedelta(days=90)):
        world.commit("dev-own")
    assert [row.branch for row in world.mark().going.values()] == [
        "dev-hooked",
        "dev-old",
        "dev-own",
    ]


def test_a_branch_that_stays_for_a_hook_file_keeps_what_its_own_files_name(world):
    for name, named in (("dev-1", "dev-2"), ("dev-2", "dev-3")):
        world.branch(name)
        world.upload(
            name, "_lakefs_actions/x.yml", f"on: {{pre-merge: {{branches: [{named}]}}}}".encode()
        )
        with world.sandbox.clock.at(world.sandbox.clock.now() - timedelta(days=90)):
            world.commit(name)
    world.branch("dev-3")
    assert set(world.mark().going) == {1, 2, 3}
    world.upload("main", "_lakefs_actions/x.yml", b"on: {pre-merge: {branches: [dev-1]}}")
    world.commit("main")
    made = world.mark()
    assert not made.going
    assert "on branch dev-2 has its name in it" in made.branches[2].why


def test_a_hook_file_that_cannot_be_read_keeps_every_branch(world):
    world.branch("dev-old")
    world.upload("main", "_lakefs_actions/check.yml", b"on: [")
    world.commit("main")
    assert "cannot be read as YAML" in whys(world)["dev-old"][1]


# what stored runs tell

AGED = """branch_lifecycle:
  policies: [{branches: [dev-*], max_age_days: 60}]
"""


def test_the_age_is_told_by_stored_runs_alone(world):
    world.policy(AGED)
    commit = world.branch("dev-old", days=100)
    main = world.head("main")
    assert "no stored run tells" in whys(world)["dev-old"][1]
    world.stored_run(90, {"main": main, "dev-old": commit})
    assert "no stored run tells" in whys(world)["dev-old"][1]
    world.stored_run(95, {"main": main})
    assert whys(world)["dev-old"] == (
        True,
        "policy 1 (dev-*): first seen by a stored run 2026-08-22 02:00 UTC, more than 60 days ago",
    )
    world.stored_run(50, {"main": main})
    world.stored_run(40, {"main": main, "dev-old": commit})
    assert whys(world)["dev-old"] == (
        False,
        "policy 1 (dev-*): first seen by a stored run 2026-10-11 02:00 UTC, less than 60 days ago",
    )


def test_a_run_of_an_earlier_repository_of_the_name_tells_nothing(world):
    world.policy(AGED)
    commit = world.branch("dev-old")
    key = world.stored_run(95, {})
    world.stored_run(90, {"dev-old": commit})
    store = world.run().store
    store.put(key, store.read(key).replace(b"repo created 2026", b"repo created 2025"))
    # Edited, it is a damaged one.
    assert "no stored run tells" in whys(world)["dev-old"][1]


def test_a_branch_from_an_old_commit_is_young_as_soon_as_a_run_did_not_see_it(world):
    world.stored_run(5, {"main": world.head("main")})
    with world.sandbox.core.lock:
        refs.create_branch(*world.place, "dev-new", "main")
    assert "it was made since the last stored run" in whys(world)["dev-new"][1]
    world.stored_run(1, world.heads())
    assert "first seen by a stored run 2026-11-19 02:00 UTC, less" in whys(world)["dev-new"][1]


def test_a_commit_that_is_dated_back_is_as_young_as_its_table(world):
    world.branch("dev-old")
    world.upload("dev-old", "b")
    long_ago = int(world.sandbox.clock.now().timestamp()) - 400 * 86_400
    world.commit("dev-old", date=long_ago)
    assert "last commit stored 2026-11-20 02:00 UTC, less" in whys(world)["dev-old"][1]


# refusals


def test_without_the_section_there_is_nothing_to_mark(world):
    world.policy('{"rules": [{"expiration": {"days": 3}}]}')
    with pytest.raises(NotFoundError, match="has no policy for branches"):
        world.mark()
    versions.store_version(world.run(), None, who="ann")
    with pytest.raises(NotFoundError, match="has no policy for branches"):
        world.mark()


def test_a_server_that_shows_no_default_branch_is_not_believed(world):
    number = world.sandbox.core.repository("repo").number
    world.sandbox.core.state.delete_branch(number, "main")
    with pytest.raises(IncompleteReadError, match="shows 0 branches, and the default branch main"):
        world.mark()


def test_two_marks_of_one_second_are_one_too_many(world):
    run = world.run()
    marked.mark(run, who="ann")
    with pytest.raises(SettingsError, match=r"already a mark of this second \(by ann\)"):
        marked.mark(run, who="bob")


def test_a_mark_that_was_edited_or_moved_is_refused(world):
    world.branch("dev-old")
    made = world.mark()
    store = world.run().store
    folder = "_lakefs/retention/gc/branches/"
    data = store.read(f"{folder}{made.mark}/_marked.json")
    other = "2026-01-01T00-00-00Z"
    store.put(f"{folder}{other}/_marked.json", data)
    with pytest.raises(CorruptTableError, match=f"it is mark {made.mark}"):
        marked.load(world.run(), made.key.parse(other))
    document = json.loads(data)
    document["branches"][0]["goes"] = True
    store.put(f"{folder}{made.mark}/_marked.json", json.dumps(document).encode())
    with pytest.raises(CorruptTableError, match="edited or damaged"):
        marked.load(world.run(), made.key)


def test_a_machine_whose_clock_is_ahead_decides_nothing(world, monkeypatch):
    world.branch("dev-old")
    began = datetime(2026, 11, 20, tzinfo=UTC)
    hour = timedelta(hours=1)
    reading = ClockReading.of(began, sent=began + hour, received=began + hour)
    monkeypatch.setattr(LakeFSServer, "clock_reading", reading)
    with pytest.raises(UnsafePlanError, match="the clock of the lakeFS server is 0:59:59 behind"):
        world.mark()


# cost


def test_calls_are_few_and_are_made_for_those_that_may_go(world):
    for number in range(12):
        world.branch(f"dev-{number}")
        world.branch(f"other-{number}", files=())
    world.upload("main", "_lakefs_actions/check.yml", HOOK)
    world.commit("main")
    run = world.run()
    world.sandbox.requests.clear()
    marked.mark(run, who="ann")
    assert dict(world.sandbox.requests) == {
        "list_branches": 2,
        "get_branch_protection_rules": 1,
        "list_pull_requests": 1,
        "log_commits": 12,
        "get_range": 1,
        "diff_branch": 12,
        # main and the twelve others, which all stand on one commit
        "list_objects": 2,
        "get_object": 1,
    }
