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
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.errors import ChainError, CorruptTableError, IncompleteReadError
from spark_core.holds import Holds
from spark_core.records import tables, writing
from spark_core.records.figures import (
    ListedFigures,
    NamedFigures,
    PolicyExpirationsFigures,
    StagedFigures,
)
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.references import rows_aside
from spark_core.references.commits import ReadCommits, read_commits, tables_prefix
from spark_core.references.known_ranges import retained_hashes
from spark_core.references.policies import history, sightings, staged_names, versions
from spark_core.references.policies.document import UNCOMMITTED, Policy
from spark_core.references.policies.due import AT_HEAD, KEPT, RETAINED, Due, Entry, Judge
from spark_core.references.policies.names import Graph, lines, micros
from spark_core.references.policies.staged_names import HASHED, StagedJudge, StagedNames
from spark_core.references.policies.waiting import what_waits
from spark_core.references.ranges import TableReader
from spark_core.retention import compacted_in
from spark_core.run import Run, chain
from spark_core.run.chain import Mark
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent

Done = TypeVar("Done")
Name = TypeVar("Name")

# Objects that are named for each rule: the largest, and the newest.
NAMED = 10
# Stored runs whose heads tell whose commits are, the newest first.
_RUNS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What keeps everything that a policy names, and nothing else.
UNREADABLE = (ChainError, CorruptTableError, IncompleteReadError)
_ADDRESSES = pa.schema([schemas.POLICY_EXPIRATIONS.field("address")])
_SHOWN = ("address", "size_bytes", "last_modified", "slice")
# Objects that a mark may consider.
_LISTED = pa.schema([schemas.NAMESPACE_SLICES.field(name) for name in ("address_hash", *_SHOWN)])
# What a kernel says of the objects of a plan: rules name it, or no commit has it.
_BY_RULES, _IN_NO_COMMIT = 0, 1
# Sources of which every row must come out of its comparison.
_WHOLE = ("staged", "committed", "names")


@dataclass
class NamedByRules:
    """What the rules name, added up.

    Attributes:
        objects: Objects by rule and branch ("" where it is undecided).
        size_bytes: Their bytes.
        largest: By rule: bytes, address, branch, path and date of the largest objects.
        newest: By rule: date, address, branch, path and bytes of the newest objects.
        names: Names of listed, old objects: `placed` on a branch, or `undecided`.
        staged: Objects by rule that go although they are staged.
        staged_bytes: Their bytes.
        came: Rows that came out of their comparison, by source; ranges apart from entries.
        inside: Entries that those ranges have in the namespace.
        unread: Numbers of the ranges that cannot be read.
    """

    objects: Counter[tuple[int, str]] = field(default_factory=Counter)
    size_bytes: Counter[tuple[int, str]] = field(default_factory=Counter)
    largest: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    newest: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    staged: Counter[int] = field(default_factory=Counter)
    staged_bytes: Counter[int] = field(default_factory=Counter)
    came: Counter[str] = field(default_factory=Counter)
    inside: int = 0
    unread: set[int] = field(default_factory=set)

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

    def merge(self, other: NamedByRules) -> None:
        """Add what was found in another bucket."""
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        for mine, theirs in ((self.largest, other.largest), (self.newest, other.newest)):
            for number, rows in theirs.items():
                self._name(mine, number, rows)
        self.names.update(other.names)
        self.staged.update(other.staged)
        self.staged_bytes.update(other.staged_bytes)
        self.came.update(other.came)
        self.inside += other.inside
        self.unread |= other.unread

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
class _Judges:
    """What every kernel needs: who compares names with the rules, and holds.

    Attributes:
        committed: Compares the names that objects have in commits.
        staged: Compares those under which they are staged.
        held: Holds.
    """

    committed: Judge
    staged: StagedJudge
    held: Holds


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


