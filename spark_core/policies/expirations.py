"""What a retention policy names now: a table, only figures, or the part of a plan that it names.

An object is named only if every name that it has in any commit is due under some rule. What no
commit retained by the mark reaches is not a policy's: it expires without one. What is held, reached
by a tag, too young or not lakeFS's own is never named. What is staged is named only if no commit
has it, and rules for staged objects take it under every name (`staged_names`). Nothing here
deletes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame, SparkSession

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.errors import ChainError, CorruptTableError, IncompleteReadError
from spark_core.holds import Holds
from spark_core.policies import history, sightings, staged_names, versions
from spark_core.policies.document import UNCOMMITTED, Policy
from spark_core.policies.due import AT_HEAD, KEPT, RETAINED, Due, Entry, Judge
from spark_core.policies.names import Graph, lines, micros
from spark_core.policies.staged_names import StagedJudge, StagedNames
from spark_core.policies.waiting import what_waits
from spark_core.records import tables, writing
from spark_core.records.figures import Figures, ListedFigures, StagedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.references.commits import ReadCommits, read_commits, tables_prefix
from spark_core.references.ranges import TableReader
from spark_core.run import Run, chain
from spark_core.run.chain import Mark
from spark_core.schemas import spark_type
from spark_core.spark.exchange import AnySource, source_of
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import counted, frame_of, map_counted, run_over

# Objects that are named for each rule: the largest, and the newest.
NAMED = 10
# Stored runs whose heads tell whose commits are, the newest first.
_RUNS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What keeps everything that a policy names, and nothing else.
UNREADABLE = (ChainError, CorruptTableError, IncompleteReadError)
_LISTED = ["address", "size_bytes", "last_modified", "slice"]
_ADDRESSES = pa.schema([schemas.POLICY_EXPIRATIONS.field("address")])
# The names of an object in commits, and those under which one in no commit is staged.
_NAMES = "array<struct<path: binary, modified: bigint, ranges: array<int>>>"
_STAGED = "array<struct<branch: string, path: string, modified: timestamp>>"


@dataclass
class Found:
    """What the rules name, added up.

    Attributes:
        receipts: Parts of the table, where one is written.
        objects: Objects by rule and branch ("" where it is undecided).
        size_bytes: Their bytes.
        largest: By rule: bytes, address, branch, path and date of the largest objects.
        newest: By rule: date, address, branch, path and bytes of the newest objects.
        names: Names of listed, old objects: `placed` on a branch, or `undecided`.
        entries: Entries that came out of the comparison with the listing.
        staged: Objects by rule that go although they are staged.
        staged_bytes: Their bytes.
    """

    receipts: list[Receipt] = field(default_factory=list)
    objects: Counter[tuple[int, str]] = field(default_factory=Counter)
    size_bytes: Counter[tuple[int, str]] = field(default_factory=Counter)
    largest: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    newest: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    entries: int = 0
    staged: Counter[int] = field(default_factory=Counter)
    staged_bytes: Counter[int] = field(default_factory=Counter)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add an object that is named: a row of `schemas.POLICY_EXPIRATIONS`."""
        number, branch = row["rule"], row["branch"] or ""
        self.objects[number, branch] += 1
        self.size_bytes[number, branch] += row["size_bytes"]
        if row["action"] == UNCOMMITTED:
            self.staged[number] += 1
            self.staged_bytes[number] += row["size_bytes"]
        path = row["path"].decode(errors="replace")
        date = row["last_modified"].isoformat()
        self._name(self.largest, number, [(row["size_bytes"], row["address"], branch, path, date)])
        self._name(self.newest, number, [(date, row["address"], branch, path, row["size_bytes"])])

    def merge(self, other: Found) -> None:
        """Add what another task found."""
        self.receipts += other.receipts
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        for mine, theirs in ((self.largest, other.largest), (self.newest, other.newest)):
            for number, rows in theirs.items():
                self._name(mine, number, rows)
        self.names.update(other.names)
        self.entries += other.entries
        self.staged.update(other.staged)
        self.staged_bytes.update(other.staged_bytes)

    @staticmethod
    def _name(
        into: dict[int, list[tuple[Any, ...]]], number: int, rows: Iterable[tuple[Any, ...]]
    ) -> None:
        into[number] = heapq.nlargest(NAMED, [*into.get(number, ()), *rows])

    @property
    def total(self) -> tuple[int, int]:
        """Objects and bytes."""
        return sum(self.objects.values()), sum(self.size_bytes.values())


