"""`lakegc explain`: why one object is kept, may go, or is gone."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.common import (
    LAKEFS,
    RepositoryType,
    RunKeyType,
    command_body,
    read_settings,
)
from spark_core.errors import FAILED
from spark_core.plain_text import bytes_text, counted, visible

if TYPE_CHECKING:
    from rich.console import Console

    from spark_core.explain import Explanation, FolderExplanation
    from spark_core.model import RunKey


@click.command()
@click.argument("named", metavar="[REPOSITORY] ADDRESS|PATH", nargs=-1, required=True)
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="RUN",
    help="The run whose tables are read; the newest one if left out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@command_body
def explain(
    config: Path | None, named: tuple[str, ...], key: RunKey | None, *, as_json: bool
) -> int:
    """Say why an object or a folder is kept or may go, or which run deleted it.

    The object is named by its physical address, full or relative to the namespace, or by a path as
    lakefs://REPOSITORY/REF/PATH, which needs no other word. A path is looked up on the server as it
    is now. If REF no longer has it, it is looked up among what the stored runs let go; if the
    server has no such REF, that is said, and every branch is asked, too. Everything else is what
    the run saw. For a kept object, lakeFS's tables are read as in a mark, to find every retained
    commit that has it. The exit code is 1 if nothing has or had that name.

    A name that ends in a slash is a folder, and its objects are summed up by what keeps them. Of
    lakefs://REPOSITORY/REF/FOLDER/ those are what REF shows below it now, what retained commits
    have, and what the run let go, all as big as the run listed them; data/FOLDER/ is a folder of
    the storage namespace.

    \b
    Examples:
      lakegc explain lakefs://my-repo/main/tables/part-0.parquet
      lakegc explain lakefs://my-repo/main/tables/
      lakegc explain my-repo data/gp0n1l7d77pn0cke6jjg/cpe2e9n7pnpe0r8n4hdg
      lakegc explain my-repo data/gp0n1l7d77pn0cke6jjg/cpe2e9n7pnpe0r8n4hdg --json
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core.explain import address_of, addresses_of_path, explain_folder, is_folder
    from spark_core.explain.why import explain as explained
    from spark_core.stored_runs import open_run_or_newest_mark
    from spark_core.terminal import console

    repository, what = _repository_and_object(named)
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        run = open_run_or_newest_mark(settings, repository, key)
        if is_folder(what):
            _show_folder(explain_folder(run, what), as_json=as_json)
            return 0
        (address, *others), caution = (
            addresses_of_path(run, what)
            if what.startswith(LAKEFS)
            else ([address_of(run, what)], "")
        )
        found = replace(explained(run, address), others=tuple(others), caution=caution)
    if as_json:
        click.echo(found.to_json())
    else:
        _show(console.console(), found)
    return FAILED if found.state == "unknown" else 0


def _repository_and_object(named: tuple[str, ...]) -> tuple[str, str]:
    """Return the repository and what is asked about; a whole path says both.

    Raises:
        UsageError: If the words are not one or two, or one that is no path.
    """
    first, *others = named
    if len(others) == 1:
        return RepositoryType().convert(first, None, None), others[0]
    repository, _, rest = first.removeprefix(LAKEFS).partition("/")
    if others or not first.startswith(LAKEFS) or not rest:
        raise click.UsageError(
            "Name a repository and an address or path, or a path alone, as "
            f"{LAKEFS}REPOSITORY/REF/PATH."
        )
    return repository, first


def _show_folder(found: FolderExplanation, *, as_json: bool) -> None:
    from spark_core.terminal import console

    if as_json:
        click.echo(found.to_json())
        return
    shown = console.console()
    size = f"{counted(found.objects, 'object')}, {bytes_text(found.size_bytes)}"
    shown.print(f"{visible(found.folder)}: {size}", style="bold", markup=False, soft_wrap=True)
    shown.print(f"as run {found.run} saw it", markup=False, soft_wrap=True)
    for group in found.groups:
        shown.print(
            f"  {bytes_text(group.size_bytes):>9}  {group.objects:>9,}  {group.text}",
            markup=False,
            soft_wrap=True,
        )


def _show(shown: Console, found: Explanation) -> None:
    from spark_core.explain import instant_in_words

    if found.caution:
        shown.print(visible(found.caution), style="yellow", markup=False, soft_wrap=True)
    shown.print(visible(found.sentence), style="bold", markup=False, soft_wrap=True)
    known = "" if found.size_bytes is None else f", {bytes_text(found.size_bytes)}"
    shown.print(
        f"{visible(found.address)}{known}, as run {found.run} saw it", markup=False, soft_wrap=True
    )
    for reason in found.reasons:
        until = f", until {instant_in_words(reason.until)} at least" if reason.until else ""
        shown.print(f"  {reason.kind:<7} {reason.text}{until}", markup=False, soft_wrap=True)
    if found.others:
        shown.print(
            f"Other objects had this path and were let go by a mark: {', '.join(found.others)}",
            markup=False,
            soft_wrap=True,
        )
