"""What a retention policy names now: a table, only figures, or the part of a plan that it names.

An object is named only if every name that it has in any commit is due under some rule. What no
commit retained by the mark reaches is not a policy's: it expires without one. What is staged, held,
reached by a tag, too young or not lakeFS's own is never named. Nothing here deletes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from spark_core.mark import Mark
from spark_core.mark.commits import ReadCommits, read_commits, tables_prefix
from spark_core.mark.heads import Heads
from spark_core.mark.holds import Holds
from spark_core.mark.ranges import TableReader
from spark_core.policies import history, versions
from spark_core.policies.document import Policy
from spark_core.policies.due import AT_HEAD, ENDED, KEPT, RETAINED, Due, Entry, Judge
from spark_core.policies.names import Graph, lines, micros
from spark_core.policies.waiting import what_waits
from spark_core.records import reading, tables, writing
from spark_core.records.figures import Figures, ListedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.run import Run, chain
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import counted, map_counted, run_over

# Objects that are named for each rule: the largest, and the newest.
NAMED = 10
# Stored runs whose heads are looked at, the newest first.
_RUNS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What keeps everything that a policy names, and nothing else.
UNREADABLE = (ChainError, CorruptTableError, IncompleteReadError)
_LISTED = ["address", "size_bytes", "last_modified", "slice"]
_ADDRESSES = pa.schema([schemas.POLICY_EXPIRATIONS.field("address")])


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
    """

    receipts: list[Receipt] = field(default_factory=list)
    objects: Counter[tuple[int, str]] = field(default_factory=Counter)
    size_bytes: Counter[tuple[int, str]] = field(default_factory=Counter)
    largest: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    newest: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    entries: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Add an object that is named: a row of `schemas.POLICY_EXPIRATIONS`."""
        number, branch = row["rule"], row["branch"] or ""
        self.objects[number, branch] += 1
        self.size_bytes[number, branch] += row["size_bytes"]
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
    with _all_names(run, policy, mark.commits, read_commits(run, tables_prefix(run))) as names:
        compared = _compared(names.entries, _listed(names.entries.sparkSession, mark))
        orders = names.orders(target)
        is_small = history.is_small(names.past)
        for each in run_over(compared, partial(_judge, orders), is_small=is_small):
            found.merge(each)
        names.require_all(run, found.entries)
        return Expirations(found, _facts(policy, found, names))


@surfacing_errors()
def named_now(
    run: Run, policy: Policy, commits: StoredTable, read: ReadCommits, plan: DataFrame
) -> DataFrame:
    """Find which objects of a plan the rules name now, just before deleting.

    A name that an object got since the mark counts like any other: the object is named only if a
    rule takes it under that one, too. What is staged is not looked at here.

    Args:
        run: The run of the mark.
        policy: The document that counts now.
        commits: Table 3 of the mark.
        read: Refs and holds, read just now.
        plan: Columns address, size_bytes and last_modified of objects that the mark listed.

    Returns:
        Column address, read to its end: the objects that are named.

    Raises:
        IncompleteReadError: If the refs were not read from a dump, or rows got lost.
        CorruptTableError: If a table of a retained commit is damaged.
    """
    hashes = sf.xxhash64("address").alias("address_hash")
    listed = plan.select(
        "address", "size_bytes", "last_modified", sf.lit("").alias("slice"), hashes
    )
    with _all_names(run, policy, commits, read) as names:
        found = map_counted(
            _compared(names.entries, listed), _ADDRESSES, partial(_name_again, names.orders(None))
        ).localCheckpoint()
        rows, _, figures = counted(found)
        names.require_all(run, figures["entries"])
        return rows


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
        return _Orders(self.judge, self.judge.policy, self.held, target)

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
    past = history.read_history(run, reader, graph, metaranges, bits)
    entries = history.read_entries(run, reader, past).persist()
    try:
        rows, count, figures = counted(entries)
        unread = [int(name.removeprefix("unread/")) for name in figures if "/" in name]
        judge = _judge_of(run, policy, graph, read, past=past, unread=unread)
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
    past: history.History,
    unread: Sequence[int],
) -> Judge:
    """Make the judge of a run; ranges that could not be read make their commits unread."""
    main_lines = lines(
        graph,
        {branch.id: branch.commit_id for branch in read.refs.branches},
        default_branch=run.repository.default_branch,
        branch_order=policy.branch_order,
        seen=_seen(run),
    )
    introduced = (commit for number in unread for commit in past.changes[number].introduced)
    unread_commits = tuple(sorted({*past.unread, *introduced}))
    instant = micros(run.key.instant) - _margin(run)
    return Judge(policy, graph, main_lines, past.changes, unread_commits, instant)


def _margin(run: Run) -> int:
    return (run.options.clock_margin + run.options.accepted_skew) // timedelta(microseconds=1)


def _bits(run: Run, graph: Graph, read: ReadCommits, commits: StoredTable) -> list[int]:
    """Tell of each commit whether a head, the mark, a tag or a hold keep it; or its line ended.

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
    continued = {int(number) for number in graph.main}
    return [
        (AT_HEAD if id_ in heads else 0)
        | (RETAINED if id_ in retained else 0)
        | (KEPT if id_ in kept else 0)
        | (ENDED if id_ not in heads and number not in continued else 0)
        for number, id_ in enumerate(graph.ids)
    ]


def _seen(run: Run) -> Iterator[Mapping[str, str]]:
    """Yield the heads that stored runs of the same instance saw, if their tables can be read."""
    for key in tables.runs(run.store, tables.RETAINED_COMMITS.folder)[:_RUNS]:
        try:
            manifest = reading.load_table(run.store, tables.RETAINED_COMMITS, key).manifest
            heads = Heads.of(manifest)
        except (ChainError, CorruptTableError):
            continue
        if heads is not None and manifest.instance == run.instance:
            yield {branch: head.commit_id for branch, head in heads.branches.items()}


def _listed(spark: SparkSession, mark: Mark) -> DataFrame:
    """Return the objects that a mark may consider and that are not staged."""
    columns = [*_LISTED, "address_hash"]
    staged = mark.uncommitted.frame(spark, ["address_hash"])
    return (
        mark.slices.frame(spark, [*columns, "standing"])
        .where(sf.col("standing") == rule.CANDIDATE)
        .join(staged, on="address_hash", how="left_anti")
        .select(*columns)
    )


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
    found = listed.groupBy("address_hash").agg(sf.collect_list(sf.struct(*_LISTED)).alias("listed"))
    return objects.join(found, on="address_hash", how="left").select("names", "entries", "listed")


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
    columns = (listed.column(name).to_pylist() for name in ("names", "listed"))
    for names, some in zip(*columns, strict=True):
        yield from _named(orders, found, names, some)


def _named(
    orders: _Orders, found: Found, names: list[dict[str, Any]], listed: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    entries = [Entry(each["path"], each["modified"], tuple(each["ranges"])) for each in names]
    for entry in entries:
        for _, branch in orders.judge.names_of(entry):
            found.names["undecided" if branch is None else "placed"] += 1
    for one in listed:
        due = orders.judge.due(entries, micros(one["last_modified"].astimezone(UTC)))
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


def _facts(policy: Policy, found: Found, names: _AllNames) -> Mapping[str, Any]:
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
    }
