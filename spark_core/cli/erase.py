"""`lakegc erase`: the way to an erasure, step by step; it shows, and changes nothing."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.act_document import WayStep, WayToErasure
from spark_core.cli.acting import acting, tell
from spark_core.cli.common import RepositoryType
from spark_core.cli.holds import open_now
from spark_core.errors import FAILED
from spark_core.plain_text import counted, visible

if TYPE_CHECKING:
    from spark_core.certificate.erasure import Erasure
    from spark_core.certificate.under_prefix import UnderPrefix
    from spark_core.run import Run


@click.command()
@click.argument("repository", type=RepositoryType())
@click.option(
    "--path", "prefix", metavar="PREFIX", required=True, help="Beginning of the paths to erase."
)
@click.option(
    "--policy-out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the retention policy of now with a rule for each branch that removes what is "
    "under PREFIX; `lakegc retention set` takes the file.",
)
@acting
def erase(config: Path | None, repository: str, *, prefix: str, policy_out: Path | None) -> int:
    """Show the way to erase what is or was under PREFIX, and the day on which it will be gone.

    It reads every branch and the tables of every commit, and says which branches show it, which
    tags and holds are in the way, until when the rules keep commits that have it, which run deletes
    it, and which certificate proves it at the end. Each step has its command, and shows what it
    does before it does it. This command only shows: give it again to see what is left.

    The exit code is 0 once nothing is left, and 1 before that, or if nothing was ever there.

    \b
    Examples:
      lakegc erase my-repo --path people/4711/
      lakegc erase my-repo --path people/4711/ --policy-out erase.json
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    if not prefix:
        raise click.UsageError("--path needs a prefix.")
    with ExitStack() as stack:
        from spark_core.certificate import erasure, issue
        from spark_core.certificate.under_prefix import under_prefix
        from spark_core.run.preconditions import require_writable

        run = open_now(config, stack, repository)
        require_writable(run.repository)
        under = under_prefix(run, prefix)
        left = issue.what_is_left(run, under)
        found = erasure.way(repository, prefix, under, left, run.options)
        _show(repository, found)
        tell(_document(found))
        if policy_out is not None:
            _write_policy(run, under, prefix, policy_out)
    return 0 if found.is_done and found.objects else FAILED


def _document(found: Erasure) -> WayToErasure:
    steps = [
        WayStep(
            each.kind,
            each.words,
            list(each.commands),
            None if each.until is None else each.until.isoformat(),
        )
        for each in found.steps
    ]
    on = None if found.true_on is None else found.true_on.isoformat()
    return WayToErasure(found.prefix, found.objects, found.left, steps, on)


def _show(repository: str, found: Erasure) -> None:
    from spark_core.terminal import console

    shown = console.console()

    def say(words: str) -> None:
        shown.print(words, markup=False, soft_wrap=True)

    if not found.objects:
        say(f"Nothing of {repository} has or had a path under {visible(found.prefix)}.")
        return
    of = f"{counted(found.objects, 'object')} of {repository} have or had a path under"
    say(f"{of} {visible(found.prefix)}; of {found.left:,} something is left.")
    for number, step in enumerate(found.steps, start=1):
        until = "" if step.until is None else f" ({step.until:%Y-%m-%d %H:%M} UTC)"
        say(f"\n{number:>2} {step.kind:<9}{visible(step.words)}{until}")
        for command in step.commands:
            say(f"             {visible(command)}")
    if found.is_done:
        say("Nothing is left. `lakegc certificate` proves it of the run that swept it.")
    elif found.true_on is None:
        say("\nThere is no day on which it is gone: take the obstacles away, and ask again.")
    else:
        say(
            f"\nIt is gone on {found.true_on:%Y-%m-%d} at the earliest, if the entries are removed "
            "now and a run follows each wait. Nothing was changed."
        )


def _write_policy(run: Run, under: UnderPrefix, prefix: str, target: Path) -> None:
    from spark_core.certificate import erasure
    from spark_core.references.policies import versions
    from spark_core.terminal import console
    from spark_core.whole_file import require_place, write_file

    branches = sorted({name for once in under.objects.values() for name in once.branches})
    version = versions.newest(run)
    now = None if version is None else version.policy
    require_place(target)
    write_file(target, erasure.removal_policy(now, prefix, branches).to_json().encode())
    console.console().print(f"file     {target}", markup=False, soft_wrap=True)
