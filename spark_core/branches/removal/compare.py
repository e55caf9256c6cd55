"""Compare a commit of the work with what was found before, so that nothing else is merged."""

from __future__ import annotations

from spark_core.branches.removal.look import addresses_of, lots
from spark_core.branches.removal.removal_rules import RemovalRule
from spark_core.errors import IncompleteReadError
from spark_core.model import Commit
from spark_core.run import Run


def removed(run: Run, rule: RemovalRule, head: str, work_commit: str, *, entries: int) -> list[str]:
    """Make sure that a commit removes the entries that a rule names, and nothing else.

    Args:
        run: The run.
        rule: The rule.
        head: The commit on which it was made.
        work_commit: The commit with the deletions.
        entries: Number of the entries that were found.

    Returns:
        Paths that were written again on the rule's branch since.

    Raises:
        IncompleteReadError: If the commit is not what this process staged.
    """
    count, changed = 0, list[str]()
    differences = run.server.diff_commits(run.repository.id, head, work_commit, "")
    for lot in lots(differences):
        wrong = [path for path, kind in lot if kind != "removed" or not path.startswith(rule.path)]
        if wrong:
            raise IncompleteReadError(
                f"commit {work_commit} of {rule.words} changes {wrong[0][:200]!r}, which the "
                "rule does not name",
                "Somebody may have written to its branch: run again.",
            )
        count += len(lot)
        paths = [path for path, _ in lot]
        before = addresses_of(run, head, paths)
        now = addresses_of(run, rule.branch, paths)
        # What somebody else removed meanwhile is removed.
        changed += [path for path in paths if path in now and now[path] != before.get(path)]
    if count != entries:
        raise IncompleteReadError(
            f"commit {work_commit} of {rule.words} removes {count:,} entries, and "
            f"{entries:,} were found",
            "Run again.",
        )
    return changed


def require_back(run: Run, merge: Commit, head: str, commit: str, *, at_most: int) -> None:
    """Make sure that a commit brings back entries that a merge removed, and nothing else.

    Args:
        run: The run.
        merge: The merge.
        head: The commit on which it was made.
        commit: The commit with the entries.
        at_most: Number of the entries whose objects are in the store.

    Raises:
        IncompleteReadError: If the commit is not what this process staged.
    """
    back = 0
    for lot in lots(run.server.diff_commits(run.repository.id, head, commit, "")):
        back += len(lot)
        paths = [path for path, _ in lot]
        now = addresses_of(run, commit, paths)
        before = addresses_of(run, merge.main_parent or "", paths)
        wrong = [
            path
            for path, kind in lot
            if kind != "added" or path not in now or now[path] != before.get(path)
        ]
        if wrong:
            raise IncompleteReadError(
                f"commit {commit} changes {wrong[0][:200]!r}, which the undo does not name",
                "Somebody may have written to its branch: run again.",
            )
    if back > at_most:
        raise IncompleteReadError(
            f"commit {commit} brings back {back:,} entries, and the objects of "
            f"{at_most:,} were found in the store",
            "Run again.",
        )
