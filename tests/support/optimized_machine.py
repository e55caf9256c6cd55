"""Any history of a repository whose runs are optimized or full by turns, compared with plain sets.

What may be optimized is. Between runs everything happens that `HistoryMachine` does, what sweeps
moved comes back from quarantine, and what runs saved is damaged or taken away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from spark_core import lakegc_keys
from spark_core.checks import verdict
from spark_core.mark.since_base import committed
from spark_core.model import RunKey
from spark_core.optimized.base import AUDIT
from spark_core.records import tables, writing
from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.run import Run
from tests.support.aside_machine import AsideMachine
from tests.support.history_actions import NUMBER, action
from tests.support.history_machine import OLD_ENOUGH, OPTIONS, OlderMark
from tests.support.pipeline import Marked
from tests.support.search_oracle import Options, young
from tests.support.telling_store import TellingStore

_HELD_BYTES, _OF_A_TABLE = writing.HELD_BYTES, committed._HELD_BYTES


class OptimizedMachine(AsideMachine):
    """A repository whose marks begin from each other.

    Attributes:
        kinds: How many marks were optimized, and why others were full; of all histories.
        work: What the optimized ones read and looked up; of all histories.
        missed: Dead objects that an optimized mark did not name; of all histories.
        left: Each mark that did so, with the first of them and its figures; of all histories.
        back: What was brought back from quarantine, and what became of it; of all histories.
    """

    kinds: Counter[str]
    work: Counter[str]
    missed: list[int]
    left: list[str]
    back: Counter[str]
    most_runs = 6

    def __init__(self) -> None:
        super().__init__()
        self.full_every = 7
        self.deciding: Options | None = None
        self.tells_content = False

    @rule(full_every=st.sampled_from([2, 3, 7]))
    @action
    def choose_how_often_all_is_read(self, full_every: int) -> None:
        """Change the number of runs of which one is full."""
        self.full_every = full_every

    @rule(kind=st.sampled_from(["forget", "damage", "prune", "prune staged"]), number=NUMBER)
    @precondition(lambda self: self.keys)
    @action
    def spoil_what_a_run_saved(self, kind: str, number: int) -> None:
        """Take away, or damage, what the last run saved; seldom, or no run would be optimized."""
        if number % 4:
            return
        key = RunKey.at(max(self.keys))
        store = self._open(max(self.keys), Options()).store
        where = lakegc_keys.saved_key(key)
        if not store.exists(where):
            return
        if kind == "forget":
            store.delete([where])
        elif kind == "damage":
            data = bytearray(store.read(where))
            data[number % len(data)] ^= 1
            store.put(where, bytes(data))
        else:
            spec = tables.RETAINED_RANGES if kind == "prune" else tables.UNCOMMITTED_ADDRESSES
            folder = tables.folder(spec, key)
            parts = [
                name for batch in store.list(folder) for name in batch.column("key").to_pylist()
            ]
            parts = [name for name in parts if name.endswith(".parquet")]
            if parts:
                store.delete(parts)

    @rule(tells=st.booleans())
    @action
    def let_the_store_tell_contents(self, *, tells: bool) -> None:
        """Let the store give MD5s of contents, as S3 does, which rule out what hides."""
        self.tells_content = tells

    @rule(held=st.sampled_from([0, _HELD_BYTES]))
    @action
    def hold_small_files_in_manifests(self, held: int) -> None:
        """Let small files of tables on the way lie in manifests, or store each of them."""
        writing.HELD_BYTES = held
        committed._HELD_BYTES = _OF_A_TABLE if held else 2_000

    def teardown(self) -> None:
        """Let small files lie in manifests again."""
        try:
            super().teardown()
        finally:
            writing.HELD_BYTES, committed._HELD_BYTES = _HELD_BYTES, _OF_A_TABLE

    @rule(options=OPTIONS, number=NUMBER)
    @action
    def decide_by_other_options(self, options: Options, number: int) -> None:
        """Change the options that decide, which makes the next mark a full one; seldom."""
        if not number % 4:
            self.deciding = options

    def _mark(self, options: Options) -> OlderMark:
        deciding = self.deciding = self.deciding or options
        return super()._mark(
            replace(deciding, twin_calls=options.twin_calls, page_rows=options.page_rows)
        )

    def _refused(self, run: Run, failed: list[str]) -> list[str]:
        # Histories bring entries of deleted objects back, by refs on commits that had expired. That
        # each object was dead when it was deleted, the comparison with the oracle says.
        if AUDIT in failed:
            verdict.confirm(run, AUDIT, who="search")
        return [name for name in failed if name != AUDIT]

    def _open(self, key: datetime, options: Options, opened: datetime | None = None) -> Run:
        run = super()._open(key, options, opened)
        chosen = replace(run.options, optimized=True, full_every=self.full_every)
        run = replace(run, options=chosen)
        if self.tells_content:
            run = replace(run, store=TellingStore(run.store.namespace, run.store.options))
        return run

    def _end(self) -> None:
        if self.moved:
            # The next mark is a full one, and finds them young. The one after it may be optimized.
            newest = max(self.moved)
            self._bring_back(newest, self.moved[newest].contents)
            self.whole_run(options=Options())
            self.sandbox.clock.advance(OLD_ENOUGH + timedelta(seconds=1))
            self.whole_run(options=Options())
        # What optimized runs left goes with the next full one.
        self.full, self.deciding = True, Options()
        self.whole_run(options=Options())
        self.repository.remove()

    def _require_plan(
        self, made: OlderMark, marked: Marked, alive: set[str], objects: Mapping[str, bytes]
    ) -> None:
        listed = ListedFigures.of(marked.tables.slices.manifest)
        if listed.base is None:
            self.kinds[(listed.why_full or "").partition(" decided: ")[0][-30:] or "full"] += 1
            super()._require_plan(made, marked, alive, objects)
            return
        self.kinds["optimized"] += 1
        began = RunKey.parse(listed.base.run).instant
        assert max(self.restores, default=began) <= began, "the base counts as gone what came back"
        self.work.update(_work(marked))
        cutoff = made.key - OLD_ENOUGH
        dead = set(objects) - alive - young(self.repository, objects, cutoff)
        assert made.plan <= dead, f"lets go what is alive or young: {sorted(made.plan - dead)}"
        twins: Any = marked.expired.manifest.facts["twins"]
        left = sorted(dead - made.plan)
        if len(left) > twins["unchecked_objects"]:
            self.missed[0] += len(left) - twins["unchecked_objects"]
            work = _work(marked)
            self.left.append(f"{len(left)}, {left[0]} first, since {listed.base}: {work}, {twins}")
        back = self.brought_back & set(objects)
        self.back["alive at an optimized mark"] += len(back & alive)
        self.back["named by an optimized mark"] += len(back & made.plan)
        self.back["left to the next full run"] += len(back & dead - made.plan)


def _work(marked: Marked) -> dict[str, int]:
    """Return the figures of an optimized mark that are numbers."""
    change = CommittedFigures.of(marked.tables.committed.manifest).change
    assert change is not None
    listed = ListedFigures.of(marked.tables.slices.manifest)
    numbers = {name: value for name, value in vars(change).items() if isinstance(value, int)}
    return {**numbers, "spared_slices": listed.base.spared_slices if listed.base else 0}