@dataclass(frozen=True)
class Expirations:
    """What a policy names.

    Attributes:
        found: The objects, added up.
        facts: Figures, JSON values only.
    """

    found: Found
    facts: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Named(Figures):
    """Figures of the table, which decide nothing and are read by name."""

    values: Mapping[str, Any]

    def facts(self) -> dict[str, Any]:
        """Return them as they are."""
        return dict(self.values)


@dataclass(frozen=True)
class _Orders:
    """What every task needs."""

    judge: Judge
    staged_judge: StagedJudge
    policy: Policy
    held: Holds
    target: Target | None


def store_if_asked(run: Run) -> Mapping[str, Any]:
    """Store the table of what the repository's policy names, where the settings ask for it.

    What cannot be read names nothing, and what nothing reaches goes its way all the same.

    Args:
        run: The run; its first four tables are stored.

    Returns:
        Its figures, JSON values only; why nothing could be looked at as `problem`.
    """
    if run.options.policies == "off":
        return {"policies": "off"}
    mark = Mark(*(run.load(spec) for spec in tables.MARK_TABLES[:-1]))
    try:
        draft = policy_expirations(run, mark)
    except UNREADABLE as unknown:
        return {"policies": run.options.policies, "policy_version": 0, "problem": str(unknown)}
    if draft is None:
        return {"policies": run.options.policies, "policy_version": 0}
    return {"policies": run.options.policies, **run.keep(draft).manifest.facts}


def policy_expirations(run: Run, mark: Mark) -> Draft | None:
    """Make the table of what the repository's policy names.

    Args:
        run: The run.
        mark: Tables 1 to 4.

    Returns:
        Columns of `schemas.POLICY_EXPIRATIONS`, key address; None if the repository has no policy.

    Raises:
        ChainError: If the tables were not made one after the other in the safe order.
        CorruptTableError: If a version of the policy or its confirmation cannot be read.
        IncompleteReadError: If the refs were not read from a dump, or rows got lost.
    """
    began = run.now()
    chain.require_unbroken(run, [table.manifest for table in mark.all])
    version = versions.newest(run)
    policy = None if version is None else version.policy
    if version is None or policy is None:
        return None
    where = tables.folder(tables.POLICY_EXPIRATIONS, run.key)
    target = Target(run.store, where, writing.new_attempt(), schemas.POLICY_EXPIRATIONS)
    named = writing.removed_on_failure(target, lambda: find(run, policy, mark, target))
    facts = {
        "policy_version": version.number,
        "policy_digest": version.policy_digest,
        "policy_set_by": version.who,
        **named.facts,
    }
    listing = ListedFigures.of(mark.slices.manifest)
    waiting = what_waits(run, version, facts, listing)
    return Draft(
        tables.POLICY_EXPIRATIONS,
        Written(target.attempt, named.found.receipts),
        began,
        parents=[table.manifest for table in mark.all],
        figures=lambda _, __: _Named(values={**facts, **waiting.facts}),
    )


