"""Inventories of S3 are read as a listing shows a store, or refused by name."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from spark_core.errors import CorruptTableError, NotFoundError, SettingsError
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage import StoreOptions
from spark_core.storage.inventory import Wanted, find_inventory, rows_of
from spark_core.storage.inventory.rows import PASSED_OVER, ROWS
from tests.support.moto_s3 import moto_s3
from tests.support.s3_inventory import Delivery, Row

AT = datetime(2026, 11, 18, 1, 30, tzinfo=UTC)
WRITTEN = datetime(2026, 11, 1, 5, 6, 7, tzinfo=UTC)
MD5 = "0123456789abcdef0123456789abcdef"
FORMATS = ("CSV", "Parquet", "ORC")
STRANGE = 'lake/ns/data/a b+c%20,"é"/x'


@pytest.fixture
def delivery(tmp_path):
    def put(key, data):
        file = tmp_path / "dest" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    return Delivery(put, bucket="lakes")


def _read(where, options=None, *, before="lake/ns/", flat=False):
    inventory, store = find_inventory(str(where), options or StoreOptions())
    figures: Counter[str] = Counter()
    batches = [
        batch
        for file in inventory.files
        for batch in rows_of(store, inventory, file, Wanted(before, flat), figures)
    ]
    table = pa.Table.from_batches(batches, OBJECT_LISTING)
    shown = ("size_bytes", "last_modified", "checksum")
    found = {row["key"]: tuple(row[name] for name in shown) for row in table.to_pylist()}
    return found, figures


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_below_data_are_read_with_their_own_names_and_all_others_are_passed_over(
    format_, delivery, tmp_path
):
    rows = [
        Row("lake/ns/data/s/one", 1, WRITTEN, MD5),
        Row(STRANGE, 0, WRITTEN + timedelta(seconds=1), f"{MD5}-3"),
        Row("lake/ns/_lakefs/dummy", 3, WRITTEN, MD5),
        Row("lake/ns2/data/s/one", 4, WRITTEN, MD5),
        Row("lake/ns/database", 5, WRITTEN, None),
    ]
    manifest = delivery.write(rows, AT, format_)
    found, figures = _read(tmp_path / "dest" / manifest)
    assert found == {
        "data/s/one": (1, WRITTEN, MD5),
        STRANGE.removeprefix("lake/ns/"): (0, WRITTEN + timedelta(seconds=1), None),
    }
    assert (figures[ROWS], figures[PASSED_OVER]) == (5, 3)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_size_below_zero_refuses_with_the_name_of_the_object(format_, delivery, tmp_path):
    manifest = delivery.write([Row("lake/ns/data/s/one", -4, WRITTEN, MD5)], AT, format_)
    with pytest.raises(CorruptTableError, match="'data/s/one' with a size of -4 bytes"):
        _read(tmp_path / "dest" / manifest)


def test_digits_beyond_the_microsecond_of_a_text_are_cut(delivery, tmp_path):
    delivery.fraction = "123456789"
    manifest = delivery.write([Row("lake/ns/data/s/one", 1, WRITTEN, MD5)], AT, "CSV")
    found, _ = _read(tmp_path / "dest" / manifest)
    assert found["data/s/one"][1] == WRITTEN.replace(microsecond=123_456)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("is_there", [True, False])
def test_an_inventory_says_storage_classes_if_it_has_the_column(
    format_, is_there, delivery, tmp_path
):
    delivery.without = () if is_there else ["StorageClass"]
    rows = [
        Row("data/s/one", 1, WRITTEN, MD5, storage_class="STANDARD_IA"),
        Row("data/s/two", 1, WRITTEN, MD5),
    ]
    where = str(tmp_path / "dest" / delivery.write(rows, AT, format_, files=1))
    inventory, store = find_inventory(where, StoreOptions())
    inventory.require_columns()
    (batch,) = rows_of(store, inventory, inventory.files[0], Wanted(""), Counter())
    assert batch["storage_class"].to_pylist() == ["STANDARD_IA" if is_there else None, None]


@pytest.mark.parametrize("format_", FORMATS)
def test_of_all_versions_only_the_latest_count_and_no_delete_markers(format_, delivery, tmp_path):
    delivery.versions = True
    rows = [
        Row("data/s/kept", 2, WRITTEN, MD5, "v2"),
        Row("data/s/kept", 1, WRITTEN, MD5, "v1", latest=False),
        Row("data/s/gone", None, WRITTEN, None, "v4", marker=True),
        Row("data/s/gone", 1, WRITTEN, MD5, "v3", latest=False),
    ]
    manifest = delivery.write(rows, AT, format_)
    found, _ = _read(tmp_path / "dest" / manifest, before="")
    assert found == {"data/s/kept": (2, WRITTEN, MD5)}


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("missing", ["Size", "LastModifiedDate", "ETag"])
def test_a_column_that_a_listing_needs_and_that_is_missing_refuses_by_its_name(
    format_, missing, delivery, tmp_path
):
    delivery.without = [missing]
    manifest = delivery.write([Row("data/s/one", 1, WRITTEN)], AT, format_)
    with pytest.raises(CorruptTableError, match=f"have no {missing},.*optional fields.*{missing}"):
        find_inventory(str(tmp_path / "dest" / manifest), StoreOptions())[0].require_columns()


@pytest.mark.parametrize("missing", ["IsLatest", "IsDeleteMarker"])
def test_versions_that_do_not_say_which_is_the_latest_refuse(missing, delivery, tmp_path):
    delivery.versions, delivery.without = True, [missing]
    manifest = delivery.write([Row("data/s/one", 1, WRITTEN)], AT)
    with pytest.raises(CorruptTableError, match=f"have no {missing}"):
        find_inventory(str(tmp_path / "dest" / manifest), StoreOptions())[0].require_columns()


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_data_file_that_is_not_the_manifests_refuses_before_its_first_row(
    format_, damage, delivery, tmp_path
):
    manifest = delivery.write([Row("data/s/one", 1, WRITTEN, MD5)], AT, format_, files=1)
    key = next(key for key in delivery.written if "/data/" in key)
    file, data = tmp_path / "dest" / key, delivery.written[key]
    inventory, store = find_inventory(str(tmp_path / "dest" / manifest), StoreOptions())
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(data[:-1] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(
        CorruptTableError, match=f"{key}: (it has|its inventory's manifest names it)"
    ):
        list(rows_of(store, inventory, inventory.files[0], Wanted(""), Counter()))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_data_file_without_the_columns_of_the_manifest_refuses(format_, delivery, tmp_path):
    other = {"CSV": "Bucket, Key, Size, ETag, LastModifiedDate, StorageClass"}
    delivery.without = ["Bucket"]
    schema = other.get(format_) or delivery._schema(format_).replace("e_tag", "etag_")
    manifest = delivery.write(
        [Row("data/s/one", 1, WRITTEN, MD5)], AT, format_, changes={"fileSchema": schema}
    )
    with pytest.raises(CorruptTableError, match=f"no sound {format_} file"):
        _read(tmp_path / "dest" / manifest, before="")


@pytest.mark.parametrize("format_", FORMATS)
def test_a_data_file_without_rows_has_none(format_, delivery, tmp_path):
    manifest = delivery.write([], AT, format_, files=1)
    assert _read(tmp_path / "dest" / manifest) == ({}, Counter({ROWS: 0, PASSED_OVER: 0}))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row("data/s/one", None, WRITTEN, MD5), "rows have no size"),
        (Row("data/s/one", 1, None, MD5), "rows have no lastmodifieddate"),
        (Row(None, 1, WRITTEN, MD5), "rows have no key"),
    ],
)
def test_a_row_without_a_value_refuses(row, problem, delivery, tmp_path):
    manifest = delivery.write([row], AT)
    with pytest.raises(CorruptTableError, match=problem):
        _read(tmp_path / "dest" / manifest, before="")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"fileFormat": "Avro"}, "fileFormat is 'Avro'"),
        ({"files": [{"key": "x"}]}, "KeyError: 'size'"),
        ({"files": [{"key": "x", "size": 1, "MD5checksum": "none"}]}, "MD5checksum is 'none'"),
        ({"files": [{"key": "x", "size": 1, "MD5checksum": MD5}] * 2}, "names a file twice"),
        ({"creationTimestamp": "yesterday"}, "ValueError"),
        ({"sourceBucket": None, "fileSchema": None}, "TypeError"),
    ],
)
def test_a_manifest_of_another_form_refuses(changes, problem, delivery, tmp_path):
    manifest = delivery.write([], AT, changes=changes)
    with pytest.raises(CorruptTableError, match=f"no manifest of an S3 Inventory .*{problem}"):
        find_inventory(str(tmp_path / "dest" / manifest), StoreOptions())


def test_a_manifest_that_its_checksum_does_not_match_refuses(delivery, tmp_path):
    manifest = tmp_path / "dest" / delivery.write([], AT)
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    for where in (manifest, tmp_path / "dest" / delivery.folder):
        with pytest.raises(CorruptTableError, match=r"manifest\.checksum has another"):
            find_inventory(str(where), StoreOptions())


def test_the_newest_inventory_that_has_arrived_whole_is_taken(delivery, tmp_path):
    for days, whole in ((3, True), (1, True), (0, False)):
        rows = [Row("data/s/one", days, WRITTEN, MD5)]
        delivery.write(rows, AT - timedelta(days=days), checksum=whole)
    inventory, _ = find_inventory(str(tmp_path / "dest" / delivery.folder), StoreOptions())
    assert inventory.created_at == AT - timedelta(days=1)
    assert inventory.source_bucket == "lakes"


def test_where_there_is_no_inventory_it_is_said_where_one_would_be(tmp_path):
    (tmp_path / "data").mkdir()
    for where in (tmp_path, tmp_path / "none", tmp_path / "manifest.json"):
        with pytest.raises(NotFoundError, match=r"there is no inventory at .* dated folders"):
            find_inventory(str(where), StoreOptions())
    for where in ("inventories/all", "gs://inventories/all/"):
        with pytest.raises(SettingsError, match="s3://BUCKET"):
            find_inventory(where, StoreOptions())


def test_flat_names_at_the_root_are_read_where_they_are_asked_for(delivery, tmp_path):
    flat = "0123456789abcdef0123456789abcdef"
    manifest = delivery.write([Row(flat, 1, WRITTEN, MD5), Row("x", 1, WRITTEN, MD5)], AT)
    assert _read(tmp_path / "dest" / manifest, before="")[0] == {}
    found, _ = _read(tmp_path / "dest" / manifest, before="", flat=True)
    assert found == {flat: (1, WRITTEN, MD5)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "format_",
    [pytest.param(each, marks=pytest.mark.slow) if each == "ORC" else each for each in FORMATS],
)
def test_an_inventory_in_a_bucket_is_found_and_read(format_):
    with moto_s3() as s3:
        bucket, client = s3.bucket(), s3.client()
        delivery = Delivery(
            lambda key, data: client.put_object(Bucket=bucket, Key=key, Body=data), bucket="lakes"
        )
        delivery.write([], AT - timedelta(days=1), format_, files=0)
        manifest = delivery.write([Row(STRANGE, 7, WRITTEN, MD5)], AT, format_, files=1)
        wanted = {STRANGE.removeprefix("lake/ns/"): (7, WRITTEN, MD5)}
        for where in (delivery.folder, delivery.folder.rstrip("/"), manifest):
            assert _read(f"s3://{bucket}/{where}", s3.options())[0] == wanted
