"""One number and one choice say who works, and what executors got is counted."""

import pyarrow as pa
import pytest

from spark_core.spark import placement
from spark_core.spark.exchange import Exchange, Sent, Source
from spark_core.spark.placement import MOST_ROWS_OF_THE_DRIVER, Work
from spark_core.spark.tasks import run_tasks

SCHEMA = pa.schema([pa.field("hash", pa.int64(), nullable=False)])


def _never():
    raise AssertionError("Spark was asked for")


def test_the_driver_works_on_three_million_rows_and_on_no_more():
    assert MOST_ROWS_OF_THE_DRIVER <= 3_000_000
    assert placement.driver_works(MOST_ROWS_OF_THE_DRIVER)
    assert not placement.driver_works(MOST_ROWS_OF_THE_DRIVER + 1)


def test_where_executors_are_chosen_the_driver_works_on_nothing():
    placement.choose_executors(True)
    assert not placement.driver_works(0)
    placement.choose_executors(False)
    assert placement.driver_works(0)


def test_few_rows_are_worked_on_without_a_session_and_no_task_is_counted():
    before = placement.work_so_far()
    assert run_tasks(_never, [1, 2], _doubled, rows=2) == [2, 4]
    assert _exchanged(_never) == [3]
    assert str(placement.work_so_far().since(before)) == "this process"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("executors_work")
def test_where_executors_are_chosen_each_task_is_counted_with_its_master(spark):
    before = placement.work_so_far()
    assert sorted(run_tasks(lambda: spark, [1, 2], _doubled, rows=2)) == [2, 4]
    assert sorted(run_tasks(lambda: spark, [1, 2], _doubled, rows=0)) == [2, 4]
    assert placement.work_so_far().since(before) == Work(4, "local[2]")
    before = placement.work_so_far()
    assert _exchanged(lambda: spark) == [3]
    # It is read by one task, meets in one, and one works on it.
    assert placement.work_so_far().since(before) == Work(3, "local[2]")


@pytest.mark.usefixtures("executors_work")
def test_nothing_at_all_starts_no_session():
    assert run_tasks(_never, [], _doubled, rows=0) == []
    nothing = Source(SCHEMA, [], 0, _rows)
    receipts, _ = Exchange({"rows": nothing}, _count, SCHEMA, _nothing).run(_never)
    assert receipts == [0]


def test_work_is_said_in_words():
    assert str(Work()) == "this process"
    assert str(Work(1, "yarn") + Work(1_199, "yarn")) == "Spark: 1,200 tasks on yarn"
    assert str(Work() + Work(1, "yarn")) == "Spark: 1 task on yarn"


def _doubled(_number, task):
    return 2 * task


def _exchanged(spark):
    source = Source(SCHEMA, [3], 3, _rows)
    receipts, _ = Exchange({"rows": source}, _count, SCHEMA, _nothing).run(spark)
    return receipts


def _rows(count):
    yield pa.record_batch([list(range(count))], schema=SCHEMA)


def _count(bucket):
    return Sent(bucket["rows"].num_rows, {})


def _nothing(_number, _rows):
    return None
