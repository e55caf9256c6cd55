"""The checks of a mark as its report shows them, with what people confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_core import lakegc_keys
from spark_core.checks import confirming, verdict
from spark_core.errors import VerdictError
from spark_core.records import confirmation
from spark_core.records.verdict_document import ADVISORY
from spark_core.report.report import Report
from spark_core.report.values import Check
from spark_core.run import Run


def checks_of(run: Run) -> tuple[bool | None, tuple[Check, ...]]:
    """Return whether the checks allow a sweep of the mark, and every check with its limit."""
    try:
        found = verdict.stored_here(run)
    except VerdictError:
        # A mark whose checks were not run yet can be looked at. The sweep asks for the verdict
        # itself.
        return None, ()
    confirmed = confirming.confirmed_checks(run, found)
    checks = tuple(
        Check(
            name=check["name"],
            passed=check["passed"],
            summary=check["summary"],
            limit=check.get("limit", ""),
            lifted_by=check.get("lifted_by", ""),
            confirmed=_who(run, check["name"]) if check["name"] in confirmed else "",
            blocks=check["name"] not in ADVISORY,
        )
        for check in found.checks
    )
    lifted = bool(checks) and all(
        check.passed or check.confirmed or not check.blocks for check in checks
    )
    return found.passed or lifted, checks


def with_verdict(run: Run, report: Report) -> Report:
    """Add to the report of a refused mark what was confirmed since; this needs no Spark."""
    if report.passed or not any(
        run.store.exists(lakegc_keys.confirmation_key(run.key, check)) for check in report.refused
    ):
        return report
    passed, checks = checks_of(run)
    return replace(report, passed=passed, checks=checks, refused=refused(checks))


def refused(checks: Sequence[Check]) -> dict[str, str]:
    """Return the sentences of the checks that refuse the mark, by name."""
    return {check.name: check.summary for check in checks if check.standing == "refused"}


def _who(run: Run, check: str) -> str:
    confirmed = confirmation.load(run.store, run.key, check)
    return (
        ""
        if confirmed is None
        else f"{confirmed.who} at {confirmed.confirmed_at:%Y-%m-%d %H:%M} UTC"
    )
