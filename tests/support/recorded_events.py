"""What a mark, its sweep and the people beside them did, event by event, and what that was for each
object: a word that the model of the protocol can be asked about (`tests/model/replay.py`).
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Self
from unittest.mock import patch

import pyarrow.parquet as pq

from lakegc_dagster.sandbox import Sandbox
from spark_core import lakegc_keys
from spark_core.lakefs import LakeFSServer
from spark_core.run import Run
from tests.model.replay import Word
from tests.support import live_oracle
from tests.support.live_repository import short
from tests.support.sandbox_repository import SandboxRepository
from tests.support.search_oracle import Held, Options, retained_commits
from tests.support.writers import WatchedStore

_SCAN, _DIFF = "prepare_garbage_collection_uncommitted", "diff_branch"
# Calls that tell of refs, rules and commits; the dump of refs is read from the store.
_OF_REFS = {
    "dump_status",
    "dump_submit",
    "get_gc_rules",
    "list_tags",
    "prepare_garbage_collection_commits_async",
    "prepare_garbage_collection_commits_status",
}
# What a server that may compact has in tables that no commit names; and where it has tables.
_TABLES, _BELOW, SERVERS = "store.children", "BELOW", "_lakefs"
_KILL, _PUT = "kill", "store.put_if_absent"
_DIFFS = ("DIFF_0", "DIFF_1")
_LOOK = ("SCAN", *_DIFFS, "REFS", _BELOW)
_JOURNAL = f"{lakegc_keys.ROOT}{lakegc_keys.JOURNAL}/"
_OUTCOMES = {"deleted": "deleted", "already_gone": "gone", "kept": "kept"}


@dataclass(frozen=True)
class References:
    """What refers to objects at a moment.

    Attributes:
        staged: Relative address -> branches on which it is staged.
        kept: Addresses that heads, retained commits, tags or holds have.
        compacted: Relative address -> branches that have it in what was compacted, and not in their
            heads; it is staged there, be it below something newer.
        surely_named: Addresses that a policy lets go, whatever refers to them.
        perhaps_named: Those that it may let go.
    """

    staged: Mapping[str, frozenset[str]]
    kept: Collection[str]
    compacted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    surely_named: Collection[str] = ()
    perhaps_named: Collection[str] = ()

    def branches(self, address: str) -> frozenset[str]:
        """Return the branches that stage an object."""
        return self.staged.get(address, frozenset()) | self.compacted.get(address, frozenset())

    def letter(self, address: str, branches: Sequence[str]) -> str:
        """Return what refers to an object, where it has to do with two branches at the most."""
        staged = self.branches(address)
        compacted = self.compacted.get(address, frozenset())
        return (
            "="
            + "".join(flag for name, flag in zip(branches, "01", strict=False) if name in staged)
            + "r" * (address in self.kept)
            + "".join(flag for name, flag in zip(branches, "cd", strict=False) if name in compacted)
            + "p" * (address in self.surely_named)
            + "q" * (address in self.perhaps_named)
        )


def references(
    repository: SandboxRepository, now: datetime, options: Options, held: Held | None = None
) -> References:
    """Ask the server what refers to objects; rules count back from `now`."""
    kept = retained_commits(repository, now, options, held)
    shown = live_oracle.alive(repository, [short(commit) for commit in sorted(kept)])
    if held is not None:
        shown |= held.held_addresses(repository.contents)
    staged: dict[str, set[str]] = {}
    compacted: dict[str, set[str]] = {}
    compacted_on = repository.compacted_on()
    for branch, head in repository.branches().items():
        committed = repository.entries(short(head))
        for path, address in repository.entries(branch).items():
            inside = repository.store.relative(address)
            if inside is not None and committed.get(path) != address:
                staged.setdefault(inside, set()).add(branch)
        below = compacted_on.get(branch)
        for inside in (below or set()) - set(map(repository.store.relative, committed.values())):
            compacted.setdefault(inside, set()).add(branch)
    return References(_frozen(staged), shown, _frozen(compacted))


def _frozen(found: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {address: frozenset(branches) for address, branches in found.items()}


@dataclass(frozen=True)
class Event:
    """A call of the collection, or a change by people.

    Attributes:
        name: The server's endpoint, `store.` and the store's method, `people`, or `kill`.
        key: The key of the store, or the branch.
        addresses: Objects of a request, or of a part of the journal.
        now: What refers to objects after the change.
        answered: Whether the store answered; of a killed process nobody knows what a call without
            an answer did.
    """

    name: str
    key: str = ""
    addresses: Collection[str] = ()
    now: References | None = None
    answered: bool = True

    def of(self, name: str, begin: str = "", end: str = "") -> bool:
        """Say whether this is a call of that name, with such a key."""
        return self.name == name and self.key.startswith(begin) and self.key.endswith(end)


@dataclass
class Recorder:
    """Takes note of events in their order."""

    events: list[Event] = field(default_factory=list)
    _branch: str = ""
    _listens: bool = True
    _is_over: Callable[[], bool] = lambda: False

    def served(self, name: str, branch: str = "") -> None:
        """Note a call that the server is about to answer, and which branch it is of."""
        if self._is_over():
            return
        self.events.append(Event(name, branch or (self._branch if name == _DIFF else "")))

    def stored(self, name: str, arguments: Sequence[Any]) -> Callable[[], None] | None:
        """Note a call that the store is about to answer; returns what to call once it has."""
        if not self._listens or self._is_over():
            return None
        first = arguments[0]
        key, addresses = ("", first) if isinstance(first, list) else (first, ())
        if name == "put_if_absent" and key.startswith(_JOURNAL) and key.endswith(".parquet"):
            addresses = pq.read_table(io.BytesIO(arguments[1]))["address"].to_pylist()
        event = Event(f"store.{name}", key, tuple(addresses), answered=False)
        self.events.append(event)

        return lambda: self._exchange(event, replace(event, answered=True))

    def killed(self) -> None:
        """Note that the process was killed."""
        self.events.append(Event(_KILL))

    def changed(self, now: References) -> None:
        """Note what people have done."""
        self.events.append(Event("people", now=now))

    def changing(self) -> Callable[[References], None]:
        """Note that people have done something; returns what to call with what that was, before
        they do anything else.
        """
        event = Event("people")
        self.events.append(event)
        return lambda now: self._exchange(event, replace(event, now=now))

    def _exchange(self, event: Event, other: Event) -> None:
        (at,) = [at for at, one in enumerate(self.events) if one is event]
        self.events[at] = other

    @contextmanager
    def naming_branches(self) -> Iterator[None]:
        """Note which branch each diff is of."""
        real = LakeFSServer.diff_branch

        def diff(server: LakeFSServer, repository_id: str, branch: str, *more: Any) -> Any:
            self._branch = branch
            return real(server, repository_id, branch, *more)

        with patch.object(LakeFSServer, _DIFF, diff):
            yield

    @contextmanager
    def listening(
        self, sandbox: Sandbox, run: Run, is_over: Callable[[], bool] = lambda: False
    ) -> Iterator[Run]:
        """Note the calls of a run beside which nobody does anything, until its process is killed;
        yields the run to use.
        """
        self._listens, self._is_over = True, is_over
        sandbox.observe(self.served)
        try:
            with self.naming_branches():
                yield replace(run, store=WatchedStore(run.store, lambda _: None, self.stored))
        finally:
            sandbox.observe(None)
            self._listens, self._is_over = False, lambda: False


@dataclass(frozen=True)
class _Window:
    """Steps of the model, which happened between two events, both included.

    Attributes:
        is_sure: Whether they happened at all.
        is_closed: Whether it was seen that they had ended.
    """

    steps: str
    first: int
    last: int
    is_sure: bool = True
    is_closed: bool = True


@dataclass
class Replayed:
    """What of a search the model was asked about, and what not.

    Attributes:
        words: Different histories of objects, which the model allows.
        told: Objects that have one of these: once for a mark, and once more for its sweep.
        objects: Objects whose histories it has no word for, by causes.
        runs: Marks and sweeps that it was not asked about at all, by causes.
    """

    words: set[Word] = field(default_factory=set)
    told: int = 0
    objects: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Replayed) -> Self:
        self.words |= other.words
        self.told += other.told
        self.objects += other.objects
        self.runs += other.runs
        return self

    def __bool__(self) -> bool:
        return bool(self.words or self.objects or self.runs)

    def __str__(self) -> str:
        return (
            f"{len(self.words)} different histories of {self.told} objects replayed on the model; "
            "left out: "
            f"{_by_causes('objects', self.objects)}, {_by_causes('marks and sweeps', self.runs)}"
        )


def _by_causes(what: str, counts: Counter[str]) -> str:
    causes = ", ".join(f"{why}: {count}" for why, count in sorted(counts.items()))
    return f"{counts.total()} {what}" + (f" ({causes})" if causes else "")


class OutsideTheModelError(Exception):
    """A history that no word can tell; the text says why."""


@dataclass(frozen=True)
class Judged:
    """What a mark and its sweep made of objects.

    Attributes:
        ages: Address -> `old`, `recent` or `young`, of each object that was there before.
        plan: What the mark let go; None if it did not come to its end.
        outcomes: What the sweep did; None if there was none, or nobody reported it.
        left: What is in the store after a mark or a sweep that was killed, or refused to go on;
            None after others.
        keeps: Why an old object may stay to which nothing refers, or which a policy names.
    """

    ages: Mapping[str, str]
    plan: Collection[str] | None
    outcomes: Mapping[str, str] | None
    left: Collection[str] | None = None
    keeps: str = "kept by what the model leaves out"


def age_of(born: datetime, key: datetime, min_age: timedelta, cutoff: datetime) -> str:
    """Say how old an object is in a mark's eyes."""
    return "young" if born >= key - min_age else "recent" if born >= cutoff else "old"


