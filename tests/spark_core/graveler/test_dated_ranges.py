"""The dates of entries, read beside their other fields."""

from datetime import UTC, datetime, timedelta

from lakegc_dagster.sandbox.tables import write_range
from spark_core import graveler
from spark_core.graveler import Entry

DATES = [
    datetime(2026, 11, 20, 2, 0, 7, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC),
    datetime(2500, 1, 1, tzinfo=UTC),
]


def test_each_entry_has_its_date_in_whole_seconds():
    entries = [
        Entry(b"%d" % at, f"data/s/{at}", 1, 7, "0" * 32, date, metadata={"a": "b"})
        for at, date in enumerate(DATES)
    ]
    table = write_range(entries)
    found = graveler.read_dated_range(table.data, name=table.id, expected_id=table.id)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert found.column("modified_seconds").to_pylist() == [
        (date - epoch) // timedelta(seconds=1) for date in DATES
    ]
    plain = graveler.read_range(table.data, name=table.id)
    assert found.select(plain.schema.names) == plain
