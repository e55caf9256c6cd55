"""Search for hidden entries: who could hide, whom to ask, and what the answers mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import hashed, sorted_once
from spark_core.errors import RepositoryStateError
from spark_core.lakefs import CallBudget
from spark_core.records.figures import TwinFigures
from spark_core.references.expired_entries import UNREADABLE
from spark_core.references.head_entries import STATED, HeadEntries, SeenInStore
from spark_core.references.heads import Heads
from spark_core.references.twins.answers import READ_BY_BRANCH, Answers
from spark_core.references.twins.asking import SHOWN, Asking, contents_of
from spark_core.references.twins.candidates import Candidates, chosen
from spark_core.references.twins.evidence import Evidence
from spark_core.references.twins.plan import AskingPlan, cheapest
from spark_core.references.twins.questions import ANY, DISHONEST, SIZED, Suspects
from spark_core.references.twins.suspects import suspects_of
from spark_core.references.twins.unasked import Unasked, hidden_by
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, numbers_of, source_of

NAMED = 20

# Questions to the store that cost no more than a call, which has the server list a page.
ASKED_FOR_A_CALL = 10

# A search without a limit of its own may make so many calls at least, so many for each branch, and
# one for so many listed objects: a share of what the mark costs anyway.
LEAST_CALLS, CALLS_OF_A_BRANCH, OBJECTS_OF_A_CALL = 1_000, 10, 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEFORE_ALL = -(2**63)


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
) -> Answers:
    """Ask branches what they read under the paths that may hide a candidate.

    The search takes the cheapest of three ways. It asks around single paths, or lists a whole
    branch, or asks the store for the MD5 of the candidates' content, where the store gives it.

    The cost is an exchange of candidates and entries of heads, and the calls. The driver holds 4
    bytes for each candidate, 8 for each that stays, and a bounded number of questions.

    Args:
        run: The run; `RunOptions.twin_calls` bounds the calls to the server, and the questions to
            the store.
        candidates: Columns of `OBJECTS`.
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
        said: Entries that expired commits have of the candidates: columns of
            `expired_entries.SAID`. None for none.

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
    budget = CallBudget(limit, until=monotonic() + run.options.twin_time.total_seconds())
    search = _Search(
        run,
        Candidates.of(
            heads.spark,
            candidates,
            [when for when, _ in moments],
            all_dishonest=heads.are_sizes_said or run.options.hidden_entries == "ask_all",
            threads=run.options.read_threads,
        ),
        heads,
        since,
        entries_of,
        Asking(run, branches, budget),
        staged=staged,
        staged_names=staged_names,
        said=said,
    )
    return search.find()


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
    """One search: what it knows, and its findings.

    Attributes:
        run: The run.
        candidates: The objects that are left to go.
        heads: The entries of branch heads.
        since: As for `find`, like `entries_of`.
        asking: Asks branches.
        staged: As for `find`, like the following.
        evidence: What is known of the candidates' contents.
        suspects: The paths that may hide one.
        plan: How to ask about them.
        objects_asked: Objects that the store was asked about.
    """

    run: Run
    candidates: Candidates
    heads: HeadEntries
    since: Heads
    entries_of: Callable[[], Mapping[str, int]]
    asking: Asking
    staged: int = 0
    staged_names: AnySource | None = None
    said: AnySource | None = None
    evidence: Evidence = field(default_factory=Evidence)
    suspects: Suspects = field(default_factory=Suspects)
    objects_asked: int = 0

    def find(self) -> Answers:
        """Search, and sum the results up."""
        limit = self.asking.budget.left
        self._suspect()
        plan = self._plan()
        if self._asks_for_contents(plan):
            plan = self._plan()
        if plan.calls:
            self.asking.halves = self.candidates.halves()
        self.asking.ask_whole(plan.whole)
        self.asking.ask_around(self.suspects, scattered=not plan.fits)
        read = self._read()
        hashes = sorted_once(numbers_of(read["address_hash"]))
        may_hide, size_bytes = self._may_hide(hashes)
        kept = self.candidates.named(hashes)
        budget = self.asking.budget
        figures = TwinFigures(
            candidates=self.candidates.objects.rows,
            branches=len(self.asking.branches),
            branches_asked=len(self.asking.asked),
            branches_listed=len(self.asking.listed),
            without_bound=self._without_bound(),
            paths=self.suspects.count,
            calls=budget.made - self.objects_asked,
            objects_asked=self.objects_asked,
            planned_calls=plan.calls + self.objects_asked,
            twin_calls=limit,
            is_held_up=budget.is_held_up,
            is_late=budget.is_late or None,
            are_sizes_said=self.heads.are_sizes_said,
            kept_objects=kept.num_rows,
            kept_bytes=pc.sum(kept["size_bytes"]).as_py() or 0,
            kept_named=tuple(sorted(kept["address"].to_pylist())[:NAMED]),
            unchecked_objects=len(may_hide),
            unchecked_bytes=size_bytes,
            unchecked_named=self.candidates.first_named(may_hide, NAMED),
        )
        return Answers(read, may_hide, figures)

    def _without_bound(self) -> Mapping[str, int]:
        known = self.since.branches
        why = Counter(known[branch].why for branch in self.asking.branches if branch in known)
        del why[""]
        return dict(sorted(why.items()))

    def _suspect(self) -> None:
        """Find whom to ask about, and what is known of the candidates from here on.

        Entries that cannot be read say nothing. If they can be read now and not later, the search
        fails: what was left unasked by what they say would else be looked for without it.
        """
        lists_content, seen = self.run.store.lists_content, self._seen()
        if (
            self.candidates.branches
            and (self.said is not None or lists_content)
            and self._believes_checksums()
        ):
            evidence = Evidence.of(self.said, self.heads, seen, lists_content=lists_content)
            with suppress(*UNREADABLE):
                self.suspects, self.evidence = self._suspects(evidence), evidence
                return
        if self.heads.lost is not None:
            absent = sorted_once(np.concatenate([self.heads.absent, self.heads.lost()]))
            self.heads = replace(self.heads, absent=absent)
        if self.candidates.branches or self.heads.any_outside or len(self.heads.absent):
            self.suspects = self._suspects(self.evidence)

    def _seen(self) -> SeenInStore | None:
        """Look for the objects of heads' entries that only the index has; None for a clean mark.

        An entry without an object may hide anything, and one whose object nobody saw clears nobody,
        whatever is known of candidates by then.
        """
        if not self.candidates.branches or self.heads.seen is None:
            return None
        seen = self.heads.seen()
        absent = sorted_once(np.concatenate([self.heads.absent, seen.lost]))
        self.heads = replace(self.heads, absent=absent)
        self.evidence = replace(self.evidence, seen=seen.there)
        return seen

    def _believes_checksums(self) -> bool:
        """Say whether checksums of entries and of the listing are believed.

        They are not where any of an entry is known to be made up.
        """
        if self.heads.are_sizes_said or self.run.options.hidden_entries == "ask_all":
            return False
        return not (self.run.store.tells_content and self.heads.are_checksums_said())

    def _suspects(self, evidence: Evidence) -> Suspects:
        branches = len(self.asking.branches)
        return suspects_of(self.candidates, evidence, self.heads, branches=branches)

    def _asks_for_contents(self, plan: AskingPlan) -> bool:
        """Ask the store for the contents of candidates that suspect paths may hide.

        That is done only where it costs least. Returns whether it was done.
        """
        if not self.run.store.tells_content or plan.of_paths <= 0:
            return False
        every = np.zeros(self.suspects.keys.num_rows, np.int32)
        unasked = Unasked.of(self.suspects.keys, first=every)
        doubted, _ = hidden_by(self.candidates, self.evidence, unasked)
        count, budget = len(doubted), self.asking.budget
        # Whether checksums are believed costs most to find out, so it comes last.
        is_least = 0 < count < plan.of_paths * ASKED_FOR_A_CALL and count <= budget.left
        # Their contents may tell nothing. What suffices without them must still suffice then.
        is_least = is_least and not (plan.fits and plan.calls + count > budget.left)
        if not is_least or self.heads.are_checksums_said() or not budget.take(count):
            return False
        told = contents_of(
            self.run.store,
            self.candidates.named(doubted)["address"].to_pylist(),
            threads=self.run.options.read_threads,
        )
        self.objects_asked = count
        self.evidence = self.evidence.with_answers(source_of(told, STATED))
        self.suspects = self._suspects(self.evidence)
        return True

    def _plan(self) -> AskingPlan:
        most = max(self.suspects.entries, self.heads.least)
        plan = self._cheapest([most] * len(self.asking.branches))
        if plan.fits:
            return plan
        # No branch has all entries of all heads.
        known, heads = self.entries_of(), self.since.branches
        return self._cheapest(
            [
                known.get(heads[branch].commit_id, most) if branch in heads else most
                for branch in self.asking.branches
            ]
        )

    def _cheapest(self, entries: Sequence[int]) -> AskingPlan:
        return cheapest(
            self.suspects,
            entries,
            dishonest=self.candidates.dishonest,
            staged=self.staged,
            left=self.asking.budget.left,
        )

    def _read(self) -> pa.Table:
        """Return the candidates among what branches showed: `READ_BY_BRANCH`."""
        shown = pa.Table.from_batches(self.asking.shown, SHOWN)
        named = self.candidates.named(sorted_once(_hashes(shown)))
        shown = shown.filter(pc.is_in(shown["address"], named["address"].combine_chunks()))
        if not shown.num_rows:
            return READ_BY_BRANCH.empty_table()
        shown = self._without_own(self._without_named(shown))
        first = (
            shown.sort_by([(name, "ascending") for name in SHOWN.names])
            .group_by("address", use_threads=False)
            .aggregate([("path", "first"), ("branch", "first")])
            .rename_columns(SHOWN.names)
        )
        read = first.add_column(0, "address_hash", pa.array(_hashes(first))).cast(READ_BY_BRANCH)
        return read.sort_by("address_hash")

    def _without_named(self, shown: pa.Table) -> pa.Table:
        """Leave out the staged names that a retention policy takes, on their branches."""
        if self.staged_names is None:
            return shown
        hashes = sorted_once(_hashes(shown))
        known = chosen(self.staged_names, "address", hashes, self.heads.spark)
        return shown.join(known, SHOWN.names, join_type="left anti")

    def _without_own(self, shown: pa.Table) -> pa.Table:
        """Leave out what a branch shows because its head has it, and heads agree on the path.

        A retention policy may name an object that a head has. That the head's branch answers with
        it is no sign of another entry. No head has any other candidate.
        """
        # A path that is no UTF-8 never equals one that a branch shows.
        paths = shown["path"].cast(pa.binary()).combine_chunks()
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

    def _may_hide(self, read: Any) -> tuple[Any, int]:
        """Return the candidates that may hide where nobody was asked, as `hidden_by` does.

        Args:
            read: Hashes of those that a branch reads from, sorted.
        """
        unasked = self.asking.not_asked()
        whatever = set(unasked["hides"].unique().to_pylist())
        # For a candidate that may be dishonest, nothing less than a whole branch will do.
        every = range(self.candidates.dishonest)
        unlisted = min((one for one in every if one not in self.asking.listed), default=None)
        beyond = -1 if DISHONEST in whatever else unlisted
        if not whatever and beyond is None:
            return np.empty(0, np.int64), 0
        sized = unasked.filter(pc.equal(unasked["hides"], SIZED))
        return hidden_by(
            self.candidates,
            self.evidence,
            Unasked.of(
                sized,
                first=numbers_of(sized["from_branch"]),
                beyond=beyond,
                is_any=ANY in whatever,
                known=read,
            ),
        )


def _hashes(shown: pa.Table) -> Any:
    return hashed(shown["address"].combine_chunks()).to_numpy()
