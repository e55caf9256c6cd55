"""Find twins: staged entries that the server's scan cannot see (safety 14, 34).

Such an entry is identical content that was uploaded again.

The entry has the size and checksum of the committed entry at its path, so the scan takes it for
unchanged. Yet reads on the branch are answered from the new object, which nothing else refers to.
Only the branch itself shows it. Times (`heads`) and sizes (`suspects`) determine which branch is
asked about what. Candidates for which the calls do not suffice are kept, and no others.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core import lakegc_keys
from spark_core.addresses.collectable import own_name
from spark_core.addresses.namespace import AddressType
from spark_core.errors import NotFoundError, RepositoryStateError
from spark_core.lakefs import CallBudget, addresses_on, pages_of
from spark_core.mark.heads import Heads
from spark_core.mark.sizes import HeadEntries
from spark_core.mark.suspects import (
    ANY,
    DISHONEST,
    SIZED,
    SUSPECTS,
    Candidates,
    are_checksums_stated,
    candidates_of,
    contents_of,
    suspects_of,
    undecided,
    with_contents,
    with_suspect,
)
from spark_core.mark.suspects_on_driver import Alike
from spark_core.records.figures import TwinFigures
from spark_core.run import Run
from spark_core.spark.rows import (
    Rows,
    as_frame,
    count,
    distinct,
    is_among,
    selected,
    together,
    without,
)
from spark_core.spark.tasks import frame_of, interleaved

NAMED = 20

# The driver may hold this many candidates, and as many entries that may hide one. It then searches
# by itself, with one query.
HELD = 100_000

# Paths that the driver holds at once, and addresses that it holds before they are compared.
LOT = 50_000
FOUND = 100_000

# Entries of a page. If one in this many of a branch's entries is suspect, the branch is listed as a
# whole.
PAGE = 1_000
_DENSE = 4

# A search without a limit of its own may make so many calls at least, so many for each branch, and
# one for so many listed objects: a share of what the mark costs anyway.
LEAST_CALLS, CALLS_OF_A_BRANCH, OBJECTS_OF_A_CALL = 1_000, 10, 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEFORE_ALL = -(2**63)

_SHOWN = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("head_path", pa.string())]
)
# The same, and which branch shows it.
_SHOWN_ON = _SHOWN.append(pa.field("branch", pa.string()))
_UNASKED = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("from_branch", pa.int32(), nullable=False),
        pa.field("is_outside", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Twins:
    """The result of the search.

    Attributes:
        live: Objects that a branch really answers from: column address, and head_path, one of the
            paths. None for none. Here and below the driver holds few rows, and executors many.
        undecided: Candidates (column address) that may hide where nobody could be asked; None for
            none.
        figures: What was done and found, for the manifest.
    """

    live: Rows | None
    undecided: Rows | None
    figures: TwinFigures

    @property
    def keeps_any(self) -> bool:
        """Whether there is anything to take out."""
        return bool(self.figures.kept_objects or self.figures.unchecked_objects)

    def without_twins(self, candidates: Rows) -> Rows:
        """Take out the candidates that are live, and those that are undecided."""
        for found in (self.live, self.undecided):
            if found is not None:
                candidates = without(candidates, found, "address")
        return candidates


# Result of a search without candidates: nobody need be asked.
NONE = Twins(None, None, TwinFigures())


def find(
    run: Run,
    candidates: Rows,
    heads: HeadEntries,
    since: Heads,
    *,
    grace: timedelta,
    entries_of: Callable[[], Mapping[str, int]],
    objects: int = 0,
    staged: int = 0,
    staged_names: Rows | None = None,
) -> Twins:
    """Ask branches what they read under the paths that may hide a candidate.

    The search takes the cheapest of three ways. It asks around single paths, or lists a whole
    branch, or asks the store for the MD5 of the candidates' content, where the store gives it.

    The cost is a join of the candidates' sizes with the entries of heads, and the calls. `HELD`,
    `LOT`, `FOUND` and the number of branches bound what comes to the driver at once.

    Args:
        run: The run; `RunOptions.twin_calls` bounds the calls to the server, and the questions to
            the store.
        candidates: Columns address, size_bytes and last_modified of `schemas.NAMESPACE_SLICES`;
            held by the driver if they are few.
        heads: The entries of branch heads.
        since: Since when each branch stands on its head.
        grace: The server's grace period.
        entries_of: Gives the number of entries by commit, of every head. It is read where the calls
            might not suffice.
        objects: How many objects the repository has; the calls grow with them.
        staged: Number of entries that are known to be staged on the branches.
        staged_names: Columns address, branch and path: names under which candidates are staged and
            may go all the same, by a retention policy. Any other name keeps them. None for none.

    Returns:
        The objects to keep.

    Raises:
        AddressError: If a branch answers with an address that lakegc cannot place.
        IncompleteReadError: If the list of a branch's entries does not go on.
        RepositoryStateError: If the server shows no branch.
    """
    moments = sorted(
        (_moment(run, since, branch.id, grace), branch.id)
        for branch in run.server.branches(run.repository.id)
    )
    if not moments:
        raise RepositoryStateError(
            f"repository {run.repository.id} shows no branch when it is asked for hidden entries: "
            "it was deleted a moment ago",
            "Look at it with `lakectl repo list` and run again if it lives.",
        )
    limit = run.options.twin_calls
    if limit is None:
        limit = max(LEAST_CALLS, CALLS_OF_A_BRANCH * len(moments), objects // OBJECTS_OF_A_CALL)
    branches = [branch for _, branch in moments]
    commits = [
        since.branches[branch].commit_id if branch in since.branches else "" for branch in branches
    ]
    search = _Search(
        run,
        branches,
        commits,
        heads,
        entries_of,
        limit=limit,
        staged=staged,
        staged_names=staged_names,
    )
    return search.find(
        candidates_of(
            heads.spark,
            candidates,
            [when for when, _ in moments],
            all_dishonest=heads.are_sizes_said or run.options.hidden_entries == "ask_all",
            at_most=HELD,
        ),
        since,
    )


def _moment(run: Run, since: Heads, branch: str, grace: timedelta) -> int:
    """Return the moment from which a candidate may hide on a branch, in microseconds.

    It is the moment since which the branch stands on its head, less the time of an upload.

    An object is named when its upload begins, and some stores date it then. It is staged when the
    upload ends. A linked object is staged within the server's grace period.
    """
    options = run.options
    head = since.branches.get(branch)
    # A branch that was made after the heads were read has nothing older staged.
    made, why = (since.read_at, "") if head is None else (head.since, head.why)
    if since.is_damaged or options.hidden_entries == "ask_all" or why or made is None:
        return _BEFORE_ALL
    if options.allow_unsafe_min_age and options.min_age < grace:
        before = max(options.min_age, timedelta(0))
    else:
        before = max(options.min_age, grace, options.longest_upload) + options.max_clock_skew
    return (made.replace(microsecond=0) - _EPOCH - before) // timedelta(microseconds=1)


@dataclass
class _Search:
    """One search: its questions, and its findings.

    Attributes:
        run: The run.
        branches: All branches; the one on which something can hide the longest comes first.
        commits: Their heads, in the same order; empty where nobody knows it.
        heads: The entries of branch heads.
        entries_of: As for `find`.
        limit: Calls and questions that it may make.
        staged: As for `find`.
        staged_names: As for `find`.
        budget: Calls and questions that are left.
        listed: Branches (by number) whose entries were all seen.
        unlisted: First branch that had to be listed as a whole and was not; None for none.
        unasked: Questions about paths that were not asked: (hides, key) -> first branch, and
            whether the entry lies outside.
        rest: Paths that were not asked about at all, with the first branch that was not asked.
        held: Answers of branches that were not compared yet, up to a number of rows.
        held_rows: Number of those rows.
        live: Candidates that the branches showed.
        asked: Branches (by number) that were asked.
    """

    run: Run
    branches: Sequence[str]
    commits: Sequence[str]
    heads: HeadEntries
    entries_of: Callable[[], Mapping[str, int]]
    limit: int
    staged: int = 0
    staged_names: Rows | None = None
    listed: set[int] = field(default_factory=set)
    unlisted: int | None = None
    unasked: dict[tuple[int, int], tuple[int, bool]] = field(default_factory=dict)
    rest: list[Rows] = field(default_factory=list)
    held: list[pa.RecordBatch] = field(default_factory=list)
    held_rows: int = 0
    live: list[Rows] = field(default_factory=list)
    asked: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.budget = CallBudget(self.limit)
        self.lock = Lock()

    def find(self, candidates: Candidates, since: Heads) -> Twins:
        """Search, and sum the results up."""
        suspicion = _Suspicion(candidates, None, _Suspects.none())
        if candidates.branches or self.heads.any_outside or self.heads.absent is not None:
            suspicion = self._suspicion(candidates)
        plan = self._plan(candidates, suspicion.suspects)
        objects_asked = 0
        tells = self.run.store.tells_content and self.heads.are_compared
        if tells and plan.of_paths > 0:
            suspicion, objects_asked = self._with_contents(suspicion, plan)
            if objects_asked:
                plan = self._plan(candidates, suspicion.suspects)
        candidates, suspects = suspicion.candidates, suspicion.suspects
        self._ask_whole(plan.whole, candidates)
        self._ask_around(suspects, candidates, scattered=not plan.fits)
        self._compare(candidates)
        live = _once(self._without_own(together(self.live))) if self.live else None
        left = self._undecided(suspicion)
        if left is not None and live is not None:
            left = without(left, live, "address")
        unbound = Counter(
            since.branches[branch].why for branch in self.branches if branch in since.branches
        )
        del unbound[""]
        figures = TwinFigures(
            candidates=candidates.objects,
            branches=len(self.branches),
            branches_asked=len(self.asked),
            branches_listed=len(self.listed),
            without_bound=dict(sorted(unbound.items())),
            paths=suspects.count,
            calls=self.budget.made - objects_asked,
            objects_asked=objects_asked,
            planned_calls=plan.calls + objects_asked,
            twin_calls=self.limit,
            is_held_up=self.budget.is_held_up,
            are_sizes_said=self.heads.are_sizes_said,
            **_kept("kept", candidates, live),
            **_kept("unchecked", candidates, left),
        )
        return Twins(live, left, figures)

    def _suspicion(self, candidates: Candidates) -> _Suspicion:
        """Find the suspect paths.

        The driver does it if it holds the candidates and few entries may hide one.
        """
        branches, alike = len(self.branches), None
        if isinstance(candidates.rows, pa.Table):
            alike = Alike.read(candidates.rows, self.heads, branches=branches, at_most=HELD)
        if alike is not None:
            return _Suspicion(candidates, alike, _Suspects.held(alike.suspects()))
        return _Suspicion(
            candidates, None, _Suspects.of(suspects_of(candidates, self.heads, branches=branches))
        )

    def _with_contents(self, suspicion: _Suspicion, plan: _Plan) -> tuple[_Suspicion, int]:
        """Ask the store for the contents of candidates that suspect paths may hide.

        That is done only where it costs least.

        Returns:
            What is known then, and the number of objects asked about; 0 if another way costs less.
        """
        doubted: Any
        if suspicion.alike is not None:
            doubted = suspicion.alike.doubted(suspicion.suspects.few)
            count = len(doubted)
        else:
            # It is persisted on its first run, which is the count.
            suspects = as_frame(self.heads.spark(), suspicion.suspects.all)
            doubted = with_suspect(suspicion.candidates, suspects).localCheckpoint(eager=False)
            count = doubted.count()
        # The query that decides whether checksums are believed costs most, so it runs last.
        is_least = 0 < count < plan.of_paths and count <= self.budget.left
        # Their contents may tell nothing. What suffices without them must still suffice then.
        is_least = is_least and not (plan.fits and plan.calls + count > self.budget.left)
        if not is_least or are_checksums_stated(self.heads) or not self.budget.take(count):
            return suspicion, 0
        store, threads = self.run.store, self.run.options.read_threads
        tasks = min(self.run.options.range_partitions, -(-count // PAGE))
        if suspicion.alike is None:
            return self._suspicion(
                with_contents(suspicion.candidates, doubted, store, threads=threads, tasks=tasks)
            ), count
        contents = contents_of(self.heads.spark, store, doubted, threads=threads, tasks=tasks)
        known = {
            row["address"]: row["md5"] for row in contents.to_pylist() if row["md5"] is not None
        }
        alike = replace(suspicion.alike, contents=known)
        return _Suspicion(suspicion.candidates, alike, _Suspects.held(alike.suspects())), count

    def _plan(self, candidates: Candidates, suspects: _Suspects) -> _Plan:
        """Choose for each branch between its paths and all its entries.

        If not everything fits the budget, branches are listed in their order, the oldest first.

        Candidates that may be dishonest may hide under any path of their branches. A path costs at
        most one call. A path that is no UTF-8 costs as many calls as listing all paths up to it
        that have the same beginning.
        """
        # A path concerns a number of first branches, so each branch also has the paths of all
        # branches behind it.
        from_last = accumulate(
            suspects.reach.get(number, 0) for number in range(len(self.branches), 0, -1)
        )
        of_branch = list(from_last)[::-1]
        if not candidates.dishonest and sum(of_branch) <= min(PAGE, self.budget.left):
            return _Plan([], sum(of_branch), sum(of_branch), fits=True)
        most = max(count(self.heads.rows), self.heads.least)
        plan = self._planned(candidates, suspects, of_branch, [most] * len(of_branch))
        if plan.fits:
            return plan
        # No branch has all entries of all heads.
        known = self.entries_of()
        entries = [known.get(commit_id, most) for commit_id in self.commits]
        return self._planned(candidates, suspects, of_branch, entries)

    def _planned(
        self,
        candidates: Candidates,
        suspects: _Suspects,
        of_branch: Sequence[int],
        entries: Sequence[int],
    ) -> _Plan:
        """Plan with the numbers of suspect paths and of entries of each branch."""
        pages = [count // PAGE + 1 for count in entries]
        dense = [
            number
            for number, count in enumerate(of_branch)
            if number < candidates.dishonest or 0 < entries[number] <= count * _DENSE
        ]
        # Each lot of paths begins its branch's listing anew.
        costs = [
            min(count, most + suspects.lots_planned - 1)
            for count, most in zip(of_branch, pages, strict=True)
        ]
        for number in dense:
            costs[number] = pages[number]
        # Pages show staged entries, too, on whatever branches these are.
        is_paged = bool(dense) or sum(costs) < sum(of_branch)
        calls = sum(costs) + (self.staged // PAGE if is_paged else 0)
        of_paths = sum(costs[candidates.dishonest :])
        if calls <= self.budget.left:
            return _Plan(dense, calls, of_paths, fits=True)
        first = min(self.budget.left, suspects.for_all * len(self.branches))
        affordable = bisect_right(
            list(accumulate(pages[: candidates.dishonest])), self.budget.left - first
        )
        return _Plan(list(range(affordable)), calls, of_paths, fits=False)

    def _ask_whole(self, whole: Sequence[int], candidates: Candidates) -> None:
        """List branches from their first entry to the last, side by side."""
        for batch in interleaved(whole, self._whole, threads=self.run.options.branches_at_once):
            self._hold(batch, candidates)
        # For a candidate that may be dishonest, nothing less will do.
        missing = [number for number in range(candidates.dishonest) if number not in self.listed]
        self.unlisted = min(missing, default=None)

    def _whole(self, number: int) -> Iterator[pa.RecordBatch]:
        server, repository_id, branch = (
            self.run.server,
            self.run.repository.id,
            self.branches[number],
        )
        complete = False
        try:
            for page in pages_of(server, repository_id, branch, budget=self.budget):
                complete = not page.has_more
                yield self._shown(page.entries, branch)
        except NotFoundError:
            if self._is_there(branch):
                raise
            complete = True
        with self.lock:
            self.asked.add(number)
            if complete:
                self.listed.add(number)

    def _ask_around(self, suspects: _Suspects, candidates: Candidates, *, scattered: bool) -> None:
        """Ask about single paths, lot after lot; in each lot, all branches side by side.

        If all paths fit, neighbouring paths are asked about together. Otherwise the paths come
        first whose question costs least, because one path that was not asked about keeps every
        candidate of its size.
        """
        left = [number for number in range(len(self.branches)) if number not in self.listed]
        if not left:
            return
        for lot, rest in suspects.lots(scattered=scattered):
            if self.budget.left <= 0:
                self.rest.append(_unasked_from(rest, left[0]))
                return
            ask = partial(self._around, _Lot.of(lot, left[0]))
            for batch in interleaved(left, ask, threads=self.run.options.branches_at_once):
                self._hold(batch, candidates)

    def _around(self, lot: _Lot, number: int) -> Iterator[pa.RecordBatch]:
        wanted = {
            path: rows for path, rows in lot.paths.items() if any(row[2] > number for row in rows)
        }
        if not wanted:
            return
        unasked: set[str] = set()
        server, repository_id, branch = (
            self.run.server,
            self.run.repository.id,
            self.branches[number],
        )
        try:
            found = addresses_on(
                server, repository_id, branch, wanted, budget=self.budget, unasked=unasked
            )
            yield self._shown(list(found), branch)
        except NotFoundError:
            if self._is_there(branch):
                raise
            return
        with self.lock:
            self.asked.add(number)
            for path in unasked:
                for hides, key, reach, is_outside in wanted[path]:
                    if reach > number:
                        first, outside = self.unasked.get((hides, key), (number, is_outside))
                        self.unasked[hides, key] = (min(first, number), outside or is_outside)

    def _is_there(self, branch: str) -> bool:
        """Say whether a branch exists although it was not found.

        What was staged on a deleted branch is gone with it.
        """
        return branch in {left.id for left in self.run.server.branches(self.run.repository.id)}

    def _shown(self, entries: Sequence[tuple[str, str]], branch: str) -> pa.RecordBatch:
        """Resolve the entries that a branch shows to their objects' addresses and their paths."""
        uris = pa.array([uri for _, uri in entries], pa.string())
        types = pa.repeat(pa.scalar(int(AddressType.FULL), pa.int32()), len(entries))
        address = self.run.namespace.relative_batch(uris, types)
        if address.null_count:
            outside = address.is_null()
            known = [_known_as(uri) for uri in uris.filter(outside).to_pylist()]
            address = pc.replace_with_mask(address, outside, pa.array(known, pa.string()))
        shown = pa.record_batch(
            [
                address,
                pa.array([path for path, _ in entries], pa.string()),
                pa.repeat(pa.scalar(branch, pa.string()), len(entries)),
            ],
            names=_SHOWN_ON.names,
        )
        return shown.filter(address.is_valid()).cast(_SHOWN_ON)

    def _hold(self, batch: pa.RecordBatch, candidates: Candidates) -> None:
        self.held.append(batch)
        self.held_rows += batch.num_rows
        if self.held_rows >= FOUND:
            self._compare(candidates)

    def _compare(self, candidates: Candidates) -> None:
        """Keep the candidates among the addresses that branches showed."""
        shown = pa.Table.from_batches(self.held, _SHOWN_ON)
        self.held, self.held_rows = [], 0
        if not shown.num_rows:
            return
        if isinstance(candidates.rows, pa.Table):
            kept = shown.filter(is_among(shown["address"], candidates.rows["address"]))
            kept = self._without_named(kept)
            self.live += [kept] if kept.num_rows else []
            return
        once = shown.group_by(_SHOWN_ON.names).aggregate([])
        # The rows that branches showed are bounded, and go to the candidates. Otherwise Spark would
        # send all candidates through the driver, once for each lot.
        held = sf.broadcast(frame_of(self.heads.spark(), once))
        found = (
            candidates.frame.select("address")
            .join(held, on="address", how="inner")
            .select(*_SHOWN_ON.names)
        )
        found = as_frame(self.heads.spark(), self._without_named(found)).localCheckpoint()
        if not found.isEmpty():
            self.live.append(found)
        del held, found
        # Java holds the rows of each lot as long as Python names them, which is until Python's
        # garbage collection.
        gc.collect()

    def _without_named(self, shown: Rows) -> Rows:
        """Leave out the staged names that a retention policy takes, on their branches.

        Args:
            shown: Columns of `_SHOWN_ON`.

        Returns:
            Columns of `_SHOWN`, each once.
        """
        if self.staged_names is not None and count(shown):
            known = as_frame(self.heads.spark(), self.staged_names)
            known = known.withColumnRenamed("path", "head_path").select(*_SHOWN_ON.names)
            left = as_frame(self.heads.spark(), shown).join(
                known, on=_SHOWN_ON.names, how="left_anti"
            )
            is_held = isinstance(shown, pa.Table)
            shown = left.select(*_SHOWN_ON.names).toArrow().cast(_SHOWN_ON) if is_held else left
        return distinct(shown, _SHOWN.names)

    def _without_own(self, live: Rows) -> Rows:
        """Leave out what a branch shows because its head has it, and heads agree on the path.

        A retention policy may name an object that a head has. That the head's branch answers with
        it is no sign of another entry. No head has any other candidate.
        """
        heads, pair = self.heads.rows, _SHOWN.names
        if isinstance(live, pa.Table) and isinstance(heads, pa.Table):
            # A path that is no UTF-8 never equals one that a branch shows.
            shown = live["head_path"].cast(pa.binary())
            at: dict[bytes, set[str]] = {}
            there = heads.filter(is_among(heads["head_path"], shown))
            for path, address in zip(
                there["head_path"].to_pylist(), there["address"].to_pylist(), strict=True
            ):
                at.setdefault(path, set()).add(address)
            names = zip(live["address"].to_pylist(), shown.to_pylist(), strict=True)
            return live.filter(pa.array([at.get(path) != {address} for address, path in names]))
        spark = self.heads.spark()
        entries = self.heads.frame.select(
            sf.col("head_path").cast("string").alias("head_path"),
            sf.col("address").alias("of_head"),
        )
        own = (
            entries.join(sf.broadcast(as_frame(spark, live)), on="head_path", how="inner")
            .groupBy(*pair)
            .agg(sf.bool_and(sf.col("of_head") == sf.col("address")).alias("is_own"))
            .where("is_own")
            .select(*pair)
        )
        if isinstance(live, pa.Table):
            return live.join(own.toArrow().cast(_SHOWN), pair, join_type="left anti")
        return live.join(own, on=pair, how="left_anti")

    def _undecided(self, suspicion: _Suspicion) -> Rows | None:
        """Return the candidates that may hide where nobody was asked; None for none."""
        candidates = suspicion.candidates
        whatever = {hides for hides, _ in self.unasked}
        for rows in self.rest:
            whatever |= _kinds(rows)
        if ANY in whatever:
            return selected(candidates.rows, ["address"])
        found: list[Rows] = []
        if DISHONEST in whatever:
            found.append(_dishonest(candidates.rows, -1))
        elif self.unlisted is not None:
            found.append(_dishonest(candidates.rows, self.unlisted))
        if SIZED in whatever:
            unasked = together([self._unasked_by_path(), *map(_sized, self.rest)])
            found.append(
                undecided(candidates, as_frame(self.heads.spark(), unasked))
                if suspicion.alike is None
                else _undecided_of(suspicion.alike, unasked)
            )
        if not found:
            return None
        both = distinct(together(found), ["address"])
        return both if isinstance(both, pa.Table) else both.localCheckpoint()

    def _unasked_by_path(self) -> pa.Table:
        """Return the questions about sized paths that were not asked: columns of `_UNASKED`."""
        rows = [
            (key, first, outside)
            for (hides, key), (first, outside) in self.unasked.items()
            if hides == SIZED
        ]
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        return pa.table(
            [pa.array(column, kind.type) for column, kind in zip(columns, _UNASKED, strict=True)],
            schema=_UNASKED,
        )