def stored_facts(run: Run) -> Mapping[str, Any]:
    """Return the figures of a table that was stored before, as `store_if_asked` gave them."""
    try:
        found: Mapping[str, Any] = run.load(tables.POLICY_EXPIRATIONS).manifest.facts
    except ChainError:
        found = {"policy_version": 0}
    return {"policies": run.options.policies, **found}


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
    named, receipts = writing.removed_on_failure(target, lambda: find(run, policy, mark, target))
    listing = ListedFigures.of(mark.slices.manifest)
    waiting = what_waits(run, version, named, listing)
    figures = PolicyExpirationsFigures(
        policy_version=version.number,
        policy_digest=version.policy_digest,
        policy_set_by=version.who,
        **vars(named),
        **waiting.figures,
    )
    return Draft(
        tables.POLICY_EXPIRATIONS,
        Written(target.attempt, receipts),
        began,
        parents=[table.manifest for table in mark.all],
        figures=lambda _, __: figures,
    )


def find(
    run: Run, policy: Policy, mark: Mark, target: Target | None = None
) -> tuple[NamedFigures, Sequence[Receipt]]:
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
    with ExitStack() as held:
        staged = None
        if staged_names.are_asked_for(policy):
            staged = held.enter_context(staged_names.read_names(run))
        # Behind the staged names, as an entry leaves the staging area when a commit takes it.
        read = read_commits(run, tables_prefix(run))
        listed = mark.slices.source([*_LISTED.names, "standing"])
        sources: dict[str, AnySource] = {
            "listed": listed.through(_LISTED, _candidates),
            "staged": mark.uncommitted.source(["address_hash", "created_at"]),
        }
        if staged is not None and staged.rows is not None:
            committed = retained_hashes(run, mark.committed)
            sources |= {"names": staged.rows, "committed": committed}
        scans = len(set(StagedFigures.of(mark.uncommitted.manifest).server_runs))
        judged = _judged(
            run,
            policy,
            mark.commits,
            read,
            sources=sources,
            kernel=partial(_named, scans),
            schema=schemas.POLICY_EXPIRATIONS,
            work=_forget if target is None else partial(rows_aside.put, target),
        )
        return _figures(judged, staged), [each for each in judged.done if each]


def _forget(_number: int, _rows: pa.Table) -> None:
    """Write no rows: only their figures are wanted."""


@dataclass(frozen=True)
class NamedNow:
    """What the rules name of a plan just before deleting: column address.

    Attributes:
        committed: What they name by its names in commits.
        in_no_commit: What no commit has; None if nobody knows all that commits have.
    """

    committed: AnySource
    in_no_commit: AnySource | None


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
    target = rows_aside.target_of(run, _ADDRESSES)
    sources = {"plan": plan.through(HASHED, staged_names.with_hashes)}
    judged = _judged(
        run,
        policy,
        commits,
        read,
        sources=sources,
        kernel=_named_again,
        schema=_ADDRESSES,
        work=partial(_put_named, target),
    )
    committed, others = (
        rows_aside.source_of(run, _ADDRESSES, [each for of, each in judged.done if of == kind])
        for kind in (_BY_RULES, _IN_NO_COMMIT)
    )
    is_asked = staged_names.are_asked_for(policy) and not judged.judge.unread
    return NamedNow(committed, others if is_asked else None)


def _put_named(target: Target, number: int, rows: pa.Table) -> tuple[int, Receipt]:
    return number % 2, rows_aside.put(target, number, rows)


@dataclass(frozen=True)
class _Judged(Generic[Done]):
    """What became of objects that met all their names.

    Attributes:
        found: What the rules name.
        judge: Who judged them.
        past: What commits did to ranges.
        done: What the work on what is named gave.
    """

    found: NamedByRules
    judge: Judge
    past: history.History
    done: Sequence[Done]


