"""Tasks on Spark: what executors read and write comes through whole, and so do their errors and
figures.
"""

import subprocess
import sys
import textwrap
from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path
from queue import Queue

import pyarrow as pa
import pytest

import spark_core
from spark_core.errors import CorruptTableError, RefusedError, UnsafePlanError
from spark_core.spark import tasks
from spark_core.spark.tasks import (
    BROADCAST_ROWS,
    counted,
    counting,
    dealt,
    frame_of,
    interleaved,
    read_counted,
    read_partitions,
    reusable,
    run_over,
    run_tasks,
)

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("word", pa.string())])


def _numbers(upto):
    for begin in range(0, upto, 3):
        chosen = list(range(begin, min(begin + 3, upto)))
        yield pa.RecordBatch.from_pydict({"n": chosen, "word": [None] * len(chosen)}, schema=SCHEMA)


def _of_sizes(sizes):
    for size in sizes:
        yield pa.RecordBatch.from_pydict({"n": [size] * size, "word": [None] * size}, schema=SCHEMA)


SIZES = [sizes for length in range(4) for sizes in product((0, 3), repeat=length)]


@pytest.mark.spark
def test_no_row_behind_a_batch_without_rows_is_lost(spark):
    """Spark 4's own way from a table to a frame ends at the first batch without rows, and says
    nothing.
    """
    for sizes in SIZES:
        rows = pa.Table.from_batches(_of_sizes(sizes), SCHEMA)
        assert frame_of(spark, rows).toArrow().num_rows == sum(sizes), sizes


@pytest.fixture
def guessed_sizes(spark):
    """Take back what a large frame has the session choose."""
    name = "spark.sql.autoBroadcastJoinThreshold"
    before = spark.conf.get(name)
    yield
    spark.conf.set(name, before)


def _join_of(spark, schema=SCHEMA, **rows):
    few, many = (
        read_partitions(spark, schema, [(3,), (3,)], _of_sizes, **known) for known in ({}, rows)
    )
    joined = few.join(many.select("n"), on="n", how="left_anti")
    return joined._jdf.queryExecution().executedPlan().toString(), joined


@pytest.mark.spark
@pytest.mark.usefixtures("guessed_sizes")
def test_a_large_table_that_tasks_read_is_not_sent_whole_to_every_executor(spark):
    assert "BroadcastHashJoin" in _join_of(spark, rows=BROADCAST_ROWS)[0], (
        "it takes it for a few bytes"
    )
    plan, joined = _join_of(spark, rows=BROADCAST_ROWS + 1)
    assert "Broadcast" not in plan
    assert "SortMergeJoin" in plan
    assert joined.count() == 0


@pytest.mark.spark
@pytest.mark.usefixtures("guessed_sizes")
def test_a_frame_that_was_counted_to_be_large_is_not_sent_whole_to_every_executor(
    spark, monkeypatch
):
    monkeypatch.setattr(tasks, "BROADCAST_ROWS", 5)
    told = read_counted(spark, SCHEMA, [(3,), (3,)], lambda sizes, _: _of_sizes(sizes))
    rows, count, _ = counted(told)
    assert count == 6
    plan = (
        rows.join(rows.select("n"), on="n", how="left_anti")
        ._jdf.queryExecution()
        .executedPlan()
        .toString()
    )
    assert "Broadcast" not in plan


@pytest.mark.spark
def test_no_row_behind_a_batch_without_rows_is_lost_between_python_and_spark(spark):
    frame = read_partitions(spark, SCHEMA, SIZES, _of_sizes)
    rows = sum(map(sum, SIZES))
    assert frame.count() == rows
    assert reusable(frame, is_small=True).frame.count() == rows
    assert frame.mapInArrow(_between_empty_ones, frame.schema).count() == rows


def _between_empty_ones(batches):
    for batch in batches:
        yield batch.slice(0, 0)
        yield batch
        yield batch.slice(0, 0)


def test_nothing_goes_around_the_way_that_loses_no_row():
    root = Path(spark_core.__file__).parent
    used = {path.name: path.read_text().count(".createDataFrame(") for path in root.rglob("*.py")}
    assert {name: times for name, times in used.items() if times} == {"tasks.py": 2}


def _raise(error, _task):
    raise error
    yield  # a reader is a generator


def _drain(_number, batches):
    return sum(batch.num_rows for batch in batches)


@pytest.mark.spark
def test_every_partition_is_read_once_and_whole(spark):
    frame = read_partitions(spark, SCHEMA, [4, 0, 7], _numbers)
    assert sorted(row.n for row in frame.collect()) == sorted([*range(4), *range(7)])


@pytest.mark.spark
def test_no_partition_is_an_empty_frame_with_the_columns(spark):
    frame = read_partitions(spark, SCHEMA, [], _numbers)
    assert frame.count() == 0
    assert frame.columns == ["n", "word"]


