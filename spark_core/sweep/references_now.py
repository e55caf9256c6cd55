"""Find the objects of a plan that something references again, just before deleting.

Everything that may refer to such an object is read again. References are read in the mark's order,
by the mark's own functions: first all staged entries, then rules, refs and the server's list, then
what the commits reach. An address that is found twice is kept, and so is one that only a collision
of hashes finds. What cannot be read ends the sweep. `references.parts_of_look` says which parts the
next look reads again, and why that is safe; `policy_now` what counts for objects that go
by a retention policy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa

from spark_core.errors import IncompleteReadError, UnsafePlanError
from spark_core.records import rows_aside, tables
from spark_core.records.figures import ListedFigures, SecondLookFigures, TwinFigures
from spark_core.records.reading import StoredTable
from spark_core.references.commits import heads_now
from spark_core.references.heads import Heads
from spark_core.references.parts_of_look import GOOD_FOR, HIDDEN, QUICK, LookParts
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.exchange import AnySource, no_rows
from spark_core.sweep import twins_now
from spark_core.sweep.committed_now import Committed
from spark_core.sweep.plan_compared import ADDRESSES, by_hash, compare, planned_at, reasons
from spark_core.sweep.policy_now import ByPolicy, PolicyNow
from spark_core.sweep.reached_now import TablesRead
from spark_core.sweep.staged_now import HASHES, StagedNow, read_staged_parts
from spark_core.sweep.why_kept import KEPT, NOTHING, Kept


@dataclass(frozen=True)
class ReferencesNow:
    """The objects that something references again.

    Attributes:
        began: Start of its age, by the run's clock: before the first byte was read. Where reading
            the staged entries takes long, it is before refs were read (see `parts_of_look`).
        kept: Objects of the plan that something references now, or did at an earlier look of the
            same sweep.
        figures: Figures for the report.
        known: Tables read so far, for the next look.
        parts: When each staged part was read.
        searched: What was known at the last search for hidden entries.
        ended: When the last byte was read.
        policy: What the retention policy says, for the next look.
    """

    began: datetime
    kept: Kept
    figures: SecondLookFigures
    known: TablesRead
    parts: LookParts
    searched: TablesRead
    ended: datetime
    policy: PolicyNow

    def release(self) -> None:
        """Remove what later looks would have read."""
        self.known.release()


def reader_of_references(by_policy: ByPolicy | None = None) -> Callable[..., ReferencesNow]:
    """Return `read_again` with a memory, for one sweep.

    The next calls do not read again what one call read of the server's tables.

    If rows are missing, everything is read once more, as in a new sweep. Objects that an earlier
    call saw alive stay alive all the same.

    Args:
        by_policy: As for `read_again`.

    Returns:
        Takes a run, a plan, the mark's tables, and what is concluded, as `read_again`.
    """
    last: list[ReferencesNow] = []

    def again(
        run: Run,
        plan: AnySource,
        mark: Mapping[str, StoredTable],
        concluded: AnySource | None = None,
    ) -> ReferencesNow:
        look = partial(read_again, run, plan, mark=mark, by_policy=by_policy, concluded=concluded)
        try:
            last[:] = [look(previous=last[0] if last else None)]
        except IncompleteReadError:
            last[:] = [look(alive=last[0].kept if last else NOTHING)]
        return last[0]

    return again


def read_again(
    run: Run,
    plan: AnySource,
    *,
    mark: Mapping[str, StoredTable],
    previous: ReferencesNow | None = None,
    alive: Kept = NOTHING,
    by_policy: ByPolicy | None = None,
    concluded: AnySource | None = None,
) -> ReferencesNow:
    """Find the objects of a plan that something refers to now.

    Everything that moves is read anew: staged entries, rules, refs, the server's list, holds, and
    the answers of branches for paths that may have a twin. Where reading all staged entries takes
    long, only parts of them are read (see `parts_of_look`). The content of the server's tables
    names them, so only tables that neither the mark nor `previous` had read are read. Each of them
    is read whole, or the sweep ends.

    Rules count from the run's own instant, as they did for the mark. That instant lies in the past,
    so a commit is retained at least as long as by a new mark.

    Args:
        run: The run, of the instance that was marked.
        plan: The objects: columns address, size_bytes and, where it is known, last_modified of
            `schemas.EXPIRED_ADDRESSES`.
        mark: The mark's tables by name; `uncommitted_addresses` is not read.
        previous: Result of an earlier call in the same sweep; what it found is found again.
        alive: `kept` of an earlier call, where nothing else of that call can be relied on.
        by_policy: Objects of the plan that go by the retention policy; None for none.
        concluded: Objects (address) that nobody will delete any more: branches are not asked about
            them. None for none.

    Returns:
        The objects that must be kept, and why.

    Raises:
        RepositoryStateError: If the server shows no branch or no commit that keeps its objects.
        IncompleteReadError: If anything could not be read to its end.
        UnsafePlanError: If more is referenced again than the driver may hold.
        LakegcError: For any other cause. Nothing is known then, and nothing may be deleted.
    """
    with ExitStack() as held:
        reading = _Reading(run, plan, mark, by_policy, concluded)
        reading.kept = alive
        if previous is not None:
            reading.go_on_from(previous)
        parts = reading.parts
        staged = reading.read_staged(held)
        if by_policy is not None and by_policy.any_staged:
            reading.policy.read_names(by_policy, parts, reading.budget)
        # Always after the last staged part: what was committed in between was in neither kind
        # before.
        committed = reading.read_committed()
        rest = reading.find_referenced(staged, committed, held)
        parts.turn()
        if parts.begin(HIDDEN):
            reading.read_hidden(rest, committed)
            if run.now() - committed.began > parts.quick:
                committed = reading.read_committed()
                reading.find_referenced([], committed, held)
    return reading.end(staged, committed)


class _Reading:
    """One reading of everything that may refer to a plan; arguments as for `read_again`."""

    def __init__(
        self,
        run: Run,
        plan: AnySource,
        mark: Mapping[str, StoredTable],
        by_policy: ByPolicy | None,
        concluded: AnySource | None,
    ) -> None:
        self.run, self.mark, self.by_policy = run, mark, by_policy
        self.began, self.calls = run.now(), Counter(run.server.requests)
        self.plan = planned_at(self.began, plan)
        self.concluded = no_rows(ADDRESSES) if concluded is None else by_hash(concluded, ADDRESSES)
        self.prefix = ListedFigures.of(mark[tables.NAMESPACE_SLICES.name].manifest).table_prefix
        self.parts = LookParts(run.now, GOOD_FOR * QUICK)
        # For how long to begin parts that were read before; None for no limit.
        self.budget: timedelta | None = None
        self.known = self.searched = TablesRead()
        self.kept = NOTHING
        self.twin_figures: TwinFigures | None = None
        self.policy = PolicyNow(run, mark[tables.RETAINED_COMMITS.name])
        self.server_runs: list[str] = []

    def go_on_from(self, last: ReferencesNow) -> None:
        """Take what an earlier reading of the same sweep knows and found."""
        self.parts, self.known, self.searched = last.parts, last.known, last.searched
        self.kept, self.server_runs = last.kept, list(last.figures.server_runs)
        self.policy.go_on_from(last.policy)
        self.budget = max(self.parts.quick, self.began - last.ended)

    def keep(self, more: Sequence[pa.Table]) -> None:
        """Add to what is referenced, in columns of `KEPT`; nothing is taken away."""
        self.kept = Kept.of(pa.concat_tables([self.kept.table, *more]))
        most = placement.MOST_ROWS_OF_THE_DRIVER
        if len(self.kept.hashes) > most:
            raise UnsafePlanError(
                f"run {self.run.key} of {self.run.repository.id}: {len(self.kept.hashes)} of the "
                f"{self.plan.rows} objects that may go are referenced again, more than a sweep "
                f"remembers ({most})",
                "Mark again under a new run key.",
            )

    def find_referenced(
        self, staged: Sequence[StagedNow], committed: Committed, held: ExitStack
    ) -> AnySource:
        """Find what is staged, committed or held; of a policy's objects, what it does not name.

        Returns:
            The objects that nothing refers to so far: columns of `twins.OBJECTS`.
        """
        run, own = self.run, self.by_policy
        entries = [receipt for one in staged for receipt in one.receipts]
        readings = sum(one.readings for one in staged)
        rules, of_policy = self.policy.rules(own, committed.commits, readings=readings)
        sources: dict[str, AnySource] = {
            "planned": self.plan,
            "concluded": self.concluded,
            "staged": rows_aside.source_of(run.store, HASHES, entries),
            "committed": self.known.addresses(run).through(KEPT, reasons),
            "held_paths": self.known.held.source(run),
            **of_policy,
        }
        count, known = 0 if own is None else own.count, self.kept.hashes
        kept, rest = compare(run, sources, rules, known, held, began=self.began, own=count)
        self.keep(kept)
        return rest

    def read_staged(self, held: ExitStack) -> list[StagedNow]:
        """Read the staged parts that are due."""
        return read_staged_parts(
            self.run, self.prefix, self.parts, held, began=self.began, budget=self.budget
        )

    def read_committed(self) -> Committed:
        """Read what is committed or held, and remember the tables that it took."""
        by_names = self.by_policy is not None
        committed = Committed.read(self.run, self.prefix, self.mark, self.known, all_names=by_names)
        self.known = committed.known
        self.server_runs += committed.commits.server_lists
        return committed

    def read_hidden(self, rest: AnySource, committed: Committed) -> None:
        """Search for hidden entries among the objects that nothing refers to so far."""
        run, commits = self.run, committed.commits
        marked = Heads.of(self.mark[tables.RETAINED_COMMITS.name].manifest)
        heads = heads_now(run, commits, marked, read_at=committed.began)
        self.known, found, self.twin_figures = twins_now.search(
            run,
            rest,
            self.mark,
            self.known,
            heads,
            commits=commits.table,
            is_news=self.known is not self.searched,
            staged=None if self.policy.names is None else self.policy.names.taken,
            any_own=self.by_policy is not None,
        )
        self.parts.end_hidden(branch.id for branch in commits.refs.branches)
        self.searched = self.known
        self.keep([found])

    def end(self, staged: Sequence[StagedNow], committed: Committed) -> ReferencesNow:
        """Return what was found, with its age and the figures for the report."""
        run, parts, commits, ended = self.run, self.parts, committed.commits, self.run.now()
        # A first reading reads every part.
        assert parts.oldest is not None  # noqa: S101
        of_staged = (id_ for one in staged for id_ in one.figures.server_runs)
        server_runs = [*self.server_runs, *of_staged]
        figures = SecondLookFigures(
            began=self.began.isoformat(),
            oldest_began=parts.oldest.isoformat(),
            seconds=(ended - self.began).total_seconds(),
            calls=sum((Counter(run.server.requests) - self.calls).values()),
            staged=tuple(one.figures for one in staged),
            commits=len(commits.refs.commits),
            branches=len(commits.refs.branches),
            tags=len(commits.refs.tags),
            retained_commits=commits.table.num_rows,
            holds=len(commits.holds.holds),
            **vars(committed.figures),
            twins=self.twin_figures,
            server_runs=tuple(dict.fromkeys(server_runs)),
        )
        is_young = committed.began - parts.oldest <= parts.quick
        began = parts.oldest if is_young else committed.began
        return ReferencesNow(
            began, self.kept, figures, self.known, parts, self.searched, ended, self.policy
        )
