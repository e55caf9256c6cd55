"""Rows that the driver holds are answered as those of executors are."""

import random

import pyarrow as pa
import pytest

from spark_core.references.kept_objects import with_hashes
from spark_core.spark import rows
from spark_core.spark.tasks import frame_of

pytestmark = pytest.mark.spark

_OBJECTS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
    ]
)


def _objects(seed, count=40):
    dice = random.Random(seed)
    found = [(f"{dice.choice(['data/s/', 'x/'])}{dice.randrange(30)}ä", 1) for _ in range(count)]
    columns = [pa.array(column) for column in zip(*found, strict=True)]
    return pa.table([columns[0], columns[1].cast(pa.int64())], schema=_OBJECTS)


def _table(found):
    return found if isinstance(found, pa.Table) else found.toArrow()


def _rows_of(found):
    return sorted(tuple(row.values()) for row in _table(found).to_pylist())


_ASKED = {
    "without": lambda one, other: rows.without(one, other, "address"),
    "within": lambda one, other: rows.within(one, other, "address"),
    "together": lambda one, other: rows.together([one, other]),
    "distinct": lambda one, other: rows.distinct(one, ["address"]),
    "selected": lambda one, other: rows.selected(one, ["size_bytes"]),
    "hashes": lambda one, other: with_hashes(one),
}


@pytest.mark.parametrize("asked", _ASKED)
def test_held_rows_and_frames_and_one_of_each_have_the_same_answers(spark, asked):
    ask = _ASKED[asked]
    for seed in range(3):
        one, other = _objects(seed), _objects(seed + 100, 20)
        held = ask(one, other)
        assert isinstance(held, pa.Table)
        for sides in (
            (frame_of(spark, one), frame_of(spark, other)),
            (one, frame_of(spark, other)),
            (frame_of(spark, one), other),
        ):
            assert _rows_of(ask(*sides)) == _rows_of(held)


def test_no_rows_are_held_like_any_others():
    none, some = _objects(1).slice(0, 0), _objects(2)
    assert rows.without(none, some, "address").num_rows == 0
    assert rows.without(some, none, "address").num_rows == some.num_rows
    assert rows.within(some, none, "address").num_rows == 0
    assert rows.count(rows.distinct(none, ["address"])) == 0
    assert with_hashes(none).num_rows == 0
    assert rows.least(none, "address", 5) == ()


def test_the_first_values_come_in_the_order_of_their_bytes(spark):
    table = pa.table({"address": ["b", "a", "\U0001f600", "\uffff", "ä"]})
    wanted = ("a", "b", "ä", "\uffff", "\U0001f600")
    assert rows.least(table, "address", 5) == wanted
    assert rows.least(frame_of(spark, table), "address", 5) == wanted
    assert rows.least(table, "address", 2) == wanted[:2]
