"""Tables that were written past lakeFS: named by their format, and kept like any stranger."""

from __future__ import annotations

from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core import report
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from tests.support.hidden_entries import HidingPlace

pytestmark = pytest.mark.spark

ICEBERG = ("v3.metadata.json", "00001-a.gz.metadata.json", "snap-1-1-a.avro", "a-m0.avro")


@pytest.fixture
def place(tmp_path: Any, spark: Any) -> Any:
    with Sandbox(tmp_path / "sandbox") as running:
        found = HidingPlace(running, spark)
        found.committed(50, "p")
        yield found


def _put(place: HidingPlace, key: str, data: bytes) -> None:
    with place.ago(30):
        place.core.blockstore.write(f"local://{place.name}", key, data, written_at=place.core.now())


def test_files_of_tables_are_counted_by_format_and_kept(place: HidingPlace) -> None:
    for name in ICEBERG:
        _put(place, f"data/lake/t/metadata/{name}", b"1234")
    _put(place, "data/lake/t/data/0.parquet", b"data")
    _put(place, "data/lake/d/_delta_log/00000000000000000000.json", b"12")
    dead = place.upload(30, "scratch")
    place.upload(29, "scratch", b"other")
    run, marked = place.mark()
    assert set(marked.addresses(run)) == {dead}
    listed = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    assert (listed.iceberg_objects, listed.iceberg_bytes) == (4, 16)
    assert (listed.delta_objects, listed.delta_bytes) == (1, 2)
    found = report.of_mark(run)
    assert found.fates["stranger"] == (6, 22)
    iceberg, delta = found.cautions[-2:]
    assert iceberg.startswith("4 files (16 bytes) of those that lakeFS did not name are")
    assert "`expire_snapshots`" in iceberg
    assert delta.startswith("1 file (2 bytes) of those")
    assert "`VACUUM`" in delta


def test_where_there_is_none_nothing_is_said(place: HidingPlace) -> None:
    _put(place, "data/lake/metadata/readme", b"")
    # lakeFS gave it a name of its own, whatever its path is.
    place.upload(30, "t/metadata/v3.metadata.json")
    run, _ = place.mark()
    listed = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    assert listed.iceberg_objects is None
    assert listed.delta_objects is None
    assert not any("Iceberg" in words for words in report.of_mark(run).cautions)
