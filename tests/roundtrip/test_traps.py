"""The traps that a real lakeFS server was seen to set, one recorded test for each; its number is
that of `lakefs-facts`.

tests/live/ meets the same ones on a running server. More about each of them, with every variation,
is in the tests of the rooms: tests/spark_core/lakefs/, tests/spark_core/retention/,
tests/spark_core/run/test_preconditions.py and tests/spark_core/sweep/test_unchanged_repository.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from lakefs_sdk.models.garbage_collection_rules import GarbageCollectionRules
from pydantic.v1 import ValidationError

from spark_core import mark
from spark_core.addresses.namespace import Namespace
from spark_core.errors import IncompleteReadError, RepositoryStateError, SettingsError
from spark_core.lakefs import (
    LakeFSServer,
    addresses_on,
    diff_addresses,
    read_retained,
    scan_uncommitted,
    uncommitted_files,
    walk_refs,
)
from spark_core.model import RetentionRules, RunKey
from spark_core.run import Environment, RunOptions, open_run
from spark_core.storage import StoreOptions, open_store
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_and_conclude
from tests.support.recorded_server import RecordedServer
from tests.support.recordings import recorded, recordings
from tests.support.sandbox_runs import SMALL
from tests.support.scripted_clients import clients_of_scripts
from tests.support.scripted_server import Asked, in_turn, page
from tests.support.stored_rows import rows_of

NAME = "obs-45461"
Answering = Callable[..., LakeFSServer]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """Give a client of a server that answers as told."""
    with clients_of_scripts() as start:
        yield start


def run_over(server: RecordedServer, spark: Any = None) -> Any:
    """Open a run with age switched off; without Spark where it must not come so far."""
    clock = FakeClock(server.now + timedelta(seconds=2))
    environment = Environment(
        server=LakeFSServer(server.options(), clock=clock),
        store_options=StoreOptions(local_path=str(server.local_path)),
        spark=lambda: spark,
        clock=clock,
        server_path=golden.SERVER_PATH,
    )
    options = RunOptions(
        may_sweep=True,
        min_age=timedelta(days=-36_500),
        allow_unsafe_min_age=True,
        clock_margin=timedelta(0),
        **SMALL,
    )
    return open_run(environment, server.name, RunKey.at(server.now), options)


def _in_diffs(server: LakeFSServer, name: str, namespace: Namespace) -> set[str]:
    found: set[str] = set()
    repository = server.repository(name)
    diff_addresses(
        server,
        repository,
        namespace,
        lambda batch: found.update(batch.column("address").to_pylist()),
        at_once=4,
    )
    return found


def test_11_17_days_beyond_32_bits_wrap_so_they_are_neither_sent_nor_collected_under(
    answering: Answering,
) -> None:
    sent, shown = (
        recordings("gc-rules")[12]["request"]["body"],
        recordings("gc-rules")[13]["response"]["body"],
    )
    assert (sent["branches"][0]["retention_days"], shown["branches"][0]["retention_days"]) == (
        4_294_967_301,
        5,
    )
    server = answering({("GET", ".*/gc_rules"): recorded("gc-rules", 13)})
    with pytest.raises(
        RepositoryStateError, match=r"the default is -2147483648 days, wanted 0 to 36500"
    ):
        server.retention_rules(NAME)
    with pytest.raises(
        SettingsError, match=r"branch 'main' would be 4294967301 days.*the rules were not changed"
    ):
        server.set_retention_rules(NAME, RetentionRules(7, {"main": 4_294_967_301}))
    assert server.requests["set_rules"] == 0


def test_11_18_no_branch_rule_is_null_which_is_neither_an_error_nor_no_rules(
    answering: Answering,
) -> None:
    reply = recorded("gc-rules", 15)
    with pytest.raises(ValidationError):
        GarbageCollectionRules.parse_obj(reply.body)
    shown = {**reply.body, "default_retention_days": 30}
    assert shown["branches"] is None
    server = answering({("GET", ".*/gc_rules"): (200, shown)})
    assert server.retention_rules(NAME) == RetentionRules(30, {})


def test_11_22_the_synchronous_call_of_a_local_store_answers_an_error_and_then_the_result(
    answering: Answering,
) -> None:
    reply = recorded("prepare-commits", 0)
    assert reply.status == 400
    assert reply.body.count(b"\n{") == 1
    server = answering(
        {
            ("POST", ".*/async"): recorded("prepare-uncommitted", 10),
            ("POST", ".*/prepare_commits"): reply,
        }
    )
    prepared = server.prepare_commits(NAME)
    assert prepared is not None
    assert prepared.run_id.encode() in reply.body.partition(b"\n")[2]


def test_11_24_a_location_that_does_not_begin_with_the_namespace_is_found_by_its_run(
    tmp_path: Path,
) -> None:
    with RecordedServer.unpacked("unified", tmp_path) as server:
        client = LakeFSServer(server.options())
        told = recordings("prepare-commits")[2]["response"]["body"]["result"]["gc_commits_location"]
        assert not told.startswith(
            recordings("repository")[0]["response"]["body"]["storage_namespace"]
        )
        store = open_store(
            Namespace.parse(
                client.repository("unified").storage_namespace, server_path=golden.SERVER_PATH
            ),
            StoreOptions(local_path=str(server.local_path)),
        )
        prepared = client.prepare_commits("unified")
        assert prepared is not None
        rows = read_retained(store, prepared.run_id)["commit_id"].to_pylist()
    assert set(rows) == set(golden.expected("unified")["retention"][0]["retained_as_coded"])


def test_11_28_a_scan_that_repeats_its_token_is_broken_off_and_not_taken_for_finished(
    answering: Answering,
) -> None:
    replies = [recorded("observed-prepare-uncommitted-no-progress", at) for at in range(4)]
    server = answering({("POST", ".*/prepare_uncommited"): in_turn(*replies)})
    with pytest.raises(IncompleteReadError, match=r"repeats a continuation token"):
        server.prepare_uncommitted("unified")


def test_11_35_linked_objects_of_a_local_store_have_absolute_addresses_that_the_scan_omits(
    tmp_path: Path,
) -> None:
    recording = golden.expected("merges")
    full = [
        row
        for row in recording["entry_table"]
        if len(row) > 7 and not row[1].startswith("local://")
    ]
    assert full, "entries stored with an absolute address inside the namespace"
    with RecordedServer.unpacked("merges", tmp_path) as server:
        namespace = Namespace.parse(
            server.repository["storage_namespace"], server_path=golden.SERVER_PATH
        )
        for row in full:
            stored = row[7].replace("<BLOCKSTORE>", golden.SERVER_PATH)
            assert namespace.relative_absolute(stored) == row[1]
        staged = _in_diffs(LakeFSServer(server.options()), "merges", namespace)
    scanned = {row[0] for row in recording["prepare_uncommitted"]["rows"]}
    inside = {row[1] for row in full if row[0].startswith(("linked/", "staged/"))}
    assert inside & staged - scanned, "the scan alone would lose them"
    assert set(recording["prepare_uncommitted"]["staged_but_not_listed"]) - staged <= {TWIN}


@pytest.mark.parametrize("where", ["local://merges", "local://merges/", "local://merges/inner"])
def test_11_38_a_second_repository_on_the_namespace_or_inside_it_is_refused(
    where: str, tmp_path: Path
) -> None:
    with RecordedServer.unpacked("merges", tmp_path) as server:
        second = {**server.repository, "id": "second", "storage_namespace": where}
        server.answer_with("GET", "/repositories", (200, page([server.repository, second], {})))
        with pytest.raises(
            RepositoryStateError, match=r"merges \(local://merges\) and second .* share "
        ):
            mark.namespace_slices(run_over(server))


def test_11_40_a_repository_deleted_a_moment_ago_answers_as_if_empty_and_is_refused(
    answering: Answering, tmp_path: Path
) -> None:
    replies = {at: recorded("read-only-bare-deleted", at) for at in (26, 30, 32)}
    assert [reply.status for reply in replies.values()] == [200, 200, 201], (
        "nothing says that it is gone"
    )
    name = replies[26].body["id"]
    server = answering(
        {
            ("GET", f"/repositories/{name}"): replies[26],
            ("GET", ".*/branches"): replies[30],
            ("POST", ".*/prepare_uncommited"): replies[32],
        }
    )
    assert server.repository(name).id == name
    assert server.prepare_uncommitted(name).pages_with_data == 0
    with pytest.raises(
        RepositoryStateError, match=r"has no branch: it is bare, or it was deleted a moment ago"
    ):
        _in_diffs(
            server,
            name,
            Namespace.parse(replies[26].body["storage_namespace"], server_path=golden.SERVER_PATH),
        )
    # Its list of commits is the header and nothing else.
    (tmp_path / "d").mkdir()
    store = open_store(
        Namespace.parse("local://d", server_path="/bs"), StoreOptions(local_path=str(tmp_path))
    )
    store.put(
        "_lakefs/retention/gc/commits/run_id=r/commits.csv", b"commit_id,expired,metarange_id\n"
    )
    with pytest.raises(RepositoryStateError, match=r"retains no commit at all"):
        read_retained(store, "r")
    # And a mark of it ends before anything is listed.
    with RecordedServer.unpacked("deleted", tmp_path / "deleted") as again:
        again.answer_with("GET", ".*/branches", replies[30])
        with pytest.raises(RepositoryStateError, match=r"deleted has no branch"):
            mark.namespace_slices(run_over(again))


def test_11_42_after_a_cherry_pick_commits_are_read_where_the_damaged_cache_does_not_matter(
    answering: Answering,
) -> None:
    before, after = (
        recordings("observed-cherry-pick-404")[at]["response"]["body"] for at in (0, 2)
    )
    assert before["id"] != after["id"], (
        "asked for the same commit, the server answers with another one"
    )
    log = recordings("observed-cherry-pick-404")[5]["response"]["body"]
    head, damaged = log["results"]
    assert damaged["id"] == before["id"]
    rows = dict(
        row.split(",false,") for row in recordings("observed-cherry-pick-404")[8]["rows"][1:] if row
    )

    def answers(asked: Asked) -> tuple[int, Any]:
        *_, ref, what = asked.path.split("/")
        if what in ("branches", "tags"):
            return 200, page(
                [{"id": "main", "commit_id": head["id"]}] if what == "branches" else [], asked.query
            )
        if ref == "main":
            # Behind the damaged commit the list is empty, and has no more: the server looks it up
            # and finds another.
            return 200, {
                "results": [],
                "pagination": {"has_more": False},
            } if "after" in asked.query else log
        if ref in (before["id"], head["id"]):
            return 404, {"message": "not found"}
        older = {**damaged, "id": ref, "parents": [], "meta_range_id": rows[ref]}
        return 200, {"results": [older], "pagination": {"has_more": False}}

    server = answering({("GET", ".*"): answers})
    refs = walk_refs(server, "obs-ck-45761")
    assert {commit_id: refs.commits[commit_id].metarange_id for commit_id in refs.commits} == {
        commit_id: rows[commit_id] for commit_id in (head["id"], damaged["id"], *damaged["parents"])
    }
    assert server.requests.keys() == {"list_branches", "list_tags", "log_commits"}, (
        "single commits are never asked for"
    )


# An object that a branch answers from, although no diff and no scan shows it.
TWIN = "data/ft6rghhksdue0hropq80/dc0klepksdue0hropqgg"
NEVER_EXISTED = "data/ft6rgj9ksdue1420d2a0/notexisting"


@pytest.mark.spark
def test_11_30_and_11_34_an_identical_re_upload_is_kept_and_a_missing_address_does_no_harm(
    tmp_path: Path, spark: Any
) -> None:
    recording = golden.expected("merges")
    # At this instant the rules still retain the commit with that address.
    with RecordedServer.unpacked("merges", tmp_path, retention_label="60 days earlier") as server:
        client = LakeFSServer(server.options())
        namespace = Namespace.parse("local://merges", server_path=golden.SERVER_PATH)
        shown = dict(addresses_on(client, "merges", "main", ["base/f5"]))
        assert namespace.relative_absolute(shown["base/f5"]) == TWIN
        assert TWIN not in {row[0] for row in recording["prepare_uncommitted"]["rows"]}
        assert TWIN not in _in_diffs(client, "merges", namespace)
        assert TWIN in {row[0] for row in recording["listing"]}
        assert NEVER_EXISTED in recording["committed_or_staged_missing_from_listing"]
        run = run_over(server, spark)
        scans = scan_uncommitted(client, "merges")
        assert all(uncommitted_files(run.store, scan) for scan in scans)
        marked, verdict, _ = mark_and_conclude(run)
    assert TWIN not in marked.addresses(run)
    assert marked.expired.manifest.facts["twins"]["kept_objects"] >= 1
    # A retained commit reaches it; missing, it is counted and named only where a branch or a staged
    # entry does.
    committed = [row.address for row in rows_of(marked.tables.committed, ["address"])]
    assert committed.count(NEVER_EXISTED) == 1
    assert NEVER_EXISTED not in marked.addresses(run)
    assert verdict.passed, verdict.checks
