"""The pictures of a page: objects and bytes, what other rules would free, and the last runs."""

from __future__ import annotations

from collections.abc import Sequence

from spark_core.plain_text import escape
from spark_core.prices import Price, money_text
from spark_core.report.drawings import bars, trend_lines, what_if_line
from spark_core.report.page_parts import rows_of
from spark_core.report.report import Report
from spark_core.report.trend import Point
from spark_core.report.values import NO_COMMIT, NOT_KNOWN, Group, bytes_text
from spark_core.report.what_if import WhatIfCurve

_OF_THE_LAST_COMMIT = "Folder and branch are those of the last commit that had the object."
_WHY_NOT_KNOWN = (
    "They are not known for an object that is in none of the commits that were read for paths; "
    "<code>explain = &quot;full&quot;</code> in the settings reads the most."
)


def charts_section(report: Report) -> str:
    """Draw what may go and what is kept, by all that is known of it."""
    goes, all_of_it = report.expired.size_bytes, report.listed.size_bytes
    what = "What the mark let go" if report.swept else "What may go"
    drawn = [
        bars(title, groups, of, colour)
        for title, groups, of, colour in (
            (f"{what}, and why", report.by_reason, goes, "goes"),
            (f"{what}, by age", report.by_age, goes, "goes"),
            (f"{what}, by folder", report.by_prefix, goes, "goes"),
            (f"{what}, by branch", report.by_branch, goes, "goes"),
            (f"{what}, by slice", report.by_slice, goes, "goes"),
            (f"{what}, by storage class", report.by_class, goes, "goes"),
            ("What is kept, and why", report.kept, all_of_it, "keeps"),
        )
        if groups
    ]
    if not drawn:
        return ""
    return f'<h2>Objects and bytes</h2><div class="charts">{"".join(drawn)}</div>{_notes(report)}'


def _notes(report: Report) -> str:
    """Say what folder and branch of an object mean, and why some are not known."""
    names = {group.name for group in report.by_prefix}
    notes = [
        *([_OF_THE_LAST_COMMIT] if names - {NO_COMMIT, NOT_KNOWN} else []),
        *([_WHY_NOT_KNOWN] if NOT_KNOWN in names else []),
    ]
    return f'<p class="soft">{" ".join(notes)}</p>' if notes else ""


def what_if_section(
    curve: WhatIfCurve | None, report: Report, price: Price | None, *, asked_before_sweep: bool
) -> str:
    """Show what other rules would free, or the command that finds out."""
    title = "<h2>What if the rules were others</h2>"
    command = escape(f"lakegc what-if {report.repository} --run {report.run}")
    if curve is None:
        return (
            f'{title}<p class="soft">Nobody asked about this run. An answer costs about as much as '
            f"a mark: <code>{command}</code></p>"
        )
    before = (
        "<p>This was asked before the sweep of this run ended, so what the sweep deleted may be "
        f"part of each figure. Ask again: <code>{command}</code></p>"
        if asked_before_sweep
        else ""
    )
    price = None if price is None else report.price_of_expired(price)
    rows = [
        (group.name, f"{group.objects:,}", bytes_text(group.size_bytes), *_money(group, price))
        for group in (*curve.free, *curve.now, *curve.kept_by_one)
    ]
    header = ("if", "objects", "bytes", *(("costs",) if price is not None else ()))
    today = bars("Under the rules of now", curve.now, report.listed.size_bytes, "goes")
    if curve.kept_by_one:
        today += bars("What one alone keeps", curve.kept_by_one, report.listed.size_bytes, "goes")
    return (
        f'{title}{before}<div class="charts">{what_if_line(curve)}{today}</div>'
        f'<p class="soft">By the refs of {curve.asked_at:%Y-%m-%d %H:%M} UTC and the listing of '
        f"this run. Each is an upper bound. {curve.never_committed} of each were never "
        "committed.</p>"
        f"<details><summary>In figures</summary>{rows_of(header, rows)}</details>"
    )


def _money(group: Group, price: Price | None) -> tuple[str, ...]:
    return () if price is None else (money_text(group.size_bytes, price),)


def trend_section(past: Sequence[Point]) -> str:
    """Draw the runs up to this one, from two runs on."""
    if len(past) < 2:
        return ""
    shown = rows_of(
        ("run", "listed", "live", "may go", "reclaimed"),
        [
            (
                point.run,
                *map(bytes_text, (point.listed, point.live, point.garbage, point.reclaimed)),
            )
            for point in past
        ],
    )
    return (
        f"<h2>The last {len(past)} runs</h2>{trend_lines(past)}"
        f"<details><summary>In figures</summary>{shown}</details>"
    )
