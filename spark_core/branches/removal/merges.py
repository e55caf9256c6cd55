"""Find the merge of a removal on its branch, and tell it from one on a branch that was reset."""

from __future__ import annotations

from spark_core.branches.removal.writes import Writes
from spark_core.lakefs import LoggedCommit
from spark_core.model import Commit
from spark_core.run import Run

# What the commits of a removal say of themselves.
RUN, RULE, UNDOES = "lakegc.run", "lakegc.rule", "lakegc.undoes"
_FEW = 10


def find_merge(run: Run, branch: str, stop_at: str, key: str, rule: int) -> Commit | None:
    """Find the merge of a removal on a branch by what it says of itself.

    Args:
        run: The run.
        branch: Name of the branch.
        stop_at: The commit at which the branch was when the removal began.
        key: Run key of the removal.
        rule: Number of the rule.

    Returns:
        None if there is none above that commit.
    """
    for each in run.server.main_line(run.repository.id, branch, first_page=_FEW):
        if each.commit.id == stop_at:
            return None
        if says(each, key, rule):
            return each.commit
    return None


def says(logged: LoggedCommit, key: str, rule: int) -> bool:
    """Say whether a commit says that it is of a rule of a removal."""
    return (logged.metadata.get(RUN), logged.metadata.get(RULE)) == (key, str(rule))


def leads_to(run: Run, ref: str, commit_id: str) -> bool:
    """Say whether a commit is on the main line of a ref."""
    line = run.server.main_line(run.repository.id, ref, first_page=_FEW)
    return any(each.commit.id == commit_id for each in line)


def merged_above(run: Run, branch: str, merge_id: str, head: str) -> Commit | None:
    """Return a merge that was just made on a branch, if the branch still led to its former head.

    Else the branch was reset right before it, and the merge brought back what the reset left.

    Returns:
        None if so; the merge is then reverted.
    """
    merge = next(run.server.main_line(run.repository.id, merge_id, first_page=_FEW)).commit
    if merge.main_parent is not None and (
        merge.main_parent == head or leads_to(run, merge.main_parent, head)
    ):
        return merge
    Writes(run.server).revert_merge(
        run.repository.id,
        branch,
        merge_id,
        f"lakegc: undo {merge_id[:12]}, as the branch was reset before it (run {run.key})",
        {UNDOES: merge_id},
    )
    return None


def reverted_at_once(branch: str, merge_id: str) -> str:
    """Say that a merge was reverted because its branch was reset right before it."""
    return (
        f"branch {branch} was reset right before the merge {merge_id[:12]}, which was reverted at "
        "once"
    )


def was_moved(branch: str, head: str) -> str:
    """Say that the main line of a branch does not lead to its former head."""
    return (
        f"branch {branch} was at commit {head[:12]}, which is not on its main line any more: it "
        "was reset, or made anew"
    )
