"""`lakegc runs` and `lakegc status`: what every run did, and how each repository stands."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_core.cli.common import RepositoryType, command_body, read_settings
from spark_core.errors import FAILED
from spark_core.plain_text import bytes_text
from spark_core.prices import Price, amount_text, money_text
from spark_core.whole_file import require_place, write_file

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console

    from spark_core.report.past_run import PastRun
    from spark_core.report.status import KindStatus, RepositoryStatus
    from spark_core.stored_runs.overview import Past

# What money is told of, by the names of `RepositoryStatus.money_per_month`.
_MONEY = {
    "listed": "all objects",
    "reclaimed_lately": "saved by the last 30 days",
    "reclaimed_before": "by the 30 before",
    "reclaimed": "in all",
    "waiting": "waiting",
    "in_quarantine": "in quarantine",
}
# So many repositories are few: all is said of each, and each is named.
_NAMED = 3
_NONE = "–"  # noqa: RUF001 - a dash, as in any table

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
_repositories = click.argument(
    "repositories", metavar="[REPOSITORY]...", nargs=-1, type=RepositoryType()
)


@click.command()
@_repositories
@click.option(
    "--last",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the N newest runs of each repository; default: all.",
)
@_json_option
@command_body
def runs(
    config: Path | None, repositories: Sequence[str], last: int | None, *, as_json: bool
) -> int:
    """Show every run with its state, objects, bytes and duration, newest first.

    Without names: every repository of the settings. The states are `unfinished` (the mark has no
    verdict), `refused` (by the checks that are named), `marked`, `sweep unfinished`, `swept in
    part` (the store did not delete everything), `swept`, `restored` (something of it came back),
    `superseded` (it did not end, and a later run was swept) and `unreadable` (a document of the run
    is damaged). The kind says whether the mark read everything
    (`clean`) or took what never changes from the index (`optimized`), and whether it lets go only
    what `policies` name, or only what a `reference mark` names, too. The runs are read from the
    store, so those of Dagster, of the command line and of spark-submit are all there. Spark does
    not start.

    The exit code is 1 if the runs of a repository could not be read.

    \b
    Examples:
      lakegc runs my-repo
      lakegc runs --last 3
      lakegc runs my-repo --json
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core.stored_runs.overview import overview
    from spark_core.terminal import console

    shown, code, document = console.console(), 0, dict[str, Any]()
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        for past in overview(settings, repositories, newest=last):
            document[past.repository] = (
                {"problem": past.status.problem}
                if past.error is not None
                else {"runs": [run.to_json() for run in past.runs]}
            )
            if past.error is not None:
                console.show_error(console.console(sys.stderr), past.error)
                code = FAILED
            elif not as_json:
                _show_runs(shown, past.repository, past.runs, past.status.price)
    if as_json:
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    return code


@click.command()
@_repositories
@_json_option
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write them as a page for a browser, which needs nothing beside itself.",
)
@command_body
def status(
    config: Path | None, repositories: Sequence[str], page: Path | None, *, as_json: bool
) -> int:
    """Show how each repository stands, one line for each.

    The line has the last good mark, the last sweep, what was reclaimed in 30 days and in all, what
    waits for a sweep or for a confirmation, and whether a mark is overdue: longer ago than one and
    a half times the longest pause of `[schedule]`. Mark and sweep are those of runs that let go
    what nothing reaches; runs of another kind, such as those that take only what a retention policy
    names, have lines of their own below the table. What was restored is not counted as reclaimed.
    Other lines say more, and how to go on.

    The exit code is 1 if a repository could not be read or is overdue.

    \b
    Examples:
      lakegc status
      lakegc status my-repo other-repo
      lakegc status --json
      lakegc status --html /var/www/lakegc.html
    """  # noqa: D301 - as above
    from spark_core.stored_runs.overview import overview
    from spark_core.terminal import console

    shown = console.console()
    if page is not None:
        require_place(page)
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        past = list(overview(settings, repositories))
        if page is not None:
            write_file(page, _page(past, settings.server.url).encode())
    found = [each.status for each in past]
    if as_json:
        document = {each.repository: each.to_json() for each in found}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        _show_status(shown, found)
        if page is not None:
            shown.print(f"\npage     {page}", markup=False, soft_wrap=True)
    return FAILED if any(each.problem or each.overdue for each in found) else 0