def _unasked_from(suspects: Rows, number: int) -> Rows:
    """Return the suspects of which a branch, and those behind it, were not asked: from_branch."""
    if isinstance(suspects, pa.Table):
        left = suspects.filter(pc.greater(suspects["branches"], number))
        return left.append_column(
            "from_branch", pa.repeat(pa.scalar(number, pa.int32()), left.num_rows)
        )
    left = suspects.where(sf.col("branches") > number)
    return left.withColumn("from_branch", sf.lit(number))


def _once(live: Rows) -> Rows:
    """Return each object (address) with the first of its paths (head_path)."""
    if isinstance(live, pa.Table):
        first = live.group_by("address").aggregate([("head_path", "min")])
        return first.rename_columns(_SHOWN.names)
    return live.groupBy("address").agg(sf.min("head_path").alias("head_path"))


def _kinds(rows: Rows) -> set[int]:
    """Return what paths (hides) may hide."""
    if isinstance(rows, pa.Table):
        return set(rows["hides"].unique().to_pylist())
    return {row.hides for row in rows.select("hides").distinct().collect()}


def _dishonest(candidates: Rows, beyond: int) -> Rows:
    """Return the addresses of dishonest candidates that may hide on more branches than that."""
    if isinstance(candidates, pa.Table):
        chosen = pc.and_(candidates["is_dishonest"], pc.greater(candidates["branches"], beyond))
        return candidates.filter(chosen).select(["address"])
    chosen = sf.col("is_dishonest") & (sf.col("branches") > beyond)
    return candidates.where(chosen).select("address")


