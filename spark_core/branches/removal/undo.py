"""Undo a removal: revert its merges, if the objects of what they removed are still there.

Whether they are is asked of the store before anything is reverted. If some are gone, or may be on
their way out, a person decides. Staged entries that were reset cannot come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from spark_core.branches.removal import objects_gone, record
from spark_core.branches.removal.merges import find_merge, leads_to
from spark_core.branches.removal.objects_gone import Looked
from spark_core.branches.removal.promise import (
    Promise,
    Removed,
    SweptSince,
    Taking,
    promise,
    sweeps_since,
    taking_now,
)
from spark_core.branches.removal.record import Planned, RemovalRecord, Undone
from spark_core.branches.removal.revert import revert_what_is_there, revert_whole
from spark_core.errors import (
    LakegcError,
    NotFoundError,
    sentences,
)
from spark_core.model import Commit, RunKey
from spark_core.phases import phase
from spark_core.run import Run

State = Literal[
    "reverted", "in_part", "before", "nothing", "missing", "too_late", "gone", "refused"
]
_NEXT = "With --what-is-there, what is in the store comes back"
_UNKNOWN = Promise(None)


@dataclass(frozen=True)
class Reverted:
    """What became of one rule of a removal when it was undone.

    Attributes:
        rule: Number of the rule.
        branch: Its branch.
        commit: The merge; None if there was none.
        state: `reverted`; `in_part`: what is in the store was; `before`: it was reverted before;
            `nothing`: the rule merged nothing; `missing`: objects are not in the store; `too_late`:
            all are, and may be on their way out; `gone`: the branch, or the merge on it, is not
            there; `refused`: by the server, or an error.
        found: What was found, in words.
        until: From then on objects may go, or might have gone; None for no end, or if nothing was
            looked for.
        reset_entries: Staged entries that were reset, which stay lost.
        missing: Entries whose object is not in the store.
        missing_list: Where all of them are listed; empty if there are none.
    """

    rule: int
    branch: str
    commit: str | None
    state: State
    found: str
    until: datetime | None
    reset_entries: int
    missing: int = 0
    missing_list: str = ""

    @property
    def is_as_wanted(self) -> bool:
        """Whether nothing of the rule is left to undo that can be."""
        return self.state in ("reverted", "in_part", "before", "nothing")


def undo(run: Run, key: RunKey, *, who: str, what_is_there: bool = False) -> tuple[Reverted, ...]:
    """Revert what a removal merged, the last rule first.

    The store is asked for the object of each removed entry. A merge that cannot be reverted holds
    up no other one.

    Args:
        run: The repository, opened.
        key: Run key of the removal.
        who: Who undoes it.
        what_is_there: Somebody decided that what is in the store comes back, although other objects
            are gone, or these may be on their way out.

    Returns:
        What became of each rule, the last one first.

    Raises:
        NotFoundError: If there is no such removal.
        ChainError: If it was of another instance of the repository.
    """
    kept = record.load(run, key)
    taking = taking_now(run)
    with phase(
        "No object was deleted. What was reverted before stands, and the same command goes on."
    ):
        return tuple(
            _Undoing(run, kept, planned, taking, who, what_is_there).tried()
            for planned in sorted(kept.begun.rules, key=lambda each: each.rule, reverse=True)
        )


@dataclass
class _Undoing:
    """One rule of a removal while it is undone."""

    run: Run
    kept: RemovalRecord
    planned: Planned
    taking: Taking
    who: str
    what_is_there: bool
    merge: Commit | None = None
    looked: Looked | None = None
    promised: Promise = _UNKNOWN
    left: list[str] = field(default_factory=list)

    def tried(self) -> Reverted:
        """Undo it; a failure becomes part of what is returned."""
        try:
            state, found = self._done()
        except LakegcError as error:
            state, found = "refused", error.message
        outcome = self.kept.outcomes.get(self.planned.rule)
        looked = self.looked
        return Reverted(
            rule=self.planned.rule,
            branch=self.planned.branch,
            commit=self._recorded if self.merge is None else self.merge.id,
            state=state,
            found=sentences(found, *self.left),
            until=self.promised.until,
            reset_entries=0 if outcome is None else outcome.reset_entries,
            missing=0 if looked is None else looked.missing,
            missing_list=looked.list_key if looked is not None and looked.missing else "",
        )

    @property
    def _recorded(self) -> str | None:
        """The merge as the record names it."""
        outcome = self.kept.outcomes.get(self.planned.rule)
        return None if outcome is None else outcome.commit

    def _done(self) -> tuple[State, str]:
        outcome = self.kept.outcomes.get(self.planned.rule)
        undone = self.kept.undone.get(self.planned.rule)
        if undone is not None:
            return "before", f"{undone.who} reverted it at {undone.since:%Y-%m-%d %H:%M} UTC"
        # A rule without an outcome was being carried out when its process was killed.
        if outcome is not None and outcome.commit is None and outcome.state != "unknown":
            return "nothing", ""
        found = self._found()
        if not isinstance(found, Commit):
            return found
        self.merge = found
        return self._reverted(found)

    def _found(self) -> Commit | tuple[State, str]:
        """Find the merge on its branch, or say why it is not to be reverted."""
        branch = self.planned.branch
        try:
            merge = find_merge(
                self.run, branch, self.planned.head, self.kept.begun.run, self.planned.rule
            )
        except NotFoundError:
            return "gone", f"there is no branch {branch} any more"
        if merge is None and self._recorded is None:
            return "nothing", ""
        if merge is None or self._recorded not in (None, merge.id):
            return self._left_behind
        return merge

    @property
    def _left_behind(self) -> tuple[State, str]:
        branch = self.planned.branch
        return "gone", f"its merge is not on the main line of branch {branch} any more"

    def _reverted(self, merge: Commit) -> tuple[State, str]:
        """Look at the objects of a merge, and revert it if they are there or a person decided."""
        looked, sweeps = self._look(merge)
        # The look may take hours.
        if not leads_to(self.run, self.planned.branch, merge.id):
            return self._left_behind
        if looked.missing:
            return self._reverted_in_part(merge, looked, [swept.run for swept in sweeps])
        if late := self._too_late(looked):
            return "too_late", late
        self._revert_whole(merge)
        return "reverted", ""

    def _look(self, merge: Commit) -> tuple[Looked, Sequence[SweptSince]]:
        """Look for the objects of a merge; note what was found and until when it is promised."""
        list_key = record.missing_list(self.run, self.kept.begun.run, self.planned.rule)
        self.looked = looked = objects_gone.look(self.run, merge, list_key)
        since = merge.creation_date
        sweeps = sweeps_since(self.run, since)
        removed = Removed(self.planned.branch, looked.path, since, min(since, looked.oldest))
        self.promised = promise(removed, self.taking, sweeps)
        return looked, sweeps

    def _reverted_in_part(
        self, merge: Commit, looked: Looked, sweeps: Sequence[RunKey]
    ) -> tuple[State, str]:
        """Bring back what is there of a merge whose objects are gone in part, if a person said so.

        Args:
            merge: The merge.
            looked: What the look found; some of it is missing.
            sweeps: The sweeps since the merge.
        """
        gone = self._gone(looked, sweeps)
        none_is_there = looked.missing == looked.entries
        if none_is_there or not self.what_is_there:
            next_step = (
                "Once objects are back, the same command reverts it"
                if none_is_there
                else f"{_NEXT} and the rest stays removed"
            )
            return "missing", sentences(gone, "Nothing was reverted.", next_step)
        revert_what_is_there(
            self.run, self.planned, self.kept.begun.run, merge, looked, left=self.left
        )
        return "in_part", sentences(gone, "Those entries stay removed")

    def _too_late(self, looked: Looked) -> str:
        """Say why a merge whose objects are all there is not reverted without a decision.

        Returns:
            Sentences; empty if nothing may take the objects yet, or a person decided.
        """
        until = self.promised.until
        if until is None or self.run.now() < until or self.what_is_there:
            return ""
        return sentences(
            f"since {until:%Y-%m-%d %H:%M} UTC "
            f"{self.promised.by or 'the rules of the garbage collection'} may take its "
            f"objects; those of all {looked.entries:,} entries are in the store now, and a "
            "sweep at work may be about to delete some",
            f"Nothing was reverted. {_NEXT}, while no sweep can be at work",
        )

    def _revert_whole(self, merge: Commit) -> None:
        """Revert a merge on its branch, and note that it was."""
        removal, planned = self.kept.begun.run, self.planned
        revert_whole(self.run, planned, removal, merge)
        record.note_undone(
            self.run,
            Undone(removal, planned.rule, planned.branch, merge.id, self.who, self.run.now()),
        )

    def _gone(self, looked: Looked, sweeps: Sequence[RunKey]) -> str:
        """Say how many objects are gone, which, by whom, and where all of them are listed."""
        some = objects_gone.taken_by(self.run, sweeps, [address for _, address in looked.some])
        path = looked.some[0][0]
        count = (
            f"none of its {looked.entries:,} entries has an object"
            if looked.missing == looked.entries
            else f"{looked.missing:,} of its {looked.entries:,} entries "
            f"{'has' if looked.missing == 1 else 'have'} no object"
        )
        back = [
            f"The sweep of run {key} deleted some; `lakegc restore {self.run.repository.id} {key}` "
            "may bring them back."
            for key in sorted(set(some.values()), reverse=True)
        ]
        return sentences(
            f"{count} in the store any more, for instance {path[:200]!r}; the whole "
            f"list is {self.run.store.root}{looked.list_key}",
            *back,
        )
