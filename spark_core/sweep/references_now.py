"""Find the objects of a plan that something references again, just before deleting.

Everything that may refer to such an object is read again.

References are read in the mark's order, by the mark's own functions: first all staged entries, then
rules, refs and the server's list, then what the commits reach. An address that is found twice is
kept, and so is one that only a collision of hashes finds. What cannot be read ends the sweep. The
module `mark.second_look` says which parts the next look reads again, and why that is safe.

Commits reach what goes by a retention policy, so that decides nothing there. Such an object is kept
if it is staged, held or hidden like any other, and if the policy does not name it any more. What
goes by a rule for staged objects is kept if a commit has it by now, or unless such rules take it
under every name under which it is staged now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_core import schemas
from spark_core.errors import IncompleteReadError
from spark_core.holds import Holds
from spark_core.policies import staged_names, versions
from spark_core.policies.confirmed import is_confirmed
from spark_core.policies.document import Policy
from spark_core.policies.expirations import UNREADABLE, NamedNow, instant_of, named_now
from spark_core.policies.staged_names import DATED, StagedJudge
from spark_core.records import tables
from spark_core.records.figures import (
    ListedFigures,
    SecondLookFigures,
    StagedReadFigures,
    TwinFigures,
)
from spark_core.records.reading import StoredTable
from spark_core.references.commits import heads_now
from spark_core.references.heads import Heads
from spark_core.references.second_look import HIDDEN, NAMES, QUICK, Parts
from spark_core.references.sizes import address_hash
from spark_core.references.uncommitted import Staged, read_staged
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.exchange import AnySource, source_of
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import counted, frame_of, read_counted
from spark_core.sweep import twins_now
from spark_core.sweep.committed_now import Committed, TablesRead
from spark_core.sweep.delete_batches import NOT_LET_GO

# Rows of a result that the driver may hold. A larger result stays with the executors.
DRIVER_ROWS = 10_000

STAGED = "staged"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOUND = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("why", pa.string(), nullable=False)]
)
_HASHES = pa.schema([schemas.UNCOMMITTED_ADDRESSES.field("address_hash")])


@dataclass(frozen=True)
class ByPolicy:
    """What goes by a retention policy, although entries lead to it.

    Attributes:
        addresses: Column address.
        digest: Digest of the document that the plan was made by; None where any confirmed one
            counts.
        any_staged: Whether any of them may go although it is staged.
    """

    addresses: DataFrame
    digest: str | None = None
    any_staged: bool = True


@dataclass(frozen=True)
class _NamedNow:
    """What the retention policy names of a plan, and the document, refs and holds that say so."""

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
    taken: DataFrame | None
    problem: str


@dataclass(frozen=True)
class ReferencesNow:
    """The objects that something references again.

    Attributes:
        began: Start of its age, by the run's clock: before the first byte was read. Where reading
            the staged entries takes long, it is before refs were read (see `mark.second_look`).
        frame: Columns address (key) and why: rows of the plan that something references now, or did
            at an earlier look of the same sweep. Already read to the end.
        figures: Figures for the report.
        known: Tables read so far, for the next look.
        parts: When each staged part was read.
        searched: What was known at the last search for hidden entries.
        ended: When the last byte was read.
        named: What the retention policy names, for the next look; None if nothing was asked.
        names: What it takes although it is staged; None if nothing was asked.
    """

    began: datetime
    frame: DataFrame
    figures: SecondLookFigures
    known: TablesRead
    parts: Parts
    searched: TablesRead
    ended: datetime
    named: _NamedNow | None = None
    names: _StagedNamesNow | None = None


def reader_of_references(
    by_policy: ByPolicy | None = None,
) -> Callable[[Run, DataFrame, Mapping[str, StoredTable]], ReferencesNow]:
    """Return `read_again` with a memory, for one sweep.

    The next calls do not read again what one call read of the server's tables.

    The rows that were read stay with the executors. If an executor is lost with its rows, or rows
    are missing, everything is read once more, as in a new sweep. Objects that an earlier call saw
    alive stay alive all the same. If that record is lost as well, the sweep ends.

    Args:
        by_policy: As for `read_again`.
    """
    last: list[ReferencesNow] = []

    def again(run: Run, plan: DataFrame, mark: Mapping[str, StoredTable]) -> ReferencesNow:
        look = partial(read_again, run, plan, mark=mark, by_policy=by_policy)
        try:
            last[:] = [look(previous=last[0] if last else None)]
        except (PySparkException, Py4JJavaError, IncompleteReadError) as failure:
            if not last and not isinstance(failure, IncompleteReadError):
                raise
            last[:] = [look(alive=last[0].frame if last else None)]
        return last[0]

    return again


@surfacing_errors()
def read_again(
    run: Run,
    plan: DataFrame,
    *,
    mark: Mapping[str, StoredTable],
    previous: ReferencesNow | None = None,
    alive: DataFrame | None = None,
    by_policy: ByPolicy | None = None,
) -> ReferencesNow:
    """Find the objects of a plan that something refers to now.

    Everything that moves is read anew: staged entries, rules, refs, the server's list, holds, and
    the answers of branches for paths that may have a twin. Where reading all staged entries takes
    long, only parts of them are read (see `mark.second_look`). The content of the server's tables
    names them, so only tables that neither the mark nor `previous` had read are read. Each of them
    is read whole, or the sweep ends.

    Rules count from the run's own instant, as they did for the mark. That instant lies in the past,
    so a commit is retained at least as long as by a new mark.

    Args:
        run: The run, of the instance that was marked.
        plan: The objects that may still be deleted: columns address, size_bytes and, where it is
            known, last_modified of `schemas.EXPIRED_ADDRESSES`.
        mark: The mark's tables by name; `uncommitted_addresses` is not read.
        previous: Result of an earlier call in the same sweep; what it found is found again.
        alive: `frame` of an earlier call, where nothing else of that call can be relied on.
        by_policy: Objects of the plan that go by the retention policy; None for none.

    Returns:
        The objects that must be kept, and why.

    Raises:
        RepositoryStateError: If the server shows no branch or no commit that keeps its objects.
        IncompleteReadError: If anything could not be read to its end.
        LakegcError: For any other cause. Nothing is known then, and nothing may be deleted.
    """
    reading = _Reading.begin(run, mark, previous, alive)
    parts = reading.parts
    with ExitStack() as held:
        # Three queries use it: the referenced objects, the sizes of the rest, and the twins among
        # the rest. The write time of an object in quarantine is unknown, so it may hide on any
        # branch.
        is_known = reading.is_dated = "last_modified" in plan.columns
        written = sf.col("last_modified") if is_known else sf.lit(reading.began)
        plan = plan.select("address", "size_bytes", written.alias("last_modified")).persist()
        held.callback(plan.unpersist)
        staged = reading.read_staged(held)
        if by_policy is not None and by_policy.any_staged:
            reading.read_names(plan, by_policy)
        # Always after the last staged part: what was committed in between was in neither kind
        # before.
        committed = reading.read_committed()
        reading.keep(reading.referenced(staged, committed, plan, by_policy))
        parts.turn()
        if parts.begin(HIDDEN):
            reading.read_hidden(plan, committed, by_policy)
            if run.now() - committed.began > parts.quick:
                committed = reading.read_committed()
                reading.keep(reading.referenced([], committed, plan, by_policy))
    return reading.end(staged, committed)


@dataclass
class _Reading:
    """One reading of everything that may refer to a plan.

    Attributes:
        run: The run.
        mark: The mark's tables by name.
        prefix: Where the server keeps its tables.
        began: When it began.
        calls: The server's requests before.
        parts: When each staged part was read.
        budget: For how long to begin parts that were read before; None for no limit.
        known: The server's tables that were read so far.
        searched: What was known at the last search for hidden entries.
        found: Columns address and why, of what is referenced.
        twin_figures: Figures of the search for hidden entries; None if none was due.
        named: What the retention policy names now; None if nothing was asked.
        names: What it takes now although it is staged; None if nothing was asked.
        is_dated: Whether the plan has the dates of its objects.
    """

    run: Run
    mark: Mapping[str, StoredTable]
    prefix: str
    began: datetime
    calls: Counter[str]
    parts: Parts
    budget: timedelta | None
    known: TablesRead
    searched: TablesRead
    found: DataFrame | None
    twin_figures: TwinFigures | None = None
    named: _NamedNow | None = None
    names: _StagedNamesNow | None = None
    is_dated: bool = True

    @classmethod
    def begin(
        cls,
        run: Run,
        mark: Mapping[str, StoredTable],
        previous: ReferencesNow | None,
        alive: DataFrame | None,
    ) -> _Reading:
        """Begin with what earlier readings of the same sweep know and found."""
        began, calls = run.now(), Counter(run.server.requests)
        prefix = ListedFigures.of(mark[tables.NAMESPACE_SLICES.name].manifest).table_prefix
        budget: timedelta | None
        if previous is None:
            parts = Parts(run.now, run.options.reread_every * QUICK)
            known = searched = TablesRead()
            found, budget = alive, None
        else:
            parts, known, searched = previous.parts, previous.known, previous.searched
            found, budget = previous.frame, max(parts.quick, began - previous.ended)
        reading = cls(run, mark, prefix, began, calls, parts, budget, known, searched, found)
        if previous is not None:
            reading.named, reading.names = previous.named, previous.names
        return reading

    def keep(self, referenced: DataFrame) -> None:
        """Add to what is referenced; nothing is taken away."""
        self.found = _read_to_end(_union(self.found, referenced))

    def referenced(
        self,
        staged: Sequence[_StagedNow],
        committed: Committed,
        plan: DataFrame,
        by_policy: ByPolicy | None,
    ) -> DataFrame:
        """Find what is staged, committed or held; of a policy's objects, what it does not name."""
        hashes = [one.hashes for one in staged]
        if by_policy is None:
            return _referenced(hashes, committed, plan)
        own = plan.join(by_policy.addresses, on="address", how="left_semi")
        others = plan.join(by_policy.addresses, on="address", how="left_anti")
        named, why = self._named(committed, own, by_policy.digest)
        left = self._not_named(committed, own, why)
        taken = None if named is None else self._taken(staged, committed, named)
        found = [_referenced(hashes, committed, others)]
        if named is not None:
            left = _without(left, _frame(self.run, named.committed))
        if taken is not None:
            # These are known to be staged; they may go only if no commit has them.
            found.append(_referenced([], committed, own.join(taken, on="address", how="left_semi")))
            left, own = _without(left, taken), _without(own, taken)
        uncommitted = replace(committed, known=replace(committed.known, addresses=None))
        found += [_referenced(hashes, uncommitted, own), left]
        return reduce(DataFrame.unionByName, found)

    def _taken(
        self, staged: Sequence[_StagedNow], committed: Committed, named: NamedNow
    ) -> DataFrame | None:
        """Find what goes although it is staged: in no commit, and due under each of its names.

        If an object has more staged entries than names, one reading lost names (safety 30), so it
        is kept.

        Returns:
            Column address; None for nothing.
        """
        names, state = self.names, self.named
        if names is None or names.taken is None or named.in_no_commit is None or state is None:
            return None
        # The document may have changed since the names were read.
        if state.state[0] != names.digest:
            return None
        taken = _without(names.taken, _on_held(committed, names.taken)).join(
            _frame(self.run, named.in_no_commit), on="address", how="left_semi"
        )
        readings = sum(1 + len(set(one.figures.server_runs)) for one in staged)
        if not readings:
            return taken.select("address").distinct()
        entries = reduce(DataFrame.unionByName, (one.hashes for one in staged))
        return (
            taken.groupBy("address")
            .agg(sf.count("*").alias("names"))
            .select("address", "names", address_hash())
            .join(
                entries.groupBy("address_hash").agg(sf.count("*").alias("entries")),
                on="address_hash",
                how="left",
            )
            .where(sf.coalesce("entries", sf.lit(0)) <= sf.col("names") * readings)
            .select("address")
        )

    def _not_named(self, committed: Committed, own: DataFrame, why: str) -> DataFrame:
        """Return address and why of a policy's objects, as if it named none of them any more."""
        left = own.select("address", sf.lit(f"{NOT_LET_GO}{why}").alias("why"))
        if self.names is None or self.names.taken is None:
            return left
        branches = _on_held(committed, self.names.taken).groupBy("address").agg(sf.min("branch"))
        held = sf.concat(
            sf.lit(f"{NOT_LET_GO}a hold keeps what is staged on branch "), sf.col("min(branch)")
        )
        return left.join(branches, on="address", how="left").select(
            "address", sf.coalesce(held, "why").alias("why")
        )

    def _named(
        self, committed: Committed, own: DataFrame, digest: str | None
    ) -> tuple[NamedNow | None, str]:
        """Find what the policy names now of its objects; and why the others are kept."""
        if committed.commits.dump is None:
            return None, "refs could only be walked, which does not show every name"
        policy, why = _policy_now(self.run, digest)
        if policy is None:
            return None, why
        state = (policy.digest, committed.commits.refs, committed.commits.holds)
        if self.named is None or self.named.state != state:
            marked = self.mark[tables.RETAINED_COMMITS.name]
            named = named_now(
                self.run, policy, marked, committed.commits, source_of(self._dated(own), DATED)
            )
            self.named = _NamedNow(state, named)
        problem = "" if self.names is None else self.names.problem
        why = f"; the names of what is staged could not be read ({problem})" if problem else ""
        return self.named.named, f"the retention policy does not name it{why}"

    def _dated(self, own: DataFrame) -> DataFrame:
        """Return objects with their dates; where the plan has none, only their entries' count.

        Such an object was due by its own date when a sweep took it.
        """
        return own if self.is_dated else own.withColumn("last_modified", sf.lit(_EPOCH))

    def read_names(self, plan: DataFrame, by_policy: ByPolicy) -> None:
        """Read the staged names, if a rule asks for them and they are due to be read.

        They are read behind the branches, so that a name that those show is among them. They are
        read before what is committed, as a commit takes an entry out of the staging area. Where
        they are not read, or cannot be, their objects are kept.
        """
        run = self.run
        policy, _ = _policy_now(run, by_policy.digest)
        if policy is None or not staged_names.are_asked_for(policy):
            self.names = None
            return
        self.parts.turn(self.budget)
        if not self.parts.begin(NAMES):
            late = "reading them takes too long to do it at each look"
            self.names = _StagedNamesNow(policy.digest, None, late)
            return
        own = plan.join(by_policy.addresses, on="address", how="left_semi")
        # Holds are read later, and compared then.
        judge = StagedJudge.of(policy, Holds(()), instant_of(run))
        with staged_names.read_names(run) as names:
            taken = None
            if names.rows is not None:
                dated = source_of(self._dated(own), DATED)
                taken = _frame(run, staged_names.taken_now(run, judge, names.rows, dated))
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
        committed = Committed.read(self.run, self.prefix, self.mark, self.known)
        self.known = committed.known
        return committed

    def read_hidden(
        self, plan: DataFrame, committed: Committed, by_policy: ByPolicy | None
    ) -> None:
        """Search for hidden entries among the objects that nothing refers to so far."""
        run, commits = self.run, committed.commits
        marked = Heads.of(self.mark[tables.RETAINED_COMMITS.name].manifest)
        heads = heads_now(run, commits, marked, read_at=committed.began)
        left = plan if self.found is None else _without(plan, self.found)
        if by_policy is not None:
            # Such an object can be linked from where it is seen at any time, however old it is.
            own = left.join(by_policy.addresses, on="address", how="left_semi")
            own = own.withColumn("last_modified", sf.lit(self.began))
            left = _without(left, own).unionByName(own)
        is_news = self.known is not self.searched
        names = None if self.names is None else self.names.taken
        self.known, search = twins_now.search(
            run,
            left,
            self.mark,
            self.known,
            heads,
            commits=commits.table,
            is_news=is_news,
            staged=names,
        )
        self.parts.end_hidden(branch.id for branch in commits.refs.branches)
        self.searched, self.twin_figures = self.known, search.figures
        if search.found is not None:
            self.keep(search.found)

    def end(self, staged: Sequence[_StagedNow], committed: Committed) -> ReferencesNow:
        """Return what was found, with its age and the figures for the report."""
        run, parts, commits, ended = self.run, self.parts, committed.commits, self.run.now()
        # A first reading reads every part.
        assert parts.oldest is not None and self.found is not None  # noqa: S101, PT018
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
        )
        is_young = committed.began - parts.oldest <= parts.quick
        began = parts.oldest if is_young else committed.began
        return ReferencesNow(
            began,
            self.found,
            figures,
            self.known,
            parts,
            self.searched,
            ended,
            self.named,
            self.names,
        )


