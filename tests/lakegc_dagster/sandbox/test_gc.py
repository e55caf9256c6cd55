"""Rules and the two prepare calls: the server's half of a collection."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lakefs_sdk
import pyarrow.parquet as pq
import pytest
from lakefs_sdk.exceptions import (
    BadRequestException,
    ForbiddenException,
    NotFoundException,
)
from pydantic.v1 import ValidationError

from lakegc_dagster.sandbox import gc, objects, refs
from lakegc_dagster.sandbox.records import BranchRecord
from spark_core.graveler import CommitRecord, Timestamp, read_refs
from tests.support.golden import DATA

VECTORS = [
    vector
    for name in ("facts-4.5.json", "random.json")
    for vector in json.loads((DATA / "retention-vectors" / name).read_text())
    if "error" not in vector
]


def _rules(default, **branches):
    days = [
        lakefs_sdk.GarbageCollectionRule(branch_id=name, retention_days=count)
        for name, count in branches.items()
    ]
    return lakefs_sdk.GarbageCollectionRules(default_retention_days=default, branches=days)


def _path(location):
    return Path(location.removeprefix("local://"))


def _prepared(sdk, repository):
    task = sdk.internal.prepare_garbage_collection_commits_async(repository)
    status = sdk.internal.prepare_garbage_collection_commits_status(repository, task.id)
    assert status.completed
    header, *rows = _path(status.result.gc_commits_location).read_text().splitlines()
    assert header == "commit_id,expired,metarange_id"
    return {row.split(",")[0]: row.split(",")[2] for row in rows}


def _uncommitted(sdk, repository):
    """(pages, rows): every page's answer, and the rows of all files of the run."""
    pages = [sdk.internal.prepare_garbage_collection_uncommitted(repository)]
    while pages[-1].continuation_token:
        request = lakefs_sdk.PrepareGCUncommittedRequest(
            continuation_token=pages[-1].continuation_token
        )
        pages.append(sdk.internal.prepare_garbage_collection_uncommitted(repository, request))
    with_rows = [page.gc_uncommitted_location for page in pages if page.gc_uncommitted_location]
    files = sorted(_path(with_rows[0]).iterdir()) if with_rows else []
    assert len(files) == len(with_rows)
    rows = [row["physical_address"] for file in files for row in pq.read_table(file).to_pylist()]
    return pages, rows


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_active_commits_are_the_servers_quirk_included(vector):
    commits = {
        commit["id"]: CommitRecord(
            id=commit["id"],
            committer="",
            message="",
            creation_date=Timestamp(commit["creation_date"]),
            metarange_id="",
            parents=tuple(commit["parents"]),
            version=commit["version"],
            generation=commit["generation"],
        )
        for commit in vector["commits"]
    }
    branches = [
        BranchRecord(name, commit_id, hidden=False)
        for name, commit_id in vector["branches"].items()
    ]
    days = {rule["branch_id"]: rule["retention_days"] for rule in vector["rules"]["branches"] or []}
    rules = gc.Rules(vector["rules"]["default_retention_days"], days)
    now = datetime.fromtimestamp(vector["now_between"][1], UTC)
    assert sorted(gc.active_commits(commits, branches, rules, now)) == sorted(vector["server_rows"])


def test_rules_without_branches_make_the_sdk_stumble_as_the_real_server_does(sdk):
    sdk.create("demo")
    sdk.repositories.set_gc_rules("demo", _rules(7))
    with pytest.raises(ValidationError, match="none is not an allowed value"):
        sdk.repositories.get_gc_rules("demo")
    raw = sdk.repositories.get_gc_rules_with_http_info("demo", _preload_content=False).raw_data
    assert json.loads(raw) == {"branches": None, "default_retention_days": 7}


def test_deleted_rules_leave_an_empty_file_and_mean_no_rules(sdk, sandbox):
    sdk.create("demo")
    sdk.repositories.set_gc_rules("demo", _rules(7, main=9))
    assert sdk.repositories.get_gc_rules("demo").branches[0].retention_days == 9
    sdk.repositories.delete_gc_rules("demo")
    assert (sandbox.blockstore / "demo/_lakefs/retention/gc/rules/config.json").read_bytes() == b""
    with pytest.raises(NotFoundException, match='"not found"'):
        sdk.repositories.get_gc_rules("demo")


def test_prepared_commits_are_those_within_the_rules_and_tags_are_not_asked(sdk, sandbox):
    now = datetime.now(UTC)
    sdk.create("demo")
    made = []
    for age in (40, 30, 10, 2):
        sdk.upload("demo", "main", f"f{age}", b"x")
        made.append(sdk.commit("demo", "main", date=int((now - timedelta(days=age)).timestamp())))
    sdk.tags.create_tag("demo", lakefs_sdk.TagCreation(id="v1", ref=made[0].id))
    sdk.repositories.set_gc_rules("demo", _rules(21))
    assert _prepared(sdk, "demo") == {commit.id: commit.meta_range_id for commit in made[1:]}
    with sandbox.clock.at(now + timedelta(days=400)):
        assert set(_prepared(sdk, "demo")) == {made[-1].id}


