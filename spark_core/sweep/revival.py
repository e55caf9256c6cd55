"""What came back to life since a mark: everything that may refer to an object of its plan, read again just before deleting.

References are read in the mark's order, by the mark's own functions: staged
entries completely, then rules, refs and the server's list, then what the
commits reach. An address that is found twice, or one that only a collision of
hashes finds, is kept; what cannot be read ends the sweep. Which parts of that
are read again by the next look, and why that is safe, stands in `renewal`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_core import schemas
from spark_core.errors import IncompleteReadError, RepositoryStateError
from spark_core.mark import twins
from spark_core.mark.commits import ReadCommits, heads_now, read_commits
from spark_core.mark.committed import Metarange, Reader, distinct_ranges, read_ranges, tasks_of
from spark_core.mark.heads import Heads
from spark_core.mark.holds import Holds
from spark_core.mark.renewal import HIDDEN, QUICK, Parts
from spark_core.mark.sizes import HeadEntries, absent, said_sizes, sizes_of_later
from spark_core.mark.uncommitted import Staged, read_staged
from spark_core.records import tables
from spark_core.records.tables import StoredTable
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import counted, frame_of, read_counted

# Rows of a result that the driver holds; a larger one stays with the executors.
HELD = 10_000

STAGED = "staged"
UNCHECKED_TWIN = "may be the twin of an entry: the calls for asking the branches did not suffice"

_FOUND = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("why", pa.string(), nullable=False)])
_REACHED = pa.schema([*schemas.COMMITTED_ADDRESSES, pa.field("why", pa.string())])
_HASHES = pa.schema([schemas.UNCOMMITTED_ADDRESSES.field("address_hash")])


@dataclass(frozen=True)
class Known:
    """What was read before and never changes: tables of the server, by their content.

    Attributes:
        metaranges: Id -> whether its entries were read with their paths, as those of a branch head.
        addresses: What they reach: columns of `schemas.COMMITTED_ADDRESSES`, and why. None where nothing was read.
        head_ranges: Ids of ranges of which the mark or `addresses` has every entry with its path; None: not read yet.
        later: Objects (address, size_bytes) that heads reach and the mark's listing has not, and their neighbours.
    """

    metaranges: Mapping[str, bool] = field(default_factory=dict)
    addresses: DataFrame | None = None
    head_ranges: pa.Array | None = None
    later: DataFrame | None = None


@dataclass(frozen=True)
class Revived:
    """What something refers to again.

    Attributes:
        began: What its age counts from, by the run's clock: before the first byte was read; where
            reading what is staged takes long, before refs were (see `renewal`).
        frame: Columns address (key) and why: rows of the plan that something refers to now, or did
            at an earlier look of the same sweep. Read to the end already.
        facts: Figures for the report; JSON values only.
        known: For the next time.
        parts: When each staged part was read.
        searched: What was known when the hidden entries were last searched for.
        ended: When the last byte was read.
    """

    began: datetime
    frame: DataFrame
    facts: Mapping[str, Any]
    known: Known
    parts: Parts
    searched: Known
    ended: datetime


def look_again() -> Callable[[Run, DataFrame, Mapping[str, StoredTable]], Revived]:
    """Return `read_again` with a memory, for one sweep: what one call read of the server's tables the next ones do not.

    What was read stays with the executors. Where one is lost with it, everything is read once more, as a sweep that is begun
    anew does; so it is where rows are missing. What an earlier call saw alive stays alive all the same; where that is lost
    as well, the sweep ends.
    """
    last: list[Revived] = []

    def again(run: Run, plan: DataFrame, mark: Mapping[str, StoredTable]) -> Revived:
        try:
            last[:] = [read_again(run, plan, mark=mark, previous=last[0] if last else None)]
        except (PySparkException, Py4JJavaError, IncompleteReadError) as failure:
            if not last and not isinstance(failure, IncompleteReadError):
                raise
            last[:] = [read_again(run, plan, mark=mark, alive=last[0].frame if last else None)]
        return last[0]

    return again


@surfacing_errors()
def read_again(
    run: Run,
    plan: DataFrame,
    *,
    mark: Mapping[str, StoredTable],
    previous: Revived | None = None,
    alive: DataFrame | None = None,
) -> Revived:
    """Find the objects of a plan that something refers to now.

    Everything that moves is read anew: staged entries, rules, refs, the server's
    list, holds, and what branches answer for paths that may have a twin; of what
    is staged only parts, where reading it all takes long (see `renewal`). Tables
    of the server are named by their content, so of those only what the mark and
    `previous` had not read is read; each of them whole, or the sweep ends.

    Rules count from the run's own instant as they did for the mark. It lies in
    the past, so a commit is retained at least as long as by a new mark.

    Args:
        run: The run, of the instance that was marked.
        plan: What may still be deleted: columns address, size_bytes and, where it is known, last_modified of
            `schemas.EXPIRED_ADDRESSES`.
        mark: The mark's tables by name; only `uncommitted_addresses` is not looked at.
        previous: What an earlier call in the same sweep returned; what it found is found again.
        alive: Where nothing is to be relied on but that: `frame` of such a call.

    Returns:
        What must be kept, and why.

    Raises:
        RepositoryStateError: If the server shows no branch or no commit that keeps its objects.
        IncompleteReadError: If anything could not be read to its end.
        LakegcError: Whatever else stood in the way; then nothing is known, and nothing may be deleted.
    """
    began = run.now()
    calls = Counter(run.server.requests)
    prefix: str = mark[tables.NAMESPACE_SLICES.name].manifest.facts["table_prefix"]
    if previous is None:
        parts = Parts(run.now, run.options.reread_every * QUICK)
        known = searched = Known()
        found, budget = alive, None
    else:
        parts, known, searched = previous.parts, previous.known, previous.searched
        found, budget = previous.frame, max(parts.quick, began - previous.ended)
    with ExitStack() as held:
        # Asked three times: what is referenced of it, what sizes the rest has, and what of that is a twin.
        # When an object in quarantine was written is not told, so it may hide on any branch.
        written = sf.col("last_modified") if "last_modified" in plan.columns else sf.lit(began)
        plan = plan.select("address", "size_bytes", written.alias("last_modified")).persist()
        held.callback(plan.unpersist)
        parts.turn(budget)
        staged = [_staged_now(run, prefix, parts, held)]
        if run.now() - began > parts.quick:
            # Meanwhile the first branches' diffs have become old: those that are quick to read are read once more.
            parts.turn(parts.quick, least_age=parts.quick)
            staged.append(_staged_now(run, prefix, parts, held))
        # Behind the last staged part, always: what was committed in between was in no part of either kind before.
        committed = _Committed.read(run, prefix, mark, known)
        found = _settled(_union(found, _referenced([one.hashes for one in staged], committed, plan)))
        known = committed.known
        twin_facts: Mapping[str, Any] = {}
        parts.turn()
        if parts.begin(HIDDEN):
            is_news = known is not searched
            heads = heads_now(
                run, committed.commits, _heads_of(mark[tables.RETAINED_COMMITS.name]), read_at=committed.began
            )
            known, search = _twins(run, _without(plan, found), mark, known, heads, is_news=is_news)
            parts.end_hidden(branch.id for branch in committed.commits.refs.branches)
            searched, twin_facts = known, search.facts
            if search.found is not None:
                found = _settled(_union(found, search.found))
            if run.now() - committed.began > parts.quick:
                committed = _Committed.read(run, prefix, mark, known)
                known = committed.known
                found = _settled(_union(found, _referenced([], committed, plan)))
    assert parts.oldest is not None  # noqa: S101 - a first look reads every part
    ended = run.now()
    commits = committed.commits
    facts = {
        "began": began.isoformat(),
        "oldest_began": parts.oldest.isoformat(),
        "seconds": (ended - began).total_seconds(),
        "calls": sum((Counter(run.server.requests) - calls).values()),
        "staged": [dict(one.facts) for one in staged],
        "commits": len(commits.refs.commits),
        "branches": len(commits.refs.branches),
        "tags": len(commits.refs.tags),
        "retained_commits": commits.table.num_rows,
        "holds": len(commits.holds.holds),
        **committed.facts,
        "twins": twin_facts,
    }
    is_young = committed.began - parts.oldest <= parts.quick
    return Revived(parts.oldest if is_young else committed.began, found, facts, known, parts, searched, ended)


@dataclass(frozen=True)
class _StagedNow:
    """Hashes (address_hash) of what is staged, in the parts that were read, and figures."""

    hashes: DataFrame
    facts: Mapping[str, Any]


def _staged_now(run: Run, prefix: str, parts: Parts, held: ExitStack) -> _StagedNow:
    """Read the staged parts that are due, to their ends; what is held of them is let go with `held`."""
    staged = read_staged(run, prefix, parts)
    held.callback(staged.close)
    # Counted and compared, so the rows that were counted must be those that are compared.
    told = read_counted(run.spark, _HASHES, staged.tasks, partial(_hashes, staged)).persist()
    held.callback(told.unpersist)
    hashes, rows, figures = counted(told)
    return _StagedNow(hashes, _require_all_staged(run, staged.facts(figures), rows))


def _hashes(staged: Staged, task: Any, figures: Counter[str]) -> Iterator[pa.RecordBatch]:
    for batch in staged.read(task, figures):
        yield batch.select(_HASHES.names)


@dataclass(frozen=True)
class _Committed:
    """What is committed now, or held by name.

    Attributes:
        began: Before the first byte of it was read.
        commits: The commits that keep their objects.
        known: What they reach that those of the mark did not.
        facts: Figures.
    """

    began: datetime
    commits: ReadCommits
    known: Known
    facts: Mapping[str, Any]

    @classmethod
    def read(cls, run: Run, prefix: str, mark: Mapping[str, StoredTable], known: Known) -> _Committed:
        """Read holds, rules, refs and the server's list, and what tables they name that are not known."""
        began = run.now()
        commits = read_commits(run, prefix)
        _require_commits(run, commits)
        reached = _Reached.read(run, prefix, mark, _retained(commits), known)
        return cls(began, commits, reached.known, reached.facts)


