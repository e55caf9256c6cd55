"""Losses where checksums of the store are believed: the index lets go what a clean run does."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from lakegc_dagster.sandbox import gc, objects
from spark_core.records.figures import ExpiredFigures
from spark_core.run import Run
from spark_core.spark import placement
from tests.support.clean_beside import why_clean
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import Marked, sweep_only

pytestmark = pytest.mark.spark

# What no object here has.
SAID = "c" * 32


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    keep_for(place, 10)
    # More paths of one size than there are candidates: asking the store costs less.
    for path in "qrst":
        place.committed(50, path, b"as long, " + path.encode() * 2)
    return place


def keep_for(place: HidingPlace, days: int) -> None:
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(days, {}))


def first(place: HidingPlace, days: float = 20) -> Run:
    """Make the first run, which saves the index."""
    run, marked = place.mark(days, optimized=True, tells=True)
    assert why_clean(marked)
    return run


def mark(place: HidingPlace, days: float = 10, **more: Any) -> tuple[Run, Marked]:
    """Mark as a clean run does, where the store tells contents."""
    return place.mark_as_a_clean_one(days, tells=True, **more)


def calls(marked: Marked) -> tuple[int, int]:
    """Return the calls to branches, and the questions to the store."""
    found = ExpiredFigures.of(marked.expired.manifest).twins
    return found.calls, found.objects_asked


def dropped(place: HidingPlace, days: float) -> str:
    """Upload and replace an object that nothing needs then, as long as the others."""
    address = place.upload(days, f"scratch{days}", b"not needed!")
    place.upload(days, f"scratch{days}", b"staged")
    return address


def require_kept(place: HidingPlace, days: float, hidden: str, path: str, **more: Any) -> None:
    """See that a mark and its sweep keep a hidden object."""
    run, marked = mark(place, days, **more)
    assert hidden not in marked.addresses(run)
    assert hidden not in sweep_only(run)
    assert place.reads(path) == hidden


# What is spared


@pytest.mark.slow
def test_branches_are_not_asked_where_the_store_tells_as_much_as_it_tells_a_clean_mark(
    place: HidingPlace,
) -> None:
    place.branch(49, "other")
    first(place)
    for days in (15, 9):
        # A new head, most of whose entries come from the index.
        place.committed(days + 2, f"new{days}", b"another size")
        garbage = dropped(place, days + 1.5)
        run, marked = mark(place, days)
        assert garbage in marked.addresses(run)
        assert calls(marked) == (0, 1)
        assert sweep_only(run) == {garbage: "deleted"}


@pytest.mark.slow
def test_identical_content_that_was_uploaded_again_is_asked_about_and_kept(
    place: HidingPlace,
) -> None:
    first(place)
    garbage = dropped(place, 17)
    hidden = place.upload(16, "q", b"as long, qq")
    run, marked = mark(place)
    assert calls(marked)[1] > 0
    assert place.reads("q") == hidden
    assert sweep_only(run) == {garbage: "deleted"}


@pytest.mark.slow
def test_executors_compare_as_the_driver_does(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    first(place)
    place.committed(18, "new", b"another size")
    mark(place, 15)
    place.lose(place.committed(13, "lost", b"gone"))
    run, _ = mark(place)
    assert sweep_only(run) == {}


# What is not believed


@pytest.mark.slow
@pytest.mark.parametrize("is_old", [False, True])
def test_47_an_object_got_an_entry_with_another_checksum(
    place: HidingPlace, *, is_old: bool
) -> None:
    old = place.committed(49, "z", b"some bytes.")
    first(place)
    # Its slice comes from the index, or it is a new one.
    said = old if is_old else place.write(18, b"the content", signed=False)
    place.stage(18, "a", said, size=11, checksum=SAID)
    place.commit(18)
    require_kept(place, 10, place.copy(16, "a", "a"), "a")


@pytest.mark.slow
def test_47_a_head_was_made_of_an_old_commit_that_nobody_had_compared(place: HidingPlace) -> None:
    keep_for(place, 100)
    said = place.write(45, b"the content", signed=False)
    place.stage(45, "lie", said, size=11, checksum=SAID)
    lied = place.commit(45)
    with place.ago(44):
        objects.delete(place.core, place.name, "main", ["lie"])
    place.commit(44)
    first(place)
    place.branch(18, "back", lied)
    hidden = place.copy(16, "lie", "lie", "back")
    run, marked = mark(place)
    assert hidden not in marked.addresses(run)
    assert hidden not in sweep_only(run)
    assert place.reads("lie", "back") == hidden


@pytest.mark.slow
def test_47_an_object_was_written_over_and_its_slice_not_listed_any_more(
    place: HidingPlace,
) -> None:
    # No candidate by its name, so that no question about candidates leads to it.
    slice_ = place.write(20.5, b"beside it", signed=False).rpartition("/")[0]
    over = f"{slice_}/not-named-by-the-server"
    place.file(over).write_bytes(b"some bytes.")
    place.date(over, 20.5)
    checksum = hashlib.md5(b"some bytes.").hexdigest()
    place.stage(20.5, "a", over, size=11, checksum=checksum)
    place.commit(20.5)
    first(place)
    place.file(over).write_bytes(b"other bytes")
    place.date(over, 19)
    # Here it is listed again: its slice had young objects.
    mark(place, 15)
    require_kept(place, 8, place.copy(13, "a", "a"), "a")


@pytest.mark.slow
def test_47_an_object_that_nobody_could_compare_came_back(place: HidingPlace) -> None:
    said = place.write(45, b"the content", signed=False)
    place.stage(45, "a", said, size=11, checksum=SAID)
    place.commit(45)
    place.lose(said)
    first(place)
    place.file(said).write_bytes(b"the content")
    place.date(said, 45)
    mark(place, 15, behind=[said])
    require_kept(place, 8, place.copy(13, "a", "a"), "a", behind=[said])


@pytest.mark.slow
def test_47_an_earlier_run_had_seen_a_checksum_that_a_client_said(place: HidingPlace) -> None:
    first(place)
    said = place.write(18, b"the content", signed=False)
    place.stage(18, "a", said, size=11, checksum=SAID)
    place.commit(18)
    for days in (15, 12):
        mark(place, days)
    require_kept(place, 6, place.copy(11, "a", "a"), "a")


def test_47_a_checksum_that_a_client_said_was_believed(place: HidingPlace) -> None:
    said = place.write(50, b"the content", signed=False)
    place.stage(50, "a", said, size=11, checksum=SAID)
    place.commit(50)
    first(place)
    require_kept(place, 10, place.copy(16, "a", "a"), "a")


@pytest.mark.slow
def test_47_a_head_came_between_mark_and_sweep_that_the_mark_had_not_compared(
    place: HidingPlace,
) -> None:
    old = place.committed(49, "z", b"some bytes.")
    first(place)
    garbage = dropped(place, 16)
    run, marked = mark(place)
    assert garbage in marked.addresses(run)
    # An entry of a said checksum, whose object the mark did not list; and another one over it.
    place.stage(9.9, "lie", old, size=11, checksum=SAID)
    place.commit(9.9)
    place.stage(9.8, "lie", garbage, size=11, checksum=SAID)
    assert place.reads("lie") == garbage
    assert sweep_only(run) != {garbage: "deleted"}
    assert place.reads("lie") == garbage


@pytest.fixture
def imported(place: HidingPlace) -> None:
    """Commit an import of which somebody says a checksum, as the ETag of an encrypted object."""
    elsewhere = place.sandbox.blockstore / "elsewhere" / "imported.bin"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"the content")
    place.stage(49, "imported", f"local://{elsewhere}", size=11, checksum=SAID)
    place.commit(49)


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize("is_first", [True, False])
def test_34_an_import_said_a_checksum_and_its_copy_looked_dead(
    place: HidingPlace, *, is_first: bool
) -> None:
    if not is_first:
        first(place)
    _require_the_copy_of_an_import_kept(place, is_first=is_first)


@pytest.mark.slow
@pytest.mark.usefixtures("imported")
def test_34_the_same_of_an_import_where_there_is_more_than_the_driver_holds(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    _require_the_copy_of_an_import_kept(place, is_first=True)


def _require_the_copy_of_an_import_kept(place: HidingPlace, *, is_first: bool) -> None:
    hidden = place.copy(16, "imported", "imported")
    run, _ = place.mark(10, optimized=True, tells=True) if is_first else mark(place)
    assert hidden not in sweep_only(run)
    assert place.reads("imported") == hidden
