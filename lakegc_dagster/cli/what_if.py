"""`lakegc what-if`: what would be free under other rules."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakegc_dagster.cli import rules_document
from lakegc_dagster.cli.common import RunKeyType, command_body, read_settings
from lakegc_dagster.cli.rules import LONGEST_DAYS

if TYPE_CHECKING:
    from spark_core.explain import WhatIf
    from spark_core.model import RunKey

_BAR = 30


class _Days(click.ParamType[Any]):
    """Numbers of days: 1,7,30."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        try:
            days = tuple(int(text) for text in str(value).split(","))
        except ValueError:
            days = (-1,)
        if min(days) < 0:
            self.fail(f"{value!r} is not a list of days like 1,7,30", param, ctx)
        return days


@click.command("what-if")
@click.argument("repository")
@click.option(
    "--days",
    type=_Days(),
    default="1,3,7,14,21,30,60,90",
    show_default=True,
    help="Days that every branch would keep, each for itself.",
)
@click.option(
    "--rules",
    "rules_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A JSON file of rules in lakeFS's form, answered exactly.",
)
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="RUN",
    help="The run whose listing is read; the newest one if left out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@command_body
def what_if(
    config: Path | None,
    repository: str,
    days: tuple[int, ...],
    rules_file: Path | None,
    key: RunKey | None,
    *,
    as_json: bool,
) -> int:
    """Show what would be free under other rules; changes no rule and no object.

    As for a mark, the server lists commits and dumps refs, in files that it keeps.

    One pass over the repository's tables answers for all of them, with the listing of the newest
    mark. Every number is an upper bound: content that was uploaded again, and that a branch may
    read unseen, is looked for by a mark alone.

    \b
    Examples:
      lakegc what-if my-repo
      lakegc what-if my-repo --days 7,14,28
      lakegc what-if my-repo --rules shorter.json --json
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from lakegc_dagster.stored_runs import open_stored
    from spark_core import explain

    rules = None
    if rules_file is not None:
        rules = rules_document.read(rules_file, longest_days=LONGEST_DAYS)
    with ExitStack() as stack:
        run = open_stored(read_settings(config, stack), repository, key)
        found = explain.what_if(run, days, rules)
        if as_json:
            click.echo(found.to_json())
        else:
            _show(found)
        # After the answer: a store that takes no file keeps nobody from it.
        explain.keep_answer(run, found, days)
    return 0


def _show(found: WhatIf) -> None:
    from lakegc_dagster import console

    shown = console.console()
    most = max((answer.size_bytes for answer in found.answers), default=0)
    rows = [
        (
            answer.name,
            f"{answer.objects:,}",
            console.bytes_text(answer.size_bytes),
            "█" * round(_BAR * answer.size_bytes / most) if most else "",
            ", ".join(prefix or "(no folder)" for prefix, _, _ in answer.by_prefix[:3]),
        )
        for answer in found.answers
    ]
    shown.print(
        f"What would be free of {found.repository}, by the listing of run {found.run}",
        style="bold",
        soft_wrap=True,
    )
    shown.print(console.table("", ("if", "objects", "bytes", "", "most of it in"), rows))
    objects, size = found.never_committed
    shown.print(
        f"{objects:,} objects ({console.bytes_text(size)}) of each row were never committed. "
        "No rule was changed. The page of the run shows the curve (`lakegc report`).",
        soft_wrap=True,
    )
