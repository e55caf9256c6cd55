"""A second look that takes longer than it is good for.

Renewed in parts, followed by deletions, and nothing is lost by it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox, gc, objects, refs, repositories
from spark_core import sweep
from spark_core.errors import IncompleteReadError
from spark_core.references.parts_of_look import HIDDEN, SCAN, LookParts
from spark_core.run import Run
from spark_core.spark.exchange import source_of
from spark_core.sweep import references_now, rounds, tasks_of_a_round, twins_now
from tests.support.clock import FakeClock
from tests.support.looks import named
from tests.support.pipeline import mark_and_conclude, marked_before
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.stored_rows import rows_of

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
QUICK = timedelta(minutes=2.5)


class Reader:
    """Reads parts that take a time each."""

    def __init__(self, **takes: float) -> None:
        self.clock = FakeClock(NOW)
        self.parts = LookParts(self.clock.now, QUICK)
        self.takes = {name: timedelta(minutes=minutes) for name, minutes in takes.items()}

    def read(self, budget=None, **options) -> list[str]:
        self.parts.turn(budget, **options)
        done = []
        for name in [*self.parts.order(self.takes), HIDDEN]:
            if self.parts.begin(name):
                self.clock.instant += self.takes.get(name, timedelta(0))
                if name == HIDDEN:
                    self.parts.end_hidden(self.takes)
                    continue
                self.parts.end(name)
                done.append(name)
        return done

    def wait(self, minutes: float) -> None:
        self.clock.instant += timedelta(minutes=minutes)


class TestParts:
    """Which parts are read again."""

    def test_what_is_quick_to_read_is_read_again_by_every_look(self):
        reader = Reader(a=0.1, b=1)
        assert reader.read() == ["a", "b"]
        assert reader.read(QUICK) == ["a", "b"]

    def test_a_part_that_takes_long_is_read_again_once_it_is_as_old_as_it_takes(self):
        reader = Reader(a=0.1, big=12)
        reader.read()
        reader.wait(11)
        assert reader.read(QUICK) == ["a"]
        reader.wait(1)
        assert reader.read(QUICK) == ["big"]

    def test_a_budget_goes_to_the_oldest_and_the_rest_waits_for_the_next_look(self):
        reader = Reader(a=2, b=2, c=2)
        reader.read()
        assert reader.read(timedelta(minutes=3)) == ["a", "b"]
        assert reader.read(timedelta(minutes=1)) == ["c"]
        assert reader.read(timedelta(minutes=1)) == ["a"]

    def test_a_branch_that_is_new_is_read_whatever_the_budget(self):
        reader = Reader(a=2)
        reader.read()
        reader.takes["new"] = MINUTE
        assert reader.read(timedelta(0)) == ["new"]

    def test_a_branch_that_is_gone_makes_no_look_old(self):
        reader = Reader(a=1, b=1)
        reader.read()
        reader.wait(20)
        del reader.takes["a"]
        reader.read()
        assert reader.parts.oldest >= NOW + timedelta(minutes=22)

    def test_to_put_some_branches_in_order_forgets_nothing_of_the_others(self):
        reader = Reader(a=1, big=12)
        reader.read()
        read = dict(reader.parts.read)
        assert reader.parts.order(["a"]) == ["a"]
        assert reader.parts.read == read
        assert reader.read(QUICK) == ["a"], "and a second look keeps what the slow one was read for"

    def test_what_was_read_a_moment_ago_is_not_read_twice_by_one_look(self):
        reader = Reader(a=0.1, big=12, z=0.1)
        reader.read()
        assert reader.read(QUICK, least_age=QUICK) == ["a"]

    def test_a_reading_that_broke_off_is_none(self):
        reader = Reader(a=1)
        reader.parts.begin("a")
        assert "a" not in reader.parts.read
        assert reader.read(timedelta(0)) == ["a"]

    def test_a_look_is_as_old_as_its_parts_were_when_hidden_entries_were_last_searched_for(self):
        reader = Reader(a=1)
        parts = reader.parts
        reader.read()
        oldest = parts.oldest
        reader.wait(10)
        parts.begin("a")
        parts.end("a")
        assert parts.oldest == oldest, "an entry of a's may have hidden before a was read again"
        parts.begin(SCAN)
        parts.end(SCAN)
        parts.begin(HIDDEN)
        parts.end_hidden(["a"])
        assert parts.oldest == parts.read["a"][0]


class Slow:
    """A sandbox's repository with objects that may go, and branches whose diffs take a time."""

    name = "slow"

    def __init__(self, sandbox: Sandbox, spark: Any) -> None:
        self.sandbox, self.spark, self.core = sandbox, spark, sandbox.core
        self.dead: dict[str, str] = {}
        self.takes: dict[str, timedelta] = {}
        self.before: dict[str, list[Any]] = {}
        self.log: list[str] = []

    def make(self) -> dict[str, str]:
        """Make the repository and mark it; path -> address of what may go."""
        core, name = self.core, self.name
        with self.ago(60):
            repositories.create(core, name, f"local://{name}")
            gc.set_rules(core, name, gc.Rules(1, {}))
        for number in range(8):
            with self.ago(50):
                path = f"old/{number}"
                self.dead[path] = objects.upload(
                    core, name, "main", path, b"x" * (number + 2)
                ).address
                self.commit("main")
                objects.delete(core, name, "main", [path])
                self.commit("main")
        with self.ago(40):
            objects.upload(core, name, "main", "kept", b"kept")
            self.commit("main")
        with self.ago(30):
            for branch in ("a", "big", "z"):
                refs.create_branch(core, name, branch, "main")
        run = self.open()
        marked, verdict, results = mark_and_conclude(run)
        assert verdict.passed, results
        assert set(marked.addresses(run)) == set(self.dead.values())
        return self.dead

    def open(self) -> Run:
        self.sandbox.clock.set(NOW)
        # One branch at a time, so that the clock of one is not that of another.
        return open_sandbox_run(
            self.sandbox,
            self.name,
            self.spark,
            NOW,
            lease_ttl=timedelta(hours=3),
            branches_at_once=1,
        )

    def begin(self, dead: dict[str, str]) -> None:
        """Go on with the mark that is stored."""
        self.dead, self.run = dead, self.open()
        self.clock = self.run.environment.clock
        self.marked = marked_before(self.run)
        self._diff = self.run.server.diff_branch
        self.run.server.diff_branch = self.diff_branch

    @contextmanager
    def ago(self, days: float) -> Any:
        with self.core.lock, self.sandbox.clock.at(NOW - timedelta(days=days)):
            yield

    def commit(self, branch: str) -> str:
        commit_id: str = refs.commit(self.core, self.name, branch, message="m").id
        return commit_id

    def stage(self, branch: str, path: str) -> None:
        """Stage a dead object as nobody's scan sees it: by its absolute address."""
        objects.stage(
            self.core,
            self.name,
            branch,
            f"again/{path}",
            physical_address=f"local://{self.sandbox.blockstore}/{self.name}/{self.dead[path]}",
            checksum="0" * 32,
            size_bytes=3,
            link=False,
        )

    def diff_branch(self, repository: str, branch: str) -> Any:
        """List what is staged on a branch, in the time that a test says, once what it wants has
        happened.
        """
        for act in self.before.pop(branch, ()):
            act()
        self.log.append(branch)
        found = list(self._diff(repository, branch))
        self.clock.instant += self.takes.get(branch, timedelta(0))
        yield from found

    def looks(self) -> Any:
        look = references_now.reader_of_references()
        plan = tasks_of_a_round.objects_of_plan(self.marked.expired)
        made = self.marked.tables.all
        tables = {table.manifest.table: table for table in (*made, self.marked.expired)}
        return lambda: look(self.run, plan, tables)

    def found(self, revived: Any) -> set[str]:
        names = {address: path for path, address in self.dead.items()}
        return {names[address] for address in named(revived.kept, list(names))}

    def sweep(self, monkeypatch: Any, *, minutes: float) -> Any:
        """Sweep three objects a round, each of which takes some minutes.

        Returns outcomes and facts.
        """
        whole = rounds.delete_as_tasks

        def some(run, sources, kept, orders, *given, **chosen):
            lasted = orders.deadline.instant - orders.deadline.given_at
            if lasted <= timedelta(0):
                return whole(run, sources, kept, orders, *given, **chosen)
            rows = {name: each.here(threads=1) for name, each in sources.items()}
            left = tasks_of_a_round._left(1, rows).rows[0]
            few = source_of(left.sort_by("address").slice(0, 3), tasks_of_a_round.PLANNED)
            told = whole(run, {**sources, "planned": few}, kept, orders, *given, **chosen)
            told.objects["unsent"] += max(0, left.num_rows - 3)
            self.clock.instant += timedelta(minutes=minutes)
            return told

        monkeypatch.setattr(rounds, "delete_as_tasks", some)
        report = self.run.keep(sweep.sweep(self.run))
        sweep.require_complete(report)
        names = {address: path for path, address in self.dead.items()}
        outcomes = {
            names[row.address]: row.outcome for row in rows_of(report, ["address", "outcome"])
        }
        return outcomes, report.manifest.facts


