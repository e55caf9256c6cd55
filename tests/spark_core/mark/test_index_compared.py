"""A clean run says where the index before it differs from what it lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spark_core.mark.index_compared import compared_with_index
from spark_core.records import writing
from spark_core.records.figures import ComparedFigures
from tests.support.hidden_entries import HidingPlace
from tests.support.small_index import leave_index, listed
from tests.support.written_run import Written

OPTIONS: dict[str, Any] = {"optimized": True}


@pytest.fixture(autouse=True)
def _stored_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each file lie in the store, as those of large repositories do."""
    monkeypatch.setattr(writing, "HELD_BYTES", 0)


@pytest.fixture
def place(sandbox: Any) -> HidingPlace:
    place = HidingPlace(sandbox, None)
    for number in range(4):
        place.upload(50 - number, f"old{number}", b"old")
    return place


def compared(place: HidingPlace) -> ComparedFigures | None:
    run = replace(place.run(1, **OPTIONS), full=True)
    return compared_with_index(run, listed(run)[0])


def indexed(place: HidingPlace) -> Any:
    run = place.run(3, **OPTIONS)
    leave_index(run, listed(run)[0])
    return run


def addresses(place: HidingPlace) -> list[str]:
    root = place.file("data")
    return sorted(f"data/{file.relative_to(root)}" for file in root.rglob("*") if file.is_file())


def test_nothing_differs(place: HidingPlace) -> None:
    run = indexed(place)
    place.upload(2, "new", b"new")
    assert compared(place) == ComparedFigures(run=str(run.key), objects=4)


def test_what_came_went_and_changed_is_counted(place: HidingPlace) -> None:
    run = indexed(place)
    one, two, three, _ = addresses(place)
    place.lose(one)
    place.file(two).write_bytes(b"longer")
    place.date(three, 20)
    place.file(f"{three[:-1]}{'0' if three[-1] == 'g' else 'g'}").write_bytes(b"came")
    assert compared(place) == ComparedFigures(
        run=str(run.key), objects=4, lacking_objects=1, extra_objects=1, other_objects=2
    )


def test_what_a_sweep_deleted_differs_for_nobody(place: HidingPlace) -> None:
    run = indexed(place)
    gone, back, *_ = addresses(place)
    Written(run).sweep(dict.fromkeys((gone, back), (3, "deleted", None)))
    place.lose(gone)
    assert compared(place) == ComparedFigures(run=str(run.key), objects=2)


def test_open_slices_are_not_compared(place: HidingPlace) -> None:
    place.date(addresses(place)[0], 3.5)
    run = indexed(place)
    assert compared(place) == ComparedFigures(run=str(run.key), objects=3)


def test_without_an_index_there_is_nothing_to_say(place: HidingPlace) -> None:
    assert compared(place) is None


def test_a_damaged_index_says_nothing(place: HidingPlace) -> None:
    run = indexed(place)
    for file in place.file("_lakefs/retention/gc/index").iterdir():
        file.write_bytes(b"damaged")
    del run
    assert compared(place) is None
