"""Branches, tags, the log, merges, reverts and cherry-picks."""

from __future__ import annotations

from datetime import UTC, datetime

import lakefs_sdk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakefs_sdk.exceptions import (
    ApiException,
    BadRequestException,
    ForbiddenException,
    NotFoundException,
)

from lakegc_dagster.sandbox import merge, repositories
from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.errors import ApiError
from lakegc_dagster.sandbox.records import StagedChange
from lakegc_dagster.sandbox.times import from_seconds
from spark_core.graveler import Entry
from tests.support.examples import examples


@pytest.fixture
def repository(sdk):
    sdk.create("demo")
    return "demo"


def _branch(sdk, name, source="main", **more):
    sdk.branches.create_branch("demo", lakefs_sdk.BranchCreation(name=name, source=source, **more))


def _change(sdk, branch, **files):
    for path, data in files.items():
        if data is None:
            sdk.objects.delete_object("demo", branch, path)
        else:
            sdk.upload("demo", branch, path, data)
    return sdk.commit("demo", branch, ",".join(files))


def _content(sdk, ref):
    paths = [row.path for row in sdk.objects.list_objects("demo", ref, amount=1000).results]
    return {path: sdk.objects.get_object("demo", ref, path) for path in paths}


def _merge(sdk, source, destination, **body):
    return sdk.refs.merge_into_branch(
        "demo", source, destination, merge=lakefs_sdk.Merge(**body)
    ).reference


def test_a_commit_takes_the_date_and_metadata_that_it_is_given(sdk, repository):
    sdk.upload(repository, "main", "a", b"x")
    made = sdk.commit(repository, "main", "dated", date=1_600_000_000, metadata={"k": "v"})
    assert (made.creation_date, made.metadata, made.generation, made.version) == (
        1_600_000_000,
        {"k": "v"},
        2,
        1,
    )
    assert sdk.head(repository, made.id) == made
    assert sdk.head(repository, made.id[:12]).id == made.id


def test_a_commit_without_a_date_is_dated_by_the_clock(sdk, sandbox, repository):
    sandbox.clock.set(datetime(2026, 3, 1, tzinfo=UTC))
    stat = sdk.upload(repository, "main", "a", b"x")
    assert stat.mtime == sdk.commit(repository, "main").creation_date == 1_772_323_200


def test_an_empty_commit_is_refused_unless_allowed(sdk, repository):
    with pytest.raises(BadRequestException, match="commit: no changes"):
        sdk.commit(repository, "main")
    assert sdk.commit(repository, "main", allow_empty=True).generation == 2


def test_the_default_branch_cannot_be_deleted_and_others_take_their_staged_changes_along(
    sdk, sandbox, repository
):
    with pytest.raises(ApiException, match="cannot delete repository default branch"):
        sdk.branches.delete_branch(repository, "main")
    _branch(sdk, "side")
    sdk.upload(repository, "side", "a", b"x")
    sdk.branches.delete_branch(repository, "side")
    with pytest.raises(NotFoundException, match="not found"):
        sdk.objects.list_objects(repository, "side")
    _branch(sdk, "side")
    assert _content(sdk, "side") == {}
    assert len(list((sandbox.blockstore / "demo/data").rglob("*/*"))) == 1


def test_a_name_can_be_taken_only_once(sdk, repository):
    _branch(sdk, "side")
    with pytest.raises(ApiException, match="branch already exists: not unique") as taken:
        _branch(sdk, "side")
    assert taken.value.status == 409
    sdk.tags.create_tag(repository, lakefs_sdk.TagCreation(id="v1", ref="main"))
    with pytest.raises(ApiException, match="tag already exists") as taken:
        sdk.tags.create_tag(repository, lakefs_sdk.TagCreation(id="v1", ref="main"))
    assert taken.value.status == 409
    with pytest.raises(BadRequestException, match="branch id"):
        _branch(sdk, "not a name!")


def test_a_deleted_tag_is_not_found(sdk, repository):
    sdk.tags.create_tag(repository, lakefs_sdk.TagCreation(id="v1", ref="main"))
    sdk.tags.delete_tag(repository, "v1")
    with pytest.raises(NotFoundException, match="tag not found"):
        sdk.tags.delete_tag(repository, "v1")