@surfacing_errors()
def find(run: Run, policy: Policy, mark: Mark, target: Target | None = None) -> Expirations:
    """Find what the rules of a policy name.

    Refs and holds are read anew: what was committed since the mark's tables can only add names.

    Args:
        run: The run of the mark.
        policy: The document.
        mark: Tables 1 to 4.
        target: Where the rows are written; None to add them up only.

    Raises:
        IncompleteReadError: If the refs were not read from a dump, or rows got lost.
        CorruptTableError: If a table of a retained commit is damaged.
    """
    found = Found()
    with ExitStack() as held:
        staged = _staged(run, policy, held)
        # Behind the staged names, as an entry leaves the staging area when a commit takes it.
        read = read_commits(run, tables_prefix(run))
        names = held.enter_context(_all_names(run, policy, mark.commits, read))
        compared = _compared(names.entries, _listed(names.entries.sparkSession, mark))
        compared = compared.withColumn("staged", sf.lit(None).cast(_STAGED))
        is_small = history.is_small(names.past)
        # A table that cannot be read may have any object.
        if staged is not None and staged.rows is not None and not names.judge.unread:
            frame = frame_of(
                run.spark,
                staged.rows.here(run.options.read_threads),
                spark_type(schemas.STAGED_NAMES),
            )
            compared = compared.unionByName(_staged_objects(mark, frame, names.entries))
            is_small = is_small and staged.count <= 10_000
        orders = names.orders(target)
        for each in run_over(compared, partial(_judge, orders), is_small=is_small):
            found.merge(each)
        names.require_all(run, found.entries)
        return Expirations(found, _facts(policy, found, names, staged))


def _staged(run: Run, policy: Policy, held: ExitStack) -> StagedNames | None:
    """Read the names of what is staged; None if no rule asks for them."""
    if not staged_names.are_asked_for(policy):
        return None
    return held.enter_context(staged_names.read_names(run))


@dataclass(frozen=True)
class NamedNow:
    """What the rules name of a plan just before deleting: column address.

    Attributes:
        committed: What they name by its names in commits.
        in_no_commit: What no commit has; None if nobody knows all that commits have.
    """

    committed: AnySource
    in_no_commit: AnySource | None


@surfacing_errors()
def named_now(
    run: Run, policy: Policy, commits: StoredTable, read: ReadCommits, plan: AnySource
) -> NamedNow:
    """Find which objects of a plan the rules name now, just before deleting.

    A name that an object got since the mark counts like any other: the object is named only if a
    rule takes it under that one, too. What is staged is not looked at here.

    Args:
        run: The run of the mark.
        policy: The document that counts now.
        commits: Table 3 of the mark.
        read: Refs and holds, read just now.
        plan: Columns of `staged_names.DATED`, of objects that the mark listed.

    Returns:
        The objects that are named, and those that only staged names can decide.

    Raises:
        IncompleteReadError: If the refs were not read from a dump, or rows got lost.
        CorruptTableError: If a table of a retained commit is damaged.
    """
    hashes = sf.xxhash64("address").alias("address_hash")
    dated = frame_of(run.spark, plan.here(run.options.read_threads), spark_type(plan.schema))
    listed = dated.select(
        "address",
        sf.lit(0).cast("long").alias("size_bytes"),
        "last_modified",
        sf.lit("").alias("slice"),
        hashes,
    )
    with _all_names(run, policy, commits, read) as names:
        found = map_counted(
            _compared(names.entries, listed), _ADDRESSES, partial(_name_again, names.orders(None))
        ).localCheckpoint()
        rows, _, figures = counted(found)
        names.require_all(run, figures["entries"])
        in_no_commit = None
        if staged_names.are_asked_for(policy) and not names.judge.unread:
            left = listed.join(names.entries, on="address_hash", how="left_anti")
            in_no_commit = source_of(left.select("address").localCheckpoint(), _ADDRESSES)
        return NamedNow(source_of(rows, _ADDRESSES), in_no_commit)


@dataclass(frozen=True)
class _AllNames:
    """Every name that any commit gives to an object of the namespace.

    Attributes:
        entries: Columns of `history.ENTRIES`, held by the executors.
        count: Their number.
        wanted: Entries that the ranges have by their metaranges.
        judge: Compares names with the rules.
        held: Holds.
        past: What commits did to ranges.
        figures: What was read.
    """

    entries: DataFrame
    count: int
    wanted: int
    judge: Judge
    held: Holds
    past: history.History
    figures: Counter[str]

    def orders(self, target: Target | None) -> _Orders:
        """Return what every task needs."""
        staged_judge = StagedJudge.of(self.judge.policy, self.held, self.judge.instant)
        return _Orders(self.judge, staged_judge, self.judge.policy, self.held, target)

    def require_all(self, run: Run, compared: int) -> None:
        """Refuse if entries got lost between their ranges and their comparison with objects.

        Raises:
            IncompleteReadError: With the numbers.
        """
        read, outside = self.figures["entries"], self.figures["outside"]
        if read != self.wanted or not compared == self.count == self.wanted - outside:
            raise IncompleteReadError(
                f"repository {run.repository.id}: {read} of {self.wanted} entries of all commits "
                f"were read, {outside} of them lie outside, and {compared} of {self.count} others "
                "came out of their comparison",
                "Run again; if it stays, report it with this text and Spark's version.",
            )


