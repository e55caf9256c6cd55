"""Checks of what is alive: staged entries, commits and their tables, all of it read to the end."""

from __future__ import annotations

from spark_core.checks.result import CheckResult, Manifests
from spark_core.run import Run


def uncommitted_was_read_whole(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """Every page that claimed rows left a file, every file was read, and every row of it is in the table (safety 1).

    The server's scans may be missing, where a branch was deleted under each of
    them; the diffs of the branches may not (safety 2).

    The server's answers tell no number of rows, so the rows of each file, by its
    own Parquet footer, are compared with those read from it, and their sum with
    those that were stored.
    """
    table = manifests["uncommitted_addresses"]
    facts = table.facts
    rows = facts["file_rows"] + facts["from_diffs"]
    lacking = []
    # A mark of an earlier lakegc, which refused without a scan, did not count the branches.
    branches = facts.get("branches_read")
    if facts["pages"] < 1 and branches is None:
        lacking.append("no page was read")
    if branches == 0:
        lacking.append("the changes of no branch were read")
    if facts["files"] < facts["pages_with_data"]:
        lacking.append("a page claimed rows that are in no file")
    if facts["files_read"] != facts["files"]:
        lacking.append(f"only {facts['files_read']} of {facts['files']} files were read")
    if table.rows != rows:
        lacking.append(f"{table.rows} rows were stored, {rows} were read")
    return CheckResult(
        "uncommitted_was_read_whole",
        "uncommitted_addresses",
        not lacking,
        f"{facts['pages']} pages, {facts['pages_with_data']} with data, {facts['files']} files read with {facts['file_rows']} rows, "
        f"{facts['from_diffs']} more rows from diffs"
        + (f" of {branches} branches" if branches is not None else "")
        + (f"; {'; '.join(lacking)}. Mark again under a new run key." if lacking else ""),
        {
            **{
                name: facts[name]
                for name in ("pages", "pages_with_data", "files", "files_read", "file_rows", "from_diffs")
            },
            "rows": table.rows,
            "branches_read": branches,
            "rows_told_by_server": "none: its answers tell no number of rows",
        },
        limit="no page without its file, no file unread, no row lost",
    )


def commits_are_known(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """There are commits, and both readings speak of the same ones (safety 3, 17, 21)."""
    manifest = manifests["retained_commits"]
    unknown = manifest.facts["unknown_to_dump"]
    passed = manifest.rows > 0 and not unknown
    if manifest.rows == 0:
        summary = "no commit is retained, so every object would look unreachable. Run again in a minute."
    elif unknown:
        summary = (
            f"the server retains {len(unknown)} commits that its own dump does not know ({unknown[0][:12]}...). "
            "Run again; if it stays, report it with this run's manifest."
        )
    else:
        summary = f"{manifest.rows} of {manifest.facts['commits']} commits keep their objects"
        if manifest.facts.get("refs_read_by") == "walk":
            summary += (
                f"; refs read by: walk, {manifest.facts['unknown_to_walk']} more are known from the server's list only"
            )
    return CheckResult(
        "commits_are_known",
        manifest.table,
        passed,
        summary,
        {
            "retained": manifest.rows,
            "retained_by_server": manifest.facts["retained_by_server"],
            "commits": manifest.facts["commits"],
            "commits_beside_dump": manifest.facts.get("commits_beside_dump", 0),
            "unknown_to_dump": unknown[:20],
            "refs_read_by": manifest.facts.get("refs_read_by", "dump"),
            "unknown_to_walk": manifest.facts.get("unknown_to_walk", 0),
            "rules_without_branch": manifest.facts["rules_without_branch"],
        },
        limit="at least one commit, none that only one reading knows",
    )


def heads_are_readable(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """The commit of every branch is retained, and its metarange and ranges were read (safety 3, 5)."""
    commits, committed = manifests["retained_commits"].facts, manifests["committed_addresses"].facts
    heads, retained = commits["heads"], commits["heads_retained"]
    lacking = []
    if not heads:
        lacking.append("no branch has a head")
    if retained != heads:
        lacking.append(f"{retained} of {heads} heads are retained")
    for what in ("metaranges", "ranges"):
        wanted, read = committed[f"head_{what}"], committed[f"head_{what}_read"]
        if read != wanted:
            lacking.append(f"{'only ' if read < wanted else ''}{read} of their {wanted} {what} were read")
    return CheckResult(
        "heads_are_readable",
        "committed_addresses",
        not lacking,
        f"{commits['branches']} branches stand on {heads} commits with {committed['head_metaranges']} metaranges and "
        f"{committed['head_ranges']} ranges, "
        + ("all of them read" if not lacking else f"but {', '.join(lacking)}. Mark again under a new run key."),
        {
            "branches": commits["branches"],
            "heads": heads,
            "heads_retained": retained,
            **{
                name: committed[name]
                for name in ("head_metaranges", "head_metaranges_read", "head_ranges", "head_ranges_read")
            },
        },
        limit="every branch's head, every metarange and range of it",
    )


def ranges_were_read_whole(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """Every metarange and every range of every retained commit was read, entry by entry (safety 5)."""
    facts = manifests["committed_addresses"].facts
    # A mark of an earlier version did not count the rows: doubt, so it must be made again.
    metaranges, held, rows = (
        facts.get("metaranges", 0),
        facts.get("metarange_rows", 0),
        facts.get("metarange_rows_read"),
    )
    stored = manifests["committed_addresses"].rows + facts.get("addresses_left_out", 0)
    passed = (
        facts["metaranges_read"] == metaranges
        and held == rows
        and facts["ranges_read"] == facts["ranges"]
        and facts["entries_read"] == facts["entries"]
        and facts["addresses_read"] == stored
    )
    return CheckResult(
        "ranges_were_read_whole",
        "committed_addresses",
        passed,
        f"{metaranges} metaranges, {facts['ranges']} ranges with {facts['entries']} entries"
        + (
            ""
            if passed
            else f", of which only {facts['metaranges_read']}, {facts['ranges_read']} and {facts['entries_read']} were read, and "
            f"{held} of {'unknown' if rows is None else rows} rows of metaranges and {stored} of {facts['addresses_read']} addresses "
            "came out of it. Mark again under a new run key."
        ),
        {
            "metaranges": metaranges,
            "metaranges_read": facts["metaranges_read"],
            "metarange_rows": held,
            "metarange_rows_read": rows,
            **{name: facts[name] for name in ("ranges", "ranges_read", "entries", "entries_read", "addresses_read")},
            "addresses_left_out": facts.get("addresses_left_out", 0),
        },
        limit="no metarange, range or entry unread",
    )


def zero_ranges_are_proved(run: Run, manifests: Manifests) -> CheckResult:
    """Where the retained commits hold nothing, each of them says so itself (safety 3).

    A fresh repository and one whose last object was removed have no range. So
    has a reading that lost them; it is told apart by the metarange of each
    retained commit: the empty id, or one that was read and holds no range.
    """
    commits, committed = manifests["retained_commits"].facts, manifests["committed_addresses"].facts
    wanted, read, empty = commits["metaranges"], committed["retained_metaranges_read"], committed["empty_metaranges"]
    none = committed["ranges"] == 0
    passed = not none or (committed["retained_metaranges"] == wanted and read >= wanted and empty >= wanted)
    if not none:
        summary = f"the retained commits have {committed['ranges']} ranges"
    elif passed:
        summary = f"the retained commits have no range: {wanted} metaranges were read and hold none, the others have the empty id"
    else:
        summary = (
            f"the retained commits have no range, although they have {wanted} metaranges, of which {read} were read and {empty} "
            f"hold none: everything that {run.repository.id} committed would look unreachable. Mark again "
            "under a new run key; if it stays, report it with this run's manifests."
        )
    return CheckResult(
        "zero_ranges_are_proved",
        "committed_addresses",
        passed,
        summary,
        {
            "ranges": committed["ranges"],
            "metaranges_of_commits": wanted,
            "metaranges_of_ranges": committed["retained_metaranges"],
            "metaranges_read": read,
            "empty_metaranges": empty,
        },
        limit="no range only where each retained metarange was read and holds none",
    )