def _frame(run: Run, rows: AnySource) -> DataFrame:
    return frame_of(run.spark, rows.here(run.options.read_threads), spark_type(rows.schema))


def _on_held(committed: Committed, taken: DataFrame) -> DataFrame:
    """Return the names of staged objects on branches that holds keep."""
    held = staged_names.held_branches(committed.commits.holds)
    return taken.where(sf.col("branch").isin(sorted(held)))


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

    hashes: DataFrame
    figures: StagedReadFigures


def _staged_now(run: Run, prefix: str, parts: Parts, held: ExitStack) -> _StagedNow:
    """Read the staged parts that are due, to their ends; `held` releases what they hold."""
    staged = read_staged(run, prefix, parts)
    held.callback(staged.close)
    # The rows are counted and compared. The compared rows must be the counted ones.
    held_hashes = read_counted(run.spark, _HASHES, staged.tasks, partial(_hashes, staged)).persist()
    held.callback(held_hashes.unpersist)
    hashes, rows, figures = counted(held_hashes)
    return _StagedNow(hashes, _require_all_staged(run, staged.figures(figures), rows))


def _hashes(staged: Staged, task: Any, figures: Counter[str]) -> Iterator[pa.RecordBatch]:
    for batch in staged.read(task, figures):
        yield batch.select(_HASHES.names)


