"""House-keeping: which files of the index go, and which stay because a run may read them."""

import os
from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import lakegc_keys
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.index.saved import Saved
from spark_core.records import tables
from spark_core.records.manifest import ENCLOSED, Manifest, Part
from spark_core.upkeep import house_keeping_result
from tests.support.old_runs import INDEX_FILES, key_of_day, keys_of_day, mark, prune
from tests.support.written_run import NOW

SAVED = Saved(
    repository="repo",
    instance="",
    endpoint="",
    run="",
    started=NOW,
    last_slice="",
    open_slices=(),
    clean="",
    optimized_since=(),
    options={},
    blocked_by=(),
    closed_before=0,
    slices=(),
    trees=(),
    ranges=(),
    entries=(),
)


def _saved(run, day, *named):
    """Store an earlier run that saved an index, with some files of it: their keys."""
    then = mark(run, day)
    parts = {name: tuple(one for one in named if f"/{name}-" in one.key) for name in INDEX_FILES}
    document = replace(SAVED, run=str(then.key), **parts)
    then.store.put(lakegc_keys.saved_key(then.key), document.to_json())
    return then


def _of_index(run, name, number=0, *, without=None):
    """Write a file of the index."""
    unique = f"{'0' * 32}-{'0' * 8}"
    key = lakegc_keys.INDEX + lakegc_keys.part(name, number, 0, unique)
    run.store.put(key, b"rows")
    return Part(key, 1, 4, "0" * 64, without=without)


def _index(run):
    batches = run.store.list(lakegc_keys.INDEX)
    return {key for batch in batches for key in batch.column("key").to_pylist()}


def test_what_a_run_saved_goes_with_its_tables_and_its_manifests_stay(run):
    for day in (0, 1, 2):
        _saved(run, day)
    assert prune(run).runs == [key_of_day(2)]
    assert lakegc_keys.saved_key(key_of_day(2)) not in keys_of_day(run, 2)
    assert tables.manifest_key(tables.EXPIRED_ADDRESSES, key_of_day(2)) in keys_of_day(run, 2)
    assert lakegc_keys.saved_key(key_of_day(1)) in keys_of_day(run, 1)


def test_what_the_two_newest_saved_runs_name_of_the_index_stays_and_the_rest_goes(run):
    newest = [_of_index(run, name, 0) for name in INDEX_FILES]
    gone = _of_index(run, "gone", 0)
    before = [_of_index(run, name, 1) for name in INDEX_FILES]
    before[0] = replace(before[0], without=gone)
    older = [_of_index(run, name, 2) for name in (*INDEX_FILES, "gone")]
    _saved(run, 0, *newest)
    mark(run, 1)
    _saved(run, 2, *before)
    _saved(run, 3, *older)
    done = prune(replace(run, options=replace(run.options, keep_runs=9)))
    assert (done.runs, done.objects) == ([], 0)
    assert (done.index_objects, done.index_bytes, done.gone) == (5, 20, 5)
    assert _index(run) == {part.key for part in (*newest, *before, gone)}
    assert (
        "files of the index pruned that no run needs any more (5 files"
        in house_keeping_result.House(done, None).words
    )


def _takes(run, day, spec, *, parts=(), beside=()):
    """Let a table of a run name files of the index."""
    around = tables.ENCLOSED_IN.get(spec.name, spec)
    key = tables.manifest_key(around, key_of_day(day))
    outer = Manifest.from_json(run.store.read(key), name=key)
    if around is not spec:
        inner = replace(outer, table=spec.name, parts=parts, beside=beside, facts={})
        facts = {**outer.facts, ENCLOSED: {spec.name: inner.to_json().decode()}}
        run.store.put(key, replace(outer, facts=facts).to_json())
    else:
        run.store.put(key, replace(outer, parts=(*outer.parts, *parts)).to_json())


def test_what_a_table_of_a_run_that_stays_names_of_the_index_stays_with_it(run):
    """A mark merges files of the index when it saves, and its tables name those that were."""
    gone = _of_index(run, "gone")
    slices = _of_index(run, "slices", without=gone)
    entries = _of_index(run, "entries")
    for day in (0, 1, 2):
        _saved(run, day)
    _takes(run, 1, tables.NAMESPACE_SLICES, parts=(slices,))
    _takes(run, 1, tables.TAKEN_RANGES, beside=(entries,))
    assert prune(run).index_objects == 0
    assert _index(run) == {gone.key, slices.key, entries.key}
    _saved(run, -1)
    assert prune(run).index_objects == 3, "its tables went a moment ago"
    assert _index(run) == set()