@pytest.fixture
def slow(made_once, spark):
    with made_once.begun("slow", lambda sandbox: Slow(sandbox, spark).make()) as (sandbox, dead):
        slow = Slow(sandbox, spark)
        slow.begin(dead)
        yield slow


@pytest.mark.spark
@pytest.mark.parametrize("minutes", [12, 30])
@pytest.mark.deep
def test_a_look_that_takes_longer_than_it_is_good_for_is_followed_by_deletions_all_the_same(
    slow, monkeypatch, minutes
):
    slow.takes = {"big": minutes * MINUTE}
    outcomes, facts = slow.sweep(monkeypatch, minutes=5)
    assert set(outcomes.values()) == {"deleted"}
    assert facts["deleted_objects"] == 8
    assert facts["rounds"] == 3
    look = facts["second_look"]
    age = datetime.fromisoformat(look["began"]) - datetime.fromisoformat(look["oldest_began"])
    assert age <= 2 * minutes * MINUTE + timedelta(minutes=10), "and the report says so"


@pytest.mark.spark
@pytest.mark.deep
def test_a_renewal_reads_quick_branches_again_and_the_slow_one_when_it_is_as_old_as_it_takes(
    slow,
):
    slow.takes = {"big": 12 * MINUTE}
    look = slow.looks()
    first = look()
    assert slow.log == ["a", "big", "main", "z", "a"], (
        "the first one is old by then, the others are not"
    )
    assert slow.clock.instant - first.began < MINUTE
    slow.log.clear()
    slow.clock.instant += 7 * MINUTE
    second = look()
    assert sorted(slow.log) == ["a", "main", "z"]
    assert second.parts.oldest < second.began - 7 * MINUTE
    slow.log.clear()
    slow.clock.instant += 7 * MINUTE
    look()
    assert "big" in slow.log


