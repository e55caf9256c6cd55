"""Losses by an end that hung on a document that only a success writes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox, history
from spark_core import lakegc_keys
from spark_core.certificate.issue import certificate
from spark_core.errors import UnsafePlanError
from spark_core.explain.outcomes import outcomes_of
from spark_core.records import journal
from spark_core.run import Run
from spark_core.storage import ObjectStore
from spark_core.sweep import quarantine
from spark_core.undo.restore import restore
from spark_core.upkeep import house_keeping
from tests.support.made_once import MadeOnce
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
DAY = timedelta(days=1)
MOVED = 110


def run_at(sandbox: Sandbox, spark: Any, instant: datetime, **options: Any) -> Run:
    sandbox.clock.set(instant)
    return open_sandbox_run(sandbox, "repo", spark, instant, quarantine=True, **options)


def die_on(sandbox: Sandbox, spark: Any) -> None:
    """Let a sweep die after some of its moves, before it writes down an outcome."""
    history.documents_history(sandbox, "repo", now=NOW)
    run = run_at(sandbox, spark, NOW)
    mark_and_conclude(run)
    move = quarantine.move

    def die(store: ObjectStore, key: str, addresses: list[str], **more: Any) -> None:
        move(store, key, addresses[:MOVED], **more)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as dying:
        dying.setattr(quarantine, "move", die)
        with pytest.raises(KeyboardInterrupt):
            sweep_only(run)
    assert len(aside(run)) == MOVED


@pytest.fixture
def sandbox(made_once: MadeOnce, spark: Any) -> Iterator[Sandbox]:
    with made_once.begun("dead-sweep", partial(die_on, spark=spark)) as (sandbox, _):
        yield sandbox


@pytest.fixture
def dead(sandbox: Sandbox, spark: Any) -> Run:
    """A run whose sweep died."""
    return run_at(sandbox, spark, NOW)


def aside(run: Run) -> set[str]:
    where = lakegc_keys.in_quarantine(run.key)
    keys = (key for batch in run.store.list(where) for key in batch.column("key").to_pylist())
    return {key.removeprefix(where) for key in keys}


def test_66_what_a_dead_sweep_had_moved_stayed_for_ever_and_no_path_was_ever_gone(
    sandbox: Sandbox, spark: Any, dead: Run
) -> None:
    moved = aside(dead)
    tonight = run_at(sandbox, spark, NOW + DAY)
    mark_and_conclude(tonight)
    assert not moved & sweep_only(tonight).keys(), "the sweep that died took them"
    end = journal.ended(dead.store, dead.key)
    assert end is not None
    assert (end.objects, end.ended_by) == (MOVED, str(tonight.key))
    assert end.until is not None
    # A moved file keeps its date, so the days count from the journal's last lot.
    assert timedelta() <= end.until - (NOW + 30 * DAY) < timedelta(minutes=1)
    # Before its days are over, and after.
    for instant, left in ((end.until - timedelta(hours=1), moved), (end.until, set[str]())):
        later = run_at(sandbox, spark, instant)
        mark_and_conclude(later)
        assert house_keeping.keep_house(later).problem is None
        assert aside(dead) == left
        named = certificate(tonight, prefix="trials/")["path"]["objects"]
        held_by = {one["address"]: one["held_by"] for one in named if one["address"] in moved}
        assert held_by, "commits had some of them under a path"
        held = [f"the quarantine of run {dead.key}"] if left else []
        assert all(each == held for each in held_by.values())
        told = outcomes_of(later.at(dead.key), sorted(moved))
        assert {one.state for one in told.values()} == {"gone"}
        words = {one.reasons[-1].text for one in told.values()}
        assert all(("lay in quarantine, until" in each) == bool(left) for each in words), words


def test_66_nobody_goes_on_with_a_sweep_that_the_next_one_ended(
    sandbox: Sandbox, spark: Any, dead: Run
) -> None:
    moved = aside(dead)
    tonight = run_at(sandbox, spark, NOW + DAY)
    mark_and_conclude(tonight)
    sweep_only(tonight)
    left = {key for batch in dead.store.list("data/") for key in batch.column("key").to_pylist()}
    again = open_sandbox_run(sandbox, "repo", spark, NOW, opened=NOW + DAY, quarantine=True)
    with pytest.raises(UnsafePlanError, match=f"run {tonight.key} ended it"):
        sweep_only(again)
    keys = {key for batch in dead.store.list("data/") for key in batch.column("key").to_pylist()}
    assert keys == left
    assert restore(again).objects["restored"] == len(moved), "an undo still can"


def test_66_a_sweep_that_died_goes_on_as_long_as_no_other_came(
    sandbox: Sandbox, spark: Any, dead: Run
) -> None:
    again = open_sandbox_run(sandbox, "repo", spark, NOW, opened=NOW + DAY, quarantine=True)
    told = sweep_only(again)
    assert set(told.values()) == {"deleted"}
    assert aside(dead) == told.keys()
    assert journal.ended(dead.store, dead.key) is None


def test_66_a_journal_that_cannot_be_read_keeps_no_other_sweep_from_its_work(
    sandbox: Sandbox, spark: Any, dead: Run
) -> None:
    book = journal.begun(dead.store, dead.key)
    dead.store.put(book.parts()[0].key, b"damaged")
    tonight = run_at(sandbox, spark, NOW + DAY)
    mark_and_conclude(tonight)
    assert set(sweep_only(tonight).values()) == {"deleted"}
    house = house_keeping.keep_house(tonight)
    assert "the end of quarantine was not reached" in house.words
    assert "its name says" in house.words
    assert len(aside(dead)) == MOVED
    assert journal.ended(dead.store, dead.key) is None
