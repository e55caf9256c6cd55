"""Losses of collectors that read only what changed: here a run with the index finds as a clean one.

Each situation once led such a run astray. What others saved were conclusions; the index has what
never changes, and everything is decided anew.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lakegc_dagster.sandbox import gc, objects
from spark_core import holds
from spark_core.records.figures import ExpiredFigures
from spark_core.run import Run
from tests.support.clean_beside import why_clean
from tests.support.clock import FakeClock
from tests.support.hidden_entries import NOW, HidingPlace
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

OPTIMIZED: dict[str, Any] = {"optimized": True}


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    place = HidingPlace(sandbox, spark)
    keep_for(place, 10)
    return place


def keep_for(place: HidingPlace, days: int) -> None:
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(days, {}))


def first(place: HidingPlace, days: float = 20, **options: Any) -> Run:
    """Make the first run, which saves the index."""
    run, marked = place.mark(days, **OPTIMIZED, **options)
    assert why_clean(marked) == "no mark of this repository has passed yet"
    return run


def named(place: HidingPlace, days: float = 10, **options: Any) -> list[str]:
    """Mark as a clean run does; return what may go."""
    run, marked = place.mark_as_a_clean_one(days, **options)
    return marked.addresses(run)


@pytest.mark.slow
def test_46_an_object_of_a_commit_that_left_was_in_another_that_stayed(place: HidingPlace) -> None:
    shared = place.upload(50, "p", b"shared")
    place.committed(50, "q", b"beside it")
    place.branch(49, "dev")
    # A range of its own, which has the shared object, too.
    place.committed(48, "q", b"more", branch="dev")
    # The commit with the first content is kept until the day 14.
    place.committed(24, "p", b"other")
    first(place)
    place.committed(15, "new", b"newer")
    run, marked = place.mark_as_a_clean_one(10)
    assert marked.addresses(run) == []
    assert sweep_only(run) == {}
    assert place.reads("p", "dev") == shared


@pytest.mark.slow
def test_46_a_range_left_one_commit_and_stayed_in_another(place: HidingPlace) -> None:
    kept = place.committed(50, "p", b"in two commits")
    place.branch(49, "dev")
    place.branch(49, "short")
    place.committed(48, "q", b"more", branch="short")
    first(place)
    # The range of both stays on main, while a commit that has it leaves.
    place.drop_branch(19, "short")
    place.committed(18, "r", b"newer")
    assert kept not in named(place, 7)
    run, marked = place.mark_as_a_clean_one(6)
    assert kept not in marked.addresses(run)
    assert kept not in sweep_only(run)


@pytest.mark.slow
def test_46_what_was_staged_then_and_is_not_now_was_in_an_older_commit(place: HidingPlace) -> None:
    keep_for(place, 30)
    shared = place.committed(50, "p", b"shared")
    checksum = place.checksum("p")
    # No head has it any more, but a commit that is kept.
    place.committed(31, "p", b"other")
    place.branch(30, "dev")
    dropped = place.upload(30, "r", b"dropped", branch="dev")
    place.stage(30, "s", shared, size=6, checksum=checksum, branch="dev")
    first(place)
    with place.ago(15):
        objects.reset(place.core, place.name, "dev", kind="reset")
    run, marked = place.mark_as_a_clean_one(10)
    assert shared not in marked.addresses(run)
    assert sweep_only(run) == {dropped: "deleted"}


@pytest.mark.slow
def test_a_range_that_expired_commits_have_too_leaves_with_the_last_that_keeps_it(
    place: HidingPlace,
) -> None:
    dead = place.upload(50, "p", b"dead in the end")
    place.committed(50, "q", b"beside it")
    # The same range, in a commit that is kept still; the one before is past its days.
    place.committed(45, "r", b"a range of its own")
    place.committed(24, "p", b"other")
    first(place)
    assert named(place) == [dead]


@pytest.mark.slow
def test_47_a_twin_hid_behind_an_entry_that_nobody_read_again(place: HidingPlace) -> None:
    place.committed(50, "p", b"the content")
    garbage = place.upload(49, "scratch", b"dead")
    place.upload(49, "scratch", b"other")
    first(place)
    twin = place.upload(16, "p", b"the content")
    run, marked = place.mark_as_a_clean_one(10)
    assert twin not in marked.addresses(run)
    assert sweep_only(run) == {garbage: "deleted"}
    assert place.reads("p") == twin


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False], ids=["before", "behind the index's back"])
def test_47_an_object_that_was_missing_came_back_and_nobody_knew_who_needs_it(
    place: HidingPlace, *, is_known: bool
) -> None:
    lost = place.committed(50, "p", b"was lost")
    place.committed(50, "q", b"is there")
    content = place.file(lost).read_bytes()
    if not is_known:
        first(place)
    place.lose(lost)
    if is_known:
        first(place)
    else:
        place.mark_as_a_clean_one(15, behind=[lost])
    place.file(lost).write_bytes(content)
    place.date(lost, 50)
    place.committed(14, "new", b"newer")
    run, marked = place.mark_as_a_clean_one(10, behind=[lost])
    assert marked.addresses(run) == []
    assert place.reads("p") == lost


@pytest.mark.slow
def test_47_an_entry_whose_object_was_missing_hid_its_repair(place: HidingPlace) -> None:
    lost = place.committed(50, "p", b"same")
    checksum = place.checksum("p")
    place.committed(50, "q", b"is there")
    place.lose(lost)
    first(place)
    # Staged by hand in the place of the lost one, with the size that its entry had.
    other = place.upload(16, "scratch", b"of other size")
    dead = place.upload(16, "scratch", b"overwritten again")
    place.upload(15, "scratch", b"stays")
    place.stage(15, "p", other, size=4, checksum=checksum)
    run, marked = place.mark_as_a_clean_one(10)
    assert marked.addresses(run) == [dead]
    assert place.reads("p") == other


@pytest.mark.slow
def test_47_an_old_object_got_an_entry_with_another_size(place: HidingPlace) -> None:
    old = place.committed(50, "z", b"five.")
    first(place)
    place.stage(18, "a", old, size=9, checksum="said")
    place.commit(18)
    hidden = place.copy(16, "a", "a")
    assert hidden not in named(place)
    assert place.reads("a") == hidden


def test_47_an_object_of_a_sharded_name_came_back_and_was_counted_twice(place: HidingPlace) -> None:
    place.committed(51, "q", b"beside it")
    # Its slice is always listed.
    usual = place.write(50, b"same", signed=False)
    sharded = usual.replace("data/", "data/!ab/c1/")
    content = place.file(usual).read_bytes()
    place.lose(usual)
    place.stage(50, "p", sharded, size=4, checksum="said")
    place.commit(50)
    first(place)
    place.committed(15, "new", b"newer")
    place.file(sharded).parent.mkdir(parents=True)
    place.file(sharded).write_bytes(content)
    place.date(sharded, 50)
    _, marked = place.mark_as_a_clean_one(10)
    assert ExpiredFigures.of(marked.expired.manifest).by_fate == {"committed": (3, 18)}


def test_49_the_state_outlived_the_options_that_decided(place: HidingPlace) -> None:
    place.committed(50, "p")
    first(place, tags_protect=False)
    _, marked = place.mark(10, **OPTIMIZED)
    assert "other options decided: tags_protect was False, now it is True" in why_clean(marked)


@pytest.mark.slow
def test_49_longer_rules_bring_commits_back_and_shorter_ones_let_go(place: HidingPlace) -> None:
    old = place.committed(50, "p", b"first")
    place.committed(24, "p", b"second")
    middle = place.committed(23, "p", b"third")
    first(place)
    keep_for(place, 100)
    assert named(place, 10) == []
    keep_for(place, 1)
    found = named(place, 9)
    assert old in found
    assert middle not in found


def test_49_a_hold_that_ended_and_one_that_began_count_at_once(place: HidingPlace) -> None:
    dead = [place.upload(48, "r", f"r{number}".encode()) for number in range(3)][:2]
    holds.add(place.run(40), "kept", "address", dead[0], who="me", why="a test")
    first(place)
    holds.remove(place.run(15), "kept")
    holds.add(place.run(14), "another", "address", dead[1], who="me", why="a test")
    assert named(place) == [dead[0]]


def test_51_refs_were_restored_from_before_what_was_saved(place: HidingPlace) -> None:
    place.committed(50, "p")
    place.branch(30, "gone")
    place.committed(29, "q", b"on gone", branch="gone")
    first(place)
    seen = place.core.repository(place.name)
    with place.core.lock:
        head = place.core.branch(seen, "gone").commit_id
        place.drop_branch(15, "gone")
        place.core.state._write(
            "DELETE FROM commits WHERE repository = ? AND id = ?", seen.number, head
        )
    with pytest.raises(Exception, match=r"1 commits that run .* saw are gone") as refusal:
        mark_only(place.run(10, **OPTIMIZED))
    assert "--full" in str(refusal.value)
    # The next one reads everything by itself.
    _, marked = place.mark(9, **OPTIMIZED)
    assert "an optimized one, did not end" in why_clean(marked)


def test_52_a_clock_was_set_back(place: HidingPlace) -> None:
    place.committed(50, "p")
    first(place)
    run = place.run(10, **OPTIMIZED)
    later = FakeClock(NOW - timedelta(days=5))
    mark_and_conclude(replace(run, environment=replace(run.environment, clock=later)))
    nine_days_ago: datetime = NOW - timedelta(days=9)
    place.sandbox.clock.set(nine_days_ago)
    back = open_sandbox_run(place.sandbox, place.name, place.spark, nine_days_ago, **OPTIMIZED)
    assert "a clock was set back" in why_clean(mark_only(back))
