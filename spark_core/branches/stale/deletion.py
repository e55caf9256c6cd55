"""Delete confirmed branches, one after the other, and make them again.

Of each branch, in this order: a record that it goes, a hold on the objects of its head, a last look
at it, its deletion, a record that it is gone. Whatever stops the program, the next call for the
same mark reads the records and goes on. The server deletes without a condition: a commit in the
moment between the last look and the deletion stays in the repository, on no branch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from spark_core import holds, lakegc_keys
from spark_core.branches.stale import marked
from spark_core.branches.stale.branch_writes import BranchRefusedError, BranchWrites
from spark_core.branches.stale.examine import Examined, digest_of, examine, staged_on
from spark_core.branches.stale.marked import BranchMark, BranchStep, MarkedBranch, State
from spark_core.errors import NotFoundError, SettingsError
from spark_core.holds import Hold
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
            f"retention branches restore {name} {mark}`).{doubt}"
        )

    def of(self, confirmed: Mapping[int, MarkedBranch]) -> list[BranchOutcome]:
        steps = marked.by_number(marked.steps(self._run.store, self._mark.key), self._mark)
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
        _hold(self._run, going)
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
        _hold(self._run, steps["going"])
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
        step = marked.new_step(
            self._mark, number, state, days=self._days, who=self._who, now=self._run.now()
        )
        return marked.put_step(self._run.store, step)


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


def undo(run: Run, key: RunKey, *, who: str, only: Collection[str] = ()) -> list[BranchOutcome]:
    """Make deleted branches of a mark again, each at the commit that it had.

    What was staged on them does not come back.

    Args:
        run: The repository, opened.
        key: Key of the mark.
        who: Who does it.
        only: Names of the branches; empty for all that were deleted.

    Returns:
        What became of each.

    Raises:
        NotFoundError: If there is no such mark, or it did not delete such a branch.
    """
    mark = marked.load(run, key)
    steps = marked.by_number(marked.steps(run.store, key), mark)
    there = {branch.id for branch in run.server.branches(run.repository.id)}
    # A call that was ended between the deletion and its record left `going` alone.
    went = {
        number: found
        for number, found in steps.items()
        if "gone" in found or mark.branches[number - 1].branch not in there
    }
    names = {mark.branches[number - 1].branch for number in went}
    unknown = sorted(set(only) - names)
    if unknown or not names:
        raise NotFoundError(
            f"mark {key} of {run.repository.id} did not delete "
            f"{', '.join(unknown) or 'any branch'}; it deleted: "
            f"{', '.join(sorted(names)) or 'none'}."
        )
    with phase("No branch was deleted."):
        return [
            _made_again(run, mark, number, went[number], who)
            for number in sorted(went)
            if not only or mark.branches[number - 1].branch in only
        ]


def _made_again(
    run: Run, mark: BranchMark, number: int, steps: Mapping[State, BranchStep], who: str
) -> BranchOutcome:
    branch, writes = mark.branches[number - 1], BranchWrites(run.server)
    last = steps.get("gone") or steps["going"]
    if "back" in steps:
        return BranchOutcome(branch.branch, "there before", "it was made again before")
    if not _is_held(run, last):
        return BranchOutcome(
            branch.branch,
            "refused",
            f"the hold {last.hold} on its objects has ended, and they may be collected; it could "
            f"be made again until {last.until:%Y-%m-%d %H:%M} UTC (`lakectl branch create` with "
            f"the source {branch.commit_id} makes a branch whose objects may be gone)",
        )
    try:
        made = writes.create(
            run.repository.id, branch.branch, branch.commit_id, hidden=branch.is_hidden
        )
    except (BranchRefusedError, NotFoundError) as refused:
        return BranchOutcome(branch.branch, "refused", refused.message, last.until)
    if not made:
        head = run.server.branch_reads.head(run.repository.id, branch.branch)
        if head != branch.commit_id:
            what = "a tag has its name" if head is None else f"there is another one, at {head[:12]}"
            return BranchOutcome(branch.branch, "refused", what, last.until)
    marked.put_step(
        run.store, marked.new_step(mark, number, "back", days=0, who=who, now=run.now())
    )
    return BranchOutcome(branch.branch, "made again" if made else "there before")


def end_holds(run: Run) -> list[Hold]:
    """Remove the holds of deleted branches whose days to be made again are over.

    Returns:
        The removed holds.
    """
    ended: list[Hold] = []
    for found in marked.steps(run.store).values():
        step = next(iter(found.values()))
        if marked.kept_until(found) < run.now() and _is_held(run, step):
            ended.append(holds.remove(run, step.hold))
    return ended


def _hold(run: Run, step: BranchStep) -> None:
    """Make the hold on the objects of a branch's head, unless it is there."""
    if _is_held(run, step):
        return
    why = f"branch {step.branch} was deleted as stale; it can be made again for some days"
    holds.add(run, step.hold, "commit", step.commit_id, who=step.who, why=why)


def _is_held(run: Run, step: BranchStep) -> bool:
    """Say whether the hold of a step is there."""
    where = lakegc_keys.hold_key(step.hold)
    try:
        found = Hold.from_json(run.store.read(where), name=where)
    except NotFoundError:
        return False
    if (found.kind, found.commit_id) != ("commit", step.commit_id):
        raise SettingsError(
            f"the hold {step.hold} keeps {found.kind} {found.value}, not commit "
            f"{step.commit_id[:12]} of branch {step.branch}",
            "Remove it, if it is not yours (`lakegc hold remove`), and run again.",
        )
    return True