@pytest.mark.spark
def test_each_partition_that_is_worked_on_gives_a_receipt(spark):
    frame = read_partitions(spark, SCHEMA, [4, 7], _numbers)
    assert sorted(run_over(frame, _drain)) == [4, 7]


@pytest.mark.spark
def test_each_task_gives_a_receipt_and_none_starts_nothing(spark):
    assert sorted(run_tasks(lambda: spark, ["a", "b"], lambda number, task: (number, task))) == [
        (0, "a"),
        (1, "b"),
    ]
    assert run_tasks(None, [], None) == []


def _fails_at_first(folder, number, task):
    """Do what a task does that Spark runs again: count, fail, and count once more."""
    tries = Path(folder) / str(task)
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    if tries.read_text() == "x":
        raise OSError("the machine went away")
    return Counter(done=1)


@pytest.mark.spark
@pytest.mark.deep
def test_a_task_that_is_run_again_is_counted_once(tmp_path):
    """An accumulator would have both tries; the receipt that comes back is of the last."""
    master = "local[1,3]"
    script = textwrap.dedent(f"""
        from collections import Counter
        from functools import partial
        from pyspark.sql import SparkSession
        from spark_core.spark.session import spark_config
        from spark_core.spark.tasks import run_tasks
        from tests.spark_core.spark.test_tasks import _fails_at_first
        builder = SparkSession.builder
        for key, value in spark_config(master={master!r}).items():
            builder = builder.config(key, value)
        fails = partial(_fails_at_first, {str(tmp_path)!r})
        print("RECEIPTS", run_tasks(builder.getOrCreate, [1, 2], fails))
    """)
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=200
    )
    assert f"RECEIPTS {[Counter(done=1)] * 2}" in ran.stdout, ran.stderr[-2000:]
    assert [(tmp_path / name).read_text() for name in "12"] == ["xx", "xx"]


@pytest.mark.spark
def test_what_a_task_counted_comes_with_its_rows(spark):
    def read(task, figures):
        with counting(figures, requests := Counter()):
            requests["read"] += task
            yield from _numbers(task)

    frame = read_counted(spark, SCHEMA, [2, 0, 5], read).persist()
    rows, count, figures = counted(frame)
    assert (rows.count(), count, figures) == (7, 7, Counter(read=7))
    assert rows.columns == ["n", "word"]
    frame.unpersist()


def test_things_are_dealt_to_no_more_tasks_than_there_are_things():
    assert dealt([1, 2, 3], 2) == [(1, 3), (2,)]
    assert dealt([1], 5) == [(1,)]
    assert dealt([], 5) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "error",
    [
        CorruptTableError("_lakefs/abc", 17, "block type 9, wanted 0 or 1"),
        CorruptTableError("_lakefs/abc", None, "no footer"),
        UnsafePlanError("the plan names 'x', which lies outside data/. Mark again."),
    ],
)
def test_an_error_on_an_executor_comes_back_with_its_class_and_message(spark, error):
    frame = read_partitions(spark, SCHEMA, [1], partial(_raise, error))
    with pytest.raises(RefusedError) as raised:
        run_over(frame, _drain)
    assert type(raised.value) is type(error)
    assert str(raised.value) == str(error)


def test_interleaved_reading_yields_every_batch_of_every_task():
    rows = sorted(
        n
        for batch in interleaved(list(range(40)), _numbers, threads=4)
        for n in batch["n"].to_pylist()
    )
    assert rows == sorted(n for upto in range(40) for n in range(upto))


class EndsBetweenTwoQuestions:
    """A reader that fails right after it was asked for the first time whether it has ended."""

    asked = 0

    def done(self):
        self.asked += 1
        return self.asked > 1

    def result(self):
        raise RefusedError("no page")


def test_a_reader_that_fails_while_it_is_asked_is_not_taken_for_one_that_ended():
    with pytest.raises(RefusedError, match="no page"):
        list(tasks._arriving(Queue(), [EndsBetweenTwoQuestions()]))


def test_interleaved_reading_raises_the_first_failure_and_ends():
    def read(task):
        if task == 3:
            raise CorruptTableError("t", None, "broken")
        yield from _numbers(task)

    with pytest.raises(CorruptTableError, match="broken"):
        list(interleaved(list(range(200)), read, threads=4))


def test_an_abandoned_reading_stops_its_threads():
    batches = interleaved([1000] * 20, _numbers, threads=4)
    next(batches)
    batches.close()


def test_readers_that_nobody_waits_for_any_more_stop():
    read = []

    def pages(task):
        for number in range(1_000):
            read.append((task, number))
            yield pa.record_batch([[number]], names=["number"])

    batches = interleaved(range(4), pages, threads=4)
    next(batches)
    batches.close()
    # What waits in the queue, what a thread holds, and the one after it.
    assert len(read) < 40
