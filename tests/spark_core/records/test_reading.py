"""A stored table read back, the same by the driver and by executors."""

from dataclasses import replace

import pyarrow as pa
import pytest

from spark_core.errors import CorruptTableError
from spark_core.records import reading, writing
from spark_core.records.manifest import Manifest, Part
from spark_core.records.tables import NAMESPACE_SLICES
from spark_core.records.writing import Target
from spark_core.schemas import LEFT_OUT_ROWS
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
    tasks = reading.join_small_parts(parts)
    assert [part for task in tasks for part in task] == parts
    assert [sum(part.rows for part in task) for task in tasks] == [
        2_000,
        99_000,
        1_000_000,
        100_000,
        1,
    ]
    assert reading.join_small_parts([]) == []


ROWS = pa.schema([pa.field("number", pa.int64(), nullable=False)])


def _part(store, rows, *left_out, holds=0):
    """Write a file of numbers, of which some rows do not count."""
    attempt = writing.new_attempt()
    whole = Target(store, "somewhere/", attempt, ROWS)
    numbers = pa.record_batch([pa.array(range(rows), pa.int64())], schema=ROWS)
    (part,) = writing.write_parts(whole, 0, iter([numbers])).parts
    gone = Target(store, "somewhere/", attempt, LEFT_OUT_ROWS, name="gone", holds=holds)
    left = pa.record_batch([pa.array(left_out, pa.int32())], schema=LEFT_OUT_ROWS)
    (without,) = writing.write_parts(gone, 0, iter([left])).parts
    return replace(part, rows=rows - len(left_out), without=without)


def _numbers(store, part):
    return [
        number
        for batch in reading.read_part(store, ROWS, part)
        for number in batch.column("number").to_pylist()
    ]


@pytest.mark.parametrize("holds", [0, 10_000], ids=["in the store", "in the manifest"])
def test_rows_that_are_left_out_do_not_come(tmp_path, holds):
    store = written_run(tmp_path, spark=None).run.store
    # Of the first batch, the last row of it, the first of the next, and the last of all.
    left_out = (0, 7, 19_999, 20_000, 44_999)
    part = _part(store, 45_000, *left_out, holds=holds)
    assert bool(part.without.content) == bool(holds)
    assert _numbers(store, part) == [n for n in range(45_000) if n not in left_out]
    assert reading.rows_left_out(store, part).tolist() == list(left_out)
    assert _numbers(store, part.whole) == list(range(45_000))
    assert part.whole.rows == 45_000


def test_a_part_of_which_every_row_is_left_out_has_none(tmp_path):
    store = written_run(tmp_path, spark=None).run.store
    assert _numbers(store, _part(store, 3, 0, 1, 2)) == []


def test_the_rows_that_are_left_out_count_for_the_number_of_rows(tmp_path):
    store = written_run(tmp_path, spark=None).run.store
    part = _part(store, 10, 3)
    with pytest.raises(CorruptTableError, match="10 rows, the manifest says 11"):
        _numbers(store, replace(part, rows=10))
    with pytest.raises(CorruptTableError, match="10 rows, the manifest says 9"):
        _numbers(store, replace(part, without=None))


def test_a_damaged_file_of_rows_that_are_left_out_is_refused(tmp_path):
    store = written_run(tmp_path, spark=None).run.store
    part = _part(store, 10, 3)
    store.put(part.without.key, store.read(part.without.key)[:-1])
    with pytest.raises(CorruptTableError, match=r"gone-.*: sha256 is"):
        _numbers(store, part)


@pytest.mark.parametrize("left_out", [(3, 3), (4, 3), (-1, 3), (3, 10)])
def test_rows_that_are_left_out_are_rows_of_the_file_each_once(tmp_path, left_out):
    store = written_run(tmp_path, spark=None).run.store
    with pytest.raises(CorruptTableError, match="its rows are none of somewhere/part-"):
        _numbers(store, _part(store, 10, *left_out))


def test_a_manifest_keeps_which_rows_are_left_out_and_others_stay_as_they_were(tmp_path):
    written = written_run(tmp_path, spark=None)
    part = _part(written.run.store, 10, 3)
    written.mark(OBJECTS)
    before = written.run.load(NAMESPACE_SLICES).manifest
    assert b"without" not in before.to_json()
    after = replace(before, parts=(*before.parts, part))
    read = Manifest.from_json(after.to_json(), name="a manifest")
    assert read.parts[-1] == part
    assert read == after
