"""`lakegc restore`: bring back what a sweep deleted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.act_document import BroughtBack, LinkAgain, NotBack, OutcomeSum
from spark_core.cli.acting import acting, tell
from spark_core.cli.common import (
    RepositoryType,
    RunKeyType,
    read_settings,
    take_over_option,
)
from spark_core.errors import FAILED
from spark_core.plain_text import bytes_text, counted

if TYPE_CHECKING:
    from rich.console import Console

    from spark_core.model import RunKey
    from spark_core.run import Run
    from spark_core.undo.restore import Restored

# Largest number of objects that are named here as not restored; the stored table names all.
_NAMED = 50
# Largest number of commits that are named to make branches of; the JSON names all.
_COMMITS = 3

_WORDS = {
    "restored": "restored",
    "restorable": "can be restored",
    "already_there": "already there",
    "not_restorable": "cannot be restored",
    "failed": "failed",
}


@click.command()
@click.argument("repository", type=RepositoryType())
@click.argument("run", metavar="RUN", type=RunKeyType())
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="ADDRESS|PATH",
    help="Only this object: its physical address, or lakefs://REPOSITORY/REF/PATH; a path that"
    " ends in a slash names everything below it; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only say what could be restored; changes nothing.")
@take_over_option
@acting
def restore(
    config: Path | None,
    repository: str,
    run: RunKey,
    addresses: Sequence[str],
    take_over: RunKey | None,
    *,
    dry_run: bool,
) -> int:
    """Restore what the sweep of RUN deleted, from quarantine or from what the store itself keeps.

    An object that exists is never replaced. Each restored object is checked. The exit code is 0
    only if all requested objects are back.

    A path names the object that REF has there, if RUN let it go, else every object that RUN let go
    and whose last path it was, whatever REF has there now. Objects that may have lain below
    a folder, although no path on record says so, are counted; they come back without --address.

    \b
    Examples:
      lakegc restore my-repo 2026-11-20T02-00-00Z --dry-run
      lakegc restore my-repo 2026-11-20T02-00-00Z
      lakegc restore my-repo 2026-11-20T02-00-00Z --address lakefs://my-repo/main/tables/2026/
      lakegc restore my-repo 2026-11-20T02-00-00Z \\
        --address data/gp0n1l7d77pn0cke6jjg/cpe2e9n7pnpe0r8n4hdg
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core.explain import deleted_addresses, not_on_record
    from spark_core.stored_runs import open_known
    from spark_core.undo import restore as undoing

    with ExitStack() as stack:
        opened = open_known(read_settings(config, stack), repository, run)
        opened = replace(opened, take_over=None if take_over is None else str(take_over))
        wanted = [one for named in addresses for one in deleted_addresses(opened, named)]
        missed = dict.fromkeys(not_on_record(opened, named) for named in addresses)
        done = undoing.restore(opened, wanted or None, dry_run=dry_run)
        is_back = not dry_run and bool(done.objects["restored"] or done.objects["already_there"])
        links = _links(opened, wanted or None) if is_back else []
        _show(opened, done, wanted, dry_run=dry_run)
        if is_back:
            _show_links(opened, done, links)
        _show_missed([sentence for sentence in missed if sentence])
        tell(_document(done, run, links, dry_run=dry_run))
    return 0 if done.complete else FAILED


def _document(
    done: Restored, key: RunKey, links: Sequence[LinkAgain], *, dry_run: bool
) -> BroughtBack:
    return BroughtBack(
        str(key),
        dry_run,
        [
            OutcomeSum(outcome, done.objects[outcome], done.size_bytes[outcome])
            for outcome in _WORDS
        ],
        [NotBack(each.key, each.outcome, each.error) for each in done.left],
        done.record,
        list(links),
    )


def _links(run: Run, addresses: Sequence[str] | None) -> list[LinkAgain]:
    """Return how what came back is referred to again.

    A branch of an old commit costs nothing and copies nothing. To stage a single address is no way:
    `lakectl fs stage` takes none inside the repository's own namespace.
    """
    from spark_core.explain import last_commits

    where = f"lakefs://{run.repository.id}/"
    asked = None if addresses is None else [each.removeprefix(run.store.root) for each in addresses]
    return [
        LinkAgain(
            each.commit_id,
            each.objects,
            f"lakectl branch create {where}restored-{each.commit_id[:12]} "
            f"--source {where}{each.commit_id}",
        )
        for each in last_commits(run, asked)
    ]