def _require_commits(run: Run, commits: ReadCommits) -> None:
    if not commits.refs.branches or not commits.table.num_rows:
        raise RepositoryStateError(
            f"repository {run.repository.id} shows {len(commits.refs.branches)} branches and {commits.table.num_rows} commits that "
            "keep their objects, read again just before deleting: it was deleted, or emptied, since the mark",
            "Look at it with `lakectl repo list`; if it lives, mark again under a new run key.",
        )


def _require_all_staged(run: Run, facts: Mapping[str, Any], rows: int) -> Mapping[str, Any]:
    """Return the figures of what is staged, read to its end; the counterpart of the check `uncommitted_was_read_whole`.

    Raises:
        IncompleteReadError: If Spark holds other rows than the files and the diffs have.
    """
    if (facts["files_read"], rows) != (facts["files"], facts["file_rows"] + facts["from_diffs"]):
        raise IncompleteReadError(
            f"repository {run.repository.id}: of what is staged, read again just before deleting, {facts['files_read']} of "
            f"{facts['files']} files with {facts['file_rows']} rows and {facts['from_diffs']} rows of diffs were read, of which "
            f"Spark holds {rows}",
            "Run the same command again; if it stays, report it with this text.",
        )
    return facts


def _retained(commits: ReadCommits) -> dict[str, Metarange]:
    """Return the metaranges whose objects are kept, by id, each with one commit that has it: a head, if one does."""
    found: dict[str, Metarange] = {}
    for row in commits.table.select(["commit_id", "metarange_id", "reason", "is_head"]).to_pylist():
        id_, known = row["metarange_id"], found.get(row["metarange_id"])
        if id_ and (known is None or (row["is_head"] and not known.is_head)):
            reason = row["reason"]
            why = reason if reason.startswith("hold ") else f"commit {row['commit_id'][:12]} ({reason})"
            found[id_] = Metarange(id_, is_head=row["is_head"], is_retained=True, why=why)
    return found