def test_preparing_commits_at_once_answers_400_and_yet_writes_the_list(sdk, sandbox):
    sdk.create("demo")
    sdk.repositories.set_gc_rules("demo", _rules(1))
    with pytest.raises(BadRequestException, match="local adapter presigned URL"):
        sdk.internal.prepare_garbage_collection_commits("demo")
    assert (
        len(list(sandbox.blockstore.glob("demo/_lakefs/retention/gc/commits/run_id=*/commits.csv")))
        == 1
    )


def test_a_root_commit_is_listed_with_an_empty_metarange(sdk):
    sdk.create("demo")
    sdk.repositories.set_gc_rules("demo", _rules(1))
    assert list(_prepared(sdk, "demo").values()) == [""]


def test_without_rules_the_task_fails_and_the_submission_does_not(sdk):
    sdk.create("demo")
    task = sdk.internal.prepare_garbage_collection_commits_async("demo")
    status = sdk.internal.prepare_garbage_collection_commits_status("demo", task.id)
    assert (status.completed, status.result, status.error.message) == (
        True,
        None,
        "get gc rules: not found",
    )


def test_every_branch_is_scanned_and_deletions_and_lost_uploads_are_not_listed(sdk):
    sdk.create("demo")
    sdk.upload("demo", "main", "committed", b"1")
    sdk.commit("demo", "main")
    sdk.branches.create_branch(
        "demo", lakefs_sdk.BranchCreation(name="hidden", source="main", hidden=True)
    )
    kept = [sdk.upload("demo", "main", "a", b"2"), sdk.upload("demo", "hidden", "a", b"3")]
    sdk.upload("demo", "main", "gone", b"4")
    sdk.objects.delete_object("demo", "main", "gone")
    sdk.objects.delete_object("demo", "main", "committed")
    sdk.upload("demo", "hidden", "twice", b"5")
    kept.append(sdk.upload("demo", "hidden", "twice", b"6"))
    _, rows = _uncommitted(sdk, "demo")
    assert sorted(rows) == sorted(stat.physical_address.partition("/demo/")[2] for stat in kept)


def test_pages_end_by_rows_and_clean_branches_make_pages_without_rows(sdk, sandbox):
    sandbox.behaviour.uncommitted_page_rows = 2
    sdk.create("demo")
    addresses = set()
    for branch, staged in {"a": 3, "b": 0, "c": 0, "d": 0, "e": 0, "f": 2, "g": 0, "h": 0}.items():
        sdk.branches.create_branch("demo", lakefs_sdk.BranchCreation(name=branch, source="main"))
        for number in range(staged):
            stat = sdk.upload("demo", branch, f"p{number}", branch.encode())
            addresses.add(stat.physical_address.partition("/demo/")[2])
    pages, rows = _uncommitted(sdk, "demo")
    assert sorted(rows) == sorted(addresses)
    assert len({page.run_id for page in pages}) == 1
    with_rows = [bool(page.gc_uncommitted_location) for page in pages]
    assert with_rows.count(False) >= 3
    assert not with_rows[-1]
    assert len({page.continuation_token for page in pages}) == len(pages)


def test_a_token_cannot_lead_out_of_the_runs(sdk):
    sdk.create("demo")
    for run_id in ("../../x", "a/b", ""):
        token = base64.b64encode(
            json.dumps({"branch": "main", "path": "", "run_id": run_id}).encode()
        ).decode()
        request = lakefs_sdk.PrepareGCUncommittedRequest(continuation_token=token)
        with pytest.raises(BadRequestException, match="invalid continuation token"):
            sdk.internal.prepare_garbage_collection_uncommitted("demo", request)


def test_the_file_of_a_page_has_the_real_schema(sdk):
    sdk.create("demo")
    stat = sdk.upload("demo", "main", "a", b"x")
    page = sdk.internal.prepare_garbage_collection_uncommitted("demo")
    (file,) = _path(page.gc_uncommitted_location).iterdir()
    parquet = pq.ParquetFile(file)
    recorded = json.loads((DATA / "gc-files" / "schemas.json").read_text())[0]["parquet"]
    columns = [parquet.metadata.row_group(0).column(index) for index in range(2)]
    assert [
        (column.path_in_schema, column.physical_type, column.compression) for column in columns
    ] == [(column["name"], column["type"], column["compression"]) for column in recorded["columns"]]
    assert [parquet.schema.column(index).max_definition_level for index in range(2)] == [0, 0]
    assert str(parquet.schema.column(0).logical_type) == "String"
    assert parquet.read().to_pylist() == [
        {
            "physical_address": stat.physical_address.partition("/demo/")[2],
            "creation_date": stat.mtime,
        }
    ]


