"""Each source of an optimized mark's candidates, and each kind of change between it and its base.

What it names is what a full mark of the same moment names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox, gc, merge, objects
from spark_core import holds, mark
from spark_core.records.figures import ListedFigures
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import mark_only, sweep_only

pytestmark = pytest.mark.spark

OPTIMIZED: dict[str, Any] = {"optimized": True}
BASE, NEXT = 20, 10


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


def named(place: HidingPlace, days: float = NEXT) -> set[str]:
    """Mark from the base, and in full a second later; both name the same."""
    run, marked = place.mark(days, **OPTIMIZED)
    figures = ListedFigures.of(marked.tables.slices.manifest)
    assert figures.base is not None, figures.why_full
    found = set(marked.addresses(run))
    full = replace(place.run(days - 0.001, max_expired_share=1, **OPTIMIZED), full=True)
    assert set(mark_only(full).addresses(full)) == found
    return found


def test_garbage_of_a_newer_slice_is_named(place: HidingPlace) -> None:
    place.mark(BASE, **OPTIMIZED)
    dead = place.upload(15, "p", b"dead")
    place.upload(15, "p", b"staged")
    assert named(place) == {dead}


def test_what_was_too_young_at_the_base_is_named_later(place: HidingPlace) -> None:
    dead = place.upload(BASE + 0.5, "p", b"dead")
    place.upload(BASE + 0.5, "p", b"staged")
    _, marked = place.mark(BASE, **OPTIMIZED)
    assert marked.expired.manifest.rows == 0
    assert named(place) == {dead}


def test_what_was_written_at_last_to_an_old_slice_is_named_later(place: HidingPlace) -> None:
    """The name of the slice is older than the base lists, and an object in it is younger."""
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    place.date(dead, BASE + 0.5)
    _, marked = place.mark(BASE, **OPTIMIZED)
    assert marked.expired.manifest.rows == 0
    assert named(place) == {dead}


def test_what_came_after_the_base_to_an_address_of_before_is_named(place: HidingPlace) -> None:
    """An address is good for a day, and its slice was closed when the base listed it."""
    late = place.write(BASE + 0.5, b"written late", signed=True)
    content = place.file(late).read_bytes()
    place.lose(late)
    place.mark(BASE, **OPTIMIZED)
    place.file(late).write_bytes(content)
    place.date(late, BASE - 0.4)
    assert named(place) == {late}


def test_what_was_staged_at_the_base_and_is_not_now_is_named(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.mark(BASE, **OPTIMIZED)
    reset(place, 15)
    assert named(place) == {dead}


def test_what_was_staged_and_reset_and_is_staged_again_is_not_named(place: HidingPlace) -> None:
    staged = place.upload(40, "p", b"staged")
    checksum = place.checksum("p")
    place.mark(BASE, **OPTIMIZED)
    reset(place, 15)
    place.stage(14, "elsewhere", staged, size=6, checksum=checksum)
    assert named(place) == set()


def test_what_was_staged_at_the_base_and_was_committed_since_is_not_named(
    place: HidingPlace,
) -> None:
    place.upload(40, "p", b"staged")
    place.mark(BASE, **OPTIMIZED)
    place.commit(15)
    assert named(place) == set()


def test_what_only_a_commit_of_between_had_is_named_when_it_expires(place: HidingPlace) -> None:
    old = place.committed(50, "p", b"first")
    place.committed(45, "p", b"second")
    place.mark(BASE, **OPTIMIZED)
    keep_for(place, 5)
    assert named(place) == {old}


def test_what_longer_rules_keep_again_is_not_named(place: HidingPlace) -> None:
    old = place.committed(54, "p", b"first")
    place.committed(53, "p", b"second")
    keep_for(place, 5)
    run, marked = place.mark(BASE, **OPTIMIZED)
    # Nobody swept it, so it would be carried on.
    assert marked.addresses(run) == [old]
    keep_for(place, 100)
    assert named(place) == set()


def test_what_nobody_swept_is_named_again(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    run, marked = place.mark(BASE, **OPTIMIZED)
    assert marked.addresses(run) == [dead]
    assert named(place) == {dead}


def test_what_a_hold_kept_at_the_base_is_named_once_it_is_gone(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    run = place.run(BASE + 1, **OPTIMIZED)
    holds.add(run, "kept", "address", dead, who="me", why="test")
    run, marked = place.mark(BASE, **OPTIMIZED)
    assert marked.addresses(run) == []
    holds.remove(run, "kept")
    assert named(place) == {dead}


def test_what_a_hold_that_was_made_since_keeps_is_not_named(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    run, marked = place.mark(BASE, **OPTIMIZED)
    assert marked.addresses(run) == [dead]
    holds.add(place.run(15, **OPTIMIZED), "kept", "address", dead, who="me", why="test")
    assert named(place) == set()


def test_what_a_branch_from_an_old_commit_has_again_is_not_named(place: HidingPlace) -> None:
    keep_for(place, 5)
    place.upload(50, "p", b"first")
    old = place.commit(50)
    place.committed(45, "p", b"second")
    run, marked = place.mark(BASE, **OPTIMIZED)
    assert marked.expired.manifest.rows == 1
    place.branch(15, "back", old)
    assert named(place) == set()
    assert place.reads("p", "back") in marked.addresses(run)


def test_what_a_revert_brought_back_is_not_named(place: HidingPlace) -> None:
    keep_for(place, 5)
    first = place.committed(50, "p", b"first")
    place.upload(45, "p", b"second")
    second = place.commit(45)
    run, marked = place.mark(BASE, **OPTIMIZED)
    assert marked.addresses(run) == [first]
    with place.ago(15):
        merge.revert(place.core, place.name, "main", second, parent_number=0)
    assert place.reads("p") == first
    assert first not in named(place)


def test_a_mark_that_was_killed_since_is_passed_over(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.mark(BASE, **OPTIMIZED)
    killed = replace(place.run(15, **OPTIMIZED), full=True)
    killed.keep(mark.namespace_slices(killed))
    reset(place, 14)
    assert named(place) == {dead}


def test_what_a_sweep_took_is_not_named_again(place: HidingPlace) -> None:
    dead = place.upload(40, "p", b"dead")
    place.upload(40, "p", b"staged")
    run, _ = place.mark(BASE, **OPTIMIZED)
    assert sweep_only(run) == {dead: "deleted"}
    assert named(place) == set()