def _causes(done: Restored) -> list[tuple[str, str, str]]:
    """Group the named objects that would not come back by cause, most first.

    A cause that quotes the object's own name is the same cause for every object.
    """
    found: dict[str, list[str]] = {}
    for outcome in done.left:
        cause = (outcome.error or "no cause is known").replace(outcome.key, "ADDRESS")
        found.setdefault(cause, []).append(outcome.key)
    most = sorted(found.items(), key=lambda each: -len(each[1]))
    return [(cause, f"{len(keys):,}", keys[0]) for cause, keys in most]


def _show(run: Run, done: Restored, addresses: Sequence[str], *, dry_run: bool) -> None:
    from spark_core.run.local_path import local_path
    from spark_core.terminal import console

    shown = console.console()
    did = "Restored" if done.objects["restored"] else "Nothing was restored"
    done_words = "What a restore would do" if dry_run else did
    title = f"{done_words}: {run.repository.id}, run {run.key}"
    rows = [
        (words, f"{done.objects[outcome]:,}", bytes_text(done.size_bytes[outcome]))
        for outcome, words in _WORDS.items()
        if done.objects[outcome]
    ]
    shown.print(title, style="bold", soft_wrap=True)
    shown.print(
        console.table(
            "", ("outcome", "objects", "bytes"), rows or [("nothing to restore", "0", "0 bytes")]
        )
    )
    if dry_run and done.left:
        shown.print(console.table("Why not", ("cause", "objects", "for example"), _causes(done)))
    _show_left(shown, done, dry_run=dry_run)
    if done.record is not None:
        shown.print(f"table    {local_path(run, done.record)}", markup=False, soft_wrap=True)
    if done.objects["restored"]:
        shown.print(
            *_how_to_keep(run.repository.id, addresses),
            sep="\n",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )


def _show_left(shown: Console, done: Restored, *, dry_run: bool) -> None:
    """Name what did not come back, each with its cause, and say how many are not named."""
    for outcome in [] if dry_run else done.left[:_NAMED]:
        shown.print(
            f"{_WORDS[outcome.outcome]}: {outcome.key}: {outcome.error}",
            markup=False,
            soft_wrap=True,
        )
    named = len(done.left) if dry_run else min(len(done.left), _NAMED)
    more = done.objects["failed"] + done.objects["not_restorable"] - named
    if more:
        where = (
            "a restore without --dry-run names all in a table"
            if done.record is None
            else "the table names all"
        )
        shown.print(f"... and {more:,} more ({where})", soft_wrap=True)


def _how_to_keep(repository_id: str, addresses: Sequence[str]) -> tuple[str, str]:
    """Say how long restored objects stay by themselves, and how a person keeps them."""
    first = addresses[0] if addresses else "ADDRESS"
    others = ", and so for each other" if len(addresses) > 1 else ""
    return (
        "A later mark finds a restored object again if nothing references it and it is old enough.",
        f"Keep it: lakegc hold add {repository_id} NAME --address {first}{others}",
    )


def _show_links(run: Run, done: Restored, links: Sequence[LinkAgain]) -> None:
    """Print the lines of `lakectl` that refer again to what came back."""
    from spark_core.terminal import console

    shown = console.console()
    if links:
        shown.print("A branch of the last commit that had them links them again:", style="yellow")
    for each in links[:_COMMITS]:
        shown.print(
            f"{counted(each.objects, 'object')}: {each.command}", markup=False, soft_wrap=True
        )
    if len(links) > _COMMITS:
        more = counted(len(links) - _COMMITS, "commit")
        shown.print(f"... and {more} more; --json names all", soft_wrap=True)
    unknown = (
        done.objects["restored"]
        + done.objects["already_there"]
        - sum(each.objects for each in links)
    )
    if unknown > 0:
        shown.print(
            f"{counted(unknown, 'object')} of which the run knows no commit: if nothing refers to "
            f"it, fetch each from its address below {run.store.root} and upload it again:",
            f"lakectl fs upload lakefs://{run.repository.id}/BRANCH/PATH --source FILE",
            sep="\n",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )


def _show_missed(sentences: Sequence[str]) -> None:
    """Say what a folder may have had although no path on record says so."""
    from spark_core.terminal import console

    for sentence in sentences:
        console.console().print(f"{sentence}.", style="yellow", markup=False, soft_wrap=True)
