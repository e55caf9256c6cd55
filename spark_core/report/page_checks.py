"""What a page shows of the checks: the verdict, what they found, and all of them in a table."""

from __future__ import annotations

from spark_core.phases import NOTHING_DELETED
from spark_core.plain_text import escape
from spark_core.report.page_parts import rows_of
from spark_core.report.report import Report


def verdict_section(report: Report) -> str:
    """Say whether the mark may be swept, and what refused it as far as no check is shown for it."""
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


def findings_section(report: Report) -> str:
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


def checks_section(report: Report) -> str:
    """Show all checks with their limits, folded."""
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