def _judged(
    run: Run,
    policy: Policy,
    commits: StoredTable,
    read: ReadCommits,
    *,
    sources: Mapping[str, AnySource],
    kernel: Callable[[_Judges, Mapping[str, pa.Table]], Sent[NamedByRules]],
    schema: pa.Schema,
    work: Callable[[int, pa.Table], Done],
) -> _Judged[Done]:
    """Let objects meet every name that any commit gives them, and judge them.

    Each range is read once. One that cannot be read may give any object a name. Which ones those
    are is known once all of them were read. So if there are such ranges, all is judged anew.

    Args:
        run: The run.
        policy: The document.
        commits: Table 3 of the mark.
        read: Refs and holds.
        sources: The objects, and what else is known of them, by the hashes of addresses.
        kernel: Judges a bucket.
        schema: As for `Exchange`.
        work: As for `Exchange`.

    Raises:
        IncompleteReadError: If the refs were not read from a dump, or rows got lost between their
            reading and their comparison.
    """
    graph = _graph(run, read)
    reader = TableReader.of(run, tables_prefix(run))
    runs = sightings.stored(run)
    past = history.read_history(
        run,
        reader,
        graph,
        [read.refs.commits[id_].metarange_id for id_ in graph.ids],
        bits=_bits(run, graph, read, commits),
        gone=sightings.gone_since(graph, runs),
        compacted=sorted({*compacted_in(read.table), *compacted_in(_table_of(commits))}),
    )
    judge = _judge_of(run, policy, graph, read, runs=runs, past=past)
    unread = set[int]()
    while True:
        judge = replace(judge, unread=past.unread_commits(unread))
        judges = _Judges(judge, StagedJudge.of(policy, read.holds, judge.instant), read.holds)
        entries = history.entries_of(run, reader, past, unread)
        receipts, done = Exchange(
            {"entries": entries, **sources}, partial(kernel, judges), schema, work
        ).run(lambda: run.spark, threads=run.options.read_threads)
        found = NamedByRules()
        for receipt in receipts:
            found.merge(receipt)
        if found.unread <= unread:
            whole = {name: sources[name].rows for name in _WHOLE if name in sources}
            wanted = {"ranges": len(past.ranges), "entries": found.inside, **whole}
            rows_aside.require_all(run, found.came, wanted)
            return _Judged(found, judge, past, done)
        unread |= found.unread


def _table_of(commits: StoredTable) -> pa.Table:
    """Return which metaranges are in table 3, and why."""
    names = ["metarange_id", "reason"]
    schema = pa.schema([schemas.RETAINED_COMMITS.field(name) for name in names])
    return pa.Table.from_batches(commits.batches(names), schema)


def _graph(run: Run, read: ReadCommits) -> Graph:
    if read.dump is None:
        raise IncompleteReadError(
            f"repository {run.repository.id}: its refs could only be walked, and a walk does not "
            "show the commits that nothing leads to any more, which may have introduced an object",
            "Give the user fs:ListTags, fs:ListBranches and fs:ListCommits, or set policies = "
            '"off" for the repository.',
        )
    return Graph.of(read.refs)


def _judge_of(
    run: Run,
    policy: Policy,
    graph: Graph,
    read: ReadCommits,
    *,
    runs: Sequence[sightings.Sighting],
    past: history.History,
) -> Judge:
    seen = [each.heads for each in reversed(runs) if each.heads is not None]
    main_lines = lines(
        graph,
        {branch.id: branch.commit_id for branch in read.refs.branches},
        default_branch=run.repository.default_branch,
        branch_order=policy.branch_order,
        seen=seen[:_RUNS],
    )
    return Judge(policy, graph, main_lines, past.changes, past.unread, instant_of(run))


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


def _candidates(batches: Batches) -> Batches:
    for batch in batches:
        may_go = pc.equal(batch.column("standing"), rule.CANDIDATE)
        yield batch.filter(may_go).select(_LISTED.names)


def _named(scans: int, judges: _Judges, bucket: Mapping[str, pa.Table]) -> Sent[NamedByRules]:
    """Find what the rules name of listed objects: columns of `schemas.POLICY_EXPIRATIONS`.

    Args:
        scans: How often the server scanned what is staged, for the mark.
        judges: Who compares names with the rules.
        bucket: The rows.
    """
    found, entries = _begun(bucket)
    listed = bucket["listed"]
    is_staged = _meets(listed, bucket["staged"])
    due = [
        *_due(judges, found, entries, listed.filter(pc.invert(is_staged))),
        *_due_staged(judges, scans, bucket, entries, listed.filter(is_staged)),
    ]
    rows = [_row(judges.committed.policy, why, one) for one, why in due]
    for row in rows:
        found.add(row)
    named = pa.Table.from_pylist(rows, schema=schemas.POLICY_EXPIRATIONS)
    return Sent(found, {rows_aside.place_of(listed): named})


