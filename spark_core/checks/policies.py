"""Checks of what a retention policy names. They inform people; nothing goes by a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_core.checks.result import CheckResult, setting, share
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from spark_core.run import Run

_TABLE = tables.POLICY_EXPIRATIONS.name


def policy_history_was_read(run: Run, facts: Mapping[str, Any]) -> CheckResult:  # noqa: ARG001 - both checks look alike
    """The tables of every commit were read, so that each name has its branch or is undecided.

    A table that cannot be read may give any object a name, so that every branch counts as
    undecided.
    """
    unread = facts.get("unread", 0)
    if unread:
        summary = (
            f"tables of {unread:,} commits cannot be read, for instance of commit "
            f"{facts['unread_commits'][0][:12]}; until they can, rules with a prefix name nothing. "
            "Bring the tables back."
        )
    else:
        summary = _not_looked_at(facts) or (
            f"{facts['entries']:,} entries of {facts['commits']:,} commits give "
            f"{facts['names_placed']:,} names with a branch, and {facts['names_undecided']:,} "
            "without"
        )
    names = ("entries", "ranges", "commits", "names_placed", "names_undecided", "unread")
    return CheckResult(
        "policy_history_was_read",
        _TABLE,
        not unread,
        summary,
        {name: facts.get(name, 0) for name in names},
        limit="no table of any commit unread",
    )


def policy_share_is_plausible(run: Run, facts: Mapping[str, Any]) -> CheckResult:
    """No rule names more than the limit's share of the listed objects and of their bytes."""
    limit, floor = run.options.max_policy_share, run.options.share_from_objects
    listing = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    listed, listed_bytes = listing.objects, listing.object_bytes
    shares = {
        number: max(share(objects, listed), share(size, listed_bytes))
        for number, _, objects, size in facts.get("by_rule", ())
    }
    above = [number for number, of in shares.items() if of > limit and listed >= floor]
    summary = _not_looked_at(facts) or "; ".join(
        f"rule {number} names {objects:,} of {listed:,} objects ({shares[number]:.1%} of them or "
        "of the bytes)" + (f", above the limit of {limit:.1%}" if number in above else "")
        for number, _, objects, _ in facts["by_rule"]
    )
    return CheckResult(
        "policy_share_is_plausible",
        _TABLE,
        not above,
        summary,
        {
            **{f"share_of_rule_{number}": of for number, of in shares.items()},
            "max_policy_share": limit,
            "share_from_objects": floor,
        },
        limit=f"{limit:.1%} of the objects and of the bytes for each rule, from {floor:,} on",
        lifted_by=setting("max_policy_share"),
    )


POLICY_CHECKS = (policy_history_was_read, policy_share_is_plausible)


def check_policy(run: Run, facts: Mapping[str, Any]) -> list[CheckResult]:
    """Run the checks on the figures of what a policy names, or of a run that looked at none."""
    return [check(run, facts) for check in POLICY_CHECKS]


def _not_looked_at(facts: Mapping[str, Any]) -> str:
    if facts.get("policy_version"):
        return ""
    return "the settings switch policies off" if facts.get("policies") == "off" else "no policy"
