"""Find staged entries that the server's scan cannot see: identical content uploaded again (safety 14).

Such an entry has the size and checksum of the committed entry at its path, so
the scan takes it for unchanged; yet reads on the branch are answered from the
new object, which nothing else refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame

from spark_core.run import Run

NAMED = 20


@dataclass(frozen=True)
class Twins:
    """What the search found.

    Attributes:
        live: Addresses that a branch really answers from; column address.
        unchecked: Size and checksum of entries whose branches could not all be asked; null when all were.
        facts: Figures and names for the manifest.
        release: Lets go of what the search keeps in memory; call it when the result is stored.
    """

    live: DataFrame
    unchecked: DataFrame | None
    facts: Mapping[str, Any]
    release: Callable[[], object]

    def without_twins(self, candidates: DataFrame) -> DataFrame:
        """Take out what is live, and what could not be checked."""
        kept = candidates.join(self.live, on="address", how="left_anti")
        if self.unchecked is None:
            return kept
        return kept.join(self.unchecked, on=_alike(kept, self.unchecked), how="left_anti")


def find(run: Run, candidates: DataFrame, heads: DataFrame) -> Twins:
    """Ask the branches about every path whose committed entry looks like a candidate.

    The largest entries are asked about first, so that what remains unchecked
    within the budget (`RunOptions.twin_stat_budget`, in calls) is small.

    Args:
        run: The run.
        candidates: Columns of `schemas.NAMESPACE_SLICES`.
        heads: Entries of branch heads: address, size_bytes, head_path, checksum.

    Returns:
        What to keep. The number of calls never exceeds the budget.

    Raises:
        AddressError: If a branch answers with an address that we cannot place.
    """
    kinds = candidates.select("size_bytes", "checksum").distinct()
    paths = (
        heads.join(kinds, on=_alike(kinds, heads), how="left_semi")
        .select("head_path", "size_bytes", "checksum")
        .distinct()
        .persist()
    )
    total = paths.count()
    branches = [branch.id for branch in run.server.branches(run.repository.id)] if total else []
    asked = _affordable(run, paths, total, len(branches))
    answers = [
        _address_on_branch(run, branch, path) for path in asked.column("head_path").to_pylist() for branch in branches
    ]
    live = run.spark.createDataFrame(
        pa.table({"address": pa.array(sorted({address for address in answers if address is not None}), pa.string())})
    )
    unchecked = None
    if asked.num_rows < total:
        # Paths and sizes are never null; a checksum may be, and then the size alone decides.
        unchecked = paths.join(
            run.spark.createDataFrame(asked.select(["head_path", "size_bytes"])),
            on=["head_path", "size_bytes"],
            how="left_anti",
        ).select("size_bytes", "checksum")
    facts = {
        "paths": total,
        "paths_asked": asked.num_rows,
        "calls": len(answers),
        **_kept("kept", candidates.join(live, on="address", how="left_semi") if live.count() else None),
        **_kept(
            "unchecked",
            candidates.join(live, on="address", how="left_anti").join(
                unchecked, on=_alike(candidates, unchecked), how="left_semi"
            )
            if unchecked is not None
            else None,
        ),
    }
    return Twins(live, unchecked, facts, paths.unpersist)


def _affordable(run: Run, paths: DataFrame, total: int, branches: int) -> pa.Table:
    """Return the paths that the budget allows to ask about: largest first, and only those that a request can name."""
    columns = pa.schema([("head_path", pa.binary()), ("size_bytes", pa.int64())])
    if not total:
        return columns.empty_table()
    rows = (
        paths.select("head_path", "size_bytes")
        .distinct()
        .orderBy(sf.desc("size_bytes"), sf.asc("head_path"))
        .limit(run.options.twin_stat_budget // max(branches, 1))
        .collect()
    )
    return pa.Table.from_pylist([row.asDict() for row in rows if _is_text(bytes(row.head_path))], schema=columns)


def _is_text(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        # No request can name it, so it stays among the unchecked, which are kept.
        return False
    return True


def _kept(what: str, frame: DataFrame | None) -> dict[str, Any]:
    """Count and name objects that the search keeps from going."""
    if frame is None:
        return {f"{what}_objects": 0, f"{what}_bytes": 0, f"{what}_named": []}
    figures = frame.agg(sf.count("*"), sf.coalesce(sf.sum("size_bytes"), sf.lit(0))).first()
    assert figures is not None  # noqa: S101 - an aggregate without grouping has one row
    named = frame.orderBy("address").select("address").limit(NAMED).collect()
    return {
        f"{what}_objects": figures[0],
        f"{what}_bytes": figures[1],
        f"{what}_named": [row.address for row in named],
    }


def _address_on_branch(run: Run, branch: str, path: bytes) -> str | None:
    """Return the address inside the namespace from which a branch answers a path, None when there is none."""
    stat = run.server.stat(run.repository.id, branch, path.decode())
    if stat is None:
        return None
    return run.namespace.relative_absolute(stat.physical_address)


def _alike(candidates: DataFrame, heads: DataFrame) -> Column:
    """Say when a candidate could be an entry's twin: same size, and the same checksum where the store told one."""
    unknown = candidates["checksum"].isNull()
    return (candidates["size_bytes"] == heads["size_bytes"]) & (unknown | (candidates["checksum"] == heads["checksum"]))
