"""What comes to the driver, or is sent out from it, does not grow with the number of objects."""

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from benchmarks.populate import populate
from spark_core import report, sweep
from spark_core.addresses.namespace import Namespace
from spark_core.lock import lease
from spark_core.mark import listed_slices
from spark_core.records.journal import Journal
from spark_core.spark import placement
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.local import LocalStore, listing
from spark_core.sweep.leftovers import recheck_leftovers
from spark_core.undo import restore
from spark_core.upkeep import purge_quarantine
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.written_run import any_name, journal_entries

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
    """Write objects at the namespace's root, as old servers named them; return their addresses."""
    names = {f"{number:032x}" for number in range(count)}
    for name in names:
        file = sandbox.blockstore / run.namespace.path / name
        file.write_bytes(b"flat")
        os.utime(file, (OLD.timestamp(), OLD.timestamp()))
    return names


@pytest.mark.spark
@pytest.mark.deep
def test_five_times_the_objects_bring_not_one_row_more_to_the_driver(
    sandbox, spark, monkeypatch, driver_rows
):
    # Reports name some of the objects; twins are looked for under some paths at once, and some
    # addresses are held.
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 20)
    brought = []
    for number, objects in enumerate((500, 2_500)):
        name = f"repository-{number}"
        made = populate(
            sandbox,
            name,
            now=NOW,
            objects=objects,
            commits=5,
            branches=2,
            garbage=objects // 4,
            staged=10,
        )
        driver_rows.clear()
        # So many paths come to the driver as are asked about: a lot, of which no branch is asked.
        options = {
            "clock_margin": timedelta(0),
            "max_expired_share": 1,
            "flat": True,
            "twin_calls": 0,
        }
        run = open_sandbox_run(sandbox, name, spark, NOW, **options)
        flat = _flat_objects(sandbox, run, objects // 10)
        marked, verdict, _ = mark_and_conclude(run)
        assert verdict.passed
        assert flat <= set(marked.addresses(run))
        assert marked.expired.manifest.rows > made.expired // 2
        swept = run.keep(sweep.sweep(run))
        assert swept.manifest.rows == marked.expired.manifest.rows
        report.load(run)
        brought.append(Counter(driver_rows))
    assert brought[0] == brought[1]
    assert brought[0]["collect"] > 0


@pytest.fixture
def driver_calls(monkeypatch):
    """Calls of this process to the store, by kind.

    For a deletion the keys, for a listing the rows.
    """
    calls: Counter[str] = Counter()

    def counted(name, size=lambda *_: 1):
        call = getattr(LocalStore, name)

        def count(store, *asked, **options):
            calls[name] += size(*asked)
            return call(store, *asked, **options)

        monkeypatch.setattr(LocalStore, name, count)

    for name in (
        "children",
        "content",
        "exists",
        "head",
        "put_if_absent",
        "read",
        "read_range",
        "describe",
        "transfer",
    ):
        counted(name)
    counted("delete", len)
    listed = LocalStore.list

    def count_rows(store, prefix):
        for batch in listed(store, prefix):
            calls["list"] += batch.num_rows
            yield batch

    monkeypatch.setattr(LocalStore, "list", count_rows)
    # One page is always read; here it is a short one.
    monkeypatch.setattr(listing, "LISTING_BATCH_ROWS", 10)
    return calls


@pytest.mark.spark
@pytest.mark.deep
def test_five_times_the_objects_to_bring_back_to_purge_and_to_look_at_pass_the_driver_no_more(
    sandbox, spark, monkeypatch, driver_rows, driver_calls
):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 20)
    later = NOW + timedelta(days=31)
    brought = []

    def noted(what, seen):
        seen[what] = Counter(driver_rows), Counter(driver_calls)
        driver_rows.clear()
        driver_calls.clear()

    for number, objects in enumerate((500, 2_500)):
        name, seen = f"repository-{number}", {}
        sandbox.clock.set(NOW)
        populate(
            sandbox,
            name,
            now=NOW,
            objects=objects,
            commits=5,
            branches=2,
            garbage=objects // 4,
            staged=10,
        )
        options = {"clock_margin": timedelta(0), "max_expired_share": 1, "quarantine": True}
        run = open_sandbox_run(sandbox, name, spark, NOW, **options)
        marked, _, _ = mark_and_conclude(run)
        expired = marked.expired.manifest.rows
        assert expired > objects // 8
        assert run.keep(sweep.sweep(run)).manifest.facts["deleted_objects"] == expired

        noted("sweep", {})
        assert restore.restore(run).objects == Counter(restored=expired)
        noted("restore", seen)

        sandbox.clock.set(later)
        purging = open_sandbox_run(sandbox, name, spark, later, **options)
        mark_and_conclude(purging)
        done = purge_quarantine.Purged()
        noted("mark", {})
        with lease.hold_lease(purging, "prune") as held:
            purge_quarantine.purge(purging, held, done)
        assert (done.objects, done.left, done.in_use) == (expired, 0, 0)
        noted("purge", seen)

        journal = Journal(run.store, "2020-01-01T00-00-00Z", "5" * 64)
        journal.bind("repo")
        names = [f"data/s/{each}" for each in range(objects // 5)]
        journal.intend("aa.1.0.0.0", journal_entries("intended", names))
        journal.conclude("bb.1.0.0.0", journal_entries("kept", names))
        noted("journal", {})
        assert recheck_leftovers(run, journal, None, names[:3]) == set(names[:3])
        noted("leftovers", seen)
        brought.append(seen)
    for what, (rows, calls) in brought[0].items():
        more_rows, more_calls = brought[1][what]
        assert more_rows == rows, what
        # Listed here is until there is too much of it: what waits in the queue for 16 batches, and
        # one more in each of 8 threads.
        assert max(calls.pop("list", 0), more_calls.pop("list", 0)) < 300, what
        assert abs(calls.pop("children", 0) - more_calls.pop("children", 0)) <= 2, what
        assert more_calls == calls, what


@pytest.mark.parametrize(
    ("count", "tasks"), [(0, []), (1, [1]), (8, [8]), (9, [5, 4]), (10_000, [200] * 50)]
)
def test_slices_make_no_more_tasks_than_list_them_side_by_side(count, tasks):
    names = [f"data/{number:05}/" for number in range(count)]
    run = SimpleNamespace(
        reading_tasks=lambda wanted: min(wanted, 50), options=SimpleNamespace(read_threads=8)
    )
    made = listed_slices._tasks(run, None, names)
    assert [len(task.prefixes) for task in made] == tasks
    assert sorted(name for task in made for name in task.prefixes) == names


def test_flat_objects_are_listed_by_an_executor_and_not_by_the_driver(tmp_path):
    (tmp_path / "lake" / "data" / "slice").mkdir(parents=True)
    for name in ("0123456789abcdef0123456789abcdef", "dummy", "data/slice/object", "data/direct"):
        (tmp_path / "lake" / name).write_bytes(b"x")
    store = open_store(
        Namespace.parse("local://lake", server_path=str(tmp_path)),
        StoreOptions(local_path=str(tmp_path)),
    )
    figures, limits = Counter(), any_name(NOW, flat=True)
    batches = list(
        listed_slices._read(store, limits, 2, listed_slices._Listing(None, root=True), figures)
    )
    assert pa.Table.from_batches(batches).column("address").to_pylist() == [
        "0123456789abcdef0123456789abcdef"
    ]
    assert figures["list"] == 1
