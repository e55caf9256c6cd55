"""What all HTML pages have: one document that needs nothing beside itself, and its tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_core.plain_text import escape
from spark_core.report.page_style import POLICY, SCRIPT, STYLE


def document(title: str, body: str) -> str:
    """Return a whole HTML document.

    Args:
        title: Its title, as text.
        body: What it shows, as HTML.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        # If markup gets past the escaping all the same, a browser runs and fetches nothing.
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"\n<body>\n{body}\n<script>{SCRIPT}</script>\n</body></html>\n"
    )


def table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, code: bool = False
) -> str:
    """Render a table under a title; a table without rows is not shown."""
    shown = list(rows)
    return f"<h2>{escape(title)}</h2>\n{rows_of(header, shown, code=code)}" if shown else ""


def rows_of(header: Sequence[str], rows: Iterable[Sequence[str]], *, code: bool = False) -> str:
    """Render a table with figures to the right."""
    numeric = {"objects", "bytes", "costs", "commits", "listed", "live", "may go", "reclaimed"}
    classes = [' class="n"' if name in numeric else "" for name in header]
    classes[0] = ' class="code"' if code else ' class="key"' * (len(header) > 3)
    head = "".join(
        f"<th{' class=n' if name in numeric else ''}>{escape(name)}</th>" for name in header
    )
    lines = "".join(
        "<tr>"
        + "".join(f"<td{mark}>{escape(cell)}</td>" for mark, cell in zip(classes, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{lines}</table></div>'
