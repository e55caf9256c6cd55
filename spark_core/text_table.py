"""Tables of texts for a log or a mail, where a line may be as long as it must."""

from __future__ import annotations

from collections.abc import Sequence

from spark_core.plain_text import visible

# Columns of figures, which are aligned right.
FIGURES = frozenset(
    {"rows", "bytes", "seconds", "objects", "days", "commits", "listed", "may go", "deleted"}
)


def text_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as lines; text of others cannot control the terminal.

    Args:
        title: Title of the table.
        columns: Names of the columns; those of `FIGURES` are aligned right.
        rows: One text for each column.

    Examples:
        >>> print(text_table("Kept", ("why", "objects"), [("young", "12"), ("held", "3")]))
        Kept
          why    objects
          young       12
          held         3
    """
    cells = [list(columns), *([visible(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if name in FIGURES else cell.ljust(width)
            for cell, width, name in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n  ".join([title, *lines])
