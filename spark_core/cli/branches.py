"""`lakegc retention branches`: find stale branches, and delete them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.act_document import (
    BranchDecided,
    BranchDone,
    BranchesDone,
    BranchesMarked,
    Confirmed,
)
from spark_core.cli.acting import acting, tell
from spark_core.cli.common import RepositoryType, RunKeyType
from spark_core.cli.groups import Commands
from spark_core.cli.holds import open_now
from spark_core.errors import FAILED
from spark_core.who_acts import who

if TYPE_CHECKING:
    from datetime import datetime

    from spark_core.branches.stale.delete_branches import BranchOutcome
    from spark_core.branches.stale.marked import BranchMark
    from spark_core.model import RunKey
    from spark_core.run import Run

_repository = click.argument("repository", type=RepositoryType())
_mark = click.argument("key", metavar="MARK", type=RunKeyType())


@click.group("branches", cls=Commands)
def branches() -> None:
    """Mark and delete branches that `branch_lifecycle` of the policy lets go.

    \b
    Examples:
      lakegc retention branches mark my-repo
      lakegc confirm my-repo branches --run 2026-11-20T02-00-00Z
      lakegc retention branches delete my-repo 2026-11-20T02-00-00Z
      lakegc retention restore my-repo 2026-11-20T02-00-00Z --branch users-ann
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"


@branches.command("mark")
@_repository
@acting
def branches_mark(config: Path | None, repository: str) -> int:
    """Show which branches may go, and why the others stay; deletes nothing.

    It decides about every branch and stores that under a key. Confirm the mark, then delete.

    \b
    Example:
      lakegc retention branches mark my-repo
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from spark_core.branches.stale import marked

        run = open_now(config, stack, repository)
        made = marked.mark(run, who=who())
        _show_mark(run, made)
        rows = [
            BranchDecided(row.branch, row.goes, row.commit_id, row.why) for row in made.branches
        ]
        command = f"lakegc confirm {repository} branches --run {made.mark}"
        tell(BranchesMarked(made.mark, made.policy_version, rows), command if made.going else "")
        if made.going:
            _say(f"next     {command}")
            _say(f"then     lakegc retention branches delete {repository} {made.mark}")
        _show_undoable(run)
    return 0


def confirm_branches(
    config: Path | None, repository: str, key: RunKey, only: tuple[str, ...]
) -> int:
    """Confirm that the branches that a mark lets go may go; `lakegc confirm` does it."""
    with ExitStack() as stack:
        from spark_core.branches.stale import marked

        run = open_now(config, stack, repository)
        confirmed = marked.confirm(run, key, who=who(), only=only)
        command = f"lakegc retention branches delete {repository} {key}"
        names = ", ".join(confirmed.branches)
        tell(Confirmed("branches", str(key), confirmed.who, names), command)
        _say(f"confirmed by {confirmed.who}: {names}")
        _say(f"next     {command}")
    return 0


@branches.command("delete")
@_repository
@_mark
@acting
def branches_delete(config: Path | None, repository: str, key: RunKey) -> int:
    """Delete the confirmed branches of a mark that did not change since.

    They can be restored (`lakegc retention restore`) for the policy's `undo_days`, until which a
    hold keeps their objects. Holds of branches whose days are over end with it.

    \b
    Example:
      lakegc retention branches delete my-repo 2026-11-20T02-00-00Z
    """  # noqa: D301 - as above
    with ExitStack() as stack:
        from spark_core.branches.stale import delete_branches

        run = open_now(config, stack, repository)
        code = _show_outcomes(run, key, delete_branches.delete(run, key, who=who()))
        _end_holds(run)
    return code


def make_branches_again(run: Run, key: RunKey, only: tuple[str, ...]) -> int:
    """Make the deleted branches of a mark again, at the same commits.

    `lakegc retention restore` does it.

    Args:
        run: The repository, opened.
        key: Key of the mark.
        only: Names of the branches; empty for all that were deleted.
    """
    from spark_core.branches.stale import make_again

    return _show_outcomes(run, key, make_again.undo(run, key, who=who(), only=only))


def _show_mark(run: Run, made: BranchMark) -> None:
    from spark_core.plain_text import visible
    from spark_core.terminal import console

    rows = [
        ("goes" if row.goes else "stays", visible(row.branch), row.commit_id[:12], visible(row.why))
        for row in sorted(made.branches, key=lambda row: not row.goes)
    ]
    columns = ("", "branch", "head", "why")
    title = f"Branches of {run.repository.id}, mark {made.mark}"
    console.console().print(console.table(title, columns, rows))
    going = len(made.going)
    _say(
        f"{going:,} of {len(made.branches):,} branches may go, by version {made.policy_version} of "
        "the policy. None is deleted."
    )


def _show_undoable(run: Run) -> None:
    """Name the deleted branches of earlier marks that can be restored."""
    from spark_core.branches.stale import deletion_steps, undo_holds

    steps = deletion_steps.steps(run.store).values()
    found = [step for each in steps if (step := deletion_steps.may_come_back(each)) is not None]
    name = run.repository.id
    for step in sorted(found, key=lambda step: step.until):
        if step.until >= run.now():
            restore = f"lakegc retention restore {name} {step.mark} --branch {step.branch}"
            _say(f"deleted  {step.branch}: until {_minute(step.until)} UTC: {restore}")
        elif undo_holds.is_held(run, step):
            remove = f"lakegc hold remove {name} {step.hold}"
            _say(f"over     {step.branch}: its days are over: {remove}")


def _show_outcomes(run: Run, key: RunKey, found: Sequence[BranchOutcome]) -> int:
    from spark_core.branches.stale.delete_branches import OPEN
    from spark_core.plain_text import visible
    from spark_core.terminal import console

    rows = [
        (
            visible(each.branch),
            each.outcome,
            "-" if each.until is None else _minute(each.until),
            visible(each.why) or "-",
        )
        for each in found
    ]
    columns = ("branch", "outcome", "can be restored until (UTC)", "why")
    title = f"Branches of {run.repository.id}, mark {key}"
    console.console().print(console.table(title, columns, rows))
    done = [
        BranchDone(
            each.branch,
            each.outcome,
            None if each.until is None else each.until.isoformat(),
            each.why,
        )
        for each in found
    ]
    tell(BranchesDone(str(key), done))
    return FAILED if any(each.outcome in OPEN for each in found) else 0


def _end_holds(run: Run) -> None:
    from spark_core.branches.stale import undo_holds

    for hold in undo_holds.end_holds(run):
        _say(f"{hold.words} was removed: the days to restore its branch are over")


def _minute(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M}"


def _say(words: str) -> None:
    from spark_core.plain_text import visible
    from spark_core.terminal import console

    console.console().print(visible(words), markup=False, soft_wrap=True)
