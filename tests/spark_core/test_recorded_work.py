"""Work by tasks of Spark that writes down what became of each object.

What the lease is told of tasks that may go on.
"""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_core import recorded_work
from spark_core.recorded_work import Objects, Orders, Tally
from spark_core.schemas import PURGED
from spark_core.spark import placement
from spark_core.spark.exchange import source_of
from tests.support.written_run import NOW, written_run

NUMBERS = pa.schema([pa.field("number", pa.int64())])


@pytest.mark.parametrize(
    ("cluster", "tally", "goes_on"),
    [
        (("spark://head:7077", "false"), Tally(), False),
        (("spark://head:7077", "false"), Tally(retried=True), True),
        (("spark://head:7077", "false"), Tally(lost=True), True),
        # Of two copies of a task the one that ended first tells, and knows of no other.
        (("yarn", "true"), Tally(), True),
        (("yarn", "TRUE"), Tally(), True),
        (("local[2]", "true"), Tally(retried=True), False),
        (("local[2]", "true"), Tally(lost=True), True),
    ],
)
def test_the_lease_is_told_of_tasks_that_may_be_at_work_until_their_time_is_over(
    tmp_path, monkeypatch, cluster, tally, goes_on
):
    master, speculation = cluster
    run = written_run(tmp_path, spark=None).run
    told = SimpleNamespace(
        now=run.now,
        store=run.store,
        options=run.options,
        spark=SimpleNamespace(
            conf={"spark.speculation": speculation},
            sparkContext=SimpleNamespace(
                defaultParallelism=2,
                master=master,
                statusTracker=lambda: SimpleNamespace(getJobIdsForGroup=list),
            ),
        ),
    )
    held = SimpleNamespace(
        beat=lambda: None, expires_at=NOW + run.options.lease_ttl, sent_until=None
    )
    until, during = held.expires_at - recorded_work._LEASE_MARGIN, []

    def work(*_):
        during.append(held.sent_until)
        return tally

    monkeypatch.setattr(recorded_work, "_by_tasks", work)
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 19)
    orders = Orders(run.store, work=None, schema=PURGED, record=None)
    sources = {"objects": source_of(pa.table({"number": pa.array(range(20))}), NUMBERS)}
    objects = Objects(sources, {}, tell=None, schema=NUMBERS, on=("address",))
    assert recorded_work.work_on(told, objects, [], orders, held=held) is tally
    assert during == [until], "whatever ends this process meanwhile"
    assert held.sent_until == (until if goes_on else None)