def words_of(events: Sequence[Event], judged: Judged) -> Replayed:
    """Tell the history of each object; and how often there is no word for it, by causes."""
    told = Replayed()
    for address, age in judged.ages.items():
        try:
            told.words.add(_word(events, judged, address, age))
            told.told += 1
        except OutsideTheModelError as why:
            told.objects[str(why)] += 1
    return told


def _word(events: Sequence[Event], judged: Judged, address: str, age: str) -> Word:
    moments = [(at, one.now) for at, one in enumerate(events) if one.now is not None]
    touching = frozenset[str]().union(*(now.branches(address) for _, now in moments))
    calls = _Calls(events)
    branches = calls.in_order_of_diffs(touching)
    if len(branches) > 2:
        raise OutsideTheModelError("staged on more than two branches")
    people = [(at, now.letter(address, branches)) for at, now in moments]
    is_to_go = all(letter in ("=", "=q") or letter.endswith("p") for _, letter in people)
    _require_told(events, judged, address, is_to_go=age == "old" and is_to_go)
    kills = [at for at, one in enumerate(events) if one.name == _KILL]
    found: list[tuple[int, str]] = []
    if judged.plan is None:
        windows = calls.of_mark_so_far(branches, kills[0] if kills else len(events))
    else:
        is_planned = address in judged.plan
        windows = calls.of_mark(branches)
        found.append((windows[-1].last, "planned" if is_planned else "unplanned"))
        if not is_planned:
            kills = []
        elif judged.outcomes is not None or judged.left is not None:
            is_whole = judged.outcomes is not None
            windows += calls.of_sweeps(branches, address, kills, is_whole=is_whole)
    last = max([*kills, *(one.last for one in windows)], default=len(events))
    if judged.outcomes is not None and address in judged.outcomes:
        found.append((last, _OUTCOMES[judged.outcomes[address]]))
    if judged.left is not None:
        found.append((last, "there" if address in judged.left else "absent"))
    windows = [one for one in windows if one.steps != _BELOW or _is_compacted(people, one)]
    apart = [one if one.last < len(events) else replace(one, is_closed=False) for one in windows]
    return (age, *_letters(_apart(apart, people), people, found, kills))


