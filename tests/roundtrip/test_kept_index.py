"""House-keeping between runs takes nothing of the index that the next one needs, and the rest."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakegc_dagster.sandbox import history, objects, refs
from spark_core import lakegc_keys
from spark_core.records import tables, writing
from spark_core.records.figures import ListedFigures
from spark_core.run import Run
from spark_core.upkeep import house_keeping_result, prune_own_tables
from tests.support import index_files
from tests.support.clean_beside import mark_beside_a_clean_one, was_clean
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _stored_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each file lie in the store, as those of large repositories do."""
    monkeypatch.setattr(writing, "HELD_BYTES", 0)


NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
HOURS = range(1, 4)
OPTIMIZED: dict[str, Any] = {"optimized": True}


def _keys(run: Run, folder: str) -> set[str]:
    return {key for batch in run.store.list(folder) for key in batch["key"].to_pylist()}


def _tables(run: Run) -> set[str]:
    folders = [tables.folder(spec, run.key) for spec in tables.MARK_TABLES]
    return {key for one in folders for key in _keys(run, one) if key.endswith(".parquet")}


def _indexed(run: Run) -> set[str]:
    kinds = (*index_files.KINDS, "gone")
    return {part.key for kind in kinds for part in index_files.parts_of(run, kind)}


def _prune(run: Run) -> house_keeping_result.Pruned:
    """Keep house as a year later, when all that is old may go."""
    clock: Any = run.environment.clock
    now, clock.instant = clock.instant, clock.instant + timedelta(days=365)
    try:
        done = house_keeping_result.Pruned()
        prune_own_tables.prune(replace(run, options=replace(run.options, keep_runs=1)), done)
    finally:
        clock.instant = now
    return done


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_held")
def test_each_run_takes_from_the_index_although_all_older_tables_went(
    sandbox: Any, spark: Any
) -> None:
    core = sandbox.core
    history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    runs = [open_sandbox_run(sandbox, "repo", spark, NOW, **OPTIMIZED)]
    mark_and_conclude(runs[0])
    for hour in HOURS:
        at = NOW + timedelta(hours=hour)
        with core.lock, sandbox.clock.at(at - timedelta(minutes=5)):
            objects.upload(core, "repo", "main", f"new/{hour}", f"content {hour}".encode())
            refs.commit(core, "repo", "main", message=f"hour {hour}")
        sandbox.clock.set(at)
        run, (marked, verdict, _) = mark_beside_a_clean_one(
            sandbox.blockstore / "repo",
            lambda at=at: open_sandbox_run(sandbox, "repo", spark, at, **OPTIMIZED),
        )
        assert verdict.passed
        assert not was_clean(marked)
        index = ListedFigures.of(marked.tables.slices.manifest).index
        assert index is not None
        assert index.run == str(runs[-1].key)
        assert _prune(run).runs[:1] == [runs[-1].key]
        assert not _tables(runs[-1])
        runs.append(run)
    # What the last run names is there, and nothing else.
    named = _indexed(runs[-1])
    assert _keys(runs[-1], lakegc_keys.INDEX) == named
    # A clean run names an index of its own, and so does the next: what was before them goes.
    for hour in (5, 6):
        at = NOW + timedelta(hours=hour)
        sandbox.clock.set(at)
        clean = replace(open_sandbox_run(sandbox, "repo", spark, at, **OPTIMIZED), full=True)
        mark_and_conclude(clean)
        _prune(clean)
    assert not _keys(clean, lakegc_keys.INDEX) & named
    assert _indexed(clean) <= _keys(clean, lakegc_keys.INDEX)