@dataclass(frozen=True)
class _Reached:
    """What the commits of now reach that those of the mark did not."""

    known: Known
    facts: Mapping[str, Any]

    @classmethod
    def read(
        cls, run: Run, prefix: str, mark: Mapping[str, StoredTable], now: Mapping[str, Metarange], known: Known
    ) -> _Reached:
        """Read the metaranges that are new, and of their ranges those that no head of the mark had.

        A metarange that became a head's is read again: where its entries lie tells where to look for twins.
        """
        marked = _marked(mark[tables.RETAINED_COMMITS.name])
        before = {**marked, **{id_: is_head or marked.get(id_, False) for id_, is_head in known.metaranges.items()}}
        new = [metarange for id_, metarange in sorted(now.items()) if before.get(id_) not in (True, metarange.is_head)]
        if not new:
            return cls(known, {"new_metaranges": 0, "metaranges_read": 0, "ranges_read": 0, "entries_read": 0})
        reader = Reader.of(run, prefix)
        old_ranges = known.head_ranges
        if old_ranges is None:
            heads = [Metarange(id_, is_head=True, is_retained=True) for id_, is_head in marked.items() if is_head]
            old_ranges = distinct_ranges(run, reader, heads)[0]["range_id"]
        named, read = distinct_ranges(run, reader, new)
        ranges = named.filter(pc.invert(pc.is_in(named["range_id"], old_ranges)))
        tasks = tasks_of(ranges, run.options.range_partitions)
        held = read_counted(run.spark, _REACHED, tasks, partial(_read_saying_why, reader)).localCheckpoint()
        addresses, rows, more = counted(held)
        read.update(more)
        _require_all(run, {"metaranges": len(new)}, "metarange_rows", pc.sum(named["times"]).as_py() or 0, read)
        entries = pc.sum(ranges["count"]).as_py() or 0
        _require_all(run, {"ranges": ranges.num_rows, "entries": entries}, "addresses", rows + read["left_out"], read)
        facts = {
            "new_metaranges": len(new),
            "metaranges_read": read["metaranges"],
            "ranges_read": read["ranges"],
            "entries_read": read["entries"],
        }
        return cls(
            Known(
                {**known.metaranges, **{metarange.id: metarange.is_head for metarange in new}},
                addresses if known.addresses is None else known.addresses.unionByName(addresses),
                pa.chunked_array(
                    [*_chunks(old_ranges), *_chunks(ranges.filter(ranges["is_head"])["range_id"])], pa.string()
                ),
                known.later,
            ),
            facts,
        )


