"""Undo a removal: revert its merges, as long as the rules keep the commits before them.

Staged entries that were reset cannot come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from spark_core.errors import LakegcError, NotFoundError
from spark_core.lakefs import WriteRefusedError
from spark_core.model import Commit, RetentionRules, RunKey
from spark_core.phases import phase
from spark_core.policies.removal import record
from spark_core.policies.removal.carry_out import find_merge, kept_until
from spark_core.policies.removal.record import Planned, Record, Undone
from spark_core.run import Run

State = Literal["reverted", "before", "nothing", "too_late", "gone", "refused"]


@dataclass(frozen=True)
class Reverted:
    """What became of one rule of a removal when it was undone.

    Attributes:
        rule: Number of the rule.
        branch: Its branch.
        commit: The merge; None if there was none.
        state: `reverted`; `before`: it was reverted before; `nothing`: the rule merged nothing;
            `too_late`: the rules do not keep the commit before any more; `gone`: the branch, or the
            merge on it, is not there; `refused`: by the server, or an error.
        found: What was found, in words.
        until: Until when the rules keep the commit before; None for ever, or without a merge.
        reset_entries: Staged entries that were reset, which stay lost.
    """

    rule: int
    branch: str
    commit: str | None
    state: State
    found: str
    until: datetime | None
    reset_entries: int

    @property
    def is_as_wanted(self) -> bool:
        """Whether nothing of the rule is left to undo."""
        return self.state in ("reverted", "before", "nothing")


def undo(run: Run, key: RunKey, *, who: str) -> tuple[Reverted, ...]:
    """Revert what a removal merged, the last rule first.

    Each merge takes a few calls, whatever it removed. A merge that cannot be reverted holds up no
    other one.

    Args:
        run: The repository, opened.
        key: Run key of the removal.
        who: Who undoes it.

    Returns:
        What became of each rule, the last one first.

    Raises:
        NotFoundError: If there is no such removal.
        ChainError: If it was of another instance of the repository.
    """
    kept = record.load(run, key)
    rules = run.server.retention_rules(run.repository.id)
    with phase(
        "No object was deleted. What was reverted before stands, and the same command goes on."
    ):
        return tuple(
            _Undoing(run, kept, planned, rules, who).tried()
            for planned in sorted(kept.begun.rules, key=lambda each: each.rule, reverse=True)
        )


@dataclass
class _Undoing:
    """One rule of a removal while it is undone."""

    run: Run
    kept: Record
    planned: Planned
    rules: RetentionRules | None
    who: str
    merge: Commit | None = None

    def tried(self) -> Reverted:
        """Undo it; a failure becomes part of what is returned."""
        try:
            state, found = self._done()
        except LakegcError as error:
            state, found = "refused", error.message
        outcome = self.kept.outcomes.get(self.planned.rule)
        return Reverted(
            rule=self.planned.rule,
            branch=self.planned.branch,
            commit=self._recorded if self.merge is None else self.merge.id,
            state=state,
            found=found,
            until=self._until,
            reset_entries=0 if outcome is None else outcome.reset_entries,
        )

    @property
    def _recorded(self) -> str | None:
        """The merge as the record names it."""
        outcome = self.kept.outcomes.get(self.planned.rule)
        return None if outcome is None else outcome.commit

    @property
    def _until(self) -> datetime | None:
        if self.merge is None:
            return None
        return kept_until(self.rules, self.planned.branch, self.merge)

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
            return "gone", f"its merge is not on the main line of branch {branch} any more"
        return merge

    def _reverted(self, merge: Commit) -> tuple[State, str]:
        until, key = self._until, self.kept.begun.run
        if until is not None and self.run.now() >= until:
            return "too_late", (
                f"the rules kept the commit before it until {until:%Y-%m-%d %H:%M} UTC: objects "
                "of it may be collected"
            )
        try:
            self.run.server.writes.revert_merge(
                self.run.repository.id,
                self.planned.branch,
                merge.id,
                f"lakegc: undo the removal of rule {self.planned.rule} of run {key}",
                {"lakegc.undoes": merge.id},
            )
        except WriteRefusedError as refused:
            # Somebody else reverted it.
            if refused.reason != "nothing":
                raise
        record.note_undone(
            self.run,
            Undone(key, self.planned.rule, self.planned.branch, merge.id, self.who, self.run.now()),
        )
        return "reverted", ""
