"""The committer against a real server: the same changes on the same tree give the server's own
metarange ids.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_dagster.sandbox.blockstore import Blockstore
from lakegc_dagster.sandbox.clock import SandboxClock
from lakegc_dagster.sandbox.listing import differences
from lakegc_dagster.sandbox.records import StagedChange
from lakegc_dagster.sandbox.tables import write_metarange
from lakegc_dagster.sandbox.times import from_seconds
from lakegc_dagster.sandbox.trees import Trees
from spark_core.graveler import Entry
from tests.support import golden
from tests.support.examples import examples

# The recorded server's settings where they were not the defaults (tests/data/repos, facts 11.8).
SETTINGS = {"many-ranges": {"max_range_size_bytes": 16384, "raggedness": 150}}
# Commits of these metadata were written by merging or importing, not by committing changes.
NOT_COMMITTED = {".lakefs.merge.strategy", "cherry-pick-origin"}
NAMESPACE = "local://recorded"


def _ordinary_commits(name):
    """(parent's metarange id, own metarange id) of each commit made from staged changes."""
    commits = {commit["id"]: commit for commit in golden.server(name)["commits"]}
    for commit in commits.values():
        merged = NOT_COMMITTED & commit["metadata"].keys() or commit["message"].startswith(
            "Revert "
        )
        if len(commit["parents"]) == 1 and not merged:
            yield commits[commit["parents"][0]]["meta_range_id"], commit["meta_range_id"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["docs-2022-03-31", "unified", "merges", "many-ranges", "two-level-index", "hard-deleted"],
)
def test_committing_the_recorded_changes_gives_the_recorded_ids(tmp_path: Path, name: str):
    golden.unpack(name, tmp_path)
    (tmp_path / "namespace").rename(tmp_path / "recorded")
    trees = Trees(Blockstore(tmp_path, SandboxClock()), **SETTINGS.get(name, {}))
    pairs = list(_ordinary_commits(name))
    assert pairs
    for parent, own in pairs:
        if not own:
            continue
        changes = [
            StagedChange(row.path, None if row.type == "removed" else row.entry)
            for row in differences(trees.iterate(NAMESPACE, parent), trees.iterate(NAMESPACE, own))
        ]
        assert trees.apply(NAMESPACE, parent, changes).metarange_id == own


def _entry(path: bytes, content: int) -> Entry:
    return Entry(
        path,
        f"data/s/{path.hex()}-{content}",
        1,
        content,
        f"{content:032x}",
        from_seconds(1_700_000_000),
    )


PATHS = st.sampled_from([f"p/{number:02}".encode() for number in range(40)])
TREES = st.dictionaries(PATHS, st.integers(0, 3), max_size=40)


@settings(max_examples=examples(30, 60), deadline=None)
@given(base=TREES, changes=st.dictionaries(PATHS, st.none() | st.integers(0, 3), max_size=15))
def test_applied_changes_are_what_a_dictionary_would_hold(tmp_path_factory, base, changes):
    trees = Trees(Blockstore(tmp_path_factory.mktemp("trees"), SandboxClock()), raggedness=3)
    start = trees.apply(
        NAMESPACE, "", [StagedChange(path, _entry(path, base[path])) for path in sorted(base)]
    )
    staged = [
        StagedChange(path, None if changes[path] is None else _entry(path, changes[path]))
        for path in sorted(changes)
    ]
    applied = trees.apply(NAMESPACE, start.metarange_id, staged)
    expected = {**base, **changes}
    expected = {path: content for path, content in expected.items() if content is not None}
    assert {
        entry.path: entry.size_bytes for entry in trees.iterate(NAMESPACE, applied.metarange_id)
    } == expected
    assert applied.changes == sum(base.get(path) != content for path, content in changes.items())
    for path in [*base, *changes]:
        found = trees.get(NAMESPACE, applied.metarange_id, path)
        assert (found and found.size_bytes) == expected.get(path)
    # A fresh reader that never saw the writing reads the same.
    fresh = Trees(trees._blockstore)
    assert [entry.path for entry in fresh.iterate(NAMESPACE, applied.metarange_id)] == sorted(
        expected
    )


def test_an_untouched_range_is_kept_by_its_id(tmp_path: Path):
    trees = Trees(Blockstore(tmp_path, SandboxClock()), raggedness=5)
    paths = [f"{number:03}".encode() for number in range(100)]
    start = trees.apply(NAMESPACE, "", [StagedChange(path, _entry(path, 1)) for path in paths])
    before = trees.ranges(NAMESPACE, start.metarange_id)
    changed = trees.apply(NAMESPACE, start.metarange_id, [StagedChange(b"050", _entry(b"050", 2))])
    after = trees.ranges(NAMESPACE, changed.metarange_id)
    assert len(before) > 10
    assert len({table.id for table in after} - {table.id for table in before}) == 1


def test_an_addition_after_the_last_key_makes_a_small_range_of_its_own(tmp_path: Path):
    trees = Trees(Blockstore(tmp_path, SandboxClock()))
    start = trees.apply(NAMESPACE, "", [StagedChange(b"a", _entry(b"a", 1))])
    more = trees.apply(NAMESPACE, start.metarange_id, [StagedChange(b"b", _entry(b"b", 1))])
    assert [table.count for table in trees.ranges(NAMESPACE, more.metarange_id)] == [1, 1]


def test_a_change_of_the_same_identity_keeps_the_old_address(tmp_path: Path):
    trees = Trees(Blockstore(tmp_path, SandboxClock()))
    old = _entry(b"a", 1)
    start = trees.apply(NAMESPACE, "", [StagedChange(b"a", old)])
    twin = Entry(b"a", "data/s/other", 1, 1, old.checksum, from_seconds(1_800_000_000))
    applied = trees.apply(NAMESPACE, start.metarange_id, [StagedChange(b"a", twin)])
    assert applied.changes == 0
    assert trees.get(NAMESPACE, applied.metarange_id, b"a").address == old.address


def test_an_emptied_tree_is_the_metarange_without_ranges(tmp_path: Path):
    trees = Trees(Blockstore(tmp_path, SandboxClock()))
    start = trees.apply(NAMESPACE, "", [StagedChange(b"a", _entry(b"a", 1))])
    emptied = trees.apply(NAMESPACE, start.metarange_id, [StagedChange(b"a", None)])
    assert emptied.metarange_id == write_metarange([]).id
    assert trees.ranges(NAMESPACE, emptied.metarange_id) == []