@contextmanager
def _all_names(
    run: Run, policy: Policy, commits: StoredTable, read: ReadCommits
) -> Iterator[_AllNames]:
    """Read the tables of all commits, each range once.

    One shuffle of all entries by their object's hash brings the names of an object together. The
    driver holds a row for each distinct range and each change of one.
    """
    if read.dump is None:
        raise IncompleteReadError(
            f"repository {run.repository.id}: its refs could only be walked, and a walk does not "
            "show the commits that nothing leads to any more, which may have introduced an object",
            "Give the user fs:ListTags, fs:ListBranches and fs:ListCommits, or set policies = "
            '"off" for the repository.',
        )
    graph = Graph.of(read.refs)
    reader = TableReader.of(run, tables_prefix(run))
    bits = _bits(run, graph, read, commits)
    metaranges = [read.refs.commits[id_].metarange_id for id_ in graph.ids]
    runs = sightings.stored(run)
    gone = sightings.gone_since(graph, runs)
    past = history.read_history(run, reader, graph, metaranges, bits=bits, gone=gone)
    entries = history.read_entries(run, reader, past).persist()
    try:
        rows, count, figures = counted(entries)
        unread = [int(name.removeprefix("unread/")) for name in figures if "/" in name]
        judge = _judge_of(run, policy, graph, read, runs=runs, past=past, unread=unread)
        wanted = sum(count for _, count, _ in past.ranges) - sum(
            past.ranges[number][1] for number in unread
        )
        yield _AllNames(rows, count, wanted, judge, read.holds, past, figures)
    finally:
        entries.unpersist()


def _judge_of(
    run: Run,
    policy: Policy,
    graph: Graph,
    read: ReadCommits,
    *,
    runs: Sequence[sightings.Sighting],
    past: history.History,
    unread: Sequence[int],
) -> Judge:
    """Make the judge of a run; ranges that could not be read make their commits unread."""
    seen = [each.heads for each in reversed(runs) if each.heads is not None]
    main_lines = lines(
        graph,
        {branch.id: branch.commit_id for branch in read.refs.branches},
        default_branch=run.repository.default_branch,
        branch_order=policy.branch_order,
        seen=seen[:_RUNS],
    )
    introduced = (commit for number in unread for commit in past.changes[number].introduced)
    unread_commits = tuple(sorted({*past.unread, *introduced}))
    return Judge(policy, graph, main_lines, past.changes, unread_commits, instant_of(run))


def instant_of(run: Run) -> int:
    """Return a run's instant in microseconds since 1970, less what clocks may be wrong by."""
    margin = run.options.clock_margin + run.options.accepted_skew
    return micros(run.key.instant) - margin // timedelta(microseconds=1)


def _bits(run: Run, graph: Graph, read: ReadCommits, commits: StoredTable) -> list[int]:
    """Tell of each commit whether a head, the mark, a tag or a hold keep it.

    What only a commit keeps that is retained since the mark is not a policy's: by the mark's own
    tables it expires without one, and the second look of a sweep keeps it.
    """
    heads = {branch.commit_id for branch in read.refs.branches}
    retained = {
        commit_id
        for batch in commits.batches(["commit_id"])
        for commit_id in batch.column("commit_id").to_pylist()
    }
    kept = set(read.holds.commits(read.refs))
    if run.options.tags_protect:
        kept |= {tag.commit_id for tag in read.refs.tags}
    return [
        (AT_HEAD if id_ in heads else 0)
        | (RETAINED if id_ in retained else 0)
        | (KEPT if id_ in kept else 0)
        for id_ in graph.ids
    ]