def _page(found: Sequence[Past], server: str) -> str:
    from spark_core.clocks import SystemClock
    from spark_core.report.fleet import fleet_page

    return fleet_page([past.row for past in found], now=SystemClock().now(), server=server)


def _show_runs(
    shown: Console, repository_id: str, found: Sequence[PastRun], price: Price | None
) -> None:
    from spark_core.terminal import console

    if not found:
        shown.print(f"{repository_id} has no runs yet (`lakegc mark {repository_id}`)\n")
        return
    columns = (
        "run",
        "state",
        "kind",
        "listed",
        "may go",
        "bytes",
        *(() if price is None else ("costs",)),
        "deleted",
        "seconds",
        "what to know",
    )
    rows = [
        (
            run.run,
            run.state,
            _kind(run),
            _count(run.listed_objects),
            _count(run.expired_objects),
            _NONE if run.expired_bytes is None else bytes_text(run.expired_bytes),
            *(() if price is None else (_costs(run, price),)),
            _count(run.outcomes.get("deleted", (0, 0))[0]) if run.swept else _NONE,
            _NONE if run.seconds is None else f"{run.seconds:.1f}",
            _to_know(run),
        )
        for run in found
    ]
    shown.print(console.table(f"Runs of {repository_id}", columns, rows))
    shown.print()


def _costs(run: PastRun, price: Price) -> str:
    if run.expired_bytes is None:
        return _NONE
    return money_text(run.expired_bytes, run.price_of_expired(price))


def _kind(run: PastRun) -> str:
    """Say what a mark read, and what it lets go if that is not what nothing reaches."""
    only = run.collects if run.collects not in (None, "all") else ""
    return ", ".join(filter(None, (run.kind, only))) or _NONE


def _count(figure: int | None) -> str:
    return _NONE if figure is None else f"{figure:,}"


def _to_know(run: PastRun) -> str:
    said = []
    if run.problem:
        said.append(run.problem)
    if run.refused:
        said.append(f"refused by {', '.join(run.refused)}")
    said += [
        f"{run.outcomes[outcome][0]:,} {outcome}"
        for outcome in ("kept", "refused", "failed")
        if outcome in run.outcomes
    ]
    if run.deleted_before[0]:
        said.append(f"{run.deleted_before[0]:,} had been reported deleted before")
    if run.restored[0]:
        said.append(f"{run.restored[0]:,} restored")
    if run.in_quarantine[0]:
        until = run.quarantine_until
        ends = "" if until is None else f" until {until:%Y-%m-%d %H:%M}"
        said.append(f"{run.in_quarantine[0]:,} in quarantine{ends}")
    if run.ended_by:
        said.append(f"run {run.ended_by} ended its sweep")
    return ", ".join(said)


def _totals(found: Sequence[RepositoryStatus]) -> list[str]:
    """Say what all repositories come to, and what that costs in each currency."""
    from spark_core.report.fate_counts import total

    if len(found) < 2:
        return []
    sizes = {
        "reclaimed in 30 days": total(each.reclaimed_lately for each in found),
        "in the 30 days before": total(each.reclaimed_before for each in found),
        "in all": total(each.reclaimed for each in found),
        "waiting": total(each.most_waiting for each in found),
        "in quarantine": total(each.in_quarantine for each in found),
    }
    said = [f"{words} {_size(size)}" for words, size in sizes.items()]
    lines = [f"all {len(found)} repositories: {'; '.join(said)}."]
    currencies = sorted({each.price.currency for each in found if each.price is not None})
    for currency in currencies:
        paid = [each for each in found if each.price and each.price.currency == currency]
        amounts = (
            f"{words} {amount_text(sum(each.money_per_month[what] for each in paid), currency)}"
            for what, words in _MONEY.items()
        )
        of = f"{len(paid)} of {len(found)} have a price in {currency or 'no currency'}"
        lines.append(f"money ({of}): {'; '.join(amounts)}.")
    return lines


