"""Find the objects of a plan that something references again, just before deleting.

Everything that may refer to such an object is read again.

References are read in the mark's order, by the mark's own functions: first all staged entries, then
rules, refs and the server's list, then what the commits reach. An address that is found twice is
kept, and so is one that only a collision of hashes finds. What cannot be read ends the sweep. The
module `references.second_look` says which parts the next look reads again, and why that is safe.

Commits reach what goes by a retention policy, so that decides nothing there. Such an object is kept
if it is staged, held or hidden like any other, and if the policy does not name it any more. What
goes by a rule for staged objects is kept if a commit has it by now, or unless such rules take it
under every name under which it is staged now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, are_among, hashed, with_address_hash
from spark_core.errors import IncompleteReadError, UnsafePlanError
from spark_core.holds import Holds
from spark_core.records import tables
from spark_core.records.figures import (
    ListedFigures,
    SecondLookFigures,
    StagedReadFigures,
    TwinFigures,
)
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Receipt, parts_of, summed, write_read
from spark_core.references import rows_aside
from spark_core.references.commits import heads_now
from spark_core.references.heads import Heads
from spark_core.references.policies import staged_names, versions
from spark_core.references.policies.confirmed import is_confirmed
from spark_core.references.policies.document import Policy
from spark_core.references.policies.every_name import instant_of
from spark_core.references.policies.expirations import UNREADABLE
from spark_core.references.policies.named_now import NamedNow, named_now
from spark_core.references.policies.staged_due import StagedJudge, are_asked_for, held_branches
from spark_core.references.second_look import HIDDEN, NAMES, QUICK, Parts
from spark_core.references.twins import OBJECTS
from spark_core.references.uncommitted import read_staged
from spark_core.retention import compacted_in
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, source_of
from spark_core.spark.tasks import run_tasks
from spark_core.sweep import twins_now
from spark_core.sweep.committed_now import Committed
from spark_core.sweep.reached_now import TablesRead
from spark_core.sweep.why_kept import KEPT, NOTHING, Kept, KeptRules, why_kept

_HASHES = pa.schema([ADDRESS_HASH])
_PLANNED = pa.schema([ADDRESS_HASH, *OBJECTS])
_ADDRESSES = pa.schema([ADDRESS_HASH, OBJECTS.field("address")])
_NAMES = pa.schema([ADDRESS_HASH, *staged_names.TAKEN])
# Sources of which every row must come to its comparison.
_WHOLE = ("planned", "staged", "committed", "held_paths")


@dataclass(frozen=True)
class ByPolicy:
    """What goes by a retention policy, although entries lead to it.

    Attributes:
        objects: Columns of `twins.OBJECTS`, key address. Where nobody knows when they were
            written, they are as old as can be: each was due by its own date when a sweep took it.
        count: Their number.
        digest: Digest of the document that the plan was made by; None where any confirmed one
            counts.
        any_staged: Whether any of them may go although it is staged.
    """

    objects: AnySource
    count: int
    digest: str | None = None
    any_staged: bool = True


@dataclass(frozen=True)
class _NamedNow:
    """What the retention policy names of a plan, and the document, refs and so on that say so."""

    state: tuple[object, ...]
    named: NamedNow


@dataclass(frozen=True)
class _StagedNamesNow:
    """What rules take of a plan under every name under which it is staged.

    Attributes:
        digest: Digest of the document.
        taken: Columns of `staged_names.TAKEN`; None if nobody knows.
        problem: Why nobody knows.
    """

    digest: str
    taken: AnySource | None
    problem: str


@dataclass(frozen=True)
class ReferencesNow:
    """The objects that something references again.

    Attributes:
        began: Start of its age, by the run's clock: before the first byte was read. Where reading
            the staged entries takes long, it is before refs were read (see `second_look`).
        kept: Objects of the plan that something references now, or did at an earlier look of the
            same sweep.
        figures: Figures for the report.
        known: Tables read so far, for the next look.
        parts: When each staged part was read.
        searched: What was known at the last search for hidden entries.
        ended: When the last byte was read.
        named: What the retention policy names, for the next look; None if nothing was asked.
        names: What it takes although it is staged; None if nothing was asked.
    """

    began: datetime
    kept: Kept
    figures: SecondLookFigures
    known: TablesRead
    parts: Parts
    searched: TablesRead
    ended: datetime
    named: _NamedNow | None = None
    names: _StagedNamesNow | None = None

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
    long, only parts of them are read (see `second_look`). The content of the server's tables
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
            reading.read_names(by_policy)
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
        self.plan = plan.through(_PLANNED, partial(_planned, self.began))
        self.concluded = _no_rows(_ADDRESSES)
        if concluded is not None:
            self.concluded = _by_hash(concluded, _ADDRESSES)
        self.prefix = ListedFigures.of(mark[tables.NAMESPACE_SLICES.name].manifest).table_prefix
        self.parts = Parts(run.now, run.options.reread_every * QUICK)
        # For how long to begin parts that were read before; None for no limit.
        self.budget: timedelta | None = None
        self.known = self.searched = TablesRead()
        self.kept = NOTHING
        self.twin_figures: TwinFigures | None = None
        self.named: _NamedNow | None = None
        self.names: _StagedNamesNow | None = None
        self.server_runs: list[str] = []

    def go_on_from(self, last: ReferencesNow) -> None:
        """Take what an earlier reading of the same sweep knows and found."""
        self.parts, self.known, self.searched = last.parts, last.known, last.searched
        self.kept, self.named, self.names = last.kept, last.named, last.names
        self.server_runs = list(last.figures.server_runs)
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
        self, staged: Sequence[_StagedNow], committed: Committed, held: ExitStack
    ) -> AnySource:
        """Find what is staged, committed or held; of a policy's objects, what it does not name.

        Returns:
            The objects that nothing refers to so far: columns of `twins.OBJECTS`.

        Raises:
            IncompleteReadError: If any rows got lost on the way to their comparison.
        """
        run = self.run
        rest = rows_aside.target_of(run, OBJECTS)
        entries = [receipt for one in staged for receipt in one.receipts]
        rules, of_policy = self._by_policy(staged, committed)
        sources: dict[str, AnySource] = {
            "planned": self.plan,
            "concluded": self.concluded,
            "staged": rows_aside.source_of(run, _HASHES, entries),
            "committed": self.known.addresses(run).through(KEPT, _reasons),
            "held_paths": self.known.held.source(run),
            **of_policy,
        }
        meet = partial(_meet, rules, self.kept.hashes, self.began)
        met, left = Exchange(sources, meet, OBJECTS, partial(rows_aside.put, rest)).run(
            lambda: run.spark, threads=run.options.read_threads
        )
        held.callback(rows_aside.remove, rest, left)
        came = sum((one.rows for one in met), Counter[str]())
        wanted = Counter({name: sources[name].rows for name in _WHOLE})
        wanted["own"] = 0 if self.by_policy is None else self.by_policy.count
        wanted = +wanted
        if came != wanted:
            raise IncompleteReadError(
                f"repository {run.repository.id}: of what may refer to the plan just before "
                f"deleting, {_said(came)} came to their comparison, of {_said(wanted)}",
                "Run the same command again; if it stays, report it with this text and Spark's "
                "version.",
            )
        self.keep([one.kept for one in met])
        return rows_aside.source_of(run, OBJECTS, left)

    def _by_policy(
        self, staged: Sequence[_StagedNow], committed: Committed
    ) -> tuple[KeptRules, dict[str, AnySource]]:
        """Find what the policy says now of its objects."""
        holds, own, names = committed.commits.holds, self.by_policy, self.names
        found = dict.fromkeys(("own", "named", "in_no_commit"), _no_rows(_ADDRESSES))
        found["names"] = _no_rows(_NAMES)
        if own is None:
            return KeptRules(holds), found
        found["own"] = _by_hash(own.objects, _ADDRESSES)
        named, why = self._named(committed, own)
        if named is not None:
            found["named"] = _by_hash(named.committed, _ADDRESSES)
        if named is not None and named.in_no_commit is not None:
            found["in_no_commit"] = _by_hash(named.in_no_commit, _ADDRESSES)
        if names is not None and names.taken is not None:
            found["names"] = _by_hash(names.taken, _NAMES)
        return KeptRules(
            holds,
            held_branches=held_branches(holds),
            not_named=why,
            readings=sum(1 + len(set(one.figures.server_runs)) for one in staged),
            # The document may have changed since the names were read.
            may_be_staged=names is not None
            and self.named is not None
            and self.named.state[0] == names.digest,
        ), found

    def _named(self, committed: Committed, own: ByPolicy) -> tuple[NamedNow | None, str]:
        """Find what the policy names now of its objects; and why the others are kept."""
        if committed.commits.dump is None:
            return None, "refs could only be walked, which does not show every name"
        policy, why = _policy_now(self.run, own.digest)
        if policy is None:
            return None, why
        commits = committed.commits
        compacted = compacted_in(commits.table)
        state = (policy.digest, commits.refs, commits.holds, compacted)
        if self.named is None or self.named.state != state:
            marked = self.mark[tables.RETAINED_COMMITS.name]
            named = named_now(self.run, policy, marked, committed.commits, own.objects)
            self.named = _NamedNow(state, named)
        problem = "" if self.names is None else self.names.problem
        why = f"; the names of what is staged could not be read ({problem})" if problem else ""
        return self.named.named, f"the retention policy does not name it{why}"

    def read_names(self, by_policy: ByPolicy) -> None:
        """Read the staged names, if a rule asks for them and they are due to be read.

        They are read behind the branches, so that a name that those show is among them. They are
        read before what is committed, as a commit takes an entry out of the staging area. Where
        they are not read, or cannot be, their objects are kept.
        """
        run = self.run
        policy, _ = _policy_now(run, by_policy.digest)
        if policy is None or not are_asked_for(policy):
            self.names = None
            return
        self.parts.turn(self.budget)
        if not self.parts.begin(NAMES):
            late = "reading them takes too long to do it at each look"
            self.names = _StagedNamesNow(policy.digest, None, late)
            return
        # Holds are read later, and compared then.
        judge = StagedJudge.of(policy, Holds(()), instant_of(run))
        with staged_names.read_names(run) as names:
            taken = None
            if names.rows is not None:
                taken = staged_names.taken_now(run, judge, names.rows, by_policy.objects)
            self.names = _StagedNamesNow(policy.digest, taken, names.problem)
        self.parts.end(NAMES)

    def read_staged(self, held: ExitStack) -> list[_StagedNow]:
        """Read the staged parts that are due."""
        self.parts.turn(self.budget)
        staged = [_staged_now(self.run, self.prefix, self.parts, held)]
        if self.run.now() - self.began > self.parts.quick:
            # Meanwhile the first branches' diffs have become old: those that are quick to read are
            # read once more.
            self.parts.turn(self.parts.quick, least_age=self.parts.quick)
            staged.append(_staged_now(self.run, self.prefix, self.parts, held))
        return staged

    def read_committed(self) -> Committed:
        """Read what is committed or held, and remember the tables that it took."""
        all_names = self.by_policy is not None
        committed = Committed.read(
            self.run, self.prefix, self.mark, self.known, all_names=all_names
        )
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
            staged=None if self.names is None else self.names.taken,
            any_own=self.by_policy is not None,
        )
        self.parts.end_hidden(branch.id for branch in commits.refs.branches)
        self.searched = self.known
        self.keep([found])

    def end(self, staged: Sequence[_StagedNow], committed: Committed) -> ReferencesNow:
        """Return what was found, with its age and the figures for the report."""
        run, parts, commits, ended = self.run, self.parts, committed.commits, self.run.now()
        # A first reading reads every part.
        assert parts.oldest is not None  # noqa: S101
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
            server_runs=tuple(
                dict.fromkeys(
                    [*self.server_runs, *(id_ for one in staged for id_ in one.figures.server_runs)]
                )
            ),
        )
        is_young = committed.began - parts.oldest <= parts.quick
        began = parts.oldest if is_young else committed.began
        return ReferencesNow(
            began,
            self.kept,
            figures,
            self.known,
            parts,
            self.searched,
            ended,
            self.named,
            self.names,
        )


def _no_rows(schema: pa.Schema) -> AnySource:
    return source_of(schema.empty_table(), schema)


def _by_hash(rows: AnySource, schema: pa.Schema) -> AnySource:
    return rows.through(schema, partial(_hash, schema.names[1:]))


def _hash(columns: Sequence[str], batches: Batches) -> Batches:
    yield from with_address_hash(batch.select(columns) for batch in batches)


def _planned(began: datetime, batches: Batches) -> Batches:
    """Give objects whose write time is unknown that of a look."""
    written = pa.scalar(began, schemas.INSTANT)
    for batch in batches:
        rows = batch
        if "last_modified" not in rows.schema.names:
            rows = rows.append_column("last_modified", pa.repeat(written, rows.num_rows))
        addresses = rows.column("address").cast(pa.string())
        others = (rows.column(name) for name in _PLANNED.names[2:])
        yield pa.record_batch([hashed(addresses), addresses, *others], schema=_PLANNED)


def _reasons(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(KEPT.names).cast(KEPT)


@dataclass(frozen=True)
class _Met:
    """What came of the objects of a bucket.

    Attributes:
        rows: How many rows of each source came, as far as it may keep anything.
        kept: Columns of `KEPT`.
    """

    rows: Counter[str]
    kept: pa.Table


def _meet(
    rules: KeptRules, known: Any, linked_at: datetime, bucket: Mapping[str, pa.Table]
) -> Sent[_Met]:
    """Compare the objects of a plan with what may refer to them.

    Args:
        rules: What counts for all of them.
        known: Hashes of those that are kept anyway, sorted.
        linked_at: When an object of a policy may have been linked at the latest.
        bucket: `planned` with columns of `_PLANNED`, and what `why_kept` reads.

    Returns:
        What is kept; and the rest, for a search for hidden entries.
    """
    planned = bucket["planned"]
    hashes, why = planned["address_hash"].combine_chunks(), why_kept(planned, bucket, rules)
    kept = pa.table([hashes, why], KEPT.names).filter(why.is_valid()).cast(KEPT)
    is_done = pc.is_in(planned["address"], value_set=_addresses(bucket["concluded"]))
    is_known = pa.array(are_among(hashes.to_numpy(), known))
    rest = planned.filter(pc.and_not(why.is_null(), pc.or_(is_done, is_known)))
    # Such an object can be linked from where it is seen at any time, however old it is.
    is_own = pc.is_in(rest["address"], value_set=_addresses(bucket["own"]))
    dates = pc.if_else(is_own, pa.scalar(linked_at, schemas.INSTANT), rest["last_modified"])
    objects = rest.select(OBJECTS.names[:-1]).append_column(OBJECTS.names[-1], dates)
    rows = {name: bucket[name].num_rows for name in (*_WHOLE, "own")}
    return Sent(_Met(Counter(rows), kept), {rows_aside.place_of(planned): objects.cast(OBJECTS)})


def _addresses(rows: pa.Table) -> pa.StringArray:
    return rows["address"].combine_chunks()


def _said(rows: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(rows.items())) or "nothing"


def _policy_now(run: Run, digest: str | None) -> tuple[Policy | None, str]:
    """Return the policy that may take objects now; None and why if none may.

    Args:
        run: The run.
        digest: Digest of the only document that may; None where any confirmed one may.
    """
    if run.options.policies != "sweep":
        return None, 'the settings do not say `policies = "sweep"`'
    try:
        version = versions.newest(run)
        policy = None if version is None else version.policy
        confirmed = version is not None and is_confirmed(run, version)
    except UNREADABLE as unknown:
        return None, f"the retention policy cannot be read ({unknown.found})"
    if version is None or policy is None:
        return None, "the retention policy was ended"
    if digest not in (None, version.policy_digest):
        return None, "another document was set since the mark"
    if not confirmed:
        return None, f"version {version.number} of the retention policy is not confirmed"
    return policy, ""


@dataclass(frozen=True)
class _StagedNow:
    """Hashes (address_hash) of the staged entries, in the parts that were read, and figures."""

    receipts: Sequence[Receipt]
    figures: StagedReadFigures


def _staged_now(run: Run, prefix: str, parts: Parts, held: ExitStack) -> _StagedNow:
    """Read the staged parts that are due, to their ends; `held` removes what is set aside."""
    staged = read_staged(run, prefix, parts)
    held.callback(staged.close)
    target = rows_aside.target_of(run, _HASHES)
    receipts = run_tasks(
        lambda: run.spark,
        staged.tasks,
        partial(write_read, target, staged.read),
        rows=staged.rows,
    )
    held.callback(rows_aside.remove, target, receipts)
    rows = sum(part.rows for part in parts_of(receipts))
    figures = staged.figures(summed(receipts)[1])
    return _StagedNow(receipts, _require_all_staged(run, figures, rows))


def _require_all_staged(run: Run, read: StagedReadFigures, rows: int) -> StagedReadFigures:
    """Return the figures of the staged entries, which must have been read to their end.

    This is the counterpart of the check `uncommitted_was_read_whole`.

    Raises:
        IncompleteReadError: If another number of rows is held than the files and the diffs have.
    """
    if (read.files_read, rows) != (read.files, read.file_rows + read.from_diffs):
        raise IncompleteReadError(
            f"repository {run.repository.id}: of what is staged, read again just before deleting, "
            f"{read.files_read} of {read.files} files with {read.file_rows} rows and "
            f"{read.from_diffs} rows of diffs were read, of which {rows} are held",
            "Run the same command again; if it stays, report it with this text.",
        )
    return read
