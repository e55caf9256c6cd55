"""Checks of table 4: the metaranges and ranges of all retained commits were read to the end."""

from __future__ import annotations

from spark_core.checks.result import CheckResult, Manifests
from spark_core.records.figures import (
    CommitsFigures,
    CommittedFigures,
)
from spark_core.run import Run


def heads_are_readable(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """Every branch's commit is retained, and its metarange and ranges were read (safety 3, 5)."""
    commits = CommitsFigures.of(manifests["retained_commits"])
    committed = CommittedFigures.of(manifests["committed_addresses"])
    taken = committed.taken
    lacking = _lacking_of_heads(commits, committed)
    return CheckResult(
        "heads_are_readable",
        "committed_addresses",
        not lacking,
        f"{commits.branches} branches stand on {commits.heads} commits with "
        f"{committed.head_metaranges} metaranges and {committed.head_ranges} ranges"
        + (
            f", but {', '.join(lacking)}. Mark again under a new run key."
            if lacking
            else f", all of them {_read_or_taken(taken.head_metaranges, taken.head_ranges)}"
        ),
        {
            "branches": commits.branches,
            "heads": commits.heads,
            "heads_retained": commits.heads_retained,
            **{
                name: getattr(committed, name)
                for name in (
                    "head_metaranges",
                    "head_metaranges_read",
                    "head_ranges",
                    "head_ranges_read",
                )
            },
            "head_metaranges_taken": taken.head_metaranges,
            "head_ranges_taken": taken.head_ranges,
        },
        limit="every branch's head, every metarange and range of it",
    )


def _lacking_of_heads(commits: CommitsFigures, committed: CommittedFigures) -> list[str]:
    """Say what of the branches' heads was neither read nor taken from the index."""
    lacking = []
    if not commits.heads:
        lacking.append("no branch has a head")
    if commits.heads_retained != commits.heads:
        lacking.append(f"{commits.heads_retained} of {commits.heads} heads are retained")
    for what, wanted, known in (
        (
            "metaranges",
            committed.head_metaranges,
            committed.head_metaranges_read + committed.taken.head_metaranges,
        ),
        (
            "ranges",
            committed.head_ranges,
            committed.head_ranges_read + committed.taken.head_ranges,
        ),
    ):
        if known != wanted:
            lacking.append(
                f"{'only ' if known < wanted else ''}{known} of their {wanted} {what} are known"
            )
    return lacking


def _read_or_taken(metaranges: int, ranges: int) -> str:
    """Say where tables were read, by how many were taken from the index."""
    if not metaranges and not ranges:
        return "read"
    return f"read, or taken from the index ({metaranges} metaranges and {ranges} ranges)"


def ranges_were_read_whole(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """Every metarange and range of every retained commit was read or taken, each entry (safety 5).

    What is taken from the index was read once: it never changes.
    """
    figures = CommittedFigures.of(manifests["committed_addresses"])
    taken = figures.taken
    passed, words = _wholeness(figures, manifests["committed_addresses"].rows)
    return CheckResult(
        "ranges_were_read_whole",
        "committed_addresses",
        passed,
        words,
        {
            **{
                name: getattr(figures, name)
                for name in (
                    "metaranges",
                    "metaranges_read",
                    "metarange_rows",
                    "metarange_rows_read",
                    "ranges",
                    "ranges_read",
                    "entries",
                    "entries_read",
                    "addresses_read",
                )
            },
            "addresses_left_out": figures.addresses_left_out,
            **{
                f"{name}_taken": getattr(taken, name)
                for name in ("metaranges", "ranges", "entries")
            },
            "ranges_compared": taken.compared_ranges,
        },
        limit="no metarange, range or entry unread",
    )


def _wholeness(figures: CommittedFigures, rows_stored: int) -> tuple[bool, str]:
    """Decide whether all metaranges, ranges and entries are known; say how many are."""
    taken = figures.taken
    stored = rows_stored + figures.addresses_left_out
    held, rows = figures.metarange_rows, figures.metarange_rows_read
    known = (
        figures.metaranges_read + taken.metaranges,
        figures.ranges_read + taken.ranges,
        figures.entries_read + taken.entries,
    )
    is_whole = (
        known == (figures.metaranges, figures.ranges, figures.entries)
        and held == rows
        and figures.addresses_read == stored
    )
    words = (
        f"{figures.metaranges} metaranges, {figures.ranges} ranges with {figures.entries} entries"
    )
    if is_whole:
        return True, f"{words}, all of them {_read_or_taken(taken.metaranges, taken.ranges)}"
    return False, (
        f"{words}, of which only {known[0]}, {known[1]} and {known[2]} are known, and {held} of "
        f"{rows} rows of metaranges and {stored} of {figures.addresses_read} addresses came out "
        "of it. Mark again under a new run key."
    )


def zero_ranges_are_proved(run: Run, manifests: Manifests) -> CheckResult:
    """If the retained commits have no range, each of them proves it (safety 3).

    A fresh repository and one whose last object was removed have no range. A reading that lost the
    ranges has none either. The metarange of each retained commit tells these cases apart: it has
    the empty id, or it was read, now or for the index, and holds no range.
    """
    commits = CommitsFigures.of(manifests["retained_commits"])
    committed = CommittedFigures.of(manifests["committed_addresses"])
    taken, ranges = committed.taken, committed.ranges
    wanted, read, empty = (
        commits.metaranges,
        committed.retained_metaranges_read + taken.retained_metaranges,
        committed.empty_metaranges + taken.empty_metaranges,
    )
    passed = ranges != 0 or (
        committed.retained_metaranges == wanted and read >= wanted and empty >= wanted
    )
    return CheckResult(
        "zero_ranges_are_proved",
        "committed_addresses",
        passed,
        f"the retained commits have {ranges} ranges"
        if ranges
        else _no_range_words(run, wanted, read=read, empty=empty, is_proved=passed),
        {
            "ranges": ranges,
            "metaranges_of_commits": wanted,
            "metaranges_of_ranges": committed.retained_metaranges,
            "metaranges_read": committed.retained_metaranges_read,
            "metaranges_taken": taken.retained_metaranges,
            "empty_metaranges": empty,
        },
        limit="a mark has ranges, or each retained metarange was read and holds none",
    )


def _no_range_words(run: Run, wanted: int, *, read: int, empty: int, is_proved: bool) -> str:
    """Say what proves that the retained commits have no range, or what is lacking."""
    if is_proved:
        return (
            f"the retained commits have no range: {wanted} metaranges were read and hold none, the "
            "others have the empty id"
        )
    return (
        f"the retained commits have no range, although they have {wanted} metaranges, of which "
        f"{read} were read and {empty} hold none: everything that {run.repository.id} "
        "committed would look unreachable. Mark again under a new run key; if it stays, report "
        "it with this run's manifests."
    )
