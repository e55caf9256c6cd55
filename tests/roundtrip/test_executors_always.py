"""With `always = true` executors mark and sweep, however little there is, as the driver does."""

from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.populate import populate
from lakegc_dagster.sandbox import history
from spark_core.references import shared_ranges
from spark_core.spark import placement
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


@pytest.mark.slow
@pytest.mark.usefixtures("executors_work")
def test_a_whole_mark_and_sweep_by_executors_end_as_the_story_says(sandbox, spark):
    story = history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    before = placement.work_so_far()
    marked, verdict, _ = mark_and_conclude(run)
    of_mark = placement.work_so_far().since(before)
    assert verdict.passed
    assert set(marked.addresses(run)) == {file.address for file in story.deleted}
    assert sweep_only(run) == {file.address: "deleted" for file in story.deleted}
    for file in story.kept:
        assert run.store.read(file.address) == file.data
    # The five tables, what may hide, and the decision.
    assert of_mark.tasks >= 10
    assert of_mark.master == "local[2]"
    assert placement.work_so_far().since(before).tasks > of_mark.tasks


@pytest.mark.slow
@pytest.mark.parametrize("always", [False, True])
def test_ranges_are_dealt_out_to_executors_and_not_to_the_driver(
    sandbox, spark, monkeypatch, always
):
    populate(sandbox, "repo", now=NOW, objects=60, commits=6, branches=3, garbage=2, staged=1)
    monkeypatch.setattr(shared_ranges, "_RANGES_OF_A_TASK", 2)
    placement.choose_executors(always)
    marked = mark_only(open_sandbox_run(sandbox, "repo", spark, NOW))
    assert (len(marked.tables.committed.manifest.parts) > 1) == always
