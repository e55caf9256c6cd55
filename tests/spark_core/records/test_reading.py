"""A stored table read back, the same by the driver and by executors."""

import pytest

from spark_core.errors import CorruptTableError
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.records.tables import NAMESPACE_SLICES
from spark_core.spark import placement
from tests.support.stored_rows import rows_of
from tests.support.written_run import OLD, written_run

OBJECTS = {f"data/s/{number}": (number, OLD) for number in range(7)}


@pytest.fixture
def stored(tmp_path, spark):
    written = written_run(tmp_path, spark=spark)
    written.mark(OBJECTS)
    return written.run.load(NAMESPACE_SLICES)


def _counted(batches):
    return [(batch.schema.names, batch.num_rows) for batch in batches]


@pytest.mark.spark
def test_driver_and_executors_read_the_columns_that_are_asked_for_in_that_order(
    stored, spark, monkeypatch
):
    columns = ["size_bytes", "address"]
    source = stored.source(columns)
    assert source.schema.names == columns
    assert source.rows == len(OBJECTS)
    by_driver = source.each(lambda: spark, _counted)
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    assert source.each(lambda: spark, _counted) == by_driver == [[(columns, len(OBJECTS))]]
    assert {row.address: row.size_bytes for row in rows_of(stored, columns)} == {
        address: size for address, (size, _) in OBJECTS.items()
    }


@pytest.mark.spark
@pytest.mark.parametrize("most", [10, 0], ids=["the driver", "executors"])
def test_a_damaged_part_is_refused_whoever_reads_it(stored, spark, monkeypatch, most):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", most)
    (part,) = stored.manifest.parts
    stored.store.put(part.key, stored.store.read(part.key)[:-1])
    with pytest.raises(CorruptTableError, match=r"part-.*: sha256 is .*, the manifest says"):
        stored.source().each(lambda: spark, _counted)


def test_a_table_without_a_row_has_its_columns(tmp_path):
    written = written_run(tmp_path, spark=None)
    written.mark({})
    table = written.run.load(NAMESPACE_SLICES)
    assert rows_of(table) == []
    assert table.source().here(1).equals(NAMESPACE_SLICES.schema.empty_table())


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
