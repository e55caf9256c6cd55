"""Unite the retained commits that lakegc worked out with the server's list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.errors import IncompleteReadError
from spark_core.model import Refs
from spark_core.retention.retained import Retention
from spark_core.schemas import RETAINED_COMMITS

# Reason of a commit that only the server's list retains.
SERVER_ONLY = "the server's list"
# Reason of a row that is a metarange which no retained commit names.
COMPACTED = "staged entries that the server compacted"


def merge(ours: Iterable[Retention], server_rows: pa.Table | None, refs: Refs) -> pa.Table:
    """Unite the two readings: a commit that either of them retains is retained.

    If a commit is in the server's list and not in the refs, it was made between the
    two readings, or the refs are not whole. It is kept with the metarange of the
    server's list, and `unknown_commits` names it for the guard.

    Args:
        ours: The result of `retained_commits`; each commit is in `refs`.
        server_rows: Columns commit_id and metarange_id as the server lists them
            (`lakefs.read_retained`); None without rules, when there is no list.
        refs: The graph from which `ours` was worked out.

    Returns:
        Columns of `schemas.RETAINED_COMMITS`, sorted by commit_id, which is the key.

    Raises:
        IncompleteReadError: If the two readings give one commit different metaranges.
    """
    listed = _metaranges(server_rows)
    kept = {retention.commit_id: retention for retention in ours}
    columns: dict[str, list[object]] = {name: [] for name in RETAINED_COMMITS.names}
    for commit_id in sorted(kept.keys() | listed.keys()):
        retention, commit = kept.get(commit_id), refs.commits.get(commit_id)
        metarange_id = listed[commit_id] if commit is None else commit.metarange_id
        _refuse_other_metarange(commit_id, metarange_id, listed)
        columns["commit_id"].append(commit_id)
        columns["metarange_id"].append(metarange_id)
        columns["created_at"].append(commit and commit.creation_date)
        columns["reason"].append(retention.reason if retention else SERVER_ONLY)
        columns["retained_by"].append(_retained_by(retention, listed=commit_id in listed))
        columns["retained_until"].append(retention and retention.until)
        columns["is_head"].append(retention is not None and retention.is_head)
    return pa.table(columns, schema=RETAINED_COMMITS)


def with_holds(ours: Iterable[Retention], held: Mapping[str, str]) -> list[Retention]:
    """Add the commits that holds keep; a commit under a hold has no end.

    Args:
        ours: The result of `retained_commits`.
        held: Why each held commit is kept, by commit id (`Holds.commits`).

    Returns:
        One value for each commit, in order of commit id.
    """
    kept = {retention.commit_id: retention for retention in ours}
    for commit_id, why in held.items():
        retention = kept.get(commit_id)
        if retention is None:
            kept[commit_id] = Retention(commit_id, why, None, is_head=False)
        elif retention.until is not None:
            kept[commit_id] = replace(retention, reason=why, until=None)
    return [kept[commit_id] for commit_id in sorted(kept)]


def with_compacted(commits: pa.Table, metaranges: Iterable[str]) -> pa.Table:
    """Add metaranges that no retained commit names: each is a row of its own, under its own id.

    Args:
        commits: Columns of `RETAINED_COMMITS`.
        metaranges: Their ids.

    Returns:
        Columns of `RETAINED_COMMITS`, sorted by commit_id.

    Examples:
        >>> found = with_compacted(RETAINED_COMMITS.empty_table(), ["ab"])
        >>> found.select(["metarange_id", "reason"]).to_pylist()
        [{'metarange_id': 'ab', 'reason': 'staged entries that the server compacted'}]
    """
    rows = [
        {
            "commit_id": id_,
            "metarange_id": id_,
            "reason": COMPACTED,
            "retained_by": "lakegc",
            "is_head": False,
        }
        for id_ in metaranges
    ]
    if not rows:
        return commits
    more = pa.Table.from_pylist(rows, schema=RETAINED_COMMITS)
    return pa.concat_tables([commits, more]).sort_by("commit_id")


def compacted_in(commits: pa.Table) -> list[str]:
    """Return the metaranges that `with_compacted` added: columns metarange_id and reason."""
    rows = commits.filter(pc.equal(commits["reason"], COMPACTED))
    return list(rows["metarange_id"].to_pylist())


def _retained_by(retention: Retention | None, *, listed: bool) -> str:
    if retention is None:
        return "server"
    return "server+lakegc" if listed else "lakegc"


def unknown_commits(server_rows: pa.Table, refs: Refs) -> list[str]:
    """List the commits that are in the server's list and not in the refs, for the guard.

    Args:
        server_rows: Columns commit_id and metarange_id as the server lists them.
        refs: The graph that was read.

    Returns:
        Their ids, sorted; `merge` keeps these commits too.
    """
    return sorted(set(server_rows["commit_id"].to_pylist()) - refs.commits.keys())


def _metaranges(server_rows: pa.Table | None) -> dict[str, str]:
    """Index the server's list by commit id."""
    listed: dict[str, str] = {}
    if server_rows is None:
        return listed
    pairs = zip(
        server_rows["commit_id"].to_pylist(), server_rows["metarange_id"].to_pylist(), strict=True
    )
    for commit_id, metarange_id in pairs:
        _refuse_other_metarange(commit_id, metarange_id, listed)
        listed[commit_id] = metarange_id
    return listed


def _refuse_other_metarange(commit_id: str, metarange_id: str, listed: dict[str, str]) -> None:
    """Refuse two metaranges for one commit, which never changes, so one reading is wrong."""
    other = listed.get(commit_id, metarange_id)
    if other != metarange_id:
        raise IncompleteReadError(
            f"commit {commit_id} has metarange {metarange_id or '(empty)'} in one reading and "
            f"{other or '(empty)'} in the server's list; a commit has one metarange for ever, so "
            "one of the readings is not of this repository",
            "Run again; if it stays, compare the refs dump and commits.csv of this run.",
        )
