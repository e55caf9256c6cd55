"""Which commits had objects that came back, so that a person can refer to them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.errors import TABLES_UNREADABLE
from spark_core.records import tables
from spark_core.run import Run
from spark_core.spark.exchange import Batches

_Commit = tuple[datetime, str]


@dataclass(frozen=True)
class LastCommit:
    """A commit that was the last one to have some objects.

    Attributes:
        commit_id: Its id.
        objects: How many objects these are.
    """

    commit_id: str
    objects: int


def last_commits(run: Run, addresses: Sequence[str] | None) -> list[LastCommit]:
    """Return the last commits that had objects which a run let go, newest first.

    Args:
        run: The run; one whose explanations were never made, were pruned or are damaged knows none.
        addresses: Relative addresses; None for everything that the run let go.

    Returns:
        One row for each commit; each object is counted once.
    """
    wanted = None if addresses is None else pa.array(addresses, pa.string())
    try:
        named = run.load(tables.EXPLANATIONS).source(["address", "commit_id", "committed_at"])
        found = named.each(lambda: run.spark, partial(_by_commit, wanted))
    except TABLES_UNREADABLE:
        return []
    objects: Counter[_Commit] = sum(found, Counter())
    return [LastCommit(commit, objects[at, commit]) for at, commit in sorted(objects)[::-1]]


def _by_commit(wanted: pa.Array | None, batches: Batches) -> Counter[_Commit]:
    found: Counter[_Commit] = Counter()
    for batch in batches:
        asked = (
            batch
            if wanted is None
            else batch.filter(pc.is_in(batch.column("address"), value_set=wanted))
        )
        rows = pa.table(asked).group_by(["commit_id", "committed_at"])
        for row in rows.aggregate([([], "count_all")]).to_pylist():
            found[row["committed_at"], row["commit_id"]] += row["count_all"]
    return found
