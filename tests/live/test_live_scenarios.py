"""Whole collections of stories that somebody else wrote down.

The upstream scenario and the documents' example.
"""

import pytest

from tests.support.live_collection import collect, require_exactly_the_dead_gone
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark


def _tell_upstream_scenario(repository):
    """Facts section 8, step by step; returns the address of each file."""
    for branch in ("dev", "dev2"):
        repository.branch(branch)
    repository.rules(7, main=10, dev=7)
    files = {}
    for branch, numbers in (("main", (1, 2)), ("dev", (5, 6)), ("dev2", (8, 9))):
        for number in numbers:
            files[number] = repository.upload(
                branch, f"file_{number}", f"content of {number}".encode()
            )
            repository.commit(branch, days_ago=14)
    for branch, number, days_ago in (
        ("main", 2, 12),
        ("main", 1, 8),
        ("dev", 5, 8),
        ("dev2", 9, 8),
        ("dev2", 8, 6),
        ("dev", 6, 4),
    ):
        repository.delete(branch, f"file_{number}")
        repository.commit(branch, days_ago=days_ago)
    for branch, number in (("main", 3), ("main", 4), ("dev", 7), ("dev2", 10)):
        files[number] = repository.upload(branch, f"file_{number}", f"content of {number}".encode())
    repository.delete("main", "file_4")
    repository.drop_branch("dev2")
    repository.reset("dev")
    return files


def test_the_upstream_scenario_ends_as_upstream_says_file_by_file(repository, spark):
    files = _tell_upstream_scenario(repository)
    done = require_exactly_the_dead_gone(repository, spark, 7, {"main": 10, "dev": 7})

    left = repository.data()
    assert {number: address in left for number, address in files.items()} == {
        1: True,  # in main's first commit beyond 10 days
        2: False,  # only in commits of 14 days ago
        3: True,  # staged on main
        4: False,  # staged, and deleted again
        5: False,  # only in dev's commits of 14 days ago
        6: True,  # in dev's first commit beyond 7 days
        7: False,  # reset
        8: True,  # dev2 is gone, and its last commit is young enough to keep the one before
        9: False,  # only in dev2's commits of 14 days ago
        10: False,  # staged on a branch that is gone
    }
    assert {row.retained_by for row in rows_of(done.marked.tables.commits)} == {"server+lakegc"}
    again = collect(repository, spark)
    assert again.outcomes == {}


# The example of the documents (main 21 days, dev 7, others 14, collected on 2022-03-31), as days
# before that day.
MAIN = {"02-27": 32, "03-01": 30, "03-09": 22, "03-12": 19, "03-18": 13, "03-26": 5}
DEV = {"03-14": 17, "03-16": 15, "03-20": 11, "03-23": 8}
RETAINED = {"03-09", "03-12", "03-18", "03-26", "d: 03-23", "merge"}


def _replace(repository, branch, label, days_ago):
    """Write a version of the branch's table and commit it.

    The version before is only in older commits then.
    """
    address = repository.upload(branch, f"{branch}/table", label.encode())
    return address, repository.commit(branch, days_ago=days_ago, message=label)


def test_the_example_of_the_documents_keeps_what_the_documents_say(repository, spark):
    repository.rules(14, main=21, dev=7)
    versions, ids = {}, {}

    def tell(branch, label, days_ago):
        versions[label], ids[label] = _replace(repository, branch, label, days_ago)

    for day in ("02-27", "03-01", "03-09"):
        tell("main", day, MAIN[day])
    repository.branch("dev")
    for day, days_ago in DEV.items():
        tell("dev", f"d: {day}", days_ago)
    for day in ("03-12", "03-18"):
        tell("main", day, MAIN[day])
    ids["merge"] = repository.merge("dev", "main")
    tell("main", "03-26", MAIN["03-26"])

    done = require_exactly_the_dead_gone(repository, spark, 14, {"main": 21, "dev": 7})

    rows = rows_of(done.marked.tables.commits)
    kept = {label for label, id_ in ids.items() if id_ in {row.commit_id for row in rows}}
    assert kept == RETAINED
    assert {
        label for label, address in versions.items() if repository.lies_there(address)
    } == RETAINED - {"merge"}


def test_without_rules_every_commit_keeps_its_objects_and_uncommitted_garbage_goes(
    repository, spark
):
    repository.upload("main", "a", b"first")
    repository.commit("main", days_ago=4000)
    repository.upload("main", "a", b"second")
    repository.commit("main", days_ago=3000)
    dropped = repository.upload("main", "b", b"dropped")
    repository.delete("main", "b")
    assert require_exactly_the_dead_gone(repository, spark).gone == {dropped}