def _show_status(shown: Console, found: Sequence[RepositoryStatus]) -> None:
    from spark_core.terminal import console

    columns = (
        "repository", "last good mark", "last sweep", "reclaimed in 30 days", "in all", "waiting",
        "overdue",
    )  # fmt: skip
    rows = [
        (
            each.repository,
            _marked(each),
            _when(each.last_swept_at),
            _size(each.reclaimed_lately),
            _size(each.reclaimed),
            _size(each.most_waiting) if each.most_waiting[0] else _NONE,
            "not known" if each.problem else "yes" if each.overdue else "no",
        )
        for each in found
    ]
    shown.print(console.table("", columns, rows))
    for line in _totals(found):
        shown.print(f"\n{line}", markup=False, soft_wrap=True)
    said: dict[str, list[str]] = {}
    for each in found:
        for line in _more(each, are_few=len(found) <= _NAMED):
            said.setdefault(line, []).append(each.repository)
    for line, names in said.items():
        shown.print(f"\n{_several(names)}: {line}", markup=False, soft_wrap=True)


def _several(names: Sequence[str]) -> str:
    """Name repositories of which the same is said."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{len(names)} repositories ({', '.join(names[:_NAMED])}, ...)"


def _more(each: RepositoryStatus, *, are_few: bool) -> list[str]:
    """Say what the table has no room for; of many repositories, the totals say the rest."""
    said = []
    if each.problem:
        said.append(each.problem)
    if each.overdue:
        said.append(f"{each.overdue}.")
    if each.last_mark_why_full:
        said.append(f"the last good mark was a clean one: {each.last_mark_why_full}.")
    for kind in each.kinds:
        said += _of_kind(kind)
    if each.left_by_dead:
        said.append(f"{each.left_by_dead}.")
    if are_few and each.price is not None:
        said.append(_money(each, each.price))
    if are_few and each.in_quarantine[0]:
        objects, size_bytes = each.in_quarantine
        said.append(
            f"{objects:,} objects, {bytes_text(size_bytes)}, lie in quarantine and still take up "
            "space."
        )
    return said


def _money(each: RepositoryStatus, price: Price) -> str:
    """Say what is saved, whether that is more than before, and what still costs."""
    costs = {
        what: amount_text(amount, price.currency) for what, amount in each.money_per_month.items()
    }
    waits = f"; what waits costs {costs['waiting']}" if each.most_waiting[0] else ""
    aside = costs["in_quarantine"]
    aside = f"; what lies in quarantine still costs {aside}" if each.in_quarantine[0] else ""
    return (
        f"what was reclaimed saves {costs['reclaimed']}: of that {costs['reclaimed_lately']} "
        f"by the last 30 days, {costs['reclaimed_before']} by the 30 before{waits}{aside}."
    )


def _of_kind(kind: KindStatus) -> list[str]:
    """Say when runs of a kind of its own ended last, what refuses them and what waits."""
    from spark_core.report.status import OTHER_KINDS

    said = []
    words = OTHER_KINDS.get(kind.collects)
    if words is not None:
        said.append(
            f"{words}: last good mark {_marked(kind)}, last sweep {_when(kind.last_swept_at)}."
        )
    said += [f"refused by {name}: {why}" for name, why in kind.refused]
    if kind.waits_for:
        size = f"{kind.waiting[0]:,} objects, {bytes_text(kind.waiting[1])}"
        following = f" Next: {kind.next_step}" if kind.next_step else ""
        said.append(f"{size} wait for {kind.waits_for}.{following}")
    return said


def _marked(each: KindStatus) -> str:
    when = _when(each.last_marked_at)
    return f"{when}, {each.last_mark_kind}" if each.last_mark_kind else when


def _when(instant: datetime | None) -> str:
    return "never" if instant is None else f"{instant:%Y-%m-%d %H:%M}"


def _size(figures: tuple[int, int]) -> str:
    objects, size_bytes = figures
    return f"{objects:,}, {bytes_text(size_bytes)}" if objects else "nothing"
