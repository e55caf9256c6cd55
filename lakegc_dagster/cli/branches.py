"""`lakegc retention branches`: find stale branches, confirm, delete, and make them again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakegc_dagster.account import who
from lakegc_dagster.cli.common import RepositoryType, RunKeyType, command_body
from lakegc_dagster.cli.holds import open_now
from spark_core.errors import FAILED

if TYPE_CHECKING:
    from spark_core.model import RunKey
    from spark_core.policies.branches.deletion import BranchOutcome
    from spark_core.policies.branches.marked import BranchMark
    from spark_core.run import Run


@click.command("branches")
@click.argument("repository", type=RepositoryType())
@click.option(
    "--confirm",
    "confirm_key",
    type=RunKeyType(),
    metavar="MARK",
    help="Say that what this mark lets go may go.",
)
@click.option(
    "--delete",
    "delete_key",
    type=RunKeyType(),
    metavar="MARK",
    help="Delete the confirmed branches of this mark that did not change since.",
)
@click.option(
    "--undo",
    "undo_key",
    type=RunKeyType(),
    metavar="MARK",
    help="Make the deleted branches of this mark again, at the same commits.",
)
@click.option(
    "--end-holds", is_flag=True, help="Remove the holds of branches whose days to undo are over."
)
@click.option(
    "--branch",
    "only",
    multiple=True,
    metavar="NAME",
    help="With --confirm or --undo: this branch alone; may be given several times.",
)
@command_body
def branches(
    config: Path | None,
    repository: str,
    *,
    confirm_key: RunKey | None,
    delete_key: RunKey | None,
    undo_key: RunKey | None,
    only: tuple[str, ...],
    end_holds: bool,
) -> int:
    """Show which branches `branch_lifecycle` of the policy lets go, and why the others stay.

    Without an option it marks: it decides about every branch, stores that under a key, and deletes
    nothing. Confirm the mark, then delete. A branch that changed since stays. Deleted branches can
    be made again for the policy's `undo_days`.

    \b
    Examples:
      lakegc retention branches my-repo
      lakegc retention branches my-repo --confirm 2026-11-20T02-00-00Z
      lakegc retention branches my-repo --delete 2026-11-20T02-00-00Z
      lakegc retention branches my-repo --undo 2026-11-20T02-00-00Z --branch users-ann
      lakegc retention branches my-repo --end-holds
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    chosen = [bool(each) for each in (confirm_key, delete_key, undo_key, end_holds)]
    if sum(chosen) > 1:
        raise click.UsageError("choose one of --confirm, --delete, --undo and --end-holds.")
    if only and not (confirm_key or undo_key):
        raise click.UsageError("--branch goes with --confirm or --undo.")
    with ExitStack() as stack:
        run = open_now(config, stack, repository)
        if confirm_key is not None:
            return _confirm(run, confirm_key, only)
        if delete_key is not None:
            return _delete(run, delete_key)
        if undo_key is not None:
            return _undo(run, undo_key, only)
        return _end_holds(run) if end_holds else _mark(run)


def _mark(run: Run) -> int:
    from spark_core.policies.branches import marked

    made = marked.mark(run, who=who())
    _show_mark(run, made)
    going = len(made.going)
    if going:
        command = f"lakegc retention branches {run.repository.id}"
        _say(f"next     {command} --confirm {made.mark}")
        _say(f"then     {command} --delete {made.mark}")
    _show_undoable(run)
    return 0


def _show_mark(run: Run, made: BranchMark) -> None:
    from lakegc_dagster import console
    from spark_core.plain_text import visible

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
    """Name the deleted branches of earlier marks that can be made again."""
    from spark_core.policies.branches import marked

    steps = marked.steps(run.store).values()
    found = [step for each in steps if (step := marked.may_come_back(each)) is not None]
    for step in sorted(found, key=lambda step: step.until):
        if step.until >= run.now():
            _say(
                f"deleted  {step.branch}: until {step.until:%Y-%m-%d %H:%M} UTC it can be made "
                f"again (--undo {step.mark})"
            )
        else:
            _say(f"over     {step.branch}: its days are over; --end-holds removes its hold")


def _confirm(run: Run, key: RunKey, only: Sequence[str]) -> int:
    from spark_core.policies.branches import marked

    confirmed = marked.confirm(run, key, who=who(), only=only)
    _say(f"confirmed by {confirmed.who}: {', '.join(confirmed.branches)}")
    _say(f"next     lakegc retention branches {run.repository.id} --delete {key}")
    return 0


def _delete(run: Run, key: RunKey) -> int:
    from spark_core.policies.branches import deletion

    code = _show_outcomes(run, key, deletion.delete(run, key, who=who()))
    _end_holds(run)
    return code


def _undo(run: Run, key: RunKey, only: Sequence[str]) -> int:
    from spark_core.policies.branches import deletion

    return _show_outcomes(run, key, deletion.undo(run, key, who=who(), only=only))


def _show_outcomes(run: Run, key: RunKey, found: Sequence[BranchOutcome]) -> int:
    from lakegc_dagster import console
    from spark_core.plain_text import visible
    from spark_core.policies.branches.deletion import OPEN

    rows = [
        (
            visible(each.branch),
            each.outcome,
            "-" if each.until is None else f"{each.until:%Y-%m-%d %H:%M}",
            visible(each.why) or "-",
        )
        for each in found
    ]
    columns = ("branch", "outcome", "can be made again until (UTC)", "why")
    title = f"Branches of {run.repository.id}, mark {key}"
    console.console().print(console.table(title, columns, rows))
    return FAILED if any(each.outcome in OPEN for each in found) else 0


def _end_holds(run: Run) -> int:
    from spark_core.policies.branches import deletion

    for hold in deletion.end_holds(run):
        _say(f"{hold.words} was removed: the days to make its branch again are over")
    return 0


def _say(words: str) -> None:
    from lakegc_dagster import console
    from spark_core.plain_text import visible

    console.console().print(visible(words), markup=False, soft_wrap=True)