def _listed(spark: SparkSession, mark: Mark) -> DataFrame:
    """Return the objects that a mark may consider and that are not staged."""
    staged = mark.uncommitted.frame(spark, ["address_hash"])
    return _candidates(spark, mark).join(staged, on="address_hash", how="left_anti")


def _candidates(spark: SparkSession, mark: Mark) -> DataFrame:
    columns = [*_LISTED, "address_hash"]
    listed = mark.slices.frame(spark, [*columns, "standing"])
    return listed.where(sf.col("standing") == rule.CANDIDATE).select(*columns)


def _staged_objects(mark: Mark, names: DataFrame, entries: DataFrame) -> DataFrame:
    """Return the objects that a mark may consider, that were staged for it, and in no commit.

    An entry of any commit, also one that the mark alone knows, leaves an object to other rules. An
    object with fewer names now than entries then is left out, too: nobody knows the others. The
    mark read what is staged by diffs, whose rows have no date, and by the server's scans. So an
    error of the staging store, which may hide an entry from one reading, keeps the object (safety
    30).

    Args:
        mark: Tables 1 to 4.
        names: Columns of `schemas.STAGED_NAMES`.
        entries: Columns of `history.ENTRIES`.

    Returns:
        A row for each hash: columns names, entries (0), listed and staged, its staged names.
    """
    spark = names.sparkSession
    name = sf.struct("branch", "path", "modified")
    by_object = names.groupBy("address_hash").agg(
        sf.sort_array(sf.collect_set(name)).alias("names")
    )
    scans = len(set(StagedFigures.of(mark.uncommitted.manifest).server_runs))
    in_scan = sf.col("created_at").isNotNull()
    known = (
        mark.uncommitted.frame(spark, ["address_hash", "created_at"])
        .groupBy("address_hash")
        .agg(sf.count_if(~in_scan).alias("in_diffs"), sf.count_if(in_scan).alias("in_scans"))
        .join(by_object, on="address_hash", how="inner")
        .where(sf.size("names") >= sf.col("in_diffs"))
        .where(sf.size("names") * scans >= sf.col("in_scans"))
    )
    listed = _candidates(spark, mark).where(sf.col("address").startswith("data/"))
    listed = listed.join(known, on="address_hash", how="left_semi")
    for committed in (entries, mark.committed.frame(spark, ["address_hash"])):
        listed = listed.join(committed, on="address_hash", how="left_anti")
    return (
        _by_hash(listed)
        .join(known, on="address_hash", how="inner")
        .select(
            sf.lit(None).cast(_NAMES).alias("names"),
            sf.lit(0).cast("long").alias("entries"),
            "listed",
            sf.col("names").cast(_STAGED).alias("staged"),
        )
    )


def _by_hash(listed: DataFrame) -> DataFrame:
    return listed.groupBy("address_hash").agg(sf.collect_list(sf.struct(*_LISTED)).alias("listed"))


def _compared(entries: DataFrame, listed: DataFrame) -> DataFrame:
    """Bring together the names of each object and what is listed under its hash.

    A hash that two objects share gives each the names of both, which can only keep them.
    """
    paths = entries.groupBy("address_hash", "path").agg(
        sf.max("modified").alias("modified"),
        sf.sort_array(sf.collect_set("range")).alias("ranges"),
        sf.count("*").alias("entries"),
    )
    objects = paths.groupBy("address_hash").agg(
        sf.sort_array(sf.collect_list(sf.struct("path", "modified", "ranges"))).alias("names"),
        sf.sum("entries").alias("entries"),
    )
    return objects.join(_by_hash(listed), on="address_hash", how="left").select(
        "names", "entries", "listed"
    )


def _judge(orders: _Orders, number: int, batches: Iterator[pa.RecordBatch]) -> Found:
    """Judge the objects of a partition; runs on an executor."""
    found = Found()

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found.entries += int(sum(batch.column("entries").to_pylist()))
            named = list(_named_in(orders, found, batch))
            if named:
                yield pa.RecordBatch.from_pylist(named, schema=schemas.POLICY_EXPIRATIONS)

    if orders.target is None:
        for _ in rows():
            pass
    else:
        found.receipts.append(writing.write_parts(orders.target, number, rows()))
    return found


