"""What Dagster shows of a table."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from lakegc_dagster.metadata import figures_metadata, manifest_metadata, table_metadata
from spark_core.records import tables
from spark_core.records.manifest import Manifest, Part

BEGAN = datetime(2026, 11, 20, 2, tzinfo=UTC)


def plain(metadata):
    return {name: value.value for name, value in metadata.items()}


@pytest.mark.parametrize("spec", tables.ALL_TABLES, ids=lambda spec: spec.name)
def test_every_table_shows_its_columns_and_where_it_lies(spec):
    shown = table_metadata(spec)
    columns = shown["dagster/column_schema"].value.columns
    assert [(column.name, column.type) for column in columns] == [
        (field.name, str(field.type)) for field in spec.schema
    ]
    assert all(column.description.endswith(".") for column in columns)
    assert [column.constraints.nullable for column in columns] == [
        field.nullable for field in spec.schema
    ]
    assert shown["folder"].value == f"_lakefs/retention/gc/{spec.folder}/run_id=<run>/"


def test_a_stored_table_shows_rows_bytes_seconds_and_where_it_lies():
    parts = (Part("a.parquet", 3, 100, "0"), Part("b.parquet", 4, 50, "1"))
    manifest = Manifest(
        "namespace_slices",
        "r",
        "i",
        "k",
        "a",
        BEGAN,
        BEGAN + timedelta(seconds=1.5),
        {},
        parts,
        {"objects": 7, "left": 0, "named": [], "off": False},
    )
    shown = manifest_metadata(manifest, "s3://bucket/ns/_lakefs/")
    assert plain(shown) == {
        "dagster/row_count": 7,
        "size_bytes": 150,
        "seconds": 1.5,
        "parts": 2,
        "path": "s3://bucket/ns/_lakefs/",
        "dagster/uri": "s3://bucket/ns/_lakefs/",
        "manifest_sha256": manifest.sha256,
        "objects": 7,
        "off": False,
    }


def test_numbers_stay_numbers_so_that_dagster_plots_them():
    shown = figures_metadata(
        {"count": 3, "share": 0.25, "flag": True, "inner": {"list": 2, "deeper": {"head": 1}}}
    )
    assert plain(shown) == {
        "count": 3,
        "share": 0.25,
        "flag": True,
        "inner/list": 2,
        "inner/deeper/head": 1,
    }
    assert isinstance(shown["count"], dg.IntMetadataValue)
    assert isinstance(shown["share"], dg.FloatMetadataValue)
    assert isinstance(shown["flag"], dg.BoolMetadataValue)


def test_lists_are_counted_and_only_their_beginning_is_shown():
    shown = plain(
        figures_metadata(
            {"ids": [f"c{number}" for number in range(100)], "none": [], "nothing": None}
        )
    )
    assert shown["ids/count"] == 100
    assert shown["ids"] == [f"c{number}" for number in range(20)]
    assert shown["none/count"] == 0
    assert set(shown) == {"ids", "ids/count", "none/count"}


def test_an_inner_table_that_is_named_by_data_is_one_entry():
    committed = {f"data/a/{number}": ("a path", "c0ffee") for number in range(100)}
    shown = plain(
        figures_metadata(
            {
                "largest_committed": committed,
                "twins": {"calls": 3, "without_bound": {"it was reset": 2}},
                "fates": {"young": (2, 14)},
                "empty": {},
            }
        )
    )
    first = [[address, ["a path", "c0ffee"]] for address in list(committed)[:20]]
    assert shown["largest_committed"] == first
    assert shown["twins/without_bound"] == [["it was reset", 2]]
    assert shown["fates"] == [["young", [2, 14]]]
    counts = {"largest_committed/count": 100, "twins/without_bound/count": 1, "fates/count": 1}
    assert {name: shown[name] for name in shown if name.endswith("/count")} == counts
    assert shown["twins/calls"] == 3
    assert len(shown) == 7
