"""The output of the command line: steps, tables, reports and errors; colours only on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from spark_core.errors import LakegcError, RefusedError, SettingsError
from spark_core.events import Event
from spark_core.phases import NOTHING_DELETED
from spark_core.plain_text import visible

if TYPE_CHECKING:
    from spark_core.records.manifest import Manifest
    from spark_core.report import Group, Kind, ReferenceReport, Report

# Wide enough for a table in a CI log, where no terminal gives a width.
_WIDTH_WITHOUT_TERMINAL = 140

# Columns of figures, which are aligned right.
_FIGURES = frozenset(
    {"rows", "bytes", "seconds", "objects", "days", "commits", "listed", "may go", "deleted"}
)

STEPS: Mapping[str, str] = {
    "namespace_slices": "objects found in the store",
    "uncommitted_addresses": "staged objects",
    "retained_commits": "commits that keep their objects",
    "committed_addresses": "addresses that they reach",
    "expired_addresses": "objects that may go",
    "deletion_report": "what happened to them",
}


class _PlainConsole(Console):
    """Shows text as it is, so that no character of it controls the terminal.

    Every printed string passes here, also from a table's cell or a panel. Colours are added later.
    """

    def render_str(self, text: str, **how: Any) -> Text:
        """Turn a string into text without control characters."""
        return super().render_str(visible(text, lines=True), **how)


def console(stream: TextIO | None = None) -> Console:
    """Make a console.

    Args:
        stream: The output stream; standard output when None.
    """
    target = stream or sys.stdout
    plain = not target.isatty() and "COLUMNS" not in os.environ
    return _PlainConsole(
        file=target, width=_WIDTH_WITHOUT_TERMINAL if plain else None, highlight=False, emoji=False
    )


def bytes_text(size_bytes: int) -> str:
    """Format bytes in a unit that suits them."""
    from spark_core.report.values import bytes_text as text

    return text(size_bytes)


def seconds_text(seconds: float) -> str:
    """Format a duration in seconds."""
    return f"{seconds:.1f} s"


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Make a table of plain text; columns of figures, such as `rows`, are aligned right.

    Args:
        title: Title of the table.
        columns: Names of the columns.
        rows: One text for each column.
    """
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        pad_edge=False,
        box=None,
    )
    for name in columns:
        figure = name in _FIGURES
        made.add_column(
            name, justify="right" if figure else "left", overflow="fold", no_wrap=figure
        )
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    return made


class Steps:
    """Shows the steps of a run; `launch` calls it with each event.

    On a terminal each step has a spinner until it ends. Elsewhere each step is one line at its end,
    so that a log stays readable.

    Args:
        shown: The console that shows the steps.
    """

    def __init__(self, shown: Console) -> None:
        self._console = shown
        self._live = shown.is_terminal
        self._began: dict[str, float] = {}
        self._tasks: dict[str, TaskID] = {}
        self._waiting: set[str] = set()
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            TextColumn("{task.fields[found]}"),
            TimeElapsedColumn(),
            console=shown,
        )

    def __enter__(self) -> Self:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Show one event of a run."""
        step = event.table
        if event.kind == "started":
            self._start(step)
        elif event.kind == "progressed":
            self._advance(step, event.words)
        elif event.kind == "stored":
            found = f"{event.rows:>9,} rows  {bytes_text(event.size_bytes):>10}"
            self._end(step, found, event.seconds)
        elif event.kind == "waits":
            self._wait(step, event.words)
        elif event.kind == "retries":
            self._retry(step, event)
        elif event.kind == "failed":
            tried = f" after {event.tries} tries" if event.tries > 1 else ""
            self._end(step, f"failed{tried}", None)
        elif not event.passed:
            self._console.print(f"  refused by {escape(event.check)}", style="red")

    def _wait(self, step: str, words: str) -> None:
        """Say once what a step waits for: it is tried again until the other process has ended."""
        if step not in self._waiting:
            self._waiting.add(step)
            told = f"  {step} waits, and goes on by itself: {words}"
            self._console.print(told, markup=False, soft_wrap=True)

    def _retry(self, step: str, event: Event) -> None:
        """Count the tries in the step's own line; a log has that line when the last one ended."""
        if self._live and step in self._tasks:
            self._progress.update(self._tasks[step], found=f"try {event.tries}: {event.words}")
        elif step not in self._waiting:
            self._console.print(
                f"  {step:<22} tried again: {event.words}", markup=False, soft_wrap=True
            )
        # It goes on in its line.
        self._waiting.add(step)

    def _start(self, step: str) -> None:
        if step in self._waiting:
            return
        self._began[step] = time.monotonic()
        if self._live:
            self._tasks[step] = self._progress.add_task(self._words(step), total=1, found="")

    def _advance(self, step: str, found: str) -> None:
        if self._live and step in self._tasks:
            self._progress.update(self._tasks[step], found=found)
            return
        self._console.print(f"  {step:<22} {found}", markup=False, soft_wrap=True)

    def _end(self, step: str, found: str, seconds: float | None) -> None:
        if self._live and step in self._tasks:
            self._progress.update(self._tasks[step], completed=1, found=found)
            return
        took = (
            seconds
            if seconds is not None
            else time.monotonic() - self._began.get(step, time.monotonic())
        )
        self._console.print(f"  {step:<22} {found}  {seconds_text(took):>8}", markup=False)

    @staticmethod
    def _words(step: str) -> str:
        return f"{step:<22} [dim]{STEPS.get(step, '')}[/dim]"


