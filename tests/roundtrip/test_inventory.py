"""A mark by an S3 Inventory names what a listing names, and its sweep looks before it acts."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakegc_dagster.sandbox import gc, objects, refs, repositories
from lakegc_dagster.sandbox.xids import encode_xid
from spark_core import report
from spark_core.errors import (
    CorruptTableError,
    IncompleteReadError,
    NotFoundError,
    RepositoryStateError,
    UnsafePlanError,
)
from spark_core.explain.why import explain
from spark_core.lakefs import LakeFSServer
from spark_core.mark import namespace_slices
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.figures import CommittedFigures, ExpiredFigures, ListedFigures
from spark_core.run import Environment, RunOptions, open_run
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.inventory_table import LiveTable
from tests.support.moto_s3 import moto_s3
from tests.support.moved_repository import NAME
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.recorded_server import RecordedServer
from tests.support.s3_inventory import Delivery, rows_of_store
from tests.support.sandbox_runs import SMALL, open_sandbox_run
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
STRICT = {"share_from_objects": 1, "max_missing_share": 0.0, "max_expired_share": 1.0}


class Lake:
    """A repository with a live file, a staged and two dead ones; a place for inventories."""

    def __init__(self, sandbox, place: Path) -> None:
        self.sandbox, self.place = sandbox, place
        self.folder = Path(sandbox.blockstore) / "repo"
        self.delivery = Delivery(self._put)
        with sandbox.core.lock, sandbox.clock.at(NOW - timedelta(days=60)):
            repositories.create(sandbox.core, "repo", "local://repo")
            gc.set_rules(sandbox.core, "repo", gc.Rules(7, {}))
            self.gone = self.upload("a", b"replaced before it was committed")
            self.changed = self.upload("a", b"replaced as well")
            self.live = self.upload("a", b"live")
            refs.commit(sandbox.core, "repo", "main", message="first")
            self.staged = self.upload("b", b"staged")

    def _put(self, key, data):
        file = self.place / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def upload(self, path, data):
        return objects.upload(self.sandbox.core, "repo", "main", path, data).address

    def later(self, days_ago, *, commit=True):
        """Upload, overwrite and commit at a moment; the dead address and the live one."""
        core = self.sandbox.core
        with core.lock, self.sandbox.clock.at(NOW - timedelta(days=days_ago)):
            # What has the same content twice would hide.
            dead, live = (self.upload("later", b"%f %d" % (days_ago, each)) for each in (0, 1))
            if commit:
                refs.commit(core, "repo", "main", message="later")
        return dead, live

    def deliver(self, days_ago, **how):
        """Write an inventory of the objects that the store has now, dated as asked."""
        store = self.run(None, NOW).store
        rows = rows_of_store(store, before="repo/")
        return self.delivery.write(rows, NOW - timedelta(days=days_ago), **how)

    def run(self, spark, at=NOW, **options):
        return open_sandbox_run(self.sandbox, "repo", spark, at, **options)

    def by_inventory(self, spark, at=NOW, **options):
        where = {"inventory": str(self.place / self.delivery.folder)}
        return self.run(spark, at, **{**where, **options})


@pytest.fixture
def lake(sandbox, tmp_path):
    made = Lake(sandbox, tmp_path / "inventories")
    sandbox.clock.set(NOW)
    return made


def _rows(run, spec):
    return _without(run.load(spec), "slice")


def _without(table, column):
    rows = (tuple(value for name, value in row.items() if name != column) for row in rows_of(table))
    return sorted(rows, key=str)


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["CSV", "Parquet", "ORC"])
def test_a_mark_by_inventory_names_what_a_mark_by_listing_names(format_, lake, spark):
    lake.later(3)
    lake.deliver(1.5, format_=format_)
    listed = lake.run(spark, NOW - timedelta(minutes=1))
    mark_and_conclude(listed)
    run = lake.by_inventory(spark)
    before = dict(run.store.requests)
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    for spec in (tables.NAMESPACE_SLICES, tables.EXPIRED_ADDRESSES):
        assert _rows(run, spec) == _rows(listed, spec)
    assert {lake.gone, lake.changed} < set(marked.addresses(run))
    assert len(marked.addresses(run)) == 3
    said = ListedFigures.of(marked.tables.slices.manifest)
    assert said.inventory.rows == said.objects == 6
    assert (said.inventory.files, said.inventory.rows_passed_over, said.slices) == (2, 0, 0)
    assert said.inventory.manifest.endswith("T14-00Z/manifest.json")
    assert said.requests == {"read": 2}
    assert before == {}


def test_a_mark_by_the_live_table_names_what_a_mark_by_listing_names(lake, spark, tmp_path):
    table = LiveTable(f"file://{tmp_path / 'tables'}")
    store = lake.run(None, NOW).store
    table.add(rows_of_store(store, before="repo/"))
    # The snapshot is of now, and so is the run.
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    lake.sandbox.clock.set(at)
    listed = lake.run(spark, at - timedelta(minutes=1))
    mark_and_conclude(listed)
    run = lake.by_inventory(spark, at, inventory=table.place, **STRICT)
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    for spec in (tables.NAMESPACE_SLICES, tables.EXPIRED_ADDRESSES):
        assert _rows(run, spec) == _rows(listed, spec)
    said = ListedFigures.of(marked.tables.slices.manifest).inventory
    assert (said.manifest, said.files, said.rows) == (table.place, 1, 4)
    assert 3600 <= said.age_seconds < 4600
    assert sweep_only(run) == {lake.gone: "deleted", lake.changed: "deleted"}


def test_what_the_live_table_does_not_have_yet_is_neither_named_nor_missing(lake, spark, tmp_path):
    table = LiveTable(f"file://{tmp_path / 'tables'}")
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    rows = rows_of_store(lake.run(None, NOW).store, before="repo/")
    core = lake.sandbox.core
    with core.lock, lake.sandbox.clock.at(at - timedelta(minutes=35)):
        late = lake.upload("late", b"half an hour ago")
        refs.commit(core, "repo", "main", message="late")
    table.add(rows)
    lake.sandbox.clock.set(at)
    run = lake.by_inventory(spark, at, inventory=table.place, **STRICT)
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    figures = ExpiredFigures.of(marked.expired.manifest)
    assert (figures.missing_objects, figures.since_inventory) == (0, 1)
    assert late not in marked.addresses(run)


def test_what_was_written_since_the_inventory_is_neither_named_nor_missing(lake, spark):
    lake.deliver(3)
    dead, live = lake.later(2)
    _, staged = lake.later(1.5, commit=False)
    run = lake.by_inventory(spark, **STRICT)
    marked, verdict, results = mark_and_conclude(run)
    assert verdict.passed
    assert marked.addresses(run) == sorted([lake.gone, lake.changed])
    figures = ExpiredFigures.of(marked.expired.manifest)
    assert (figures.live_objects, figures.missing_objects, figures.since_inventory) == (4, 0, 2)
    assert figures.missing_table is None
    check = next(each for each in results if each.name == "live_objects_are_listed")
    assert check.summary == (
        "2 of 4 objects that branches reach are in the listing, and 2 were written since the "
        "inventory"
    )
    assert sweep_only(run) == {lake.gone: "deleted", lake.changed: "deleted"}
    for address in (lake.live, lake.staged, live, dead, staged):
        assert run.store.exists(address)


def test_what_is_lost_is_missing_whenever_it_was_written(lake, spark):
    _, old = lake.later(20)
    lake.deliver(3)
    _, new = lake.later(2)
    (lake.folder / new).unlink()
    run = lake.by_inventory(spark, **STRICT)
    marked, _, results = mark_and_conclude(run)
    assert [each.name for each in results if not each.passed] == ["live_objects_are_listed"]
    figures = ExpiredFigures.of(marked.expired.manifest)
    assert (figures.missing_named, figures.since_inventory) == ((new,), 0)
    assert old not in figures.missing_named


def test_an_inventory_of_another_prefix_fails_the_check_of_live_objects(lake, spark):
    lake.deliver(3)
    rows = rows_of_store(lake.run(spark).store, before="elsewhere/")
    lake.delivery.write(rows, NOW - timedelta(days=2))
    _, verdict, results = mark_and_conclude(lake.by_inventory(spark))
    assert not verdict.passed
    check = next(each for each in results if each.name == "live_objects_are_listed")
    assert "is empty" in check.summary
    assert "check whether it covers all of data/" in check.summary


@pytest.mark.parametrize("minutes", [-6, -4, 0, 60])
def test_a_row_about_as_young_as_the_inventory_is_no_candidate(minutes, lake, spark):
    """S3 looks at a bucket for hours, so an inventory has younger rows than its own date."""
    at = NOW - timedelta(days=3) + timedelta(minutes=minutes)
    name = f"data/gqv3epl4fd2o8m3men70/{encode_xid(int(at.timestamp()) - 600, bytes(8))}"
    file = lake.folder / name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"an upload")
    os.utime(file, (at.timestamp(), at.timestamp()))
    lake.deliver(3)
    run = lake.by_inventory(spark)
    marked, _, _ = mark_and_conclude(run)
    assert (name in marked.addresses(run)) is (minutes == -6)
    words = "about when the inventory of 2026-11-17T02:00:00+00:00 was made, or later"
    assert (words in explain(run, name).sentence) is (minutes != -6)


def test_the_sweep_keeps_what_changed_and_reports_what_went_since(lake, spark):
    lake.deliver(3)
    file = lake.folder / lake.changed
    file.write_bytes(b"a backup that was put back")
    (lake.folder / lake.gone).unlink()
    run = lake.by_inventory(spark)
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    assert marked.addresses(run) == sorted([lake.gone, lake.changed])
    assert sweep_only(run) == {lake.gone: "already_gone", lake.changed: "kept"}
    assert file.read_bytes() == b"a backup that was put back"


def test_an_old_inventory_is_said_and_a_fresh_one_is_not_called_old(lake, spark):
    words = "the inventory is 3.0 days older than the run: garbage since then is not seen"
    for days_ago, old in ((3, True), (0.9, False)):
        lake.deliver(days_ago)
        run = lake.by_inventory(spark, NOW - timedelta(minutes=days_ago))
        mark_and_conclude(run)
        said = " ".join(report.of_mark(run).cautions)
        assert "read from the inventory" in said
        assert (words in said) is old


def test_an_inventory_from_the_future_refuses(lake, spark):
    lake.deliver(0, checksum=False)
    manifest = lake.place / lake.deliver(-1 / 24)
    with pytest.raises(UnsafePlanError, match="objects that are still being uploaded"):
        namespace_slices(lake.by_inventory(spark, inventory=str(manifest)))
    near = lake.place / lake.deliver(-4 / 24 / 60)
    assert namespace_slices(lake.by_inventory(spark, inventory=str(near)))


def test_an_inventory_of_another_bucket_refuses(lake, spark):
    manifest = lake.place / lake.deliver(1, changes={"sourceBucket": "other"})
    with pytest.raises(RepositoryStateError, match=r"of the bucket 'other'.* lies in 'local'"):
        namespace_slices(lake.by_inventory(spark, inventory=str(manifest)))


def test_a_mark_by_inventory_needs_one(lake, spark):
    with pytest.raises(NotFoundError, match="there is no inventory at"):
        namespace_slices(lake.by_inventory(spark))


def test_an_inventory_that_names_an_object_twice_ends_the_mark(lake, spark):
    rows = rows_of_store(lake.run(spark).store, before="repo/")
    twice = next(row for row in rows if row.key.endswith(lake.live))
    lake.delivery.write([*rows, twice], NOW - timedelta(days=2))
    with pytest.raises(IncompleteReadError, match=f"names {lake.live} 2 times"):
        mark_and_conclude(lake.by_inventory(spark))


@pytest.mark.slow
def test_a_mark_by_inventory_takes_ranges_and_no_slices_and_leaves_none(lake, spark):
    earlier = lake.run(spark, NOW - timedelta(minutes=2), optimized=True)
    mark_and_conclude(earlier)
    lake.deliver(1)
    run = lake.by_inventory(spark, NOW - timedelta(minutes=1), optimized=True)
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    figures = ListedFigures.of(marked.tables.slices.manifest)
    assert (figures.index.slices, figures.index.objects) == (0, 0)
    assert CommittedFigures.of(marked.tables.committed.manifest).taken.ranges > 0
    later = lake.run(spark, optimized=True)
    marked, _, _ = mark_and_conclude(later)
    figures = ListedFigures.of(marked.tables.slices.manifest)
    assert (figures.index.slices, figures.objects) == (0, 4)


def test_a_damaged_data_file_ends_the_mark_and_leaves_no_table(lake, spark):
    lake.deliver(1)
    key = next(key for key in lake.delivery.written if "/data/" in key)
    (lake.place / key).write_bytes(b"damaged")
    run = lake.by_inventory(spark)
    with pytest.raises(CorruptTableError, match=r"it has 7 bytes .* manifest says"):
        run.keep(namespace_slices(run))
    assert list(run.store.list("_lakefs/retention/gc/slices/")) == []


@pytest.mark.slow
def test_an_inventory_in_another_bucket_lists_what_s3_lists(tmp_path, spark):
    root = golden.unpack(NAME, tmp_path)
    with moto_s3() as s3:
        bucket, inventories, client = s3.bucket(), s3.bucket(), s3.client()
        for file in root.rglob("*"):
            if file.is_file():
                key = f"lake/ns/{file.relative_to(root)}"
                client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())
        delivery = Delivery(
            lambda key, data: client.put_object(Bucket=inventories, Key=key, Body=data),
            bucket=bucket,
        )
        uri = f"s3://{bucket}/lake/ns"
        with RecordedServer(NAME, root, storage_namespace=uri) as recorded:
            clock = FakeClock(recorded.now + timedelta(seconds=2))
            environment = Environment(
                server=LakeFSServer(recorded.options(), clock=clock),
                store_options=s3.options(),
                spark=lambda: spark,
                clock=clock,
            )
            found = {}
            for number, listing in enumerate(("store", "inventory")):
                where = f"s3://{inventories}/{delivery.folder}" if number else None
                options = RunOptions(inventory=where, **SMALL)
                key = RunKey.at(recorded.now - timedelta(minutes=number))
                run = open_run(environment, NAME, key, options)
                if listing == "inventory":
                    rows = rows_of_store(run.store, before="lake/ns/")
                    delivery.write(rows, recorded.now - timedelta(hours=1), "CSV")
                table = run.keep(namespace_slices(run))
                found[listing] = _without(table, "standing")
    assert found["store"] == found["inventory"]
    figures = ListedFigures.of(table.manifest)
    assert figures.inventory.manifest.startswith(f"s3://{inventories}/inv/{bucket}/all/20")
    assert figures.requests == {"list": 1, "read": 4}
    assert figures.objects == figures.inventory.rows > 0
