"""Closed slices go into the index, and later runs take them from it instead of listing them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_core import lakegc_keys
from spark_core.errors import IncompleteReadError
from spark_core.index import deletions
from spark_core.index.choosing import slice_seconds
from spark_core.mark import listed_slices, listing
from spark_core.mark.listing import namespace_slices
from spark_core.records import tables, writing
from spark_core.records.figures import ListedFigures
from spark_core.records.writing import Draft, Written
from spark_core.spark import placement
from tests.support.hidden_entries import HidingPlace
from tests.support.small_index import index_parts, leave_index, listed, rows
from tests.support.written_run import Written as WrittenRun

OPTIONS: dict[str, Any] = {"optimized": True}


@pytest.fixture(autouse=True)
def _stored_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each file lie in the store, as those of large repositories do."""
    monkeypatch.setattr(writing, "HELD_BYTES", 0)


@pytest.fixture
def place(sandbox: Any) -> HidingPlace:
    return HidingPlace(sandbox, None)


def slice_of(address: str) -> str:
    return address.split("/")[1]


def in_index(run: Any) -> list[str]:
    found = [key for batch in run.store.list(lakegc_keys.INDEX) for key in batch["key"].to_pylist()]
    return sorted(key.removeprefix(lakegc_keys.INDEX) for key in found)


def put(place: HidingPlace, key: str, days: float) -> str:
    file = place.file(key)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"somebody's")
    place.date(key, days)
    return key


def report_deleted(run: Any, *addresses: str) -> None:
    """Store the report of a sweep."""
    WrittenRun(run).sweep(dict.fromkeys(addresses, (3, "deleted", None)))


def test_old_slices_lie_in_the_index_and_all_else_in_the_run(place: HidingPlace) -> None:
    old, new = place.upload(50, "old", b"old"), place.upload(6, "new", b"new")
    sharded = put(place, "data/!a/b", 50)
    direct = put(place, "data/directly", 50)
    run = place.run(3, **OPTIONS)
    table, figures = listed(run)
    assert set(rows(table)) == {old, new, sharded, direct}
    of_index = {part.key for part in index_parts(table)}
    assert in_index(run) == sorted(key.removeprefix(lakegc_keys.INDEX) for key in of_index)
    assert figures.index is None
    assert figures.closed_before is not None
    assert slice_seconds(slice_of(old)) < figures.closed_before <= slice_seconds(slice_of(new))
    assert figures.open_slices == ()
    (part,) = of_index
    (batch,) = run.store.read_parquet(part)
    assert batch.column("address").to_pylist() == [old]


def test_the_next_run_lists_the_rest_and_has_the_same_rows(place: HidingPlace) -> None:
    old, new = place.upload(50, "old", b"old"), place.upload(6, "new", b"new")
    first = place.run(3, **OPTIONS)
    table, _ = listed(first)
    saved = leave_index(first, table)
    later = place.upload(2, "later", b"later")
    run = place.run(1, **OPTIONS)
    again, figures = listed(run)
    clean, of_clean = listed(place.run(1.01, optimized=False))
    assert rows(again) == rows(clean)
    assert set(rows(again)) == {old, new, later}
    index = figures.index
    assert index is not None
    assert (index.run, index.saved) == (str(first.key), saved.digest)
    assert (index.slices, index.objects, index.bytes) == (1, 1, 3)
    for name in ("slices", "objects", "object_bytes", "old_objects", "old_bytes", "last_slice"):
        assert getattr(figures, name) == getattr(of_clean, name), name
    # Nothing was closed meanwhile, and the file of the first run is taken as it is.
    assert index_parts(again) == index_parts(table)


def test_a_run_that_saves_nothing_writes_nothing_into_the_index(place: HidingPlace) -> None:
    place.upload(50, "old", b"old")
    run = place.run(3, optimized=False)
    table, figures = listed(run)
    assert in_index(run) == []
    assert index_parts(table) == ()
    assert figures.closed_before is None


