"""Find staged entries that the server's scan cannot see: identical content uploaded again (safety 14).

Such an entry has the size and checksum of the committed entry at its path, so
the scan takes it for unchanged; yet reads on the branch are answered from the
new object, which nothing else refers to. Only the branch itself tells: its
entries are listed around every path whose committed entry looks like a candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame

from spark_core.errors import NotFoundError
from spark_core.lakefs import CallBudget, addresses_on
from spark_core.run import Run

NAMED = 20

# Paths held on the driver at once; what does not fit is not asked about, and so kept.
MAX_PATHS = 100_000


@dataclass(frozen=True)
class Twins:
    """What the search found.

    Attributes:
        live: Addresses that a branch really answers from; column address.
        unchecked: Size and checksum of entries whose branches could not all be asked; null when all were.
        facts: Figures and names for the manifest.
    """

    live: DataFrame | None
    unchecked: DataFrame | None
    facts: Mapping[str, Any]

    def without_twins(self, candidates: DataFrame) -> DataFrame:
        """Take out what is live, and what could not be checked."""
        kept = candidates
        if self.live is not None:
            kept = kept.join(self.live, on="address", how="left_anti")
        if self.unchecked is not None:
            kept = kept.join(self.unchecked, on=_alike(kept, self.unchecked), how="left_anti")
        return kept


def find(run: Run, candidates: DataFrame, heads: DataFrame, *, trust_checksums: bool) -> Twins:
    """Ask the branches about every path whose committed entry looks like a candidate.

    Args:
        run: The run; `RunOptions.twin_calls` bounds the calls to the server.
        candidates: Columns of `schemas.NAMESPACE_SLICES`.
        heads: Entries of branch heads: address, size_bytes, head_path, checksum.
        trust_checksums: The listing's checksums are the entries' own; otherwise only sizes are compared.

    Returns:
        What to keep.

    Raises:
        AddressError: If a branch answers with an address that we cannot place.
        IncompleteReadError: If the list of a branch's entries does not go on.
    """
    if not trust_checksums:
        candidates = candidates.withColumn("checksum", sf.lit(None).cast("string"))
    kinds = candidates.select("size_bytes", "checksum").distinct()
    paths = heads.join(kinds, on=_alike(kinds, heads), how="left_semi").select("head_path", "size_bytes", "checksum")
    # The largest first: should not all fit, what is kept unchecked is small.
    rows = paths.orderBy(sf.desc("size_bytes"), sf.asc("head_path")).limit(MAX_PATHS + 1).collect()
    chosen = {bytes(row.head_path) for row in rows[:MAX_PATHS]}
    budget = CallBudget(run.options.twin_calls)
    found = ask(run, [path.decode() for path in chosen if _is_text(path)], budget)
    live = None
    if found:
        live = run.spark.createDataFrame(pa.table({"address": pa.array(sorted(found), pa.string())}))
    asked = [path for path in sorted(chosen) if _is_text(path) and path.decode() not in budget.unasked]
    unchecked = None
    if len(rows) > MAX_PATHS or len(asked) < len(chosen):
        known = run.spark.createDataFrame(pa.table({"head_path": pa.array(asked, pa.binary())}))
        unchecked = paths.join(known, on="head_path", how="left_anti").select("size_bytes", "checksum")
    undecided = candidates if live is None else candidates.join(live, on="address", how="left_anti")
    facts = {
        "paths": len(chosen),
        "paths_asked": len(asked),
        "calls": budget.made,
        "checksums_compared": trust_checksums,
        **_kept("kept", None if live is None else candidates.join(live, on="address", how="left_semi")),
        **_kept(
            "unchecked",
            None if unchecked is None else undecided.join(unchecked, on=_alike(undecided, unchecked), how="left_semi"),
        ),
    }
    return Twins(live, unchecked, facts)


def ask(run: Run, paths: Sequence[str], budget: CallBudget) -> set[str]:
    """Ask every branch where it keeps some paths.

    Args:
        run: The run.
        paths: Paths of entries.
        budget: Bounds the calls; notes what some branch was not asked about.

    Returns:
        Relative addresses from which a branch answers one of the paths.
    """
    live: set[str] = set()
    server, repository_id = run.server, run.repository.id
    for branch in server.branches(repository_id) if paths else ():
        try:
            for _, uri in addresses_on(server, repository_id, branch.id, paths, budget=budget):
                address = run.namespace.relative_absolute(uri)
                if address is not None:
                    live.add(address)
        except NotFoundError:
            # Deleted since it was listed: what was staged on it is gone with it. Anything else is a failure.
            if branch.id in {left.id for left in server.branches(repository_id)}:
                raise
    return live


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


def _alike(candidates: DataFrame, heads: DataFrame) -> Column:
    """Say when a candidate could be an entry's twin: same size, and the same checksum where the store told one."""
    unknown = candidates["checksum"].isNull()
    return (candidates["size_bytes"] == heads["size_bytes"]) & (unknown | (candidates["checksum"] == heads["checksum"]))
