"""Any history of a repository on the sandbox, over HTTP, with whole collections in between: a state machine for Hypothesis.

Every rule takes small numbers, which choose among what there is; so a history
can be written down as a list of calls, and played again by `play`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lakegc_dagster.sandbox import Sandbox
from spark_core import holds, mark, sweep, verdict
from spark_core.errors import ChainError, ClosedPartitionError, VerdictError
from spark_core.run import Run
from spark_core.tables import Draft, StoredTable
from tests.support.live_repository import short
from tests.support.live_server import LiveError
from tests.support.pipeline import Marked, mark_and_conclude, sweep_only
from tests.support.sandbox_repository import SandboxRepository, SandboxServer
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.search_oracle import GONE, Held, Options, reachable, require_plan, require_swept, young

BEGINNING = datetime(2026, 9, 1, 2, tzinfo=UTC)
MIN_AGE = timedelta(hours=24)
MAX_MARK_AGE = timedelta(days=7)
# Below five minutes a clock that went back is taken for the skew of two machines.
MAX_SKEW = timedelta(minutes=5)

DAYS = (1, 4, 7, 10)
PATHS = ("a", "b", "dir/c", "dir//d", "dir/e#1")
BRANCHES = ("dev", "b1", "b2")
TAGS = ("t1", "t2")
_DAY = 24 * 3600
STEPS = {
    # To the cutoff of what was written just now, a moment before and a moment after it; and days, so that dates meet rules.
    f"{seconds} s": timedelta(seconds=seconds)
    for seconds in (1, 3600, 3601, _DAY - 1, _DAY, _DAY + 1, 3 * _DAY, 3 * _DAY + 1, 6 * _DAY, -1, -60, -3600)
} | {"1 us": timedelta(microseconds=1), "a day and 1 us": timedelta(days=1, microseconds=1)}

# Of the calls that looking for twins may take: so many suffice for a history's paths and branches.
ENOUGH = 1_000
FEWEST_ACTIONS = 3
# Days before the next run, and seconds off them: at the threshold with and without the margin, and next to it.
DATES = st.none() | st.tuples(st.sampled_from(DAYS), st.sampled_from([0, -1, 1, -3600, -3599, -3601, 7200]))
WAYS_BACK = ("stage", "branch", "tag", "reset", "hold", "rules")
TABLES: tuple[Callable[..., Draft], ...] = (
    mark.namespace_slices,
    mark.uncommitted_addresses,
    mark.retained_commits,
    mark.committed_addresses,
)

NUMBER = st.integers(0, 11)
OPTIONS = st.builds(
    Options,
    margin_hours=st.sampled_from([1, 0]),
    tags_protect=st.sampled_from([True, True, False]),
    twin_calls=st.sampled_from([ENOUGH, ENOUGH, ENOUGH, 1, 0]),
    page_rows=st.sampled_from([None, None, 1, 2]),
)


@dataclass
class Tally:
    """What was tried, over all histories.

    Attributes:
        did: How often each action went through.
        refused: How often the server said no: a conflict, nothing to commit, a branch that is not clean.
        deleted: Objects that sweeps deleted.
        kept: Objects that sweeps of older marks found referenced again.
    """

    did: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    histories: int = 0
    runs: int = 0
    deleted: int = 0
    kept: int = 0

    def __str__(self) -> str:
        return (
            f"{self.runs} whole runs in {self.histories} histories of {self.did.total()} actions "
            f"({self.refused.total()} refused), {self.deleted} objects deleted, {self.kept} kept as referenced again"
        )


@dataclass(frozen=True)
class OlderMark:
    """A mark that was not swept at once."""

    key: datetime
    concluded: datetime
    options: Options
    plan: set[str]


def _action(does: Callable[..., None]) -> Callable[..., None]:
    """Count an action; what the server refuses did not happen."""

    @wraps(does)
    def act(self: HistoryMachine, **arguments: Any) -> None:
        self.sound = False
        try:
            does(self, **arguments)
        except LiveError as no:
            # 500 is how the server says that the object of a copy's source is gone.
            if no.status not in {400, 404, 409, 410, 412} and (does.__name__, no.status) != ("copy", 500):
                raise
            self.tally.refused[does.__name__] += 1
        else:
            self.tally.did[does.__name__] += 1
            self.acted += 1
        self.sound = True

    return act


class HistoryMachine(RuleBasedStateMachine):
    """One repository, from its first commit to the collection that ends its history.

    Attributes:
        sandbox: Shared by all histories; each has a repository of its own.
        spark: The session.
        tally: Told of everything.
        most_runs: Whole runs in the middle of one history.
    """

    sandbox: Sandbox
    spark: Any
    tally: Tally
    most_runs = 3

    def __init__(self) -> None:
        super().__init__()
        self.sound = False
        self.runs = 0
        self.acted = 0
        self.keys: set[datetime] = set()
        self.places: list[tuple[str, str, str, bytes]] = []
        self.marks: list[OlderMark] = []
        self.held = Held()

    @initialize()
    def begin(self) -> None:
        """Make a repository with two months of history: branches, one of them gone, a tag, something staged."""
        self.sandbox.clock.set(BEGINNING - timedelta(days=60))
        self.repository = SandboxRepository(SandboxServer.of(self.sandbox))
        self.repository.rules(7, main=10, dev=4)
        story = (
            (50, "main", "a"),
            (40, "gone", "b"),
            (30, "gone", "b"),
            (20, "main", "a"),
            (11, "dev", "dir/c"),
            (9, "main", "a"),
            (5, "dev", "dir/c"),
            (3, "main", "b"),
        )
        for number, (age, branch, path) in enumerate(story):
            self.sandbox.clock.set(BEGINNING - timedelta(days=age))
            if branch not in self.repository.branches():
                self.repository.branch(branch, "main")
            self.repository.upload(branch, path, self._data(number))
            self.repository.upload(branch, "dir/e#1", self._data(number + 4))
            self.repository.commit(branch)
        self.repository.tag("t1", self._commit(5))
        self.repository.drop_branch("gone")
        self.repository.upload("dev", "a", b"staged")
        self.sandbox.clock.set(BEGINNING)
        self.sound = True

    def teardown(self) -> None:
        """End the history with a collection, which cannot be swept twice, and with another that finds nothing more."""
        # Hypothesis begins with histories in which next to nothing happens: they are not worth a collection.
        if not self.sound or self.acted < FEWEST_ACTIONS:
            return
        self.tally.histories += 1
        first = self.whole_run(options=Options())
        left = self.repository.objects()
        if first.plan:
            with pytest.raises(ClosedPartitionError, match="was swept"):
                swept(self._open(first.key, first.options))
            assert self.repository.objects() == left
        # It stands for a later second, in which at most what became too old then may go; the oracle says what.
        second = self.whole_run(options=Options())
        assert not second.plan & set(first.plan)
        self.repository.remove()

    # What an action works on

    @property
    def now(self) -> datetime:
        return self.sandbox.clock.now()

    @property
    def next_key(self) -> datetime:
        """The instant that the next run stands for, if the clock is not moved before."""
        key = self.now.replace(microsecond=0)
        while key in self.keys:
            key += timedelta(seconds=1)
        return key

    def _branch(self, number: int) -> str:
        names = sorted(self.repository.branches())
        return names[number % len(names)]

    def _commit(self, number: int) -> str:
        """Choose a commit: the younger ones have the lower numbers."""
        ids = list(reversed(self.repository.commits))
        return short(ids[number % len(ids)])

    def _parent_number(self, commit: str) -> int:
        (whole,) = [known for known in self.repository.commits if known.startswith(commit)]
        return 1 if len(self.repository.commits[whole]["parents"]) > 1 else 0

    def _path(self, number: int) -> str:
        return PATHS[number % len(PATHS)]

    def _there(self, branch: str, number: int) -> str:
        """Choose a path that is on the branch, if there is one."""
        paths = sorted(self.repository.entries(branch))
        return paths[number % len(paths)] if paths else self._path(number)

    def _data(self, number: int) -> bytes:
        # Few contents of few sizes: many objects are then of the size of some entry, and may be its twin.
        return bytes([97 + number // 4]) * (number % 4 + 1)

    # Objects

    @rule(branch=NUMBER, paths=st.lists(NUMBER, min_size=1, max_size=3), data=NUMBER)
    @_action
    def upload(self, branch: int, paths: list[int], data: int) -> None:
        for path in paths:
            self.repository.upload(self._branch(branch), self._path(path), self._data(data))

    @rule(branch=NUMBER, paths=st.lists(NUMBER, min_size=1, max_size=3), data=NUMBER, date=DATES)
    @_action
    def upload_and_commit(self, branch: int, paths: list[int], data: int, date: tuple[int, int] | None) -> None:
        self.upload(branch=branch, paths=paths, data=data)
        self.commit(branch=branch, date=date)

    @rule(branches=st.tuples(NUMBER, NUMBER), path=NUMBER, data=NUMBER, step=st.sampled_from([3600, 24 * 3600]))
    @_action
    def overwrite_again_and_again(self, branches: tuple[int, int], path: int, data: int, step: int) -> None:
        """Commit another object at one path each hour, or each day, on two branches in turn."""
        for number in range(4):
            self.sandbox.clock.advance(timedelta(seconds=step))
            self.upload_and_commit(branch=branches[number % 2], paths=[path], data=data + number, date=None)

    @rule(branch=NUMBER, path=NUMBER)
    @_action
    def upload_the_same(self, branch: int, path: int) -> None:
        name = self._branch(branch)
        there = self._there(name, path)
        self.repository.upload(name, there, self.repository.get(name, there))

    @rule(branch=NUMBER, path=NUMBER)
    @_action
    def remove(self, branch: int, path: int) -> None:
        name = self._branch(branch)
        self.repository.delete(name, self._there(name, path))

    @rule(branch=NUMBER, path=NUMBER, source=NUMBER, source_path=NUMBER)
    @_action
    def copy(self, branch: int, path: int, source: int, source_path: int) -> None:
        name = self._branch(source)
        self.repository.copy(self._branch(branch), self._path(path), name, self._there(name, source_path))

    @rule(branch=NUMBER, path=NUMBER, data=NUMBER, linked=st.booleans())
    @_action
    def write_past_the_server(self, branch: int, path: int, data: int, *, linked: bool) -> None:
        """Write an object at an address that the server gave out; it is linked at once, later, or never."""
        where, body = (self._branch(branch), self._path(path)), self._data(data)
        place = self.repository.write_unlinked(*where, body)
        self.places.append((*where, place["physical_address"], body))
        if linked:
            self.link(number=len(self.places) - 1, said=0)

    @rule(number=NUMBER, said=st.sampled_from([0, 0, 1]))
    @precondition(lambda self: self.places)
    @_action
    def link(self, number: int, said: int) -> None:
        """Link what was written past the server; the client says the size, wrongly now and then."""
        branch, path, address, body = self.places.pop(number % len(self.places))
        self.repository.link_to(branch, path, address, body + b"!" * said)

    @rule(
        branch=NUMBER,
        path=NUMBER,
        number=st.integers(0, 50),
        spelling=st.sampled_from(["relative", "absolute", "as shown"]),
        said=st.sampled_from([0, 0, 1]),
    )
    @_action
    def stage_an_old_address(self, branch: int, path: int, number: int, spelling: str, said: int) -> None:
        """Refer anew to an object that was written at any time, be it gone by now."""
        address = list(self.repository.contents)[number % len(self.repository.contents)]
        body = self.repository.contents[address]
        root = self.sandbox.blockstore
        spelt = {
            "relative": f"{self.repository.namespace}/{address}",
            "absolute": f"local://{root}/{self.repository.store.path}/{address}",
            # As stat shows an entry with an absolute address: the blockstore's path comes twice.
            "as shown": f"local://{root}{root}/{self.repository.store.path}/{address}",
        }[spelling]
        answer = self.repository.stage(self._branch(branch), self._path(path), spelt, size_bytes=len(body) + said)
        assert answer.status == 201, answer.body

    # Commits and refs

    @rule(branch=NUMBER, date=DATES)
    @_action
    def commit(self, branch: int, date: tuple[int, int] | None) -> None:
        """Commit as of now, or of an instant near that at which a rule would let go if a run came next."""
        name = self._branch(branch)
        if date is None:
            self.repository.commit(name)
        else:
            days, seconds = date
            threshold = self.next_key - timedelta(days=days)
            self.repository.commit(name, date=int((threshold + timedelta(seconds=seconds)).timestamp()))

    @rule(
        source=NUMBER, branch=NUMBER, strategy=st.sampled_from(["", "source-wins", "dest-wins"]), squash=st.booleans()
    )
    @_action
    def merge(self, source: int, branch: int, strategy: str, *, squash: bool) -> None:
        options: dict[str, Any] = {"strategy": strategy} if strategy else {}
        # A branch that is not clean takes no merge.
        self.repository.reset(self._branch(branch))
        self.repository.merge(self._branch(source), self._branch(branch), squash_merge=squash, **options)

    @rule(branch=NUMBER, commit=NUMBER)
    @_action
    def revert(self, branch: int, commit: int) -> None:
        id_ = self._commit(commit)
        self.repository.reset(self._branch(branch))
        self.repository.revert(self._branch(branch), id_, parent_number=self._parent_number(id_))

    @rule(branch=NUMBER, commit=NUMBER)
    @_action
    def cherry_pick(self, branch: int, commit: int) -> None:
        id_ = self._commit(commit)
        number = self._parent_number(id_)
        self.repository.reset(self._branch(branch))
        self.repository.cherry_pick(self._branch(branch), id_, **({"parent_number": number} if number else {}))

    @rule(branch=NUMBER, path=st.none() | NUMBER)
    @_action
    def reset(self, branch: int, path: int | None) -> None:
        name = self._branch(branch)
        what = {} if path is None else {"type": "object", "path": self._there(name, path)}
        self.repository.reset(name, **what)

    @rule(branch=NUMBER, commit=NUMBER)
    @_action
    def hard_reset(self, branch: int, commit: int) -> None:
        self.repository.hard_reset(self._branch(branch), self._commit(commit))

    @rule(name=st.sampled_from(BRANCHES), source=NUMBER, hidden=st.sampled_from([False, False, True]))
    @_action
    def branch(self, name: str, source: int, *, hidden: bool) -> None:
        if name in self.repository.branches():
            name = f"more{self.tally.did['branch']}"
        self.repository.branch(name, self._commit(source), hidden=hidden)

    @rule(number=NUMBER)
    @_action
    def drop_branch(self, number: int) -> None:
        # Without another branch the server refuses: it is the default one.
        names = sorted(set(self.repository.branches()) - {"main"}) or ["main"]
        self.repository.drop_branch(names[number % len(names)])

    @rule(name=st.sampled_from(TAGS), commit=NUMBER)
    @_action
    def tag(self, name: str, commit: int) -> None:
        self.repository.tag(name, self._commit(commit))

    @rule(name=st.sampled_from(TAGS))
    @_action
    def drop_tag(self, name: str) -> None:
        self.repository.drop_tag(name)

    @rule(
        default=st.sampled_from([*DAYS, None]),
        days=st.dictionaries(st.sampled_from(["main", "dev", "gone"]), st.sampled_from(DAYS)),
    )
    @_action
    def change_rules(self, default: int | None, days: Mapping[str, int]) -> None:
        if default is None:
            self.repository.call("DELETE", "/settings/gc_rules")
        else:
            self.repository.rules(default, **days)

    # Time, and collections

    @rule(step=st.sampled_from(sorted(STEPS)))
    @_action
    def step_the_clock(self, step: str) -> None:
        self.sandbox.clock.advance(STEPS[step])

    @rule(kind=st.sampled_from(["address", "prefix", "commit", "tag", "branch"]), number=st.integers(0, 50))
    @_action
    def hold(self, kind: str, number: int) -> None:
        """Keep something by name."""
        name = f"hold{self.tally.did['hold']}"
        heads, tags, there = self.repository.branches(), self.repository.tags(), sorted(self.repository.data())
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
        holds.add(self._open(self.now.replace(microsecond=0), Options()), name, kind, value, who="search", why="search")
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
    @_action
    def end_hold(self, number: int) -> None:
        name = self.held.names[number % len(self.held.names)]
        holds.remove(self._open(self.now.replace(microsecond=0), Options()), name)
        self.held.forget(name)

    @rule(options=OPTIONS)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @_action
    def mark(self, options: Options) -> None:
        """Mark, and leave the sweep for later."""
        self.marks.append(self._mark(options))

    @rule(options=OPTIONS, ways=st.lists(st.sampled_from(WAYS_BACK), min_size=1, max_size=2), number=st.integers(0, 50))
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @_action
    def revive_before_the_sweep(self, options: Options, ways: list[str], number: int) -> None:
        """Mark, refer again to something that the mark lets go, and sweep."""
        made = self._mark(options)
        for way in ways:
            with suppress(LiveError):
                self._revive(made.plan, way, number)
        self._sweep(made)
        self.runs += 1
        self.tally.runs += 1

    def _revive(self, plan: set[str], way: str, number: int) -> None:
        repository, name = self.repository, f"back{self.tally.did.total()}"
        if not plan:
            return
        if way == "stage":
            address = sorted(plan)[number % len(plan)]
            spelt = f"local://{repository.store.folder}/{address}"
            repository.stage(self._branch(number), "back", spelt, size_bytes=len(repository.contents[address]))
            return
        if way == "rules":
            repository.rules(100)
            return
        # Commits that show something of the plan.
        of_plan = [
            commit
            for commit in map(short, repository.commits)
            if any(repository.store.relative(shown) in plan for shown in repository.entries(commit).values())
        ]
        if not of_plan:
            return
        commit = of_plan[number % len(of_plan)]
        if way == "branch":
            repository.branch(name, commit, hidden=bool(number % 2))
        elif way == "tag":
            repository.tag(name, commit)
        elif way == "reset":
            repository.hard_reset(self._branch(number), commit)
        elif way == "hold":
            (whole,) = [known for known in repository.commits if known.startswith(commit)]
            holds.add(
                self._open(self.now.replace(microsecond=0), Options()), name, "commit", whole, who="me", why="search"
            )
            self.held.commits[name] = whole

    @rule(number=NUMBER)
    @precondition(lambda self: self.marks)
    @_action
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
            with pytest.raises(
                VerdictError, match="the limit" if age > MAX_MARK_AGE else "ahead of this machine's clock"
            ):
                sweep_only(self._open(made.key, made.options))
            assert self.repository.objects() == before

    @rule(table=st.integers(0, 3), branch=NUMBER, options=OPTIONS)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @_action
    def make_a_table_again(self, table: int, branch: int, options: Options) -> None:
        """Make one of the tables again after the others, with a commit in between: refused, or harmless."""
        before, key = self.repository.objects(), self._next_run(options)
        run = self._open(key, options)
        made: list[StoredTable] = []
        for make in TABLES:
            made.append(run.keep(make(run, *made[-1:])))
        with suppress(LiveError):
            self.repository.commit(self._branch(branch))
        made[table] = run.keep(TABLES[table](run, *made[max(0, table - 1) : table]))
        self.runs += 1
        self.tally.runs += 1
        try:
            expired = run.keep(mark.expired_addresses(run, mark.Mark(*made)))
        except ChainError:
            assert table < len(TABLES) - 1, "the last table may be made again"
            assert self.repository.objects() == before
            return
        assert table == len(TABLES) - 1, f"the tables after {TABLES[table].__name__} were made before it"
        verdict.conclude(run)
        with pytest.raises(ClosedPartitionError, match="already"):
            TABLES[table](run, *made[max(0, table - 1) : table])
        self._sweep(OlderMark(key, self.now, options, set(Marked(mark.Mark(*made), expired).addresses(run))))

    @rule(options=OPTIONS)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @_action
    def run(self, options: Options) -> None:
        self.whole_run(options=options)

    def whole_run(self, *, options: Options) -> OlderMark:
        """Mark and sweep, and compare both with the oracle."""
        made = self._mark(options)
        self._sweep(made)
        self.runs += 1
        self.tally.runs += 1
        return made

    def _open(self, key: datetime, options: Options) -> Run:
        opened = max(self.now, key) + timedelta(seconds=1)
        return open_sandbox_run(
            self.sandbox, self.repository.name, self.spark, key, opened=opened, min_age=MIN_AGE, **options.of_run
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
        objects, alive = self.repository.objects(), reachable(self.repository, key, options, self.held)
        run = self._open(key, options)
        marked, verdict, results = mark_and_conclude(run)
        failed = [result.name for result in results if not result.passed]
        if failed == ["live_objects_are_listed"] and not objects:
            # All that is referred to was re-staged after it was gone: nothing to delete, and the guard cannot know why.
            return OlderMark(key, self.now, options, set())
        assert verdict.passed, [result for result in results if not result.passed]
        plan = set(marked.addresses(run))
        twins = marked.expired.manifest.facts["twins"]
        require_plan(self.repository, plan, alive=alive, objects=objects, cutoff=key - MIN_AGE, twins=twins)
        return OlderMark(key, verdict.concluded_at, options, plan)

    def _sweep(self, made: OlderMark) -> None:
        before = self.repository.objects()
        must_stay = reachable(self.repository, self.now, made.options, self.held)
        # Rules count from the run's instant, so what they kept then they keep in a sweep of it.
        may_stay = reachable(self.repository, made.key, made.options, self.held) | must_stay
        report = swept(self._open(made.key, made.options)) if made.plan else {}
        after = self.repository.objects()
        outcomes = {address: outcome for address, (outcome, _) in report.items()}
        require_swept(
            before,
            after,
            made.plan,
            outcomes,
            why={address: why for address, (_, why) in report.items()},
            must_stay=must_stay | young(self.repository, before, made.key - MIN_AGE),
            may_stay=may_stay,
            every_twin_asked=made.options.twin_calls >= ENOUGH,
        )
        self.tally.deleted += len(before) - len(after)
        self.tally.kept += sum(outcome not in GONE for outcome in outcomes.values())


def swept(run: Run) -> dict[str, tuple[str, str | None]]:
    """Sweep a concluded mark; address -> outcome and cause."""
    report = run.keep(sweep.sweep(run))
    sweep.require_complete(report)
    rows = report.frame(run.spark, ["address", "outcome", "error"]).collect()
    return {row.address: (row.outcome, row.error) for row in rows}


Step = tuple[str, Mapping[str, Any]]


def play(machine: type[HistoryMachine], steps: Iterable[Step]) -> None:
    """Play a history that was written down, to the collections that end it."""
    history = machine()
    history.begin()
    for name, arguments in steps:
        getattr(history, name)(**arguments)
    history.teardown()
