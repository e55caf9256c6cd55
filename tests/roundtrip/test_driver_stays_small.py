"""What comes to the driver, or is sent out from it, does not grow with the number of objects."""

import os
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from lakegc_dagster.sandbox.populate import populate
from spark_core import report, sweep, tables
from spark_core.mark import slices, twins
from spark_core.namespace import Namespace
from spark_core.storage import StoreOptions, open_store
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_runs import open_sandbox_run

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
OLD = NOW - timedelta(days=3)


@pytest.fixture
def driver_rows(monkeypatch):
    """Rows that passed between frames and this process, by way."""
    rows: Counter[str] = Counter()
    collect, to_arrow, create = DataFrame.collect, DataFrame.toArrow, SparkSession.createDataFrame

    def counted(frame):
        found = collect(frame)
        rows["collect"] += len(found)
        return found

    def counted_as_arrow(frame):
        found = to_arrow(frame)
        rows["toArrow"] += found.num_rows
        return found

    def forbidden(name):
        def refuse(*_args, **_options):
            raise AssertionError(f"{name} brings a whole frame to the driver")

        return refuse

    def created(session, data, *args, **options):
        rows["createDataFrame"] += data.num_rows
        return create(session, data, *args, **options)

    monkeypatch.setattr(DataFrame, "collect", counted)
    monkeypatch.setattr(DataFrame, "toArrow", counted_as_arrow)
    monkeypatch.setattr(SparkSession, "createDataFrame", created)
    for name in ("toPandas", "toLocalIterator", "foreach", "foreachPartition"):
        monkeypatch.setattr(DataFrame, name, forbidden(name))
    return rows


def _flat_objects(sandbox, run, count):
    """Write objects as old servers named them, at the namespace's root, and return their addresses."""
    names = {f"{number:032x}" for number in range(count)}
    for name in names:
        file = sandbox.blockstore / run.namespace.path / name
        file.write_bytes(b"flat")
        os.utime(file, (OLD.timestamp(), OLD.timestamp()))
    return names


@pytest.mark.spark
@pytest.mark.deep
def test_five_times_the_objects_bring_not_one_row_more_to_the_driver(sandbox, spark, monkeypatch, driver_rows):
    # Reports name some of the objects; twins are looked for under some paths at once, and some addresses are held.
    monkeypatch.setattr(twins, "LOT", 20)
    monkeypatch.setattr(twins, "FOUND", 20)
    # A small table is read by the driver whole, up to a constant: below it, here.
    monkeypatch.setattr(tables, "DRIVER_ROWS", 0)
    brought = []
    for number, objects in enumerate((500, 2_500)):
        name = f"repository-{number}"
        made = populate(sandbox, name, now=NOW, objects=objects, commits=5, branches=2, garbage=objects // 4, staged=10)
        driver_rows.clear()
        # So many paths come to the driver as are asked about: a lot, of which no branch is asked.
        options = {"clock_margin": timedelta(0), "max_expired_share": 1, "flat": True, "twin_calls": 0}
        run = open_sandbox_run(sandbox, name, spark, NOW, **options)
        flat = _flat_objects(sandbox, run, objects // 10)
        marked, verdict, _ = mark_and_conclude(run)
        assert verdict.passed
        assert flat <= set(marked.addresses(run))
        # Which the test itself has just collected.
        driver_rows["collect"] -= marked.expired.manifest.rows
        assert marked.expired.manifest.rows > made.expired // 2
        swept = run.keep(sweep.sweep(run))
        assert swept.manifest.rows == marked.expired.manifest.rows
        report.load(run)
        brought.append(Counter(driver_rows))
    assert brought[0] == brought[1]
    assert brought[0]["collect"] > 0


class Totals:
    """Stands for Spark's accumulator where there is no Spark."""

    def __init__(self):
        self.value = Counter()

    def add(self, counts):
        self.value += counts


def test_flat_objects_are_listed_by_an_executor_and_not_by_the_driver(tmp_path):
    (tmp_path / "lake" / "data" / "slice").mkdir(parents=True)
    for name in ("0123456789abcdef0123456789abcdef", "dummy", "data/slice/object", "data/direct"):
        (tmp_path / "lake" / name).write_bytes(b"x")
    store = open_store(
        Namespace.parse("local://lake", server_path=str(tmp_path)), StoreOptions(local_path=str(tmp_path))
    )
    totals = Totals()
    batches = list(slices._read(store, totals, 2, slices._Listing(root=True)))
    assert pa.Table.from_batches(batches).column("address").to_pylist() == ["0123456789abcdef0123456789abcdef"]
    assert totals.value["list"] == 1