def test_a_slice_with_a_young_object_is_open_and_listed_again(place: HidingPlace) -> None:
    old, other = place.upload(50, "old", b"old"), place.upload(40, "other", b"other")
    # Written over behind lakeFS's back.
    place.date(other, 9.5)
    first = place.run(9, **OPTIONS)
    table, figures = listed(first)
    assert figures.open_slices == (slice_of(other),)
    saved = leave_index(first, table)
    assert saved.open_slices == (slice_of(other),)
    run = place.run(1, **OPTIONS)
    again, figures = listed(run)
    assert figures.index is not None
    assert (figures.index.slices, figures.index.objects, figures.index.gone_objects) == (1, 1, 0)
    assert {name: row["standing"] for name, row in rows(again).items()} == {
        old: "candidate",
        other: "candidate",
    }
    assert rows(table)[other]["standing"] == "young"
    # It is closed now: its row of the first run does not count, and that of this one does.
    assert figures.open_slices == ()
    parts = index_parts(again)
    assert [part.rows for part in parts] == [1, 1]
    assert [None if part.without is None else part.without.rows for part in parts].count(1) == 1
    leave_index(run, again, before=saved)
    third, figures = listed(place.run(0, **OPTIONS))
    assert rows(third) == rows(again)
    assert figures.index is not None
    assert figures.index.objects == 2


@pytest.mark.parametrize(
    ("days", "is_open"),
    [(2, True), (7.045, True), (7.0452, False)],
    ids=["of two days", "as young as no closed slice", "older"],
)
def test_an_object_younger_than_closed_slices_keeps_its_slice_open(
    place: HidingPlace, days: float, *, is_open: bool
) -> None:
    """A slice of nine days is closed by its name; by an hour and five minutes more than a week."""
    old = place.upload(12, "old", b"old")
    # Written over behind lakeFS's back, longer ago than the minimum age.
    place.date(old, 3 + days)
    table, figures = listed(place.run(3, **OPTIONS))
    assert figures.closed_before is not None
    assert slice_seconds(slice_of(old)) < figures.closed_before
    assert rows(table)[old]["standing"] == "candidate"
    assert figures.open_slices == ((slice_of(old),) if is_open else ())


def test_a_slice_with_a_name_that_is_never_collected_stays_open(place: HidingPlace) -> None:
    old = place.upload(50, "old", b"old")
    put(place, f"data/{slice_of(old)}/_lakefs/x", 50)
    run = place.run(3, **OPTIONS)
    _, figures = listed(run)
    assert figures.nested_objects == 1
    assert figures.open_slices == (slice_of(old),)


