"""The pictures of a report's page, as SVG that stands inside HTML and takes the page's colours.

Words stand beside the SVG and never in it, so that they stay readable at every width.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_core.plain_text import bytes_text, counted, escape
from spark_core.report.trend import Point
from spark_core.report.values import Group
from spark_core.report.what_if import WhatIfCurve

# Bars of a chart that are seen at once; the others are folded.
_BARS = 8
# A bar that stands for anything at all can be seen.
_THINNEST = 0.4

_SERIES = (
    ("listed", "listed"),
    ("live", "live"),
    ("garbage", "may go"),
    ("reclaimed", "reclaimed"),
)


def share_bar(part: Group, whole: Group) -> str:
    """Draw what share of the bytes goes."""
    width = _percent(part.size_bytes, whole.size_bytes)
    return (
        '<svg class="share" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="keeps" width="100" height="1"/>'
        f'<rect class="goes" width="{width:.2f}" height="1"/></svg>'
    )


def bars(title: str, groups: Sequence[Group], of: int, colour: str) -> str:
    """Draw groups as bars, each with its share of the same bytes.

    Args:
        title: Title.
        groups: The groups.
        of: The bytes that a whole bar stands for.
        colour: `goes` or `keeps`.
    """
    drawn = [_bar(group, of, colour) for group in groups]
    more = drawn[_BARS:]
    folded = f"<details><summary>{len(more)} more</summary>{''.join(more)}</details>"
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>{''.join(drawn[:_BARS])}"
        f"{folded if more else ''}</figure>"
    )


def _bar(group: Group, of: int, colour: str) -> str:
    width = _percent(group.size_bytes, of)
    return (
        f'<div class="bar"><p><span>{escape(group.name)}</span><span class="n">{group}</span></p>'
        '<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="1"/>'
        f'<rect class="{colour}" width="{width:.2f}" height="1"/></svg></div>'
    )


def _percent(part: int, whole: int) -> float:
    return max(_THINNEST, 100 * part / whole) if part and whole else 0


def trend_lines(past: Sequence[Point]) -> str:
    """Draw the bytes of two or more runs, oldest first."""
    highest = max(1, *(point.listed for point in past), *(point.reclaimed for point in past))
    lines, dots = [], []
    for name, words in _SERIES:
        places = [
            (
                100 * at / (len(past) - 1),
                100 - 100 * getattr(point, name) / highest,
                f"{escape(point.run)}: {bytes_text(getattr(point, name))} {words}",
            )
            for at, point in enumerate(past)
        ]
        drawn = "L".join(f"{x:.2f},{y:.2f}" for x, y, _ in places)
        lines.append(f'<path class="{name}" d="M{drawn}"/>')
        dots += [
            f'<path class="{name} dot" d="M{x:.2f},{y:.2f}h0"><title>{told}</title></path>'
            for x, y, told in places
        ]
    legend = "".join(
        f'<li><svg viewBox="0 0 20 10" aria-hidden="true"><path class="{name}" d="M0,5h20"/></svg>'
        f"{words} {bytes_text(getattr(past[-1], name))}</li>"
        for name, words in _SERIES
    )
    return (
        f'<figure><ul class="legend">{legend}</ul><div class="trend">'
        f'<div class="y"><span>{bytes_text(highest)}</span><span>0</span></div>'
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" '
        'aria-label="Bytes of each run"><path class="grid" d="M0,0h100M0,50h100M0,100h100"/>'
        f"{''.join(lines)}{''.join(dots)}</svg>"
        f'<div class="x"><span>{escape(past[0].run[:10])}</span>'
        f"<span>{escape(past[-1].run[:10])}</span></div>"
        "</div></figure>"
    )


def what_if_line(curve: WhatIfCurve) -> str:
    """Draw the bytes that would be free by the days that every branch would keep.

    The days asked about stand side by side, however far apart they are.
    """
    highest = max(1, *(group.size_bytes for group in curve.free))
    last = max(1, len(curve.free) - 1)
    places = [
        (100 * at / last, 100 - 100 * group.size_bytes / highest, counted(days, "day"), group)
        for at, (days, group) in enumerate(zip(curve.days, curve.free, strict=True))
    ]
    line = "L".join(f"{x:.2f},{y:.2f}" for x, y, _, _ in places)
    dots = "".join(
        f'<path class="garbage dot" d="M{x:.2f},{y:.2f}h0"><title>{words}: {group}</title></path>'
        for x, y, words, group in places
    )
    below = "".join(f"<span>{days}</span>" for days in curve.days)
    return (
        "<figure><figcaption>Bytes that may go if every branch keeps so many days</figcaption>"
        f'<div class="trend"><div class="y"><span>{bytes_text(highest)}</span><span>0</span></div>'
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" '
        'aria-label="Bytes that may go by days kept">'
        '<path class="grid" d="M0,0h100M0,50h100M0,100h100"/>'
        f'<path class="area" d="M0,100L{line}L100,100Z"/>'
        f'<path class="garbage" d="M{line}"/>{dots}</svg>'
        f'<div class="x days">{below}</div></div></figure>'
    )


def columns(title: str, days: Sequence[tuple[str, int]]) -> str:
    """Draw the bytes of each of some days as columns.

    Args:
        title: Title.
        days: Name of a day and its bytes, the oldest first.
    """
    highest = max(1, *(size_bytes for _, size_bytes in days))
    wide = 100 / len(days)
    drawn = "".join(
        f'<rect class="keeps" x="{wide * (at + 0.1):.2f}" y="{100 - high:.2f}" '
        f'width="{wide * 0.8:.2f}" height="{high:.2f}">'
        f"<title>{escape(day)}: {bytes_text(size_bytes)}</title></rect>"
        for at, (day, size_bytes) in enumerate(days)
        if (high := _percent(size_bytes, highest))
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><div class="trend">'
        f'<div class="y"><span>{bytes_text(highest)}</span><span>0</span></div>'
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}"><path class="grid" d="M0,0h100M0,50h100M0,100h100"/>'
        f'{drawn}</svg><div class="x"><span>{escape(days[0][0])}</span>'
        f"<span>{escape(days[-1][0])}</span></div></div></figure>"
    )


def sparkline(sizes: Sequence[int]) -> str:
    """Draw bytes as a line of one row's height; empty below two.

    Args:
        sizes: The oldest first.
    """
    if len(sizes) < 2:
        return ""
    highest, last = max(1, *sizes), len(sizes) - 1
    line = "L".join(
        f"{100 * at / last:.2f},{20 - 18 * size / highest:.2f}" for at, size in enumerate(sizes)
    )
    words = f"{bytes_text(sizes[0])} to {bytes_text(sizes[-1])} in {len(sizes)} marks"
    return (
        '<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" '
        f'aria-label="{words}"><title>{words}</title><path class="reclaimed" d="M{line}"/></svg>'
    )
