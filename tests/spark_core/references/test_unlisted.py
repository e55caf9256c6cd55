"""Entries without a listed object: the same answers by the driver and by executors."""

import pyarrow as pa
import pytest

from spark_core.addresses.address_hashes import hashed
from spark_core.references.head_entries import ADDRESSES
from spark_core.references.unlisted import hashes_without_object
from spark_core.spark import placement
from spark_core.spark.exchange import source_of

pytestmark = pytest.mark.spark


@pytest.fixture(params=["here", "executors"])
def source(request, monkeypatch):
    """Make a source of rows, which the driver compares, or executors."""
    if request.param == "executors":
        monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    return lambda rows: source_of(rows, rows.schema)


def test_an_entry_below_data_without_a_listed_object_is_absent_once(spark, source):
    entries = ["data/s/a", "data/s/b", "data/s/b", "data/s/c", "s3://else/where"]
    found = hashes_without_object(
        lambda: spark,
        source(pa.table([entries], schema=ADDRESSES)),
        source(pa.table([["data/s/a", "data/s/x"]], schema=ADDRESSES)),
    )
    assert found.tolist() == sorted(hashed(pa.array(["data/s/b", "data/s/c"])).to_pylist())