def _sized(rest: Rows) -> Rows:
    """Return the sized paths of those that were not asked about; columns of `_UNASKED`."""
    if isinstance(rest, pa.Table):
        return rest.filter(pc.equal(rest["hides"], SIZED)).select(_UNASKED.names).cast(_UNASKED)
    return rest.where(sf.col("hides") == SIZED).select(*_UNASKED.names)


def _undecided_of(alike: Alike, unasked: Rows) -> pa.Table:
    table = unasked if isinstance(unasked, pa.Table) else unasked.toArrow()
    rows = (tuple(row.values()) for row in table.select(_UNASKED.names).to_pylist())
    return pa.table({"address": pa.array(alike.undecided(rows), pa.string())})


@dataclass(frozen=True)
class _Suspicion:
    """What is known before branches are asked.

    Attributes:
        candidates: The candidates.
        alike: The candidates with the entries that may hide one, if the driver holds both; else
            None.
        suspects: The paths under which a candidate may hide.
    """

    candidates: Candidates
    alike: Alike | None
    suspects: _Suspects


@dataclass(frozen=True)
class _Plan:
    """The chosen way of asking.

    Attributes:
        whole: Branches to list from their first entry to the last.
        calls: Largest cost of everything, in calls.
        of_paths: The part of it that a look at the candidates themselves may save.
        fits: Whether the budget suffices.
    """

    whole: Sequence[int]
    calls: int
    of_paths: int
    fits: bool


