"""The output of the command line: steps, tables, reports and errors; colours only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.console import Group as RenderGroup
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from spark_core.errors import LakegcError, kind_of
from spark_core.event_lines import EventLines, found_text
from spark_core.events import Event
from spark_core.plain_text import bytes_text, visible
from spark_core.spark.output import OUTPUT

if TYPE_CHECKING:
    from spark_core.records.manifest import Manifest
    from spark_core.report import Group, Report
    from spark_core.report.text_blocks import Rows

# Wide enough for a table in a CI log, where no terminal gives a width.
_WIDTH_WITHOUT_TERMINAL = 140

STEPS: Mapping[str, str] = {
    "namespace_slices": "objects found in the store",
    "uncommitted_addresses": "staged objects",
    "retained_commits": "commits that keep their objects",
    "committed_addresses": "addresses that they reach",
    "expired_addresses": "objects that may go",
    "deletion_report": "what happened to them",
}


# Columns of figures, which are aligned right.
FIGURES = frozenset(
    {"rows", "bytes", "seconds", "objects", "days", "commits", "listed", "may go", "deleted"}
)
# A longer name in the first column of a table is broken over lines, as words are.
_LONGEST_KEY = 40
# So narrow a column can be read where its words are longer.
_NARROWEST = 14
# Where so many columns have longer texts than this, each needs this much of the width.
_READABLE, _SEVERAL = 20, 3

_STYLES = {"plain": "default", "name": "bold", "caution": "yellow", "refusal": "red"}


class _PlainConsole(Console):
    """Shows text as it is, so that no character of it controls the terminal.

    Every printed string passes here, also from a table's cell or a panel. Colours are added later.
    A string is one line, with empty ones around it at most: whoever names a thing forges no line.
    """

    def render_str(self, text: str, **how: Any) -> Text:
        """Turn a string into text without control characters."""
        line = text.strip("\n")
        return super().render_str(text.replace(line, visible(line)) if line else text, **how)


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


class _OrBlocks(Table):
    """A table; where it is too wide for its keys and figures to stay whole, a block for each row.

    A run key that is broken over lines can be neither read nor copied.
    """

    def __rich_console__(self, shown: Console, options: ConsoleOptions) -> RenderResult:
        """Show the table, or its blocks."""
        if not self.row_count or self._fits(options.max_width):
            yield from super().__rich_console__(shown, options)
            return
        if self.title:
            yield Text.from_markup(str(self.title), style="bold")
        names = [str(column.header) for column in self.columns]
        # A first column without a name is a sign before the second one.
        keys = 1 if names[0] else 2
        width = max(map(len, names[keys:]), default=0)
        for row in zip(*(column.cells for column in self.columns), strict=True):
            yield shown.render_str(" ".join(map(str, row[:keys])), style="bold")
            for name, cell in zip(names[keys:], row[keys:], strict=True):
                if cell:
                    yield Padding(
                        Text.assemble(
                            (f"{name.ljust(width)}  ", "dim"), shown.render_str(str(cell))
                        ),
                        (0, 0, 0, 2),
                    )

    def _fits(self, width: int) -> bool:
        """Say whether keys and figures stay whole, and long texts keep columns that can be read."""
        texts = [each for each in self.columns if not each.no_wrap and _longest(each) > _READABLE]
        narrowest = _NARROWEST if len(texts) < _SEVERAL else _READABLE
        whole = [
            _longest(each) if each.no_wrap else _broken(each, narrowest) for each in self.columns
        ]
        return sum(whole) + len(whole) - 1 <= width


def _longest(column: Column) -> int:
    return max(len(str(cell)) for cell in (column.header, *column.cells))


def _broken(column: Column, narrowest: int) -> int:
    """Return the width of a column whose cells are broken between words."""
    cells = [str(cell) for cell in (column.header, *column.cells)]
    if narrowest == _READABLE:
        return min(narrowest, max(map(len, cells)))
    return min(narrowest, max((len(word) for cell in cells for word in cell.split()), default=0))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Make a table of plain text; columns of figures, such as `rows`, are aligned right.

    Names in the first column, such as run keys, stay whole.

    Args:
        title: Title of the table.
        columns: Names of the columns.
        rows: One text for each column.
    """
    rows = [tuple(map(escape, row)) for row in rows]
    is_key = all(len(row[0]) <= _LONGEST_KEY and " " not in row[0] for row in rows)
    made = _OrBlocks(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        pad_edge=False,
        box=None,
    )
    for at, name in enumerate(columns):
        figure = name in FIGURES
        made.add_column(
            name,
            justify="right" if figure else "left",
            overflow="fold",
            no_wrap=figure or (not at and is_key),
        )
    for row in rows:
        made.add_row(*row)
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
        self._step = ""
        self._tasks: dict[str, TaskID] = {}
        self._lines = EventLines(self._print)
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
        self._step = event.table
        task = self._tasks.get(event.table)
        if self._live and event.kind == "started":
            self._start(event.table)
        elif task is None or event.kind in {"waits", "checked"}:
            self._lines(event)
        elif event.kind == "progressed":
            self._progress.update(task, found=event.words)
        elif event.kind == "retries":
            # It counts the tries; a log has them in the line in which the last one ends.
            self._progress.update(task, found=f"try {event.tries}: {event.words}")
        else:
            self._progress.update(task, completed=1, found=found_text(event))

    def away(self, tries: int, words: str) -> None:
        """Show that the server is away, and was asked so often; see `LakeFSServer`."""
        self(Event("retries", self._step, words, tries=tries))

    def _start(self, step: str) -> None:
        # A step that is tried again goes on in its line.
        if step not in self._tasks:
            self._tasks[step] = self._progress.add_task(self._words(step), total=1, found="")

    def _print(self, line: str) -> None:
        style = "red" if line.startswith("  refused by ") else None
        self._console.print(line, style=style, markup=False, soft_wrap=True)

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
    from spark_core.report.text_blocks import rows_of_groups

    return _rows(rows_of_groups(title, groups, what))


def _rows(block: Rows) -> Table:
    return table(block.title, block.columns, block.rows)


def show_report(shown: Console, report: Report) -> None:
    """Show a report: totals, what may go, what is kept, why, and what a sweep did."""
    from spark_core.report.text_blocks import Rows, blocks

    for block in blocks(report):
        shown.print()
        if isinstance(block, Rows):
            shown.print(_rows(block))
        else:
            lead = f"[{_STYLES[block.mood]}]{escape(block.lead)}[/]" if block.lead else ""
            first, *more = map(escape, block.text.split("\n"))
            shown.print(f"{lead}{first}", *more, sep="\n  ", soft_wrap=True)


def show_error(shown: Console, error: LakegcError) -> None:
    """Show an error as a panel on a terminal, as one line elsewhere, and name Spark's log."""
    title, lines = kind_of(error), str(error).split("\n")
    if shown.is_terminal:
        text = RenderGroup(*map(escape, lines))
        shown.print(Panel(text, title=title, title_align="left", border_style="red"))
    else:
        # Soft-wrapped, so that a log has the whole sentence in one line. Further ones are indented:
        # an error may have somebody's name in it.
        first = f"lakegc: {title}: {lines[0]}"
        shown.print(first, *lines[1:], sep="\n  ", markup=False, soft_wrap=True)
    if OUTPUT.log and OUTPUT.log.exists() and "Spark" in str(error):
        shown.print(f"Spark's own lines are in {OUTPUT.log}.", markup=False, soft_wrap=True)
