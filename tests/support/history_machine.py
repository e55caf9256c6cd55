"""Any history of a repository on the sandbox, with whole collections in between, compared with
plain sets.

The rules of `HistoryActions` do what users do; the rules here mark, sweep, hold and restore.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from spark_core import holds, mark, sweep
from spark_core.checks import verdict
from spark_core.errors import (
    ChainError,
    ClosedPartitionError,
    IncompleteReadError,
    LakegcError,
    UnsafePlanError,
    VerdictError,
)
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft
from spark_core.run import Run
from spark_core.run.chain import Mark
from tests.model import replay
from tests.support.clean_beside import Concluded
from tests.support.history_actions import NUMBER, HistoryActions, action
from tests.support.live_repository import short
from tests.support.live_server import LiveError
from tests.support.pipeline import Marked, mark_and_conclude, sweep_only
from tests.support.recorded_events import Judged, Recorder, age_of, references, words_of
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.search_oracle import (
    GONE,
    Held,
    Options,
    reachable,
    require_plan,
    require_swept,
    young,
)
from tests.support.stored_rows import rows_of

_NOT_LOOKED_UP = re.compile(r"^branch (\S+) of .* in the diff and cannot be looked up")

MIN_AGE = timedelta(hours=24)
# What clocks may differ by comes on top.
OLD_ENOUGH = MIN_AGE + timedelta(minutes=5)
MAX_MARK_AGE = timedelta(days=7)
# Below five minutes a clock that went back is taken for the skew of two machines.
MAX_SKEW = timedelta(minutes=5)

# Of the calls that looking for twins may take: so many suffice for a history's paths and branches.
ENOUGH = 1_000
FEWEST_ACTIONS = 3
# Why objects are not replayed on the model.
OLDER, LOST = "older than their repository", "gone before their sweep"
WRITTEN_OVER = "written over since their mark"
HIDDEN = "hidden when its branch was read, and committed before it was asked about"
WAYS_BACK = ("stage", "branch", "tag", "reset", "hold", "rules")
TABLES: tuple[Callable[..., Draft], ...] = (
    mark.namespace_slices,
    mark.uncommitted_addresses,
    mark.retained_commits,
    mark.committed_addresses,
)
OPTIONS = st.builds(
    Options,
    margin_hours=st.sampled_from([1, 0]),
    tags_protect=st.sampled_from([True, True, False]),
    keep_last=st.sampled_from([0, 0, 1, 2, 4]),
    twin_calls=st.sampled_from([ENOUGH, ENOUGH, ENOUGH, 1, 0]),
    page_rows=st.sampled_from([None, None, 1, 2]),
    ask_all=st.sampled_from([False, False, False, True]),
    longest_upload_hours=st.sampled_from([24, 7 * 24]),
)


@dataclass(frozen=True)
class OlderMark:
    """A mark that was not swept at once."""

    key: datetime
    concluded: datetime
    options: Options
    plan: set[str]


class HistoryMachine(HistoryActions):
    """A repository from its first commit to the collection that ends its history.

    Attributes:
        spark: The session.
        most_runs: Whole runs in the middle of one history.
        is_replayed: Whether the model of the protocol must allow what became of each object.
    """

    spark: Any
    most_runs = 3
    is_replayed = True

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0
        self.marks: list[OlderMark] = []
        self.held = Held()
        # Of marks that were not swept yet.
        self.recorded: dict[datetime, Recorder] = {}
        # What a mark's diffs did not show, and nobody staged any more when it asked about it.
        self.hidden_then: dict[datetime, set[str]] = {}
        # Heads that each run noted, by its key.
        self.noted: dict[datetime, dict[str, str]] = {}

    def _look_for_signs(self, noted: Mapping[str, str] | None) -> None:
        """Note that time does not tell all, where a hard reset left no sign since heads were noted.

        Args:
            noted: What the next look at hidden entries compares with; None for nothing.
        """
        heads = self.repository.branches()
        there = {commit for head in (noted or {}).values() for commit in self._reached(head)}
        for branch in self.reset_ahead:
            if noted is None:
                self.beyond_the_bound = True
                continue
            was, head = noted.get(branch), heads[branch]
            is_seen = was is None or was == head or was not in self._line(head) or head in there
            self.beyond_the_bound = self.beyond_the_bound or not is_seen

    def _noted_before(self, key: datetime) -> dict[str, str] | None:
        others = [other for other in self.noted if other != key]
        return self.noted[max(others)] if others else None

    def _reached(self, commit: str) -> set[str]:
        reached: set[str] = set()
        left = [commit]
        while left:
            at = left.pop()
            if at not in reached:
                reached.add(at)
                left += self.repository.commits[at]["parents"]
        return reached

    def teardown(self) -> None:
        """End the history with a collection that cannot be swept twice, and another that finds
        nothing more.
        """
        # Hypothesis begins with histories in which next to nothing happens: they are not worth a
        # collection.
        if not self.sound or self.acted < FEWEST_ACTIONS:
            return
        self.tally.histories += 1
        with self.tally.counting_on():
            self._end()

    def _end(self) -> None:
        first = self.whole_run(options=Options())
        left = self.repository.objects()
        if first.plan:
            with pytest.raises(ClosedPartitionError, match="was swept"):
                swept(self._open(first.key, first.options))
            assert self.repository.objects() == left
        # It stands for a later second, in which at most what became too old then may go; the oracle
        # says what.
        second = self.whole_run(options=Options())
        assert not second.plan & set(first.plan)
        self.repository.remove()

    @rule(
        kind=st.sampled_from(["address", "prefix", "commit", "tag", "branch"]),
        number=st.integers(0, 50),
    )
    @action
    def hold(self, kind: str, number: int) -> None:
        """Keep something by name."""
        name = f"hold{self.tally.did['hold']}"
        heads, tags, there = (
            self.repository.branches(),
            self.repository.tags(),
            sorted(self.repository.data()),
        )
        values = {
            "address": there,
            "prefix": sorted({address.rpartition("/")[0] + "/" for address in there}),
            "commit": list(self.repository.commits),
            "tag": sorted(tags),
            "branch": sorted(heads),
        }[kind]
        if not values:
            return
        value = values[number % len(values)]
        holds.add(
            self._open(self.now.replace(microsecond=0), Options()),
            name,
            kind,
            value,
            who="search",
            why="search",
        )
        if kind in {"address", "prefix"}:
            self.held.addresses[name] = value
        elif kind == "commit":
            self.held.commits[name] = value
        elif kind == "tag":
            self.held.tags[name] = (value, tags[value])
        else:
            self.held.branches[name] = (value, heads[value])

    @rule(number=NUMBER)
    @precondition(lambda self: self.held.names)
    @action
    def end_hold(self, number: int) -> None:
        name = self.held.names[number % len(self.held.names)]
        holds.remove(self._open(self.now.replace(microsecond=0), Options()), name)
        self.held.forget(name)

    @rule(options=OPTIONS)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def mark(self, options: Options) -> None:
        """Mark, and leave the sweep for later."""
        self.marks.append(self._mark(options))

    @rule(
        options=OPTIONS,
        ways=st.lists(st.sampled_from(WAYS_BACK), min_size=1, max_size=2),
        number=st.integers(0, 50),
    )
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def revive_before_the_sweep(self, options: Options, ways: list[str], number: int) -> None:
        """Mark, refer again to something that the mark lets go, each way to something else, and
        sweep.
        """
        made = self._mark(options)
        for at, way in enumerate(ways, number):
            with suppress(LiveError):
                self._revive(made.plan, way, at)
        self._sweep(made)
        self.runs += 1
        self.tally.runs += 1

    def _revive(self, plan: set[str], way: str, number: int) -> None:
        """Refer again to something of a plan, in one of the `WAYS_BACK`."""
        repository, name = self.repository, f"back{self.tally.did.total()}-{number}"
        if not plan:
            return
        if way == "stage":
            address = sorted(plan)[number % len(plan)]
            spelt = f"local://{repository.store.folder}/{address}"
            # At a path that no commit has, so that it is seen.
            repository.stage(
                self._branch(number), name, spelt, size_bytes=len(repository.contents[address])
            )
            self.old_staged.add(self._branch(number))
            return
        if way == "rules":
            repository.rules(100)
            return
        # Commits that show something of the plan.
        of_plan = [
            commit
            for commit in map(short, repository.commits)
            if any(
                repository.store.relative(shown) in plan
                for shown in repository.entries(commit).values()
            )
        ]
        if not of_plan:
            return
        commit = of_plan[number % len(of_plan)]
        if way == "branch":
            repository.branch(name, commit, hidden=bool(number % 2))
        elif way == "tag":
            repository.tag(name, commit)
        elif way == "reset":
            self.reset_onto(self._branch(number), commit)
        elif way == "hold":
            (whole,) = [known for known in repository.commits if known.startswith(commit)]
            holds.add(
                self._open(self.now.replace(microsecond=0), Options()),
                name,
                "commit",
                whole,
                who="me",
                why="search",
            )
            self.held.commits[name] = whole

    @rule(number=NUMBER)
    @precondition(lambda self: self.marks)
    @action
    def sweep_an_older_mark(self, number: int) -> None:
        """Sweep what was marked a while ago: whatever came back to life since is kept."""
        made = self.marks.pop(number % len(self.marks))
        age = self.now - made.concluded
        # By the run's own clock a sweep begins a moment later.
        near = timedelta(minutes=1)
        if age < MAX_MARK_AGE - near and age > near - MAX_SKEW:
            self._sweep(made)
            self.runs += 1
            self.tally.runs += 1
        elif made.plan and (age > MAX_MARK_AGE or age < -MAX_SKEW - near):
            before = self.repository.objects()
            ahead = "ahead of this machine's clock|lies in the future"
            said = "the limit" if age > MAX_MARK_AGE else ahead
            with pytest.raises((VerdictError, UnsafePlanError), match=said):
                sweep_only(self._open(made.key, made.options, opened=self.now))
            assert self.repository.objects() == before

    @rule(table=st.integers(0, 3), branch=NUMBER, options=OPTIONS)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def make_a_table_again(self, table: int, branch: int, options: Options) -> None:
        """Make one of the tables again after the others, with a commit in between: refused, or
        harmless.
        """
        before, key = self.repository.objects(), self._next_run(options)
        self._look_for_signs(self._noted_before(key))
        options = self._by_time_or_all(options)
        run, recorder = self._open(key, options), self._begin_to_record(key, options)
        made: list[StoredTable] = []
        with self._listening(recorder, run) as heard:
            for make in TABLES:
                made.append(heard.keep(make(heard, *made[-1:])))
        self.noted[key] = self.repository.branches()
        self.hidden_then[key] = self._hidden_on(self._branch(branch))
        with suppress(LiveError):
            self.repository.commit(self._branch(branch))
            self.drops(self._branch(branch))
        if TABLES[table] is mark.retained_commits:
            self.noted[key] = self.repository.branches()
        self._note_references(key, options)
        self.runs += 1
        self.tally.runs += 1
        try:
            with self._listening(recorder, run) as heard:
                made[table] = heard.keep(TABLES[table](heard, *made[max(0, table - 1) : table]))
                expired = heard.keep(mark.expired_addresses(heard, Mark(*made)))
                results = verdict.conclude(heard)[1]
        except ChainError:
            assert table < len(TABLES) - 1, "the last table may be made again"
            assert self.repository.objects() == before
            self._replay(key, before, None, left=before)
            self.recorded.pop(key, None)
            return
        assert table == len(TABLES) - 1, (
            f"the tables after {TABLES[table].__name__} were made before it"
        )
        failed = [result.name for result in results if not result.allows]
        if failed == ["live_objects_are_listed"] and not before:
            return
        assert not self._refused(run, failed), failed
        plan = set(Marked(Mark(*made), expired).addresses(run))
        self._replay(key, before, plan)
        with pytest.raises(ClosedPartitionError, match="already"):
            TABLES[table](run, *made[max(0, table - 1) : table])
        self._sweep(OlderMark(key, self.now, options, plan))

    @rule(options=OPTIONS)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def run(self, options: Options) -> None:
        self.whole_run(options=options)

    def whole_run(self, *, options: Options) -> OlderMark:
        """Mark and sweep, and compare both with the oracle."""
        made = self._mark(options)
        self._sweep(made)
        self.runs += 1
        self.tally.runs += 1
        return made

    def _by_time_or_all(self, options: Options) -> Options:
        return replace(options, ask_all=True) if self.beyond_the_bound else options

    def _open(self, key: datetime, options: Options, opened: datetime | None = None) -> Run:
        return open_sandbox_run(
            self.sandbox,
            self.repository.name,
            self.spark,
            key,
            opened=opened or max(self.now, key) + timedelta(seconds=1),
            min_age=MIN_AGE,
            **options.of_run,
        )

    def _next_run(self, options: Options) -> datetime:
        """Give the next run its key, and come to that instant."""
        key = self.next_key
        self.keys.add(key)
        self.sandbox.clock.set(max(self.now, key))
        self.sandbox.behaviour.uncommitted_page_rows = options.page_rows
        return key

    def _mark(self, options: Options) -> OlderMark:
        key = self._next_run(options)
        self._look_for_signs(self._noted_before(key))
        options = self._by_time_or_all(options)
        objects, alive = (
            self.repository.objects(),
            reachable(self.repository, key, options, self.held),
        )
        try:
            run, (marked, verdict, results) = self._mark_and_conclude(key, options)
        except LakegcError as refused:
            self._replay(key, objects, None, left=self.repository.objects())
            self.recorded.pop(key, None)
            branch = _NOT_LOOKED_UP.search(str(refused))
            is_incomplete = isinstance(refused, IncompleteReadError)
            if branch is None or not is_incomplete or not self.repository.may_compact:
                raise
            # What is compacted and then deleted is in the diff and not on the branch. As the
            # refusal says:
            self.repository.reset(branch[1])
            self.drops(branch[1])
            return self._mark(options)
        self.noted[key] = self.repository.branches()
        failed = [result.name for result in results if not result.allows]
        if failed == ["live_objects_are_listed"] and not objects:
            # All that is referred to was re-staged after it was gone: nothing to delete, and the
            # guard cannot know why.
            return OlderMark(key, self.now, options, set())
        assert not self._refused(run, failed), [result for result in results if not result.passed]
        plan = set(marked.addresses(run))
        made = OlderMark(key, verdict.concluded_at, options, plan)
        self._require_plan(made, marked, alive, objects)
        self._replay(key, objects, plan)
        return made

    def _mark_and_conclude(self, key: datetime, options: Options) -> tuple[Run, Concluded]:
        """Mark; a subclass compares it with another mark."""
        run = self._open(key, options)
        return run, self._recorded_mark(run, key, options)

    def _recorded_mark(self, run: Run, key: datetime, options: Options) -> Concluded:
        """Mark, and take note of all calls."""
        with self._listening(self._begin_to_record(key, options), run) as heard:
            return mark_and_conclude(heard)

    @contextmanager
    def _listening(self, recorder: Recorder | None, run: Run) -> Iterator[Run]:
        """Take note of the calls of a run; yields the run to use."""
        if recorder is None:
            yield run
            return
        with recorder.listening(self.sandbox, run) as heard:
            yield heard

    def _begin_to_record(self, key: datetime, options: Options) -> Recorder | None:
        """Take note of what refers to objects when a mark begins; None if nobody wants it."""
        if not self.is_replayed:
            return None
        recorder = self.recorded[key] = Recorder()
        self._note_references(key, options)
        return recorder

    def _note_references(self, key: datetime, options: Options) -> None:
        """Take note of what refers to objects now, if a run is recorded; rules count from its own
        instant.
        """
        if recorder := self.recorded.get(key):
            recorder.changed(references(self.repository, key, options, self.held))

    def _recorded_sweep(self, made: OlderMark) -> dict[str, tuple[str, str | None]]:
        """Sweep, and take note of all calls if the mark's are known."""
        self._note_references(made.key, made.options)
        with self._listening(self.recorded.get(made.key), self._open_sweep(made)) as heard:
            return swept(heard)

    def _replay(
        self,
        key: datetime,
        objects: Collection[str],
        plan: Collection[str] | None,
        outcomes: Mapping[str, str] | None = None,
        left: Collection[str] | None = None,
    ) -> None:
        """Have the model go through what a mark, or its sweep, made of each object; see `Judged`.

        Args:
            key: The run's.
            objects: What was there before.
            plan: What the mark let go.
            outcomes: What the sweep reported.
            left: What is there after a process was killed, or refused to go on.
        """
        recorder = self.recorded.get(key)
        if recorder is None:
            self.tally.replayed.runs[self._why_not_replayed()] += 1
            return
        outside = {address: self._outside_the_model(key, address) for address in objects}
        if outcomes is not None:
            # The mark asked about it as it was; only what was there then can be in its plan.
            since = (one for one in plan or () if one in outside and self._is_since(key, one))
            outside |= dict.fromkeys(since, WRITTEN_OVER)
        ages = {
            address: age_of(self.repository.born(address), key, MIN_AGE, key - OLD_ENOUGH)
            for address in objects
            if outside[address] is None
        }
        judged = Judged(ages, plan, outcomes, left)
        if self.repository.may_compact:
            judged = replace(judged, keeps="kept by a table that a branch may have compacted")
        told = words_of(recorder.events, judged)
        told.objects += Counter(why for why in outside.values() if why is not None)
        if outcomes is not None:
            told.objects += Counter({LOST: len(set(plan or ()) - set(objects))})
        self.tally.replayed += told
        replay.require_allowed(told.words)

    def _outside_the_model(self, key: datetime, address: str) -> str | None:
        """Say why the model has no word for what a run made of an object; None if it has."""
        if address in self.hidden_then.get(key, ()):
            return HIDDEN
        return OLDER if self.repository.is_older_than_itself(address) else None

    def _is_since(self, key: datetime, address: str) -> bool:
        """Say whether an object was written, or written over, after a run began."""
        return self.repository.born(address) >= key

    def _why_not_replayed(self) -> str:
        if not self.is_replayed:
            return "a search that does not ask the model"
        return "a mark that was not recorded"

    def _refused(self, run: Run, failed: list[str]) -> list[str]:
        """Return the checks that refuse a mark; a subclass confirms what it can explain."""
        return failed

    def _require_plan(
        self, made: OlderMark, marked: Marked, alive: set[str], objects: Mapping[str, bytes]
    ) -> None:
        require_plan(
            self.repository,
            made.plan,
            alive=alive,
            objects=objects,
            cutoff=made.key - OLD_ENOUGH,
            twins=marked.expired.manifest.facts["twins"],
        )

    def _sweep(self, made: OlderMark) -> None:
        self._look_for_signs(self.noted[made.key])
        if self.beyond_the_bound and not made.options.ask_all:
            # The stated limit: only a mark that asks everything finds what has hidden since.
            return
        before = self.repository.objects()
        must_stay, may_stay = self._keeps(made, before)
        report = self._recorded_sweep(made) if made.plan else {}
        after = self.repository.objects()
        outcomes = {address: outcome for address, (outcome, _) in report.items()}
        require_swept(
            before,
            after,
            made.plan,
            outcomes,
            why={address: why for address, (_, why) in report.items()},
            must_stay=must_stay | young(self.repository, before, made.key - OLD_ENOUGH),
            may_stay=may_stay,
            every_twin_asked=made.options.twin_calls >= ENOUGH,
        )
        self._replay(made.key, made.plan & set(before), made.plan, outcomes)
        self.recorded.pop(made.key, None)
        self._after_sweep(made, before, after)
        self.tally.deleted += len(before) - len(after)
        self.tally.kept += sum(outcome not in GONE for outcome in outcomes.values())

    def _keeps(self, made: OlderMark, before: Mapping[str, bytes]) -> tuple[set[str], set[str]]:
        """Return what a sweep that begins now must leave, and what it may leave."""
        must_stay = reachable(self.repository, self.now, made.options, self.held)
        # Rules count from the run's instant, so what they kept then they keep in a sweep of it.
        may_stay = reachable(self.repository, made.key, made.options, self.held) | must_stay
        if self.repository.may_compact:
            may_stay |= set(before)
        return must_stay, may_stay

    def _open_sweep(self, made: OlderMark) -> Run:
        return self._open(made.key, made.options)

    def _after_sweep(
        self, made: OlderMark, before: Mapping[str, bytes], after: Mapping[str, bytes]
    ) -> None:
        """Note what a sweep took; a subclass does."""


def swept(run: Run) -> dict[str, tuple[str, str | None]]:
    """Sweep a concluded mark; address -> outcome and cause."""
    report = run.keep(sweep.sweep(run))
    sweep.require_complete(report)
    rows = rows_of(report, ["address", "outcome", "error"])
    return {row.address: (row.outcome, row.error) for row in rows}


Step = tuple[str, Mapping[str, Any]]


def play(machine: type[HistoryMachine], steps: Iterable[Step]) -> None:
    """Play a history that was written down, to the collections that end it."""
    history, steps = machine(), list(steps)
    history.begin(may_compact=any(name == "compact" for name, _ in steps))
    for name, arguments in steps:
        getattr(history, name)(**arguments)
    history.teardown()
