"""A clean run compares itself with the optimized ones before it."""

from __future__ import annotations

from typing import Any

import pytest

from spark_core.records.figures import ExpiredFigures
from spark_core.run import Run
from spark_core.spark import placement
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import Marked


@pytest.fixture
def place(sandbox: Any, request: pytest.FixtureRequest) -> HidingPlace:
    spark = None if request.param == "the driver" else request.getfixturevalue("spark")
    return HidingPlace(sandbox, spark)


def missed(marked: tuple[Run, Marked]) -> tuple[int | None, int | None]:
    found = ExpiredFigures.of(marked[1].expired.manifest).audit
    assert found is not None
    return found.missed_objects, found.missed_bytes


@pytest.mark.parametrize(
    "place",
    ["the driver", pytest.param("executors", marks=[pytest.mark.spark, pytest.mark.slow])],
    indirect=True,
)
def test_what_the_last_optimized_run_did_not_name_is_counted(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there then: part of it has become garbage since."""
    if place.spark is not None:
        monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    place.committed(60, "stays", b"stays")
    named = place.upload(50, "named", b"named")
    later = place.upload(50, "later", b"later...")
    place.upload(45, "named", b"another")
    place.mark(20, optimized=True)
    place.mark(19, optimized=True)
    place.upload(15, "later", b"another")
    younger = place.upload(14, "younger", b"younger")
    place.upload(13, "younger", b"another")
    found = place.mark(10, optimized=True, full=True)
    assert set(found[1].addresses(found[0])) == {named, later, younger}
    assert missed(found) == (1, 8)


@pytest.mark.parametrize("place", ["the driver"], indirect=True)
def test_where_what_it_named_is_gone_nobody_knows_what_it_missed(place: HidingPlace) -> None:
    place.committed(60, "stays", b"stays")
    place.upload(50, "named", b"named")
    place.upload(45, "named", b"another")
    place.mark(20, optimized=True)
    run, marked = place.mark(19, optimized=True)
    for part in marked.expired.manifest.parts:
        run.store.delete([part.key])
    assert missed(place.mark(10, optimized=True, full=True)) == (None, None)
