"""Which objects in quarantine something refers to: they stay when their days are over.

An object that a sweep took by a retention policy is still reached by commits, or staged. It stays
if it is held or hidden, or if the policy no longer names it. If commits reach it, it also stays if
it is staged. Once no commit reaches it and it is not staged, it is garbage like any other object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core.checks import verdict
from spark_core.errors import IncompleteReadError
from spark_core.optimized.base import require_full
from spark_core.recorded_work import Rows
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from spark_core.records.reading import StoredTable
from spark_core.references import policy_rows
from spark_core.run import Run
from spark_core.spark.rows import as_frame
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import frame_of
from spark_core.sweep import references_now

_NAMES = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("size_bytes", pa.int64())]
)


@dataclass(frozen=True)
class Needed:
    """The part of the quarantine that something refers to.

    Attributes:
        began: The time by the run's clock before the first byte of moving data was read.
        names: Addresses of objects, and keys of copies, that something refers to: a set if few were
            asked about, else a frame of one column, address.
    """

    began: datetime
    names: frozenset[str] | DataFrame


# Finds which of these objects are needed. The second argument is their number.
FindNeeded: TypeAlias = Callable[[Rows, int], Needed]


def is_unknown(run: Run) -> bool:
    """Say whether the mark of a run cannot tell what is needed.

    An optimized mark compared its candidates with all retained ranges, and read only those that may
    have one. Objects in quarantine are not among its candidates.
    """
    return ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).base is not None


def needed_finder(run: Run) -> FindNeeded:
    """Return the function that finds which objects are needed.

    An object is needed if the mark reached it, or if it is referenced by what is read again now, as
    before a sweep. Both names of each object are looked for, because somebody may refer to the copy
    where it lies. The function remembers the mark's tables for one purge: what the mark reached
    never changes, so its tables are read once.

    Args:
        run: A run that is marked.
    """
    looks: list[_Looks] = []

    @surfacing_errors()
    def find(some: Rows, count: int) -> Needed:
        """Find which of these objects are needed.

        Raises:
            ChainError: If the run has no mark, or an optimized one.
            LakegcError: If anything could not be read to its end; then nothing is known, and
                nothing may be purged.
        """
        mark = verdict.load_mark(run)
        require_full(run, "read everything that may need what is in quarantine")
        # The rows are counted and compared, and both must see the same rows.
        names = _names(run, some).persist()
        try:
            # Nobody would find that an object is needed if it were missing from this frame.
            if (held := names.count()) != 2 * count:
                raise IncompleteReadError(
                    f"repository {run.repository.id}: Spark holds {held} of the {2 * count} names "
                    "of objects in quarantine that were to be looked for",
                    "Run again; if it stays, report it with this text and Spark's version.",
                )
            # One address may have copies of several runs.
            plan = names.distinct()
            if not looks:
                looks.append(_Looks.begin(run, plan, mark))
            found = looks[0].again(run, plan, mark)
            needed = looks[0].reached(found.frame).unionByName(found.frame.select("address"))
            needed = needed.distinct()
            # Read to its end while its sources are held.
            if isinstance(some, pa.Table):
                held_names = frozenset(needed.toArrow()["address"].to_pylist())
                return Needed(found.began, held_names)
            return Needed(found.began, needed.localCheckpoint())
        finally:
            names.unpersist()

    return find


@dataclass(frozen=True)
class _Looks:
    """What one purge finds out once: column address of each.

    Attributes:
        committed: Objects that the mark's commits reach ...
        staged: ... and those that were staged.
        by_policy: Those of both that sweeps took by a retention policy; None for none.
        again: Reads what refers to the rest now.
    """

    committed: DataFrame
    staged: DataFrame
    by_policy: DataFrame | None
    again: Callable[..., references_now.ReferencesNow]

    @classmethod
    def begin(cls, run: Run, plan: DataFrame, mark: Mapping[str, StoredTable]) -> _Looks:
        """Compare the names of what is in quarantine with the mark, and with earlier sweeps."""
        committed, staged = (
            _reached(plan, mark[name].frame(run.spark, ["address_hash"]))
            for name in (tables.COMMITTED_ADDRESSES.name, tables.UNCOMMITTED_ADDRESSES.name)
        )
        taken = policy_rows.taken(run)
        by_policy = None
        if taken is not None:
            reached = committed.unionByName(staged).distinct()
            by_policy = _reached(reached, as_frame(run.spark, taken))
        again = references_now.reader_of_references(
            None if by_policy is None else references_now.ByPolicy(by_policy)
        )
        return cls(committed, staged, by_policy, again)

    def reached(self, found: DataFrame) -> DataFrame:
        """Return what the mark reached, without what the policy still names.

        Args:
            found: Column address: what must be kept, as a look just now found.
        """
        reached = self.committed.unionByName(self.staged)
        if self.by_policy is not None:
            # `found` also has what is staged now, unless a rule takes each of its staged names.
            let_go = self.by_policy.join(found, on="address", how="left_anti")
            reached = reached.join(let_go, on="address", how="left_anti")
        return reached


def _names(run: Run, some: Rows) -> DataFrame:
    """Return columns address and size_bytes, two rows per object: its address and its key."""
    if isinstance(some, pa.Table):
        both = [
            some.select([name, "size_bytes"]).rename_columns(_NAMES.names)
            for name in ("address", "key")
        ]
        return frame_of(run.spark, pa.concat_tables(both).cast(_NAMES))
    return some.select(sf.explode(sf.array("address", "key")).alias("address"), "size_bytes")


def _reached(plan: DataFrame, hashes: DataFrame) -> DataFrame:
    hashed = plan.select("address", sf.xxhash64("address").alias("address_hash"))
    # Read to its end now, so that the plan of the next look is smaller.
    return (
        hashed.join(hashes, on="address_hash", how="left_semi").select("address").localCheckpoint()
    )