def _require_told(events: Sequence[Event], judged: Judged, address: str, *, is_to_go: bool) -> None:
    """Refuse what became of an object if the model cannot tell why.

    Raises:
        OutsideTheModelError: If so.
    """
    if judged.plan is None:
        return
    if address not in judged.plan:
        if is_to_go:
            raise OutsideTheModelError(judged.keeps)
        return
    if judged.outcomes is None:
        return
    outcome = judged.outcomes[address]
    if outcome not in _OUTCOMES or not _is_asked_for(events, address, outcome):
        raise OutsideTheModelError("gone without a request that was seen")
    if outcome == "kept" and is_to_go:
        raise OutsideTheModelError(judged.keeps)


def _is_compacted(people: Sequence[tuple[int, str]], window: _Window) -> bool:
    """Say whether the object is in what some branch has compacted, when that is read."""
    at_first = [letter for at, letter in people if at <= window.first][-1:]
    within = [letter for at, letter in people if window.first < at <= window.last]
    return any(flag in letter for letter in (*at_first, *within) for flag in "cd")


def _is_asked_for(events: Sequence[Event], address: str, outcome: str) -> bool:
    """Say whether a request was seen for what is gone: people of the model lose no objects."""
    asked = any(address in one.addresses for one in events if one.name == "store.delete")
    return outcome == "kept" or (outcome == "deleted" and asked)


