"""The doctor looks at an inventory as a mark does, and at what its manifest does not say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.doctor import Examination, Finding, examine
from spark_core.doctor import inventory as questions
from spark_core.doctor.questions import ask
from spark_core.errors import PermissionDeniedError
from spark_core.run import RunOptions, Storage
from spark_core.storage import StoreOptions, open_store
from tests.support.clock import FakeClock
from tests.support.inventory_table import LiveTable
from tests.support.moto_s3 import moto_s3
from tests.support.s3_inventory import Delivery, Row
from tests.support.small_lakefs import SmallLakeFS

NOW = datetime.now(UTC).replace(microsecond=0)
OLD = NOW - timedelta(days=30)
MD5 = "0123456789abcdef0123456789abcdef"
NAMES = ["manifest", "bucket", "age", "columns", "versions", "data files", "rows"]
ROWS = [Row(f"repo/data/s/{number}", 3, OLD, MD5) for number in range(3)]


class Place:
    """A repository on local files, and a place for inventories of it."""

    def __init__(self, folder: Path, lakefs: SmallLakeFS) -> None:
        self.folder, self.lakefs = folder, lakefs
        self.delivery = Delivery(lambda key, data: self._put(folder / "inventories" / key, data))
        self._put(folder / "blocks/repo/_lakefs/dummy", b"")
        for row in ROWS:
            self.put(row.key, OLD)

    def put(self, key: str, written: datetime) -> None:
        file = self.folder / "blocks" / key
        self._put(file, b"abc")
        os.utime(file, (written.timestamp(), written.timestamp()))

    @staticmethod
    def _put(file: Path, data: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def examined(self, where: str | None = None, **options: Any) -> dict[str, Finding]:
        chosen = {"inventory": where or self.where, **options}
        examination = Examination(
            "repo",
            self.lakefs.options,
            Storage(StoreOptions(local_path=str(self.folder / "blocks")), "/srv/blocks"),
            RunOptions(**chosen),
            clock=FakeClock(NOW),
        )
        return {one.name: one for one in examine(examination) if one.about == "inventory"}

    @property
    def where(self) -> str:
        return str(self.folder / "inventories" / self.delivery.folder)


@pytest.fixture
def place(tmp_path: Path) -> Any:
    with SmallLakeFS({"repo": "local://repo"}) as lakefs:
        lakefs.blockstore_type = "local"
        yield Place(tmp_path, lakefs)


def failed(found: Mapping[str, Finding]) -> list[str]:
    return [name for name, finding in found.items() if finding.passed is False]


def test_a_live_table_in_order_passes_every_question(place: Place, tmp_path: Path) -> None:
    table = LiveTable(f"file://{tmp_path / 'tables'}")
    table.add(ROWS)
    found = place.examined(table.place)
    assert list(found) == NAMES
    assert all(finding.passed for finding in found.values()), found
    assert ".metadata.json, of 1 files" in found["manifest"].found
    assert found["columns"].found == "Iceberg, with Key, Size, LastModifiedDate, ETag"
    assert "3 of 3 rows are objects below repo/data/" in found["rows"].found


def test_a_live_table_of_a_bucket_with_versions_fails_by_its_name(
    place: Place, tmp_path: Path
) -> None:
    table = LiveTable(f"file://{tmp_path / 'tables'}")
    table.add([*ROWS, Row("repo/data/s/x", 1, OLD, MD5, version="v2")])
    found = place.examined(table.place)
    assert failed(found) == ["rows"]
    assert "keeps versions" in found["rows"].found


@pytest.mark.parametrize("format_", ["CSV", "Parquet", "ORC"])
def test_an_inventory_in_order_passes_every_question(place: Place, format_: Any) -> None:
    others = [Row("elsewhere/data/s/x", 1, OLD, MD5)]
    place.delivery.write([*ROWS, *others], NOW - timedelta(hours=20), format_)
    found = place.examined()
    assert list(found) == NAMES
    assert all(finding.passed for finding in found.values()), found
    assert "manifest.json, of 2 files" in found["manifest"].found
    assert "20 hours ago" in found["age"].found
    wanted = "Key, Size, LastModifiedDate, ETag"
    assert found["columns"].found == f"{format_}, with {wanted}"
    assert found["versions"].found == "current versions only"
    assert found["rows"].found.endswith("3 of 4 rows are objects below repo/data/")


def test_where_the_store_is_listed_nobody_asks_about_an_inventory(place: Place) -> None:
    assert place.examined(inventory=None) == {}


def test_without_an_inventory_the_rest_is_not_looked_at(place: Place) -> None:
    found = place.examined()
    assert failed(found) == ["manifest"]
    assert "there is no inventory at" in found["manifest"].found
    assert "dated folders" in found["manifest"].next_step
    assert {found[name].found for name in NAMES[1:]} == {
        "not looked at: there is no inventory to look at"
    }


@pytest.mark.parametrize(("hours", "is_told"), [(23.9, False), (24.1, True)])
def test_an_inventory_of_more_than_a_day_ago_is_told(
    place: Place, hours: float, *, is_told: bool
) -> None:
    place.delivery.write(ROWS, NOW - timedelta(hours=hours))
    age = place.examined()["age"]
    assert (age.passed is None) is is_told
    assert ("garbage since then is not seen" in age.found) is is_told
    assert bool(age.next_step) is is_told


def test_a_date_in_the_future_fails(place: Place) -> None:
    place.delivery.write(ROWS, NOW + timedelta(minutes=6))
    found = place.examined()
    assert failed(found) == ["age"]
    assert "Set the clock of this machine" in found["age"].next_step


def test_an_inventory_of_another_bucket_fails(place: Place) -> None:
    place.delivery.write(ROWS, NOW, changes={"sourceBucket": "other"})
    found = place.examined()
    assert failed(found) == ["bucket"]
    assert "is an inventory of the bucket 'other'" in found["bucket"].found


def test_missing_columns_are_named_with_what_to_add(place: Place) -> None:
    place.delivery.without = ["ETag", "Size"]
    place.delivery.write(ROWS, NOW)
    found = place.examined()
    assert set(failed(found)) == {"columns", "versions", "rows"}
    assert "have no Size and no ETag" in found["columns"].found
    assert '"optional fields": Size, ETag' in found["columns"].next_step


def test_versions_are_told_and_only_the_latest_are_counted(place: Place) -> None:
    place.delivery.versions = True
    older = [Row(row.key, 9, OLD, MD5, "v0", latest=False) for row in ROWS]
    place.delivery.write([*ROWS, *older], NOW)
    found = place.examined()
    assert "only the latest count" in found["versions"].found
    assert found["rows"].figures["rows_in_namespace"] == 3
    place.delivery.without = ["IsLatest"]
    place.delivery.write(ROWS, NOW + timedelta(minutes=1))
    found = place.examined()
    assert "have no IsLatest" in found["versions"].found


@pytest.mark.parametrize(
    ("rows", "lacking"),
    [
        ([Row("elsewhere/data/s/x", 1, OLD, MD5)], 3),
        (ROWS[:2], 1),
        ([], 3),
    ],
    ids=["another prefix", "part of it", "nothing"],
)
def test_an_inventory_that_does_not_cover_the_namespace_fails(
    place: Place, rows: list[Row], lacking: int
) -> None:
    place.delivery.write(rows, NOW - timedelta(hours=20))
    # Too young to be surely in it.
    place.put("repo/data/t/young", NOW - timedelta(hours=60))
    found = place.examined()
    assert failed(found) == ["rows"]
    assert found["rows"].figures["lacking"] == lacking
    assert f"it lacks {lacking} of the objects" in found["rows"].found
    assert "one that covers repo/data/" in found["rows"].next_step


def test_of_large_files_only_a_byte_is_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_MOST_BYTES", 10)
    place.delivery.write(ROWS, NOW)
    found = place.examined()
    assert failed(found) == []
    assert found["data files"].passed
    assert found["rows"].passed is None
    assert "not read: each of its files has more than 10 bytes" in found["rows"].found


def test_a_data_file_that_is_not_there_or_damaged_fails(place: Place) -> None:
    place.delivery.write(ROWS, NOW, files=1)
    (key,) = (key for key in place.delivery.written if "/data/" in key)
    file = place.folder / "inventories" / key
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    found = place.examined()
    assert failed(found) == ["rows"]
    assert "its inventory's manifest says" in found["rows"].found
    where = (
        place.folder
        / "inventories"
        / next(key for key in place.delivery.written if key.endswith("manifest.json"))
    )
    file.unlink()
    found = place.examined(str(where))
    assert "manifest" in failed(found)


@pytest.mark.slow
def test_an_inventory_in_a_bucket_whose_files_may_not_be_read_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with moto_s3() as moto:
        lakes, inventories = moto.bucket(), moto.bucket()
        client = moto.client()

        def put(key: str, data: bytes) -> None:
            client.put_object(Bucket=inventories, Key=key, Body=data)

        for name in "ab":
            client.put_object(Bucket=lakes, Key=f"repo/data/s/{name}", Body=b"abc")
        delivery = Delivery(put, bucket=lakes)
        delivery.write([Row("repo/data/s/a", 3, OLD, MD5)], NOW)
        where = f"s3://{inventories}/{delivery.folder}"
        examination = Examination(
            "repo",
            lambda: pytest.fail("the server was asked"),
            Storage(moto.options(), None),
            RunOptions(inventory=where),
            clock=FakeClock(NOW),
        )
        namespace = Namespace.parse(f"s3://{lakes}/repo")
        examination.namespace, examination.listing = namespace, True
        examination.store = open_store(namespace, moto.options())
        monkeypatch.setattr(examination, "storage", lambda: Storage(moto.options(), None))
        found = {one.name: ask(one, examination) for one in questions.INVENTORY_QUESTIONS}
        # The store's objects are younger than the inventory.
        assert all(finding.passed for finding in found.values()), found
        _, store = examination.inventory

        def denied(*_: object) -> None:
            raise PermissionDeniedError("kms:Decrypt is lacking", "Allow it.")

        for name in ("read_range", "open_source"):
            monkeypatch.setattr(store, name, denied)
        asked = {one.name: one for one in questions.INVENTORY_QUESTIONS}
        for name in ("data files", "rows"):
            finding = ask(asked[name], examination)
            assert (finding.passed, finding.next_step) == (False, "Allow it.")
