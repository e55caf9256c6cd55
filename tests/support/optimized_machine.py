"""Any history of a repository whose runs take turns, with the index and clean, over the same state.

Each mark with the index is compared by name with a clean one of the very same state, and both with
the plain sets of `search_oracle`. Between runs everything happens that `HistoryMachine` does. What
sweeps moved comes back from quarantine; the store loses objects, or has others in their place; runs
are killed, or pruned, or go on side by side; and files of the index are damaged or taken away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from spark_core import lakegc_keys, mark
from spark_core.checks import confirming, verdict
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import ClosedPartitionError, LakegcError
from spark_core.index import merging
from spark_core.index import saved as saved_documents
from spark_core.index.choosing import AUDIT
from spark_core.lock import lease_log
from spark_core.model import RunKey
from spark_core.records import tables, writing
from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.run.chain import Mark
from spark_core.upkeep import house_keeping_result, prune_own_tables
from tests.support.aside_machine import AsideMachine
from tests.support.clean_beside import Concluded, mark_beside_a_clean_one, was_clean, why_clean
from tests.support.damage import damages
from tests.support.faults import AFTER, BEFORE, Faults, FaultyStore
from tests.support.history_actions import NUMBER, action
from tests.support.history_machine import OLD_ENOUGH, OPTIONS, TABLES, OlderMark, swept
from tests.support.killing import Killed
from tests.support.pipeline import Marked, mark_and_conclude
from tests.support.recorded_events import Recorder
from tests.support.search_oracle import Options
from tests.support.telling_store import TellingStore

KINDS = ("saved", "slices", "gone", "trees", "ranges", "entries")
# By then the lease of a killed process has run out.
WAITED = timedelta(minutes=11)
A_MONTH = timedelta(days=30)
# About as many calls of the store as a mark, or a sweep, makes.
CALLS = 60
_HELD_BYTES, _MANY = writing.HELD_BYTES, merging._MANY


class OptimizedMachine(AsideMachine):
    """A repository whose marks take from the index what they can.

    Attributes:
        kinds: How many marks took from the index, and why others were clean; of all histories.
        work: What those took; of all histories.
        is_short: Whether a history has two runs: one before anything happens, and one at its end.
    """

    kinds: Counter[str]
    work: Counter[str]
    most_runs = 6
    is_short = False

    def __init__(self) -> None:
        super().__init__()
        self.full_every = 7
        self.deciding: Options | None = None
        self.tells_content = False
        # What the store did without a word since the last clean run, by address ...
        self.behind: set[str] = set()
        # ... and what it lost at any time.
        self.lost: dict[str, bytes] = {}
        # Files of the index that are not what they were.
        self.spoiled: set[str] = set()
        # Whether some process died that perhaps held the lease.
        self.died = False

    @initialize(may_compact=st.booleans(), is_swept=st.booleans())
    def begin(self, *, may_compact: bool, is_swept: bool = True) -> None:
        """Make the repository; of a short history, with a run whose index the last one takes."""
        super().begin(may_compact=may_compact)
        if not self.is_short:
            return
        if is_swept:
            self.aside = False
            self.whole_run(options=Options())
            self.aside = True
        else:
            self._mark(Options())
            self.runs += 1

    # What decides whether a run takes from the index

    @rule(full_every=st.sampled_from([2, 3, 7]))
    @action
    def choose_how_often_all_is_read(self, full_every: int) -> None:
        """Change the number of runs of which one is clean."""
        self.full_every = full_every

    @rule(options=OPTIONS, number=NUMBER)
    @action
    def decide_by_other_options(self, options: Options, number: int) -> None:
        """Change the options that decide, which makes the next mark a clean one; seldom."""
        if not number % 4:
            self.deciding = options

    @rule(tells=st.booleans())
    @action
    def let_the_store_tell_contents(self, *, tells: bool) -> None:
        """Let the store give MD5s of contents, as S3 does, which rule out what hides."""
        self.tells_content = tells

    # What happens to the index

    @rule(
        kind=st.sampled_from(KINDS),
        how=st.sampled_from(["take away", "damage", "exchange"]),
        number=NUMBER,
    )
    @precondition(lambda self: self.keys)
    @action
    def spoil_the_index(self, kind: str, how: str, number: int) -> None:
        """Spoil a file that the next mark would take from; seldom, or none would take any."""
        if number % 3:
            return
        names = self._files_of_the_index(kind)
        if not names:
            return
        name, folder = names[number % len(names)], Path(self.repository.store.folder)
        data = (folder / name).read_bytes()
        if how == "take away":
            (folder / name).unlink()
        elif how == "exchange" and len(names) > 1:
            other = names[(number + 1) % len(names)]
            (folder / name).write_bytes((folder / other).read_bytes())
            (folder / other).write_bytes(data)
            self.spoiled.add(other)
        else:
            damaged = list(damages(data, 5, seed=number))[number % 5]
            (folder / name).write_bytes(damaged.data)
        self.spoiled.add(name)

    def _files_of_the_index(self, kind: str) -> list[str]:
        """Return the keys of what the last run that saved anything saved, of one kind."""
        store = self._open(max(self.keys), Options()).store
        for key in map(RunKey.at, sorted(self.keys, reverse=True)):
            where = lakegc_keys.saved_key(key)
            if not store.exists(where):
                continue
            if kind == "saved":
                return [where]
            try:
                found = saved_documents.load(store, key)
            except LakegcError:
                return []  # it was spoiled before
            parts = found.slices if kind == "gone" else getattr(found, kind)
            chosen = [part.without if kind == "gone" else part for part in parts]
            stored = [part.key for part in chosen if part is not None and not part.content]
            return sorted(key for key in stored if store.exists(key))
        return []

    @rule(held=st.sampled_from([0, _HELD_BYTES]), many=st.sampled_from([1, 3, _MANY]))
    @action
    def have_files_of_another_size(self, held: int, many: int) -> None:
        """Let small files lie in documents, or store each of them; merge them sooner or later."""
        writing.HELD_BYTES, merging._MANY = held, many

    def teardown(self) -> None:
        """Have files of the usual size again."""
        try:
            super().teardown()
        finally:
            writing.HELD_BYTES, merging._MANY = _HELD_BYTES, _MANY

    @rule(runs=st.integers(1, 3))
    @precondition(lambda self: self.keys)
    @action
    def prune(self, runs: int) -> None:
        """Keep house as if all that lakegc wrote were a month old."""
        options = self.deciding or Options()
        run = self._open(max(self.keys), options)
        for batch in run.store.list(lakegc_keys.ROOT):
            for key in batch.column("key").to_pylist():
                self.repository.store.date(key, self.now - A_MONTH)
        run = replace(run, options=replace(run.options, keep_runs=runs))
        prune_own_tables.prune(run, house_keeping_result.Pruned())
        self._note_purged(max(self.keys), options)
        # What waited for its sweep may have lost its tables.
        self.marks.clear()

    # What the store does without a word

    @rule(number=st.integers(0, 50))
    @precondition(lambda self: self.repository.data())
    @action
    def lose(self, number: int) -> None:
        """Let the store lose an object; seldom."""
        if not number % 3:
            self._lose(self._object(number))

    @rule(number=st.integers(0, 50), data=NUMBER)
    @precondition(lambda self: self.repository.data())
    @action
    def write_over(self, number: int, data: int) -> None:
        """Let the store have another content in an object's place; seldom."""
        if not number % 3:
            address = self._object(number)
            self.repository.store.put(address, self._data(data))
            self.repository.written[address] = self.now
            self.behind.add(address)
            for moved in self.moved.values():
                # It may have come back from quarantine before; a restore leaves what is there.
                moved.contents.pop(address, None)
            self.moved = {key: moved for key, moved in self.moved.items() if moved.contents}

    @rule(number=st.integers(0, 50))
    @precondition(lambda self: self.lost)
    @action
    def find(self, number: int) -> None:
        """Let the store have an object again that it lost, as old as it was."""
        there = sorted(self.lost)
        address = there[number % len(there)]
        self.repository.store.put(address, self.lost.pop(address))
        self.repository.store.date(address, self.repository.written[address])
        self.behind.add(address)

    @rule(branch=NUMBER, path=NUMBER, later=st.booleans())
    @action
    def lose_and_repair(self, branch: int, path: int, *, later: bool) -> None:
        """Let the store lose what a branch shows; somebody uploads the same again."""
        name = self._branch(branch)
        there = self._there(name, path)
        shown = self.repository.entries(name).get(there)
        address = self.repository.store.relative(shown) if shown else None
        if address not in self.repository.data():
            return
        content = self.repository.store.read(address)
        self._lose(address)
        if later:
            self.sandbox.clock.advance(timedelta(hours=1))
        self.repository.upload(name, there, content)

    def _object(self, number: int) -> str:
        there = sorted(self.repository.data())
        return there[number % len(there)]

    def _lose(self, address: str) -> None:
        self.lost[address] = self.repository.store.read(address)
        (Path(self.repository.store.folder) / address).unlink()
        self.behind.add(address)

    # Runs that do not go their way

    @rule(options=OPTIONS, at=st.integers(1, CALLS), after=st.booleans())
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def kill_a_mark(self, options: Options, at: int, *, after: bool) -> None:
        """Begin a mark whose process dies at some call of the store."""
        key = self._next_run(options)
        self._look_for_signs(self._noted_before(key))
        chosen, objects = self._by_time_or_all(options), self.repository.objects()
        recorder = self._begin_to_record(key, chosen)
        self._die(self._open(key, chosen), mark_and_conclude, at, after=after, recorder=recorder)
        self._replay(key, objects, None, left=self.repository.objects())
        self.recorded.pop(key, None)
        store = self._open(key, options).store
        if store.exists(tables.manifest_key(tables.RETAINED_COMMITS, RunKey.at(key))):
            self.noted[key] = self.repository.branches()

    @rule(options=OPTIONS, at=st.integers(1, CALLS), after=st.booleans(), again=st.booleans())
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def kill_a_sweep(self, options: Options, at: int, *, after: bool, again: bool) -> None:
        """Mark, and begin a sweep whose process dies; the same command goes on, or nobody does."""
        made = self._mark(options)
        self.runs += 1
        self.tally.runs += 1
        self._look_for_signs(self.noted[made.key])
        if not made.plan or (self.beyond_the_bound and not made.options.ask_all):
            return
        before, aside, self.aside = self.repository.objects(), self.aside, False
        must_stay, _ = self._keeps(made, before)
        recorder = self.recorded.get(made.key)
        self._note_references(made.key, made.options)
        self._die(self._open_sweep(made), swept, at, after=after, recorder=recorder)
        report = None
        self.sandbox.clock.advance(WAITED)
        if again:
            # A process that died after its last call has left a report, which stands.
            with suppress(ClosedPartitionError):
                report = self._recorded_sweep(made)
        else:
            self.died = True
        self.aside, there = aside, self.repository.objects()
        assert set(before) - set(there) <= made.plan - must_stay
        assert all(there[address] == before[address] for address in there)
        outcomes = report and {address: outcome for address, (outcome, _) in report.items()}
        self._replay(made.key, made.plan & set(before), made.plan, outcomes, there)
        self.recorded.pop(made.key, None)
        self.tally.deleted += len(before) - len(there)

    def _die(
        self,
        run: Run,
        act: Callable[[Run], object],
        at: int,
        *,
        after: bool,
        recorder: Recorder | None,
    ) -> None:
        faults = Faults(self._scratch / "faults")
        faults.arm(at, AFTER if after else BEFORE)
        store = FaultyStore(run.store.namespace, run.store.options).failing(faults)
        run = replace(run, store=store)
        try:
            if recorder is None:
                act(run)
            else:
                with recorder.listening(self.sandbox, run, is_over=lambda: faults.is_dead) as heard:
                    act(heard)
        except (Exception, Killed):
            if faults.fired is None:
                raise
        if recorder is not None and faults.is_dead:
            recorder.killed()

    @rule(options=OPTIONS, at=st.integers(1, len(TABLES)))
    @precondition(lambda self: self.runs + len(self.marks) + 1 < self.most_runs)
    @action
    def two_marks_at_once(self, options: Options, at: int) -> None:
        """Make a mark from beginning to end while another one is under way."""
        key = self._next_run(options)
        self._look_for_signs(self._noted_before(key))
        chosen = self._by_time_or_all(options)
        run, made = self._open(key, chosen), list[StoredTable]()
        recorder, objects = self._begin_to_record(key, chosen), self.repository.objects()
        with self._listening(recorder, run) as heard:
            for make in TABLES[:at]:
                made.append(heard.keep(make(heard, *made[-1:])))
        self.noted[key] = self.repository.branches()
        # Each of both is replayed by itself: they have nothing in common but the index.
        other = self._mark(options)
        with self._listening(recorder, run) as heard:
            for make in TABLES[at:]:
                made.append(heard.keep(make(heard, *made[-1:])))
            expired = heard.keep(mark.expired_addresses(heard, Mark(*made)))
            found, results = verdict.conclude(heard)
        failed = [result.name for result in results if not result.allows]
        self.marks.append(other)
        if not self._refused(run, failed):
            plan = set(Marked(Mark(*made), expired).addresses(run))
            # The other one stands for a second later.
            assert plan <= other.plan
            self._replay(key, objects, plan)
            self.marks.append(OlderMark(key, found.concluded_at, chosen, plan))

    # Marks

    @property
    def _scratch(self) -> Path:
        return Path(self.sandbox.blockstore).parent / "searched"

    def _by_time_or_all(self, options: Options) -> Options:
        """Return the options of the next run: those that decide stay what they were."""
        deciding = self.deciding = self.deciding or options
        return super()._by_time_or_all(
            replace(deciding, twin_calls=options.twin_calls, page_rows=options.page_rows)
        )

    def _mark(self, options: Options) -> OlderMark:
        try:
            return super()._mark(options)
        except LakegcError as refused:
            # A file that is not what it was ends a mark by name, or is a miss.
            if not any(name.rpartition("/")[2] in str(refused) for name in self.spoiled):
                raise
        self.kinds["refused"] += 1
        made = super()._mark(options)
        assert not self.spoiled, "what was refused once was taken the next time"
        return made

    def _mark_and_conclude(self, key: datetime, options: Options) -> tuple[Run, Concluded]:
        return mark_beside_a_clean_one(
            Path(self.repository.store.folder),
            lambda: self._open(key, options),
            behind=self.behind,
            mark=lambda run: self._recorded_mark(run, key, options),
        )

    def _refused(self, run: Run, failed: list[str]) -> list[str]:
        # Histories bring entries of deleted objects back, by refs on commits that had expired. That
        # each object was dead when it was deleted, the comparison with the oracle says.
        if AUDIT in failed:
            confirming.confirm(run, AUDIT, who="search")
        return [name for name in failed if name != AUDIT]

    def _open(self, key: datetime, options: Options, opened: datetime | None = None) -> Run:
        run = super()._open(key, options, opened)
        chosen = replace(run.options, optimized=True, full_every=self.full_every)
        run = replace(run, options=chosen)
        last = lease_log.last_record(run.store) if self.died else None
        if last is not None:
            # A second one may have died before the first one's lease was its own.
            run = replace(run, take_over=last.owner.run)
        return replace(run, store=TellingStore.like(run.store)) if self.tells_content else run

    def _after_a_step(self) -> None:
        # Who died may have held the lease, and the clock may now be before its end: people wait.
        last = lease_log.last_record(self._open(self.now, Options()).store) if self.died else None
        if last is not None and last.under_way_until is not None:
            left = last.under_way_until + MAX_CLOCK_SKEW + timedelta(seconds=1) - self.now
            self.sandbox.clock.advance(max(left, timedelta()))

    def _end(self) -> None:
        if self.moved:
            # The next mark is a clean one, and finds them young.
            newest = max(self.moved)
            self._bring_back(newest, self.moved[newest].contents)
        if not self.is_short:
            self.whole_run(options=Options())
        self.sandbox.clock.advance(OLD_ENOUGH + timedelta(seconds=1))
        self.whole_run(options=Options())
        self.repository.remove()

    def _require_plan(
        self, made: OlderMark, marked: Marked, alive: set[str], objects: Mapping[str, bytes]
    ) -> None:
        if was_clean(marked):
            self.kinds[why_clean(marked).partition(" decided: ")[0][-30:] or "clean"] += 1
            if made.key == max(self.keys):
                # The next mark takes from what this one saves.
                self.behind, self.spoiled = set(), set()
        else:
            self.kinds["optimized"] += 1
            self.work.update(_taken(marked))
            # Nobody lists the slices of what the store had lost; what is still in the index counts.
            twins = marked.expired.manifest.facts["twins"]
            known = made.plan | set(twins["unchecked_named"])
            objects = {
                address: data
                for address, data in objects.items()
                if address not in self.behind or address in known
            }
        super()._require_plan(made, marked, alive, objects)

    def _keeps(self, made: OlderMark, before: Mapping[str, bytes]) -> tuple[set[str], set[str]]:
        must_stay, may_stay = super()._keeps(made, before)
        written = self.repository.written
        # What was written over since a mark is not the object of that mark.
        return must_stay, may_stay | {one for one in before if written[one] > made.key}


def _taken(marked: Marked) -> dict[str, int]:
    """Return what a mark took from the index, in numbers."""
    listed = ListedFigures.of(marked.tables.slices.manifest).index
    taken = CommittedFigures.of(marked.tables.committed.manifest).taken
    assert listed is not None
    return {
        name: value
        for name, value in {**vars(listed), **vars(taken)}.items()
        if isinstance(value, int) and name != "listed_since"
    }
