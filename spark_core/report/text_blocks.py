"""What a terminal or a log shows of a report: sentences and small tables, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias

from spark_core.phases import NOTHING_DELETED
from spark_core.plain_text import bytes_text
from spark_core.report.report import Report
from spark_core.report.values import NO_COMMIT, NOT_KNOWN, Group, Kind, ReferenceReport

# So many objects that a sweep or another mark kept are named; the table has all.
_NAMED = 20
_PLACES = 5


@dataclass(frozen=True)
class Words:
    """A sentence or two.

    Attributes:
        text: What they say, without what stands out.
        lead: The first words, which stand out.
        mood: How: a name, something to know, or a refusal.
    """

    text: str
    lead: str = ""
    mood: Literal["plain", "name", "caution", "refusal"] = "plain"


@dataclass(frozen=True)
class Rows:
    """A table of texts.

    Attributes:
        title: Its title.
        columns: Names of its columns; figures are aligned right.
        rows: One text for each column.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


Block: TypeAlias = Words | Rows


def blocks(report: Report) -> Iterator[Block]:
    """Yield what a person reads of a report: totals, what may go, what is kept, why, what was done.

    Args:
        report: Of a mark or a sweep.
    """
    return chain(
        _headline(report),
        _groups(report),
        _policy(report),
        () if report.reference is None else _reference(report.reference),
        _not_deleted(report),
        _what_to_know(report),
        _checks(report),
    )


def rows_of_groups(title: str, groups: Iterable[Group], what: str = "why") -> Rows:
    """Make a table of groups of objects."""
    rows = [(group.name, f"{group.objects:,}", bytes_text(group.size_bytes)) for group in groups]
    return Rows(title, (what, "objects", "bytes"), rows)


def _headline(report: Report) -> Iterator[Block]:
    """Say what may go, and what waits because branches could not be asked."""
    gone = next((group for group in report.outcomes or () if group.name == "deleted"), None)
    found = "nothing may go" if not report.expired.objects else f"{report.expired} may go"
    if report.swept and gone is not None:
        found = f"{gone} {'was' if gone.objects == 1 else 'were'} deleted"
    also = "".join(
        f"; kept by a setting: {group}, {group.name}" for group in report.kept_by_setting
    )
    line = f", run {report.run}: {found}, of {report.listed}{also}"
    yield Words(line, report.repository, "name")
    if report.waiting:
        yield Words("", f"{report.waiting}.", "caution")


def _read(kind: Kind) -> str:
    """Say what a mark read, since when, and up to which slice."""
    slice_ = f", newest slice {kind.last_slice}" if kind.last_slice else ""
    return f"{kind}; reading began {kind.started:%Y-%m-%d %H:%M:%S} UTC{slice_}"


def _groups(report: Report) -> Iterator[Block]:
    goes = "What the mark let go" if report.swept else "What may go"
    # Folders and branches say nothing where no path was read.
    is_placed = any(group.name not in (NO_COMMIT, NOT_KNOWN) for group in report.by_prefix)
    places = (
        (f"{goes}, by folder", report.by_prefix if is_placed else (), "folder"),
        (f"{goes}, by branch", report.by_branch if is_placed else (), "branch"),
        (f"{goes}, by slice", () if is_placed else report.by_slice, "slice"),
    )
    for title, groups, what in (
        (f"{goes}, by reason", report.by_reason, "why"),
        (f"{goes}, by age", report.by_age, "written"),
        # One class for all says nothing.
        (f"{goes}, by storage class", report.by_class if len(report.by_class) > 1 else (), "class"),
        *((title, groups[:_PLACES], what) for title, groups, what in places),
        ("What is kept", report.kept, "why"),
        ("What the sweep did", report.outcomes or (), "outcome"),
    ):
        if groups:
            yield rows_of_groups(title, groups, what)


def _policy(report: Report) -> Iterator[Block]:
    if report.policy is not None:
        yield Words(f"Objects that entries lead to go by {report.policy}.")


def _reference(found: ReferenceReport) -> Iterator[Block]:
    """Say what becomes of the addresses in a mark of lakeFS's own job; name some kept ones."""
    yield Words(
        f"The mark {found.mark_id} of the reference job names {found.addresses:,} addresses; "
        f"lakegc's own would let go of {found.eligible}."
    )
    yield rows_of_groups("How that mark stands today", found.standings)
    if found.kept:
        rows = [(row.address, row.standing) for row in found.kept[:_NAMED]]
        yield Rows("Named by that mark, and kept", ("address", "why"), rows)


def _not_deleted(report: Report) -> Iterator[Block]:
    """Name some objects that a sweep did not delete.

    The store did not delete them, or something references them again.
    """
    if report.failures:
        yield Rows(
            "Not deleted",
            ("address", "outcome", "what the store said"),
            [(each.address, each.outcome, each.error) for each in report.failures[:_NAMED]],
        )
    if report.spared:
        yield Rows(
            "Let go by the mark, and kept by the sweep",
            ("address", "why"),
            [(each.address, each.error) for each in report.spared[:_NAMED]],
        )


def _what_to_know(report: Report) -> Iterator[Block]:
    if report.undo:
        yield Words(str(report.undo))
    if report.kind is not None:
        yield Words(_read(report.kind))
    for caution in report.cautions:
        yield Words(f": {caution}.", "Caution", "caution")
    if report.passed is None:
        words = "The checks were not run yet: this mark cannot be swept."
        yield Words("", words, "caution")


def _checks(report: Report) -> Iterator[Block]:
    """Name the checks, those that refused a mark, what lifts each, and that nothing was deleted."""
    if report.checks:
        rows = [(each.name, each.standing, each.limit) for each in report.checks]
        yield Rows("Checks", ("check", "result", "limit"), rows)
    lifted_by = {check.name: check.lifted_by for check in report.checks}
    for name, why in report.refused.items():
        lifts = f"\nWhat lifts it: {lifted_by[name]}." if name in lifted_by else ""
        yield Words(f" by {name}: {why}{lifts}", "Refused", "refusal")
    if report.refused and not report.swept:
        yield Words(NOTHING_DELETED)
