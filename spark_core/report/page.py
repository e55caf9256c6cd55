"""A report as one HTML page that needs nothing beside itself: no fonts, no network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from spark_core import lakegc_keys
from spark_core.phases import NOTHING_DELETED
from spark_core.plain_text import Price, counted, escape, money_text
from spark_core.report.drawings import bars, share_bar, trend_lines, what_if_line
from spark_core.report.page_parts import document, rows_of, table
from spark_core.report.trend import Point
from spark_core.report.values import NO_COMMIT, NOT_KNOWN, Group, Named, Report, bytes_text
from spark_core.report.what_if import WhatIfCurve

# Characters of a commit's id that are enough for a reader.
_ID_SHOWN = 12
# Stands for bytes of a path that are no UTF-8: no link leads to such a path.
_NO_UTF8 = "\N{REPLACEMENT CHARACTER}"

_OF_THE_LAST_COMMIT = "Folder and branch are those of the last commit that had the object."
_WHY_NOT_KNOWN = (
    "They are not known for an object that is in none of the commits that were read for paths; "
    "<code>explain = &quot;full&quot;</code> in the settings reads the most."
)


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
        _verdict(report),
        _findings(report),
        _cautions(report),
        _tiles(report),
        _outcomes(report),
        _charts(report),
        _what_if(what_if, report, price, asked_before_sweep=asked_before_sweep),
        _trend(past),
        _rules(report),
        _policy(report),
        _reference(report),
        table(
            "Commits that keep their objects",
            ("why", "commits"),
            ((why, f"{count:,}") for why, count in report.commits.items()),
        ),
        _checks(report),
        _largest(report, server),
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
    return f"{group.objects:,} object{'' if group.objects == 1 else 's'}"


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


def _verdict(report: Report) -> str:
    if report.passed and any(check.confirmed for check in report.checks):
        return '<p class="verdict">What a check found unusual was confirmed by name.</p>'
    if report.passed:
        found = (
            "Every check passed"
            if all(check.passed for check in report.checks)
            else "No check that blocks a sweep failed"
        )
        state = "and the mark was swept" if report.swept else "so this mark may be swept"
        return f'<p class="verdict">{found}, {state}.</p>'
    if report.passed is None:
        return (
            '<p class="verdict refused">The checks were not run yet: this mark cannot be swept.</p>'
        )
    shown = {check.name for check in report.checks}
    refusals = "".join(
        f"<li><b>{escape(name)}</b>: {escape(why)}</li>"
        for name, why in report.refused.items()
        if name not in shown
    )
    listed = f"<ul>{refusals}</ul>" if refusals else ""
    return f'<div class="verdict refused">Refused. {NOTHING_DELETED}{listed}</div>'


def _findings(report: Report) -> str:
    """Show each check that did not pass, with the way on."""
    return "".join(
        f'<div class="finding {"refused" if check.standing == "refused" else "noticed"}">'
        f"<p><b>{escape(check.name)}</b>: {escape(check.standing)}</p>"
        f"<p>{escape(check.summary)}</p>"
        f'<p class="soft">Limit: {escape(check.limit)}. What lifts it: {escape(check.lifted_by)}.'
        "</p></div>"
        for check in report.checks
        if not check.passed
    )


def _checks(report: Report) -> str:
    if not report.checks:
        return ""
    passed = sum(check.passed for check in report.checks)
    rows = [
        (check.name, check.standing, check.summary, check.limit, check.lifted_by)
        for check in report.checks
    ]
    shown = rows_of(("check", "result", "found", "limit", "what lifts it"), rows)
    return (
        f"<details><summary><h2>Checks: {passed} of {len(report.checks)} passed</h2></summary>"
        f'<div class="checks">{shown}</div></details>'
    )


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


def _charts(report: Report) -> str:
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


def _what_if(
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


def _trend(past: Sequence[Point]) -> str:
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


def _largest(report: Report, server: str) -> str:
    """Show the largest objects in a table that the page's script searches, sorts and saves."""
    if not report.largest:
        return ""
    has_commits = any(row.commit for row in report.largest)
    names = ["address", "bytes", "written", "why", *(["last commit"] if has_commits else [])]
    head = "".join(f'<th class="n">{name}</th>' if name == "bytes" else f"<th>{name}</th>"
                   for name in names)  # fmt: skip
    rows = "".join(_object(report, row, server, has_commits=has_commits) for row in report.largest)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", f"{report.repository[:80]}-{report.run}")
    count, of = len(report.largest), report.expired.objects
    goes = "the mark let go" if report.swept else "may go"
    rest = (
        ""
        if count >= of
        else f'<p class="soft">All {of:,} lie as Parquet under {escape(report.place)}'
        f"{escape(lakegc_keys.of_run(lakegc_keys.ADDRESSES, report.run))}.</p>"
    )
    return (
        f'<section class="named" data-file="lakegc-{slug}.csv">'
        f"<h2>The largest objects that {goes} ({count} of {of:,})</h2>"
        '<div class="tools" hidden><input type="search" placeholder="Search" '
        'aria-label="Search the table"><button type="button">Download CSV</button>'
        '<output class="soft"></output></div>'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        f"</div>{rest}</section>"
    )


def _object(report: Report, row: Named, server: str, *, has_commits: bool) -> str:
    commit = f'<td class="code" data-name="last commit" data-v="{escape(row.commit)}">'
    written = f"{row.last_modified:%Y-%m-%d %H:%M:%S}"
    return (
        f'<tr><td class="code" data-name="address">{escape(row.address)}</td>'
        f'<td class="n" data-name="size" data-v="{row.size_bytes}">{bytes_text(row.size_bytes)}'
        f'</td><td class="key" data-name="written">{written}</td>'
        f'<td data-name="why:">{escape(row.reason)}</td>'
        + (f"{commit}{_links(report, row, server)}</td>" if has_commits else "")
        + "</tr>"
    )


def _links(report: Report, row: Named, server: str) -> str:
    """Return links to a commit and to the object in it, where the server is known."""
    shown = escape(row.commit[:_ID_SHOWN])
    if not row.commit or not server:
        return shown
    base = f"{server}/repositories/{quote(report.repository, safe='')}"
    ref = quote(row.commit, safe="")
    links = [(f"{base}/commits/{ref}", shown)]
    if row.path and _NO_UTF8 not in row.path:
        links.append((f"{base}/object?ref={ref}&path={quote(row.path, safe='')}", "object"))
    return " ".join(
        f'<a href="{escape(url)}" rel="noreferrer noopener">{words}</a>' for url, words in links
    )


def _groups(title: str, groups: Iterable[Group]) -> str:
    rows = ((group.name, f"{group.objects:,}", bytes_text(group.size_bytes)) for group in groups)
    return table(title, ("", "objects", "bytes"), rows)
