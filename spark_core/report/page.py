"""A report as one HTML page that needs nothing beside itself: no fonts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_core.plain_text import counted, escape
from spark_core.prices import Price, money_text
from spark_core.report.drawings import share_bar
from spark_core.report.page_charts import charts_section, trend_section, what_if_section
from spark_core.report.page_checks import checks_section, findings_section, verdict_section
from spark_core.report.page_objects import largest_section
from spark_core.report.page_parts import document, rows_of, table
from spark_core.report.report import Report
from spark_core.report.trend import Point
from spark_core.report.values import Group, bytes_text
from spark_core.report.what_if import WhatIfCurve


def page(
    report: Report,
    *,
    past: Sequence[Point] = (),
    what_if: WhatIfCurve | None = None,
    asked_before_sweep: bool = False,
    server: str = "",
    price: Price | None = None,
) -> str:
    """Render a report as a page.

    Args:
        report: What to show.
        past: The runs up to this one, oldest first; drawn from two runs on.
        what_if: What other rules would free; None where nobody asked.
        asked_before_sweep: What the sweep deleted is part of that answer.
        server: URL of the lakeFS server, for links; empty for none.
        price: What a GB costs in a month; None to leave money out.

    Returns:
        A whole HTML document.

    Examples:
        >>> from spark_core.report import load
        >>> page(load(run)).lower().startswith("<!doctype html>")
        True
    """
    title = f"{'Sweep' if report.swept else 'Mark'} of {report.repository}, run {report.run}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        (
            f'<p class="place soft">{escape(report.place)} · only objects written before '
            f"{report.cutoff.isoformat()}</p>"
        ),
        _headline(report, price),
        _kind(report),
        verdict_section(report),
        findings_section(report),
        _cautions(report),
        _tiles(report),
        _outcomes(report),
        charts_section(report),
        what_if_section(what_if, report, price, asked_before_sweep=asked_before_sweep),
        trend_section(past),
        _rules(report),
        _policy(report),
        _reference(report),
        table(
            "Commits that keep their objects",
            ("why", "commits"),
            ((why, f"{count:,}") for why, count in report.commits.items()),
        ),
        checks_section(report),
        largest_section(report, server),
    ]
    body = "\n".join(section for section in sections if section)
    return document(title, body)


def _headline(report: Report, price: Price | None) -> str:
    """Say what goes or went, its share, and what it costs."""
    listed, goes = report.listed, report.expired
    if report.swept:
        deleted = (group for group in report.outcomes or () if group.name == "deleted")
        goes = next(deleted, Group("deleted", 0, 0))
        what = f"{goes.objects:,} of {_objects(report.expired)} that the mark let go were deleted"
    elif goes.objects:
        what = f"{goes.objects:,} of {_objects(listed)} may go"
    else:
        what = f"Nothing may go, of {_objects(listed)}"
    words = f"{bytes_text(goes.size_bytes)} of {bytes_text(listed.size_bytes)}"
    if listed.objects and listed.size_bytes:
        words += (
            f": {goes.objects / listed.objects:.1%} of the objects, "
            f"{goes.size_bytes / listed.size_bytes:.1%} of the bytes"
        )
    if price is not None:
        costs = money_text(goes.size_bytes, report.price_of_expired(price))
        of = money_text(listed.size_bytes, report.price_of_listed(price))
        words += f". That is {costs}, of {of}"
    return f'<p class="headline">{what}</p>{share_bar(goes, listed)}<p class="soft">{words}.</p>'


def _kind(report: Report) -> str:
    """Say what the mark read, since when, and up to which slice."""
    kind = report.kind
    if kind is None:
        return ""
    words = str(kind)
    slice_ = f", and the newest slice was {kind.last_slice}" if kind.last_slice else ""
    return (
        f'<p class="soft">{escape(words[0].upper() + words[1:])}. Reading began '
        f"{kind.started:%Y-%m-%d %H:%M:%S} UTC{escape(slice_)}.</p>"
    )


def _objects(group: Group) -> str:
    return counted(group.objects, "object")


def _tiles(report: Report) -> str:
    """Show what a sweep did, and what only a setting keeps, which is easy to miss."""
    shown = [
        *((group.name, group) for group in report.outcomes or ()),
        *((f"kept: {group.name}", group) for group in report.kept_by_setting),
    ]
    tiles = "".join(
        f'<div class="tile"><b>{bytes_text(group.size_bytes)}</b>{_objects(group)} '
        f"{escape(name)}</div>"
        for name, group in shown
    )
    return f'<div class="tiles">{tiles}</div>' if tiles else ""


def _cautions(report: Report) -> str:
    notes = [*([report.waiting] if report.waiting else []), *report.cautions]
    return "".join(
        f'<p class="caution"><b>Caution.</b> {escape(caution)}.</p>' for caution in notes
    )


def _outcomes(report: Report) -> str:
    if report.outcomes is None:
        return ""
    undo = f'<p class="undo">{escape(report.undo)}</p>' if report.undo else ""
    return (
        undo
        + table(
            "Objects that were not deleted",
            ("address", "outcome", "what the store said"),
            ((row.address, row.outcome, row.error) for row in report.failures),
            code=True,
        )
        + table(
            "Objects that the mark let go and the sweep kept",
            ("address", "why"),
            ((row.address, row.error) for row in report.spared),
            code=True,
        )
    )


def _rules(report: Report) -> str:
    rules = report.rules
    if rules is None:
        return ""
    words = (
        "The repository has no retention rules, so every commit keeps its objects."
        if rules.default_days is None
        else f"A branch keeps {counted(rules.default_days, 'day')} unless it has a rule of its own."
    )
    more = f" {rules.more_branches:,} more branches have one." if rules.more_branches else ""
    branches = [(branch, counted(days, "day")) for branch, days in rules.branches.items()]
    settings = [
        (name, str(value).lower() if isinstance(value, bool) else f"{value:g}")
        if isinstance(value, bool | float | int)
        else (name, str(value))
        for name, value in rules.settings.items()
    ]
    return (
        f"<h2>Rules in force</h2><p>{words}{more}</p>"
        + (rows_of(("branch", "keeps"), branches) if branches else "")
        + "<details><summary>Settings that decided</summary>"
        + rows_of(("setting", "value"), settings)
        + "</details>"
    )


def _policy(report: Report) -> str:
    found = report.policy
    if found is None:
        return ""
    who = f"<p>Entries lead to these objects. They go by {escape(str(found))}.</p>"
    return f"<h2>Retention policy</h2>{who}" + rows_of(
        ("rule", "objects", "bytes"),
        [(each.name, f"{each.objects:,}", bytes_text(each.size_bytes)) for each in found.by_rule],
    )


def _reference(report: Report) -> str:
    found = report.reference
    if found is None:
        return ""
    return _groups(
        f"The mark {found.mark_id} of the reference job, address by address", found.standings
    ) + table(
        "Addresses of that mark that are kept",
        ("address", "why"),
        ((row.address, row.standing) for row in found.kept),
        code=True,
    )


def _groups(title: str, groups: Iterable[Group]) -> str:
    rows = ((group.name, f"{group.objects:,}", bytes_text(group.size_bytes)) for group in groups)
    return table(title, ("", "objects", "bytes"), rows)
