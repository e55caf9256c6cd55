"""Work by tasks of Spark that writes down what became of each object.

What the lease is told of tasks that may go on.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_core import recorded_work
from spark_core.recorded_work import Objects, Tally, TaskOrders
from spark_core.schemas import PURGED
from spark_core.spark import placement
from spark_core.spark.exchange import source_of
from tests.support.written_run import NOW, written_run

NUMBERS = pa.schema([pa.field("number", pa.int64())])
NAMED = pa.schema([pa.field("address", pa.string())])
NUMBERED = pa.schema([pa.field("address_hash", pa.int64()), *NAMED])
OUTCOMES = pa.schema([*NAMED, ("size_bytes", pa.int64()), ("outcome", pa.string())])


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
                statusTracker=lambda: SimpleNamespace(getJobIdsForGroup=lambda _group: []),
                getLocalProperty=lambda _name: None,
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
    orders = TaskOrders(run.store, work=None, schema=PURGED, record=None)
    sources = {"objects": source_of(pa.table({"number": pa.array(range(20))}), NUMBERS)}
    objects = Objects(sources, {}, tell=None, schema=NUMBERS, on=("address",))
    assert recorded_work.work_on(told, objects, [], orders, held=held) is tally
    assert during == [until], "whatever ends this process meanwhile"
    assert held.sent_until == (until if goes_on else None)


def _bucket(objects, recorded=()):
    schema = pa.schema([("address_hash", pa.int64()), ("address", pa.string())])
    return {
        name: pa.table([list(range(len(some))), list(some)], schema=schema)
        for name, some in (("objects", objects), ("recorded", recorded))
    }


def _told(bucket):
    return bucket["objects"].select(["address"])


def test_only_objects_without_an_outcome_are_worked_on_each_by_one_task():
    telling = recorded_work._Telling(_told, ("address",), ("objects",), tasks=7, salt="x")
    names = [f"data/s/{number:03}" for number in range(500)]
    sent = telling(_bucket(names, recorded=names[::5]))
    shares = {number: rows["address"].to_pylist() for number, rows in sent.rows.items()}
    assert sorted(name for share in shares.values() for name in share) == sorted(
        set(names) - set(names[::5])
    )
    assert shares.keys() == set(range(7))
    assert min(map(len, shares.values())) > 20
    assert (sent.receipt.came, sent.receipt.left) == ({"objects": 500}, 400)


def test_another_round_spreads_the_objects_otherwise():
    names = [f"data/s/{number:03}" for number in range(500)]
    first, second = (
        recorded_work._Telling(_told, ("address",), ("objects",), 2, salt)(_bucket(names)).rows
        for salt in ("x", "y")
    )
    assert first[0]["address"].to_pylist() != second[0]["address"].to_pylist()


def test_rows_that_name_objects_and_do_not_come_are_told_after_what_was_done(tmp_path):
    run = written_run(tmp_path, spark=None).run
    source = source_of(_bucket(["data/s/a", "data/s/b"])["objects"], NUMBERED)
    losing = replace(source, read=lambda task: iter(task.slice(1).to_batches()))
    objects = Objects({"objects": losing}, {}, _told, NAMED, ("address",))
    tally = recorded_work.work_on(
        run, objects, [], TaskOrders(run.store, _done, OUTCOMES, "record/")
    )
    assert (tally.objects, tally.found, len(tally.parts)) == ({"done": 1}, 1, 1)
    assert "1 of 2 came; what was done is written down" in str(tally.problem)


def _done(_task, batches):
    for batch in batches:
        yield pa.record_batch(
            [batch.column("address"), [1] * batch.num_rows, ["done"] * batch.num_rows],
            schema=OUTCOMES,
        )