def steps_table(stored: Mapping[str, Manifest]) -> Table:
    """Make a table of a run's steps with rows, bytes of Parquet and seconds.

    Args:
        stored: Manifests by table.
    """
    manifests = [stored[name] for name in STEPS if name in stored]
    return table(
        "Steps",
        ("table", "a row is one of the", "rows", "bytes", "seconds"),
        [
            (
                manifest.table,
                STEPS[manifest.table],
                f"{manifest.rows:,}",
                bytes_text(manifest.size_bytes),
                f"{(manifest.reading_ended - manifest.reading_began).total_seconds():.1f}",
            )
            for manifest in manifests
        ],
    )


def groups_table(title: str, groups: Iterable[Group], what: str = "why") -> Table:
    """Make a table of groups of objects."""
    return table(title, (what, "objects", "bytes"), [_group(group) for group in groups])


def show_report(shown: Console, report: Report) -> None:
    """Show a report: totals, what may go, what is kept, why, and what a sweep did."""
    shown.print()
    shown.print(_headline(report), soft_wrap=True)
    for title, groups, what in (
        ("What may go, by reason", report.by_reason, "why"),
        ("What may go, by age", report.by_age, "written"),
        ("What may go, by slice", report.by_slice[:5], "slice"),
        ("What is kept", report.kept, "why"),
        ("What the sweep did", report.outcomes or (), "outcome"),
    ):
        if groups:
            shown.print()
            shown.print(groups_table(title, groups, what))
    if report.policy is not None:
        shown.print(
            f"\nObjects that entries lead to go by {report.policy}.", markup=False, soft_wrap=True
        )
    if report.reference is not None:
        _show_reference(shown, report.reference)
    _show_not_deleted(shown, report)
    if report.undo:
        shown.print(f"\n{report.undo}", markup=False, soft_wrap=True)
    for caution in report.cautions:
        shown.print(f"\n[yellow]Caution[/yellow]: {escape(caution)}.", soft_wrap=True)
    if report.passed is None:
        shown.print("\nThe checks were not run yet: this mark cannot be swept.", style="yellow")
    if report.checks:
        shown.print()
        shown.print(
            table(
                "Checks",
                ("check", "result", "limit"),
                [(c.name, c.standing, c.limit) for c in report.checks],
            )
        )
    _show_refusals(shown, report)


def _show_refusals(shown: Console, report: Report) -> None:
    """Show the checks that refused a mark, what lifts each, and that nothing was deleted."""
    lifted_by = {check.name: check.lifted_by for check in report.checks}
    for name, why in report.refused.items():
        shown.print(f"\n[red]Refused[/red] by {escape(name)}: {escape(why)}", soft_wrap=True)
        if name in lifted_by:
            shown.print(f"What lifts it: {lifted_by[name]}.", markup=False, soft_wrap=True)
    if report.refused and not report.swept:
        shown.print(f"\n{NOTHING_DELETED}")


def _headline(report: Report) -> str:
    """Say what may go, and what waits because branches could not be asked."""
    found = "nothing may go" if not report.expired.objects else f"{report.expired} may go"
    also = "".join(
        f"; kept by a setting: {group}, {escape(group.name)}" for group in report.kept_by_setting
    )
    of = f"[bold]{escape(report.repository)}[/bold], run {escape(report.run)}"
    line = f"{of}: {found}, of {report.listed}{also}"
    if report.kind is not None:
        line = f"{line}\n{escape(_read(report.kind))}"
    return f"{line}\n[yellow]{escape(report.waiting)}.[/yellow]" if report.waiting else line


def _read(kind: Kind) -> str:
    """Say what a mark read, since when, and up to which slice."""
    slice_ = f", newest slice {kind.last_slice}" if kind.last_slice else ""
    return f"{kind}; reading began {kind.started:%Y-%m-%d %H:%M:%S} UTC{slice_}"


def _show_not_deleted(shown: Console, report: Report) -> None:
    """Name some objects that a sweep did not delete.

    The store did not delete them, or something references them again.
    """
    if report.failures:
        shown.print()
        rows = [
            (failure.address, failure.outcome, failure.error) for failure in report.failures[:20]
        ]
        shown.print(table("Not deleted", ("address", "outcome", "what the store said"), rows))
    if report.spared:
        shown.print()
        kept = [(spared.address, spared.error) for spared in report.spared[:20]]
        shown.print(table("Let go by the mark, and kept by the sweep", ("address", "why"), kept))


def _show_reference(shown: Console, found: ReferenceReport) -> None:
    """Show what becomes of the addresses in a mark of lakeFS's own job; name some kept ones."""
    shown.print()
    shown.print(
        f"The mark {found.mark_id} of the reference job names {found.addresses:,} addresses; "
        f"lakegc's own would let go of {found.eligible}.",
        markup=False,
        soft_wrap=True,
    )
    shown.print()
    shown.print(groups_table("How that mark stands today", found.standings))
    if found.kept:
        shown.print()
        rows = [(row.address, row.standing) for row in found.kept[:20]]
        shown.print(table("Named by that mark, and kept", ("address", "why"), rows))


def show_error(shown: Console, error: LakegcError) -> None:
    """Show an error as a panel on a terminal, as one line elsewhere."""
    title = (
        "settings"
        if isinstance(error, SettingsError)
        else "refused"
        if isinstance(error, RefusedError)
        else "failed"
    )
    if shown.is_terminal:
        shown.print(Panel(escape(str(error)), title=title, title_align="left", border_style="red"))
    else:
        # Soft-wrapped, so that a log has the whole sentence in one line.
        shown.print(f"lakegc: {title}: {error}", markup=False, soft_wrap=True)


def _group(group: Group) -> tuple[str, str, str]:
    return group.name, f"{group.objects:,}", bytes_text(group.size_bytes)