def _require_all_staged(run: Run, read: StagedReadFigures, rows: int) -> StagedReadFigures:
    """Return the figures of the staged entries, which must have been read to their end.

    This is the counterpart of the check `uncommitted_was_read_whole`.

    Raises:
        IncompleteReadError: If Spark holds a different number of rows than the files and the diffs
            have.
    """
    if (read.files_read, rows) != (read.files, read.file_rows + read.from_diffs):
        raise IncompleteReadError(
            f"repository {run.repository.id}: of what is staged, read again just before deleting, "
            f"{read.files_read} of {read.files} files with {read.file_rows} rows and "
            f"{read.from_diffs} rows of diffs were read, of which Spark holds {rows}",
            "Run the same command again; if it stays, report it with this text.",
        )
    return read


def _referenced(staged: Sequence[DataFrame], committed: Committed, plan: DataFrame) -> DataFrame:
    """Return address and why of what is staged (address_hash), reached, or held by address.

    An address may come twice.
    """
    alive = [one.select("address_hash", sf.lit(STAGED).alias("why")) for one in staged]
    if committed.known.addresses is not None:
        alive.append(committed.known.addresses.select("address_hash", "why"))
    found = []
    if alive:
        causes = (
            reduce(DataFrame.unionByName, alive)
            .groupBy("address_hash")
            .agg(sf.min("why").alias("why"))
        )
        named = plan.select("address", address_hash()).join(causes, on="address_hash", how="inner")
        found.append(named.select("address", "why"))
    holds = committed.commits.holds
    if holds.of_addresses or not found:
        found.append(
            plan.select("address").mapInArrow(partial(_map_held, holds), spark_type(_FOUND))
        )
    return reduce(DataFrame.unionByName, found)


