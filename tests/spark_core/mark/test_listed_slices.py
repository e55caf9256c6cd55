"""Table 1 is the same however its slices are read."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa

from spark_core import schemas
from spark_core.addresses.xids import first_id
from spark_core.mark import listed_slices
from spark_core.spark import placement
from tests.support.paged_store import PagedStore
from tests.support.written_run import any_name

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


def test_a_long_slice_is_listed_from_several_names_on_and_each_row_tells_its_slice():
    long = [f"data/long/{first_id(1_700_000_000 + number)}{number:012}0" for number in range(400)]
    store = PagedStore([*long, "data/short/x"], 10)
    figures: Counter[str] = Counter()
    task = listed_slices._Listing(None, prefixes=("data/long/", "data/short/"))
    rows = pa.Table.from_batches(
        listed_slices._read(store, any_name(NOW), 8, task, figures), schemas.NAMESPACE_SLICES
    )
    assert sorted(rows["address"].to_pylist()) == sorted(store.objects)
    assert Counter(rows["slice"].to_pylist()) == {"long": 400, "short": 1}
    assert figures == store.requests
    # A page that is read may be followed by one question for a cut, by no more.
    assert 41 < figures["list"] <= 2 * 41


SLICES = [f"data/{number:02}/" for number in range(20)]


def test_the_driver_begins_all_slices_of_little(monkeypatch):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 100)
    given = listed_slices._ForDriver(SLICES)
    for _ in given:
        given.rows += 5
    assert (given.begun, given.expected, list(given.left)) == (20, 100, [])


def test_the_driver_leaves_slices_as_soon_as_all_together_would_be_too_much(monkeypatch):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 100)
    given = listed_slices._ForDriver(SLICES)
    first = [next(given) for _ in range(4)]
    given.rows = 20
    fifth = next(given)
    # Five slices of 20 hold a quarter.
    given.rows = 26
    assert given.expected == 104
    assert list(given) == []
    assert [*first, fifth, *given.left] == SLICES


def test_where_executors_are_chosen_the_driver_lists_no_slice():
    placement.choose_executors(True)
    given = listed_slices._ForDriver(SLICES)
    assert list(given) == []
    assert list(given.left) == SLICES


def test_objects_beside_the_slices_do_not_count_for_each_slice(monkeypatch):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 100)
    beside = PagedStore([f"data/{number}" for number in range(30)], 10)
    store = PagedStore([f"{name}x" for name in SLICES], 10)
    given = listed_slices._ForDriver(SLICES)
    found = pa.Table.from_batches(page.rows for page in beside.pages("data/"))
    task = listed_slices._Listing(None, prefixes=given, found=found)
    run = SimpleNamespace(
        store=store,
        limits=any_name(NOW),
        options=SimpleNamespace(read_threads=1),
        environment=SimpleNamespace(start_spark=_never),
    )
    rows = pa.Table.from_batches(listed_slices._read_by_driver(run, given, task, Counter()))
    assert (rows.num_rows, list(given.left)) == (50, [])


def _never():
    raise AssertionError("Spark was asked for")
