"""The stated fates against an oracle: the sets of objects that the tables on disk reach."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import gc, listing
from lakegc_dagster.sandbox.history import documents_history
from lakegc_dagster.sandbox.refs import resolve
from lakegc_dagster.sandbox.xids import xid_seconds
from tests.lakegc_dagster.sandbox.conftest import files_under_data
from tests.support.upstream import upstream_scenario

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
MIN_AGE = timedelta(hours=24)
STORIES = {"documents": documents_history, "upstream": upstream_scenario}


@pytest.fixture(params=STORIES)
def story(request, sandbox):
    return STORIES[request.param](sandbox, "story", now=NOW)


def _relative(sandbox, entry):
    return entry.address.removeprefix(f"local://{sandbox.blockstore}/story/")


def _retained_commits(sandbox, story):
    """The commits that the server retains at the story's `now`, and every tagged commit."""
    core = sandbox.core
    repository = core.repository("story")
    commits = core.state.commits(repository.number)
    rules = gc.rules(core, repository)
    active = gc.active_commits(commits, core.state.branches(repository.number), rules, story.now)
    return set(active) | {commit_id for _, commit_id in core.state.tags(repository.number)}


def _reachable(sandbox, story):
    core = sandbox.core
    repository = core.repository("story")
    found = set()
    for commit_id in _retained_commits(sandbox, story):
        tree = core.state.commit(repository.number, commit_id).metarange_id
        found |= {
            _relative(sandbox, entry)
            for entry in core.trees.iterate(repository.storage_namespace, tree)
        }
    for branch in core.state.branches(repository.number):
        ref = resolve(core, repository, branch.id)
        found |= {_relative(sandbox, entry) for entry in listing.entries(core, repository, ref)}
    return found


def test_the_story_tells_of_every_object_in_the_store(sandbox, story):
    told = [file.address for file in story.files]
    assert len(told) == len(set(told))
    assert set(told) == set(files_under_data(sandbox, "story"))
    assert all(file.reason for file in story.files)


def test_what_is_unreachable_and_old_is_what_the_story_says_is_deleted(sandbox, story):
    cutoff = (story.now - MIN_AGE).timestamp()
    old = {
        address
        for address, found in files_under_data(sandbox, "story").items()
        if found.st_mtime < cutoff
    }
    assert {file.address for file in story.deleted} == old - _reachable(sandbox, story)


def test_the_story_knows_which_commits_are_retained(sandbox, story):
    retained = _retained_commits(sandbox, story)
    commits = sandbox.core.state.commits(sandbox.core.repository("story").number)
    told = {commit.id: commit.retained for commit in story.commits}
    roots = {commit.id for commit in commits.values() if not commit.parents}
    assert set(told) == set(commits) - roots
    assert {commit_id for commit_id, kept in told.items() if kept} == retained - roots


@pytest.mark.slow
def test_every_file_reads_back_where_the_story_says(sdk, story):
    for file in story.files:
        if file.ref is not None:
            assert sdk.objects.get_object("story", file.ref, file.path) == file.data, file
            stat = sdk.objects.stat_object("story", file.ref, file.path)
            assert stat.physical_address.endswith(file.address), file


def test_objects_are_as_old_as_the_story_says_by_file_time_and_by_name(sandbox, story):
    for address, found in files_under_data(sandbox, "story").items():
        _, slice_id, name = address.split("/")
        assert xid_seconds(name) == int(found.st_mtime)
        slice_started = (64_060_588_800 - xid_seconds(slice_id)) % 2**32
        assert 0 <= found.st_mtime - slice_started < 3600


def test_the_documents_story_retains_what_the_documents_say(sandbox):
    story = documents_history(sandbox, "documents", now=NOW)
    retained = {
        commit.label
        for commit in story.commits
        if commit.retained and commit.line in {"main", "dev"}
    }
    assert retained == {
        "2022-03-09",
        "2022-03-12",
        "2022-03-18",
        "merge dev",
        "2022-03-26",
        "d: 2022-03-23",
    }
    assert len(story.files) > 200
    assert len(story.deleted) > 100
    # Only the twin looks like another object, so no other sizes are equal by chance.
    assert len({len(file.data) for file in story.files}) == len(story.files) - 1
    assert sandbox.clock.now() - datetime.now(UTC) < timedelta(seconds=5)


def test_the_upstream_story_keeps_files_1_3_6_and_8(sandbox):
    story = upstream_scenario(sandbox, "upstream", now=NOW)
    assert sorted(file.path for file in story.kept) == ["file_1", "file_3", "file_6", "file_8"]
    assert sorted(file.path for file in story.deleted) == [
        "file_10",
        "file_2",
        "file_4",
        "file_5",
        "file_7",
        "file_9",
    ]
