"""Read what is staged on a branch, and make its digest."""

from __future__ import annotations

import hashlib
import json
from itertools import islice

from spark_core.branches.stale.decide import MOST_STAGED, Staged
from spark_core.run import Run


def staged_on(run: Run, branch: str, *, dated: bool) -> Staged:
    """Read what is staged on a branch.

    Entries that are equal to the committed ones are not shown by the server.

    Args:
        run: The repository, opened.
        branch: The branch.
        dated: Whether the entries' dates are asked for, a call for each.
    """
    changes = run.server.diff_branch(run.repository.id, branch)
    rows = list(islice(changes, MOST_STAGED + 1 if dated else 1))
    if not rows or not dated or len(rows) > MOST_STAGED:
        return Staged(rows[0][0] if rows else "", has_more=dated and len(rows) > MOST_STAGED)
    reads = run.server.branch_reads
    entries = tuple(
        entry
        for path, change in rows
        for entry in [reads.staged(run.repository.id, branch, path, change)]
        if entry is not None
    )
    return Staged(rows[0][0], entries)


def digest_of(staged: Staged) -> str:
    """Return the digest of what is staged; empty for nothing."""
    if not staged.first:
        return ""
    rows = [
        (entry.path, entry.change, entry.checksum, entry.written and entry.written.isoformat())
        for entry in staged.entries
    ]
    return hashlib.sha256(json.dumps([staged.first, rows]).encode()).hexdigest()
