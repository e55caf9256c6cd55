"""What becomes today of each address in a mark of lakeFS's own job: may go, or why it is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core.addresses.candidates import CANDIDATE, Limits, standings_of
from spark_core.addresses.collectable import NOT_NAMEABLE, collectable_batch
from spark_core.errors import ChainError
from spark_core.holds import Holds
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures, ReferenceFigures, VerifiedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft
from spark_core.reference_job import marks
from spark_core.report.values import KEPT_BY_SETTING, Group, ReferenceReport, Standing
from spark_core.run import Run
from spark_core.schemas import spark_type
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import rebalanced

NAMED = 100

MAY_GO = "may go"
COMMITTED = "kept: a retained commit reaches it"
COMMITTED_MISSING = "a retained commit reaches it, and it is not in the store"
STAGED = "kept: staged on a branch"
STAGED_MISSING = "staged on a branch, and not in the store"
NO_ADDRESS = "kept: the mark has no address there"
UNNAMEABLE = "kept: cannot be named safely"
ABSOLUTE = "kept: an absolute address, which the reference job does not write"
OUTSIDE = "kept: lies outside data/"
PROTECTED = "kept: has a name that is never collected"
GONE = "not in the store: already gone, or never there"
YOUNG = "kept: younger than the cutoff"
HELD = "kept: held by name"
TWIN = "kept: identical content was uploaded again, and a branch may read from it"

# The reference job called these dead and they are alive. A person wants to see them first.
ALIVE = (COMMITTED_MISSING, STAGED_MISSING, COMMITTED, STAGED)

_NAMED = pa.schema([pa.field("address", pa.string()), pa.field("form", pa.string())])
_LISTED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("standing", pa.string(), nullable=False),
        pa.field("held", pa.bool_(), nullable=False),
    ]
)


def reference_addresses(run: Run, stored: Mapping[str, StoredTable]) -> Draft:
    """Say of each address of the verified mark whether it may go, from the run's tables only.

    Args:
        run: The run.
        stored: Its five tables, by name.

    Returns:
        Columns of `schemas.REFERENCE_ADDRESSES`: a row per different address of the mark.

    Raises:
        ChainError: If the run verified no mark.
        CorruptTableError: If the mark's files are not those that were verified.
    """
    began = run.now()
    verified = ExpiredFigures.of(stored[tables.EXPIRED_ADDRESSES.name].manifest).reference
    if verified is None:
        raise ChainError(
            f"run {run.key} of {run.repository.id} verified no mark of the reference job."
        )
    standing = _standings(run, stored, _addresses(run, verified))
    return Draft(
        tables.REFERENCE_ADDRESSES,
        rebalanced(standing),
        began,
        parents=[table.manifest for table in stored.values()],
        figures=lambda _, __: VerifiedFigures(mark_id=verified.mark_id),
    )


@surfacing_errors()
def of_reference(run: Run, stored: Mapping[str, StoredTable]) -> ReferenceReport | None:
    """Sum up the verified mark of a run, and store the standing of each address as Parquet.

    Args:
        run: The run.
        stored: Its five tables, by name.

    Returns:
        The sums; None when the run verified no mark.
    """
    verified = ExpiredFigures.of(stored[tables.EXPIRED_ADDRESSES.name].manifest).reference
    if verified is None:
        return None
    rows = run.keep(reference_addresses(run, stored)).frame(run.spark)
    counted = (
        rows.groupBy("standing").agg(
            sf.count("*").alias("objects"),
            sf.coalesce(sf.sum("size_bytes"), sf.lit(0)).alias("size"),
        )
    ).collect()
    groups = sorted(
        (Group(row["standing"], row["objects"], row["size"]) for row in counted), key=_order
    )
    alive_first = sf.when(sf.col("standing").isin(*ALIVE), 0).otherwise(1)
    named = (
        rows.where("NOT may_go").orderBy(alive_first, "standing", "address").limit(NAMED).collect()
    )
    return ReferenceReport(
        mark_id=verified.mark_id,
        addresses=verified.num_deleted_objects,
        eligible=Group(
            "lakegc's own mark would let go", verified.eligible_objects, verified.eligible_bytes
        ),
        standings=tuple(groups),
        kept=tuple(Standing(row["address"] or "", row["standing"]) for row in named),
    )


def _order(group: Group) -> tuple[bool, int, str]:
    return group.name != MAY_GO, -group.objects, group.name


def _addresses(run: Run, verified: ReferenceFigures) -> DataFrame:
    parts = [marks.MarkFile(key, -1, digest) for key, digest in sorted(verified.parts.items())]
    frame = marks.frame(run.spark, run.store, parts, partitions=run.options.range_partitions)
    return frame.distinct().mapInArrow(
        partial(_map_form, flat=run.options.flat), spark_type(_NAMED)
    )


def _map_form(batches: Iterator[pa.RecordBatch], *, flat: bool) -> Iterator[pa.RecordBatch]:
    """Add why the form of an address forbids deleting it; null if it does not."""
    for batch in batches:
        addresses = batch.column("address").cast(pa.string())
        choices = pa.StructArray.from_arrays(
            [
                pc.is_null(addresses),
                pc.match_substring(addresses, "://"),
                pc.match_substring_regex(addresses, NOT_NAMEABLE),
                pc.and_(
                    pc.invert(pc.starts_with(addresses, "data/")),
                    pc.invert(collectable_batch(addresses, flat=flat)),
                ),
                pc.invert(collectable_batch(addresses, flat=flat)),
            ],
            names=["null", "absolute", "odd", "outside", "protected"],
        )
        # A null in a condition counts as false.
        form = pc.case_when(
            choices,
            NO_ADDRESS,
            ABSOLUTE,
            UNNAMEABLE,
            OUTSIDE,
            PROTECTED,
            pa.scalar(None, pa.string()),
        )
        yield pa.record_batch([addresses, form], schema=_NAMED)


def _map_listed(
    limits: Limits, held: Holds, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        addresses = batch.column("address").cast(pa.string())
        yield pa.record_batch(
            [
                addresses,
                batch.column("size_bytes"),
                standings_of(batch, limits),
                held.protecting(addresses),
            ],
            schema=_LISTED,
        )


def _standings(run: Run, stored: Mapping[str, StoredTable], named: DataFrame) -> DataFrame:
    spark = run.spark
    held = Holds.of_figures(ExpiredFigures.of(stored["expired_addresses"].manifest).holds)
    listed = (
        stored["namespace_slices"]
        .frame(spark, ["address", "size_bytes", "last_modified"])
        .mapInArrow(partial(_map_listed, run.limits, held), spark_type(_LISTED))
    )
    # The smallest number wins, because the mark asks commits before anything else.
    expired = (
        stored["expired_addresses"]
        .frame(spark, ["address"])
        .select(sf.xxhash64("address").alias("address_hash"))
    )
    known = (
        stored["committed_addresses"]
        .frame(spark, ["address_hash"])
        .withColumn("known", sf.lit(1))
        .unionByName(
            stored["uncommitted_addresses"]
            .frame(spark, ["address_hash"])
            .withColumn("known", sf.lit(2))
        )
        .unionByName(expired.withColumn("known", sf.lit(3)))
        .groupBy("address_hash")
        .agg(sf.min("known").alias("known"))
    )
    there = sf.col("size_bytes").isNotNull()
    by_setting = sf.create_map(
        *(sf.lit(word) for name, why in KEPT_BY_SETTING.items() for word in (name, f"kept: {why}"))
    )
    standing = (
        sf.when((sf.col("known") == 1) & there, COMMITTED)
        .when(sf.col("known") == 1, COMMITTED_MISSING)
        .when((sf.col("known") == 2) & there, STAGED)
        .when(sf.col("known") == 2, STAGED_MISSING)
        .when(sf.col("known") == 3, MAY_GO)
        .when(sf.col("form").isNotNull(), sf.col("form"))
        .when(~there, GONE)
        .when(by_setting[sf.col("listed_as")].isNotNull(), by_setting[sf.col("listed_as")])
        .when(sf.col("listed_as") != CANDIDATE, YOUNG)
        .when(sf.col("held"), HELD)
        .otherwise(TWIN)
    )
    return (
        named.withColumn("address_hash", sf.xxhash64("address"))
        .join(known, on="address_hash", how="left")
        .join(listed.withColumnRenamed("standing", "listed_as"), on="address", how="left")
        .select(
            "address",
            "size_bytes",
            sf.coalesce(sf.col("known") == 3, sf.lit(False)).alias("may_go"),
            standing.alias("standing"),
        )
    )
