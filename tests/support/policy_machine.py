"""Random histories with retention policies: an object goes only if a rule names it under every
name that it has, or if nothing reaches it.

To what `HistoryMachine` does come documents that are set, confirmed, changed and ended, at any
moment; references that appear between a mark and its sweep; quarantine, what is brought back from
it, and what is purged. `policy_oracle` says what may go and what must.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from spark_core import lakegc_keys
from spark_core.errors import NotFoundError, VerdictError
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Period, Policy, Rule
from spark_core.run import Run
from spark_core.sweep import quarantine
from spark_core.undo.restore import restore
from spark_core.upkeep import house_keeping
from tests.support.history_actions import NUMBER, Tally, action
from tests.support.history_machine import ENOUGH, OLD_ENOUGH, HistoryMachine, OlderMark
from tests.support.live_server import LiveError
from tests.support.pipeline import Marked
from tests.support.policy_oracle import (
    DEFAULT_BRANCH,
    Names,
    RecordedRepository,
    kept_by_commits,
    takes,
)
from tests.support.recorded_events import references
from tests.support.sandbox_repository import SandboxServer
from tests.support.search_oracle import Options, reachable, require_plan, young

SKEW = timedelta(minutes=5)
# Days that an object stays in quarantine at least.
QUARANTINE_DAYS = 2
WAYS_BACK = ("stage", "branch", "tag", "reset", "hold", "rules", "other path", "same path")
# What happens to the entry of a staged object between a mark and its sweep.
STAGED_WAYS = ("committed", "linked", "linked in time", "uploaded anew", "taken back", "dropped")
SCRATCH = ("tmp/a", "tmp/b", "tmp/c#1")


@dataclass(frozen=True)
class PolicyOptions(Options):
    """Options of a run that looks at policies.

    Attributes:
        policies: `off`, `mark`, `sweep` or `only`.
        quarantine: What goes is moved there first.
        is_share_limited: A rule that names more than a third of all objects waits.
    """

    policies: str = "sweep"
    quarantine: bool = False
    is_share_limited: bool = False

    @property
    def of_run(self) -> dict[str, Any]:
        limits: dict[str, Any] = {}
        if self.is_share_limited:
            limits = {
                "share_from_objects": 1,
                "max_policy_share": 1 / 3,
                "max_expired_share": 1,
                "max_missing_share": 1,
                "max_sudden_drop": 1,
                "max_expired_rise": 1,
            }
        return {
            **super().of_run,
            **limits,
            "policies": self.policies,
            "quarantine": self.quarantine,
            "quarantine_days": QUARANTINE_DAYS,
        }

    @property
    def margin(self) -> timedelta:
        """What clocks may be wrong by."""
        return timedelta(hours=self.margin_hours) + SKEW


POLICY_OPTIONS = st.builds(
    PolicyOptions,
    margin_hours=st.sampled_from([1, 0]),
    tags_protect=st.sampled_from([True, True, False]),
    twin_calls=st.sampled_from([ENOUGH, ENOUGH, ENOUGH, 0]),
    ask_all=st.sampled_from([False, False, True]),
    policies=st.sampled_from(["sweep", "sweep", "sweep", "sweep", "only", "only", "mark", "off"]),
    quarantine=st.booleans(),
    is_share_limited=st.sampled_from([False, False, False, True]),
)
RULES = st.builds(
    Rule,
    branch=st.sampled_from([None, "main", "main", "dev", "b1", "b2", "gone"]),
    path=st.sampled_from(["", "", "a", "dir/", "dir/c", "dir//", "tmp/"]),
    periods=st.dictionaries(
        st.sampled_from(["all", "noncurrent", "uncommitted", "uncommitted"]),
        st.builds(Period, days=st.sampled_from([1, 1, 2, 4, 7])),
        min_size=1,
    ),
    is_enabled=st.sampled_from([True, True, True, True, False]),
).map(lambda one: replace(one, path="") if one.branch is None else one)
# What a rule removes by a commit is no sweep's.
REMOVALS = RULES.filter(lambda one: one.branch is not None and set(one.periods) == {"all"}).map(
    lambda one: replace(one, effect="remove")
)
POLICIES = st.builds(
    Policy,
    rules=st.lists(st.one_of(RULES, RULES, RULES, REMOVALS), min_size=1, max_size=3).map(tuple),
    branch_order=st.sampled_from([(), (), ("dev",), ("main", "dev", "b1"), ("b1", "main")]),
)
# Documents that surely name something of the history with which every repository begins.
BROAD = [
    Policy((Rule(None, "", {"all": Period(days=2)}),)),
    Policy((Rule("main", "", {"all": Period(days=1)}), Rule("dev", "", {"all": Period(days=1)}))),
    Policy(
        (
            Rule("main", "", {"noncurrent": Period(days=1)}),
            Rule("main", "a", {"all": Period(days=1)}),
        )
    ),
    Policy(
        (Rule("dev", "dir/", {"all": Period(days=1)}), Rule("main", "", {"all": Period(days=2)})),
        ("dev", "main"),
    ),
    Policy((Rule(None, "", {"uncommitted": Period(days=1), "all": Period(days=7)}),)),
    Policy((Rule(None, "", {"uncommitted": Period(days=2)}),)),
    Policy(
        (
            Rule("main", "", {"uncommitted": Period(days=1)}),
            Rule("dev", "", {"uncommitted": Period(days=2)}),
        )
    ),
    Policy(
        (
            Rule("main", "tmp/", {"uncommitted": Period(days=1)}),
            Rule(None, "", {"all": Period(days=4), "uncommitted": Period(days=7)}),
        )
    ),
]
# Those of them that take what is staged.
STAGING = [
    policy for policy in BROAD if any("uncommitted" in rule.periods for rule in policy.rules)
]
# Those that take what no branch shows any more.
NONCURRENT = [
    Policy((Rule(None, "", {"noncurrent": Period(days=1)}),)),
    Policy((Rule("main", "", {"noncurrent": Period(days=1)}),)),
    Policy(
        (
            Rule("dev", "", {"noncurrent": Period(days=1)}),
            Rule("main", "", {"noncurrent": Period(days=1)}),
        ),
        ("dev", "main"),
    ),
]
CHANGES = st.sampled_from([*["none"] * 6, "other", "confirmed", "end", "setting"])
WAYS = st.lists(st.sampled_from([*WAYS_BACK, *STAGED_WAYS]), max_size=3)


@dataclass
class PolicyTally(Tally):
    """What was tried, over all histories.

    Attributes:
        wanted_histories: Histories that are enough; None for as many as come.
        counts: What policies did, in words.
    """

    wanted_histories: int | None = None
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_full(self) -> bool:
        """Whether enough was played."""
        wanted = self.wanted_histories
        # `counting_on` ends the counting by `wanted`.
        return self.wanted is not None and wanted is not None and self.histories >= wanted

    def __str__(self) -> str:
        words = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        return f"{super().__str__()}; {words}"


@dataclass
class Moved:
    """What a sweep moved to quarantine: address -> bytes, and until when it lies there at least."""

    contents: dict[str, bytes]
    until: datetime


MOVES = st.lists(st.sampled_from(STAGED_WAYS), max_size=2)


@dataclass(frozen=True)
class Ending:
    """How a history ends.

    Attributes:
        policy: The document that counts then, unless another one does already.
        change: What happens to the document between mark and sweep.
        ways: What happens to objects meanwhile.
        number: Chooses among what there is.
        before: What happens long enough before: `scratch` is left staged, or branches lose objects.
    """

    policy: Policy
    change: str
    ways: list[str]
    number: int
    before: str


def _endings(policies: list[Policy], before: str, ways: Any) -> Any:
    return st.builds(
        Ending,
        policy=st.sampled_from(policies),
        change=CHANGES,
        ways=ways,
        number=st.integers(0, 50),
        before=st.just(before),
    )


ENDINGS = st.one_of(
    _endings(BROAD, "", WAYS),
    _endings(STAGING, "scratch", MOVES),
    _endings(NONCURRENT, "losses", WAYS),
)


class PolicyMachine(HistoryMachine):
    """A repository with policies, from its first commit to the collections that end its history.

    Attributes:
        is_short: One run ends a history, instead of two.
    """

    tally: PolicyTally
    repository: RecordedRepository
    most_runs = 4
    is_short = False

    def __init__(self) -> None:
        super().__init__()
        self.policy: Policy | None = None
        self.confirmed: dict[str, Policy] = {}
        # The document that each mark looked at, and what went into its plan by it.
        self.looked: dict[datetime, str] = {}
        self.by_policy: dict[datetime, set[str]] = {}
        self.taken: set[str] = set()
        self.quarantined: dict[datetime, Moved] = {}
        self.ending = Ending(BROAD[0], "none", [], 0, "")
        self.setting_at_sweep: dict[str, Any] = {}

    def _new_repository(self) -> RecordedRepository:
        repository = RecordedRepository(SandboxServer.of(self.sandbox))
        repository.noted = self.noted
        return repository

    # Documents

    def _opened(self) -> Run:
        return self._open(self.now.replace(microsecond=0), PolicyOptions())

    def _put(self, policy: Policy | None) -> None:
        versions.store_version(self._opened(), policy, who="search")
        self.policy = policy

    @rule(policy=POLICIES)
    @action
    def set_policy(self, policy: Policy) -> None:
        self._put(policy)

    @rule()
    @precondition(lambda self: self.policy is not None)
    @action
    def end_policy(self) -> None:
        self._put(None)
        with pytest.raises(NotFoundError):
            versions.store_version(self._opened(), None, who="search")

    @rule(number=NUMBER)
    @precondition(lambda self: self.looked)
    @action
    def confirm(self, number: int) -> None:
        """Confirm by some mark: refused if it looked at another document."""
        keys = sorted(self.looked)
        self._confirm(keys[-1 - number % len(keys)])

    def _confirm(self, key: datetime) -> None:
        run = self._open(key, PolicyOptions())
        if self.policy is None or self.looked.get(key) != self.policy.digest:
            with pytest.raises(VerdictError, match="looked at"):
                confirmed.confirm_marked(run, who="search")
            return
        confirmed.confirm_marked(run, who="search")
        self.confirmed[self.policy.digest] = self.policy

    def _confirm_unseen(self) -> None:
        """Confirm the document that counts, by no mark."""
        run, policy = self._opened(), self.policy
        version = versions.newest(run)
        assert version is not None
        assert policy is not None
        confirmed.confirm(run, version, "search")
        self.confirmed[policy.digest] = policy

    @rule(policy=POLICIES)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def set_and_confirm(self, policy: Policy) -> None:
        self._set_and_confirm(policy)

    def _set_and_confirm(self, policy: Policy) -> None:
        self._put(policy)
        if self.is_short:
            self._confirm_unseen()
            return
        made = self._mark(PolicyOptions(policies="mark"))
        if made.key in self.looked:
            self._confirm(made.key)

    # Runs

    @rule(options=POLICY_OPTIONS)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def mark_with_policies(self, options: PolicyOptions) -> None:
        """Mark, and leave the sweep for later."""
        self.marks.append(self._mark(options))

    @rule(options=POLICY_OPTIONS, policy=st.none() | st.sampled_from(BROAD) | POLICIES)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def run_with_policies(self, options: PolicyOptions, policy: Policy | None) -> None:
        if policy is not None:
            self._set_and_confirm(policy)
        self.whole_run(options=options)

    @rule(
        options=POLICY_OPTIONS,
        policy=st.none() | st.sampled_from(BROAD) | POLICIES,
        change=CHANGES,
        ways=WAYS,
        number=st.integers(0, 50),
    )
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def change_before_the_sweep(
        self,
        options: PolicyOptions,
        policy: Policy | None,
        change: str,
        ways: list[str],
        number: int,
    ) -> None:
        """Mark; refer again to something, change or end the document or the setting; and sweep."""
        if policy is not None:
            self._set_and_confirm(policy)
        self._change_before_the_sweep(options, change, ways, number)

    def _change_before_the_sweep(
        self, options: PolicyOptions, change: str, ways: list[str], number: int
    ) -> OlderMark:
        made = self._mark(options)
        named = self.by_policy.get(made.key, set())
        for at, way in enumerate(ways, number):
            with suppress(LiveError):
                self._revive(named if at % 2 and named else made.plan, way, at)
        if change == "other":
            self._put(Policy((Rule(None, "", {"all": Period(days=300 + number)}),)))
        elif change == "confirmed" and self.confirmed:
            some = [self.confirmed[digest] for digest in sorted(self.confirmed)]
            self._put(some[number % len(some)])
        elif change == "end" and self.policy is not None:
            self._put(None)
        elif change == "setting":
            self.setting_at_sweep = {"policies": ("off", "mark")[number % 2]}
        self.tally.counts[f"sweeps after change: {change}"] += bool(named)
        try:
            self._sweep(made)
        finally:
            self.setting_at_sweep = {}
        self.runs += 1
        self.tally.runs += 1
        return made

    def _revive(self, plan: set[str], way: str, number: int) -> None:
        if way in STAGED_WAYS:
            self._move_staged(plan, way, number)
            return
        if way not in {"other path", "same path"}:
            super()._revive(plan, way, number)
            return
        if not plan:
            return
        # Committed on top of a branch: under a name that it does not have, or one that it has.
        address = sorted(plan)[number % len(plan)]
        repository, branch = self.repository, self._branch(number)
        paths = sorted(Names(repository, ()).entries.get(address, {}))
        path = f"new{number}" if way == "other path" or not paths else paths[number % len(paths)]
        repository.stage(
            branch,
            path,
            f"local://{repository.store.folder}/{address}",
            size_bytes=len(repository.contents[address]),
        )
        self.old_staged.add(branch)
        self.beyond_the_bound = self.beyond_the_bound or self._hides(branch, path)
        repository.commit(branch)
        self.drops(branch)

    def _move_staged(self, plan: set[str], way: str, number: int) -> None:
        """Do something to the entry of a staged object of a plan, in one of the `STAGED_WAYS`."""
        repository, staged_at = self.repository, Names(self.repository, ()).staged_at
        there = sorted((*name, address) for address in plan for name in staged_at.get(address, ()))
        if not there:
            return
        branch, path, address = there[number % len(there)]
        self.tally.counts[f"staged objects of a plan: {way}"] += 1
        if way == "committed":
            repository.commit(branch)
            self.drops(branch)
        elif way in {"linked", "linked in time"}:
            other = self._branch(number)
            name = f"new{number}" if way == "linked" else f"{path}{number}"
            repository.stage(
                other,
                name,
                f"local://{repository.store.folder}/{address}",
                size_bytes=len(repository.contents[address]),
            )
            self.old_staged.add(other)
            self.beyond_the_bound = self.beyond_the_bound or self._hides(other, name)
        elif way == "uploaded anew":
            repository.upload(branch, path, self._data(number % 12))
        elif way == "taken back":
            repository.reset(branch, type="object", path=path)
            self.old_staged.add(branch)
        elif way == "dropped" and branch != DEFAULT_BRANCH:
            repository.drop_branch(branch)
            self.drops(branch)

    # Scratch

    @rule(
        branch=NUMBER,
        number=st.integers(0, 50),
        days=st.sampled_from([1, 2, 2, 4]),
        copies=st.booleans(),
    )
    @action
    def leave_staged(self, branch: int, number: int, days: int, *, copies: bool) -> None:
        """Leave objects staged for some days, under paths that no commit may have yet."""
        self._leave_staged(branch, number, timedelta(days=days), copies=copies)

    @rule(
        branch=NUMBER,
        number=st.integers(0, 50),
        copies=st.booleans(),
        policy=st.sampled_from(STAGING),
        ways=MOVES,
    )
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def sweep_what_is_staged(
        self, branch: int, number: int, policy: Policy, ways: list[str], *, copies: bool
    ) -> None:
        """Leave objects staged, mark, do something to their entries, and sweep."""
        self._leave_staged(branch, number, timedelta(days=2), copies=copies)
        self._set_and_confirm(policy)
        self._change_before_the_sweep(
            PolicyOptions(quarantine=number % 2 > 0), "none", ways, number
        )

    def _leave_staged(self, branch: int, number: int, time: timedelta, *, copies: bool) -> None:
        repository = self.repository
        where = [self._branch(branch), self._branch(branch + number)]
        for at, path in enumerate(SCRATCH[: 2 + number % 2]):
            repository.upload(where[at % 2], path, b"scratch %d" % (number + at))
        if copies:
            shown = repository.stat(where[0], SCRATCH[0])
            size, address = shown["size_bytes"], shown["physical_address"]
            repository.stage(where[1], f"tmp/copy{number}", address, size_bytes=size)
            self.old_staged.add(where[1])
        self.sandbox.clock.advance(time + timedelta(hours=2))

    def _open_sweep(self, made: OlderMark) -> Run:
        return self._open(made.key, replace(made.options, **self.setting_at_sweep))

    # What is compared

    def _takes(
        self, options: PolicyOptions, key: datetime, *, is_listed: bool, is_counted: bool = True
    ) -> Any:
        """Return what tells whether the present document may, or clearly must, take an object."""
        if self.policy is None or options.policies == "off":
            return lambda _address, *, clearly: False
        policy, heads_at_mark = self.policy, self.noted.get(key, {}).values()
        names = Names(self.repository, policy.branch_order, heads_at_mark)
        kept = kept_by_commits(self.repository, self.held, tags_protect=options.tags_protect)
        kept |= self.held.held_addresses(self.repository.contents)

        def asked(address: str, *, clearly: bool) -> bool:
            if clearly and (address in names.shared or address in self._restaged(names)):
                return False
            taken = takes(
                names,
                policy,
                address,
                key=key,
                margin=options.margin,
                kept=kept,
                written=self.repository.written[address] if is_listed else None,
                held={branch for branch, _ in self.held.branches.values()},
                clearly=clearly,
            )
            if taken and not clearly and is_counted:
                self.tally.counts["names that only the documented limit gives"] += len(
                    names.limit_used
                )
            return taken

        return asked

    def _restaged(self, names: Names) -> set[str]:
        """Return addresses that may be staged as they are committed, which nobody can see."""
        return {
            address
            for branch in self.old_staged & set(names.heads)
            for address, _ in self.repository.committed(names.heads[branch]).values()
        }

    def _note_references(self, key: datetime, options: Options) -> None:
        """Take note of what the document lets go, too, as the model is told it.

        Of what it surely names, some may stay where a rule waits, or somebody could not ask: there
        the model is told that it may go.
        """
        recorder = self.recorded.get(key)
        if recorder is None:
            return
        now = references(self.repository, key, options, self.held)
        chosen: Any = replace(options, **self.setting_at_sweep)
        is_same = key not in self.looked or (
            self.policy is not None and self.policy.digest == self.looked[key]
        )
        if isinstance(options, PolicyOptions) and self._goes(chosen) and is_same:
            there = self.repository.data()
            ask = self._takes(chosen, key, is_listed=True, is_counted=False)
            may = {address for address in there if ask(address, clearly=False)}
            is_sure = options.twin_calls >= ENOUGH and not options.is_share_limited
            is_sure = is_sure and not self.repository.may_compact
            surely = {one for one in may if is_sure and ask(one, clearly=True)}
            now = replace(now, surely_named=surely, perhaps_named=may - surely)
        recorder.changed(now)

    def _goes(self, options: PolicyOptions) -> bool:
        return (
            options.policies in ("sweep", "only")
            and self.policy is not None
            and self.policy.digest in self.confirmed
        )

    def _require_plan(
        self, made: OlderMark, marked: Marked, alive: set[str], objects: Mapping[str, bytes]
    ) -> None:
        options, run = made.options, self._open(made.key, made.options)
        by_policy = made.plan & alive
        self.by_policy[made.key] = by_policy
        twins = marked.expired.manifest.facts["twins"]
        if getattr(options, "policies", "off") != "only":
            require_plan(
                self.repository,
                made.plan - alive,
                alive=alive,
                objects=objects,
                cutoff=made.key - OLD_ENOUGH,
                twins=twins,
            )
        else:
            assert made.plan <= alive
        self._require_not_missing(marked, objects)
        if not isinstance(options, PolicyOptions):
            assert not by_policy, by_policy
            return
        if options.policies != "off" and self.policy is not None:
            self.looked[made.key] = self.policy.digest
            self._require_named(made, by_policy, objects, twins, run)
        else:
            assert not by_policy, by_policy

    def _require_named(
        self,
        made: OlderMark,
        by_policy: set[str],
        objects: Mapping[str, bytes],
        twins: Any,
        run: Run,
    ) -> None:
        """Compare what a mark names with what the document may and must take."""
        options: Any = made.options
        table = run.load(tables.POLICY_EXPIRATIONS)
        rows = [row for batch in table.batches() for row in batch.to_pylist()]
        named = {row["address"]: row["rule"] for row in rows}
        facts = table.manifest.facts
        ask = self._takes(options, made.key, is_listed=True)
        too_young = young(self.repository, objects, made.key - OLD_ENOUGH)
        wrong = {address for address in named if not ask(address, clearly=False)}
        assert not wrong, f"named, and no rule takes every name: {sorted(wrong)}"
        assert not set(named) & too_young
        assert set(named) <= set(objects)
        reached = reachable(self.repository, made.key, made.options)
        must = {
            address for address in set(objects) & reached - too_young if ask(address, clearly=True)
        }
        # No rule takes what a branch may have compacted.
        missed = set() if self.repository.may_compact else must - set(named)
        assert not missed, f"a rule clearly names it: {sorted(missed)}"
        waits = {
            address
            for address, number in named.items()
            if not self._goes(options) or number in facts["above_share"]
        }
        assert bool(facts["waits"]) == (not self._goes(options)), facts["waits"]
        assert not by_policy & waits
        assert by_policy <= set(named)
        left = (must & set(named)) - waits - by_policy
        unnamed = twins["unchecked_objects"] - len(twins["unchecked_named"])
        silent = left - set(twins["unchecked_named"])
        assert len(silent) <= unnamed, f"named, and neither let go nor waiting: {sorted(silent)}"
        self.tally.counts["objects named"] += len(named)
        self.tally.counts["noncurrent objects named"] += sum(
            row["action"] == "noncurrent" for row in rows
        )
        self.tally.counts["staged objects named"] += sum(
            objects for _, objects, _ in facts.get("staged_by_rule", [])
        )
        self.tally.counts["objects of a rule that waits"] += len(waits)
        self.tally.counts["objects let go by a mark"] += len(by_policy)

    def _require_not_missing(self, marked: Marked, objects: Mapping[str, bytes]) -> None:
        """What policies took is not missing; whatever else heads and staged entries lack is."""
        figures = ExpiredFigures.of(marked.expired.manifest)
        names = Names(self.repository, ())
        gone = (names.at_head | names.staged) - set(objects)
        gone = {address for address in gone if address.startswith("data/")}
        assert (figures.missing_by_policy or 0) == len(gone & self.taken), (gone, self.taken)
        assert figures.missing_objects == len(gone - self.taken), (gone, self.taken)
        assert not set(figures.missing_named) & self.taken

    def _keeps(self, made: OlderMark, before: Mapping[str, bytes]) -> tuple[set[str], set[str]]:
        must_stay, may_stay = super()._keeps(made, before)
        own = self.by_policy.get(made.key, set())
        if not own:
            return must_stay, may_stay
        options: Any = replace(made.options, **self.setting_at_sweep)
        is_same = self.policy is not None and self.policy.digest == self.looked[made.key]
        ask = self._takes(options, made.key, is_listed=True)
        goes = self._goes(options) and is_same
        may_go = {address for address in own if goes and ask(address, clearly=False)}
        must_go = {address for address in own if goes and ask(address, clearly=True)}
        self.tally.counts["objects kept at the last look"] += len(own - may_go)
        return (must_stay - own) | (own - may_go), (may_stay - own) | (own - must_go)

    def _after_sweep(
        self, made: OlderMark, before: Mapping[str, bytes], after: Mapping[str, bytes]
    ) -> None:
        own = self.by_policy.get(made.key, set())
        gone = set(before) - set(after)
        self.taken |= own & gone
        self.tally.counts["objects taken by a policy"] += len(own & gone)
        staged = Names(self.repository, ()).staged
        self.tally.counts["staged objects taken by a policy"] += len(own & gone & staged)
        if getattr(made.options, "quarantine", False) and gone:
            until = max(self.now, made.key) + timedelta(days=QUARANTINE_DAYS)
            self.quarantined[made.key] = Moved({one: before[one] for one in gone}, until)

    # Quarantine

    @rule(number=NUMBER)
    @precondition(lambda self: self.quarantined)
    @action
    def bring_back(self, number: int) -> None:
        """Bring back all that a sweep moved to quarantine."""
        keys = sorted(self.quarantined)
        self._bring_back(keys[number % len(keys)])

    def _bring_back(self, key: datetime) -> None:
        moved = self.quarantined.pop(key)
        run = self._open(key, PolicyOptions())
        found = restore(run)
        # What was purged meanwhile cannot come back.
        assert not {left.key for left in found.left} & set(moved.contents)
        there = self.repository.objects()
        for address, data in moved.contents.items():
            assert there[address] == data
            written = (self.repository.store.folder / address).stat().st_mtime
            self.repository.written[address] = datetime.fromtimestamp(written, UTC)
        self.tally.counts["objects of a policy brought back"] += len(
            self.taken & set(moved.contents)
        )

    @rule(options=POLICY_OPTIONS, number=NUMBER)
    @precondition(lambda self: self.quarantined)
    @precondition(lambda self: self.runs + len(self.marks) < self.most_runs)
    @action
    def purge(self, options: PolicyOptions, number: int) -> None:
        """Wait until the days of a quarantine are over, mark, and keep house."""
        keys = sorted(self.quarantined)
        until = self.quarantined[keys[number % len(keys)]].until + timedelta(minutes=1)
        self.sandbox.clock.set(max(self.now, until))
        made = self._mark(options)
        self.runs += 1
        if not self.beyond_the_bound or made.options.ask_all:
            self._purge(made)

    def _purge(self, made: OlderMark) -> None:
        options: Any = made.options
        before = self.repository.objects()
        run = self._open(made.key, options)
        needed = reachable(self.repository, made.key, options, self.held)
        needed |= reachable(self.repository, self.now, options, self.held)
        goes, ask = self._goes(options), self._takes(options, made.key, is_listed=False)
        house = house_keeping.keep_house(run)
        assert house.pruned.not_purged is None, house.words
        assert self.repository.objects() == before
        for key, moved in sorted(self.quarantined.items()):
            there = {
                name
                for batch in run.store.list(lakegc_keys.in_quarantine(run.key.at(key)))
                for name in batch.column("key").to_pylist()
            }
            gone = {
                address
                for address in moved.contents
                if quarantine.key_of(run.key.at(key), address) not in there
            }
            assert not gone or run.now() >= moved.until
            for address in gone - set(before):
                by_policy = address in self.taken and goes and ask(address, clearly=False)
                assert by_policy or address not in needed, f"purged, and needed: {address}"
            self.tally.counts["objects of a policy purged"] += len(gone & self.taken)
            self.tally.counts["objects of a policy that a purge left"] += len(
                self.taken & set(moved.contents) - gone
            )
            for address in gone:
                del moved.contents[address]

    # What no branch shows any more

    def _lose_and_wait(self, number: int) -> None:
        """Let branches lose what they show, and mark and wait for more than a day: before, when a
        rule of a day may not take it yet, or after that.
        """
        repository, is_due = self.repository, number % 3 > 0
        if not is_due:
            self._mark_and_wait(number)
        shown = repository.committed(repository.branches()[DEFAULT_BRANCH])
        for path in sorted(shown)[number % 2 :]:
            repository.delete(DEFAULT_BRANCH, path)
        with suppress(LiveError):
            repository.commit(DEFAULT_BRANCH)
            self.drops(DEFAULT_BRANCH)
        for other in sorted(set(repository.branches()) - {DEFAULT_BRANCH})[: 1 + number % 2]:
            repository.drop_branch(other)
            self.drops(other)
        if is_due:
            self._mark_and_wait(number)

    def _mark_and_wait(self, number: int) -> None:
        self._mark(PolicyOptions(policies="mark"))
        self.sandbox.clock.advance(timedelta(days=1, hours=2 * (number % 4)))

    # The end

    @initialize(ending=ENDINGS)
    def choose_the_end(self, ending: Ending) -> None:
        self.ending = ending

    def _end(self) -> None:
        """End with a document that surely counts, a mark, changes, and a sweep; and with another
        run that finds what the changes left.
        """
        ending, number = self.ending, self.ending.number
        if ending.before or number % 2 or not self._goes(PolicyOptions()):
            self._put(ending.policy)
            self._confirm_unseen()
        if ending.before == "scratch":
            self._leave_staged(number, number, timedelta(days=2), copies=number % 3 == 0)
        elif ending.before == "losses":
            self._lose_and_wait(number)
        options = PolicyOptions(quarantine=True)
        first = self._change_before_the_sweep(options, ending.change, ending.ways, number)
        if not self.is_short:
            self.whole_run(options=PolicyOptions())
        if first.key in self.quarantined:
            self._bring_back(first.key)
        self.repository.remove()