def _read_saying_why(reader: Reader, ranges: pa.Table, figures: Counter[str]) -> Iterator[pa.RecordBatch]:
    yield from read_ranges(reader, ranges, figures, saying_why=True)


def _chunks(ids: pa.ChunkedArray) -> list[pa.Array]:
    return [ids.combine_chunks()]


def _require_all(run: Run, wanted: Mapping[str, int], what: str, held: int, read: Counter[str]) -> None:
    """Compare what is to be read with what was, and what tasks made of it with what Spark holds.

    Args:
        run: The run.
        wanted: How many of each are to be read, by the name of the figure.
        what: The figure of what tasks made of them.
        held: How many of those Spark holds.
        read: The figures, as tasks counted.

    Raises:
        IncompleteReadError: If anything is missing.
    """
    if held != read[what] or any(read[name] != count for name, count in wanted.items()):
        reached = " and ".join(f"{count} {name}" for name, count in wanted.items())
        raise IncompleteReadError(
            f"repository {run.repository.id}: of {reached} that commits reach anew, {' and '.join(str(read[name]) for name in wanted)} "
            f"were read just before deleting; they have {read[what]} {what.replace('_', ' ')}, of which Spark holds {held}",
            "Run the same command again; if it stays, report it with this text.",
        )


def _marked(commits: StoredTable) -> dict[str, bool]:
    """Return the metaranges that the mark read, and whether a head had them."""
    marked: dict[str, bool] = {}
    for batch in commits.batches(["metarange_id", "is_head"]):
        for row in batch.to_pylist():
            if row["metarange_id"]:
                marked[row["metarange_id"]] = marked.get(row["metarange_id"], False) or row["is_head"]
    return marked


def _referenced(staged: Sequence[DataFrame], committed: _Committed, plan: DataFrame) -> DataFrame:
    """Return address and why of what is staged (address_hash), reached or held by its address; an address may come twice."""
    alive = [one.select("address_hash", sf.lit(STAGED).alias("why")) for one in staged]
    if committed.known.addresses is not None:
        alive.append(committed.known.addresses.select("address_hash", "why"))
    found = []
    if alive:
        causes = reduce(DataFrame.unionByName, alive).groupBy("address_hash").agg(sf.min("why").alias("why"))
        named = plan.select("address", _address_hash()).join(causes, on="address_hash", how="inner")
        found.append(named.select("address", "why"))
    held = committed.commits.holds
    if held.of_addresses or not found:
        found.append(plan.select("address").mapInArrow(partial(_map_held, held), spark_type(_FOUND)))
    return reduce(DataFrame.unionByName, found)


