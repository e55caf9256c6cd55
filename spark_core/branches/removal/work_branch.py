"""The branch on which a removal or its undo makes its commits: made, known again, and deleted.

A name proves nothing: somebody may have made a branch of it, or may work on one that was left. So
what is to be made is recorded before, and a branch is deleted only where that record says it
stands, with nothing on it but commits of this work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from spark_core.branches.removal import work_branch_record
from spark_core.branches.removal.refused import WriteRefusedError
from spark_core.branches.removal.work_branch_record import WorkBranch
from spark_core.branches.removal.writes import Writes
from spark_core.errors import IncompleteReadError, LakegcError, SettingsError, sentences
from spark_core.model import Branch, RunKey
from spark_core.run import Run

# What the commits of the work say of themselves. A merge of them does not say it.
BRANCH = "lakegc.branch"

# The policy of permissions names branches by the first two words.
_NAME = re.compile(r"lakegc-remove-(?:undo-)?(?P<run>.+)-\d+")
# The work of a process that began longer ago is over.
_LEFT_AFTER = timedelta(days=1)
_FEW = 10


def name_of(run: Run, rule: int, *, is_undo: bool = False) -> str:
    """Return the name of a run's work branch for a rule.

    A removal and an undo of the same second have branches of their own.
    """
    return f"lakegc-remove-{'undo-' if is_undo else ''}{run.key}-{rule}"


@dataclass
class AtWork:
    """A work branch that this process made.

    Attributes:
        run: The run.
        branch: Its work_branch_record.
        made: The last commit on it; None for none.
        doubt: Why something on it may be somebody else's; empty if nothing is.
    """

    run: Run
    branch: WorkBranch
    made: str | None = None
    doubt: str = ""

    def commit(self, message: str, metadata: Mapping[str, str]) -> str:
        """Commit what is staged on it; return the commit's id."""
        self.made = Writes(self.run.server).commit(
            self.run.repository.id,
            self.branch.name,
            message,
            {**metadata, BRANCH: self.branch.name},
        )
        return self.made


@contextmanager
def at_work(run: Run, rule: int, name: str, source: str, left: list[str]) -> Iterator[AtWork]:
    """Record a work branch, make it, and delete it when the block ends.

    Args:
        run: The run that does the work.
        rule: Number of the rule.
        name: Name of the branch.
        source: The commit that it begins on.
        left: Receives why the branch is still there, in sentences.

    Raises:
        WriteRefusedError: If there is a branch of that name, which is not ours.
        IncompleteReadError: If the branch begins on another commit.
    """
    branch = WorkBranch(str(run.key), rule, name, source, run.now())
    work_branch_record.note_branch(run, branch)
    try:
        _create(run, branch)
    except WriteRefusedError:
        work_branch_record.note_branch_gone(run, branch)
        raise
    except LakegcError:
        # The answer may be lost, and the branch there: ours, or somebody else's.
        left += _drop(run, branch)
        raise
    work = AtWork(run, branch)
    try:
        yield work
    finally:
        left += _drop(run, branch, work)


def _create(run: Run, branch: WorkBranch) -> None:
    begins_at = Writes(run.server).create_branch(run.repository.id, branch.name, branch.source)
    if begins_at != branch.source:
        raise IncompleteReadError(
            f"branch {branch.name} of repository {run.repository.id} was to be made at "
            f"{branch.source} and begins at {begins_at[:80]!r}",
            "Run again.",
        )


def clear_left(run: Run, branches: Sequence[Branch]) -> Mapping[str, str]:
    """Delete the work branches that killed processes left, a day after they were made.

    Args:
        run: The run.
        branches: The branches of the repository.

    Returns:
        Name of each that is still there -> why. Branches of such a name that no record names, or
        whose record says that they went, are somebody else's, and are none of them.
    """
    left = {}
    for branch in branches:
        try:
            work = _recorded(run, branch.id)
            if work is None:
                continue
            if run.now() - work.since > _LEFT_AFTER:
                why = _drop(run, work)
            else:
                young = f"Branch {branch.id} was made less than a day ago and may be at work"
                why = [young, "A removal deletes it later."]
        except LakegcError as error:
            why = [f"Branch {branch.id} was not deleted: {error.message}"]
        if why:
            left[branch.id] = sentences(*why)
    return left


def _recorded(run: Run, name: str) -> WorkBranch | None:
    """Return the record of a work branch that did not go yet; None if it is not ours."""
    matched = _NAME.fullmatch(name)
    if matched is None:
        return None
    try:
        key = RunKey.parse(matched["run"])
    except SettingsError:
        return None
    return work_branch_record.branch_that_stands(run.store, key, name)


def _drop(run: Run, branch: WorkBranch, work: AtWork | None = None) -> list[str]:
    """Delete a work branch if it is ours; return why it is still there, in sentences.

    The server deletes without a condition: what somebody stages on the branch in the moment between
    the look and the deletion is lost.
    """
    name, repository_id = branch.name, run.repository.id
    try:
        head = run.server.branch_reads.head(repository_id, name)
        why = "" if head is None else _why_not_ours(run, branch, head, work)
        if why:
            where = f"lakefs://{repository_id}/{name}"
            look = (
                f"Look at it (`lakectl log {where}`, `lakectl diff {where}`), and delete it if "
                f"nobody needs it (`lakectl branch delete {where}`)."
            )
            return [f"Branch {name} was not deleted: {why}.", look]
        if head is not None:
            Writes(run.server).delete_branch(repository_id, name)
        work_branch_record.note_branch_gone(run, branch)
    except LakegcError as error:
        return [f"Branch {name} could not be deleted: {error.message}"]
    return []


def _why_not_ours(run: Run, branch: WorkBranch, head: str, work: AtWork | None) -> str:
    """Say what stands on a work branch that is not of this work; empty for nothing."""
    if work is not None and work.doubt:
        return work.doubt
    if head not in (branch.source, None if work is None else work.made):
        for each in run.server.main_line(run.repository.id, head, first_page=_FEW):
            if each.commit.id == branch.source:
                break
            if each.metadata.get(BRANCH) != branch.name:
                return f"commit {each.commit.id[:12]} on it is not of this work"
    changes = run.server.diff_branch(run.repository.id, branch.name)
    # Deletions are this process's own. Of another process's nobody knows whose they are.
    strange = (path for path, kind in changes if work is None or kind != "removed")
    path = next(strange, None)
    return "" if path is None else f"something is staged on it, for instance at {path[:200]!r}"