def _name_again(
    orders: _Orders, batches: Iterator[pa.RecordBatch], figures: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the addresses that are named; runs on an executor."""
    found = Found()
    for batch in batches:
        figures["entries"] += int(sum(batch.column("entries").to_pylist()))
        addresses = [row["address"] for row in _named_in(orders, found, batch)]
        yield pa.record_batch([pa.array(addresses, pa.string())], schema=_ADDRESSES)


def _named_in(orders: _Orders, found: Found, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch's objects that are named."""
    listed = batch.filter(batch.column("listed").is_valid())
    for row in listed.to_pylist():
        if row.get("staged"):
            yield from _named_staged(orders, found, row["staged"], row["listed"])
        else:
            yield from _named(orders, found, row["names"], row["listed"])


def _named(
    orders: _Orders, found: Found, names: list[dict[str, Any]], listed: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    entries = [Entry(each["path"], each["modified"], tuple(each["ranges"])) for each in names]
    for entry in entries:
        for _, branch in orders.judge.names_of(entry):
            found.names["undecided" if branch is None else "placed"] += 1
    yield from _due(orders, found, partial(orders.judge.due, entries), listed)


def _named_staged(
    orders: _Orders, found: Found, names: list[dict[str, Any]], listed: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    judge = partial(orders.staged_judge.due, [staged_names.StagedName(**name) for name in names])
    yield from _due(orders, found, judge, listed)


def _due(
    orders: _Orders,
    found: Found,
    judge: Callable[[int], Due | None],
    listed: list[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    for one in listed:
        due = judge(micros(one["last_modified"].astimezone(UTC)))
        if due is None:
            continue
        held = orders.held.protecting(pa.array([one["address"]], pa.string()))
        if held[0].as_py():
            continue
        row = _row(orders.policy, due, one)
        found.add(row)
        yield row


def _row(policy: Policy, due: Due, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **one,
        "path": due.path,
        "branch": due.branch,
        "action": due.action,
        "rule": due.rule,
        "due_since": _EPOCH + timedelta(microseconds=due.since),
        "reason": policy.rules[due.rule - 1].words(due.rule, due.action),
    }


def _facts(
    policy: Policy, found: Found, names: _AllNames, staged: StagedNames | None
) -> Mapping[str, Any]:
    judge, past, figures = names.judge, names.past, names.figures
    objects, size = found.total
    return {
        "policy_objects": objects,
        "policy_bytes": size,
        "by_rule": [
            [
                number,
                each.prefix,
                sum(n for (of, _), n in found.objects.items() if of == number),
                sum(n for (of, _), n in found.size_bytes.items() if of == number),
            ]
            for number, each in enumerate(policy.rules, start=1)
        ],
        "by_branch": [
            [number, branch, found.objects[number, branch], found.size_bytes[number, branch]]
            for number, branch in sorted(found.objects)
        ],
        "largest": {
            str(number): [list(row) for row in rows] for number, rows in found.largest.items()
        },
        "newest": {
            str(number): [list(row) for row in rows] for number, rows in found.newest.items()
        },
        "names_placed": found.names["placed"],
        "names_undecided": found.names["undecided"],
        "entries": figures["entries"],
        "ranges": len(past.ranges),
        "metaranges_read": past.metaranges,
        "commits": len(judge.graph.ids),
        "unread_commits": [judge.graph.ids[commit] for commit in judge.unread[:NAMED]],
        "unread": len(judge.unread),
        **({} if staged is None else _staged_facts(found, staged)),
    }


def _staged_facts(found: Found, staged: StagedNames) -> Mapping[str, Any]:
    return {
        "staged_names": staged.count,
        "staged_problem": staged.problem,
        "staged_by_rule": [
            [number, objects, found.staged_bytes[number]]
            for number, objects in sorted(found.staged.items())
        ],
    }
