"""Find twins: staged entries that the server's scan cannot see (safety 14, 34).

Such an entry is identical content that was uploaded again.

The entry has the size and checksum of the committed entry at its path, so the scan takes it for
unchanged. Yet reads on the branch are answered from the new object, which nothing else refers to.
Only the branch itself shows it. Times (`heads`) and sizes (`suspects`) determine which branch is
asked about what. Candidates for which the calls do not suffice are kept, and no others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.addresses.collectable import own_name
from spark_core.addresses.namespace import AddressType
from spark_core.errors import NotFoundError, RepositoryStateError
from spark_core.lakefs import CallBudget, addresses_on, pages_of
from spark_core.records.figures import TwinFigures
from spark_core.references.explanations import UNREADABLE
from spark_core.references.heads import Heads
from spark_core.references.sizes import HeadEntries, are_checksums_stated
from spark_core.references.suspects import (
    ANY,
    DISHONEST,
    KEYS,
    SIZED,
    Candidates,
    Left,
    Suspects,
    Unasked,
    candidates_of,
    chosen,
    halves_of,
    hidden_by,
    suspects_of,
    with_contents,
)
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, numbers_of
from spark_core.spark.rows import Rows, filtered, is_among
from spark_core.spark.tasks import interleaved

NAMED = 20

# Paths that are asked about together.
LOT = 50_000

# Entries of a page. If one in this many of a branch's entries is suspect, the branch is listed as a
# whole.
PAGE = 1_000
_DENSE = 4

# Questions to the store that cost no more than a call, which has the server list a page.
ASKED_FOR_A_CALL = 10

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
# Keys, and the first branch that was not asked about their paths.
_UNASKED = KEYS.append(pa.field("from_branch", pa.int32(), nullable=False))


@dataclass(frozen=True)
class Twins:
    """The result of the search.

    Attributes:
        live: Objects that a branch really answers from: column address, and head_path, one of the
            paths.
        undecided: Hashes of the candidates that may hide where nobody could be asked, sorted; none
            of those that are live.
        figures: What was done and found, for the manifest.
    """

    live: pa.Table
    undecided: Any
    figures: TwinFigures

    @property
    def keeps_any(self) -> bool:
        """Whether there is anything to take out."""
        return bool(self.figures.kept_objects or self.figures.unchecked_objects)

    def without_twins(self, candidates: Rows) -> Rows:
        """Take out the candidates that are live, and those that are undecided."""
        kept = sorted_once(np.concatenate([_hashes(self.live), self.undecided]))
        return filtered(candidates, partial(_are_others, kept)) if len(kept) else candidates

    def only_undecided(self, candidates: Rows) -> Rows:
        """Return the candidates that are undecided."""
        return filtered(candidates, partial(_are_those, self.undecided))


def _are_those(hashes: Any, batch: pa.RecordBatch) -> pa.BooleanArray:
    return pa.array(are_among(hashed(batch.column("address")).to_numpy(), hashes))


def _are_others(hashes: Any, batch: pa.RecordBatch) -> pa.BooleanArray:
    return pc.invert(_are_those(hashes, batch))


def _hashes(live: pa.Table) -> Any:
    return hashed(live["address"].combine_chunks()).to_numpy()


# Result of a search without candidates: nobody need be asked.
NONE = Twins(_SHOWN.empty_table(), np.empty(0, np.int64), TwinFigures())


def find(
    run: Run,
    candidates: AnySource,
    heads: HeadEntries,
    since: Heads,
    *,
    grace: timedelta,
    entries_of: Callable[[], Mapping[str, int]],
    objects: int = 0,
    staged: int = 0,
    staged_names: AnySource | None = None,
    said: AnySource | None = None,
) -> Twins:
    """Ask branches what they read under the paths that may hide a candidate.

    The search takes the cheapest of three ways. It asks around single paths, or lists a whole
    branch, or asks the store for the MD5 of the candidates' content, where the store gives it.

    The cost is an exchange of candidates and entries of heads, and the calls. The driver holds 4
    bytes for each candidate, 8 for each that stays, and a bounded number of questions.

    Args:
        run: The run; `RunOptions.twin_calls` bounds the calls to the server, and the questions to
            the store.
        candidates: Columns of `suspects.OBJECTS`.
        heads: The entries of branch heads.
        since: Since when each branch stands on its head.
        grace: The server's grace period.
        entries_of: Gives the number of entries by commit, of every head. It is read where the calls
            might not suffice.
        objects: How many objects the repository has; the calls grow with them.
        staged: Number of entries that are known to be staged on the branches.
        staged_names: Columns of `policy_rows.STAGED_NAMES`: names under which candidates are staged
            and may go all the same, by a retention policy. Any other name keeps them. None for
            none.
        said: Entries that expired commits have of the candidates: columns address_hash, size_bytes
            and checksum of `explanations.ENTRIES`. None for none.

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
        said=said,
    )
    return search.find(
        candidates_of(
            heads.spark,
            candidates,
            [when for when, _ in moments],
            all_dishonest=heads.are_sizes_said or run.options.hidden_entries == "ask_all",
            threads=run.options.read_threads,
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
        said: As for `find`.
        budget: Calls and questions that are left.
        listed: Branches (by number) whose entries were all seen.
        unlisted: First branch that had to be listed as a whole and was not; None for none.
        unasked: Questions about paths that were not asked: (hides, key) -> first branch, and
            whether the entry lies outside.
        rest: Keys of paths that were not asked about at all; columns of `_UNASKED`.
        shown: What branches showed that may be a candidate; columns of `_SHOWN_ON`.
        halves: Upper halves of the candidates' hashes, sorted.
        asked: Branches (by number) that were asked.
    """

    run: Run
    branches: Sequence[str]
    commits: Sequence[str]
    heads: HeadEntries
    entries_of: Callable[[], Mapping[str, int]]
    limit: int
    staged: int = 0
    staged_names: AnySource | None = None
    said: AnySource | None = None
    listed: set[int] = field(default_factory=set)
    unlisted: int | None = None
    unasked: dict[tuple[int, int], tuple[int, bool]] = field(default_factory=dict)
    rest: list[pa.Table] = field(default_factory=list)
    shown: list[pa.RecordBatch] = field(default_factory=list)
    halves: Any = None
    asked: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.budget = CallBudget(self.limit)
        self.lock = Lock()

    def find(self, candidates: Candidates, since: Heads) -> Twins:
        """Search, and sum the results up."""
        candidates, suspects = self._first_suspects(candidates)
        plan = self._plan(candidates, suspects)
        objects_asked = 0
        tells = self.run.store.tells_content and self.heads.are_compared
        if tells and plan.of_paths > 0:
            asked, objects_asked = self._with_contents(candidates, suspects, plan)
            if objects_asked:
                candidates, suspects = asked, self._suspects(asked)
                plan = self._plan(candidates, suspects)
        if plan.calls:
            self.halves = candidates.halves()
        self._ask_whole(plan.whole, candidates)
        self._ask_around(suspects, scattered=not plan.fits)
        live = self._live(candidates)
        left = self._undecided(candidates, live)
        unbound = Counter(
            since.branches[branch].why for branch in self.branches if branch in since.branches
        )
        del unbound[""]
        kept = candidates.named(sorted_once(_hashes(live)))
        figures = TwinFigures(
            candidates=candidates.objects.rows,
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
            kept_objects=kept.num_rows,
            kept_bytes=pc.sum(kept["size_bytes"]).as_py() or 0,
            kept_named=tuple(sorted(kept["address"].to_pylist())[:NAMED]),
            unchecked_objects=len(left.hashes),
            unchecked_bytes=left.size_bytes,
            unchecked_named=candidates.first_named(left.hashes, NAMED),
        )
        return Twins(live, left.hashes, figures)

    def _first_suspects(self, candidates: Candidates) -> tuple[Candidates, Suspects]:
        """Find whom to ask about, and return what is known of the candidates from here on.

        Entries that cannot be read say nothing. If they can be read now and not later, the search
        fails: what was left unasked by what they say would else be looked for without it.
        """
        if candidates.branches and self.said is not None and self._believes():
            believing = candidates.believing(self.said, self.heads)
            with suppress(*UNREADABLE):
                return believing, self._suspects(believing)
        if candidates.branches or self.heads.any_outside or self.heads.absent is not None:
            return candidates, self._suspects(candidates)
        return candidates, Suspects()

    def _believes(self) -> bool:
        """Say whether checksums of entries are believed.

        They are not where any are known to be made up, nor where the store would show that and
        nobody could compare all.
        """
        if self.heads.are_sizes_said or self.run.options.hidden_entries == "ask_all":
            return False
        if self.run.store.tells_content:
            return self.heads.are_compared and not self._are_checksums_said()
        return not self.heads.are_checksums_said

    def _are_checksums_said(self) -> bool:
        is_said = are_checksums_stated(self.heads)
        self.heads = replace(self.heads, are_checksums_said=is_said)
        return is_said

    def _suspects(self, candidates: Candidates) -> Suspects:
        return suspects_of(candidates, self.heads, branches=len(self.branches))

    def _with_contents(
        self, candidates: Candidates, suspects: Suspects, plan: _Plan
    ) -> tuple[Candidates, int]:
        """Ask the store for the contents of candidates that suspect paths may hide.

        That is done only where it costs least.

        Returns:
            What is known then, and the number of objects asked about; 0 if another way costs less.
        """
        every = np.zeros(suspects.keys.num_rows, np.int32)
        doubted = hidden_by(candidates, Unasked.of(suspects.keys, first=every)).hashes
        count = len(doubted)
        # Whether checksums are believed costs most to find out, so it comes last.
        is_least = 0 < count < plan.of_paths * ASKED_FOR_A_CALL and count <= self.budget.left
        # Their contents may tell nothing. What suffices without them must still suffice then.
        is_least = is_least and not (plan.fits and plan.calls + count > self.budget.left)
        if not is_least or self._are_checksums_said() or not self.budget.take(count):
            return candidates, 0
        objects = candidates.named(sorted_once(doubted))
        return with_contents(candidates, objects, self.run.store), count

    def _plan(self, candidates: Candidates, suspects: Suspects) -> _Plan:
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
        # Single paths do not do for a branch of which not all questions are held.
        whole = max(candidates.dishonest, pc.max(suspects.unheld["branches"]).as_py() or 0)
        if not whole and sum(of_branch) <= min(PAGE, self.budget.left):
            return _Plan([], sum(of_branch), sum(of_branch), fits=True)
        most = max(suspects.entries, self.heads.least)
        plan = self._planned(candidates, suspects, of_branch, [most] * len(of_branch), whole)
        if plan.fits:
            return plan
        # No branch has all entries of all heads.
        known = self.entries_of()
        entries = [known.get(commit_id, most) for commit_id in self.commits]
        return self._planned(candidates, suspects, of_branch, entries, whole)

    def _planned(
        self,
        candidates: Candidates,
        suspects: Suspects,
        of_branch: Sequence[int],
        entries: Sequence[int],
        whole: int,
    ) -> _Plan:
        """Plan with the numbers of suspect paths and of entries of each branch.

        So many first branches are listed whole, whatever that costs.
        """
        pages = [count // PAGE + 1 for count in entries]
        dense = [
            number
            for number, count in enumerate(of_branch)
            if number < whole or 0 < entries[number] <= count * _DENSE
        ]
        # Each lot of paths begins its branch's listing anew.
        lots = max(1, -(-suspects.questions.num_rows // LOT))
        costs = [min(count, most + lots - 1) for count, most in zip(of_branch, pages, strict=True)]
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
            self.shown.append(batch)
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

    def _ask_around(self, suspects: Suspects, *, scattered: bool) -> None:
        """Ask about single paths, lot after lot; in each lot, all branches side by side.

        If all paths fit, neighbouring paths are asked about together. Otherwise the paths come
        first whose question costs least, because one path that was not asked about keeps every
        candidate of its size.
        """
        left = [number for number in range(len(self.branches)) if number not in self.listed]
        if not left:
            return
        self.rest.append(_unasked_from(suspects.unheld, left[0]))
        is_sized = pc.equal(suspects.questions["hides"], SIZED).cast(pa.int8())
        questions = suspects.questions.append_column("is_sized", is_sized)
        order = [*(("is_sized", "cost", "key") if scattered else ()), "head_path"]
        questions = questions.sort_by([(name, "ascending") for name in order])
        for begin in range(0, questions.num_rows, LOT):
            if self.budget.left <= 0:
                self.rest.append(_unasked_from(questions.slice(begin), left[0]))
                return
            ask = partial(self._around, _Lot.of(questions.slice(begin, LOT), left[0]))
            for batch in interleaved(left, ask, threads=self.run.options.branches_at_once):
                self.shown.append(batch)

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
        inside = shown.filter(address.is_valid()).cast(_SHOWN_ON)
        halves = halves_of(hashed(inside.column("address")).to_numpy())
        return inside.filter(pa.array(are_among(halves, self.halves)))

    def _live(self, candidates: Candidates) -> pa.Table:
        """Return the candidates among what branches showed, each with the first of its paths."""
        shown = pa.Table.from_batches(self.shown, _SHOWN_ON)
        named = candidates.named(sorted_once(_hashes(shown)))
        shown = shown.filter(is_among(shown["address"], named["address"]))
        if not shown.num_rows:
            return _SHOWN.empty_table()
        shown = self._without_own(self._without_named(shown))
        first = shown.group_by("address").aggregate([("head_path", "min")])
        return first.rename_columns(_SHOWN.names).cast(_SHOWN)

    def _without_named(self, shown: pa.Table) -> pa.Table:
        """Leave out the staged names that a retention policy takes, on their branches."""
        if self.staged_names is None:
            return shown
        hashes = sorted_once(_hashes(shown))
        known = chosen(self.staged_names, "address", hashes, self.heads.spark)
        known = known.rename_columns({"path": "head_path"})
        return shown.join(known, _SHOWN_ON.names, join_type="left anti")

    def _without_own(self, shown: pa.Table) -> pa.Table:
        """Leave out what a branch shows because its head has it, and heads agree on the path.

        A retention policy may name an object that a head has. That the head's branch answers with
        it is no sign of another entry. No head has any other candidate.
        """
        # A path that is no UTF-8 never equals one that a branch shows.
        paths = shown["head_path"].cast(pa.binary()).combine_chunks()
        hashes = sorted_once(hashed(paths).to_numpy())
        there = chosen(self.heads.rows(), "head_path", hashes, self.heads.spark)
        at: dict[bytes, set[str]] = {}
        for path, address in zip(
            there["head_path"].to_pylist(), there["address"].to_pylist(), strict=True
        ):
            at.setdefault(path, set()).add(address)
        names = zip(shown["address"].to_pylist(), paths.to_pylist(), strict=True)
        is_other = [at.get(path) != {address} for address, path in names]
        return shown.filter(pa.array(is_other, pa.bool_()))

    def _undecided(self, candidates: Candidates, live: pa.Table) -> Left:
        """Return the candidates that may hide where nobody was asked."""
        unasked = pa.concat_tables([self._unasked_by_path(), *self.rest])
        whatever = set(unasked["hides"].unique().to_pylist())
        beyond = -1 if DISHONEST in whatever else self.unlisted
        if not whatever and beyond is None:
            return Left(np.empty(0, np.int64), 0)
        sized = unasked.filter(pc.equal(unasked["hides"], SIZED))
        return hidden_by(
            candidates,
            Unasked.of(
                sized,
                first=numbers_of(sized["from_branch"]),
                beyond=beyond,
                is_any=ANY in whatever,
                known=sorted_once(_hashes(live)),
            ),
        )

    def _unasked_by_path(self) -> pa.Table:
        """Return the questions about paths that were not asked: columns of `_UNASKED`."""
        rows = [
            (hides, key, first + 1, outside, first)
            for (hides, key), (first, outside) in self.unasked.items()
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(_UNASKED)
        return pa.table(
            [pa.array(column, kind.type) for column, kind in zip(columns, _UNASKED, strict=True)],
            schema=_UNASKED,
        )


def _unasked_from(keys: pa.Table, number: int) -> pa.Table:
    """Return the keys of which a branch, and those behind it, were not asked: `_UNASKED`."""
    left = keys.select(KEYS.names).filter(pc.greater(keys["branches"], number))
    first = pa.repeat(pa.scalar(number, pa.int32()), left.num_rows)
    return left.append_column("from_branch", first).cast(_UNASKED)


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


def _known_as(uri: str) -> str | None:
    """Return the object that an outside address may be by another name of the store.

    For an object in quarantine it is the key there.
    """
    begin = uri.rfind(f"{lakegc_keys.QUARANTINE}run_id=")
    return own_name(uri) if begin < 0 else uri[begin:]
