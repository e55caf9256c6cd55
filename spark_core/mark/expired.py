"""Table 5: the listing, old enough and collectable, minus everything alive."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame

from spark_core import candidates as rule
from spark_core import chain, holds, quarantine, reference, schemas, tables
from spark_core.candidates import Limits
from spark_core.collectable import NOT_NAMEABLE, OWN_NAME
from spark_core.datasources import Settled, frame_of, rebalanced, settled, shared_counts
from spark_core.errors import ChainError
from spark_core.holds import Holds
from spark_core.mark import twins
from spark_core.mark.commits import WALK, tables_prefix
from spark_core.mark.committed import addresses_of_ranges
from spark_core.mark.heads import Heads
from spark_core.mark.sizes import HeadEntries, absent, named_since, said_sizes, sizes_of_later
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.session import surfacing_errors
from spark_core.tables import Draft, StoredTable

# A listing with how each object stands by its name and age.
_CONSIDERED = pa.schema([*schemas.NAMESPACE_SLICES, pa.field("standing", pa.string(), nullable=False)])

ONLY_EXPIRED_COMMITS = "only in commits past their retention"
NEVER_COMMITTED = "in no commit, and not staged"
UNREACHABLE = "in no retained commit, and not staged"

NAMED_MISSING = 20


@dataclass(frozen=True)
class Mark:
    """The four tables that the expired addresses are made from."""

    slices: StoredTable
    uncommitted: StoredTable
    commits: StoredTable
    committed: StoredTable

    @property
    def all(self) -> tuple[StoredTable, ...]:
        """The tables in the order in which they were read."""
        return (self.slices, self.uncommitted, self.commits, self.committed)


@surfacing_errors()
def expired_addresses(run: Run, mark: Mark) -> Draft:
    """Subtract what is alive from what is old: the objects that may go.

    The subtraction runs on a 64-bit hash of the address: a collision can only
    keep an object, never let one go. A run that verifies a mark of lakeFS's own
    job comes to the same result, and then lets go only what that mark names too.

    Args:
        run: The run.
        mark: Tables 1 to 4.

    Returns:
        Columns of `schemas.EXPIRED_ADDRESSES`, key address.

    Raises:
        ChainError: If the tables were not made one after the other in the safe order.
        CorruptTableError: If the mark to stay within is not what lakeFS's own job writes.
    """
    began = run.begin(tables.EXPIRED_ADDRESSES)
    chain.require_unbroken(run, [table.manifest for table in mark.all])
    spark = run.spark
    named = _reference_addresses(run, mark.slices)
    listing = mark.slices.frame(spark)
    staged = mark.uncommitted.frame(spark, ["address"])
    committed = mark.committed.frame(spark, ["address", "size_bytes", "head_path", "checksum"])
    alive = committed.select(alive_hash()).unionByName(staged.select(alive_hash()))

    counts = shared_counts(spark)
    # Compared with heads, checked for twins and written: three readers of one result, of the listing's rows at most.
    unreferenced = settled(
        listing.transform(considered(run.limits))
        .transform(safely_named(run.store.unsafe_names))
        .withColumn("address_hash", _address_hash())
        .join(alive, on="address_hash", how="left_anti"),
        is_small=mark.slices.is_small,
    )
    candidates = _candidates(unreferenced)
    unreachable = _rows_and_bytes(candidates)
    kept_by_setting = _kept_by_setting(unreferenced)
    held = holds.load(run.store)
    free = _free(candidates, held)
    left = _rows_and_bytes(free) if held.of_addresses else unreachable
    heads = committed.where(sf.col("head_path").isNotNull())
    live, missing = _compare_live(run, mark, staged, heads)
    # Nothing can be the twin of an entry where nothing is left to go.
    found = _twins(run, mark, free.frame, heads, (live, missing)) if left[0] else twins.NONE
    kept = free.frame.transform(found.without_twins)
    why = _Reasons.read(run, mark, counts)
    reasoned = kept.transform(why.explain).select(*schemas.EXPIRED_ADDRESSES.names)
    restriction: dict[str, Any] = {}
    if named is not None:
        eligible = _rows_and_bytes(Settled(kept, None))
        restriction = {"reference": {**named.facts, "eligible_objects": eligible[0], "eligible_bytes": eligible[1]}}
        reasoned = reasoned.transform(reference.within(named.frame))

    def facts() -> Mapping[str, Any]:
        unreferenced.release()
        why.unpersist()
        return {
            "unreachable_objects": unreachable[0],
            "unreachable_bytes": unreachable[1],
            "kept_by_setting": kept_by_setting,
            "holds": held.facts,
            "held_objects": unreachable[0] - left[0],
            "held_bytes": unreachable[1] - left[1],
            "twins": found.facts,
            "reasons_complete": why.complete,
            **live,
            **restriction,
            "requests": {kind: count for kind, count in counts.value.items() if kind != "unread"},
        }

    return Draft(
        tables.EXPIRED_ADDRESSES,
        rebalanced(reasoned) if candidates.rows is None else reasoned.toArrow(),
        began,
        parents=[table.manifest for table in mark.all],
        facts=facts,
        measure=partial(_measure, run.limits),
    )


def _twins(
    run: Run,
    mark: Mark,
    candidates: DataFrame,
    heads: DataFrame,
    compared: tuple[Mapping[str, Any], DataFrame | None],
) -> twins.Twins:
    """Search for what the server's scan cannot see; objects that were written since the listing are not missing."""
    live, missing = compared
    slices, commits = mark.slices.manifest, mark.commits.manifest
    listing = mark.slices.frame(run.spark, ["address", "size_bytes", "checksum"])
    committed = mark.committed.frame(run.spark, ["address", "size_bytes"])
    lost, are_sizes_said = None, live["other_sizes"] > 0 or not said_sizes(listing, committed).isEmpty()
    if missing is not None:
        since = slices.reading_began - run.options.longest_upload - run.options.max_clock_skew
        later = sizes_of_later(run, named_since(since, missing), listing)
        lost = absent(missing, later)
        are_sizes_said = are_sizes_said or not said_sizes(later, heads).isEmpty()
    since_when = Heads.of_facts(commits.facts)
    return twins.find(
        run,
        candidates,
        HeadEntries(heads, lost, are_sizes_said, listing),
        # A mark of an earlier version did not note them: of no branch anything is known.
        Heads(commits.reading_began, {}, is_damaged=True) if since_when is None else since_when,
        grace=timedelta(seconds=slices.facts.get("grace_period_seconds", 0)),
    )


