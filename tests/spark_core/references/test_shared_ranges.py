"""What ranges cost, in entries that take as long, decides who reads them."""

import pyarrow as pa
import pytest

from spark_core.references.shared_ranges import work_of_ranges
from spark_core.spark import placement


def _ranges(count, entries):
    return pa.table({"count": pa.array([entries] * count, pa.int64())})


@pytest.mark.parametrize(
    ("count", "entries", "driver_reads"),
    [
        (0, 0, True),
        (30, 100_000, True),
        (31, 100_000, False),
        # A file costs as much as some hundred entries, however few it has.
        (3_840, 1, True),
        (3_841, 1, False),
    ],
)
def test_the_driver_reads_ranges_of_three_million_entries_or_as_much_work(
    count, entries, driver_reads
):
    assert placement.driver_works(work_of_ranges(_ranges(count, entries))) == driver_reads
