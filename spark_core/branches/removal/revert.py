"""Revert the merge of a removal on its branch: whole, or without entries whose objects are gone."""

from __future__ import annotations

from spark_core.branches.removal import compare, work_branch
from spark_core.branches.removal.merges import (
    UNDOES,
    leads_to,
    merged_above,
    reverted_at_once,
    was_moved,
)
from spark_core.branches.removal.objects_gone import Looked
from spark_core.branches.removal.record import Planned
from spark_core.branches.removal.refused import WriteRefusedError
from spark_core.branches.removal.writes import Writes
from spark_core.errors import IncompleteReadError, RefusedError
from spark_core.model import Commit
from spark_core.run import Run


def revert_whole(run: Run, planned: Planned, removal: str, merge: Commit) -> None:
    """Revert a merge on its branch; what somebody else reverted is left as it is.

    Args:
        run: The run.
        planned: The rule and its branch.
        removal: Run key of the removal.
        merge: The merge.
    """
    try:
        Writes(run.server).revert_merge(
            run.repository.id,
            planned.branch,
            merge.id,
            f"lakegc: undo the removal of rule {planned.rule} of run {removal}",
            {UNDOES: merge.id},
        )
    except WriteRefusedError as refused:
        # Somebody else reverted it.
        if refused.reason != "nothing":
            raise


def revert_what_is_there(
    run: Run, planned: Planned, removal: str, merge: Commit, looked: Looked, *, left: list[str]
) -> None:
    """Revert a merge on a branch of its own, delete what is gone there, and merge the rest.

    So the branch of the rule changes in one step, and never shows an entry that answers 410.

    Args:
        run: The run.
        planned: The rule and its branch.
        removal: Run key of the removal.
        merge: The merge.
        looked: What its entries have in the store.
        left: Receives why the work branch is still there, in sentences.

    Raises:
        RefusedError: If the branch was reset meanwhile: a merge brings back what it left.
        IncompleteReadError: If the commit is not what this process staged.
    """
    repository_id, writes = run.repository.id, Writes(run.server)
    head = next(run.server.main_line(repository_id, planned.branch, first_page=1)).commit.id
    name = work_branch.name_of(run, planned.rule, is_undo=True)
    message = (
        f"lakegc: undo the removal of rule {planned.rule} of run {removal}, "
        f"without {looked.missing:,} entries whose objects are gone"
    )
    metadata = {UNDOES: merge.id, "lakegc.missing": str(looked.missing)}
    with work_branch.at_work(run, planned.rule, name, head, left) as work:
        writes.revert_merge(
            repository_id, name, merge.id, message, {**metadata, work_branch.BRANCH: name}
        )
        for paths in looked.missing_paths(run.store):
            writes.delete_entries(repository_id, name, paths)
        commit = work.commit(message, metadata)
        try:
            compare.require_back(run, merge, head, commit, at_most=looked.entries - looked.missing)
        except IncompleteReadError as strange:
            work.doubt = strange.found
            raise
        if not leads_to(run, planned.branch, head):
            raise RefusedError(was_moved(planned.branch, head), "Run again.")
        try:
            made = writes.merge(repository_id, commit, planned.branch, message, metadata)
        except WriteRefusedError as refused:
            # It came back before.
            if refused.reason != "nothing":
                raise
        else:
            if merged_above(run, planned.branch, made, head) is None:
                raise RefusedError(reverted_at_once(planned.branch, made), "Look at the branch.")
