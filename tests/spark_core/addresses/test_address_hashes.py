"""Addresses are compared by one hash, which Spark and Python must compute alike."""

import random

import numpy as np
import pyarrow as pa
import pyspark.sql.functions as sf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.addresses.address_hashes import Distinct, Numbered, are_among, hashed, sorted_once


@pytest.mark.spark
def test_the_hash_of_a_column_is_that_of_spark(spark):
    dice = random.Random(1)
    rows = ["".join(dice.choices("abc/é0,=", k=length)) for length in range(120) for _ in range(3)]
    texts = pa.array([None, "", *rows])
    for column in (texts, texts.cast(pa.binary())):
        told = (
            spark.createDataFrame(pa.table({"value": column}))
            .select(sf.xxhash64("value").alias("hash"))
            .toArrow()
        )
        assert hashed(column).to_pylist() == told["hash"].to_pylist()


@given(st.lists(st.integers(-9, 9)), st.sets(st.integers(-9, 9)))
def test_each_number_is_looked_up_among_the_wanted_ones(numbers, wanted):
    some = np.array([number * 2**59 for number in numbers], np.int64)
    known = np.array(sorted(number * 2**59 for number in wanted), np.int64)
    assert are_among(some, known).tolist() == [number in wanted for number in numbers]


@given(st.lists(st.integers(-9, 9)), st.sampled_from([np.int64, np.uint64, np.dtype("<u4")]))
def test_numbers_are_sorted_and_each_is_in_once(numbers, kind):
    some = np.array([number * 2**59 for number in numbers], np.int64).astype(kind)
    found = sorted_once(some)
    assert found.dtype == kind
    assert found.tolist() == sorted(set(some.tolist()))


@given(st.lists(st.text(max_size=70)), st.integers(0, 5))
def test_a_slice_of_a_column_has_the_hashes_of_the_slice(values, begin):
    column = pa.array(values, pa.string())
    assert hashed(column.slice(begin)).equals(hashed(column).slice(begin))


@given(
    st.lists(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2)), max_size=40), max_size=8)
)
def test_the_first_of_each_kind_is_found_across_batches(batches):
    distinct, seen = Distinct(), set()
    for batch in batches:
        kinds, details = ([row[at] for row in batch] for at in (0, 1))
        found = distinct.first(pa.array(kinds, pa.int64()), np.array(details, np.int64))
        for row, is_first in zip(batch, found, strict=True):
            assert is_first == (row not in seen)
            seen.add(row)


def test_it_grows_and_forgets_rather_than_grow_for_ever():
    distinct = Distinct(at_most=2**12)
    for begin in range(0, 2**16, 1_000):
        kinds = np.arange(begin, begin + 1_000, dtype=np.int64) * 2**40
        assert distinct.first(pa.array(kinds), np.zeros(1_000, np.int64)).all()
        assert not distinct.first(pa.array(kinds[-5:]), np.zeros(5, np.int64)).any()
    assert len(distinct._used) == 2**13


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0, 2**62, -(2**40)])
@given(rows=st.lists(st.integers(-4, 40)), asked=st.lists(st.integers(-6, 44)))
def test_hashes_are_numbered_as_they_first_occur_and_found_again(shared, rows, asked):
    hashes = np.array([shared ^ row for row in rows], np.int64)
    numbered = Numbered(hashes)
    different = list(dict.fromkeys(hashes.tolist()))
    assert numbered.hashes.tolist() == different
    assert [different[number] for number in numbered.of_rows] == hashes.tolist()
    found = numbered.place(np.array([shared ^ each for each in asked], np.int64))
    wanted = [
        different.index(h) if (h := shared ^ each) in different else len(different)
        for each in asked
    ]
    assert found.tolist() == wanted
