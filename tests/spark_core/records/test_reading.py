"""A stored table read back as a frame.

By the driver when it is small, else by executors, and the same either way.
"""

import pytest

from spark_core.errors import CorruptTableError
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.records.tables import NAMESPACE_SLICES
from spark_core.spark.session import surfacing_errors
from tests.support.written_run import OLD, written_run

pytestmark = pytest.mark.spark

OBJECTS = {f"data/s/{number}": (number, OLD) for number in range(7)}
BY_EXECUTORS = {
    "a row too many": ("DRIVER_ROWS", len(OBJECTS) - 1),
    "a byte too many": ("DRIVER_BYTES", 1),
}


@pytest.fixture
def stored(tmp_path, spark):
    written = written_run(tmp_path, spark=spark)
    written.mark(OBJECTS)
    return written.run.load(NAMESPACE_SLICES)


def _damage(stored):
    (part,) = stored.manifest.parts
    stored.store.put(part.key, stored.store.read(part.key)[:-1])


@pytest.mark.parametrize("limit", BY_EXECUTORS)
def test_driver_and_executors_read_the_same_rows_in_the_same_columns(
    stored, spark, monkeypatch, limit
):
    small = stored.frame(spark)
    monkeypatch.setattr(reading, *BY_EXECUTORS[limit])
    large = stored.frame(spark)
    assert "MapInArrow" not in _plan(small)
    assert "MapInArrow" in _plan(large)
    assert sorted(small.collect()) == sorted(large.collect())
    assert len(small.collect()) == len(OBJECTS)
    assert small.dtypes == large.dtypes
    assert stored.frame(spark, ["size_bytes"]).columns == ["size_bytes"]


def _plan(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_a_damaged_part_of_a_small_table_is_refused_before_there_is_a_frame(stored, spark):
    _damage(stored)
    with pytest.raises(CorruptTableError, match=r"part-.*: sha256 is .*, the manifest says"):
        stored.frame(spark)


def test_a_damaged_part_of_a_larger_table_fails_whatever_reads_it(stored, spark, monkeypatch):
    monkeypatch.setattr(reading, "DRIVER_ROWS", 0)
    _damage(stored)
    frame = stored.frame(spark)
    with (
        pytest.raises(CorruptTableError, match=r"part-.*: sha256 is .*, the manifest says"),
        surfacing_errors(),
    ):
        frame.collect()


def test_a_small_table_takes_no_more_tasks_than_it_has_thousands_of_rows(stored, spark):
    assert stored.frame(spark).rdd.getNumPartitions() == 1


def test_a_small_table_without_a_row_has_its_columns(tmp_path, spark):
    written = written_run(tmp_path, spark=spark)
    written.mark({})
    frame = written.run.load(NAMESPACE_SLICES).frame(spark)
    assert frame.columns == NAMESPACE_SLICES.schema.names
    assert frame.count() == 0


def test_small_parts_are_read_by_one_task_and_none_is_left_out():
    rows = [10] * 200 + [99_000, 1_000_000, 60_000, 40_000, 1]
    parts = [Part(f"part-{number}", count, 1, "") for number, count in enumerate(rows)]
    tasks = reading.together(parts)
    assert [part for task in tasks for part in task] == parts
    assert [sum(part.rows for part in task) for task in tasks] == [
        2_000,
        99_000,
        1_000_000,
        100_000,
        1,
    ]
    assert reading.together([]) == []
