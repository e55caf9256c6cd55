"""Sweeps that move objects to quarantine, what is brought back from it, and what is purged.

A restored object is an ordinary one again, as old as its restore. `HistoryMachine` compares each
later run with what is reachable then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from spark_core import lakegc_keys
from spark_core.errors import LakegcError
from spark_core.explain import deleted_addresses
from spark_core.model import RunKey
from spark_core.run import Run
from spark_core.sweep import quarantine
from spark_core.undo.restore import restore
from spark_core.upkeep import house_keeping
from tests.support.history_actions import NUMBER, action
from tests.support.history_machine import OPTIONS, HistoryMachine, OlderMark
from tests.support.search_oracle import Options, reachable

# Days that an object stays in quarantine at least.
QUARANTINE_DAYS = 2


@dataclass
class Moved:
    """What a sweep moved to quarantine.

    Attributes:
        until: When its days are over.
        contents: Address -> bytes of what still lies there.
    """

    until: datetime
    contents: dict[str, bytes]


class AsideMachine(HistoryMachine):
    """A repository whose sweeps can be undone.

    Attributes:
        aside: Whether sweeps move objects to quarantine, or delete them at once.
        full: Whether marks read everything, whatever is allowed.
        moved: By the key of its run, what a sweep moved.
        brought_back: Addresses that were restored at any time.
        restores: When restores were made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.aside = True
        self.full = False
        self.moved: dict[datetime, Moved] = {}
        self.brought_back: set[str] = set()
        self.restores: list[datetime] = []

    @rule(aside=st.booleans())
    @action
    def choose_whether_sweeps_can_be_undone(self, *, aside: bool) -> None:
        """Change whether later sweeps move what they take."""
        self.aside = aside

    @rule(
        how=st.sampled_from(["all", "some", "some in full", "path"]),
        number=NUMBER,
        chosen=st.lists(NUMBER, min_size=2, max_size=3),
    )
    @precondition(lambda self: self.moved)
    @action
    def bring_back(self, how: str, number: int, chosen: list[int]) -> None:
        """Restore everything that a sweep moved, objects by their addresses, or what a path had."""
        key = self._moved_by(number)
        moved = self.moved[key].contents
        if how == "all":
            self._bring_back(key, moved)
            return
        run = self._open(key, Options())
        if how == "path":
            path = f"{self._branch(chosen[0])}/{self._path(chosen[1])}"
            try:
                found = deleted_addresses(run, f"lakefs://{self.repository.name}/{path}")
            except LakegcError:
                return  # a run that read only what changed may know no path
            addresses = set(found) & set(moved)
        else:
            there = sorted(moved)
            addresses = {there[one % len(there)] for one in chosen}
        if addresses:
            root = run.store.root if how == "some in full" else ""
            self._bring_back(key, addresses, named=[f"{root}{one}" for one in sorted(addresses)])

    @rule(options=OPTIONS, number=NUMBER, full=st.booleans())
    @precondition(lambda self: self.moved)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def purge(self, options: Options, number: int, *, full: bool) -> None:
        """Wait until the days of a quarantine are over, mark, and keep house."""
        until = self.moved[self._moved_by(number)].until + timedelta(minutes=1)
        self.sandbox.clock.set(max(self.now, until))
        self.full = full
        made = self._mark(options)
        self.full = False
        self.runs += 1
        if not self.beyond_the_bound or made.options.ask_all:
            self._purge(made)

    def _moved_by(self, number: int) -> datetime:
        keys = sorted(self.moved)
        return keys[number % len(keys)]

    def _bring_back(
        self, key: datetime, addresses: Collection[str], *, named: list[str] | None = None
    ) -> None:
        moved, before = self.moved[key].contents, self.repository.objects()
        wanted = {address: moved[address] for address in addresses}
        done = restore(self._open(key, Options()), named)
        there = self.repository.objects()
        came = set(there) - set(before)
        # Of a whole run, what was purged cannot come back, and nothing else may be lacking.
        assert named is None or done.complete, done.left
        assert {one.key for one in done.left} & set(wanted) == set(), done.left
        assert there == {**before, **wanted}
        for address in came:
            # The store dates a copy by the machine's clock.
            self.repository.store.date(address, self.now)
            self.repository.written[address] = self.now
        self.brought_back |= came
        self.restores.append(self.now)
        # A base that was begun within the skew of two machines is not sure to have seen them.
        self.sandbox.clock.advance(timedelta(minutes=6))

    def _keeps(self, made: OlderMark, before: Mapping[str, bytes]) -> tuple[set[str], set[str]]:
        must_stay, may_stay = super()._keeps(made, before)
        # What was brought back since a mark was written since: it is not the object of that mark.
        back = self.brought_back & set(before)
        written = self.repository.written
        return must_stay, may_stay | {one for one in back if written[one] > made.key}

    def _purge(self, made: OlderMark) -> None:
        before = self.repository.objects()
        house = house_keeping.keep_house(self._open(made.key, made.options))
        assert house.problem is None, house.words
        assert self.repository.objects() == before
        self._note_purged(made.key, made.options)

    def _note_purged(self, key: datetime, options: Options) -> None:
        """Note what the house-keeping of a run took from quarantine: nothing that is needed."""
        there, run = self.repository.objects(), self._open(key, options)
        needed = reachable(self.repository, key, options, self.held)
        needed |= reachable(self.repository, self.now, options, self.held)
        for of, moved in self.moved.items():
            gone = set(moved.contents) - _in_quarantine(run, of)
            assert not gone or run.now() >= moved.until
            lost = gone & needed - set(there)
            assert not lost, f"purged, and needed: {sorted(lost)}"
            for address in gone:
                del moved.contents[address]
        self.moved = {key: moved for key, moved in self.moved.items() if moved.contents}

    def _open(self, key: datetime, options: Options, opened: datetime | None = None) -> Run:
        run = super()._open(key, options, opened)
        chosen = replace(run.options, quarantine=self.aside, quarantine_days=QUARANTINE_DAYS)
        return replace(run, options=chosen, full=self.full)

    def _after_sweep(
        self, made: OlderMark, before: Mapping[str, bytes], after: Mapping[str, bytes]
    ) -> None:
        gone = set(before) - set(after)
        if self.aside and gone:
            until = max(self.now, made.key) + timedelta(days=QUARANTINE_DAYS)
            self.moved[made.key] = Moved(until, {one: before[one] for one in gone})


def _in_quarantine(run: Run, key: datetime) -> set[str]:
    where = lakegc_keys.in_quarantine(RunKey.at(key))
    found = run.store.list(where)
    names = {name for batch in found for name in batch.column("key").to_pylist()}
    assert all(name == quarantine.key_of(RunKey.at(key), name[len(where) :]) for name in names)
    return {name.removeprefix(where) for name in names}
