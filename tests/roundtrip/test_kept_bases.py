"""House-keeping between optimized runs takes nothing that the next one needs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import history, objects, refs
from spark_core.records import tables, writing
from spark_core.records.figures import ListedFigures
from spark_core.upkeep import prune_own_tables
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
HOURS = range(1, 4)


def _parts(run, spec):
    folder = tables.folder(spec, run.key)
    keys = {key for batch in run.store.list(folder) for key in batch["key"].to_pylist()}
    return {key.removeprefix(folder) for key in keys if key.endswith(".parquet")}


def _prune(run):
    """Keep house as a year later, when all old tables may go."""
    clock = run.environment.clock
    now, clock.instant = clock.instant, clock.instant + timedelta(days=365)
    try:
        done = prune_own_tables.Pruned()
        prune_own_tables.prune(replace(run, options=replace(run.options, keep_runs=1)), done)
    finally:
        clock.instant = now
    return done


@pytest.mark.parametrize("holds", [0, writing.HELD_BYTES])
def test_each_run_begins_from_the_one_before_although_all_older_tables_went(
    sandbox, spark, monkeypatch, holds
):
    monkeypatch.setattr(writing, "HELD_BYTES", holds)
    core = sandbox.core
    history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    first = open_sandbox_run(sandbox, "repo", spark, NOW, optimized=True)
    mark_and_conclude(first)
    before, sketches = first, set()
    for hour in HOURS:
        at = NOW + timedelta(hours=hour)
        with core.lock, sandbox.clock.at(at - timedelta(minutes=5)):
            objects.upload(core, "repo", "main", f"new/{hour}", f"content {hour}".encode())
            refs.commit(core, "repo", "main", message=f"hour {hour}")
        sandbox.clock.set(at)
        run = open_sandbox_run(sandbox, "repo", spark, at, optimized=True)
        marked, verdict, _ = mark_and_conclude(run)
        assert verdict.passed
        listed = ListedFigures.of(marked.tables.slices.manifest)
        assert listed.base is not None, listed.why_full
        assert listed.base.run == str(before.key)
        assert _prune(run).runs[:1] == [before.key]
        assert not _parts(before, tables.NAMESPACE_SLICES)
        assert not _parts(before, tables.EXPIRED_ADDRESSES)
        sketches = _parts(first, tables.RETAINED_RANGES)
        before = run
    # Ranges that never changed are known by the first run's sketches: its files, unless later
    # manifests hold them.
    assert bool(sketches) is not bool(holds)
    assert all(name.startswith("_sketches-") for name in sketches)
    # A full run finds the same, needs nothing of all this, and then it goes.
    at += timedelta(hours=1)
    sandbox.clock.set(at)
    full = replace(open_sandbox_run(sandbox, "repo", spark, at, optimized=True), full=True)
    whole, verdict, _ = mark_and_conclude(full)
    assert verdict.passed
    assert whole.addresses(full) == marked.addresses(run)
    _prune(full)
    assert not _parts(first, tables.RETAINED_RANGES)
