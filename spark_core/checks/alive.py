"""Checks of what is alive: staged entries and commits were read to the end."""

from __future__ import annotations

from spark_core.checks.result import CheckResult, Manifests
from spark_core.records.figures import (
    EARLIER_DUMP,
    WALK,
    CommitsFigures,
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
    return CheckResult(
        "commits_are_known",
        manifest.table,
        retained > 0 and not unknown,
        _commits_words(figures, retained),
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


def _commits_words(figures: CommitsFigures, retained: int) -> str:
    """Say how many commits keep their objects, or why that cannot be believed."""
    unknown = figures.unknown_to_dump
    if retained == 0:
        return (
            "no commit is retained, so every object would look unreachable. Run again in a minute."
        )
    if unknown:
        return (
            f"the server retains {len(unknown)} commits that its own dump does not know "
            f"({unknown[0][:12]}...). Run again; if it stays, report it with this run's manifest."
        )
    words = f"{retained} of {figures.commits} commits keep their objects"
    if figures.compacted:
        words += f"; so do {figures.compacted} metaranges that no retained commit names"
    if figures.refs_read_by == EARLIER_DUMP:
        words += (
            f"; refs read by: log, {figures.commits_beside_dump} commits since the dump of "
            f"{figures.dump_made_at}"
        )
    if figures.refs_read_by == WALK:
        words += (
            f"; refs read by: walk, {figures.unknown_to_walk} more are known from "
            "the server's list only"
        )
    return words
