"""The demo's last two steps by a policy: entries go by a commit, and a branch goes for a while."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console

from lakegc_dagster.demo.sandbox import REPOSITORY_ID
from spark_core.branches import removal
from spark_core.branches.stale import delete_branches, marked
from spark_core.model import RunKey
from spark_core.run import Run
from spark_core.settings import Settings
from spark_core.stored_runs import open_stored
from spark_core.terminal import console

REMOVE = f"Remove: lakegc retention remove {REPOSITORY_ID}; entries go by a commit, and no object"
CLEAR = (
    f"Stale branches: lakegc retention branches mark {REPOSITORY_ID}; marked, confirmed, deleted"
)
_WHO = "the demo"


def show_removal(shown: Console, settings: Settings) -> None:
    """Remove what the rules with `effect: remove` name, and show until when it can be undone."""
    run = _opened(settings)
    done = removal.remove(run, who=_WHO)
    rows = [
        (
            f"{each.rule}: {each.prefix}",
            each.state,
            f"{each.entries}",
            "-" if each.undo_until is None else f"{each.undo_until:%Y-%m-%d %H:%M}",
        )
        for each in (named.outcome for named in done.named)
    ]
    columns = ("rule", "what became of it", "entries", "undo until (UTC)")
    shown.print(console.table(f"Removal from {REPOSITORY_ID}, run {run.key}", columns, rows))
    shown.print(f"  undo     lakegc retention restore {REPOSITORY_ID} {run.key}", markup=False)


def show_branches(shown: Console, settings: Settings) -> None:
    """Delete the stale branches, and show until when they can be made again."""
    run = _opened(settings)
    made = marked.mark(run, who=_WHO)
    rows = [("goes" if row.goes else "stays", row.branch, row.why) for row in made.branches]
    shown.print(console.table("Its branches", ("", "branch", "why"), rows))
    key = RunKey.parse(made.mark)
    marked.confirm(run, key, who=_WHO)
    # A removal of the same second has the same key; the names say that branches are meant.
    undo = f"lakegc retention restore {REPOSITORY_ID} {key}"
    for each in delete_branches.delete(run, key, who=_WHO):
        undo += f" --branch {each.branch}" if each.outcome == "deleted" else ""
        until = "" if each.until is None else f", can be made again until {each.until:%Y-%m-%d}"
        shown.print(f"  {each.branch}: {each.outcome}{until}", markup=False)
    shown.print(f"  undo     {undo}", markup=False, soft_wrap=True)


def _opened(settings: Settings) -> Run:
    return open_stored(settings, REPOSITORY_ID, RunKey.at(datetime.now(UTC)))
