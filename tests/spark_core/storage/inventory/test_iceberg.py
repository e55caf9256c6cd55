"""S3 Metadata's live inventory table is read as a listing shows a store, or refused by name."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import CorruptTableError, NotFoundError, SettingsError
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage import StoreOptions
from spark_core.storage.inventory import Wanted, is_table, rows_of
from spark_core.storage.inventory.rows import PASSED_OVER, ROWS
from tests.support.inventory_table import SCHEMA, LiveTable
from tests.support.moto_s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, moto_s3
from tests.support.s3_inventory import Row

# As `iceberg.BEHIND`; to read that file takes a third of a second, in each process of the tests.
BEHIND = timedelta(hours=1)
WRITTEN = datetime(2026, 11, 1, 5, 6, 7, tzinfo=UTC)
MD5 = "0123456789abcdef0123456789abcdef"
NAMESPACE = Namespace.parse("local://lake/ns", server_path="/blocks")
ARN = "arn:aws:s3tables:us-east-1:123456789012:bucket/aws-s3"


@pytest.fixture
def live(tmp_path):
    return LiveTable(f"file://{tmp_path}")


def _read(place, namespace=NAMESPACE, options=None):
    from spark_core.storage.inventory.iceberg import find_table

    inventory, store = find_table(place, namespace, options or StoreOptions())
    inventory.require_columns()
    figures: Counter[str] = Counter()
    wanted = Wanted(f"{namespace.path}/" if namespace.path else "")
    batches = [
        batch
        # As an executor gets it.
        for file in pickle.loads(pickle.dumps(inventory)).files
        for batch in rows_of(store, inventory, file, wanted, figures)
    ]
    table = pa.Table.from_batches(batches, OBJECT_LISTING)
    shown = ("size_bytes", "last_modified", "checksum", "storage_class")
    found = {row["key"]: tuple(row[name] for name in shown) for row in table.to_pylist()}
    return found, figures, inventory


def test_rows_of_the_newest_snapshot_below_data_are_read(live):
    live.add(
        [
            Row("lake/ns/data/s/one", 1, WRITTEN, MD5, storage_class="STANDARD"),
            Row("lake/ns/data/s/gone", 1, WRITTEN, MD5),
            Row("lake/ns/_lakefs/dummy", 3, WRITTEN, MD5),
            Row("lake/ns2/data/s/one", 4, WRITTEN, MD5),
        ]
    )
    live.add([Row('lake/ns/data/a b+c%20,"é"/x', 0, WRITTEN, f"{MD5}-3")])
    live.remove("lake/ns/data/s/gone")
    found, figures, inventory = _read(live.place)
    assert found == {
        "data/s/one": (1, WRITTEN, MD5, "STANDARD"),
        'data/a b+c%20,"é"/x': (0, WRITTEN, None, None),
    }
    assert (figures[ROWS], figures[PASSED_OVER]) == (3, 1)
    assert inventory.source_bucket == "local"
    assert timedelta(0) <= datetime.now(UTC) - BEHIND - inventory.created_at < timedelta(minutes=5)


def test_an_earlier_snapshot_is_what_its_metadata_says(live):
    live.add([Row("lake/ns/data/s/one", 1, WRITTEN, MD5)])
    earlier = live.place
    live.add([Row("lake/ns/data/s/two", 1, WRITTEN, MD5)])
    assert set(_read(earlier)[0]) == {"data/s/one"}
    assert set(_read(live.place)[0]) == {"data/s/one", "data/s/two"}


@pytest.mark.parametrize(
    ("operation", "expired", "days"),
    [("append", False, 0), ("replace", False, 9), ("replace", True, 0)],
)
def test_a_compaction_makes_the_rows_no_younger(operation, expired, days, live):
    for name in ("one", "two"):
        live.add([Row(f"lake/ns/data/s/{name}", 1, WRITTEN, MD5)])
    path = Path(live.place)
    metadata = json.loads(path.read_text())
    first, last = sorted(metadata["snapshots"], key=lambda found: found["sequence-number"])
    first["timestamp-ms"] -= 9 * 24 * 3600 * 1000
    last["summary"]["operation"] = operation
    metadata["snapshots"] = [last] if expired else [first, last]
    metadata["snapshot-log"] = []
    path.write_text(json.dumps(metadata))
    found, _, inventory = _read(live.place)
    assert set(found) == {"data/s/one", "data/s/two"}
    assert (datetime.now(UTC) - BEHIND - inventory.created_at).days == days


@pytest.mark.parametrize(
    ("row", "changes", "problem"),
    [
        (Row("lake/ns/data/s/one", 1, WRITTEN, MD5, version="v1"), {}, "keeps versions"),
        (Row("lake/ns/data/s/one", None, WRITTEN, None, marker=True), {}, "keeps versions"),
        (Row("lake/ns/data/s/one", 1, WRITTEN, MD5), {"bucket": "other"}, "of other buckets"),
        (Row("lake/ns/data/s/one", 1, WRITTEN, MD5), {"bucket": None}, "of other buckets"),
        (Row("lake/ns/data/s/one", 1, WRITTEN, MD5), {"last_modified_date": None}, "have no last"),
        (Row("lake/ns/data/s/one", None, WRITTEN, MD5), {}, "1 rows have no size"),
    ],
)
def test_a_row_that_no_listing_of_the_bucket_has_refuses(row, changes, problem, live):
    live.add([Row("lake/ns/data/r/first", 1, WRITTEN, MD5)])
    live.add([row], **changes)
    with pytest.raises(CorruptTableError, match=problem):
        _read(live.place)


@pytest.mark.parametrize("column", ["bucket", "version_id", "is_delete_marker"])
def test_a_column_that_tells_versions_and_buckets_apart_must_be_there(column, tmp_path):
    schema = pa.schema([field for field in SCHEMA if field.name != column])
    live = LiveTable(f"file://{tmp_path}", schema=schema)
    live.add([Row("lake/ns/data/s/one", 1, WRITTEN, MD5)])
    with pytest.raises(CorruptTableError, match=f"no {column}"):
        _read(live.place)


def test_a_column_that_a_listing_needs_and_that_is_missing_refuses_by_its_name(tmp_path):
    schema = pa.schema([field for field in SCHEMA if field.name != "e_tag"])
    live = LiveTable(f"file://{tmp_path}", schema=schema)
    live.add([Row("lake/ns/data/s/one", 1, WRITTEN, MD5)])
    with pytest.raises(CorruptTableError, match="have no ETag"):
        _read(live.place)


def test_a_table_without_rows_of_the_namespace_is_none(live):
    with pytest.raises(NotFoundError, match="status must be Active"):
        _read(live.place)
    live.add([Row("elsewhere/data/s/one", 1, WRITTEN, MD5)])
    with pytest.raises(NotFoundError, match="no rows below local://lake/ns"):
        _read(live.place)


@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_a_damaged_data_file_refuses(damage, live):
    live.add([Row("lake/ns/data/s/one", 1, WRITTEN, MD5)])
    (file,) = live.files()
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(data[: len(data) // 2] if damage == "cut" else b"x" * len(data))
    with pytest.raises(CorruptTableError):
        _read(live.place)


def test_damaged_metadata_refuses(live, tmp_path):
    live.add([Row("lake/ns/data/s/one", 1, WRITTEN, MD5)])
    for path in tmp_path.rglob("*.metadata.json"):
        path.write_text("{}")
    with pytest.raises(CorruptTableError, match="no sound Iceberg table"):
        _read(live.place)


@pytest.mark.parametrize(
    ("where", "is_one"),
    [
        (ARN, True),
        ("s3://tables/metadata/00001-a.metadata.json", True),
        ("s3://inventories/lake/manifest.json", False),
        ("/copies/inventories", False),
    ],
)
def test_a_place_tells_whether_it_is_a_table(where, is_one):
    assert is_table(where) is is_one


@pytest.mark.parametrize(
    "where", ["arn:aws:s3:::lake", "x.metadata.json", "gs://a/b.metadata.json"]
)
def test_a_place_of_another_form_is_told_the_forms(where):
    with pytest.raises(SettingsError, match="arn:aws:s3tables:REGION:ACCOUNT:bucket/aws-s3"):
        _read(where, Namespace.parse("s3://lake/ns"))


@pytest.mark.slow
def test_a_table_on_s3_is_found_by_the_arn_of_its_table_bucket(monkeypatch):
    namespace = Namespace.parse("s3://lake/ns")
    with moto_s3() as server:
        for name, value in (
            ("AWS_ENDPOINT_URL_S3TABLES", server.endpoint),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY),
        ):
            monkeypatch.setenv(name, value)
        import boto3

        server.client().create_bucket(Bucket="warehouse")
        live = LiveTable(
            "s3://warehouse",
            "lake",
            **{
                "s3.endpoint": server.endpoint,
                "s3.access-key-id": ACCESS_KEY_ID,
                "s3.secret-access-key": SECRET_ACCESS_KEY,
                "s3.region": "us-east-1",
            },
        )
        live.add([Row("ns/data/s/one", 1, WRITTEN, MD5)])
        tables = boto3.client("s3tables", region_name="us-east-1")
        arn = tables.create_table_bucket(name="aws-s3")["arn"]
        with pytest.raises(NotFoundError, match=r"has no table b_lake\.inventory"):
            _read(arn, namespace, server.options())
        monkeypatch.setattr(
            "botocore.client.BaseClient._make_api_call",
            _answering({"metadataLocation": live.place}),
        )
        found, _, inventory = _read(arn, namespace, server.options())
    assert set(found) == {"data/s/one"}
    assert inventory.source_bucket == "lake"


def _answering(answer):
    """S3 Tables of the test's server has no table that another wrote."""
    from botocore.client import BaseClient

    asked = BaseClient._make_api_call

    def call(client, name, parameters):
        if name == "GetTable":
            assert (parameters["namespace"], parameters["name"]) == ("b_lake", "inventory")
            return answer
        return asked(client, name, parameters)

    return call