def test_a_fresh_repository_with_only_staged_objects_keeps_them(repository, spark):
    repository.upload("main", "a", b"staged")
    assert require_exactly_the_dead_gone(repository, spark, 0, {}).gone == set()


def test_a_tag_keeps_an_expired_commit_unless_tags_are_switched_off(repository, spark):
    repository.rules(1, main=1)
    old = repository.upload("main", "a", b"tagged")
    tagged = repository.commit("main", days_ago=30)
    repository.tag("v1", tagged)
    repository.upload("main", "a", b"next")
    repository.commit("main", days_ago=20)
    repository.upload("main", "a", b"head")
    repository.commit("main", days_ago=10)
    assert require_exactly_the_dead_gone(repository, spark, 1, {"main": 1}).outcomes
    assert repository.get("v1", "a") == b"tagged"
    assert collect(repository, spark, tags_protect=False).gone == {old}


def test_a_hidden_branch_protects_what_is_staged_and_committed_on_it(repository, spark):
    repository.branch("unseen", hidden=True)
    repository.upload("unseen", "committed", b"committed")
    repository.commit("unseen", days_ago=300)
    repository.upload("unseen", "staged", b"staged")
    repository.rules(1, main=1)
    assert require_exactly_the_dead_gone(repository, spark, 1, {"main": 1}).gone == set()


REFUSING_HOOK = b"""\
name: refuse
on:
  pre-commit:
    branches: ["main"]
hooks:
  - id: refuse
    type: lua
    properties:
      script: |
        error("no")
"""


def test_what_a_refused_commit_left_in_sealed_staging_is_kept(repository, spark):
    repository.upload("main", "_lakefs_actions/refuse.yaml", REFUSING_HOOK)
    overwritten = repository.upload("main", "a", b"sealed, then overwritten")
    repository.upload("main", "b", b"sealed")
    answer = repository.ask("POST", "/branches/main/commits", data={"message": "refused"})
    if answer.status == 201:
        pytest.skip(
            "this server runs no Lua hooks (actions.enabled, actions.lua): no commit can be refused"
        )
    assert answer.status == 412
    repository.upload("main", "a", b"staged after the refusal")
    done = require_exactly_the_dead_gone(repository, spark)
    assert done.gone == {overwritten}


ODD_PATHS = (
    "with space",
    "per%cent %2F",
    "plus+plus",
    "comma,comma",
    "hash#1",
    "question?x=1&y=2",
    "dir//double",
    "dir/",
    "/leading",
    "../up",
    "x/../y",
    ".",
    "new\nline",
    "tab\tand\x01",
    "nfc-\u00e9",
    "nfd-e\u0301",
    "emoji-\U0001f600",
    "quote'\"`$",
    "back\\slash",
    "data/looks/like/data",
    "_lakefs/looks-like-a-table",
    "long-" + "x" * 900,
)


def test_odd_paths_are_told_apart_committed_staged_and_twice_uploaded(repository, spark):
    committed, staged, dropped = ODD_PATHS[0::3], ODD_PATHS[1::3], ODD_PATHS[2::3]
    for path in ODD_PATHS:
        repository.upload("main", path, f"first {path}".encode())
    repository.commit("main")
    gone = set()
    for path in committed:
        # An identical upload that nothing but the branch itself knows of.
        repository.upload("main", path, f"first {path}".encode())
    for path in staged:
        repository.upload("main", path, f"second {path}".encode())
    for path in dropped:
        gone.add(repository.upload("main", path, f"dropped {path}".encode()))
        repository.delete("main", path)
    assert require_exactly_the_dead_gone(repository, spark).gone == gone


def test_objects_of_every_kind_of_upload_are_kept_while_something_refers_to_them(repository, spark):
    big = b"x" * (5 * 1024 * 1024)
    repository.upload_by_gateway("main", "gateway", b"through the gateway")
    repository.upload_in_parts("main", "parts", [big, b"tail"])
    repository.link("main", "linked", b"linked")
    repository.upload("main", "source", b"source")
    repository.copy("main", "copied", "main", "source")
    presigns = repository.server.call("GET", "/config")["storage_config"].get(
        "pre_sign_multipart_upload"
    )
    if presigns:
        repository.upload_in_presigned_parts("main", "presigned", [big, b"tail"])
    repository.commit("main")
    gone = set()
    for name, upload in (
        ("gateway", repository.upload_by_gateway),
        ("linked", repository.link),
        ("source", repository.upload),
    ):
        gone.add(upload("main", name, b"dropped"))
        repository.delete("main", name)
    gone.add(
        repository.store.relative(
            repository.write_unlinked("main", "never", b"never linked")["physical_address"]
        )
    )
    assert require_exactly_the_dead_gone(repository, spark).gone == gone
