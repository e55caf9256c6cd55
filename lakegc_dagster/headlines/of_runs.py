"""What a person asks of a run: of its mark, its sweep, its house-keeping, and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakegc_dagster.headlines.words import (
    after_headline,
    amount,
    costs,
    escaped,
    groups_table,
    headline,
    kind_words,
    may_go,
    of_group,
    sentence,
    share,
)
from lakegc_dagster.metadata import Metadata, above, counters_metadata, page_metadata
from spark_core.prices import Price

if TYPE_CHECKING:
    from spark_core.checks import CheckResult
    from spark_core.model import RunKey
    from spark_core.report import Report

# What the asset of a repository shows of its newest run, beside the headlines.
_OF_A_RUN = (
    "page", "objects_that_may_go", "bytes_that_may_go", "share_of_bytes", "objects_deleted",
    "bytes_deleted",
)  # fmt: skip


def of_verdict(report: Report | None, price: Price | None, page: Mapping[str, str]) -> Metadata:
    """Say of a mark that ended what a person asks.

    Args:
        report: Its report; None if there is none.
        price: As for `of_table`.
        page: As `local_path.page_to_open` gives it.
    """
    shown = page_metadata(page)
    return shown if report is None else after_headline(of_mark(report, price), shown)


def of_mark(report: Report, price: Price | None = None) -> Metadata:
    """Say of a mark with its verdict what a person asks.

    Args:
        report: Its report.
        price: As above.
    """
    goes, listed = report.expired, report.listed
    passed = sum(check.passed for check in report.checks)
    refused = [
        f"Refused by **{escaped(name)}**: {escaped(why)}" for name, why in report.refused.items()
    ]
    standing = "This mark may be swept." if report.passed else "This mark cannot be swept."
    return {
        "headline": headline(
            *may_go(goes.objects, goes.size_bytes, listed.objects, listed.size_bytes),
            *costs(goes.size_bytes, None if price is None else report.price_of_expired(price)),
            *kind_words(report.kind),
            f"{passed} of {len(report.checks)} checks passed.",
            standing,
            *refused,
        ),
        **amount("that_may_go", goes.objects, goes.size_bytes),
        **share(goes.size_bytes, listed.size_bytes),
        **groups_table("by_reason", map(of_group, report.by_reason)),
        **groups_table("kept", map(of_group, report.kept)),
    }


def of_house_keeping(words: str) -> Metadata:
    """Say what house-keeping did, each thing on a line."""
    return {"headline": headline(*map(sentence, words.split("; ")))}


def of_a_run(key: RunKey, verdict: Metadata, report: Metadata) -> Metadata:
    """Say of a run that did its work what its repository is asked for.

    Args:
        key: Its run key.
        verdict: What its verdict says; empty if it made none.
        report: What its sweep says; empty if it swept nothing.
    """
    said = [str(each["headline"].value) for each in (report, verdict) if "headline" in each]
    shown = {
        name: value
        for each in (verdict, report)
        for name, value in each.items()
        if name in _OF_A_RUN
    }
    return {
        "headline": dg.MetadataValue.md("  \n".join(said)),
        "run": dg.MetadataValue.text(str(key)),
        **shown,
    }


def of_not_swept(why: str) -> Metadata:
    """Say why a sweep was not begun."""
    return {"headline": headline(sentence(why))}


def of_policy(found: Sequence[CheckResult], facts: Mapping[str, Any]) -> Metadata:
    """Say what the retention policy names, as its checks have it, with the counters below.

    Args:
        found: What the checks of the policy say.
        facts: The facts of its table.
    """
    # All of them say the same where no policy was looked at.
    said = dict.fromkeys(result.summary for result in found)
    shown = headline(*(map(sentence, said) if said else ["No policy was looked at."]))
    looked = bool(facts.get("policy_version"))
    apart = {result.name: result.summary for result in found} if looked else {}
    return above({"headline": shown}, counters_metadata({**facts, **apart}))
