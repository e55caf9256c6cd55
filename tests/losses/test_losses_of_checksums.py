"""Losses where an optimized run believes checksums that its base has compared."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from lakegc_dagster.sandbox import gc, objects
from spark_core import schemas
from spark_core.records.figures import CommittedFigures, ExpiredFigures, ListedFigures
from spark_core.run import Run
from spark_core.spark import placement
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import Marked, mark_and_conclude, sweep_only
from tests.support.telling_store import TellingStore

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


def mark(
    place: HidingPlace, days: float, *, full: bool = False, tells: bool = True
) -> tuple[Run, Marked]:
    run = place.run(days, max_expired_share=1, max_missing_share=1, optimized=True)
    if tells:
        run = replace(run, store=TellingStore(run.store.namespace, run.store.options))
    marked, verdict, results = mark_and_conclude(replace(run, full=full))
    assert verdict.passed, [result for result in results if not result.passed]
    return run, marked


def is_optimized(marked: Marked) -> bool:
    return ListedFigures.of(marked.tables.slices.manifest).base is not None


def agrees(marked: Marked) -> bool | None:
    return ExpiredFigures.of(marked.expired.manifest).checksums_agree


def calls(marked: Marked) -> tuple[int, int]:
    """Return the calls to branches, and the questions to the store."""
    found = ExpiredFigures.of(marked.expired.manifest).twins
    return found.calls, found.objects_asked


def dropped(place: HidingPlace, days: float) -> str:
    """Upload and replace an object that nothing needs then, as long as the others."""
    address = place.upload(days, f"scratch{days}", b"not needed!")
    place.upload(days, f"scratch{days}", b"staged")
    return address


def kept_by_an_optimized_mark(place: HidingPlace, days: float, hidden: str, path: str) -> None:
    """See that it keeps what a full one at that moment keeps."""
    run, marked = mark(place, days)
    assert is_optimized(marked)
    assert hidden not in marked.addresses(run)
    assert place.reads(path) == hidden
    assert hidden not in sweep_only(run)
    full, marked = mark(place, days - 0.5, full=True)
    assert hidden not in marked.addresses(full)


# What is spared


def test_branches_are_not_asked_where_the_store_tells_as_much_as_it_tells_a_full_mark(
    place: HidingPlace,
) -> None:
    place.branch(49, "other")
    assert agrees(mark(place, 20)[1]) is True
    for days in (15, 12, 9):
        # A new head, whose other entries an earlier run compared.
        place.committed(days + 2, f"new{days}", b"another size")
        garbage = dropped(place, days + 1.5)
        run, marked = mark(place, days)
        assert is_optimized(marked)
        assert garbage in marked.addresses(run)
        assert (calls(marked), agrees(marked)) == ((0, 1), True)
        change = CommittedFigures.of(marked.tables.committed.manifest).change
        assert change is not None
        # What was staged at the base, and older than the slices that are listed.
        assert change.looked_up <= 1
        assert sweep_only(run) == {garbage: "deleted"}
    # A full one asks no less.
    dropped(place, 7)
    assert calls(mark(place, 5, full=True)[1]) == (0, 1)


def test_identical_content_that_was_uploaded_again_is_asked_about_and_kept(
    place: HidingPlace,
) -> None:
    mark(place, 20)
    garbage = dropped(place, 17)
    hidden = place.upload(16, "q", b"as long, qq")
    run, marked = mark(place, 10)
    assert is_optimized(marked)
    assert calls(marked)[1] > 0
    assert place.reads("q") == hidden
    assert sweep_only(run) == {garbage: "deleted"}


def test_executors_compare_as_the_driver_does(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    assert agrees(mark(place, 20)[1]) is True
    place.committed(18, "new", b"another size")
    assert agrees(mark(place, 15)[1]) is True
    place.lose(place.committed(13, "lost", b"gone"))
    run, marked = mark(place, 10)
    assert is_optimized(marked)
    assert agrees(marked) is False
    assert sweep_only(run) == {}


# What is not believed


@pytest.mark.parametrize("is_old", [False, True])
def test_47_an_object_got_an_entry_with_another_checksum(
    place: HidingPlace, *, is_old: bool
) -> None:
    old = place.committed(49, "z", b"some bytes.")
    assert agrees(mark(place, 20)[1]) is True
    # Its slice is not listed again, or it is a new one.
    said = old if is_old else place.write(18, b"the content", signed=False)
    place.stage(18, "a", said, size=11, checksum=SAID)
    place.commit(18)
    kept_by_an_optimized_mark(place, 10, place.copy(16, "a", "a"), "a")


def test_47_a_head_was_made_of_an_old_commit_that_nobody_had_compared(place: HidingPlace) -> None:
    keep_for(place, 100)
    said = place.write(45, b"the content", signed=False)
    place.stage(45, "lie", said, size=11, checksum=SAID)
    lied = place.commit(45)
    with place.ago(44):
        objects.delete(place.core, place.name, "main", ["lie"])
    place.commit(44)
    assert agrees(mark(place, 20)[1]) is True
    place.branch(18, "back", lied)
    hidden = place.copy(16, "lie", "lie", "back")
    run, marked = mark(place, 10)
    assert is_optimized(marked)
    assert agrees(marked) is False
    assert hidden not in marked.addresses(run)
    assert hidden not in sweep_only(run)
    assert place.reads("lie", "back") == hidden


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
    assert agrees(mark(place, 20)[1]) is True
    place.file(over).write_bytes(b"other bytes")
    place.date(over, 19)
    # Here it is listed again, and nothing may go.
    _, marked = mark(place, 15)
    assert is_optimized(marked)
    assert agrees(marked) is False
    kept_by_an_optimized_mark(place, 8, place.copy(13, "a", "a"), "a")


def test_47_an_object_that_nobody_could_compare_came_back(place: HidingPlace) -> None:
    said = place.write(45, b"the content", signed=False)
    place.stage(45, "a", said, size=11, checksum=SAID)
    place.commit(45)
    place.lose(said)
    assert agrees(mark(place, 20)[1]) is False
    place.file(said).write_bytes(b"the content")
    place.date(said, 45)
    assert is_optimized(mark(place, 15)[1])
    kept_by_an_optimized_mark(place, 8, place.copy(13, "a", "a"), "a")


def test_47_an_earlier_optimized_run_had_seen_a_checksum_that_a_client_said(
    place: HidingPlace,
) -> None:
    assert agrees(mark(place, 20)[1]) is True
    said = place.write(18, b"the content", signed=False)
    place.stage(18, "a", said, size=11, checksum=SAID)
    place.commit(18)
    for days in (15, 12):
        _, marked = mark(place, days)
        assert is_optimized(marked)
        assert agrees(marked) is False
    kept_by_an_optimized_mark(place, 6, place.copy(11, "a", "a"), "a")


def test_47_a_head_came_between_mark_and_sweep_that_the_mark_had_not_compared(
    place: HidingPlace,
) -> None:
    old = place.committed(49, "z", b"some bytes.")
    mark(place, 20)
    garbage = dropped(place, 16)
    run, marked = mark(place, 10)
    assert is_optimized(marked)
    assert garbage in marked.addresses(run)
    # An entry of a said checksum, whose object the mark did not list; and another one over it.
    place.stage(9.9, "lie", old, size=11, checksum=SAID)
    place.commit(9.9)
    place.stage(9.8, "lie", garbage, size=11, checksum=SAID)
    assert place.reads("lie") == garbage
    assert sweep_only(run) != {garbage: "deleted"}
    assert place.reads("lie") == garbage


def test_a_base_of_an_earlier_version_has_compared_nothing_and_every_branch_is_asked(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = schemas.SKETCHES.get_field_index("contents")
    with monkeypatch.context() as earlier:
        earlier.setattr(schemas, "SKETCHES", schemas.SKETCHES.remove(at))
        assert agrees(mark(place, 20, tells=False)[1]) is None
    garbage = dropped(place, 16)
    run, marked = mark(place, 10)
    assert is_optimized(marked)
    assert agrees(marked) is False
    assert calls(marked)[0] > 0
    assert set(marked.addresses(run)) == {garbage}
    # The next full run compares everything.
    assert agrees(mark(place, 9, full=True)[1]) is True


def _an_import_says_a_checksum(place: HidingPlace, *, full: bool) -> None:
    elsewhere = place.sandbox.blockstore / "elsewhere" / "imported.bin"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"the content")
    # The ETag of an encrypted object, for instance.
    place.stage(49, "imported", f"local://{elsewhere}", size=11, checksum=SAID)
    place.commit(49)
    if not full:
        mark(place, 20)
    hidden = place.copy(16, "imported", "imported")
    run, marked = mark(place, 10, full=full)
    assert is_optimized(marked) != full
    assert hidden not in sweep_only(run)
    assert place.reads("imported") == hidden


@pytest.mark.parametrize("full", [True, False])
def test_34_an_import_said_a_checksum_and_its_copy_looked_dead(
    place: HidingPlace, *, full: bool
) -> None:
    _an_import_says_a_checksum(place, full=full)


def test_34_the_same_of_an_import_where_there_is_more_than_the_driver_holds(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    _an_import_says_a_checksum(place, full=True)
