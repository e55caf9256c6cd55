"""Search for hidden entries: who could hide, whom to ask, and what the answers mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from time import monotonic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import sorted_once
from spark_core.errors import TABLES_UNREADABLE, RepositoryStateError
from spark_core.lakefs import CallBudget
from spark_core.records.figures import TwinFigures
from spark_core.references.head_entries import STATED, HeadEntries, SeenInStore
from spark_core.references.heads import Heads
from spark_core.references.twins.asking import SHOWN, Asking, contents_of
from spark_core.references.twins.branch_answers import Answers
from spark_core.references.twins.candidates_by_time import Candidates
from spark_core.references.twins.cost_of_asking import AskingPlan, calls_allowed, cheapest
from spark_core.references.twins.evidence import Evidence
from spark_core.references.twins.moments import moment_of
from spark_core.references.twins.questions import Suspects
from spark_core.references.twins.read_by_branches import read_by_branches
from spark_core.references.twins.suspects import suspects_of
from spark_core.references.twins.unasked import Unasked, hidden_by, left_unasked
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, numbers_of, source_of

NAMED = 20

# Questions to the store that cost no more than a call, which has the server list a page.
ASKED_FOR_A_CALL = 10


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
        (moment_of(run, since, branch.id, grace), branch.id)
        for branch in run.server.branches(run.repository.id)
    )
    if not moments:
        raise RepositoryStateError(
            f"repository {run.repository.id} shows no branch when it is asked for hidden entries: "
            "it was deleted a moment ago",
            "Look at it with `lakectl repo list` and run again if it lives.",
        )
    limit = calls_allowed(run.options.twin_calls, len(moments), objects)
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
        shown = pa.Table.from_batches(self.asking.shown, SHOWN)
        read = read_by_branches(shown, self.candidates, self.heads, self.staged_names)
        hashes = sorted_once(numbers_of(read["address_hash"]))
        may_hide, size_bytes = left_unasked(self.candidates, self.evidence, self.asking, hashes)
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
            with suppress(*TABLES_UNREADABLE):
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