@dataclass(frozen=True)
class _Lot:
    """Paths that are asked about together.

    They map a path (U+FFFD for what is no UTF-8) -> hides, key, branches, is_outside of each row.
    """

    paths: Mapping[str, list[tuple[int, int, int, bool]]]

    @classmethod
    def of(cls, rows: pa.Table, first: int) -> _Lot:
        """Take the rows that concern the branch `first` or a later one."""
        paths: dict[str, list[tuple[int, int, int, bool]]] = {}
        for row in rows.filter(pc.greater(rows["branches"], first)).to_pylist():
            about = (row["hides"], row["key"], row["branches"], row["is_outside"])
            paths.setdefault(row["head_path"].decode(errors="replace"), []).append(about)
        return cls(paths)


@dataclass(frozen=True)
class _Suspects:
    """Suspect paths: on the driver if one lot holds them, else on the executors.

    Attributes:
        rows: Columns of `SUSPECTS`; None if they are too many.
        large: The same as a frame that was read; None if they are few.
        reach: Number of paths by the number of branches that they concern.
        for_all: Number of paths that hide anything, or anything dishonest.
    """

    rows: pa.Table | None
    large: DataFrame | None
    reach: Mapping[int, int]
    for_all: int

    @property
    def count(self) -> int:
        """Number of all paths."""
        return sum(self.reach.values())

    @classmethod
    def none(cls) -> _Suspects:
        """Make it for no paths, where time alone rules all of them out."""
        return cls(SUSPECTS.empty_table(), None, {}, 0)

    @classmethod
    def held(cls, few: pa.Table) -> _Suspects:
        """Make it from paths that the driver holds."""
        for_all = pc.sum(pc.not_equal(few["hides"], SIZED)).as_py() or 0
        return cls(few, None, Counter(few["branches"].to_pylist()), for_all)

    @classmethod
    def of(cls, frame: DataFrame) -> _Suspects:
        """Make it from a frame, which is read."""
        few = frame.select(*SUSPECTS.names).limit(LOT + 1).toArrow()
        if few.num_rows <= LOT:
            return cls.held(few.cast(SUSPECTS))
        large = frame.select(*SUSPECTS.names).localCheckpoint()
        counts = (
            large.groupBy("branches", (sf.col("hides") != SIZED).alias("whatever"))
            .count()
            .collect()
        )
        reach: Counter[int] = Counter()
        for row in counts:
            reach[row["branches"]] += row["count"]
        return cls(None, large, reach, sum(row["count"] for row in counts if row["whatever"]))

    @property
    def lots_planned(self) -> int:
        """Number of lots."""
        return 1 if self.large is None else -(-self.count // LOT)

    @property
    def few(self) -> pa.Table:
        """The paths that the driver holds."""
        assert self.rows is not None  # noqa: S101 - where they are not large
        return self.rows

    @property
    def all(self) -> Rows:
        """All of them."""
        return self.few if self.large is None else self.large

    def lots(self, *, scattered: bool) -> Iterator[tuple[pa.Table, Rows]]:
        """Yield the paths by lots, each with the rows of it and of all later lots."""
        if self.large is None:
            if self.few.num_rows:
                yield self.few, self.few
            return
        order = [sf.col("head_path")]
        large = self.large
        if scattered:
            costs = large.groupBy("hides", "key").agg((sf.sum("branches")).alias("cost"))
            large = large.join(costs, on=["hides", "key"], how="inner")
            order = [(sf.col("hides") == SIZED), sf.col("cost"), sf.col("key"), *order]
        number = self.lots_planned
        lots = (
            large.repartitionByRange(number, *order)
            .withColumn("lot", sf.spark_partition_id())
            .select("lot", *SUSPECTS.names)
            .localCheckpoint()
        )
        for at in range(number):
            behind = lots.where(sf.col("lot") >= at).drop("lot")
            yield (
                lots.where(sf.col("lot") == at).select(*SUSPECTS.names).toArrow().cast(SUSPECTS),
                behind,
            )


def _known_as(uri: str) -> str | None:
    """Return the object that an outside address may be by another name of the store.

    For an object in quarantine it is the key there.
    """
    begin = uri.rfind(f"{lakegc_keys.QUARANTINE}run_id=")
    return own_name(uri) if begin < 0 else uri[begin:]


def _kept(what: str, candidates: Candidates, chosen: Rows | None) -> dict[str, Any]:
    """Count and name objects that the search keeps from going."""
    if chosen is None:
        return {}
    if isinstance(candidates.rows, pa.Table) and isinstance(chosen, pa.Table):
        rows = candidates.rows
        kept = rows.filter(is_among(rows["address"], chosen["address"]))
        objects, size = kept.num_rows, pc.sum(kept["size_bytes"]).as_py() or 0
        named = sorted(kept["address"].to_pylist())[:NAMED]
    else:
        addresses = as_frame(candidates.spark(), chosen.select(["address"]))
        frame = candidates.frame.join(addresses, on="address", how="left_semi")
        figures = frame.agg(sf.count("*"), sf.coalesce(sf.sum("size_bytes"), sf.lit(0))).first()
        assert figures is not None  # noqa: S101 - an aggregate without grouping has one row
        objects, size = figures
        first = frame.orderBy("address").select("address").limit(NAMED) if objects else None
        named = [] if first is None else [row.address for row in first.collect()]
    return {
        f"{what}_objects": objects,
        f"{what}_bytes": size,
        f"{what}_named": tuple(named),
    }
