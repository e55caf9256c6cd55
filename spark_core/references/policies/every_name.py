"""Let objects meet every name that any commit gives them, and judge them.

The graph of all commits, the history of ranges and the branches' lines make the judge; the entries
of every range are compared with the objects, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

import pyarrow as pa

from spark_core import schemas
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import IncompleteReadError
from spark_core.records import rows_aside
from spark_core.records.reading import StoredTable
from spark_core.references.commits import ReadCommits, tables_prefix
from spark_core.references.policies import range_changes, sightings
from spark_core.references.policies.canonical_names import Graph, lines, micros
from spark_core.references.policies.dated_entries import entries_of
from spark_core.references.policies.document import Policy
from spark_core.references.policies.due import AT_HEAD, KEPT, RETAINED, Judge
from spark_core.references.policies.objects_due import Judges
from spark_core.references.policies.staged_due import StagedJudge
from spark_core.references.policies.sums_by_rule import NamedByRules
from spark_core.references.table_reader import TableReader
from spark_core.retention import compacted_in
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Exchange, Sent

Done = TypeVar("Done")

# Stored runs whose heads tell whose commits are, the newest first.
_RUNS = 100
# Sources of which every row must come out of its comparison.
_WHOLE = ("staged", "committed", "names")


@dataclass(frozen=True)
class Judged(Generic[Done]):
    """What became of objects that met all their names.

    Attributes:
        found: What the rules name.
        judge: Who judged them.
        past: What commits did to ranges.
        done: What the work on what is named gave.
    """

    found: NamedByRules
    judge: Judge
    past: range_changes.History
    done: Sequence[Done]


def meet_all_names(
    run: Run,
    policy: Policy,
    commits: StoredTable,
    read: ReadCommits,
    *,
    sources: Mapping[str, AnySource],
    kernel: Callable[[Judges, Mapping[str, pa.Table]], Sent[NamedByRules]],
    schema: pa.Schema,
    work: Callable[[int, pa.Table], Done],
) -> Judged[Done]:
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
    runs = sightings.read_sightings(run)
    past = range_changes.read_history(
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
        judges = Judges(judge, StagedJudge.of(policy, read.holds, judge.instant), read.holds)
        entries = entries_of(run, reader, past, unread)
        receipts, done = Exchange(
            {"entries": entries, **sources}, partial(kernel, judges), schema, work
        ).run(lambda: run.spark, threads=run.options.read_threads)
        found = NamedByRules()
        for receipt in receipts:
            found.merge(receipt)
        if found.unread <= unread:
            whole = {name: sources[name].rows for name in _WHOLE if name in sources}
            wanted = {"ranges": len(past.ranges), "entries": found.inside, **whole}
            rows_aside.require_all(run.repository.id, found.came, wanted)
            return Judged(found, judge, past, done)
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
    past: range_changes.History,
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
    margin = run.options.clock_margin + MAX_CLOCK_SKEW
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
