"""Generated repositories: their stated figures agree with the files on disk."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.populate import populate
from lakegc_dagster.sandbox import gc
from tests.lakegc_dagster.sandbox.conftest import files_under_data

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("objects", "commits", "branches"),
    [(900, 30, 7), (60, 2, 0), pytest.param(100, 100, 3, marks=pytest.mark.deep), (503, 17, 40)],
)
def test_a_population_expires_as_many_objects_as_it_says(sandbox, objects, commits, branches):
    told = populate(
        sandbox,
        "many",
        now=NOW,
        objects=objects,
        commits=commits,
        branches=branches,
        garbage=11,
        staged=5,
    )
    core = sandbox.core
    repository = core.repository("many")
    records = core.state.commits(repository.number)
    active = gc.active_commits(
        records, core.state.branches(repository.number), gc.rules(core, repository), NOW
    )
    reachable = {
        change.entry.address for change in core.state.staged_from(repository.number, "main")
    }
    for commit_id in active:
        tree = records[commit_id].metarange_id
        reachable |= {
            entry.address for entry in core.trees.iterate(repository.storage_namespace, tree)
        }
    listing = files_under_data(sandbox, "many")
    cutoff = (NOW - timedelta(days=1)).timestamp()
    old = {address for address, found in listing.items() if found.st_mtime < cutoff}
    assert told.objects == len(listing) == objects + 11 + 5
    assert told.expired == len(old - reachable)
    assert (told.commits, told.retained_commits) == (commits + 1, len(active))
    assert len({found.st_size for found in listing.values()}) == len(listing)


def test_a_population_lies_in_as_many_slices_and_sizes_as_asked(sandbox):
    told = populate(
        sandbox,
        "many",
        now=NOW,
        objects=90,
        commits=9,
        branches=1,
        garbage=5,
        staged=5,
        slices=4,
        sizes=7,
    )
    listing = files_under_data(sandbox, "many")
    assert told.objects == len(listing) == 100
    assert len({address.split("/")[1] for address in listing}) == 4
    assert len({found.st_size for found in listing.values()}) == 7


@pytest.mark.parametrize("sizes", [None, 30])
def test_the_entries_of_a_population_say_the_checksums_of_its_files_of_which_no_two_are_alike(
    sandbox, sizes
):
    populate(
        sandbox,
        "many",
        now=NOW,
        objects=90,
        commits=9,
        branches=1,
        garbage=5,
        staged=5,
        sizes=sizes,
    )
    core = sandbox.core
    repository = core.repository("many")
    trees = {
        commit.metarange_id
        for commit in core.state.commits(repository.number).values()
        if commit.metarange_id
    }
    entries = [
        entry for tree in trees for entry in core.trees.iterate(repository.storage_namespace, tree)
    ]
    entries += [change.entry for change in core.state.staged_from(repository.number, "main")]
    root = sandbox.blockstore / "many"
    digests = {
        address: hashlib.md5((root / address).read_bytes()).hexdigest()
        for address in files_under_data(sandbox, "many")
    }
    assert {entry.address: entry.checksum for entry in entries}.items() <= digests.items()
    assert len({entry.address for entry in entries}) == 95, "all but what nothing refers to"
    assert len(set(digests.values())) == 100


def test_a_populations_heads_list_as_many_paths_as_they_should(sdk, sandbox):
    populate(sandbox, "many", now=NOW, objects=400, commits=20, branches=2, garbage=0, staged=3)
    listed = sdk.objects.list_objects("many", "main", amount=1000).results
    hot = [row for row in listed if row.path.startswith("hot/")]
    kept = [row for row in listed if row.path.startswith("kept-")]
    assert (len(hot), len(kept), len(listed)) == (5, 400 - 5 * 19, 5 + 305 + 3)
    assert (
        sdk.objects.stat_object("many", "main", listed[0].path).size_bytes == listed[0].size_bytes
    )


def test_the_ranges_of_a_population_do_not_grow_with_its_commits(sandbox):
    populate(sandbox, "many", now=NOW, objects=2000, commits=50, branches=0, garbage=0, staged=0)
    core = sandbox.core
    repository = core.repository("many")
    head = core.head(repository, core.branch(repository, "main"))
    counts = [
        table.count for table in core.trees.ranges(repository.storage_namespace, head.metarange_id)
    ]
    assert len(counts) == 50
    assert max(counts) < 60


def test_a_population_of_one_commit_is_refused(sandbox):
    with pytest.raises(ValueError, match="two commits and an object in each"):
        populate(sandbox, "many", now=NOW, objects=10, commits=1)