def _named_again(judges: _Judges, bucket: Mapping[str, pa.Table]) -> Sent[NamedByRules]:
    """Find what the rules name of a plan by names in commits, and what no commit has: addresses."""
    found, entries = _begun(bucket)
    plan = bucket["plan"]
    named = [{"address": one["address"]} for one, _ in _due(judges, found, entries, plan)]
    in_no_commit = plan.filter(pc.invert(_meets(plan, entries))).select(_ADDRESSES.names)
    place = 2 * rows_aside.place_of(plan)
    return Sent(
        found,
        {
            place + _BY_RULES: pa.Table.from_pylist(named, schema=_ADDRESSES),
            place + _IN_NO_COMMIT: in_no_commit,
        },
    )


def _begun(bucket: Mapping[str, pa.Table]) -> tuple[NamedByRules, pa.Table]:
    """Count the rows of a bucket, and return its entries without the rows of whole ranges."""
    rows = bucket["entries"]
    is_range = rows["path"].is_null()
    ranges, entries = rows.filter(is_range), rows.filter(pc.invert(is_range))
    is_read = pc.not_equal(ranges["inside"], history.UNREAD)
    came = Counter({name: table.num_rows for name, table in bucket.items()})
    came.update(ranges=ranges.num_rows, entries=-ranges.num_rows)
    found = NamedByRules(
        came=came,
        inside=pc.sum(ranges.filter(is_read)["inside"]).as_py() or 0,
        unread=set(ranges.filter(pc.invert(is_read))["range"].to_pylist()),
    )
    return found, entries


def _meets(rows: pa.Table, others: pa.Table) -> pa.ChunkedArray:
    """Say of each row whether others have its hash."""
    return pc.is_in(rows["address_hash"], others["address_hash"].combine_chunks())


def _due(
    judges: _Judges, found: NamedByRules, entries: pa.Table, listed: pa.Table
) -> Iterator[tuple[dict[str, Any], Due]]:
    """Yield the objects that rules take by all their names in commits, and the last of those."""
    names = names_in_commits(entries, listed)
    for of in names.values():
        for entry in of:
            for _, branch in judges.committed.names_of(entry):
                found.names["undecided" if branch is None else "placed"] += 1
    listed = _free(judges.held, listed.filter(_meets(listed, entries)), entries)
    yield from _taken(judges, listed, names, judges.committed.due)


def names_in_commits(entries: pa.Table, objects: pa.Table) -> dict[int, list[Entry]]:
    """Bring together all names that commits give to each of some objects.

    A hash that two objects share gives each the names of both, which can only keep them.

    Args:
        entries: Columns of `history.ENTRIES`, none of them the row of a range.
        objects: Column address_hash.
    """
    paths = (
        entries.filter(_meets(entries, objects))
        .group_by(["address_hash", "path"])
        .aggregate([("modified", "max"), ("range", "distinct")])
        .sort_by([("address_hash", "ascending"), ("path", "ascending")])
    )
    found: dict[int, list[Entry]] = {}
    for row in paths.to_pylist():
        entry = Entry(row["path"], row["modified_max"], tuple(sorted(row["range_distinct"])))
        found.setdefault(row["address_hash"], []).append(entry)
    return found