def _apart(windows: Sequence[_Window], people: Sequence[tuple[int, str]]) -> list[_Window]:
    """Bring windows into an order; those that overlap become one, if nobody did anything then."""
    apart: list[_Window] = []
    for one in sorted(windows, key=lambda window: (window.first, window.last)):
        if apart and one.first <= apart[-1].last:
            last = apart.pop()
            both = _Window(
                f"{last.steps}+{one.steps}",
                last.first,
                max(last.last, one.last),
                last.is_sure and one.is_sure,
                last.is_closed and one.is_closed,
            )
            if _changes(people, both.first, both.last):
                raise OutsideTheModelError("readings that overlap while people do something")
            apart.append(both)
        else:
            apart.append(one)
    return apart


def _changes(people: Sequence[tuple[int, str]], first: int, last: int) -> bool:
    before = [letter for at, letter in people if at < first]
    within = [letter for at, letter in people if first <= at <= last]
    return any(letter != before[-1] for letter in within)


def _letters(
    windows: Sequence[_Window],
    people: Sequence[tuple[int, str]],
    found: Sequence[tuple[int, str]],
    kills: Sequence[int],
) -> Iterator[str]:
    """Yield the letters in the order of their events; what people did changes nothing if it stays.

    At one event a window opens first, and closes before what was found there; a kill closes it,
    too.
    """
    placed = [(one.first, 1, f"{one.steps}(") for one in windows]
    placed += [
        (one.last, 2, ")" if one.is_sure else "?)")
        for one in windows
        if one.is_closed and one.last not in kills
    ]
    placed += [(at, 2, "KILL") for at in kills]
    placed += [(at, 3, letter) for at, letter in found]
    end, last = max(at for at, *_ in placed), ""
    placed += [(at, 0, letter) for at, letter in people]
    for at, _, letter in sorted(placed):
        if at > end or letter == last:
            continue
        if letter.startswith("="):
            last = letter
        yield letter


def _step_of(one: Event, *, asked: bool) -> str:
    if one.name == "store.delete":
        return "REQUEST+LANDS"
    if _kind_of(one) == "outcome" and not asked:
        # Written down without a request.
        return ""
    return {"intent": "INTENT", "outcome": "OUTCOME"}[_kind_of(one)]


def _kind_of(one: Event) -> str:
    """Return whether a part of the journal is an intent or an outcome."""
    return one.key.rpartition("/")[2].partition("-")[0]


def _table(kind: str) -> str:
    return f"{lakegc_keys.ROOT}{kind}/"


class _MissingError(AssertionError):
    """A call that a mark or a sweep makes was not seen."""