def test_more_open_slices_than_are_named_leave_no_slices(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_OPEN", 0)
    place.date(place.upload(50, "old", b"old"), 3.5)
    _, figures = listed(place.run(3, **OPTIONS))
    assert (figures.open_slices, figures.closed_before) == (None, None)


@pytest.mark.parametrize("holds", [0, 2**17], ids=["in the store", "in the documents"])
def test_what_a_sweep_deleted_is_left_out(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch, holds: int
) -> None:
    monkeypatch.setattr(writing, "HELD_BYTES", holds)
    some = [place.upload(50, f"old{number}", b"old") for number in range(3)]
    first = place.run(3, **OPTIONS)
    table, _ = listed(first)
    saved = leave_index(first, table)
    place.lose(some[1])
    report_deleted(first, some[1])
    run = place.run(2, **OPTIONS)
    again, figures = listed(run)
    assert set(rows(again)) == {some[0], some[2]}
    assert figures.index is not None
    assert (figures.index.objects, figures.index.bytes, figures.index.gone_objects) == (2, 6, 1)
    (part,) = index_parts(again)
    assert part.without is not None
    assert bool(part.without.content) == bool(holds)
    assert any(name.startswith("gone-") for name in in_index(run)) != bool(holds)
    leave_index(run, again, before=saved)
    # The sweep of the second run goes on; what the first one deleted stays out.
    place.lose(some[2])
    report_deleted(run, some[2])
    third, figures = listed(place.run(1, **OPTIONS))
    assert set(rows(third)) == {some[0]}
    assert figures.index is not None
    assert figures.index.gone_objects == 1


def test_a_slice_that_the_store_shows_no_more_is_left_out(place: HidingPlace) -> None:
    gone, stays = place.upload(50, "gone", b"gone"), place.upload(40, "stays", b"stays")
    first = place.run(3, **OPTIONS)
    leave_index(first, listed(first)[0])
    place.lose(gone)
    place.file(f"data/{slice_of(gone)}").rmdir()
    again, figures = listed(place.run(2, **OPTIONS))
    assert set(rows(again)) == {stays}
    assert figures.index is not None
    assert (figures.index.slices, figures.index.objects) == (1, 1)


def test_an_object_that_vanished_from_a_closed_slice_is_kept_by_the_index(
    place: HidingPlace,
) -> None:
    """It is seen again before it is named."""
    gone, stays = place.upload(50, "gone", b"gone"), place.upload(50, "stays", b"stays")
    first = place.run(3, **OPTIONS)
    leave_index(first, listed(first)[0])
    place.lose(gone)
    again, _ = listed(place.run(2, **OPTIONS))
    assert set(rows(again)) == {gone, stays}


def test_a_damaged_file_makes_the_run_a_clean_one(place: HidingPlace) -> None:
    old = place.upload(50, "old", b"old")
    first = place.run(3, **OPTIONS)
    table, _ = listed(first)
    leave_index(first, table)
    (part,) = index_parts(table)
    data = first.store.read(part.key)
    first.store.put(part.key, bytes([data[0] ^ 1]) + data[1:])
    run = place.run(2, **OPTIONS)
    again, figures = listed(run)
    assert figures.index is None
    assert figures.why_full is not None
    assert f"the index of run {first.key} cannot be used: {part.key}: sha256 is" in figures.why_full
    assert set(rows(again)) == {old}
    # It leaves a whole new one.
    assert part.key not in {part.key for part in index_parts(again)}


def test_more_deleted_objects_than_the_driver_holds_make_the_run_a_clean_one(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [place.upload(50, f"old{number}", b"old") for number in range(3)]
    first = place.run(3, **OPTIONS)
    leave_index(first, listed(first)[0])
    report_deleted(first, *some[:2])
    monkeypatch.setattr(deletions, "placement", SimpleNamespace(MOST_ROWS_OF_THE_DRIVER=1))
    _, figures = listed(place.run(2, **OPTIONS))
    assert figures.index is None
    assert "more than 1 objects were deleted since" in str(figures.why_full)


def test_a_listing_that_broke_off_leaves_no_file(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.upload(50, "old", b"old")
    place.upload(2, "new", b"new")
    listed_before = listed_slices.list_below
    calls = []

    def breaking(store: Any, prefixes: Any, *, threads: int) -> Any:
        yield from listed_before(store, prefixes, threads=threads)
        calls.append(1)
        if len(calls) == 2:
            raise IncompleteReadError("a test broke it")

    monkeypatch.setattr(listed_slices, "list_below", breaking)
    run = place.run(3, **OPTIONS)
    with pytest.raises(IncompleteReadError, match="a test broke it"):
        namespace_slices(run)
    assert in_index(run) == []
    assert not list(run.store.list(tables.folder(tables.NAMESPACE_SLICES, run.key)))


@pytest.mark.spark
def test_the_driver_and_executors_make_the_same_of_it(
    sandbox: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = HidingPlace(sandbox, spark)
    names = [place.upload(50 - number, f"old{number}", b"old") for number in range(5)]
    young = place.upload(20, "young", b"young")
    place.date(young, 3.5)
    first = place.run(3, **OPTIONS)
    leave_index(first, listed(first)[0])
    report_deleted(first, names[3])
    place.lose(names[3])
    by_driver, of_driver = listed(place.run(2, **OPTIONS))
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    # The same number keeps the driver from holding the hashes of what was deleted.
    monkeypatch.setattr(deletions, "placement", SimpleNamespace(MOST_ROWS_OF_THE_DRIVER=9))
    run = place.run(1, **OPTIONS)
    _forget(place, of_driver)
    by_executors, of_executors = listed(run)
    assert of_executors.index is not None
    assert rows(by_executors) == rows(by_driver)
    assert any(name.startswith("gone-") for name in in_index(run))
    for name in ("objects", "object_bytes", "old_objects", "open_slices"):
        assert getattr(of_executors, name) == getattr(of_driver, name), name


def _forget(place: HidingPlace, figures: ListedFigures) -> None:
    """Let the run before never have been: as it did not end, the next one would be clean."""
    assert figures.index is not None
    run = place.run(2, **OPTIONS)
    folder = tables.folder(tables.NAMESPACE_SLICES, run.key)
    run.store.delete([key for batch in run.store.list(folder) for key in batch["key"].to_pylist()])


def test_the_table_is_stored_with_the_files_of_the_index(place: HidingPlace) -> None:
    place.upload(50, "old", b"old")
    run = place.run(3, **OPTIONS)
    draft = namespace_slices(run)
    assert isinstance(draft, Draft)
    assert isinstance(draft.content, Written)
    parts = writing.parts_of(draft.content.receipts)
    assert [part.key.startswith(lakegc_keys.INDEX) for part in parts].count(True) == 1
    stored = run.keep(draft)
    assert stored.manifest.parts == parts
