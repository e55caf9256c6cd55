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
from pyspark.sql import DataFrame

from spark_core import quarantine
from spark_core.collectable import own_name
from spark_core.datasources import frame_of
from spark_core.errors import NotFoundError
from spark_core.lakefs import CallBudget, addresses_on
from spark_core.run import Run

NAMED = 20

# Paths held on the driver at once; what does not fit is not asked about, and so kept.
MAX_PATHS = 100_000

# Paths asked about on all branches before the next lot: what the budget reaches is then settled altogether.
LOT = 10_000


@dataclass(frozen=True)
class Twins:
    """What the search found.

    Attributes:
        live: What a branch really answers from: column address, and head_path, one of the paths. None for none.
        unchecked_sizes: Sizes of entries whose branches could not all be asked; None when all were.
        unchecked_any: An entry whose real size is unknown could not be asked about: every candidate may be its twin.
        facts: Figures and names for the manifest.
    """

    live: DataFrame | None
    unchecked_sizes: DataFrame | None
    unchecked_any: bool
    facts: Mapping[str, Any]

    def without_twins(self, candidates: DataFrame) -> DataFrame:
        """Take out what is live, and what could not be checked."""
        kept = _anti(candidates, self.live, "address")
        return kept.where("false") if self.unchecked_any else _anti(kept, self.unchecked_sizes, "size_bytes")


# Of a search without candidates: nobody need be asked.
NONE = Twins(
    None,
    None,
    unchecked_any=False,
    facts={"paths": 0, "paths_asked": 0, "calls": 0}
    | {f"{what}_{figure}": 0 for what in ("kept", "unchecked") for figure in ("objects", "bytes")}
    | {f"{what}_named": [] for what in ("kept", "unchecked")},
)


def find(run: Run, candidates: DataFrame, heads: DataFrame, said_sizes: DataFrame | None = None) -> Twins:
    """Ask the branches about every path whose committed entry has the size of a candidate.

    Only the size decides who is asked about. A checksum would tell more, but
    cannot be believed: a store that encrypts has ETags of its own that look like
    checksums, and may have begun to yesterday. Equal checksums only come first.

    Args:
        run: The run; `RunOptions.twin_calls` bounds the calls to the server.
        candidates: Columns of `schemas.NAMESPACE_SLICES`.
        heads: Entries of branch heads, those outside the namespace too: size_bytes, head_path, checksum.
        said_sizes: Paths (head_path) of entries whose size is not that of their object: a client said it when it linked
            the object, and may have said the same of a twin. Asked about whatever the sizes.

    Returns:
        What to keep.

    Raises:
        AddressError: If a branch answers with an address that we cannot place.
        IncompleteReadError: If the list of a branch's entries does not go on.
    """
    paths = _suspects(candidates, heads, said_sizes)
    # The likeliest and largest first: should not all be asked about, what is kept for it is small.
    order = (sf.col("size_bytes").isNotNull(), sf.desc("alike"), sf.desc("size_bytes"), sf.asc("head_path"))
    rows = paths.orderBy(*order).limit(MAX_PATHS + 1).collect()
    chosen = list(dict.fromkeys(bytes(row.head_path) for row in rows[:MAX_PATHS]))
    budget = CallBudget(1_000 if run.options.twin_calls is None else run.options.twin_calls)
    found = ask(run, [path.decode() for path in chosen if _is_text(path)], budget)
    asked = [path for path in chosen if _is_text(path) and path.decode() not in budget.unasked]
    live = None
    if found:
        live = frame_of(
            run.spark,
            pa.table(
                {"address": pa.array(found.keys(), pa.string()), "head_path": pa.array(found.values(), pa.string())}
            ),
        )
    left = _anti(candidates, live, "address")
    sizes, any_size = None, False
    if len(rows) > MAX_PATHS or len(asked) < len(chosen):
        known = frame_of(run.spark, pa.table({"head_path": pa.array(asked, pa.binary())}))
        unasked = _anti(paths, known, "head_path")
        any_size = not unasked.where("size_bytes is null").isEmpty()
        sizes = unasked.select("size_bytes").distinct()
    undecided = left if any_size else None if sizes is None else left.join(sizes, on="size_bytes", how="left_semi")
    facts = {
        "paths": len(chosen),
        "paths_asked": len(asked),
        "calls": budget.made,
        **_kept("kept", None if live is None else candidates.join(live, on="address", how="left_semi")),
        **_kept("unchecked", undecided),
    }
    return Twins(live, sizes, any_size, facts)


def _suspects(candidates: DataFrame, heads: DataFrame, said_sizes: DataFrame | None) -> DataFrame:
    """Return head_path, size_bytes (null: unknown) and alike (a candidate has the same checksum), each path and size once."""
    sizes = candidates.select("size_bytes").distinct()
    checksums = candidates.select("checksum").where("checksum is not null").distinct()
    paths = (
        heads.select("head_path", "size_bytes", "checksum")
        .join(sizes, on="size_bytes", how="left_semi")
        .join(checksums.withColumn("same", sf.lit(True)), on="checksum", how="left")
        .groupBy("head_path", "size_bytes")
        .agg(sf.coalesce(sf.max("same"), sf.lit(False)).alias("alike"))
    )
    if said_sizes is None:
        return paths
    unknown = said_sizes.select("head_path", sf.lit(None).cast("long").alias("size_bytes"), sf.lit(True).alias("alike"))
    return paths.unionByName(unknown.distinct())


def _anti(frame: DataFrame, without: DataFrame | None, on: str) -> DataFrame:
    return frame if without is None else frame.join(without, on=on, how="left_anti")


def ask(run: Run, paths: Sequence[str], budget: CallBudget) -> dict[str, str]:
    """Ask every branch where it keeps some paths.

    Args:
        run: The run.
        paths: Paths of entries, the most urgent first, each once.
        budget: Bounds the calls; notes what some branch was not asked about.

    Returns:
        Relative addresses from which a branch answers one of the paths, and that path.
    """
    live: dict[str, str] = {}
    branches = [branch.id for branch in run.server.branches(run.repository.id)] if paths else []
    for begin in range(0, len(paths), LOT):
        for branch in branches:
            live |= _ask_branch(run, branch, paths[begin : begin + LOT], budget)
    return live


def _ask_branch(run: Run, branch: str, paths: Sequence[str], budget: CallBudget) -> dict[str, str]:
    server, repository_id = run.server, run.repository.id
    live: dict[str, str] = {}
    try:
        for path, uri in addresses_on(server, repository_id, branch, paths, budget=budget):
            address = run.namespace.relative_absolute(uri) or _known_as(uri)
            if address is not None:
                live[address] = path
    except NotFoundError:
        # Deleted since it was listed: what was staged on it is gone with it. Anything else is a failure.
        if branch in {left.id for left in server.branches(repository_id)}:
            raise
    return live


def _known_as(uri: str) -> str | None:
    """Return the object that an address outside may be by another name of the store; in quarantine, its key there."""
    begin = uri.rfind(f"{quarantine.FOLDER}run_id=")
    return own_name(uri) if begin < 0 else uri[begin:]


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
