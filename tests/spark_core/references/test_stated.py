"""Sizes of entries compared with the store: the same answers by the driver and by executors."""

import pyarrow as pa
import pytest

from spark_core.addresses.address_hashes import hashed
from spark_core.references.head_entries import SIZED
from spark_core.references.stated import are_sizes_stated
from spark_core.spark import placement
from spark_core.spark.exchange import source_of

_OBJECTS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
    ]
)

pytestmark = pytest.mark.spark


@pytest.fixture(params=["here", "executors"])
def source(request, monkeypatch):
    """Make a source of rows, which the driver compares, or executors."""
    if request.param == "executors":
        monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    return lambda rows: source_of(rows, rows.schema)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listed", "entries", "is_stated"),
    [
        ([("a", 1)], [("a", 1), ("b", 7)], False),
        ([("a", 1)], [("a", 1), ("a", 2)], True),
        ([("a", 1), ("a", 2)], [("a", 1)], True),
        ([("a", 1), ("a", 2)], [("a", 2), ("a", 1)], True),
        ([("b", 1)], [("a", 2)], False),
        ([("b", 1)], [], False),
    ],
)
def test_a_size_that_is_not_the_objects_is_seen_on_either_side(
    spark, source, listed, entries, is_stated
):
    tables = [
        pa.Table.from_pylist(
            [dict(zip(_OBJECTS.names, row, strict=True)) for row in rows], _OBJECTS
        )
        for rows in (listed, entries)
    ]
    objects, said = tables
    hashes = hashed(said["address"].combine_chunks())
    said = pa.table([hashes, said["size_bytes"]], schema=SIZED)
    assert are_sizes_stated(lambda: spark, source(objects), source(said)) is is_stated
