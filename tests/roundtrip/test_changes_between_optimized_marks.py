"""Each kind of change between two marks: the second finds with the index what a clean one does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox, gc, merge, objects
from spark_core import holds, mark
from tests.support.hidden_entries import NOW, HidingPlace
from tests.support.pipeline import sweep_only

# Random histories with the index, which hold all of these, are in the default tests.
pytestmark = [pytest.mark.spark, pytest.mark.slow]

OPTIMIZED: dict[str, Any] = {"optimized": True}
FIRST, NEXT = 20, 10


@pytest.fixture
def place(sandbox: Sandbox, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    keep_for(place, 30)
    place.committed(55, "beside", b"something that stays")
    return place


def keep_for(place: HidingPlace, days: int) -> None:
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(days, {}))


def reset(place: HidingPlace, days: float, branch: str = "main") -> None:
    with place.ago(days):
        objects.reset(place.core, place.name, branch, kind="reset")


def named(place: HidingPlace, days: float = NEXT, **options: Any) -> set[str]:
    """Mark with the index, and clean in the same state; both name the same."""
    run, marked = place.mark_as_a_clean_one(days, **options)
    return set(marked.addresses(run))


@pytest.mark.slow
def test_garbage_of_a_newer_slice_is_named(place: HidingPlace) -> None:
    place.mark(FIRST, **OPTIMIZED)
    dead = place.upload(15, "p", b"dead")
    place.upload(15, "p", b"staged")
    assert named(place) == {dead}


def test_what_was_too_young_at_the_first_mark_is_named_later(place: HidingPlace) -> None:
    dead = place.upload(FIRST + 0.5, "p", b"dead")
    place.upload(FIRST + 0.5, "p", b"staged")
    _, marked = place.mark(FIRST, **OPTIMIZED)
    assert marked.expired.manifest.rows == 0
    assert named(place) == {dead}


def test_what_was_written_at_last_to_an_old_slice_is_named_later(place: HidingPlace) -> None:
    """Its name is older than what is listed again, and an object in it is younger."""
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    place.date(dead, FIRST + 0.5)
    _, marked = place.mark(FIRST, **OPTIMIZED)
    assert marked.expired.manifest.rows == 0
    assert named(place) == {dead}


def test_what_came_later_to_an_older_address_is_named(
    place: HidingPlace,
) -> None:
    """An address is good for a day, and its slice was closed by the first run."""
    late = place.write(FIRST + 0.5, b"written late", signed=True)
    content = place.file(late).read_bytes()
    place.lose(late)
    place.mark(FIRST, **OPTIMIZED)
    place.file(late).write_bytes(content)
    place.date(late, FIRST - 0.4)
    assert named(place) == {late}


def test_what_was_staged_at_the_first_mark_and_is_not_now_is_named(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.mark(FIRST, **OPTIMIZED)
    reset(place, 15)
    assert named(place) == {dead}


def test_what_was_staged_and_reset_and_is_staged_again_is_not_named(place: HidingPlace) -> None:
    staged = place.upload(40, "p", b"staged")
    checksum = place.checksum("p")
    place.mark(FIRST, **OPTIMIZED)
    reset(place, 15)
    place.stage(14, "elsewhere", staged, size=6, checksum=checksum)
    assert named(place) == set()


@pytest.mark.slow
def test_what_was_staged_at_the_first_mark_and_was_committed_since_is_not_named(
    place: HidingPlace,
) -> None:
    place.upload(40, "p", b"staged")
    place.mark(FIRST, **OPTIMIZED)
    place.commit(15)
    assert named(place) == set()


def test_what_only_a_commit_of_between_had_is_named_when_it_expires(place: HidingPlace) -> None:
    old = place.committed(50, "p", b"first")
    place.committed(45, "p", b"second")
    place.mark(FIRST, **OPTIMIZED)
    keep_for(place, 5)
    assert named(place) == {old}


@pytest.mark.slow
def test_what_longer_rules_keep_again_is_not_named(place: HidingPlace) -> None:
    old = place.committed(54, "p", b"first")
    place.committed(53, "p", b"second")
    keep_for(place, 5)
    run, marked = place.mark(FIRST, **OPTIMIZED)
    # Nobody swept it.
    assert marked.addresses(run) == [old]
    keep_for(place, 100)
    assert named(place) == set()


def test_what_nobody_swept_is_named_again(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    run, marked = place.mark(FIRST, **OPTIMIZED)
    assert marked.addresses(run) == [dead]
    assert named(place) == {dead}


def test_what_a_hold_kept_at_the_first_mark_is_named_once_it_is_gone(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    run = place.run(FIRST + 1, **OPTIMIZED)
    holds.add(run, "kept", "address", dead, who="me", why="test")
    run, marked = place.mark(FIRST, **OPTIMIZED)
    assert marked.addresses(run) == []
    holds.remove(run, "kept")
    assert named(place) == {dead}


def test_what_a_hold_that_was_made_since_keeps_is_not_named(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    run, marked = place.mark(FIRST, **OPTIMIZED)
    assert marked.addresses(run) == [dead]
    holds.add(place.run(15, **OPTIMIZED), "kept", "address", dead, who="me", why="test")
    assert named(place) == set()


def test_what_a_branch_from_an_old_commit_has_again_is_not_named(place: HidingPlace) -> None:
    keep_for(place, 5)
    place.upload(50, "p", b"first")
    old = place.commit(50)
    place.committed(45, "p", b"second")
    run, marked = place.mark(FIRST, **OPTIMIZED)
    assert marked.expired.manifest.rows == 1
    place.branch(15, "back", old)
    assert named(place) == set()
    assert place.reads("p", "back") in marked.addresses(run)


@pytest.mark.slow
def test_what_a_revert_brought_back_is_not_named(place: HidingPlace) -> None:
    keep_for(place, 5)
    first = place.committed(50, "p", b"first")
    place.upload(45, "p", b"second")
    second = place.commit(45)
    run, marked = place.mark(FIRST, **OPTIMIZED)
    assert marked.addresses(run) == [first]
    with place.ago(15):
        merge.revert(place.core, place.name, "main", second, parent_number=0)
    assert place.reads("p") == first
    assert first not in named(place)


def test_a_mark_that_was_killed_since_is_passed_over(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.mark(FIRST, **OPTIMIZED)
    killed = replace(place.run(15, **OPTIMIZED), full=True)
    killed.keep(mark.namespace_slices(killed))
    reset(place, 14)
    assert named(place) == {dead}


def test_what_a_sweep_took_is_not_named_again(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    run, _ = place.mark(FIRST, **OPTIMIZED)
    assert sweep_only(run) == {dead: "deleted"}
    assert named(place) == set()


@pytest.mark.parametrize(
    "is_full", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["with the index", "clean"]
)
def test_what_the_sweep_of_an_older_mark_took_after_a_newer_one_is_not_there(
    place: HidingPlace, *, is_full: bool
) -> None:
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    place.mark(FIRST + 1, **OPTIMIZED)
    place.mark(FIRST, full=is_full, **OPTIMIZED)
    an_hour_later = NOW - timedelta(days=FIRST) + timedelta(hours=1)
    assert sweep_only(place.run(FIRST + 1, opened=an_hour_later, **OPTIMIZED)) == {dead: "deleted"}
    assert named(place) == set()