@pytest.mark.spark
def test_a_branch_that_gets_an_entry_in_the_middle_of_a_renewal_keeps_its_object(slow, monkeypatch):
    slow.takes = {"big": 12 * MINUTE}
    look = slow.looks()
    # When the diff of `big` begins, that of `a` was read.
    slow.before = {"big": [lambda: slow.stage("a", "old/3")]}
    assert slow.found(look()) == {"old/3"}
    slow.clock.instant += 8 * MINUTE
    objects.reset(slow.core, slow.name, "a", "reset")
    assert slow.found(look()) == {"old/3"}, "what was seen alive stays alive"


@pytest.mark.spark
def test_what_was_seen_alive_stays_alive_where_rows_are_missing_and_everything_is_read_anew(
    slow, monkeypatch
):
    look, read_again = slow.looks(), references_now.read_again
    slow.stage("a", "old/3")
    assert slow.found(look()) == {"old/3"}
    objects.reset(slow.core, slow.name, "a", "reset")

    def losing_what_was_read(*given, previous=None, **named):
        if previous is not None:
            raise IncompleteReadError("rows are missing")
        return read_again(*given, **named)

    monkeypatch.setattr(references_now, "read_again", losing_what_was_read)
    slow.log.clear()
    assert slow.found(look()) == {"old/3"}
    assert sorted(slow.log) == ["a", "big", "main", "z"], "and all of it was read"


@pytest.mark.spark
def test_an_entry_that_is_committed_before_its_branch_is_read_again_is_found_in_the_head(slow):
    look = slow.looks()
    assert slow.found(look()) == set()
    slow.clock.instant += 8 * MINUTE
    slow.stage("z", "old/5")
    slow.before = {"z": [lambda: slow.commit("z")]}
    assert slow.found(look()) == {"old/5"}


@pytest.mark.spark
def test_what_came_to_a_branch_that_is_not_read_again_for_its_size_is_found_when_it_is_committed(
    slow,
):
    slow.takes = {"big": 12 * MINUTE}
    look = slow.looks()
    look()
    slow.clock.instant += 7 * MINUTE
    slow.stage("big", "old/1")
    slow.commit("big")
    slow.log.clear()
    assert slow.found(look()) == {"old/1"}
    assert "big" not in slow.log


@pytest.mark.spark
def test_refs_are_read_once_more_where_the_search_for_hidden_entries_took_long(slow, monkeypatch):
    searched = twins_now.twins.find

    def for_long(*given, **named):
        found = searched(*given, **named)
        slow.clock.instant += 9 * MINUTE
        slow.stage("z", "old/6")
        slow.commit("z")
        return found

    monkeypatch.setattr(twins_now.twins, "find", for_long)
    look = slow.looks()
    first = look()
    assert slow.found(first) == {"old/6"}
    assert slow.clock.instant - first.began < MINUTE


@pytest.mark.spark
def test_a_quick_look_is_as_old_as_its_first_byte(slow):
    began = slow.clock.instant
    slow.takes = {"a": MINUTE, "z": MINUTE}
    look = slow.looks()()
    assert look.began == look.parts.oldest < began + timedelta(seconds=1)
    assert replace(look).figures.oldest_began == look.began.isoformat()
