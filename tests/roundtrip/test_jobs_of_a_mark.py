"""What a mark asks of Spark and of the server where objects share sizes.

A job for each stage, and few questions.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.populate import populate
from spark_core.spark import placement
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.telling_store import TellingStore

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
ALIKE, BRANCHES = 10, 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tells_content", "jobs", "questions"),
    [
        # One each for what is staged, for metaranges, ranges and the decision; three for what may
        # hide: its sizes, the join, and the hashes that answers are compared with; and one for the
        # rows of what may go.
        pytest.param(False, 8, BRANCHES + 1, marks=pytest.mark.slow),
        # Three more for whether checksums are said; then the store is asked, and no branch.
        (True, 11, 0),
    ],
)
def test_a_mark_whose_tables_executors_read_takes_few_jobs(
    sandbox, spark, monkeypatch, *, tells_content, jobs, questions
):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 50)
    # The last of the garbage has the sizes of the first objects.
    populate(
        sandbox,
        "repo",
        now=NOW,
        objects=300,
        commits=5,
        branches=BRANCHES,
        garbage=100,
        staged=5,
        sizes=400 - ALIKE,
    )
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, NOW, max_expired_share=1)
    if tells_content:
        run = replace(run, store=TellingStore(run.store.namespace, run.store.options))
    before, asked = _jobs(spark), sandbox.requests["list_objects"]
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    found = marked.expired.manifest.facts["twins"]
    assert found["candidates"] == marked.expired.manifest.rows > 50
    assert (found["objects_asked"] > 0) == tells_content
    assert found["calls"] == questions
    # The server is asked for its place once, besides.
    assert sandbox.requests["list_objects"] - asked == questions + 1
    assert _jobs(spark) - before <= jobs


def _jobs(spark):
    return spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