@pytest.mark.parametrize("spec", [tables.NAMESPACE_SLICES, tables.COMMITTED_ADDRESSES])
@pytest.mark.parametrize("written", [b"{", b"{}", None])
def test_where_a_table_of_a_run_that_stays_cannot_be_read_all_of_the_index_stays(
    run, spec, written
):
    """What it names is unknown, though another lakegc may read it, or somebody bring it back."""
    part = _of_index(run, "slices")
    for day in (0, 1, 2):
        _saved(run, day)
    manifest = tables.manifest_key(spec, key_of_day(1))
    if written is None:
        run.store.delete([manifest])
    else:
        run.store.put(manifest, written)
    done = prune(run)
    assert done.runs == [key_of_day(2)], "tables of old runs go all the same"
    assert _index(run) == {part.key}
    assert f"which of its files run {key_of_day(1)} names is not known" in done.index_kept


def test_the_ranges_of_another_run_under_the_name_of_a_run_that_stays_keep_all_of_the_index(run):
    part = _of_index(run, "ranges")
    for day in (0, 1, 2):
        _saved(run, day)
    _takes(run, 0, tables.TAKEN_RANGES, beside=(part,))
    moved = run.store.read(tables.manifest_key(tables.COMMITTED_ADDRESSES, key_of_day(0)))
    run.store.put(tables.manifest_key(tables.COMMITTED_ADDRESSES, key_of_day(1)), moved)
    assert prune(run).index_kept is not None
    assert _index(run) == {part.key}


def test_a_mark_that_was_killed_before_a_table_keeps_nothing_of_the_index_for_it(run):
    _of_index(run, "slices")
    for day in (0, 1):
        _saved(run, day)
    killed = key_of_day(-1)
    run.store.put(
        lakegc_keys.of_run(lakegc_keys.SLICES, killed)
        + lakegc_keys.part("part", 0, 0, f"{'0' * 32}-{'0' * 8}"),
        b"rows",
    )
    assert prune(run).index_kept is None
    assert _index(run) == set()


def test_an_index_that_nothing_names_any_more_goes(run):
    mark(run, 0)
    _of_index(run, "slices")
    assert prune(run).index_objects == 1
    assert _index(run) == set()


@pytest.mark.parametrize(("seconds", "stays"), [(-1, False), (+1, True)])
def test_what_was_written_of_the_index_within_a_day_stays(run, tmp_path, seconds, stays):
    mark(run, 0)
    key = _of_index(run, "entries").key
    since = run.now() - timedelta(days=1) - MAX_CLOCK_SKEW
    moment = since.timestamp() + seconds
    os.utime(tmp_path / "repo" / key, (moment, moment))
    prune(run)
    assert (key in _index(run)) is stays


@pytest.mark.parametrize("day", [0, 1])
@pytest.mark.parametrize("written", [b"{", b'{"format": 4}'])
def test_where_one_of_the_two_documents_cannot_be_read_all_of_the_index_stays(run, day, written):
    part = _of_index(run, "ranges")
    for each in (0, 1, 2):
        _saved(run, each)
    run.store.put(lakegc_keys.saved_key(key_of_day(day)), written)
    done = prune(run)
    assert done.runs == [key_of_day(2)], "tables of old runs go all the same"
    assert _index(run) == {part.key}
    assert f"which of its files run {key_of_day(day)} names is not known" in done.index_kept
    assert (
        "nothing of the index pruned: which of its files"
        in house_keeping_result.House(done, None).words
    )


@pytest.mark.parametrize(
    "name",
    [
        "index/part-00000-000-{0}.parquet",
        "index/slices-00000-000-{0}.parquet.bak",
        "index/slices-00000-000-{1}.parquet",
        "index/inner/slices-00000-000-{0}.parquet",
        "index/_saved.json",
        "indexes/slices-00000-000-{0}.parquet",
    ],
)
def test_nothing_else_goes_from_the_index(run, name):
    mark(run, 0)
    key = lakegc_keys.ROOT + name.format(f"{'0' * 32}-{'0' * 8}", "0" * 32)
    run.store.put(key, b"rows")
    assert prune(run) == house_keeping_result.Pruned()
    assert run.store.exists(key)
