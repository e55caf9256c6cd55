"""A report as one HTML page that needs nothing beside itself: no scripts, no fonts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as html_escape

from spark_core.phases import NOTHING_DELETED
from spark_core.plain_text import visible
from spark_core.report.chart import chart
from spark_core.report.values import Group, Report, bytes_text

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #2e7d32; --bad: #c62828; --warn: #ef6c00; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p.place { margin-top: .2rem; opacity: .75; }
.tiles { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; min-width: 9rem; }
.tile b { display: block; font-size: 1.3rem; }
.verdict { border-left: .3rem solid var(--good); padding: .3rem 1rem; }
.verdict.refused { border-color: var(--bad); }
.caution { border-left: .3rem solid var(--warn); padding: .3rem 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .6rem .25rem 0;
border-bottom: 1px solid var(--line); vertical-align: top; } td.n, th.n { text-align: right; white-space: nowrap;
font-variant-numeric: tabular-nums; } td.code { font-family: ui-monospace, monospace; font-size: .85em;
overflow-wrap: anywhere; }
figure { margin: 2rem 0 0; background: #fff; border-radius: .5rem; padding: .5rem; } figure svg { width: 100%; height: auto; }
"""


def page(report: Report) -> str:
    """Render a report as a page.

    Args:
        report: What to show.

    Returns:
        A whole HTML document.
    """
    title = f"{'Sweep' if report.swept else 'Mark'} of {report.repository}, run {report.run}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="place">{escape(report.place)} · only objects written before {report.cutoff.isoformat()}</p>',
        _tiles(report),
        _verdict(report),
        _cautions(report),
        _outcomes(report),
        f"<figure>{_picture(report)}</figure>",
        _groups("What may go, and why", report.by_reason),
        _groups("What is kept, and why", report.kept),
        _reference(report),
        _table(
            "Commits that keep their objects",
            ("why", "commits"),
            ((why, f"{count:,}") for why, count in report.commits.items()),
        ),
        _checks(report),
        _groups("What may go, by age", report.by_age),
        _groups("What may go, by slice", report.by_slice, code=True),
        _table(
            f"The largest objects that may go ({len(report.largest)} of {report.expired.objects:,})",
            ("address", "bytes", "written", "why"),
            (
                (row.address, f"{row.size_bytes:,}", f"{row.last_modified:%Y-%m-%d %H:%M:%S}", row.reason)
                for row in report.largest
            ),
            code=True,
        ),
    ]
    body = "\n".join(section for section in sections if section)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Should markup get past the escaping all the same, a browser runs and fetches nothing.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def escape(text: str) -> str:
    """Make text that came from elsewhere a text of the page: no markup, and nothing that cannot be seen."""
    return html_escape(visible(text))


def _picture(report: Report) -> str:
    """Return the chart as SVG that can stand inside HTML: without the XML declaration."""
    text = chart(report, "svg").decode()
    return text[text.index("<svg") :]


def _tiles(report: Report) -> str:
    tiles = [
        ("in the namespace", report.listed),
        ("may go", report.expired),
        *((f"kept: {group.name}", group) for group in report.kept_by_setting),
        *((g.name, g) for g in report.outcomes or ()),
    ]
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile"><b>{bytes_text(group.size_bytes)}</b>{group.objects:,} objects {escape(name)}</div>'
            for name, group in tiles
        )
        + "</div>"
    )


def _verdict(report: Report) -> str:
    confirmed = [check for check in report.checks if check.confirmed]
    if report.passed and confirmed:
        said = "".join(
            f"<li><b>{escape(c.name)}</b>, {escape(c.standing)}: {escape(c.summary)}</li>" for c in confirmed
        )
        return f'<div class="verdict">What a check found unusual was confirmed by name:<ul>{said}</ul></div>'
    if report.passed:
        state = "and the mark was swept" if report.swept else "so this mark may be swept"
        return f'<p class="verdict">Every check passed, {state}.</p>'
    if report.passed is None:
        return '<p class="verdict refused">The checks were not run yet: this mark cannot be swept.</p>'
    refusals = "".join(f"<li><b>{escape(name)}</b>: {escape(why)}</li>" for name, why in report.refused.items())
    return f'<div class="verdict refused">Refused. {NOTHING_DELETED}<ul>{refusals}</ul></div>'


def _checks(report: Report) -> str:
    return _table(
        "The checks, and their limits",
        ("check", "result", "found", "limit", "what lifts it"),
        ((check.name, check.standing, check.summary, check.limit, check.lifted_by) for check in report.checks),
    )


def _cautions(report: Report) -> str:
    said = [*([report.waiting] if report.waiting else []), *report.cautions]
    return "".join(f'<p class="caution"><b>Caution.</b> {escape(caution)}.</p>' for caution in said)


def _outcomes(report: Report) -> str:
    if report.outcomes is None:
        return ""
    undo = f'<p class="undo">{escape(report.undo)}</p>' if report.undo else ""
    return (
        _groups("What the sweep did", report.outcomes)
        + undo
        + _table(
            "Objects that were not deleted",
            ("address", "outcome", "what the store said"),
            ((row.address, row.outcome, row.error) for row in report.failures),
            code=True,
        )
        + _table(
            "Objects that the mark let go and the sweep kept",
            ("address", "why"),
            ((row.address, row.error) for row in report.spared),
            code=True,
        )
    )


def _reference(report: Report) -> str:
    found = report.reference
    if found is None:
        return ""
    return _groups(f"The mark {found.mark_id} of the reference job, address by address", found.standings) + _table(
        "Addresses of that mark that are kept",
        ("address", "why"),
        ((row.address, row.standing) for row in found.kept),
        code=True,
    )


def _groups(title: str, groups: Iterable[Group], *, code: bool = False) -> str:
    rows = ((group.name, f"{group.objects:,}", bytes_text(group.size_bytes)) for group in groups)
    return _table(title, ("", "objects", "bytes"), rows, code=code)


def _table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, code: bool = False) -> str:
    """Render a table; figures stand to the right, and nothing is shown for no rows."""
    shown = list(rows)
    if not shown:
        return ""
    numeric = {"objects", "bytes", "commits"}
    classes = ['class="n"' if name in numeric else "" for name in header]
    if code:
        classes[0] = 'class="code"'
    head = "".join(f"<th{' class=n' if name in numeric else ''}>{escape(name)}</th>" for name in header)
    lines = "".join(
        "<tr>" + "".join(f"<td {mark}>{escape(cell)}</td>" for mark, cell in zip(classes, row, strict=True)) + "</tr>"
        for row in shown
    )
    return f"<h2>{escape(title)}</h2>\n<table><tr>{head}</tr>{lines}</table>"