def test_hidden_branches_show_only_when_asked_for(sdk, repository):
    _branch(sdk, "secret", hidden=True)
    assert [row.id for row in sdk.branches.list_branches(repository).results] == ["main"]
    assert [row.id for row in sdk.branches.list_branches(repository, show_hidden=True).results] == [
        "main",
        "secret",
    ]
    _change(sdk, "secret", a=b"1")
    assert [row.id for row in sdk.branches.list_branches(repository).results] == ["main"]


def test_the_log_goes_on_after_a_commit(sdk, repository):
    first = _change(sdk, "main", a=b"1")
    _branch(sdk, "side")
    aside = _change(sdk, "side", b=b"2")
    second = _change(sdk, "main", c=b"3")
    merged = _merge(sdk, "side", "main")
    log = [commit.id for commit in sdk.refs.log_commits(repository, "main").results]
    assert log[0] == merged
    assert set(log[1:3]) == {aside.id, second.id}
    assert log[3] == first.id
    assert len(log) == 5
    page = sdk.refs.log_commits(repository, "main", amount=2)
    assert [commit.id for commit in page.results] == log[:2]
    rest = sdk.refs.log_commits(repository, "main", after=page.pagination.next_offset)
    assert [commit.id for commit in rest.results] == log[2:]


def test_a_merge_brings_the_sources_changes_and_has_two_parents(sdk, repository):
    _change(sdk, "main", keep=b"1", drop=b"2", edit=b"3")
    _branch(sdk, "side")
    theirs = _change(sdk, "side", drop=None, edit=b"33", new=b"4")
    ours = _change(sdk, "main", own=b"5")
    merged = sdk.head(repository, _merge(sdk, "side", "main", message="together"))
    assert merged.parents == [ours.id, theirs.id]
    assert (merged.message, merged.metadata, merged.generation) == (
        "together",
        {".lakefs.merge.strategy": "default"},
        4,
    )
    assert _content(sdk, "main") == {"keep": b"1", "edit": b"33", "new": b"4", "own": b"5"}


def test_a_squash_merge_has_one_parent(sdk, repository):
    _branch(sdk, "side")
    _change(sdk, "side", a=b"1")
    ours = _change(sdk, "main", b=b"2")
    merged = sdk.head(repository, _merge(sdk, "side", "main", squash_merge=True))
    assert merged.parents == [ours.id]
    assert _content(sdk, "main") == {"a": b"1", "b": b"2"}


def test_a_conflict_is_409_unless_a_side_wins(sdk, repository):
    _change(sdk, "main", a=b"0")
    _branch(sdk, "side")
    _change(sdk, "side", a=b"side")
    _change(sdk, "main", a=b"main")
    with pytest.raises(ApiException) as conflict:
        _merge(sdk, "side", "main")
    assert (conflict.value.status, conflict.value.body) == (409, '{"reference":""}\n')
    _branch(sdk, "copy")
    _merge(sdk, "side", "main", strategy="source-wins")
    assert _content(sdk, "main") == {"a": b"side"}
    _merge(sdk, "side", "copy", strategy="dest-wins")
    assert _content(sdk, "copy") == {"a": b"main"}


def test_a_merge_into_a_dirty_branch_or_of_nothing_is_refused(sdk, repository):
    _branch(sdk, "side")
    with pytest.raises(BadRequestException, match="no changes"):
        _merge(sdk, "side", "main")
    _change(sdk, "side", a=b"1")
    sdk.upload(repository, "main", "b", b"2")
    with pytest.raises(BadRequestException, match="dirty branch"):
        _merge(sdk, "side", "main")


def test_a_revert_undoes_one_commit_and_keeps_the_later_ones(sdk, repository):
    _change(sdk, "main", a=b"1", b=b"2")
    mistake = _change(sdk, "main", a=b"wrong", b=None)
    _change(sdk, "main", c=b"3")
    sdk.branches.revert_branch(
        repository, "main", lakefs_sdk.RevertCreation(ref=mistake.id, parent_number=0)
    )
    assert _content(sdk, "main") == {"a": b"1", "b": b"2", "c": b"3"}
    assert sdk.head(repository, "main").message == f"Revert {mistake.id}"