def _union(found: DataFrame | None, more: DataFrame) -> DataFrame:
    """Return what was found so far and the new rows; each address once.

    Nothing takes an earlier finding away.
    """
    both = more if found is None else found.unionByName(more)
    return both.groupBy("address").agg(sf.min("why").alias("why"))


def _map_held(holds: Holds, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        why = holds.reasons(batch.column("address"))
        found = pa.record_batch(
            [batch.column("address").cast(pa.string()), why], names=_FOUND.names
        )
        yield found.filter(pc.is_valid(why)).cast(_FOUND)


def _without(plan: DataFrame, found: DataFrame) -> DataFrame:
    return plan.join(found.select("address"), on="address", how="left_anti")


def _read_to_end(frame: DataFrame) -> DataFrame:
    """Run a frame of address and why to its end.

    Any failure then comes now, and nothing is read again for the frame.
    """
    few = frame.select(*_FOUND.names).limit(DRIVER_ROWS + 1).toArrow()
    if few.num_rows > DRIVER_ROWS:
        return frame.localCheckpoint()
    held = frame_of(frame.sparkSession, few.cast(_FOUND))
    if held.count() != few.num_rows:
        raise IncompleteReadError(
            f"Spark lost {few.num_rows - held.count()} of {few.num_rows} objects that something "
            "refers to again",
            "Run the same command again; if it stays, report it with this text and Spark's "
            "version.",
        )
    return held