def _union(found: DataFrame | None, more: DataFrame) -> DataFrame:
    """Return what was found so far, which nothing takes away again, and more; each address once."""
    both = more if found is None else found.unionByName(more)
    return both.groupBy("address").agg(sf.min("why").alias("why"))


def _map_held(held: Holds, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        why = held.reasons(batch.column("address"))
        found = pa.record_batch([batch.column("address").cast(pa.string()), why], names=_FOUND.names)
        yield found.filter(pc.is_valid(why)).cast(_FOUND)


@dataclass(frozen=True)
class _Search:
    """The twins (address, why; an address may come twice), None for none at all, and figures."""

    found: DataFrame | None
    facts: Mapping[str, Any]


def _heads_of(commits: StoredTable) -> Heads | None:
    return Heads.of_facts(commits.manifest.facts)


def _twins(
    run: Run, plan: DataFrame, mark: Mapping[str, StoredTable], known: Known, since: Heads, *, is_news: bool
) -> tuple[Known, _Search]:
    """Search for twins as the mark does, among the entries of the heads of then and of now.

    What entries say is compared with the store, also of objects that were written after the mark's listing.
    """
    columns = ["address", "size_bytes", "head_path", "checksum"]
    heads = mark[tables.COMMITTED_ADDRESSES.name].frame(run.spark, columns)
    if known.addresses is not None:
        heads = heads.unionByName(known.addresses.select(*columns))
    heads = heads.where("head_path is not null")
    facts = mark[tables.EXPIRED_ADDRESSES.name].manifest.facts
    slices = mark[tables.NAMESPACE_SLICES.name]
    listing = slices.frame(run.spark, ["address", "size_bytes", "checksum"])
    if known.later is not None:
        listing = listing.unionByName(known.later)
    if is_news or (known.later is None and facts["missing_objects"]):
        later = sizes_of_later(run, heads, listing)
        listing = listing.unionByName(later)
        known = replace(known, later=later if known.later is None else known.later.unionByName(later))
    # A mark of an earlier version did not look at the sizes of all entries.
    are_sizes_said, lost = facts["other_sizes"] > 0 or facts["twins"].get("are_sizes_said", True), None
    if known.addresses is not None:
        are_sizes_said = are_sizes_said or not said_sizes(listing, known.addresses).isEmpty()
    if known.later is not None:
        are_sizes_said = are_sizes_said or not said_sizes(known.later, heads).isEmpty()
        lost = absent(heads, listing)
    search = twins.find(
        run,
        plan,
        HeadEntries(heads, lost, are_sizes_said, listing),
        since,
        grace=timedelta(seconds=slices.manifest.facts.get("grace_period_seconds", 0)),
    )
    causes = []
    if search.live is not None:
        at = sf.concat(sf.lit("twin of an entry at "), "head_path").alias("why")
        causes.append(search.live.select("address", at))
    if search.undecided is not None:
        causes.append(search.undecided.select("address", sf.lit(UNCHECKED_TWIN).alias("why")))
    return known, _Search(reduce(DataFrame.unionByName, causes) if causes else None, search.facts)


def _address_hash() -> Any:
    return sf.xxhash64("address").alias("address_hash")


def _without(plan: DataFrame, found: DataFrame) -> DataFrame:
    return plan.join(found.select("address"), on="address", how="left_anti")


def _settled(frame: DataFrame) -> DataFrame:
    """Run a frame of address and why to its end, so that whatever fails does so now, and nothing is read for it again."""
    few = frame.select(*_FOUND.names).limit(HELD + 1).toArrow()
    if few.num_rows > HELD:
        return frame.localCheckpoint()
    held = frame_of(frame.sparkSession, few.cast(_FOUND))
    if held.count() != few.num_rows:
        raise IncompleteReadError(
            f"Spark lost {few.num_rows - held.count()} of {few.num_rows} objects that something refers to again",
            "Run the same command again; if it stays, report it with this text and Spark's version.",
        )
    return held