def _due_staged(
    judges: _Judges,
    scans: int,
    bucket: Mapping[str, pa.Table],
    entries: pa.Table,
    listed: pa.Table,
) -> Iterator[tuple[dict[str, Any], Due]]:
    """Yield the objects in no commit that were staged for the mark, and that rules take.

    An entry of any commit, also one that the mark alone knows, leaves an object to other rules. An
    object with fewer names now than entries then is left out, too: nobody knows the others. The
    mark read what is staged by diffs, whose rows have no date, and by the server's scans. So an
    error of the staging store, which may hide an entry from one reading, keeps the object (safety
    30).
    """
    # A table that cannot be read may have any object.
    if "names" not in bucket or judges.committed.unread:
        return
    listed = listed.filter(pc.starts_with(listed["address"], "data/"))
    for committed in (entries, bucket["committed"]):
        listed = listed.filter(pc.invert(_meets(listed, committed)))
    listed = _free(judges.held, listed, bucket["names"])
    staged = bucket["staged"].filter(_meets(bucket["staged"], listed))
    in_scan = staged["created_at"].is_valid()
    in_diffs, in_scans = (
        Counter(staged.filter(some)["address_hash"].to_pylist())
        for some in (pc.invert(in_scan), in_scan)
    )
    names = {
        hash_: of
        for hash_, of in staged_names.names_of_objects(
            bucket["names"], listed["address_hash"]
        ).items()
        if len(of) >= in_diffs[hash_] and len(of) * scans >= in_scans[hash_]
    }
    yield from _taken(judges, listed, names, judges.staged.due)


def _free(held: Holds, listed: pa.Table, names: pa.Table) -> pa.Table:
    """Leave out the objects that a hold keeps by one of their names: columns address_hash, path."""
    why = held.reasons_of_paths(names["path"].combine_chunks().cast(pa.binary()))
    return listed.filter(pc.invert(_meets(listed, names.filter(why.is_valid()))))


def _taken(
    judges: _Judges,
    listed: pa.Table,
    names: Mapping[int, Sequence[Name]],
    judge: Callable[[Sequence[Name], int], Due | None],
) -> Iterator[tuple[dict[str, Any], Due]]:
    """Yield the objects that are due under all their names, and that no hold keeps."""
    free = listed.filter(pc.invert(judges.held.protecting(listed["address"].combine_chunks())))
    for one in free.to_pylist():
        of = names.get(one["address_hash"])
        due = None if of is None else judge(of, micros(one["last_modified"]))
        if due is not None:
            yield one, due


def _row(policy: Policy, due: Due, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: one[name] for name in _SHOWN},
        "path": due.path,
        "branch": due.branch,
        "action": due.action,
        "rule": due.rule,
        "due_since": _EPOCH + timedelta(microseconds=due.since),
        "reason": policy.rules[due.rule - 1].words(due.rule, due.action),
    }


def _figures(judged: _Judged[Any], staged: StagedNames | None) -> NamedFigures:
    found, judge, past = judged.found, judged.judge, judged.past
    objects, size_bytes = found.total
    return NamedFigures(
        policy_objects=objects,
        policy_bytes=size_bytes,
        by_rule=tuple(
            (
                number,
                each.prefix,
                sum(n for (of, _), n in found.objects.items() if of == number),
                sum(n for (of, _), n in found.size_bytes.items() if of == number),
            )
            for number, each in enumerate(judge.policy.rules, start=1)
        ),
        by_branch=tuple(
            (number, branch, found.objects[number, branch], found.size_bytes[number, branch])
            for number, branch in sorted(found.objects)
        ),
        largest={str(number): tuple(rows) for number, rows in found.largest.items()},
        newest={str(number): tuple(rows) for number, rows in found.newest.items()},
        names_placed=found.names["placed"],
        names_undecided=found.names["undecided"],
        entries=past.entries(found.unread),
        ranges=len(past.ranges),
        metaranges_read=past.metaranges,
        commits=len(judge.graph.ids),
        unread_commits=tuple(judge.graph.ids[commit] for commit in judge.unread[:NAMED]),
        unread=len(judge.unread),
        staged_names=None if staged is None else staged.count,
        staged_problem=None if staged is None else staged.problem,
        staged_by_rule=None
        if staged is None
        else tuple(
            (number, objects, found.staged_bytes[number])
            for number, objects in sorted(found.staged.items())
        ),
    )
