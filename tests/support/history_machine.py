"""Any history of a repository on the sandbox, over HTTP, with whole collections in between: a state machine for Hypothesis.

Every rule takes small numbers, which choose among what there is; so a history
can be written down as a list of calls, and played again by `play`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lakegc_dagster.sandbox import Sandbox
from spark_core.run import Run
from tests.support.live_repository import short
from tests.support.live_server import LiveError
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_repository import SandboxRepository, SandboxServer
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.search_oracle import GONE, Options, reachable, require_plan, require_swept, young

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

NUMBER = st.integers(0, 11)
OPTIONS = st.builds(
    Options,
    margin_hours=st.sampled_from([1, 0]),
    tags_protect=st.sampled_from([True, True, False]),
    twin_calls=st.sampled_from([1_000, 1_000, 1_000, 1, 0]),
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
    most_runs = 2

    def __init__(self) -> None:
        super().__init__()
        self.sound = False
        self.runs = 0
        self.keys: set[datetime] = set()
        self.places: list[tuple[str, str, str, bytes]] = []
        self.marks: list[OlderMark] = []

    @initialize()
    def begin(self) -> None:
        """Make a repository with a month of history."""
        self.sandbox.clock.set(BEGINNING)
        server = SandboxServer.of(self.sandbox)
        self.repository = SandboxRepository(server)
        self.repository.rules(7, main=10, dev=4)
        for age, path in ((30, "a"), (11, "a"), (9, "b"), (2, "b")):
            self.sandbox.clock.set(BEGINNING - timedelta(days=age))
            self.repository.upload("main", path, path.encode())
            self.repository.upload("main", "dir/c", b"x" * (age % 4 + 1))
            self.repository.commit("main")
        self.sandbox.clock.set(BEGINNING)
        self.repository.branch("dev", "main")
        self.tally.histories += 1
        self.sound = True

    def teardown(self) -> None:
        """End the history with a collection, and with another that must find nothing more."""
        if not self.sound:
            return
        self.whole_run(options=Options())
        self.whole_run(options=Options(), empty=True)
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

    @rule(branch=NUMBER, path=NUMBER, data=NUMBER)
    @_action
    def write_past_the_server(self, branch: int, path: int, data: int) -> None:
        """Write an object at an address that the server gave out; it is linked later, or never."""
        where, body = (self._branch(branch), self._path(path)), self._data(data)
        place = self.repository.write_unlinked(*where, body)
        self.places.append((*where, place["physical_address"], body))

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

    @rule(branch=NUMBER)
    @_action
    def commit(self, branch: int) -> None:
        self.repository.commit(self._branch(branch))

    @rule(
        branch=NUMBER,
        days=st.sampled_from(DAYS),
        margin=st.sampled_from([0, 3600]),
        seconds=st.sampled_from([0, -1, 1, -3599, 7200]),
    )
    @_action
    def commit_at_a_threshold(self, branch: int, days: int, margin: int, seconds: int) -> None:
        """Commit as of the instant at which a rule would let go if a run came next, or a second off it."""
        date = self.next_key - timedelta(days=days, seconds=margin) + timedelta(seconds=seconds)
        self.repository.commit(self._branch(branch), date=int(date.timestamp()))

    @rule(
        source=NUMBER, branch=NUMBER, strategy=st.sampled_from(["", "source-wins", "dest-wins"]), squash=st.booleans()
    )
    @_action
    def merge(self, source: int, branch: int, strategy: str, *, squash: bool) -> None:
        options: dict[str, Any] = {"strategy": strategy} if strategy else {}
        self.repository.merge(self._branch(source), self._branch(branch), squash_merge=squash, **options)

    @rule(branch=NUMBER, commit=NUMBER)
    @_action
    def revert(self, branch: int, commit: int) -> None:
        id_ = self._commit(commit)
        self.repository.revert(self._branch(branch), id_, parent_number=self._parent_number(id_))

    @rule(branch=NUMBER, commit=NUMBER)
    @_action
    def cherry_pick(self, branch: int, commit: int) -> None:
        id_ = self._commit(commit)
        number = self._parent_number(id_)
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
        self.repository.branch(name, self._commit(source), hidden=hidden)

    @rule(number=NUMBER)
    @_action
    def drop_branch(self, number: int) -> None:
        self.repository.drop_branch(self._branch(number))

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

    @rule(options=OPTIONS)
    @precondition(lambda self: self.runs < self.most_runs)
    @_action
    def run(self, options: Options) -> None:
        self.whole_run(options=options)

    def whole_run(self, *, options: Options, empty: bool = False) -> None:
        """Mark and sweep, and compare both with the oracle.

        Args:
            options: Of the run.
            empty: A run just before this one left nothing to do.
        """
        made = self._mark(options)
        assert not (empty and made.plan), f"a second run deletes: {sorted(made.plan)}"
        self._sweep(made)
        self.runs += 1
        self.tally.runs += 1

    def _open(self, key: datetime, options: Options) -> Run:
        opened = max(self.now, key) + timedelta(seconds=1)
        return open_sandbox_run(
            self.sandbox, self.repository.name, self.spark, key, opened=opened, min_age=MIN_AGE, **options.of_run
        )

    def _mark(self, options: Options) -> OlderMark:
        key = self.next_key
        self.keys.add(key)
        self.sandbox.clock.set(max(self.now, key))
        self.sandbox.behaviour.uncommitted_page_rows = options.page_rows
        objects, alive = self.repository.objects(), reachable(self.repository, key, options)
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

    def _sweep(self, mark: OlderMark) -> None:
        before = self.repository.objects()
        must_stay = reachable(self.repository, self.now, mark.options)
        may_stay = reachable(self.repository, mark.key, mark.options) | must_stay
        run = self._open(mark.key, mark.options)
        outcomes = sweep_only(run) if mark.plan or before else {}
        after = self.repository.objects()
        require_swept(
            before,
            after,
            mark.plan,
            outcomes,
            must_stay=must_stay | young(self.repository, before, mark.key - MIN_AGE),
            may_stay=may_stay,
        )
        self.tally.deleted += len(before) - len(after)
        self.tally.kept += sum(outcome not in GONE for outcome in outcomes.values())


Step = tuple[str, Mapping[str, Any]]


def play(machine: type[HistoryMachine], steps: Iterable[Step]) -> None:
    """Play a history that was written down, to the collections that end it."""
    history = machine()
    history.begin()
    for name, arguments in steps:
        getattr(history, name)(**arguments)
    history.teardown()
