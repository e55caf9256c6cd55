"""References to one hash become one row, with what all of them say."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_core.mark.compared import (
    BY_COMMIT,
    BY_STAGED,
    EXPIRED,
    LIVE,
    REFERENCES,
    SIZED,
    SIZES_DIFFER,
    combine_references,
    numbered_references,
)

FIRST = 2**61


def references(rows):
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 4
    return pa.table([pa.array(column) for column in columns] if rows else columns, REFERENCES)


@st.composite
def a_reference(draw):
    bits = draw(
        st.sampled_from([BY_COMMIT, BY_COMMIT | LIVE, BY_STAGED, EXPIRED, LIVE | BY_STAGED])
    )
    is_sized = bits & BY_COMMIT and draw(st.booleans())
    size = draw(st.integers(0, 2)) if is_sized else 0
    return FIRST + draw(st.integers(0, 5)), bits | (SIZED if is_sized else 0), size, 1


def by_sets(rows):
    bits, sizes, counts = defaultdict(int), defaultdict(set), defaultdict(int)
    for hashed, says, size, count in rows:
        bits[hashed] |= says & ~SIZED
        sizes[hashed] |= {size} if says & SIZED else set()
        counts[hashed] += count
    return {
        hashed: (
            says
            | (SIZED if sizes[hashed] else 0)
            | (SIZES_DIFFER if len(sizes[hashed]) > 1 else 0),
            sizes[hashed],
            counts[hashed],
        )
        for hashed, says in bits.items()
    }


@given(st.lists(a_reference(), max_size=30), st.integers(0, 30))
def test_a_hash_has_one_row_of_all_that_is_said_of_it_in_however_many_steps(rows, cut):
    wanted = by_sets(rows)
    halves = [combine_references(references(some)) for some in (rows[:cut], rows[cut:])]
    for numbers, table in (
        numbered_references(references(rows)),
        numbered_references(pa.concat_tables(halves)),
    ):
        assert table["address_hash"].to_pylist() == numbers.hashes.tolist() == list(wanted)
        for row in table.to_pylist():
            bits, sizes, count = wanted[row["address_hash"]]
            assert (row["bits"], row["references"]) == (bits, count)
            assert row["size_bytes"] in (sizes or {0})


def test_a_hash_that_nothing_names_is_at_the_end():
    numbers, table = numbered_references(references([(FIRST, BY_COMMIT, 0, 1)]))
    assert numbers.place(np.array([FIRST + 1, FIRST])).tolist() == [table.num_rows, 0]
