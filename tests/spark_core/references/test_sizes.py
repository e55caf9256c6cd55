"""Entries compared with the store: the same answers by the driver and by executors."""

import pyarrow as pa
import pytest

from spark_core.addresses.address_hashes import hashed
from spark_core.references.sizes import ADDRESSES, SIZED, absent, are_sizes_stated
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


def test_an_entry_below_data_without_a_listed_object_is_absent_once(spark, source):
    entries = ["data/s/a", "data/s/b", "data/s/b", "data/s/c", "s3://else/where"]
    found = absent(
        lambda: spark,
        source(pa.table([entries], schema=ADDRESSES)),
        source(pa.table([["data/s/a", "data/s/x"]], schema=ADDRESSES)),
    )
    assert found.tolist() == sorted(hashed(pa.array(["data/s/b", "data/s/c"])).to_pylist())
