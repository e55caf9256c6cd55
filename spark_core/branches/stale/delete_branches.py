"""Delete confirmed branches, one after the other.

Of each branch, in this order: a record that it goes, a hold on the objects of its head, a last look
at it, its deletion, a record that it is gone. Whatever stops the program, the next call for the
same mark reads the records and goes on. The server deletes without a condition: a commit in the
moment between the last look and the deletion stays in the repository, on no branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from spark_core.branches.stale import deletion_steps, marked
from spark_core.branches.stale.branch_writes import BranchRefusedError, BranchWrites
from spark_core.branches.stale.deletion_steps import BranchStep, State
from spark_core.branches.stale.examine import Examined, examine
from spark_core.branches.stale.marked import BranchMark, MarkedBranch
from spark_core.branches.stale.staged_digest import digest_of, staged_on
from spark_core.branches.stale.undo_holds import hold_objects
from spark_core.model import RunKey
from spark_core.phases import phase
from spark_core.references.policies.lifecycle import DEFAULT_UNDO_DAYS
from spark_core.run import Run

Outcome = Literal["deleted", "gone before", "left", "refused", "made again", "there before"]
# The outcomes after which a person has something to look at.
OPEN: tuple[Outcome, ...] = ("left", "refused")


@dataclass(frozen=True)
class BranchOutcome:
    """What became of a branch.

    Attributes:
        branch: Its name.
        outcome: In words.
        why: More words, where `outcome` does not say all.
        until: Until when it can be made again; None where it cannot, or is there.
    """

    branch: str
    outcome: Outcome
    why: str = ""
    until: datetime | None = None


def delete(run: Run, key: RunKey, *, who: str) -> list[BranchOutcome]:
    """Delete the confirmed branches of a mark that are still as they were marked.

    Everything is read and decided again before. The cost is that of `examine` for the confirmed
    branches, and five calls and four small files for each one that goes.

    Args:
        run: The repository, opened.
        key: Key of the mark.
        who: Who deletes.

    Returns:
        What became of each confirmed branch.

    Raises:
        NotFoundError: If there is no such mark.
        SettingsError: If it was not confirmed.
        LakegcError: If the server or the store fails; the error says how many branches are gone.
    """
    mark = marked.load(run, key)
    confirmed = marked.require_confirmed(run, mark)
    work = _Deletion(run, mark, who)
    with phase(work.state):
        return work.of(confirmed)


class _Deletion:
    """One call of `delete`."""

    def __init__(self, run: Run, mark: BranchMark, who: str) -> None:
        self._run = run
        self._mark = mark
        self._who = who
        self._days = DEFAULT_UNDO_DAYS
        self._deleted: list[str] = []
        self._asked: str | None = None

    def state(self) -> str:
        """Say what was done, for an error."""
        name, mark = self._run.repository.id, self._mark.mark
        doubt = (
            f" Whether {self._asked} is deleted is not known; `lakegc retention branches delete "
            f"{name} {mark}` finds out."
            if self._asked
            else ""
        )
        if not self._deleted:
            return f"No branch is known to be deleted by this call.{doubt}"
        return (
            f"Deleted by this call: {', '.join(self._deleted)}. Each can be restored (`lakegc "
            f"retention restore {name} {mark}`).{doubt}"
        )

    def of(self, confirmed: Mapping[int, MarkedBranch]) -> list[BranchOutcome]:
        steps = deletion_steps.steps_of(self._run.store, self._mark)
        version, lifecycle = marked.require_lifecycle(self._run)
        self._days = lifecycle.undo_days
        left = {
            number: branch
            for number, branch in confirmed.items()
            if not steps.get(number, {}).keys() & {"gone", "back"}
        }
        same_policy = version.policy_digest == self._mark.policy_digest
        found: dict[str, Examined] = {}
        if left:
            names = {branch.branch for branch in left.values()} if same_policy else set[str]()
            examined = examine(self._run, lifecycle, only=names)
            found = {each.branch.id: each for each in examined}
        return [
            self._one(number, steps.get(number, {}), found, same_policy=same_policy)
            if number in left
            else _known(branch, steps[number])
            for number, branch in confirmed.items()
        ]

    def _one(
        self,
        number: int,
        steps: Mapping[State, BranchStep],
        found: Mapping[str, Examined],
        *,
        same_policy: bool,
    ) -> BranchOutcome:
        branch = self._mark.branches[number - 1]
        now = found.get(branch.branch)
        if now is None:
            return self._absent(number, branch, steps)
        why = _changed(branch, now) or ("" if same_policy else _OTHER_POLICY)
        if why:
            return BranchOutcome(branch.branch, "left", why)
        going = self._put(number, "going")
        hold_objects(self._run, going)
        why = self._last_look(branch)
        if why:
            return BranchOutcome(branch.branch, "left", why)
        self._asked = branch.branch
        try:
            was_there = BranchWrites(self._run.server).delete(
                self._run.repository.id, branch.branch
            )
        except BranchRefusedError as refused:
            self._asked = None
            return BranchOutcome(branch.branch, "refused", refused.message)
        self._asked = None
        self._deleted.append(branch.branch)
        gone = self._put(number, "gone")
        outcome: Outcome = "deleted" if was_there else "gone before"
        return BranchOutcome(branch.branch, outcome, until=gone.until)

    def _absent(
        self, number: int, branch: MarkedBranch, steps: Mapping[State, BranchStep]
    ) -> BranchOutcome:
        """Deal with a branch that is not there: an earlier call may have deleted it."""
        if "going" not in steps:
            return BranchOutcome(branch.branch, "left", "it is not there any more")
        hold_objects(self._run, steps["going"])
        gone = self._put(number, "gone")
        return BranchOutcome(branch.branch, "gone before", until=gone.until)

    def _last_look(self, branch: MarkedBranch) -> str:
        """Look at a branch just before it goes; say what changed, or nothing."""
        head = self._run.server.branch_reads.head(self._run.repository.id, branch.branch)
        if head is None:
            return ""  # the server will say so, too
        if head != branch.commit_id:
            return _moved(branch, head)
        staged = staged_on(self._run, branch.branch, dated=bool(branch.staged))
        return "" if digest_of(staged) == branch.staged else _STAGED

    def _put(self, number: int, state: State) -> BranchStep:
        step = deletion_steps.new_step(
            self._mark, number, state, days=self._days, who=self._who, now=self._run.now()
        )
        return deletion_steps.put_step(self._run.store, step)


_OTHER_POLICY = "the policy is another one than the mark's; mark again"
_STAGED = "what is staged on it changed since the mark"


def _changed(branch: MarkedBranch, now: Examined) -> str:
    if now.branch.commit_id != branch.commit_id:
        return _moved(branch, now.branch.commit_id)
    if not now.goes:
        return now.why
    return "" if now.staged == branch.staged else _STAGED


def _moved(branch: MarkedBranch, head: str) -> str:
    return f"its head moved since the mark, from {branch.commit_id[:12]} to {head[:12]}"


def _known(branch: MarkedBranch, steps: Mapping[State, BranchStep]) -> BranchOutcome:
    if "back" in steps:
        return BranchOutcome(branch.branch, "there before", "it was deleted and made again")
    return BranchOutcome(branch.branch, "gone before", until=steps["gone"].until)
