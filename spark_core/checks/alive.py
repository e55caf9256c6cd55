"""Checks of what is alive: staged entries, commits and their tables were read to the end."""

from __future__ import annotations

from spark_core.checks.result import CheckResult, Manifests
from spark_core.records.figures import (
    EARLIER_DUMP,
    WALK,
    CommitsFigures,
    CommittedFigures,
    StagedFigures,
)
from spark_core.run import Run


def uncommitted_was_read_whole(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """Every staged row that the server wrote was read and is in the table (safety 1).

    Every page that claimed rows left a file, every file was read, and every row of it is in the
    table. The server's scans may be missing, where a branch was deleted during each of them. The
    diffs of the branches may not be missing (safety 2).

    The server's answers give no number of rows. So the check compares the rows of each file, by its
    own Parquet footer, with the rows read from it, and their sum with the rows stored.
    """
    table = manifests["uncommitted_addresses"]
    read = StagedFigures.of(table)
    rows = read.file_rows + read.from_diffs
    lacking = []
    if read.branches_read == 0:
        lacking.append("no branch's changes were read")
    if read.files < read.pages_with_data:
        lacking.append("a page claimed rows that are in no file")
    if read.files_read != read.files:
        lacking.append(f"only {read.files_read} of {read.files} files were read")
    if table.rows != rows:
        lacking.append(f"{table.rows} rows were stored, {rows} were read")
    return CheckResult(
        "uncommitted_was_read_whole",
        "uncommitted_addresses",
        not lacking,
        f"{read.pages} pages, {read.pages_with_data} with data, {read.files} files "
        f"read with {read.file_rows} rows, {read.from_diffs} more rows from diffs of "
        f"{read.branches_read} branches"
        + (f"; {'; '.join(lacking)}. Mark again under a new run key." if lacking else ""),
        {
            **{
                name: getattr(read, name)
                for name in (
                    "pages",
                    "pages_with_data",
                    "files",
                    "files_read",
                    "file_rows",
                    "from_diffs",
                )
            },
            "rows": table.rows,
            "branches_read": read.branches_read,
            "rows_told_by_server": "none: its answers tell no number of rows",
        },
        limit="no page without its file, no file unread, no row lost",
    )


def commits_are_known(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """There are commits, and the server's list has none that the dump lacks (safety 3, 17, 21)."""
    manifest = manifests["retained_commits"]
    figures = CommitsFigures.of(manifest)
    unknown = figures.unknown_to_dump
    compacted = figures.compacted or 0
    retained = manifest.rows - compacted
    passed = retained > 0 and not unknown
    if retained == 0:
        summary = (
            "no commit is retained, so every object would look unreachable. Run again in a minute."
        )
    elif unknown:
        summary = (
            f"the server retains {len(unknown)} commits that its own dump does not know "
            f"({unknown[0][:12]}...). Run again; if it stays, report it with this run's manifest."
        )
    else:
        summary = f"{retained} of {figures.commits} commits keep their objects"
        if compacted:
            summary += f"; so do {compacted} metaranges that no retained commit names"
        if figures.refs_read_by == EARLIER_DUMP:
            summary += (
                f"; refs read by: log, {figures.commits_beside_dump} commits since the dump of "
                f"{figures.dump_made_at}"
            )
        if figures.refs_read_by == WALK:
            summary += (
                f"; refs read by: walk, {figures.unknown_to_walk} more are known from "
                "the server's list only"
            )
    return CheckResult(
        "commits_are_known",
        manifest.table,
        passed,
        summary,
        {
            "retained": retained,
            **({"compacted": compacted} if compacted else {}),
            "retained_by_server": figures.retained_by_server,
            "commits": figures.commits,
            "commits_beside_dump": figures.commits_beside_dump,
            "unknown_to_dump": list(unknown[:20]),
            "refs_read_by": figures.refs_read_by,
            "unknown_to_walk": figures.unknown_to_walk,
            "rules_without_branch": list(figures.rules_without_branch),
        },
        limit="at least one commit; the server retains none that its own dump lacks",
    )


def heads_are_readable(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """Every branch's commit is retained, and its metarange and ranges were read (safety 3, 5)."""
    commits = CommitsFigures.of(manifests["retained_commits"])
    committed = CommittedFigures.of(manifests["committed_addresses"])
    heads, retained = commits.heads, commits.heads_retained
    lacking = []
    if not heads:
        lacking.append("no branch has a head")
    if retained != heads:
        lacking.append(f"{retained} of {heads} heads are retained")
    taken = committed.taken
    for what, wanted, known in (
        (
            "metaranges",
            committed.head_metaranges,
            committed.head_metaranges_read + taken.head_metaranges,
        ),
        ("ranges", committed.head_ranges, committed.head_ranges_read + taken.head_ranges),
    ):
        if known != wanted:
            lacking.append(
                f"{'only ' if known < wanted else ''}{known} of their {wanted} {what} are known"
            )
    return CheckResult(
        "heads_are_readable",
        "committed_addresses",
        not lacking,
        f"{commits.branches} branches stand on {heads} commits with {committed.head_metaranges} "
        f"metaranges and {committed.head_ranges} ranges"
        + (
            f", but {', '.join(lacking)}. Mark again under a new run key."
            if lacking
            else f", all of them {_read_or_taken(taken.head_metaranges, taken.head_ranges)}"
        ),
        {
            "branches": commits.branches,
            "heads": heads,
            "heads_retained": retained,
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
    metaranges, held, rows = (
        figures.metaranges,
        figures.metarange_rows,
        figures.metarange_rows_read,
    )
    stored = manifests["committed_addresses"].rows + figures.addresses_left_out
    known = (
        figures.metaranges_read + taken.metaranges,
        figures.ranges_read + taken.ranges,
        figures.entries_read + taken.entries,
    )
    passed = (
        known == (metaranges, figures.ranges, figures.entries)
        and held == rows
        and figures.addresses_read == stored
    )
    return CheckResult(
        "ranges_were_read_whole",
        "committed_addresses",
        passed,
        f"{metaranges} metaranges, {figures.ranges} ranges with {figures.entries} entries"
        + (
            f", all of them {_read_or_taken(taken.metaranges, taken.ranges)}"
            if passed
            else ", of which only {}, {} and {} are known, and ".format(*known)
            + f"{held} of {rows} rows of metaranges and {stored} of "
            f"{figures.addresses_read} addresses came out of it. Mark again under a new run key."
        ),
        {
            "metaranges": metaranges,
            "metaranges_read": figures.metaranges_read,
            "metarange_rows": held,
            "metarange_rows_read": rows,
            **{
                name: getattr(figures, name)
                for name in ("ranges", "ranges_read", "entries", "entries_read", "addresses_read")
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
    none = ranges == 0
    passed = not none or (
        committed.retained_metaranges == wanted and read >= wanted and empty >= wanted
    )
    if not none:
        summary = f"the retained commits have {ranges} ranges"
    elif passed:
        summary = (
            f"the retained commits have no range: {wanted} metaranges were read and hold none, the "
            "others have the empty id"
        )
    else:
        summary = (
            f"the retained commits have no range, although they have {wanted} metaranges, of which "
            f"{read} were read and {empty} hold none: everything that {run.repository.id} "
            "committed would look unreachable. Mark again under a new run key; if it stays, report "
            "it with this run's manifests."
        )
    return CheckResult(
        "zero_ranges_are_proved",
        "committed_addresses",
        passed,
        summary,
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