def test_a_read_only_repository_refuses_both_prepares_and_a_bare_one_lists_nothing(sdk):
    sdk.create("closed", read_only=True)
    with pytest.raises(ForbiddenException, match="read-only repository"):
        sdk.internal.prepare_garbage_collection_uncommitted("closed")
    with pytest.raises(ForbiddenException, match="read-only repository"):
        sdk.internal.prepare_garbage_collection_commits_async("closed")
    sdk.create("empty", bare=True)
    sdk.repositories.set_gc_rules("empty", _rules(1))
    assert _prepared(sdk, "empty") == {}
    assert _uncommitted(sdk, "empty")[1] == []


@pytest.mark.parametrize("days", [2**31 - 1, -(2**31)])
def test_the_longest_and_the_most_negative_rule_are_computed(sdk, days):
    sdk.create("demo")
    sdk.upload("demo", "main", "a", b"x")
    commit = sdk.commit("demo", "main", date=0)
    sdk.repositories.set_gc_rules("demo", _rules(days))
    assert commit.id in _prepared(sdk, "demo")


def test_a_dump_holds_every_commit_branch_and_tag(sdk, sandbox):
    sdk.create("demo")
    sdk.branches.create_branch(
        "demo", lakefs_sdk.BranchCreation(name="side", source="main", hidden=True)
    )
    sdk.upload("demo", "side", "a", b"x")
    lost = sdk.commit("demo", "side", metadata={"k": "v"})
    sdk.tags.create_tag("demo", lakefs_sdk.TagCreation(id="v1", ref="side"))
    sdk.branches.create_branch("demo", lakefs_sdk.BranchCreation(name="more", source="main"))
    sdk.branches.delete_branch("demo", "side")
    task = sdk.repositories.dump_submit("demo")
    made = sdk.repositories.dump_status("demo", task.id).refs
    refs = read_refs(
        lambda table: (sandbox.blockstore / "demo/_lakefs" / table).read_bytes(),
        commits_metarange_id=made.commits_meta_range_id,
        branches_metarange_id=made.branches_meta_range_id,
        tags_metarange_id=made.tags_meta_range_id,
    )
    root = sdk.head("demo", "main").id
    assert set(refs.commits) == {root, lost.id}
    assert [(branch.id, branch.commit_id) for branch in refs.branches] == [
        ("main", root),
        ("more", root),
    ]
    assert [(tag.id, tag.commit_id) for tag in refs.tags] == [("v1", lost.id)]


def _dumped(sandbox, made):
    return read_refs(
        lambda table: (sandbox.blockstore / "demo/_lakefs" / table).read_bytes(),
        commits_metarange_id=made.commits_meta_range_id,
        branches_metarange_id=made.branches_meta_range_id,
        tags_metarange_id=made.tags_meta_range_id,
    )


@pytest.mark.parametrize("is_asynchronous", [True, False])
def test_a_commit_while_a_dump_is_made_tears_the_asynchronous_one_as_the_servers(
    sdk, sandbox, is_asynchronous
):
    sdk.create("demo")
    told, landed = [], []

    def commit(part):
        told.append(part)
        objects.upload(sandbox.core, "demo", "main", part, part.encode())
        landed.append(refs.commit(sandbox.core, "demo", "main", message=part).id)

    sandbox.behaviour.while_dumping = commit
    if is_asynchronous:
        task = sdk.repositories.dump_submit("demo")
        dumped = _dumped(sandbox, sdk.repositories.dump_status("demo", task.id).refs)
        assert told == ["commits", "branches"]
        assert [branch.commit_id for branch in dumped.branches] == landed[:1]
        assert not dumped.commits.keys() & set(landed), "the head is named and not there"
    else:
        dumped = _dumped(sandbox, sdk.internal.dump_refs("demo"))
        assert told == ["tags", "branches"]
        assert [branch.commit_id for branch in dumped.branches] == landed[:1]
        assert set(landed) <= dumped.commits.keys()


def test_a_deleted_repository_is_forgotten_at_once_and_its_objects_stay(sdk, sandbox):
    sdk.create("demo")
    sdk.upload("demo", "main", "a", b"x")
    sdk.repositories.delete_repository("demo")
    with pytest.raises(NotFoundException, match="repository not found"):
        sdk.repositories.get_repository("demo")
    assert len(list((sandbox.blockstore / "demo/data").rglob("*/*"))) == 1
