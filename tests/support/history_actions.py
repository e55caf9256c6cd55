"""What people do to a repository on the sandbox, over HTTP, as rules of a state machine for
Hypothesis.

Every rule takes small numbers, which choose among what there is; so a history
can be written down as a list of calls.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lakegc_dagster.sandbox import Sandbox
from tests.support.live_repository import short
from tests.support.live_server import LiveError
from tests.support.recorded_events import Replayed
from tests.support.sandbox_repository import SandboxRepository, SandboxServer

BEGINNING = datetime(2026, 9, 1, 2, tzinfo=UTC)

DAYS = (1, 4, 7, 10)
PATHS = ("a", "b", "dir/c", "dir//d", "dir/e#1")
BRANCHES = ("dev", "b1", "b2")
TAGS = ("t1", "t2")
_DAY = 24 * 3600
# The minimum age, and what clocks may differ by.
_OLD = _DAY + 300
STEPS = {
    # To the cutoff of what was written just now, a moment before and a moment after it; and days,
    # so that dates meet rules.
    f"{seconds} s": timedelta(seconds=seconds)
    for seconds in (
        1,
        3600,
        3601,
        _DAY,
        _OLD - 1,
        _OLD,
        _OLD + 1,
        3 * _DAY,
        3 * _DAY + 1,
        6 * _DAY,
        -1,
        -60,
        -3600,
    )
} | {
    "1 us": timedelta(microseconds=1),
    "a day, 5 min and 1 us": timedelta(seconds=_OLD, microseconds=1),
}

# Days before the next run, and seconds off them: at the threshold with and without the margin, and
# next to it.
DATES = st.none() | st.tuples(
    st.sampled_from(DAYS), st.sampled_from([0, -1, 1, -3600, -3599, -3601, 7200])
)

NUMBER = st.integers(0, 11)

REFUSED = {400, 404, 409, 410, 412}
# How the server says that the object of a copy's source is gone, and that a branch is the default
# one.
REFUSED_ALSO = {("copy", 500), ("drop_branch", 403)}


class Enough(KeyboardInterrupt):
    """Ends the search when enough was played.

    Hypothesis does not check the drawn values of an interrupted example. Empty histories from then
    on would change what their rules allow, and Hypothesis would report a flaky test.
    """


@dataclass
class Tally:
    """What was tried, over all histories.

    Attributes:
        did: How often each action went through.
        refused: How often the server said no: a conflict, nothing to commit, a branch that is not
            clean.
        deleted: Objects that sweeps deleted.
        kept: Objects that sweeps of older marks found referenced again.
        wanted: Whole runs that are enough; None for as many as come.
        replayed: What the model of the protocol allows, and what it was not asked about.
    """

    wanted: int | None = None
    did: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    histories: int = 0
    runs: int = 0
    deleted: int = 0
    kept: int = 0
    replayed: Replayed = field(default_factory=Replayed)

    @property
    def is_full(self) -> bool:
        """Whether enough was played."""
        return self.wanted is not None and self.runs >= self.wanted

    @contextmanager
    def counting_on(self) -> Iterator[None]:
        """Never be full after a failure, and report the first at once: Hypothesis may not find it
        again.
        """
        try:
            yield
        except Exception:
            if self.wanted is not None:
                traceback.print_exc()
            self.wanted = None
            raise

    def __str__(self) -> str:
        return (
            f"{self.runs} whole runs in {self.histories} histories of {self.did.total()} actions "
            f"({self.refused.total()} refused), {self.deleted} objects deleted, {self.kept} kept "
            "as referenced again" + (f"; {self.replayed}" if self.replayed else "")
        )


def action(does: Callable[..., None]) -> Callable[..., None]:
    """Count an action; what the server refuses did not happen."""

    @wraps(does)
    def act(self: HistoryActions, **arguments: Any) -> None:
        self.sound = False
        with self.tally.counting_on():
            try:
                does(self, **arguments)
            except LiveError as no:
                if no.status not in REFUSED and (does.__name__, no.status) not in REFUSED_ALSO:
                    raise
                self.tally.refused[does.__name__] += 1
            else:
                self.tally.did[does.__name__] += 1
                self.acted += 1
        self.sound = True

    return act


class HistoryActions(RuleBasedStateMachine):
    """One repository, and everything that people do to it.

    Attributes:
        sandbox: Shared by all histories; each has a repository of its own.
        tally: Told of everything.
        story: The history that a repository has at the beginning: how many days ago what was
            committed on which branch.
    """

    sandbox: Sandbox
    tally: Tally
    story: tuple[tuple[int, str, str], ...] = (
        (50, "main", "a"),
        (40, "gone", "b"),
        (30, "gone", "b"),
        (20, "main", "a"),
        (11, "dev", "dir/c"),
        (9, "main", "a"),
        (5, "dev", "dir/c"),
        (3, "main", "b"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.sound = False
        self.acted = 0
        self.keys: set[datetime] = set()
        self.places: list[tuple[str, str, str, bytes]] = []
        # What time alone does not tell of hidden entries (docs/safety.md, guarantee 1).
        self.beyond_the_bound = False
        # Branches that were reset onto another commit than one of their own line, and kept what was
        # staged ...
        self.reset_ahead: set[str] = set()
        # ... and those on which an address is staged that is older than its staging.
        self.old_staged: set[str] = set()

    @initialize(may_compact=st.booleans())
    def begin(self, *, may_compact: bool) -> None:
        """Make a repository with two months of history: branches, one of them gone, a tag,
        something staged; on a server that may compact what is staged, or on an open one.
        """
        if self.tally.is_full:
            raise Enough
        self.sandbox.clock.set(BEGINNING - timedelta(days=60))
        self.sandbox.behaviour.edition = "lakeFS-Enterprise" if may_compact else "lakeFS"
        self.repository = self._new_repository()
        self.repository.may_compact = may_compact
        self.repository.rules(7, main=10, dev=4)
        for number, (age, branch, path) in enumerate(self.story):
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

    def _new_repository(self) -> SandboxRepository:
        return SandboxRepository(SandboxServer.of(self.sandbox))

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
        # Few contents of few sizes: many objects are then of the size of some entry, and may be its
        # twin.
        return bytes([97 + number // 4]) * (number % 4 + 1)

    # What stays staged

    def drops(self, branch: str) -> None:
        """Note that a branch forgot all that was staged on it."""
        self.reset_ahead.discard(branch)
        self.old_staged.discard(branch)

    def reset_onto(self, branch: str, commit: str) -> None:
        """Reset a branch hard, and note what that may hide."""
        before = self.repository.branches()[branch]
        self.repository.hard_reset(branch, commit)
        if self.repository.branches()[branch] not in self._line(before):
            self.reset_ahead.add(branch)
        self.beyond_the_bound = self.beyond_the_bound or branch in self.old_staged

    def _line(self, commit: str) -> list[str]:
        """Return a commit and those before it on the main line."""
        line = []
        at: str | None = commit
        while at is not None:
            line.append(at)
            parents = self.repository.commits[at]["parents"]
            at = parents[0] if parents else None
        return line

    def _hides(self, branch: str, path: str) -> bool:
        """Say whether what is staged at a path does not show in the branch's changes."""
        changes = self.repository.call("GET", f"/branches/{branch}/diff", query={"amount": 1000})[
            "results"
        ]
        return path not in {change["path"] for change in changes}

    def _hidden_on(self, branch: str) -> set[str]:
        """Return the objects that are staged on a branch, and that its changes do not show."""
        head = self.repository.branches()[branch]
        staged = self.repository.entries(branch).items() - self.repository.entries(head).items()
        hidden = (address for path, address in staged if self._hides(branch, path))
        return {found for found in map(self.repository.store.relative, hidden) if found is not None}

    # Objects

    @rule(branch=NUMBER, paths=st.lists(NUMBER, min_size=1, max_size=3), data=NUMBER)
    @action
    def upload(self, branch: int, paths: list[int], data: int) -> None:
        for path in paths:
            self.repository.upload(self._branch(branch), self._path(path), self._data(data))

    @rule(branch=NUMBER, paths=st.lists(NUMBER, min_size=1, max_size=3), data=NUMBER, date=DATES)
    @action
    def upload_and_commit(
        self, branch: int, paths: list[int], data: int, date: tuple[int, int] | None
    ) -> None:
        self.upload(branch=branch, paths=paths, data=data)
        self.commit(branch=branch, date=date)

    @rule(
        branches=st.tuples(NUMBER, NUMBER),
        path=NUMBER,
        data=NUMBER,
        step=st.sampled_from([3600, 24 * 3600]),
    )
    @action
    def overwrite_again_and_again(
        self, branches: tuple[int, int], path: int, data: int, step: int
    ) -> None:
        """Commit another object at one path each hour, or each day, on two branches in turn."""
        for number in range(4):
            self.sandbox.clock.advance(timedelta(seconds=step))
            self.upload_and_commit(
                branch=branches[number % 2], paths=[path], data=data + number, date=None
            )

    @rule(branch=NUMBER, path=NUMBER)
    @action
    def upload_the_same(self, branch: int, path: int) -> None:
        name = self._branch(branch)
        there = self._there(name, path)
        self.repository.upload(name, there, self.repository.get(name, there))

    @rule(branch=NUMBER, path=NUMBER)
    @action
    def remove(self, branch: int, path: int) -> None:
        name = self._branch(branch)
        self.repository.delete(name, self._there(name, path))

    @rule(branch=NUMBER, path=NUMBER, data=NUMBER, staged=st.sampled_from([0, 1, 2, 2]))
    @precondition(lambda self: self.repository.may_compact)
    @action
    def compact(self, branch: int, path: int, data: int, staged: int) -> None:
        """Compact what is staged on a branch; perhaps stage something before, and at the same path
        something else, or the same, when that is old enough to go.
        """
        name = self._branch(branch)
        if staged:
            self.repository.upload(name, self._path(path), self._data(data))
        self.repository.compact(self.sandbox.core, name)
        if staged > 1:
            self.sandbox.clock.advance(timedelta(seconds=_OLD + 1))
            self.repository.upload(name, self._path(path), self._data(data + data % 2))

    @rule(branch=NUMBER, path=NUMBER, source=NUMBER, source_path=NUMBER)
    @action
    def copy(self, branch: int, path: int, source: int, source_path: int) -> None:
        name = self._branch(source)
        self.repository.copy(
            self._branch(branch), self._path(path), name, self._there(name, source_path)
        )

    @rule(branch=NUMBER, path=NUMBER, data=NUMBER, linked=st.booleans())
    @action
    def write_past_the_server(self, branch: int, path: int, data: int, *, linked: bool) -> None:
        """Write an object at an address that the server gave out; it is linked at once, later, or
        never.
        """
        where, body = (self._branch(branch), self._path(path)), self._data(data)
        place = self.repository.write_unlinked(*where, body)
        self.places.append((*where, place["physical_address"], body))
        if linked:
            self.link(number=len(self.places) - 1, said=0)

    @rule(number=NUMBER, said=st.sampled_from([0, 0, 1]))
    @precondition(lambda self: self.places)
    @action
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
    @action
    def stage_an_old_address(
        self, branch: int, path: int, number: int, spelling: str, said: int
    ) -> None:
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
        name = self._branch(branch)
        answer = self.repository.stage(name, self._path(path), spelt, size_bytes=len(body) + said)
        assert answer.status == 201, answer.body
        self.old_staged.add(name)
        self.beyond_the_bound = self.beyond_the_bound or self._hides(name, self._path(path))

    # Commits and refs

    @rule(branch=NUMBER, date=DATES)
    @action
    def commit(self, branch: int, date: tuple[int, int] | None) -> None:
        """Commit as of now, or of an instant near that at which a rule would let go if a run came
        next.
        """
        name = self._branch(branch)
        if date is None:
            self.repository.commit(name)
        else:
            days, seconds = date
            threshold = self.next_key - timedelta(days=days)
            self.repository.commit(
                name, date=int((threshold + timedelta(seconds=seconds)).timestamp())
            )
        self.drops(name)

    @rule(
        source=NUMBER,
        branch=NUMBER,
        strategy=st.sampled_from(["", "source-wins", "dest-wins"]),
        squash=st.booleans(),
    )
    @action
    def merge(self, source: int, branch: int, strategy: str, *, squash: bool) -> None:
        options: dict[str, Any] = {"strategy": strategy} if strategy else {}
        # A branch that is not clean takes no merge.
        self.repository.reset(self._branch(branch))
        self.drops(self._branch(branch))
        self.repository.merge(
            self._branch(source), self._branch(branch), squash_merge=squash, **options
        )

    @rule(branch=NUMBER, commit=NUMBER)
    @action
    def revert(self, branch: int, commit: int) -> None:
        id_ = self._commit(commit)
        self.repository.reset(self._branch(branch))
        self.drops(self._branch(branch))
        self.repository.revert(self._branch(branch), id_, parent_number=self._parent_number(id_))

    @rule(branch=NUMBER, commit=NUMBER)
    @action
    def cherry_pick(self, branch: int, commit: int) -> None:
        id_ = self._commit(commit)
        number = self._parent_number(id_)
        self.repository.reset(self._branch(branch))
        self.drops(self._branch(branch))
        self.repository.cherry_pick(
            self._branch(branch), id_, **({"parent_number": number} if number else {})
        )

    @rule(branch=NUMBER, path=st.none() | NUMBER)
    @action
    def reset(self, branch: int, path: int | None) -> None:
        name = self._branch(branch)
        what = {} if path is None else {"type": "object", "path": self._there(name, path)}
        self.repository.reset(name, **what)
        if what:
            # Of a path, the committed entry is staged anew, with the address that it has.
            self.old_staged.add(name)
        else:
            self.drops(name)

    @rule(branch=NUMBER, commit=NUMBER)
    @action
    def hard_reset(self, branch: int, commit: int) -> None:
        self.reset_onto(self._branch(branch), self._commit(commit))

    @rule(
        name=st.sampled_from(BRANCHES), source=NUMBER, hidden=st.sampled_from([False, False, True])
    )
    @action
    def branch(self, name: str, source: int, *, hidden: bool) -> None:
        if name in self.repository.branches():
            name = f"more{self.tally.did['branch']}"
        self.repository.branch(name, self._commit(source), hidden=hidden)

    @rule(number=NUMBER)
    @action
    def drop_branch(self, number: int) -> None:
        # Without another branch the server refuses: it is the default one.
        names = sorted(set(self.repository.branches()) - {"main"}) or ["main"]
        self.repository.drop_branch(names[number % len(names)])
        self.drops(names[number % len(names)])

    @rule(name=st.sampled_from(TAGS), commit=NUMBER)
    @action
    def tag(self, name: str, commit: int) -> None:
        self.repository.tag(name, self._commit(commit))

    @rule(name=st.sampled_from(TAGS))
    @action
    def drop_tag(self, name: str) -> None:
        self.repository.drop_tag(name)

    @rule(
        default=st.sampled_from([*DAYS, None]),
        days=st.dictionaries(st.sampled_from(["main", "dev", "gone"]), st.sampled_from(DAYS)),
    )
    @action
    def change_rules(self, default: int | None, days: Mapping[str, int]) -> None:
        if default is None:
            self.repository.call("DELETE", "/settings/gc_rules")
        else:
            self.repository.rules(default, **days)

    # Time

    @rule(step=st.sampled_from(sorted(STEPS)))
    @action
    def step_the_clock(self, step: str) -> None:
        self.sandbox.clock.advance(STEPS[step])
        self._after_a_step()

    def _after_a_step(self) -> None:
        """Do what people do once a clock was set; a subclass does."""