def test_reverting_a_merge_needs_a_parent_number(sdk, repository):
    _branch(sdk, "side")
    _change(sdk, "side", a=b"1")
    _change(sdk, "main", b=b"2")
    merged = _merge(sdk, "side", "main")
    with pytest.raises(ApiException, match="1-based parent number"):
        sdk.branches.revert_branch(
            repository, "main", lakefs_sdk.RevertCreation(ref=merged, parent_number=0)
        )
    sdk.branches.revert_branch(
        repository, "main", lakefs_sdk.RevertCreation(ref=merged, parent_number=1)
    )
    assert _content(sdk, "main") == {"b": b"2"}


def test_a_cherry_pick_does_elsewhere_what_a_commit_did_and_says_where_from(sdk, repository):
    _change(sdk, "main", a=b"1")
    _branch(sdk, "release")
    _change(sdk, "main", b=b"2")
    fix = _change(sdk, "main", a=b"fixed")
    picked = sdk.branches.cherry_pick(
        repository, "release", lakefs_sdk.CherryPickCreation(ref=fix.id)
    )
    assert _content(sdk, "release") == {"a": b"fixed"}
    assert picked.metadata == {"cherry-pick-origin": fix.id, "cherry-pick-committer": fix.committer}
    assert sdk.head(repository, fix.id).metadata == {}


def test_a_hard_reset_moves_a_branch_and_leaves_the_commit(sdk, repository):
    first = _change(sdk, "main", a=b"1")
    second = _change(sdk, "main", b=b"2")
    sdk.experimental.hard_reset_branch(repository, "main", first.id)
    assert sdk.head(repository, "main").id == first.id
    assert _content(sdk, second.id) == {"a": b"1", "b": b"2"}


def test_a_read_only_repository_refuses_writes(sdk):
    sdk.create("closed", read_only=True)
    with pytest.raises(ApiException, match="read-only repository"):
        sdk.upload("closed", "main", "a", b"1")
    with pytest.raises(ForbiddenException, match="read-only repository"):
        sdk.commit("closed", "main")
    with pytest.raises(ForbiddenException, match="read-only repository"):
        sdk.branches.create_branch("closed", lakefs_sdk.BranchCreation(name="side", source="main"))


FILES = st.dictionaries(st.sampled_from([b"a", b"b", b"c", b"d"]), st.integers(0, 2))


def _tree(core, files):
    entries = [
        Entry(
            path, f"data/s/{path.decode()}{content}", 1, content, f"{content:032x}", from_seconds(0)
        )
        for path, content in sorted(files.items())
    ]
    return core.trees.apply(
        "local://demo", "", [StagedChange(entry.path, entry) for entry in entries]
    ).metarange_id


@settings(max_examples=examples(40, 100), deadline=None)
@given(
    base=FILES, ours=FILES, theirs=FILES, strategy=st.sampled_from(["", "source-wins", "dest-wins"])
)
def test_merged_trees_are_a_three_way_merge_of_dictionaries(
    tmp_path_factory, base, ours, theirs, strategy
):
    core = Core(tmp_path_factory.mktemp("merge"))
    try:
        repository = repositories.create(core, "demo", "local://demo")
        trees = {
            "base": _tree(core, base),
            "destination": _tree(core, ours),
            "source": _tree(core, theirs),
        }
        expected, conflict = dict(ours), False
        for path in base.keys() | theirs.keys():
            was, here, there = base.get(path), ours.get(path), theirs.get(path)
            if there in (was, here):
                continue
            if here != was:
                conflict = conflict or not strategy
                if strategy != "source-wins":
                    continue
            expected[path] = there
        refusal = "no changes" if base == theirs else "conflict found" if conflict else ""
        if refusal:
            with pytest.raises(ApiError, match=refusal):
                merge.merge_trees(core, repository, **trees, strategy=strategy)
            return
        merged = merge.merge_trees(core, repository, **trees, strategy=strategy)
        found = {
            entry.path: entry.size_bytes for entry in core.trees.iterate("local://demo", merged)
        }
        assert found == {path: content for path, content in expected.items() if content is not None}
    finally:
        core.close()
