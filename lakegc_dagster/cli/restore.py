"""`lakegc restore`: what a sweep deleted, brought back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakegc_dagster.cli.common import FAILED, RunKeyType, command_body, read_settings, take_over_option

if TYPE_CHECKING:
    from spark_core.model import RunKey
    from spark_core.run import Run
    from spark_core.undo.restore import Restored

# Of objects that are not back, how many are named here; the stored table names all.
_NAMED = 50

_WORDS = {
    "restored": "restored",
    "restorable": "can be restored",
    "already_there": "already there",
    "not_restorable": "cannot be restored",
    "failed": "failed",
}


@click.command()
@click.argument("repository")
@click.argument("run", metavar="RUN", type=RunKeyType())
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="ADDRESS",
    help="Only this object: its physical address, whole or below the namespace; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only say what could come back; changes nothing.")
@take_over_option
@command_body
def restore(
    config: Path | None,
    repository: str,
    run: RunKey,
    addresses: Sequence[str],
    take_over: RunKey | None,
    *,
    dry_run: bool,
) -> int:
    """Bring back what the sweep of RUN deleted: out of quarantine, or from what the store itself keeps.

    An object that exists is never replaced. Each one is looked at after it came
    back. The exit code is 0 only if everything that was asked for is back.

    \b
    Examples:
      lakegc restore my-repo 2026-11-20T02-00-00Z --dry-run
      lakegc restore my-repo 2026-11-20T02-00-00Z
      lakegc restore my-repo 2026-11-20T02-00-00Z --address data/gp0n1l7d77pn0cke6jjg/cpe2e9n7pnpe0r8n4hdg
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from lakegc_dagster.stored_runs import open_stored
    from spark_core.undo import restore as undoing

    with ExitStack() as stack:
        opened = open_stored(read_settings(config, stack), repository, run)
        opened = replace(opened, take_over=None if take_over is None else str(take_over))
        done = undoing.restore(opened, addresses or None, dry_run=dry_run)
        _show(opened, done, addresses, dry_run=dry_run)
    return 0 if done.complete else FAILED


def _show(run: Run, done: Restored, addresses: Sequence[str], *, dry_run: bool) -> None:
    from lakegc_dagster import console
    from lakegc_dagster.stored_runs import local_path

    shown = console.console()
    title = f"{'What a restore would do' if dry_run else 'Restored'}: {run.repository.id}, run {run.key}"
    rows = [
        (words, f"{done.objects[outcome]:,}", console.bytes_text(done.size_bytes[outcome]))
        for outcome, words in _WORDS.items()
        if done.objects[outcome]
    ]
    shown.print(title, style="bold", soft_wrap=True)
    shown.print(console.table("", ("outcome", "objects", "bytes"), rows or [("nothing to bring back", "0", "0 bytes")]))
    for outcome in done.left[:_NAMED]:
        shown.print(f"{_WORDS[outcome.outcome]}: {outcome.key}: {outcome.error}", markup=False, soft_wrap=True)
    more = done.objects["failed"] + done.objects["not_restorable"] - min(len(done.left), _NAMED)
    if more:
        where = "a restore without --dry-run names all in a table" if done.record is None else "the table names all"
        shown.print(f"... and {more:,} more ({where})", soft_wrap=True)
    if done.record is not None:
        shown.print(f"table    {local_path(run, done.record)}", markup=False, soft_wrap=True)
    if done.objects["restored"]:
        named = addresses[0] if addresses else "ADDRESS"
        shown.print(
            "An object that nothing references will be found again by a mark, at the latest when it is older than the "
            f"minimum age.\nKeep it: lakegc hold add {run.repository.id} NAME --address {named}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
