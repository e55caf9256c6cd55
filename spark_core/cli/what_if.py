"""`lakegc what-if`: what would be free under other rules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_core.cli import rules_document, rules_plan
from spark_core.cli.common import (
    RepositoryType,
    RunKeyType,
    command_body,
    name_absent_branches,
    read_settings,
)
from spark_core.cli.rules import (
    LONGEST_DAYS,
    branch_option,
    branches_named,
    default_option,
)
from spark_core.errors import LakegcError
from spark_core.plain_text import bytes_text, counted
from spark_core.prices import money_text

if TYPE_CHECKING:
    from spark_core.explain import WhatIf
    from spark_core.model import RunKey
    from spark_core.run import Run

# Where a line has room for a bar.
_BAR, _WIDE = 20, 110
_NAMED = 3


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
@click.argument("repository", type=RepositoryType())
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
@default_option
@branch_option
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="RUN",
    help="The run whose listing is read; the newest mark if left out.",
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
    default_days: int | None,
    branch_days: Sequence[tuple[str, int]],
    as_json: bool,
) -> int:
    """Show what would be free under other rules; changes no rule and no object.

    As for a mark, the server lists commits and dumps refs, in files that it keeps.

    One pass over the repository's tables answers for all of them, with the listing of the newest
    mark; what a sweep has deleted since is not counted. Every number is an upper bound: content
    that was uploaded again, and that a branch may read unseen, is looked for only by a mark.

    An object counts for the branch whose commits keep it longest under the rules of now. A second
    table names what one branch, tag or rule alone keeps under the rules of now: what goes in the
    end once it is deleted. The commits of a deleted branch are kept for the default days first.

    The answer is kept beside the run for its page. If it cannot be kept, a warning says why.

    \b
    Examples:
      lakegc what-if my-repo
      lakegc what-if my-repo --days 7,14,28
      lakegc what-if my-repo --branch main=7
      lakegc what-if my-repo --rules shorter.json --json
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core import explain
    from spark_core.stored_runs import open_run_or_newest_mark

    named = branches_named(branch_days)
    by_options = default_days is not None or bool(named)
    if by_options and rules_file is not None:
        raise click.UsageError("either --rules, or --default and any --branch.")
    rules = None
    if rules_file is not None:
        rules = rules_document.read_rules(rules_file, longest_days=LONGEST_DAYS)
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        run = open_run_or_newest_mark(settings, repository, key)
        if by_options:
            now = run.server.retention_rules(repository)
            rules = rules_plan.rules_asked(now, default_days, named)
        if rules is not None:
            name_absent_branches(run.server, repository, rules.branches)
        found = explain.what_if(run, days, rules)
        if as_json:
            click.echo(found.to_json())
        else:
            _show(found)
        # After the answer: a store that takes no file keeps nobody from it.
        _keep(run, found, days, as_json=as_json)
    return 0


def _keep(run: Run, found: WhatIf, days: Sequence[int], *, as_json: bool) -> None:
    """Keep the answer for the page of the run; what prevents it is a warning."""
    from spark_core import explain
    from spark_core.terminal import console

    try:
        explain.keep_answer(run, found, days)
    except LakegcError as problem:
        console.console(sys.stderr).print(
            f"lakegc: the page of run {run.key} does not show this answer: {problem}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
    else:
        if not as_json:
            console.console().print("The page of the run shows the curve (`lakegc report`).")


def _show(found: WhatIf) -> None:
    from spark_core.terminal import console

    shown = console.console()
    price = found.price
    wide = shown.width >= _WIDE
    most = max((answer.size_bytes for answer in found.answers), default=0)
    rows = [
        (
            answer.name,
            f"{answer.objects:,}",
            bytes_text(answer.size_bytes),
            *([] if price is None else [money_text(answer.size_bytes, price)]),
            *(["█" * round(_BAR * answer.size_bytes / most) if most else ""] if wide else []),
            _names(answer.by_branch),
            _names(answer.by_prefix),
        )
        for answer in found.answers
    ]
    columns = ["if", "objects", "bytes", *([] if price is None else ["money"])]
    columns += [*([""] if wide else []), "most of it kept by", "most of it in"]
    shown.print(
        f"What would be free of {found.repository}, by the listing of run {found.run}",
        style="bold",
        soft_wrap=True,
    )
    shown.print(console.table("", columns, rows))
    if found.kept_by_one:
        shown.print(console.table("What one alone keeps", *_alone(found)))
    for line in (_ahead(found), *_not_shown(found)):
        shown.print(line, soft_wrap=True, markup=False)


def _alone(found: WhatIf) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return what goes in the end once a branch, a tag or a rule is gone: header and rows."""
    price = found.price
    rows = [
        (
            name,
            f"{objects:,}",
            bytes_text(size_bytes),
            *([] if price is None else [money_text(size_bytes, price)]),
        )
        for name, objects, size_bytes in found.kept_by_one
    ]
    return ["what goes", "objects", "bytes", *([] if price is None else ["money"])], rows


def _names(groups: Sequence[tuple[str, int, int]]) -> str:
    """Name the first groups; what was never committed has a sentence of its own."""
    named = [name for name, _, _ in groups if name != "(never committed)"]
    return ", ".join(named[:_NAMED])


def _ahead(found: WhatIf) -> str:
    """Say what goes next week and next month, beyond what may go now."""
    now, *later = [one for one in found.answers if one.name.startswith("the rules of now")]
    said = []
    for one in later:
        size_bytes = one.size_bytes - now.size_bytes
        cost = "" if found.price is None else f", {money_text(size_bytes, found.price)}"
        span = one.name.rpartition(" in ")[2]
        said.append(
            f"{one.objects - now.objects:,} more ({bytes_text(size_bytes)}{cost}) in {span}"
        )
    return f"Under the rules of now, {now.objects:,} may go today, {' and '.join(said)}."


def _not_shown(found: WhatIf) -> list[str]:
    """Say what each row has, and what none has."""
    said = [f"{_count(found.never_committed)} of each row were never committed."]
    if found.swept[0]:
        said.append(f"{_count(found.swept)} of the listing were swept since, and are in no row.")
    return [*said, "No rule and no object was changed."]


def _count(figures: tuple[int, int]) -> str:
    objects, size_bytes = figures
    return f"{counted(objects, 'object')} ({bytes_text(size_bytes)})"