def _reference_addresses(run: Run, slices: StoredTable) -> reference.Addresses | None:
    """Read the mark of lakeFS's own job that the run stays within, if it was begun to stay within one.

    Raises:
        ChainError: If the run was begun to stay within another one, or within none.
    """
    begun_with = slices.manifest.facts.get("reference_mark")
    if begun_with != run.reference_mark:
        raise ChainError(
            f"run {run.key} of {run.repository.id} was begun to verify {_mark_words(begun_with)}, now it is to verify "
            f"{_mark_words(run.reference_mark)}",
            "Use a new run key.",
        )
    if run.reference_mark is None:
        return None
    mark = reference.load(run.store, run.reference_mark)
    return reference.addresses(run.spark, run.store, mark, partitions=run.options.range_partitions)


def _mark_words(mark_id: object) -> str:
    return "no mark of the reference job" if mark_id is None else f"mark {mark_id} of the reference job"


def considered(limits: Limits) -> Callable[[DataFrame], DataFrame]:
    """Return the step that keeps what may be collected by its name and age, and what only a setting keeps from it.

    Args:
        limits: What name and age are compared with.

    Returns:
        A step over frames with the columns of `schemas.NAMESPACE_SLICES`; it adds `standing`, one of
        `candidates.CANDIDATE` and `candidates.KEPT_BY_SETTING`.
    """

    def step(listing: DataFrame) -> DataFrame:
        return listing.where(sf.col("last_modified") < sf.lit(limits.cutoff)).mapInArrow(
            partial(_map_considered, limits), spark_type(_CONSIDERED)
        )

    return step


def safely_named(unsafe_names: str) -> Callable[[DataFrame], DataFrame]:
    """Return the step that drops what this kind of store would not delete under exactly its own name.

    Args:
        unsafe_names: Pattern of such names, as `ObjectStore.unsafe_names`; the common one is part of `considered`.

    Returns:
        A step over frames with the columns of `schemas.NAMESPACE_SLICES`, among others.
    """

    def step(listing: DataFrame) -> DataFrame:
        if unsafe_names == NOT_NAMEABLE:
            return listing
        return listing.mapInArrow(partial(_map_safely_named, unsafe_names), listing.schema)

    return step


def without_held(held: Holds) -> Callable[[DataFrame], DataFrame]:
    """Return the step that leaves out what holds keep by its address.

    Args:
        held: The holds of the namespace.

    Returns:
        A step over frames with the columns of `schemas.NAMESPACE_SLICES` and `address_hash`.
    """

    def step(candidates: DataFrame) -> DataFrame:
        if not held.of_addresses:
            return candidates
        return candidates.mapInArrow(partial(_map_not_held, held), candidates.schema)

    return step


def _free(candidates: Settled, held: Holds) -> Settled:
    if not held.of_addresses:
        return candidates
    free = candidates.frame.transform(without_held(held))
    return Settled(free, None) if candidates.rows is None else settled(free, is_small=True)


