"""The holds that keep the objects of deleted branches, while these can be made again."""

from __future__ import annotations

from spark_core import holds, lakegc_keys
from spark_core.branches.stale import deletion_steps
from spark_core.branches.stale.deletion_steps import BranchStep
from spark_core.errors import NotFoundError, SettingsError
from spark_core.holds import Hold
from spark_core.run import Run


def end_holds(run: Run) -> list[Hold]:
    """Remove the holds of deleted branches whose days to be made again are over.

    Returns:
        The removed holds.
    """
    ended: list[Hold] = []
    for found in deletion_steps.steps(run.store).values():
        step = next(iter(found.values()))
        if deletion_steps.kept_until(found) < run.now() and is_held(run, step):
            ended.append(holds.remove(run, step.hold))
    return ended


def hold_objects(run: Run, step: BranchStep) -> None:
    """Make the hold on the objects of a branch's head, unless it is there."""
    if is_held(run, step):
        return
    why = f"branch {step.branch} was deleted as stale; it can be made again for some days"
    holds.add(run, step.hold, "commit", step.commit_id, who=step.who, why=why)


def is_held(run: Run, step: BranchStep) -> bool:
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
