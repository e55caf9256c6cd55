"""Tasks on Spark: what executors read and write comes through whole, and so do their errors and
figures.
"""

import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from queue import Queue
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pytest

import spark_core
from spark_core.errors import (
    CorruptTableError,
    IncompleteReadError,
    LakegcError,
    NotFoundError,
    RefusedError,
    UnsafePlanError,
)
from spark_core.spark import placement, tasks
from spark_core.spark.failures import spark_failures
from spark_core.spark.placement import MOST_ROWS_OF_THE_DRIVER
from spark_core.spark.tasks import (
    counting,
    deal_out,
    interleaved,
    one_task,
    reading_tasks,
    run_tasks,
)

MANY = MOST_ROWS_OF_THE_DRIVER + 1

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("word", pa.string())])


def _numbers(upto):
    for begin in range(0, upto, 3):
        chosen = list(range(begin, min(begin + 3, upto)))
        yield pa.RecordBatch.from_pydict({"n": chosen, "word": [None] * len(chosen)}, schema=SCHEMA)


def test_no_table_on_the_driver_becomes_a_frame():
    """Spark 4's own way from one to the other ends at the first batch without rows, and says
    nothing.
    """
    root = Path(spark_core.__file__).parent
    assert [
        path.name for path in root.rglob("*.py") if ".createDataFrame(" in path.read_text()
    ] == []


@pytest.mark.spark
def test_each_task_gives_a_receipt_and_none_starts_nothing(spark):
    found = run_tasks(lambda: spark, ["a", "b"], lambda number, task: (number, task), rows=MANY)
    assert sorted(found) == [(0, "a"), (1, "b")]
    assert run_tasks(None, [], None, rows=MANY) == []


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
        print("RECEIPTS", run_tasks(builder.getOrCreate, [1, 2], fails, rows={MANY}))
    """)
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=200
    )
    assert f"RECEIPTS {[Counter(done=1)] * 2}" in ran.stdout, ran.stderr[-2000:]
    assert [(tmp_path / name).read_text() for name in "12"] == ["xx", "xx"]


def test_what_the_store_counts_in_a_block_is_added_to_the_figures():
    figures, requests = Counter(read=1), Counter(read=5, list=2)
    with counting(figures, requests):
        requests["read"] += 3
    assert figures == Counter(read=4)


def test_things_are_dealt_to_no_more_tasks_than_there_are_things():
    assert deal_out([1, 2, 3], 2) == [(1, 3), (2,)]
    assert deal_out([1], 5) == [(1,)]
    assert deal_out([], 5) == []


def test_reading_is_dealt_out_to_three_tasks_for_each_core_and_to_fifty_at_least(monkeypatch):
    monkeypatch.setattr(tasks.placement, "are_executors_chosen", lambda: True)

    def dealt(wanted, parallelism):
        context = SimpleNamespace(defaultParallelism=parallelism)
        return reading_tasks(wanted, lambda: SimpleNamespace(sparkContext=context))

    assert [dealt(wanted, 100) for wanted in (0, 1, 299, 300, 301)] == [0, 1, 299, 300, 300]
    assert [dealt(wanted, 2) for wanted in (49, 50, 51)] == [49, 50, 50]


def test_no_session_is_started_to_ask_for_its_cores(monkeypatch):
    monkeypatch.setattr(tasks, "is_started", lambda: False)
    monkeypatch.setattr(tasks.placement, "are_executors_chosen", lambda: False)
    monkeypatch.setattr(tasks.os, "cpu_count", lambda: 32)
    assert [reading_tasks(wanted, None) for wanted in (95, 96, 97)] == [95, 96, 96]
    monkeypatch.setattr(tasks.placement, "are_executors_chosen", lambda: True)
    assert reading_tasks(50, None) == 50


def test_this_process_is_the_driver_while_another_thread_of_it_imports_spark(monkeypatch):
    # What Python has of a package before its imports have ended.
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert tasks.attempt() is None
    assert not tasks.is_started()


def test_one_task_is_made_of_many_and_none_of_none():
    assert [one_task(wanted) for wanted in (0, 1, 9)] == [0, 1, 1]


def _raise(_number, error):
    raise error


@pytest.mark.slow
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
    with pytest.raises(RefusedError) as raised:
        run_tasks(lambda: spark, [error], _raise, rows=MANY)
    assert type(raised.value) is type(error)
    assert str(raised.value) == str(error)


def _raise_because_of_another(_number, pair):
    raised, because = pair
    try:
        raise because
    except LakegcError as cause:
        if isinstance(raised, LakegcError):
            raise raised from cause
        raise raised  # noqa: B904 - while the other one is handled


@pytest.fixture
def whole_tracebacks(spark):
    """Errors as Spark 3.5 shows them; later ones leave the causes out."""
    name = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, "false")
    yield spark
    spark.conf.set(name, before)


@pytest.mark.slow
@pytest.mark.spark
def test_what_comes_back_of_a_chain_is_the_error_that_was_raised_and_not_its_cause(
    whole_tracebacks,
):
    spark = whole_tracebacks
    refusal = CorruptTableError("_lakefs/abc", None, "no footer")
    pair = refusal, NotFoundError("no such key. Look.")
    with pytest.raises(LakegcError) as raised:
        run_tasks(lambda: spark, [pair], _raise_because_of_another, rows=MANY)
    assert type(raised.value) is CorruptTableError
    assert str(raised.value) == str(refusal)
    pair = ValueError("a defect"), NotFoundError("no such key. Look.")
    with pytest.raises(spark_failures(), match="ValueError: a defect"):
        run_tasks(lambda: spark, [pair], _raise_because_of_another, rows=MANY)


def test_interleaved_reading_yields_every_batch_of_every_task():
    rows = sorted(
        n
        for batch in interleaved(list(range(40)), _numbers, threads=4)
        for n in batch["n"].to_pylist()
    )
    assert rows == sorted(n for upto in range(40) for n in range(upto))


@pytest.mark.slow
def test_a_receipt_that_spark_loses_ends_it(spark, monkeypatch):
    collected = tasks._collected
    monkeypatch.setattr(tasks, "_collected", lambda *some: collected(*some)[1:])
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    with pytest.raises(IncompleteReadError, match="the receipts of 2 of 3 tasks"):
        tasks.run_tasks(lambda: spark, [1, 2, 3], _nothing, rows=3)


def _nothing(_number, _task):
    return None


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