def _map_not_held(held: Holds, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.invert(held.protecting(batch.column("address"))))


def _map_safely_named(unsafe_names: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.invert(pc.match_substring_regex(batch.column("address").cast(pa.string()), unsafe_names)))


def _map_considered(limits: Limits, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = rule.standings_of(batch, limits)
        chosen = pc.is_in(found, value_set=pa.array([rule.CANDIDATE, *rule.KEPT_BY_SETTING]))
        yield pa.record_batch([*batch.columns, found], names=_CONSIDERED.names).filter(chosen)


def _candidates(unreferenced: Settled) -> Settled:
    """Leave out what a setting keeps."""
    frame = unreferenced.frame.where(sf.col("standing") == rule.CANDIDATE).drop("standing")
    if unreferenced.rows is None:
        return Settled(frame, None)
    chosen = pc.equal(unreferenced.rows["standing"], rule.CANDIDATE)
    rows = unreferenced.rows.filter(chosen).drop_columns("standing")
    return Settled(frame_of(frame.sparkSession, rows, frame.schema), rows)


def _kept_by_setting(unreferenced: Settled) -> dict[str, dict[str, int]]:
    """Count what nothing refers to, and only a setting keeps: objects and bytes by the name of the setting."""
    if unreferenced.rows is None:
        summed = unreferenced.frame.groupBy("standing").agg(sf.count("*"), sf.sum("size_bytes")).toArrow()
    else:
        counted = unreferenced.rows.group_by("standing").aggregate([([], "count_all"), ("size_bytes", "sum")])
        summed = counted.select(["standing", "count_all", "size_bytes_sum"])
    figures = {name: found for name, *found in zip(*(column.to_pylist() for column in summed.columns), strict=True)}
    return {
        setting: dict(zip(("objects", "bytes"), figures.get(standing, (0, 0)), strict=True))
        for standing, setting in rule.KEPT_BY_SETTING.items()
    }


def _address_hash() -> Any:
    return sf.xxhash64("address").alias("address_hash")


def alive_address() -> Any:
    """Return the address of what is alive; of one outside that may be inside by another name, that of the object inside.

    What lies in quarantine is known by its key there, whatever leads to it.
    """
    inside = sf.regexp_replace("address", f"(?s)^.*/({OWN_NAME})$", "$1")
    aside = sf.regexp_replace("address", f"(?s)^.*({re.escape(quarantine.FOLDER)}run_id=)", "$1")
    return (
        sf.when(sf.col("address").startswith("data/"), sf.col("address"))
        .when(sf.col("address").contains(quarantine.FOLDER), aside)
        .otherwise(inside)
        .alias("address")
    )


def alive_hash() -> Any:
    """Hash `alive_address`."""
    return sf.xxhash64(alive_address()).alias("address_hash")


def _rows_and_bytes(found: Settled) -> tuple[int, int]:
    if found.rows is not None:
        return found.rows.num_rows, pc.sum(found.rows["size_bytes"]).as_py() or 0
    row = found.frame.agg(sf.count("*"), sf.coalesce(sf.sum("size_bytes"), sf.lit(0))).first()
    assert row is not None  # noqa: S101 - an aggregate without grouping has one row
    return row[0], row[1]


def _compare_live(run: Run, mark: Mark, staged: DataFrame, heads: DataFrame) -> tuple[dict[str, Any], DataFrame | None]:
    """Compare what heads and staged entries reach under `data/` with the listing.

    Some of it is missing for good reasons, such as staged keys that never
    existed; much of it means that the listing is of another place, or broken off
    (safety 5). An entry's size that is not its object's was said by a client.
    All that is missing is kept as a small table of its own, and its first rows in the figures.

    Returns:
        The figures, and what is missing (address); None for nothing.
    """
    live = (
        heads.select("address", "size_bytes")
        .unionByName(staged.select("address", sf.lit(None).cast("long").alias("size_bytes")))
        .where(sf.col("address").startswith("data/"))
        .groupBy("address")
        .agg(sf.min("size_bytes").alias("least"), sf.max("size_bytes").alias("most"))
        .withColumn("address_hash", _address_hash())
    )
    compared = settled(
        live.join(_listed_sizes(mark.slices.frame(run.spark)), on="address_hash", how="left").withColumn(
            "is_other",
            (sf.col("listed_bytes") != sf.col("least")) | (sf.col("listed_bytes") != sf.col("most")),
        ),
        is_small=all(table.is_small for table in (mark.slices, mark.uncommitted, mark.committed)),
    )
    missing = compared.frame.where(sf.col("listed_bytes").isNull())
    try:
        figures = _figures(compared)
        named = missing.orderBy("address").limit(NAMED_MISSING).collect() if figures[1] else []
        stored = _keep_missing(run, mark, missing) if figures[1] else None
    finally:
        compared.release()
    facts = {
        "live_objects": figures[0],
        "missing_objects": figures[1],
        "missing_named": [row.address for row in named],
        **({} if stored is None else _where(run, stored)),
        "other_sizes": figures[2],
    }
    return facts, None if stored is None else stored.frame(run.spark, ["address"])


def _figures(compared: Settled) -> tuple[int, int, int]:
    """Count all that is compared, what is missing of it, and what has another size."""
    if compared.rows is not None:
        missing = compared.rows["listed_bytes"].null_count
        return compared.rows.num_rows, missing, pc.sum(compared.rows["is_other"]).as_py() or 0
    row = compared.frame.agg(
        sf.count("*"), sf.count_if(sf.col("listed_bytes").isNull()), sf.count_if("is_other")
    ).first()
    assert row is not None  # noqa: S101 - an aggregate without grouping has one row
    return row[0], row[1], row[2]


def _keep_missing(run: Run, mark: Mark, missing: DataFrame) -> StoredTable:
    """Store the missing addresses."""
    return run.keep(
        Draft(
            tables.MISSING_ADDRESSES,
            rebalanced(missing.select("address")),
            run.now(),
            parents=[table.manifest for table in mark.all],
        )
    )


def _where(run: Run, stored: StoredTable) -> Mapping[str, str]:
    """Say where they lie, for people, and name the manifest, so that the verdict speaks of it."""
    return {
        "missing_table": f"{run.store.root}{tables.folder(tables.MISSING_ADDRESSES, run.key)}",
        "missing_manifest": stored.manifest.sha256,
    }


def _listed_sizes(listing: DataFrame) -> DataFrame:
    return listing.select(_address_hash(), sf.col("size_bytes").alias("listed_bytes"))


@dataclass
class _Reasons:
    """Why an object may go: words for the report, never part of the decision."""

    in_expired_commits: DataFrame | None
    complete: bool

    @classmethod
    def read(cls, run: Run, mark: Mark, counts: Accumulator[Counter[str]]) -> _Reasons:
        """Read the ranges that only expired commits have, up to the limit; a damaged one costs only the words.

        Where commits were walked, those that nothing leads to were not seen, so of no object it can be said that no commit
        had it.
        """
        wanted = mark.committed.manifest.facts["expired_ranges"]
        all_seen = wanted["all"] and mark.commits.manifest.facts.get("refs_read_by") != WALK
        if not wanted["ids"]:
            return cls(None, complete=all_seen)
        found = (
            addresses_of_ranges(run, tables_prefix(run), wanted["ids"], counts)
            .select(_address_hash(), sf.lit(True).alias("expired"))
            .distinct()
            .persist()
        )
        # Read before the words are chosen: they depend on whether everything could be read.
        found.count()
        return cls(found, complete=all_seen and not counts.value["unread"])

    def explain(self, frame: DataFrame) -> DataFrame:
        """Add the column `reason`."""
        otherwise = sf.lit(NEVER_COMMITTED if self.complete else UNREACHABLE)
        if self.in_expired_commits is None:
            return frame.withColumn("reason", otherwise)
        return frame.join(self.in_expired_commits, on="address_hash", how="left").withColumn(
            "reason", sf.when(sf.col("expired"), sf.lit(ONLY_EXPIRED_COMMITS)).otherwise(otherwise)
        )

    def unpersist(self) -> None:
        """Let go of what was read."""
        if self.in_expired_commits is not None:
            self.in_expired_commits.unpersist()


def _measure(limits: Limits, batch: pa.RecordBatch) -> Mapping[str, int]:
    """Count what the checks want to know of the result, from the rows as they are written."""
    sizes, reasons = batch.column("size_bytes"), batch.column("reason")
    found = rule.standings_of(batch, limits)

    def of(*standings: str) -> int:
        return pc.sum(pc.is_in(found, value_set=pa.array(standings))).as_py() or 0

    figures = {
        "expired_objects": batch.num_rows,
        "expired_bytes": pc.sum(sizes).as_py() or 0,
        "not_collectable": of(rule.PROTECTED),
        "too_young": of(rule.YOUNG, rule.UPLOAD),
        "not_of_lakefs": of(rule.STRANGER, rule.INHERITED),
    }
    for reason in (ONLY_EXPIRED_COMMITS, NEVER_COMMITTED, UNREACHABLE):
        chosen = pc.equal(reasons, reason)
        figures[f"objects {reason}"] = pc.sum(chosen).as_py() or 0
        figures[f"bytes {reason}"] = pc.sum(pc.if_else(chosen, sizes, 0)).as_py() or 0
    return figures
