"""The largest objects on a page, in a table that the page's script searches, sorts and saves."""

from __future__ import annotations

import re
from urllib.parse import quote

from spark_core import lakegc_keys
from spark_core.plain_text import escape
from spark_core.report.report import Report
from spark_core.report.values import Named, bytes_text

# Characters of a commit's id that are enough for a reader.
_ID_SHOWN = 12
# Stands for bytes of a path that are no UTF-8: no link leads to such a path.
_NO_UTF8 = "\N{REPLACEMENT CHARACTER}"


def largest_section(report: Report, server: str) -> str:
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
