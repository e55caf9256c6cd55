"""Checks of what a retention policy names. What does not pass waits; all else goes its way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_core.checks.result import CheckResult, setting
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from spark_core.references.policies.confirmed import CHECK
from spark_core.references.policies.waiting import above_limit, shares_of
from spark_core.run import Run

_TABLE = tables.POLICY_EXPIRATIONS.name


def policy_history_was_read(run: Run, facts: Mapping[str, Any]) -> CheckResult:  # noqa: ARG001 - both checks look alike
    """The tables of every commit were read, so that each name has its branch or is undecided.

    A table that cannot be read may give any object a name, so that every branch counts as
    undecided.
    """
    unread, problem = facts.get("unread", 0), facts.get("problem")
    unstaged = facts.get("staged_problem")
    if problem:
        summary = f"the policy could not be looked at, and names nothing: {problem}"
    elif unread:
        summary = (
            f"tables of {unread:,} commits cannot be read, for instance of commit "
            f"{facts['unread_commits'][0][:12]}; until they can, rules with a prefix name nothing. "
            "Bring the tables back."
        )
    elif unstaged:
        summary = (
            "the branches and paths under which objects are staged could not be read, so that no "
            f"rule takes a staged object: {unstaged}"
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
        not unread and not problem and not unstaged,
        summary,
        {name: facts.get(name, 0) for name in names},
        limit="no table of any commit unread, and every name of what is staged read",
    )


def policy_share_is_plausible(run: Run, facts: Mapping[str, Any]) -> CheckResult:
    """No rule names more than the limit's share of the listed objects and of their bytes.

    What a rule above the limit names waits.
    """
    limit, floor = run.options.max_policy_share, run.options.share_from_objects
    listing = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    shares = shares_of(facts.get("by_rule", ()), listing)
    above = above_limit(shares, run.options, listing)
    summary = _not_looked_at(facts) or "; ".join(
        f"rule {number} names {objects:,} of {listing.objects:,} objects "
        f"({shares[number]:.1%} of them or of the bytes)"
        + (f", above the limit of {limit:.1%}, and waits" if number in above else "")
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


def policy_is_confirmed(run: Run, facts: Mapping[str, Any]) -> CheckResult:
    """A person confirmed what the policy says, before any sweep takes what it names."""
    waits = facts.get("waits")
    summary = _not_looked_at(facts) or waits or "the document is confirmed, and its rules let go"
    return CheckResult(
        CHECK,
        _TABLE,
        not run.options.policies_let_go or not waits,
        summary,
        {"policy_digest": facts.get("policy_digest", ""), "waits": waits or ""},
        limit="the digest of the document was confirmed",
        lifted_by=f"`lakegc confirm {run.repository.id} {CHECK} --run {run.key}`, and a new mark",
    )


POLICY_CHECKS = (policy_history_was_read, policy_share_is_plausible, policy_is_confirmed)


def check_policy(run: Run, facts: Mapping[str, Any]) -> list[CheckResult]:
    """Run the checks on the figures of what a policy names, or of a run that looked at none."""
    return [check(run, facts) for check in POLICY_CHECKS]


def _not_looked_at(facts: Mapping[str, Any]) -> str:
    if facts.get("policy_version"):
        return ""
    if facts.get("problem"):
        return "it could not be looked at"
    return "the settings switch policies off" if facts.get("policies") == "off" else "no policy"
