"""Make deleted branches again, each at the commit that it had."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from spark_core.branches.stale import deletion_steps, marked
from spark_core.branches.stale.branch_writes import BranchRefusedError, BranchWrites
from spark_core.branches.stale.delete_branches import BranchOutcome
from spark_core.branches.stale.deletion_steps import BranchStep, State
from spark_core.branches.stale.marked import BranchMark
from spark_core.branches.stale.undo_holds import is_held
from spark_core.errors import NotFoundError
from spark_core.model import RunKey
from spark_core.phases import phase
from spark_core.run import Run


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
    steps = deletion_steps.steps_of(run.store, mark)
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
    if not is_held(run, last):
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
    deletion_steps.put_step(
        run.store, deletion_steps.new_step(mark, number, "back", days=0, who=who, now=run.now())
    )
    return BranchOutcome(branch.branch, "made again" if made else "there before")