class _Calls:
    """The calls of a mark and its sweep: which steps of the model they are."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def in_order_of_diffs(self, branches: Collection[str]) -> list[str]:
        """Put branches in the order in which their diffs were read first; the others come last."""
        read = [one.key for one in self._events if one.name == _DIFF]
        return sorted(branches, key=lambda name: read.index(name) if name in read else len(read))

    def of_mark(self, branches: Sequence[str]) -> list[_Window]:
        """Return the steps of a mark."""
        listed = self._manifest(lakegc_keys.SLICES)
        # A mark that takes every slice from the index lists none; its sweep does.
        begin = self._find(0, listed, "store.list", "data/") or listed
        staged = self._manifest(lakegc_keys.UNCOMMITTED)
        concluded = self._first(
            0, "store.put_if_absent", f"{lakegc_keys.ROOT}{lakegc_keys.ADDRESSES}/", "_verdict.json"
        )
        start = min(at for at, one in enumerate(self._events) if one.now is None)
        return [
            _Window("CUTOFF", start, start),
            _Window("LIST", begin, listed),
            *self._staged(listed + 1, staged, branches),
            *self._refs(staged, self._manifest(lakegc_keys.COMMITS)),
            _Window("VERDICT", concluded, concluded),
        ]

    def of_mark_so_far(self, branches: Sequence[str], end: int) -> list[_Window]:
        """Return the steps of a mark that was killed or refused to go on: what was under way then
        may have happened.
        """
        try:
            return self.of_mark(branches)
        except _MissingError:
            pass
        start = min((at for at, one in enumerate(self._events) if one.now is None), default=end)
        if start == end:
            return []
        windows = [_Window("CUTOFF", start, start)]
        steps = [
            (("LIST",), lakegc_keys.SLICES),
            (("SCAN", *_DIFFS), lakegc_keys.UNCOMMITTED),
            (("REFS", _BELOW), lakegc_keys.COMMITS),
        ]
        begin = start + 1
        for names, kind in steps:
            made = self._find(begin, end, "store.put_if_absent", _table(kind), "/_manifest.json")
            if made is None or not self._events[made].answered:
                return [*windows, _Window("+".join(names), begin, end)] if begin < end else windows
            if kind == lakegc_keys.SLICES:
                windows.append(_Window("LIST", begin, made))
            elif kind == lakegc_keys.UNCOMMITTED:
                windows += self._staged(begin, made, branches)
            else:
                windows += self._refs(begin, made)
            begin = made + 1
        return [*windows, _Window("VERDICT", begin, end)] if begin < end else windows

    def of_sweeps(
        self, branches: Sequence[str], address: str, kills: Sequence[int], *, is_whole: bool
    ) -> list[_Window]:
        """Return the steps of a sweep that concern an object, before and after each kill.

        Args:
            branches: At most two.
            address: Of the object.
            kills: Events at which the process ended.
            is_whole: Whether the last process came to its end.
        """
        found: list[_Window] = []
        begin = self._find(0, len(self._events), "store.put_if_absent", "", "_verdict.json") or 0
        for end in [*kills, len(self._events)]:
            is_cut = end in kills or not is_whole
            found += self._of_sweep(branches, address, begin, end, is_cut=is_cut)
            begin = end + 1
        return found

    def _of_sweep(
        self, branches: Sequence[str], address: str, begin: int, end: int, *, is_cut: bool
    ) -> list[_Window]:
        """Return the steps of one process; what was under way when it was cut off may have
        happened.

        A process that goes on need not look again if the outcome of the object was written down.
        """
        read = self._find(begin, end, "store.list", lakegc_keys.LEASE)
        if read is None:
            return []
        windows = [_Window("LEASE", read, read)]
        puts = [at for at in range(read, end) if self._events[at].of(_PUT, lakegc_keys.LEASE)]
        if not puts:
            return windows
        look = self._find(puts[0], end, _SCAN)
        if look is None:
            return [*windows, _Window("TAKEN", puts[0], end)] if is_cut else windows
        # Who takes over his own lease ends the log of it first.
        windows.append(_Window("TAKEN", puts[0], max(at for at in puts if at < look)))
        beat = next((at for at in puts if at > look), None)
        if beat is None or not self._events[beat].answered:
            return [*windows, _Window("+".join([*_LOOK, "BEAT"]), look, end)]
        holds = self._first(look, "store.list", lakegc_keys.HOLDS)
        if any(one.name == _SCAN for one in self._events[beat:end]):
            raise OutsideTheModelError("a sweep that looked more than once")
        is_sure = not any(
            one.name == _PUT and address in one.addresses and _kind_of(one) == "outcome"
            for one in self._events[:begin]
        )
        looked = [*self._staged(look, holds - 1, branches), *self._refs(holds, beat)]
        looked.append(_Window("BEAT", beat, beat))
        windows += [replace(one, is_sure=is_sure) for one in looked]
        asked = any(
            one.name == "store.delete" and address in one.addresses
            for one in self._events[begin:end]
        )
        for at in range(begin, end):
            one = self._events[at]
            if address in one.addresses and (steps := _step_of(one, asked=asked)):
                windows.append(_Window(steps, at, at if one.answered else end))
        report = self._find(
            beat, end, _PUT, f"{lakegc_keys.ROOT}{lakegc_keys.REPORTS}/", "manifest.json"
        )
        if report is not None:
            is_answered = self._events[report].answered
            windows.append(_Window("REPORT", report, report if is_answered else end))
        elif not is_cut:
            raise AssertionError("no report of a sweep that came to its end")
        return windows

    def _refs(self, begin: int, end: int) -> list[_Window]:
        """Return when refs were read, and what branches have compacted.

        The code reads that after refs, and the model before them. Compacted is what lies in tables
        that no commit names which was read; so a commit meanwhile takes nothing from them. As long
        as nobody does anything in between, the order is the same.
        """
        found = [at for at in range(begin, end) if self._is_of_refs(self._events[at])]
        tables = [at for at in range(begin, end) if self._events[at].of(_TABLES, SERVERS)]
        first, last = found[0], found[-1]
        both = [_Window("REFS", first, max([last, *tables]))]
        return [*both, _Window(_BELOW, first, both[0].last)] if tables else both

    @staticmethod
    def _is_of_refs(one: Event) -> bool:
        is_read = one.of("store.read", f"{lakegc_keys.ROOT}{lakegc_keys.COMMITS}/")
        return one.name in _OF_REFS or is_read or one.of("store.list", lakegc_keys.HOLDS)

    def _staged(self, begin: int, end: int, branches: Sequence[str]) -> list[_Window]:
        """Return when staged entries were read: the scans, and the diffs of two branches."""
        at = range(begin, end + 1)
        scans = [n for n in at if self._events[n].name == _SCAN]
        listings = [n for n in at if self._events[n].name == "list_branches"]
        found = [_Window("SCAN", scans[0], max(scans))]
        for number, name in enumerate([*branches, "", ""][:2]):
            diffs = [n for n in at if name and self._events[n].of(_DIFF, name, name)]
            # A branch that was not read is not there when branches are listed last; one that has
            # nothing to do with the object can be read at any time.
            first = last = listings[-1]
            if diffs:
                looked_up = [n for n in at if self._events[n].of("list_objects", name, name)]
                first = diffs[0]
                last = max([self._end_of_diff(diffs[-1]), *looked_up])
            found.append(_Window(f"DIFF_{number}", first, last))
        scan, one, other = found
        if other.first < one.first:
            # Branches are read side by side, and the model reads them in their order: as long as
            # nobody does anything in between, that is the same.
            both = other.first, max(one.last, other.last)
            found = [scan, _Window(one.steps, *both), _Window(other.steps, *both)]
        return found

    def _end_of_diff(self, diff: int) -> int:
        """Return the last call that looked up entries of a diff, or the diff itself."""
        last = at = diff
        while self._events[at + 1].name in {"list_objects", "people"}:
            at += 1
            if self._events[at].name == "list_objects":
                last = at
        return last

    def _manifest(self, kind: str) -> int:
        return self._first(0, _PUT, _table(kind), "/_manifest.json")

    def _first(
        self, begin: int, name: str, start: str = "", end: str = "", default: int | None = None
    ) -> int:
        at = self._find(begin, len(self._events), name, start, end)
        at = default if at is None else at
        if at is None:
            raise _MissingError(f"no {name} of {start}...{end}")
        return at

    def _find(self, begin: int, stop: int, name: str, start: str = "", end: str = "") -> int | None:
        """Return the first call of that name between two others, with such a key."""
        found = (at for at in range(begin, stop) if self._events[at].of(name, start, end))
        return next(found, None)
